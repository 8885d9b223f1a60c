"""`pdml study`: new, check and show."""

import json
import os
import pty
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from example_study import STUDY, TOLD
from running import PDML, run

from pdml import Study
from pdml.accounting import Budget
from pdml.encoding.attributes import Menu
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Consent, Organiser
from pdml.study.schema import template

EVERYTHING = "all answers together, the sensitive one included"

CSV = "age,sex,town,diagnosis\n34,male,A,no\n55,female,B,yes\n"
FROM_CSV = ["study", "new", "--from-csv", "p.csv", "--label", "diagnosis", "--ignore", "town"]
DECLARED = ["--classes", "no,yes", "--range", "age=18:100", "--levels", "sex=female,male,other"]
PLANNED = "\n[plan]\nrounds = {rounds}\nnoise_scale = {scale}\n"
BUDGET = "features = { epsilon = 1, delta = 1e-06 }\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "p.csv").write_text(CSV)
    return tmp_path


@pytest.fixture
def file(capsys: pytest.CaptureFixture[str], folder: Path) -> Path:
    assert (
        run(
            capsys,
            *FROM_CSV,
            *DECLARED,
            "--servers",
            "alice=https://a.test,bob=https://b.test:8443",
        )[0]
        == 0
    )
    return folder / "study.toml"


def add(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


# new


def test_new_from_a_table_writes_a_study_that_passes(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = Study.load(file)
    assert (
        study.id == "a-study-of-diagnosis"
        and study.classes == ("no", "yes")
        and study.menu == (0.4, 1.0, 2.0)
    )
    assert [a.to_dict() for a in study.attributes] == [
        {"kind": "number", "name": "age", "range": [18.0, 100.0]},
        {"kind": "category", "name": "sex", "levels": ["female", "male", "other"]},
    ]
    assert [s.url for s in study.servers] == [
        "https://a.test",
        "https://b.test:8443",
    ] and study.edges == (("alice", "bob"),)
    text = file.read_text()
    assert text.count("#") > 10 and "TAKEN FROM THE DATA" not in text
    code, out, err = run(capsys, "study", "check", "--test")
    assert (
        (code, err) == (0, "")
        and "is a valid study: a-study-of-diagnosis, 2 servers, 2 classes, 2 attributes in "
        "4 features and a constant"
        in out
    )
    assert study.hash in out and "warning" not in out


def test_ranges_are_not_taken_from_the_data_unless_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *FROM_CSV, "--range", "age=18:100", "--classes", "no,yes")
    assert (
        (code, out) == (1, "")
        and "column 'sex' has no declared range or levels" in err
        and not Path("study.toml").exists()
    )
    code, _, err = run(capsys, *FROM_CSV, *DECLARED[2:])
    assert code == 1 and "--classes must name the possible answers" in err
    code, out, err = run(capsys, *FROM_CSV, "--range", "age=18:100", "--from-data")
    assert (
        code == 0
        and "ranges (to two digits of their width), levels or classes of 'sex', 'diagnosis' were "
        "taken from the data, also a level or class that one person alone has: a release no noise "
        "protects"
        in err
    )
    text = Path("study.toml").read_text()
    assert text.count("TAKEN FROM THE DATA") == 1 and "34" not in text
    assert run(capsys, "study", "check", "--test")[0] == 0


def test_new_tells_what_it_wrote_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys,
        *FROM_CSV,
        *DECLARED,
        "--json",
        "--default",
        "0.4",
        "--title",
        "Ä b!",
        "--topology",
        "complete",
    )
    assert (code, err) == (0, "")
    study = Study.load("study.toml")
    summary = {"file": "study.toml", "hash": study.hash, "leaks": []}
    assert json.loads(out) == summary | {"budget": {"features": {"epsilon": 1, "delta": 1e-6}}}
    assert (study.default_epsilon, study.id, len(study.edges)) == (0.4, "b", 3)


