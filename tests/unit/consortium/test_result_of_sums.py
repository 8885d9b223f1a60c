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
    consortium = Studied(tmp_path_factory.mktemp("ended"), plan=KINDS[request.param])
    consortium.run()
    consortium.write(consortium.folder / "result")
    yield consortium
    consortium.close()


@pytest.fixture
def result(ended, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(ended.folder / "result", tmp_path / "result")


def test_an_honest_result_is_accepted_and_its_model_is_that_of_the_total(ended):
    verification = verified(ended.folder / "result", study=ended.study.hash)
    assert verification.ok and not verification.unchecked and verification.rounds == 1
    model = load_model(ended.folder / "result" / "model.json")
    place = ended.servers[0].spec
    expected = sums_fit.weights(ended.rows().sum(axis=0), ended.job_terms.plan, place)
    np.testing.assert_array_equal(np.column_stack([model.coefficients, model.intercepts]), expected)


def test_every_member_makes_the_same_bytes(ended):
    signed = ended.tell()
    backwards = {name: signed[name] for name in reversed(NAMES)}
    files = files_of(assemble(ended.study, ended.job_terms, backwards))
    folder = ended.folder / "result"
    written = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}
    assert written == files


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
        figures = values["expected"] if figure == "confidence" else values["expected"]["accuracy"]
        figures[figure] = round(figures[figure] + (1e-4 if figures[figure] < 0.5 else -1e-4), 4)

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
    verification = verified(result)
    assert [problem.kind for problem in verification.problems] == ["model"]
    assert "differ in their last digit" in verification.problems[0].sentence
    assert not verification.checked and "--allow-unchecked" in verification.problems[0].sentence
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
    verification = verified(result)
    assert not verification.ok and [problem.kind for problem in verification.problems] == [
        "model",
        "page",
    ]
    assert "report.html cannot be checked" in verification.problems[1].sentence
    assert "--allow-unchecked" in verification.problems[1].sentence
    allowed = verified(result, allow_unchecked=True)
    assert allowed.ok and allowed.unchecked == ("model.json", "report.html")
    assert allowed.to_dict()["unchecked"] == ["model.json", "report.html"]


def test_a_page_that_can_be_checked_is_never_allowed_to_differ(result):
    (result / "report.html").write_text("All is well.")
    verification = verified(result, allow_unchecked=True)
    assert not verification.ok and not verification.unchecked


@pytest.mark.parametrize("file", ["model.json", "statements/carol.statement"])
def test_any_change_of_a_byte_is_refused(result, ended, file):
    rng, path = random.Random(3), result / file
    original = (ended.folder / "result" / file).read_bytes()
    for _ in range(60):
        path.write_bytes(data := bent(original, rng))
        assert verified(result).ok is (data == original)


def test_near_is_no_more_than_it_says():
    original = {"coefficients": [[1.0, 0.5]], "intercepts": [0.25], "expected": None, "other": [1]}
    stored = json.dumps(original, indent=1).encode()
    unit = 2.0**-24

    def near(**changes):
        return sums_fit.equal_up_to_rounding(
            json.dumps({**original, **changes}, indent=1).encode(), stored
        )

    assert near() and near(intercepts=[0.25 + unit]) and near(coefficients=[[1 - unit, 0.5]])
    assert not near(intercepts=[0.25 + unit / 2]) and not near(intercepts=[0.25 + 2 * unit])
    assert not near(intercepts=[0.25 + 1.01 * unit]) and not near(other=[1.0])
    assert not near(coefficients=[[1, 0.5]]) and not near(coefficients=[[1.0], [0.5]])
    assert not near(expected={}) and not near(more=1)
    assert not sums_fit.equal_up_to_rounding(
        stored + b" ", stored
    ) and not sums_fit.equal_up_to_rounding(b"[]", stored)
    assert not sums_fit.equal_up_to_rounding(b"", stored) and not sums_fit.equal_up_to_rounding(
        b"\xff", stored
    )


def another_row(ended, name):
    """What a masked server would say that sent words of its own choice, to all alike."""
    payload = masks.words(bytes(32), ended.job_terms.shape[1]).tobytes()
    digest = bytes.fromhex(wire_messages.hash_of(payload))

    def releases(statement):
        received = [
            msgspec.structs.replace(part, digests=digest) if part.sender == name else part
            for part in statement.received
        ]
        return {"received": received}

    lies = dict.fromkeys(NAMES, releases)
    lies[name] = {"release": payload, "sent": digest}
    return lies


def test_a_masked_lie_leaves_no_model_and_names_nobody(tmp_path):
    consortium = Studied(tmp_path, plan=MASKED)
    consortium.run()
    verification = consortium.write(tmp_path / "result", **another_row(consortium, "carol"))
    (problem,) = verification.problems
    assert (problem.kind, problem.servers) == ("total", ())
    assert "masks hide which" in problem.sentence
    assert not (tmp_path / "result" / "model.json").exists()
    text = verified(tmp_path / "result")
    assert [part.kind for part in text.problems] == ["total"]
    consortium.close()


def test_the_same_lie_without_masks_has_a_name(tmp_path):
    consortium = Studied(tmp_path, plan=SUMS)
    consortium.run()
    with pytest.raises(Exception, match="carol tells a last release that no honest node"):
        consortium.write(tmp_path / "result", **another_row(consortium, "carol"))
    consortium.close()


def test_a_study_without_a_plan_lets_each_job_choose(tmp_path):
    consortium = Studied(tmp_path, plan=replace(SUMS, label_noise=4.0), fixed_plan=False)
    consortium.run()
    consortium.write(tmp_path / "result")
    assert verified(tmp_path / "result").ok
    consortium.close()


def test_sums_of_an_earlier_job_count_from_the_first_round_on(tmp_path):
    """The rounds that follow them end where the ledger of all jobs does, and begin above them."""
    first = Studied(tmp_path, plan=replace(SUMS, square_noise=9.0), fixed_plan=False)
    first.run()
    for name in NAMES:
        first.party(name).statement()
        first.party(name).finish()
    before = max(line.epsilon for line in others(first.party("alice").ledger))
    first.close()
    second = Studied(tmp_path, plan=SHORT, job="job-2", fixed_plan=False)
    second.run()
    outcome = assemble(second.study, second.job_terms, second.tell()).result
    spent = outcome.history.spent
    assert before < spent[0] < spent[-1]
    assert spent[-1] == pytest.approx(max(line.epsilon for line in others(outcome.ledger)))
    second.close()


def others(ledger):
    return [line for line in ledger.rows() if line.adversary == "other servers"][1:]
