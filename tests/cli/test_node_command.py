"""`pdml node`: kits, data, status; and the tutorial of docs/consortium.md, command by command."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from running import run

pytest.importorskip("nvflare")

DOC = Path(__file__).parents[2] / "docs" / "consortium.md"
BLOCKS = re.findall(r"```sh\n(.*?)```", DOC.read_text(encoding="utf-8"), flags=re.DOTALL)
STUDY = BLOCKS[0].split("<<'END'\n")[1].split("END\n")[0]


@pytest.fixture
def kit(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    code, out, _ = run(capsys, "node", "provision", "study.toml", "--json")
    assert code == 0 and set(json.loads(out)["kits"]) == {"alice", "bob", "relay", "admin"}
    lines = ["age,sex,diagnosed,eps", *(f"{18 + i % 80},{'female' if i % 3 else 'male'},{'yes' if i % 2 else 'no'},2" for i in range(150))]
    Path("people.csv").write_text("\n".join(lines) + "\n")
    return "kits/alice"


TABLE = ("--csv", "people.csv", "--label", "diagnosed")


def test_a_table_becomes_a_nodes_data_set(kit, capsys):
    code, out, _ = run(capsys, "node", "data", kit, *TABLE, "--epsilon-column", "eps", "--randomised", "--json")
    told = json.loads(out)
    assert code == 0 and (told["records"], told["smallest_epsilon"]) == (150, 2.0)
    assert all(path.stat().st_mode & 0o077 == 0 for path in Path(kit, "pdml", "data").rglob("*"))
    code, out, _ = run(capsys, "node", "status", kit, "--json")
    told = json.loads(out)
    assert code == 0 and told["records"] == 150 and not told["running"] and told["jobs"] == []
    code, out, _ = run(capsys, "node", "status", kit)
    assert code == 0 and "150 records" in out and "does not run" in out


def test_labels_that_are_randomised_here_change(kit, capsys):
    """At ε = 1 each is flipped with probability 0.27: none of 150 with probability 10^-20."""
    from pdml.frozen import open_frozen
    from pdml.node.flare.site import Site

    yes = []
    for option in ("--randomised", "--randomise"):
        assert run(capsys, "node", "data", kit, *TABLE, "--epsilon", "1", option)[0] == 0
        site = Site.open(kit)
        data = open_frozen(site.path(site.config.data))
        yes.append(sorted(zip(map(tuple, data.features.tolist()), data.labels.tolist(), strict=True)))
    assert yes[0] != yes[1] and len(yes[0]) == len(yes[1]) == 150


@pytest.mark.parametrize(
    ("option", "by", "said"),
    [
        ("--randomise", "operator", "alice had the true labels and randomised them"),
        ("--randomised", "elsewhere", "alice declares that its labels were randomised on people's"),
    ],
)
def test_who_randomised_the_labels_is_told_to_everybody(kit, capsys, option, by, said):
    """The manifest, the terminal, the node's ledger, model.json and the page."""
    from pdml.node.flare.site import Site
    from pdml.release.model import load_model

    folders = []
    for name, asked in (("alice", option), ("bob", "--randomised")):
        code, out, _ = run(capsys, "node", "data", f"kits/{name}", *TABLE, "--epsilon", "2", asked)
        assert code == 0 and (name != "alice" or said in out)
        site = Site.open(f"kits/{name}")
        folders += ["--data", f"{name}={site.path(site.config.data)}"]
    site = Site.open(kit)
    assert site.frozen().manifest.randomised_by == site.holdings().labels == by
    spend(site)
    assert said in " ".join(run(capsys, "node", "status", kit)[1].split())
    status = json.loads(run(capsys, "node", "status", kit, "--json")[1])
    first = status["datasets"][0]["privacy"]["lines"][0]
    own = "inf" if by == "operator" else 2.0
    assert (first["data"], first["adversary"], first["epsilon"]) == ("label", "own server", own)

    code, out, _ = run(capsys, "train", "study.toml", *folders, "--job", "one", "--out", "made")
    page = Path("made/report.html").read_text().replace("&#x27;", "'")
    assert code == 0 and said in " ".join(out.split()) and said in page
    assert "labels randomised on people's devices;" not in page
    model = load_model("made/model.json")
    assert model.provenance["labels_randomised"] == [by, "elsewhere"]
    line = model.privacy["lines"][0]
    assert (line["data"], line["adversary"], line["epsilon"]) == ("label", "own server", own)
    assert line["reason"] in page
    assert ("had the true label" in line["reason"]) == (by == "operator")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["data", "kits/alice"], "give one of --from-collect"),
        (["data", "kits/alice", *TABLE, "--epsilon", "1"], "say whether the labels are --randomised already"),
        (["data", "kits/alice", *TABLE, "--epsilon", "3", "--randomised"], "on the study's menu: 1, 2"),
        (["data", "kits/alice", *TABLE, "--randomised"], "give one of --epsilon and --epsilon-column"),
        (["data", "kits/alice", *TABLE[:2], "--label", "none", "--epsilon", "1", "--randomised"], "must name a column"),
        (["data", "kits/alice", *TABLE[:2], "--label", "sex", "--epsilon", "1", "--randomised"], "row 1 of column 'sex'"),
        (["data", "kits/alice", "--from-collect", "nowhere"], "it is no frozen data set"),
        (["data", "kits/relay", *TABLE, "--epsilon", "1", "--randomised"], "is the kit of the relay"),
        (["status", "nowhere"], "is no kit"),
        (["start", "kits/admin"], "is the kit of the admin"),
        (["provision", "study.toml"], "kits exists already"),
        (["provision", "none.toml", "--out", "new"], "cannot read none.toml"),
    ],
)
def test_refuses_in_one_sentence(kit, capsys, arguments, reason):
    code, out, err = run(capsys, "node", *arguments)
    assert code == 1 and out == "" and reason in err and err.count("\n") == 1