@pytest.mark.parametrize(
    "arguments, summary",
    [
        (["study", "new", "--label", "x"], "give it with --from-csv"),
        (["study", "new", "--from-csv", "p.csv"], "needs --label COLUMN"),
        ([*FROM_CSV[:-2], *DECLARED], "column 'town' has no declared range"),
        ([*FROM_CSV, *DECLARED, "--menu", "1,x"], "--menu must be numbers separated by commas"),
        (
            [*FROM_CSV, *DECLARED, "--menu", "2,1"],
            "label.epsilon.menu[2] must be larger than the one before it",
        ),
        ([*FROM_CSV, *DECLARED, "--servers", "alice"], "servers must be 2 to 1,000 tables"),
        ([*FROM_CSV, *DECLARED, "--servers", "a=http://a.test,b"], "must begin with https://"),
        (
            [*FROM_CSV, *DECLARED, "--topology", "star"],
            "topology.kind must be 'ring' or 'complete'",
        ),
        (["study", "new", "--from-csv", "no.csv", "--label", "x"], "cannot read no.csv"),
        ([*FROM_CSV, *DECLARED, "--features-epsilon", "0"], "features.epsilon must be positive"),
        ([*FROM_CSV, *DECLARED, "--features-epsilon", "inf"], "epsilon must be a finite number"),
        ([*FROM_CSV, *DECLARED, "--labels-epsilon", "-1"], "labels.epsilon must be positive"),
    ],
)
def test_new_refuses_in_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], summary: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (
        (code, out) == (1, "")
        and summary in err
        and err.count("\n") == 1
        and not Path("study.toml").exists()
    )


def test_new_overwrites_only_if_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = file.read_text()
    code, _, err = run(capsys, *FROM_CSV, *DECLARED)
    assert code == 1 and "exists already" in err and file.read_text() == before
    assert run(capsys, *FROM_CSV, *DECLARED, "--force")[0] == 0 and file.read_text() != before


def answer(arguments: list[str], lines: list[str], folder: Path) -> tuple[int, str]:
    """A command with a person (a pseudo-terminal) in front of it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*PDML, *arguments],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
    )
    os.close(theirs)
    os.write(ours, "".join(f"{line}\n" for line in lines).encode())
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    return process.returncode, out.decode()


def test_new_asks_step_by_step_and_again_after_a_mistake(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "Who smokes?",
        "Do you smoke?",
        "no",
        "no,nо",  # the second with a Cyrillic letter
        "no,yes",
        "age",
        "",
        "100:18",
        "18:100",
        "old",
        "200",
        "45",
        "-3",
        "20",
        "perhaps",
        "yes",
        "age",
        "Age",
        "sex",
        "colour",
        "category",
        "f,NA",
        "f,F",
        "f,m,other",
        "",
        "",
        "a=https://a.example,b=https://a.example/b",
        "a,b",
        "City Hospital",
        "",
        "1 Long Street",
        "study@hospital.example",
        "",
        "To find out who smokes.",
        "Consent.",
        "The hospital sees your age and sex.",
        "next year",
        "2020-01-01",
        "2036-01-01",
        "\u3164",
        "I agree.",
        "none",
        "0.5",
    ]
    code, out = answer(["study", "new"], lines, folder)
    assert code == 0, out
    assert "epsilon must be a positive number, got 'none'" in out
    assert "become at most 76.7% sure of somebody's answers, but for" in out  # what 0.5 means
    assert (
        "must be a list of 2 to 100 texts" in out
        and "range must be LOW:HIGH" in out
        and "be number or category" in out
        and "missing value" in out
        and "answer must be a number, got 'old'" in out
        and "average of 'age' must lie in its range [18, 100], got 200" in out
        and "What average of age do you expect? [59]" in out
        and "Within how much of it do most people lie? [13.6667]" in out
        and "answer must be yes or no, got 'perhaps'" in out
    )
    assert (
        "answer[2] must look different from the others" in out
        and "name must look different from the others, got 'Age'" in out
        and "levels[2] must look different from the others, got 'F'" in out
        and "servers[2].url must differ from the other servers' in host or port" in out
        and "retention must be a day to come, got '2020-01-01'" in out
        and "text must say something" in out
    )
    study = Study.load("study.toml")
    assert study.attributes[0] == Number(
        name="age", low=18, high=100, average=45, spread=20, missing="average"
    )
    assert (study.id, study.title, study.question, study.classes) == (
        "who-smokes",
        "Who smokes?",
        "Do you smoke?",
        ("no", "yes"),
    )
    assert [a.name for a in study.attributes] == ["age", "sex"] and [
        s.name for s in study.servers
    ] == ["a", "b"]
    assert study.budget == Budget(features_epsilon=0.5)
    assert "retention must be a day such as 2030-01-31, got 'next year'" in out
    assert study.organiser == Organiser(
        name="City Hospital", address="1 Long Street", contact="study@hospital.example"
    )
    assert study.notice and study.notice.retention == datetime(2036, 1, 1, tzinfo=UTC)
    assert study.consent == Consent(text="I agree.", version="1")
    code, out, _ = run(capsys, "study", "check")
    assert code == 0 and out.count("is a placeholder") == 2


def test_new_asks_a_person_for_the_ranges_that_are_missing(folder: Path) -> None:
    code, out = answer(
        [*FROM_CSV, "--classes", "no,yes"], ["18:100", "", "", "", "female,male", ""], folder
    )
    assert code == 0 and "Range of age that can be known without looking at anybody" in out
    age, sex = Study.load("study.toml").attributes
    assert age == Number(name="age", low=18, high=100, average=59, spread=13.6667)
    assert sex.to_dict() == {"kind": "category", "name": "sex", "levels": ["female", "male"]}


def test_new_declares_averages_and_what_may_be_missing_by_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    declared = ["--classes", "no,yes", "--range", "age=18:100:45:20:whole"]
    gaps = ["--levels", "sex=female,male", "--missing", "sex", "--missing-values", "NA,?"]
    assert run(capsys, *FROM_CSV, *declared, *gaps)[0] == 0
    study = Study.load("study.toml")
    assert study.encoder.missing_values == ("NA", "?")
    assert [one.to_dict() for one in study.attributes] == [
        {
            "kind": "number",
            "name": "age",
            "range": [18.0, 100.0],
            "whole": True,
            "average": 45.0,
            "spread": 20.0,
        },
        {"kind": "category", "name": "sex", "levels": ["female", "male"], "missing": "level"},
    ]
    code, out, _ = run(capsys, "study", "show")
    summary = " ".join(out.split())
    assert code == 0 and "most people 45 ± 20" in summary and "prefer not to say" in summary
    assert "of reports, if people are as this study expects" in summary
    code, out, _ = run(capsys, "study", "show", "--json")
    shrunk = json.loads(out)["clipped"]
    assert 0 < shrunk["share"] < 1 and 0 < shrunk["factor"] < 1


def test_new_proposes_a_command_line_with_what_is_to_be_declared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Made from the header: no number of the table stands in it."""
    code, _, err = run(capsys, *FROM_CSV, "--classes", "no,yes")
    assert code == 1
    assert (
        "pdml study new --from-csv p.csv --label diagnosis --ignore town --range "
        "age=LOW:HIGH:AVERAGE:SPREAD --levels sex=A,B,..." in err
    )
    assert "34" not in err and "male" not in err


