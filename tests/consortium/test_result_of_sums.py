"""The result of an exchange of sums: one folder, whoever makes it; what linear algebra computes may
differ in its last digits between machines, and nothing else.
"""

import json
import random
import shutil
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from consortium import MASKED, NAMES, SUMS
from results import SHORT, Studied, bent, sentences, verified

from pdml.consortium.result_folder import files_of
from pdml.mechanisms import masks
from pdml.model.model import load_model
from pdml.node.job.job_result import assemble
from pdml.node.protocol import wire_messages
from pdml.training import sums_fit

KINDS = {"seen": SUMS, "masked": MASKED}


@pytest.fixture(scope="module", params=KINDS)
def ended(request, tmp_path_factory):
    """Four nodes after one exchange; ``ended.folder / "result"`` is what came out."""
    made = Studied(tmp_path_factory.mktemp("ended"), plan=KINDS[request.param])
    made.run()
    made.write(made.folder / "result")
    yield made
    made.close()


@pytest.fixture
def result(ended, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(ended.folder / "result", tmp_path / "result")


def test_an_honest_result_is_accepted_and_its_model_is_that_of_the_total(ended):
    found = verified(ended.folder / "result", study=ended.study.hash)
    assert found.ok and not found.unchecked and found.rounds == 1
    model = load_model(ended.folder / "result" / "model.json")
    place = ended.servers[0].spec
    expected = sums_fit.weights(ended.rows().sum(axis=0), ended.job_terms.plan, place)
    np.testing.assert_array_equal(np.column_stack([model.coefficients, model.intercepts]), expected)


def test_every_member_makes_the_same_bytes(ended):
    signed = ended.tell()
    backwards = {name: signed[name] for name in reversed(NAMES)}
    files = files_of(assemble(ended.study, ended.job_terms, backwards))
    folder = ended.folder / "result"
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}
    assert found == files


def changed(result, change):
    """The model with something else in it, in the spelling that all use."""
    values = json.loads((result / "model.json").read_bytes())
    change(values)
    text = json.dumps(values, indent=1, ensure_ascii=False).encode()
    (result / "model.json").write_bytes(text)


FIGURES = ("low", "middle", "high", "confidence")


def expects(figure):
    """One of the figures that a model expects of itself, by its last digit."""

    def change(values):
        found = values["expected"] if figure == "confidence" else values["expected"]["accuracy"]
        found[figure] = round(found[figure] + (1e-4 if found[figure] < 0.5 else -1e-4), 4)

    return change


def moved(units):
    """The first weight, by so many units of the grid on which weights are rounded."""

    def change(values):
        largest = np.abs([*values["coefficients"][0], *values["intercepts"]]).max()
        grid = 2.0 ** (np.ceil(np.log2(largest)) - 24)
        values["coefficients"][0][0] += units * grid

    return change


@pytest.mark.parametrize("change", [moved(1), moved(-1), *map(expects, FIGURES)])
def test_last_digits_of_another_machine_need_leave(result, change):
    """Nobody can tell them from a change: by default every byte is compared."""
    changed(result, change)
    found = verified(result)
    assert [problem.kind for problem in found.problems] == ["model"]
    assert "differ in their last digit" in found.problems[0].sentence
    assert not found.checked and "--allow-unchecked" in found.problems[0].sentence
    allowed = verified(result, allow_unchecked=True)
    assert allowed.ok and allowed.unchecked == ("model.json",)  # the page shows other figures
    assert "report.html is what they give, to the byte." in allowed.checked


@pytest.mark.parametrize(
    "change",
    [
        moved(0.5),  # off the grid
        moved(2),
        lambda values: values["expected"]["accuracy"].update(low=0.0),
        moved(-1e6),
        lambda values: values.update(norm_bound=1.0000001),
        lambda values: values.update(local="alice"),
        lambda values: values["provenance"].update(job="job-2"),
        lambda values: values["privacy"]["rows"][0].update(epsilon=0.1),
        lambda values: values["coefficients"][0].append(0.0),
        lambda values: values["coefficients"][0].__setitem__(0, None),
        lambda values: values.update(expected={**values["expected"], "confidence": 0.999}),
        lambda values: values.update(expected=None),
        lambda values: values.pop("expected"),
        lambda values: values.update(intercepts=[float("nan")]),
    ],
)
def test_what_is_more_than_last_digits_is_refused(result, change):
    changed(result, change)
    assert "model.json is not what the statements give: it was changed" in sentences(result)
    assert not verified(result, allow_unchecked=True).ok


