"""`pdml privacy`: the ledger in words, before a run and after it."""

import json
import re
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
from estimators import make_classifier

from pdml import PDMLClassifier
from pdml.accounting import Budget, Ledger
from pdml.accounting.events import LabelFlipped
from pdml.cli import main
from pdml.formatting import numbers
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan

SETTINGS = [
    "--records",
    "4500",
    "--servers",
    "10",
    "--degree",
    "2",
    "--features",
    "20",
    "--epsilon",
    "1",
    "--rounds",
    "60",
]
SPEC = ServerSpec(server=0, n_servers=10, degree=2, records=4500, epsilons=(1.0,), width=20)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(("privacy", *arguments))
    said = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, said.out, said.err


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code, out, err = run(capsys, *arguments)
    assert (
        (code, out) == (1, "")
        and re.fullmatch(r"pdml: [^\n]+\n", err)
        and "mistake in pdml" not in err
    ), err
    return err


def ledger(rounds: int = 60, **plan: float) -> Ledger:
    return Ledger(((LabelFlipped(epsilon=1.0), *TrainingPlan(rounds=rounds, **plan).events(SPEC)),))


def test_settings_say_what_the_ledger_says(capsys: pytest.CaptureFixture[str]) -> None:
    answer = output(capsys, *SETTINGS)
    for line, expected in zip(answer["rows"], ledger().rows(), strict=True):
        assert (line["data"], line["adversary"], line["certainty"]) == (
            expected.data,
            expected.adversary,
            expected.certainty,
        )
        assert float(line["epsilon"]) == expected.epsilon
    assert [row["features_epsilon"] for row in answer["rounds"]] == ledger().epsilons("features")
    assert [row["labels_epsilon"] for row in answer["rounds"]] == ledger().epsilons("label")
    assert "budget" not in answer and answer["settings"]["plan"]["rounds"] == 60


def test_without_a_plan_it_is_the_one_that_a_training_chooses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = np.random.default_rng(0).normal(size=(1200, 4))
    settings = {"features_epsilon": 0.8, "delta": 1e-5, "colluding": 2}
    fitted = PDMLClassifier(2.0, n_servers=4, classes=(False, True), **settings)  # type: ignore[arg-type]
    fitted.fit(x, x[:, 0] > 0)
    asked = ["--records", "300", "--servers", "4", "--features", "5", "--epsilon", "2"]
    asked += ["--features-epsilon", "0.8", "--delta", "1e-5", "--colluding", "2"]
    answer = output(capsys, *asked)
    assert answer["settings"]["plan"] == fitted.model_.plan
    spent = fitted.privacy_.row("features", "other servers", colluding=2).epsilon
    planned = [row["epsilon"] for row in answer["coalitions"] if row["data"] == "features"]
    assert planned[1] == spent and answer["budget"]["within"]
    assert "The plan that pdml train would choose for this: one exchange of sums." in flat(
        run(capsys, *asked)[1]
    )


def test_half_the_noise_shows(capsys: pytest.CaptureFixture[str]) -> None:
    loud, quiet = (
        output(capsys, *SETTINGS, "--noise-scale", scale)["rounds"][-1]["features_epsilon"]
        for scale in ("0.3", "0.15")
    )
    assert quiet > 1.5 * loud


@pytest.mark.parametrize(("limit", "within"), [("0.5", True), ("0.15", False), ("0.001", False)])
def test_the_last_safe_round_of_a_budget(
    capsys: pytest.CaptureFixture[str], limit: str, within: bool
) -> None:
    arguments = [*SETTINGS, "--features-epsilon", limit, "--features-delta", "1e-6"]
    budget = output(capsys, *arguments)["budget"]
    safe = ledger(500).last_safe_round(Budget(features_epsilon=float(limit)))
    assert (budget["last_safe_round"], budget["within"], budget["labels_epsilon"]) == (
        safe,
        within,
        "inf",
    )
    code, out, err = run(capsys, *arguments)
    words = " ".join(out.split())
    expected = f"the last safe round is {safe}" if safe else "not even the first round is safe"
    assert (code, err) == (0, "") and expected in words
    assert ("would be refused" in words) is not within


def test_labels_have_a_budget_too(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        *SETTINGS,
        "--objective-noise",
        "none",
        "--labels-epsilon",
        "0.03",
        "--labels-delta",
        "1e-5",
    ]
    plain = ledger(500, objective_noise="none")  # type: ignore[arg-type]
    assert output(capsys, *arguments)["budget"]["last_safe_round"] == plain.last_safe_round(
        Budget(labels_epsilon=0.03, labels_delta=1e-5)
    )


def test_people_are_told_how_sure_somebody_can_be(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *SETTINGS)
    assert code == 0 and "If I said yes, how sure can they be?" in out
    assert "73.1%" in out and "unprotected" in out  # e/(1 + e) against the own server
    assert "round by round" in out


def test_no_label_privacy_is_infinite_and_still_json(capsys: pytest.CaptureFixture[str]) -> None:
    answer = output(
        capsys, "--records", "100", "--epsilon", "inf", "--noise-scale", "0", "--rounds", "2"
    )
    assert (
        answer["settings"]["epsilon"] == "inf" and answer["rounds"][0]["features_epsilon"] == "inf"
    )


def test_a_smaller_epsilon_of_somebody_else_costs_more(capsys: pytest.CaptureFixture[str]) -> None:
    """Their louder report is theirs: it makes the features line longer, and nobody's label."""
    alone, mixed = (
        output(capsys, *SETTINGS, "--smallest-epsilon", e)["rounds"][-1] for e in ("1", "0.2")
    )
    assert mixed["features_epsilon"] > 1.02 * alone["features_epsilon"]
    assert alone["labels_epsilon"] <= mixed["labels_epsilon"] < 1.1 * alone["labels_epsilon"]