def test_new_without_anybody_to_ask_writes_nothing(folder: Path) -> None:
    done = subprocess.run(
        [*PDML, "study", "new"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
    )
    assert done.returncode == 1 and not (folder / "study.toml").exists()
    question, summary = done.stderr.splitlines()
    assert question.strip() == "Title of the study:" and "Aborted" not in summary
    assert summary.startswith("pdml: nobody answered 'Title of the study': answer in a terminal")


def test_new_takes_its_budget_from_options_or_proposes_one(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
) -> None:
    limits = ["--features-epsilon", "2", "--labels-epsilon", "0.3"]
    code, out, _ = run(capsys, *FROM_CSV, *DECLARED, *limits)
    assert code == 0 and "become at most 93.7% sure of somebody's answers, but for a chance" in out
    budget = Study.load("study.toml").budget
    assert budget == Budget(features_epsilon=2.0, labels_epsilon=0.3)
    age = ["age", "", "18:100", "", "", ""]
    asked = ["Who?", "You?", "no,yes", *age, "", "a,b", ""]  # and not for a budget
    code, out = answer(["study", "new", "yes.toml", "--yes"], asked, folder)
    assert code == 0 and "how much may all other servers" not in out
    assert Study.load("yes.toml").budget == Budget(features_epsilon=1.0)


# check


def test_check_lists_every_mistake_with_its_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        file.read_text()
        .replace('"alice"]', '"alise"]')
        .replace("[18, 100]", "[100, 18]")
        .replace('["alice", "bob"]', '["alice", "bobb"]')
    )
    file.write_text(
        text + "[plan]\nrounds = 0\nnoise_decay = 1.5\nloss = 'x'\nnoise_scale = [1, 2, 3]\n"
    )
    rows = file.read_text().split("\n")
    code, out, err = run(capsys, "study", "check", "--test", "study.toml")
    assert code == 1 and err == "pdml: study.toml has 6 mistakes\n"
    summary = out.strip().split("\n")
    assert len(summary) == 6
    for line, key in zip(
        summary, ("range", "edges", "rounds", "noise_decay", "loss", "noise_scale"), strict=True
    ):
        number = int(line.split(":")[1])
        assert line.startswith(f"study.toml:{number}: ") and rows[number - 1].startswith(key)
    code, out, err = run(capsys, "study", "check", "--test", "--json")
    found = json.loads(out)
    assert code == 1 and (found["valid"], found["hash"], len(found["mistakes"])) == (False, None, 6)
    assert found["mistakes"][0]["line"] == int(summary[0].split(":")[1])