@pytest.mark.parametrize("change", [moved(1), expects("confidence")])
def test_a_page_that_cannot_be_checked_is_a_failure_unless_allowed(result, change):
    """Else one last digit would let anybody put any page beside a verified model."""
    changed(result, change)
    (result / "report.html").write_text("All is well.")
    found = verified(result)
    assert not found.ok and [problem.kind for problem in found.problems] == ["model", "page"]
    assert "report.html cannot be checked" in found.problems[1].sentence
    assert "--allow-unchecked" in found.problems[1].sentence
    allowed = verified(result, allow_unchecked=True)
    assert allowed.ok and allowed.unchecked == ("model.json", "report.html")
    assert allowed.to_dict()["unchecked"] == ["model.json", "report.html"]


def test_a_page_that_can_be_checked_is_never_allowed_to_differ(result):
    (result / "report.html").write_text("All is well.")
    found = verified(result, allow_unchecked=True)
    assert not found.ok and not found.unchecked


@pytest.mark.parametrize("file", ["model.json", "statements/carol.statement"])
def test_any_change_of_a_byte_is_refused(result, ended, file):
    rng, path = random.Random(3), result / file
    own = (ended.folder / "result" / file).read_bytes()
    for _ in range(60):
        path.write_bytes(data := bent(own, rng))
        assert verified(result).ok is (data == own)


def test_near_is_no_more_than_it_says():
    own = {"coefficients": [[1.0, 0.5]], "intercepts": [0.25], "expected": None, "other": [1]}
    spelt = json.dumps(own, indent=1).encode()
    unit = 2.0**-24

    def near(**changes):
        return sums_fit.equal_up_to_rounding(
            json.dumps({**own, **changes}, indent=1).encode(), spelt
        )

    assert near() and near(intercepts=[0.25 + unit]) and near(coefficients=[[1 - unit, 0.5]])
    assert not near(intercepts=[0.25 + unit / 2]) and not near(intercepts=[0.25 + 2 * unit])
    assert not near(intercepts=[0.25 + 1.01 * unit]) and not near(other=[1.0])
    assert not near(coefficients=[[1, 0.5]]) and not near(coefficients=[[1.0], [0.5]])
    assert not near(expected={}) and not near(more=1)
    assert not sums_fit.equal_up_to_rounding(
        spelt + b" ", spelt
    ) and not sums_fit.equal_up_to_rounding(b"[]", spelt)
    assert not sums_fit.equal_up_to_rounding(b"", spelt) and not sums_fit.equal_up_to_rounding(
        b"\xff", spelt
    )


def another_row(ended, name):
    """What a masked server would say that sent words of its own choice, to all alike."""
    payload = masks.words(bytes(32), ended.job_terms.shape[1]).tobytes()
    digest = bytes.fromhex(wire_messages.hash_of(payload))

    def heard(said):
        told = [
            msgspec.structs.replace(each, digests=digest) if each.sender == name else each
            for each in said.received
        ]
        return {"received": told}

    lies = dict.fromkeys(NAMES, heard)
    lies[name] = {"release": payload, "sent": digest}
    return lies


def test_a_masked_lie_leaves_no_model_and_names_nobody(tmp_path):
    made = Studied(tmp_path, plan=MASKED)
    made.run()
    found = made.write(tmp_path / "result", **another_row(made, "carol"))
    (problem,) = found.problems
    assert (problem.kind, problem.servers) == ("total", ())
    assert "masks hide which" in problem.sentence
    assert not (tmp_path / "result" / "model.json").exists()
    told = verified(tmp_path / "result")
    assert [each.kind for each in told.problems] == ["total"]
    made.close()


def test_the_same_lie_without_masks_has_a_name(tmp_path):
    made = Studied(tmp_path, plan=SUMS)
    made.run()
    with pytest.raises(Exception, match="carol tells a last release that no honest node"):
        made.write(tmp_path / "result", **another_row(made, "carol"))
    made.close()


def test_a_study_without_a_plan_lets_each_job_choose(tmp_path):
    made = Studied(tmp_path, plan=replace(SUMS, label_noise=4.0), settled=False)
    made.run()
    made.write(tmp_path / "result")
    assert verified(tmp_path / "result").ok
    made.close()


def test_sums_of_an_earlier_job_count_from_the_first_round_on(tmp_path):
    """The rounds that follow them end where the ledger of all jobs does, and begin above them."""
    first = Studied(tmp_path, plan=replace(SUMS, square_noise=9.0), settled=False)
    first.run()
    for name in NAMES:
        first.party(name).statement()
        first.party(name).finish()
    before = max(line.epsilon for line in others(first.party("alice").ledger))
    first.close()
    second = Studied(tmp_path, plan=SHORT, job="job-2", settled=False)
    second.run()
    outcome = assemble(second.study, second.job_terms, second.tell()).result
    spent = outcome.history.spent
    assert before < spent[0] < spent[-1]
    assert spent[-1] == pytest.approx(max(line.epsilon for line in others(outcome.ledger)))
    second.close()


def others(ledger):
    return [line for line in ledger.rows() if line.adversary == "other servers"][1:]
