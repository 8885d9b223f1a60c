"""`pdml plan`: a budget becomes a plan, what it spends and what it costs; what cannot be is one
sentence.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_study import STUDY
from running import run

from pdml import Budget, TrainingPlan, load_model
from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.study import Study
from pdml.study.schema.template import plain

GOOD = [
    "plan",
    "--features-epsilon",
    "1",
    "--records",
    "1000",
    "--servers",
    "5",
    "--features",
    "10",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0 and "pdml:" not in err  # a slow machine tells its progress
    found: dict[str, Any] = json.loads(out)
    return found


def test_says_the_plan_what_it_spends_and_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *GOOD)
    assert (code, err) == (0, "")
    for heading in (
        "The plan",
        "The budget",
        "how sure can they be",
        "What it is worth",
        "joining pays is too close to say",
        "95% interval",
        "in the top fifth",
        "a server with its own reports",
    ):
        assert heading in " ".join(out.split())


@pytest.mark.parametrize(("method", "said"), [("rounds", "sqrt(C)"), ("sums", "noise of each")])
def test_one_method_may_be_asked_for(
    capsys: pytest.CaptureFixture[str], method: str, said: str
) -> None:
    code, out, err = run(capsys, *GOOD, "--method", method)
    assert (code, err) == (0, "") and said in out


def test_a_plan_may_assume_that_few_collude(capsys: pytest.CaptureFixture[str]) -> None:
    found = outcome(capsys, *GOOD, "--colluding", "2", "--method", "sums")
    assert found["plan"]["colluding"] == found["colluding"] == 2
    assert any(
        "no more than 2 of the other servers are assumed to collude" in reason
        for reason in found["reasons"]
    )


def test_json_holds_the_plan_within_the_budget_and_the_ledger(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = outcome(capsys, *GOOD, "--labels-epsilon", "0.3")
    assert all(row["spent"] <= row["allowed"] for row in found["budget"])
    assert [row["allowed"] for row in found["budget"]] == [1.0, 0.3]
    TrainingPlan.from_dict(found["plan"])
    spent = {(line["data"], line["adversary"]): line["epsilon"] for line in found["ledger"]["rows"]}
    assert spent["features", "other servers"] == pytest.approx(found["budget"][0]["spent"])
    worth = {name: each["accuracy"]["middle"] for name, each in found["candidates"].items()}
    ahead = worth[found["method"]] > max(worth["alone"], worth["majority"])
    assert {"pays": ahead, "does not pay": not ahead}.get(found["pays"], True)


def test_a_rare_class_is_judged_by_its_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Where one in ten has it, nearly everybody is right who always says no, and ranks nobody."""
    rare = outcome(capsys, *GOOD, "--prevalence", "0.05:0.15")
    assert "the AUC of the joint model" in rare["verdict"]
    majority = rare["candidates"]["majority"]
    assert majority["accuracy"]["middle"] > 0.8 and majority["auc"]["middle"] == 0.5
    assert majority["top_fifth"]["middle"] == pytest.approx(0.2)
    by_accuracy = outcome(capsys, *GOOD, "--prevalence", "0.1", "--yardstick", "accuracy")
    assert "share of right answers" in by_accuracy["verdict"]


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (("--prevalence", "few"), "--prevalence must be a share such as 0.1"),
        (("--prevalence", "1.2"), "prevalence must be two shares between 0 and 1"),
        (("--yardstick", "luck"), "yardstick must be one of"),
    ],
)
def test_bad_yardsticks_are_refused(
    capsys: pytest.CaptureFixture[str], option: tuple[str, ...], sentence: str
) -> None:
    code, out, err = run(capsys, *GOOD, *option)
    assert (code, out) == (1, "") and sentence in err


def test_writes_a_plan_that_trains(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *GOOD, "--out", "plan.json")
    assert code == 0 and "plan.json" in out
    plan = TrainingPlan.from_dict(json.loads(Path("plan.json").read_text())["plan"])
    assert plan.rounds >= 1
    code, out, err = run(capsys, *GOOD, "--out", "plan.json")
    assert (code, out) == (1, "") and "exists already" in err
    assert run(capsys, *GOOD, "--out", "plan.json", "--force")[0] == 0