def spend(site):
    """One release from the node's present data set, as a job would enter it."""
    journal, dataset = site.journal(), site.holdings().dataset
    journal.begin("job", contract="", server=site.name, dataset=dataset, source="secure", sealed=b"")
    journal.commit("job", 1, payload=b"", events=[])
    journal.close()


def test_another_data_set_after_a_training_is_taken_only_for_other_people(kit, capsys):
    """Else the same people would have their budget again, by importing their table twice."""
    from pdml.node.flare.site import Site

    given = ("node", "data", kit, *TABLE, "--epsilon", "1", "--randomised")
    for _ in range(2):  # before a training nothing is lost by changing one's mind
        assert run(capsys, *given)[0] == 0
    before = Site.open(kit)
    spend(before)
    code, out, err = run(capsys, *given)
    assert code == 1 and out == "" and "say --other-people if nobody's record is in both" in err
    assert Site.open(kit).config.data == before.config.data
    assert run(capsys, "node", "data", kit, "--from-collect", str(before.path(before.config.data)))[0] == 0  # the same is the same
    assert run(capsys, *given, "--other-people")[0] == 0 and Site.open(kit).config.data != before.config.data


def test_a_lost_journal_is_no_fresh_start(kit, capsys):
    from pdml.node.flare.site import Site

    run(capsys, "node", "data", kit, *TABLE, "--epsilon", "1", "--randomised")
    spend(Site.open(kit))
    code, out, _ = run(capsys, "node", "status", kit, "--json")
    assert code == 0 and json.loads(out)["datasets"][0]["privacy"]["source"] == "secure"
    for path in Path(kit, "pdml").glob("journal.db*"):
        path.unlink()
    for command in (("status", kit), ("data", kit, *TABLE, "--epsilon", "1", "--randomised")):
        code, _, err = run(capsys, "node", *command)
        assert code == 1 and "is gone: without it nobody can say what alice has released" in err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--engine", "flare"], "--admin must be given"),
        (["--engine", "flare", "--admin", "kits/alice"], "jobs are submitted with the kit `admin`"),
        (["--engine", "flare", "--admin", "kits/admin", "--seed", "1"], "--data and --seed belong to --engine local"),
        (["--engine", "spark"], "engine must be one of local, ray, flare"),
        (["--resume"], "--resume needs --job"),
        (["--rounds", "3"], "--rounds must be left out: the study tutorial settles the plan"),
        ([], "got none for alice, bob"),
        (["--data", "carol=x"], "--data must be NAME=FOLDER"),
        (["--job", "a b"], "job must be 1 to 64 letters"),
    ],
)
def test_training_a_study_refuses_in_one_sentence(kit, capsys, arguments, reason):
    code, out, err = run(capsys, "train", "study.toml", *arguments)
    assert code == 1 and out == "" and reason in err