@pytest.mark.parametrize("rounds, scale, kept", [(1, 1000, True), (60, 0.01, False)])
def test_check_warns_of_a_plan_beyond_the_budget(
    file: Path, capsys: pytest.CaptureFixture[str], rounds: int, scale: float, kept: bool
) -> None:
    add(file, PLANNED.format(rounds=rounds, scale=scale))
    code, out, _ = run(capsys, "study", "check", "--test")
    assert code == 0, out
    assert ("the plan does not keep to the budget: with 50 records per server" not in out) == kept
    assert "is a valid study" in out


def test_check_warns_of_what_is_allowed_but_unwise(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = ", ".join(f'"t{i}"' for i in range(1000))
    weak = "menu = [1, 8], default = 1, accept_weak = true"
    text = file.read_text().replace("menu = [0.4, 1, 2], default = 1", weak)
    text = text.replace("https://a.test", "https://a.example")
    file.write_text(text.replace('["female", "male", "other"]', f"[{levels}]"))
    code, out, _ = run(capsys, "study", "check", "--test", "--json")
    summary = " ".join(row["text"] for row in json.loads(out)["warnings"])
    assert code == 0 and "is a placeholder" in summary and "1,001 features are many" in summary
    assert "epsilon 8 protects hardly anybody" in summary and "becomes over 99.9% sure" in summary


def test_an_epsilon_that_protects_hardly_anybody_must_be_accepted_by_name(
    file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file.write_text(file.read_text().replace("menu = [0.4, 1, 2]", "menu = [0.4, 1, 3]"))
    code, out, _ = run(capsys, "study", "check", "--test")
    assert code == 1 and "menu[3] must be at most 2.944438, got 3.0" in out
    assert "accept_weak = true" in out
    code, _, err = run(capsys, "collect", "serve", "study.toml", "--server", "a", "--open")
    assert code == 1 and "accept_weak = true" in err


def test_new_takes_weak_epsilons_and_whole_numbers_when_told_to(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    Path("people.csv").write_text("age,ill\n34,yes\n")
    table = ("--from-csv", "people.csv", "--label", "ill", "--classes", "no,yes")
    command = ("study", "new", "weak.toml", *table, "--menu", "1,5")
    code, _, err = run(capsys, *command, "--range", "age=18:100:whole")
    assert code == 1 and "accept_weak = true" in err
    code, _, err = run(capsys, *command, "--accept-weak", "--range", "age=18:100:halves")
    assert code == 1 and "age=18:100:45:20:whole" in err
    assert run(capsys, *command, "--accept-weak", "--range", "age=18:100:whole")[0] == 0
    study = Study.load("weak.toml")
    age = Number(name="age", low=18, high=100, whole=True)
    assert study.accept_weak and study.attributes == (age,)


@pytest.mark.parametrize(
    "data, summary",
    [
        (b"[study\n", "study.toml:1: this is not TOML"),
        (b"a = '\xff'", "study.toml:1: the file must be UTF-8"),
        (b"#" * 5_000_000, "at most 4,194,304 bytes"),
    ],
)
def test_check_of_files_that_are_no_study(
    capsys: pytest.CaptureFixture[str], data: bytes, summary: str
) -> None:
    Path("study.toml").write_bytes(data)
    code, out, err = run(capsys, "study", "check", "--test")
    assert code == 1 and summary in out and err == "pdml: study.toml has 1 mistake\n"


def test_check_of_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "study", "check", "--test") == (
        1,
        "",
        "pdml: cannot read study.toml: no such file or directory\n",
    )


# show


def test_show_says_it_in_words(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(file, PLANNED.format(rounds=3, scale=1000))
    code, out, err = run(capsys, "study", "show")
    assert (code, err) == (0, "")
    study = Study.load(file)
    for words in (
        "epsilon 1 (suggested)",
        "73.1%",
        "59.9%",
        "88.1%",
        "may or may not be the true one",
        "18 to 100",
        "female, male, other",
        "A report holds 5 numbers",
    ):
        assert words in out
    for words in ("talks to", "https://b.test:8443", "at most epsilon 1 (delta 1e-06)", study.hash):
        assert words in out
    assert "counts there as much as 5.07 answers that are not randomised, at most" in " ".join(
        out.split()
    )
    assert "no limit" not in out  # a label is never without one: the device's own epsilon
    summary = " ".join(out.split())
    assert f"every server all other servers together can learn of {EVERYTHING}: epsilon" in summary
    assert "never more than the epsilon that you choose, at most 2 on this menu" in summary
    assert "From even odds nobody becomes more than 88.1% sure." in summary
    assert "at most 84.5% sure, but for a chance of 2e-06 (twice delta)" in summary
    assert summary.index(study.hash) < summary.index("What must be mended first?")
    assert summary.index("What must be mended first?") < summary.index("has no [organiser]")


def test_show_tells_a_budget_for_labels_where_it_limits_more_than_devices_do(
    file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for limit, summary in ((0.1, "0.1"), (2, "1"), (5, "1")):  # a label is a part of its record
        labels = f"labels = {{ epsilon = {limit} }}\n"
        file.write_text(file.read_text().split(BUDGET)[0] + BUDGET + labels)
        code, out, _ = run(capsys, "study", "show")
        words = " ".join(out.split())
        assert code == 0 and f"learn of the sensitive answer: at most epsilon {summary} " in words
        assert "at most 2 on this menu" in words


def test_show_as_json_holds_the_numbers(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "study", "show", "--json")
    found: dict[str, Any] = json.loads(out)
    study = Study.load(file)
    assert (
        code == 0 and found["hash"] == study.hash and found["width"] == 5 and found["plan"] is None
    )
    assert found["study"] == json.loads(study.canonical())
    e = 2.718281828459045
    assert [row["true_answer"] for row in found["menu"]] == pytest.approx(
        [e**x / (1 + e**x) for x in study.menu]
    )
    assert all(row["certainty"] == row["true_answer"] for row in found["menu"])
    assert [row["weak"] for row in found["menu"]] == [False] * 3
    assert found["influence"]["cap"] == pytest.approx((e**0.4 + 1) / (e**0.4 - 1) / 50)
    assert len(found["page_sha256"]) == 64


def test_show_refuses_what_check_refuses(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(file, "[plan]\nrounds = 0\n")
    code, out, err = run(capsys, "study", "show")
    assert (code, out) == (1, "") and "plan.rounds must be" in err


def test_a_loss_that_cannot_take_the_classes_is_a_mistake_for_both(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(
        file.read_text().replace('["no", "yes"]', '["no", "maybe", "yes"]')
        + "[plan]\nloss = 'square'\n"
    )
    code, out, err = run(capsys, "study", "check", "--test")
    assert (
        code == 1
        and "plan.loss must be 'logistic' for 3 classes" in out
        and err == "pdml: study.toml has 1 mistake\n"
    )
    code, out, err = run(capsys, "study", "show")
    assert (code, out) == (1, "") and "plan.loss must be 'logistic' for 3 classes" in err


def test_a_loss_without_a_bound_for_features_is_shown_as_no_limit(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(file, PLANNED.format(rounds=3, scale=1000) + "loss = 'square'\n")
    code, out, _ = run(capsys, "study", "show")
    shown = " ".join(out.split())
    assert code == 0 and f"all other servers together can learn of {EVERYTHING}: no limit" in shown
    assert "has a plan that breaks its budget with any number of records" in out
    code, out, _ = run(capsys, "study", "show", "--json")
    summary = [each["text"] for each in json.loads(out)["mistakes"]]
    assert code == 0 and "has no [organiser]" in summary[0] and "breaks its budget" in summary[1]


def test_a_study_tells_people_who_asks_or_nobody_is_asked(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = ["--server", "alice", "--port", "0"]
    code, out, err = run(capsys, "study", "check")
    assert code == 1 and "study.toml:1: the study" in out and "has 1 mistake" in err
    code, _, err = run(capsys, "collect", "serve", "study.toml", *people)
    assert code == 1 and "has no [organiser], [notice], [consent]" in err and "--test" in err
    assert not list(file.parent.glob("*.db"))
    add(file, TOLD)
    assert run(capsys, "study", "check")[0] == 0
    _, out, _ = run(capsys, "study", "show")
    for said in ("City Hospital", "study@hospital", "privacy@", "2036-01-01 00:00 UTC", "I have"):
        assert said in out


# studies that nobody could train under


UNTRAINABLE = {
    "no budget": (
        "",
        "has no budget: any number of jobs could follow one another; add [budget] with features =",
        "#",
    ),
    "labels alone, no plan": (
        "[budget]\nlabels = { epsilon = 0.3 }\n",
        "whoever starts a job could switch the noise off; add features =",
        "[budget]",
    ),
    "labels alone, never reached": (
        "[budget]\nlabels = { epsilon = 0.4 }\n[plan]\nrounds = 3\n",
        "where everybody chooses 0.4 it is never reached",
        "labels",
    ),
    "no noise": (
        f"[budget]\n{BUDGET}[plan]\nnoise_scale = 0\n",
        "breaks its budget with any number of records at bob",
        "[plan]",
    ),
}


@pytest.mark.parametrize("case", UNTRAINABLE)
def test_a_study_that_nobody_could_train_under_is_refused_before_people_are_asked(
    file: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    text, summary, place = UNTRAINABLE[case]
    before = file.read_text()
    file.write_text(before[: before.index("[budget]")] + text)
    code, out, err = run(capsys, "study", "check", "--test")
    assert code == 1 and summary in out and err == "pdml: study.toml has 1 mistake\n"
    line = int(out.split(":")[1])
    assert file.read_text().split("\n")[line - 1].startswith(place)
    found = json.loads(run(capsys, "study", "check", "--test", "--json")[1])
    assert not found["valid"] and summary in found["mistakes"][0]["text"]
    assert found["hash"] == Study.load(file).hash
    assert run(capsys, "study", "show")[0] == 0
    people = ("--server", "alice", "--db", "a.db")
    for command in (
        ("serve", "study.toml", *people, "--test", "--port", "0"),
        ("invite", "study.toml", *people, "--count", "1", "--out", "t.csv"),
    ):
        code, out, err = run(capsys, "collect", *command)
        assert (code, out) == (1, "") and summary in err and err.count("\n") == 1
    assert not Path("a.db").exists() and not Path("t.csv").exists()
    code, _, err = run(capsys, "train", "study.toml")
    assert code == 1 and (summary in err or case == "no noise")  # there each data set decides


def test_show_names_what_is_randomised_and_those_against_whom_the_budget_holds(
    tmp_path: Path, capsys
) -> None:
    """Randomised answers stand apart from those that the own server reads, with what all of them
    tell together; a plan's figures are there for as many as the budget assumes to collude.
    """
    status = Category(name="status", levels=("a", "b"), epsilon=Menu(menu=(0.5, 2.0), default=0.5))
    plan = TrainingPlan(method="sums", label_noise=40.0, square_noise=40.0, colluding=1)
    budget = Budget(features_epsilon=1.0, colluding=1)
    encoder = Encoder(attributes=(status,))
    changes = {"encoder": encoder, "wording": {}, "plan": plan, "budget": budget}
    path = tmp_path / "secret.toml"
    path.write_text(template.render(replace(STUDY, **changes)), encoding="utf-8")
    code, out, _ = run(capsys, "study", "show", str(path))
    shown = " ".join(out.split())
    assert code == 0 and "What else is randomised?" in shown
    assert "at most epsilon 4: from even odds at most 98.2% sure" in shown  # 2 of either
    assert "a constant, and randomised answers" in shown and "clipped" not in shown
    for whom in ("any one of the other servers", "all other servers together"):
        assert f"at every server {whom} can learn of {EVERYTHING}: epsilon" in shown
        assert f"at every server {whom} can learn of the answer to “status”: epsilon" in shown