@pytest.mark.parametrize("method", ["rounds", "sums"])
def test_train_keeps_to_the_plan_its_links_and_its_budget(
    capsys: pytest.CaptureFixture[str], method: str
) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'yes' if a + b > 1 else 'no'}" for a, b in rng.random((8000, 2))]
    Path("people.csv").write_text("\n".join(["height,weight,ill", *rows]))
    asked = [
        "plan",
        "--records",
        "2000",
        "--servers",
        "4",
        "--features",
        "2",
        "--features-epsilon",
        "1",
        "--topology",
        "ring",
        "--method",
        method,
    ]
    assert run(capsys, *asked, "--out", "plan.json")[0] == 0
    declared = [
        "--label",
        "ill",
        "--range",
        "height=0:1",
        "--range",
        "weight=0:1",
        "--classes",
        "no,yes",
    ]
    train = ["train", "people.csv", *declared, "--plan", "plan.json", "--seed", "1"]
    code, _, err = run(capsys, *train, "--json")
    assert code == 0, err
    lines = {
        (line["data"], line["adversary"]): line["epsilon"]
        for line in load_model("model.json").privacy["rows"]
    }
    assert 0.5 < lines["features", "other servers"] <= 1.0
    if method == "rounds":
        assert load_model("model.json").provenance["links"] == [[0, 1], [0, 3], [1, 2], [2, 3]]
    refused = [(["--rounds", "3"], "--rounds must be left out beside --plan")]
    if method == "rounds":  # where more private reports are louder; in sums they are quieter
        refused.append((["--epsilon", "0.5"], "budget"))
    for extra, sentence in refused:
        code, _, err = run(capsys, *train, "--force", *extra)
        assert code == 1 and sentence in err, err
    Path("plan.json").write_text("{}")
    code, _, err = run(capsys, *train, "--force")
    assert code == 1 and "is not a plan that `pdml plan --out` wrote" in err


def test_records_may_differ_by_server(capsys: pytest.CaptureFixture[str]) -> None:
    each = ["--records", "500,1000,2000,4000,8000", "--topology", "ring", "--method", "rounds"]
    found = outcome(capsys, *GOOD, *each)
    scales = found["plan"]["noise_scale"]
    assert scales == sorted(scales, reverse=True) and len(set(scales)) == 5


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--records", "ten"], "whole numbers"),
        (["--records", "1,2"], r"one per server \(5"),
        (["--records", "0"], "records must"),
        (["--records", ""], "--records must say"),
        (["--features", "0"], "--features must"),
        (["--features-epsilon", "-1"], "--features-epsilon must"),
        (["--features-delta", "2"], "--features-delta must"),
        (["--features-epsilon", "0"], "--features-epsilon must .* no release"),
        (["--epsilon", "0"], "--epsilon must"),
        (["--epsilon", "nan"], "--epsilon must"),
        (["--labels-epsilon", "9"], "--labels-epsilon must be at most --epsilon, 1, or inf"),
        (["--classes", "1"], "classes must"),
        (["--topology", "tree"], "topology must"),
        (["--features-delta", "0"], "no Gaussian noise reaches it"),
        (["--colluding", "5"], "colluding must"),
        (["--method", "magic"], "method must"),
        (["--target-accuracy", "0.9"], "needs --like"),
        (["--like", "public.csv"], "needs --label"),
        (["--like", "public.csv", "--label", "y"], "public.csv"),
        (["--out", "."], "it is a folder"),
    ],
)
def test_bad_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    code, out, err = run(capsys, *GOOD, *more)
    assert (code, out) == (1, "") and re.fullmatch(r"pdml: [^\n]+\n", err), err
    assert re.search(said, err) and "mistake in pdml" not in err


def public(path: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 3)).round(3)
    answer = np.where(x @ [2.0, -1.0, 0.5] > 0, "yes", "no")
    lines = [
        ",".join([*map(str, row), label]) for row, label in zip(x.tolist(), answer, strict=True)
    ]
    Path(path).write_text("a,b,c,sick\n" + "\n".join(lines) + "\n")


def test_plans_with_public_records_of_the_same_shape(capsys: pytest.CaptureFixture[str]) -> None:
    public("public.csv")
    like = ["--like", "public.csv", "--label", "sick"]
    found = outcome(capsys, "plan", "--servers", "3", "--records", "2000", *like)
    assert found["budget"][0]["spent"] <= 1
    code, _, err = run(
        capsys, "plan", "--servers", "3", "--records", "2000", "--features", "9", *like
    )
    assert code == 1 and "--features must be 3" in err