def test_a_study_is_trained_in_one_process(kit, capsys):
    from pdml.node.flare.site import Site
    from pdml.release.consortium import ONE_DOMAIN, THIS_JOB
    from pdml.release.model import load_model

    folders = []
    for name in ("alice", "bob"):
        run(capsys, "node", "data", f"kits/{name}", *TABLE, "--epsilon", "2", "--randomise")
        site = Site.open(f"kits/{name}")
        folders += ["--data", f"{name}={site.path(site.config.data)}"]
    code, out, err = run(capsys, "train", "study.toml", *folders, "--job", "one", "--out", "made", "--json")
    told = json.loads(out)
    assert code == 0 and told["noise_source"] == "secure" and told["job"] == "one", err
    model = load_model("made/model.json")
    assert model.classes == ("no", "yes") and model.provenance["servers"] == ["alice", "bob"]
    assert model.predict(np_rows(model)).shape == (2,)
    page = Path("made/report.html").read_text().replace("&#x27;", "'")
    assert "Who is at risk?" in page
    assert model.privacy["counted"] == told["privacy"]["counted"] == THIS_JOB  # nobody knows more
    assert f"The ledger counts {THIS_JOB}." in page and "all jobs" not in page
    assert model.provenance["parties"] == ONE_DOMAIN and ONE_DOMAIN.capitalize() in page
    code, out, _ = run(capsys, "privacy", "made/model.json")
    assert code == 0 and THIS_JOB in " ".join(out.split())
    small = STUDY.replace("epsilon = 20", "epsilon = 0.01")
    Path("strict.toml").write_text(small)
    code, _, err = run(capsys, "train", "strict.toml", *folders)
    assert code == 1 and "belongs to the study" in err  # another budget is another study


def np_rows(model):
    import numpy as np

    return np.zeros((2, model.coefficients.shape[1]))


@pytest.mark.slow
@pytest.mark.xdist_group("flare")
def test_the_tutorial_runs_as_it_stands(tmp_path):
    """Every block of docs/consortium.md in one shell, as somebody would paste it."""
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "pdml").write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from pdml.cli import main; main()' \"$@\"\n")
    (commands / "pdml").chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    env = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    try:
        done = subprocess.run(["bash", "-euc", "\n".join(BLOCKS)], cwd=work, env=env, capture_output=True, text=True, timeout=300)
    finally:
        from pdml.node.flare import process
        from pdml.node.flare.site import Site

        for name in ("alice", "bob", "relay"):
            if (work / "kits" / name).exists():
                process.stop(Site.open(work / "kits" / name))
    assert done.returncode == 0, done.stderr
    assert (work / "result" / "model.json").exists() and (work / "result" / "report.html").exists()
    assert "job first: finished, round 30" in done.stdout
    assert "30 vectors sent" in done.stdout
    model = json.loads((work / "result" / "model.json").read_text())
    assert model["provenance"]["noise_source"] == "secure" and model["provenance"]["servers"] == ["alice", "bob"]
    assert model["provenance"]["labels_randomised"] == ["operator"] * 2
    assert model["privacy"]["counted"].startswith("all jobs on each data set, as the journals")