def test_a_model_says_what_it_has_spent(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    fitted = make_classifier(n_servers=3, rounds=3, random_state=0).fit(x, x[:, 0] > 0)
    path = tmp_path / "model.json"
    fitted.model_.save(path)
    answer = output(capsys, str(path))
    assert [float(line["epsilon"]) for line in answer["rows"]] == [
        line.epsilon for line in fitted.privacy_.rows()
    ]
    assert answer["source"] == "simulated"
    code, out, err = run(capsys, str(path))
    assert (code, err) == (0, "") and "73.1%" in out and "simulated" in out
    assert "--rounds must be left out" in refused(capsys, str(path), "--rounds", "3")
    path.write_text(path.read_text().replace('"rows"', '"lines"'))
    assert "does not say what its training spent" in refused(capsys, str(path))


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_masked_plan_has_lines_for_one_half_its_own_and_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = ["--records", "900", "--servers", "10", "--method", "sums", "--colluding", "6"]
    plan = TrainingPlan(method="sums", colluding=6)
    spec = replace(SPEC, records=900, width=10, degree=1)
    book = Ledger(((LabelFlipped(epsilon=1.0, epsilons=(1.0,)), *plan.events(spec)),))
    answer = output(capsys, *settings)
    for data, each in (("label", answer["coalitions"][:9]), ("features", answer["coalitions"][9:])):
        assert [line["colluding"] for line in each] == list(range(1, 10))
        known = book.coalitions(data)
        assert [line["epsilon"] for line in each] == [line.epsilon for line in known]
        assert [line["reason"] for line in each] == [line.reason for line in known]
    code, out, err = run(capsys, *settings, "--features-epsilon", "1.1")
    words = flat(out)
    assert (code, err) == (0, "") and "round by round" not in words
    for k, who in ((1, "any 1 other server"), (4, "any 4"), (6, "any 6"), (9, "all 9")):
        spent = numbers.epsilon(book.row("features", "other servers", colluding=k).epsilon)
        assert re.search(rf"{who}[^%]*%[^%]*% {re.escape(spent)}", words), (who, spent)
        if k < 9:
            assert (
                f"with the device's randomised response, hidden in the total of {10 - k} servers"
                in words
            )
    assert "any 2 " not in words and "stream cipher" in words
    assert "against any 6 of the other servers together: one exchange of sums is within it" in words
    refusing = flat(run(capsys, *settings, "--features-epsilon", "0.5")[1])
    assert "one exchange of sums would be refused" in refusing


def test_a_masked_model_has_them_too_and_every_line_says_why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    masked = TrainingPlan(method="sums", colluding=2)
    fitted = PDMLClassifier(n_servers=6, plan=masked, random_state=0).fit(x, x[:, 0] > 0)
    path = tmp_path / "model.json"
    fitted.model_.save(path)
    assert len(output(capsys, str(path))["coalitions"]) == 10
    words = flat(run(capsys, str(path))[1])
    assert "any 1 other server" in words and "all 5 other servers together" in words
    assert words.count("any 2 other servers together") == 2  # half and the plan's: once each table
    for line in fitted.privacy_.overview(2):
        assert line.reason in words
    damaged = path.read_text().replace('"colluding": 4', '"colluding": "four"')
    path.write_text(damaged)
    assert "does not say what its training spent" in refused(capsys, str(path))


def test_a_model_of_rounds_says_why_and_has_no_coalitions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    rounds = TrainingPlan(rounds=3)
    fitted = PDMLClassifier(n_servers=3, plan=rounds, random_state=0).fit(x, x[:, 0] > 0)
    path = tmp_path / "model.json"
    fitted.model_.save(path)
    words = flat(run(capsys, str(path))[1])
    assert "any 1 other" not in words and "stream cipher" not in words
    assert all(line.reason in words for line in fitted.privacy_.rows())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "at least --records"),
        (["--records", "9", "--rounds", "3", "--colluding", "2"], "--colluding must be left out"),
        (["--records", "9", "--rounds", "3", "--topology", "ring"], "--topology must be left out"),
        (["--records", "9", "--method", "sums", "--rounds", "7"], "rounds must be 1"),
        (["--records", "9", "--method", "sums", "--colluding", "10"], "--colluding must be below"),
        (["--rounds", "3"], "at least --records"),
        (["--records", "0"], "records must"),
        (["--records", "9", "--degree", "10"], "degree must"),
        (["--records", "9", "--servers", "1"], "servers must"),
        (["--records", "9", "--epsilon", "0"], "epsilon must"),
        (["--records", "9", "--epsilon", "nan"], "epsilon must"),
        (["--records", "9", "--smallest-epsilon", "2"], "--smallest-epsilon must"),
        (["--records", "9", "--delta", "1"], "delta must"),
        (["--records", "9", "--features-epsilon", "-1"], "--features-epsilon must"),
        (["--records", "9", "--rounds", "3", "--features-delta", "1e-5"], "a budget needs"),
        (["--records", "9", "--noise-decay", "1"], "--noise-decay must"),
        (["nothing.json"], "cannot be read"),
    ],
)
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert says in refused(capsys, *arguments)


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0 and "pdml privacy --records 4500" in out and "pdml privacy model.json" in out


def test_certainty_of_infinity() -> None:
    assert ledger(noise_scale=0.0).row("features", "other servers").epsilon == inf