def test_the_smallest_epsilon_for_an_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    public("public.csv")
    command = ["plan", "--servers", "3", "--like", "public.csv", "--label", "sick"]
    found = outcome(capsys, *command, "--target-accuracy", "0.7")
    assert found["accuracy"] >= 0.7 and found["budget"][0]["spent"] <= found["epsilon"]
    code, out, err = run(capsys, *command, "--target-accuracy", "0.7")
    assert (code, err) == (0, "") and "The smallest epsilon that reaches 70.0%" in out
    code, out, err = run(capsys, *command, "--target-accuracy", "1.5")
    assert (code, out) == (1, "") and "--target-accuracy must" in err


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "plan", "--help")
    assert code == 0 and "pdml plan --features-epsilon 1" in out


def test_a_study_says_what_is_planned_for(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """Its randomised answers are rehearsed, and have lines; whatever it settles is refused."""
    status = Category(
        name="status", levels=("a", "b", "c"), epsilon=Menu(menu=(0.5, 1.0), default=0.5)
    )
    encoder = Encoder(attributes=(Number(name="age", low=18, high=100), status))
    budget = Budget(features_epsilon=1.0)
    study = replace(STUDY, encoder=encoder, wording={}, budget=budget)
    file = folder / "study.toml"
    file.write_text(plain(study))
    found = outcome(capsys, "plan", str(file), "--records", "400")
    assert found["method"] == "sums" and len(found["links"]) == 2
    settled = Study.from_text(file.read_text() + "\n" + found["lines"])
    assert settled.plan == TrainingPlan.from_dict(found["plan"])
    assert "'status' (suggested epsilon 0.5)" in found["reasons"][-1]
    assert {line["data"] for line in found["ledger"]["rows"]} >= {"label", "features"}
    code, out, _ = run(capsys, "plan", str(file), "--records", "400")
    assert code == 0 and "label epsilon 0.4 to 2." in out and "of the answer: status" in out
    assert "settle it:" in out and "[plan]" in out
    for more, said in (
        (["--servers", "3"], "--servers must be left out with a study, which settles it"),
        (["--features-epsilon", "2"], "--features-epsilon must be left out: the study has a"),
        (["--like", str(file)], "--like needs --label"),
        (["--records", "49"], "--records must be at least min_records of the study, 200, got 49"),
        (["--records", "400,400,49"], "200, got 49: a server with fewer does not train"),
    ):
        code, _, err = run(capsys, "plan", str(file), "--records", "400", *more)
        assert code == 1 and said in err
    file.write_text(plain(replace(study, budget=None)))
    found = outcome(capsys, "plan", str(file), "--records", "400", "--features-epsilon", "2")
    assert found["budget"][0]["allowed"] == 2 and found["budget"][1]["allowed"] == "inf"


def test_how_many_people_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """On the page of a board and in a table; the forecast itself has tests of its own."""
    wanted = ("plan", "--target-auc", "0.6", "--prevalence", "0.1", "--questions", "4")
    code, out, err = run(capsys, *wanted, "--page", "plan.html")
    assert code == 0 and "pdml:" not in err
    assert "How many people are needed" in out and "page  plan.html" in out
    assert b"4 columns of known answers" in Path("plan.html").read_bytes()
    code, out, err = run(capsys, *wanted, "--page", "plan.html")
    assert (code, out) == (1, "") and "exists already" in err
    few = outcome(capsys, *wanted, "--servers", "5", "--colluding", "1", "--epsilon", "2")
    assert [row["epsilon"] for row in few["needed"]] == [0.5, 1.0, 2.0]
    people = [row["people"] for row in few["needed"]]
    assert people == sorted(people, reverse=True)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (("--target-auc", "0.4", "--questions", "3"), "--target-auc must be a number in (0.5, 1)"),
        (("--target-auc", "0.7"), "--questions must be the number of columns"),
        (("--target-auc", "0.7", "--records", "40"), "--records must be left out"),
        (("--page", "plan.html", "--records", "40"), "--page needs --target-auc"),
    ],
)
def test_bad_questions_about_people_are_refused(
    capsys: pytest.CaptureFixture[str], option: tuple[str, ...], sentence: str
) -> None:
    code, out, err = run(capsys, "plan", *option)
    assert (code, out) == (1, "") and sentence in err
