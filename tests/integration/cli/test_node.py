"""`pdml node`, `pdml relay`, `pdml study add-server`, with the study of docs/guide/consortium.md."""

import contextlib
import html
import json
import re
import secrets
import shutil
from pathlib import Path

import pytest
from running import run

from pdml.node.protocol.job_terms import JobTerms

pytest.importorskip("nats")
pytest.importorskip("cryptography")

from pdml.node.protocol.requests import Offer
from pdml.node.storage.control_db import Attempt, ControlDatabase, OfferState
from pdml.node.storage.node_dir import NodeDirectory

DOC = Path(__file__).parents[3] / "docs" / "guide/consortium.md"
BLOCKS = re.findall(r"```sh\n(.*?)```", DOC.read_text(encoding="utf-8"), flags=re.DOTALL)
STUDY = BLOCKS[0].split("<<'END'\n")[1].split("END\n")[0]


@pytest.fixture
def kit(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(STUDY)
    for name in ("alice", "bob"):
        code, out, _ = run(capsys, "node", "init", name, "--name", name, "--json")
        assert code == 0 and json.loads(out)["card"].endswith(f"{name}.card")
    assert (
        run(capsys, "study", "add-server", "study.toml", "alice/alice.card", "bob/bob.card")[0] == 0
    )
    assert run(capsys, "relay", "config", "study.toml", "--address", "127.0.0.1:4870")[0] == 0
    for name in ("alice", "bob"):
        code, out, err = run(capsys, "node", "join", name, "study.toml", "--json")
        assert code == 0 and json.loads(out)["accept"] == "ask", err
    lines = [
        "age,sex,diagnosed,eps",
        *(
            f"{18 + i % 80},{'female' if i % 3 else 'male'},{'yes' if i % 2 else 'no'},2"
            for i in range(150)
        ),
    ]
    Path("people.csv").write_text("\n".join(lines) + "\n")
    return "alice"


TABLE = ("--csv", "people.csv", "--label", "diagnosed")


def test_a_table_becomes_a_nodes_data_set(kit, capsys):
    code, out, _ = run(
        capsys, "node", "data", kit, *TABLE, "--epsilon-column", "eps", "--randomised", "--json"
    )
    summary = json.loads(out)
    assert code == 0 and (summary["records"], summary["smallest_epsilon"]) == (150, 2.0)
    assert all(path.stat().st_mode & 0o077 == 0 for path in Path(kit, "data").rglob("*"))
    code, out, _ = run(capsys, "node", "status", kit, "--json")
    summary = json.loads(out)
    assert (
        code == 0
        and summary["records"] == 150
        and not summary["running"]
        and not summary["connected"]
        and summary["jobs"] == []
    )
    code, out, _ = run(capsys, "node", "status", kit)
    assert code == 0 and "150 records" in out and "does not run" in out
    code, out, _ = run(capsys, "node", "status", kit, "--study")
    assert code == 0 and "No statement of alice, bob: no job has ended with them." in out
    summary = json.loads(run(capsys, "node", "status", kit, "--study", "--json")[1])
    assert (summary["members"], summary["silent"]) == ([], ["alice", "bob"])


@pytest.mark.parametrize(
    ("option", "by", "said"),
    [
        ("--randomise", "operator", "alice had the true labels and randomised them"),
        ("--randomised", "elsewhere", "alice declares that its labels were randomised on people's"),
    ],
)
def test_who_randomised_the_labels_is_told_to_everybody(kit, capsys, option, by, said):
    """The manifest, the terminal, the node's ledger, model.json and the page."""
    from pdml.model.model import load_model

    folders = []
    for name, asked in (("alice", option), ("bob", "--randomised")):
        code, out, _ = run(capsys, "node", "data", name, *TABLE, "--epsilon", "2", asked)
        assert code == 0 and (name != "alice" or said in out)
        site = NodeDirectory.open(name)
        folders += ["--data", f"{name}={site.path(site.config.data)}"]
    site = NodeDirectory.open(kit)
    assert site.frozen().manifest.randomised_by == site.load_training_data().randomised_by == by
    spend(site)
    assert said in " ".join(run(capsys, "node", "status", kit)[1].split())
    status = json.loads(run(capsys, "node", "status", kit, "--json")[1])
    first = status["datasets"][0]["privacy"]["rows"][0]
    own = "inf" if by == "operator" else 2.0
    assert (first["data"], first["adversary"], first["epsilon"]) == ("label", "own server", own)

    code, out, _ = run(capsys, "train", "study.toml", *folders, "--job", "one", "--out", "made")
    page = html.unescape(Path("made/report.html").read_text())
    assert code == 0 and said in " ".join(out.split()) and said in page
    assert "labels randomised on people's devices;" not in page
    model = load_model("made/model.json")
    assert model.provenance["labels_randomised_by"] == [by, "elsewhere"]
    line = model.privacy["rows"][0]
    assert (line["data"], line["adversary"], line["epsilon"]) == ("label", "own server", own)
    assert line["reason"] in page
    assert ("had the true label" in line["reason"]) == (by == "operator")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["data", "alice"], "give one of --from-collect"),
        (
            ["data", "alice", *TABLE, "--epsilon", "1"],
            "say whether the labels are --randomised already",
        ),
        (["data", "alice", *TABLE, "--epsilon", "3", "--randomised"], "on the study's menu (1, 2)"),
        (["data", "alice", *TABLE, "--randomised"], "give one of --epsilon and --epsilon-column"),
        (
            ["data", "alice", *TABLE[:2], "--label", "none", "--epsilon", "1", "--randomised"],
            "must name a column",
        ),
        (
            ["data", "alice", *TABLE[:2], "--label", "sex", "--epsilon", "1", "--randomised"],
            "got something else in row 1 (line 2 of people.csv)",
        ),
        (["data", "alice", "--from-collect", "nowhere"], "it is no frozen data set"),
        (["status", "nowhere"], "is no node's folder"),
        (["run", "nowhere"], "is no node's folder"),
        (["init", "alice", "--name", "alice"], "exists already: a node's keys are made once"),
        (["init", "new", "--name", "Two Words"], "name must be 1 to 63 lower-case letters"),
        (
            ["init", "new", "--name", "new", "--accept", "all"],
            "accept must be 'ask' or 'study', got 'all'",
        ),
        (["init", "alice", "--renew", "--name", "bob"], "is the folder of alice, not of bob"),
        (["join", "alice", "none.toml"], "cannot read none.toml"),
        (["accept", "alice", "first"], "no offer of a job 'first' waits for an answer"),
        (["refuse", "alice", "first"], "no offer of a job 'first' waits for an answer"),
        (["stop", "alice"], "is in no job"),
        (["result", "alice", "first"], "alice has done no job yet"),
    ],
)
def test_refuses_in_one_sentence(kit, capsys, arguments, reason):
    code, out, err = run(capsys, "node", *arguments)
    assert code == 1 and out == "" and reason in err and err.count("\n") == 1


def waiting(kit, job="first"):
    """An offer of bob that alice's operator is asked about."""
    site, study = NodeDirectory.open(Path(kit)), NodeDirectory.open(Path(kit)).checked_study()
    job_terms = JobTerms.for_study(study, study.plan, job)
    terms = {"attempt": secrets.token_hex(16), "offerer": "bob", "resume": False}
    offer = Offer.of(job_terms, **terms, start_timeout=60.0, round_timeout=30.0)
    signed = offer.signed(NodeDirectory.open(Path("bob")).identity())
    names = {"attempt": offer.attempt, "job": job, "terms": job_terms.digest, "offerer": "bob"}
    asked = Attempt(**names, offer=signed, state=OfferState.PENDING, sentence="")
    with contextlib.closing(ControlDatabase(site.folder)) as table:
        table.put(asked)
    return asked.digest


def test_an_offer_is_accepted_by_who_has_seen_its_terms(kit, capsys):
    run(capsys, "node", "data", kit, *TABLE, "--epsilon-column", "eps", "--randomised")
    digest = waiting(kit)
    code, out, err = run(capsys, "node", "offers", kit)
    assert code == 0 and f"first, offered by bob: pending, digest {digest[:16]}" in out
    assert "waits for your answer: first" in run(capsys, "node", "status", kit)[1]
    summary = json.loads(run(capsys, "node", "status", kit, "--json")[1])
    assert [each["digest"] for each in summary["waiting"]] == [digest]
    for options in ([], ["--json"]):
        code, out, err = run(capsys, "node", "accept", kit, "first", *options)
        assert code == 1 and out == "" and err.count("\n") == 1 and f"{digest} --yes" in err
    code, shown, _ = run(capsys, "node", "offers", kit, "first")
    assert code == 0 and "30 rounds with bob" in shown and "What would it cost?" in shown
    code, out, err = run(capsys, "node", "accept", kit, digest[:8], "--yes")
    assert code == 0 and out.startswith(shown), err
    assert out.endswith(f"bob's offer of job first is accepted, digest {digest}\n")
    other = waiting(kit, "second")
    code, out, err = run(capsys, "node", "accept", kit, "second", "--yes", "--json")
    summary = json.loads(out)
    assert (summary["state"], summary["digest"], summary["offered_by"]) == (
        "accepted",
        other,
        "bob",
    )
    assert [cost["budget"] for cost in summary["costs"]] == ["inf", 20.0]
    third = waiting(kit, "third")
    code, out, err = run(capsys, "node", "refuse", kit, third[:10], "--json")
    assert code == 0 and json.loads(out)["state"] == "refused"


def spend(site):
    """One release from the node's present data set, as a job would enter it."""
    journal, dataset = site.journal(), site.load_training_data().dataset
    journal.begin(
        "job", terms="", server=site.name, dataset=dataset, source="secure", sealed=b"", plan=""
    )
    journal.commit("job", 1, payload=b"", events=[])
    journal.close()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--engine", "nodes"], "--node must be given"),
        (["--engine", "nodes", "--node", "nowhere"], "is no node's folder"),
        (
            ["--engine", "nodes", "--node", "alice", "--seed", "1"],
            "--data and --seed belong to --engine local",
        ),
        (["--engine", "nodes", "--node", "alice", "--start-timeout", "1"], "no node runs in alice"),
        (["--engine", "nodes", "--node", "alice", "--out", "relay"], "relay exists already"),
        (["--node", "alice"], "--node belongs to --engine nodes"),
        (["--engine", "spark"], "engine must be one of local, ray, nodes"),
        (["--resume"], "--resume belongs to --engine nodes"),
        (["--engine", "nodes", "--resume"], "--resume needs --job"),
        (["--rounds", "3"], "--rounds must be left out: the study tutorial settles the plan"),
        ([], "got none for alice, bob"),
        (["--data", "carol"], "--data must be NAME=FOLDER"),
        (["--data", "carol=x"], "--data must be for servers of the study (alice, bob), got one"),
        (["--job", "a b"], "job must be 1 to 64 letters"),
    ],
)
def test_training_a_study_refuses_in_one_sentence(kit, capsys, arguments, reason):
    code, out, err = run(capsys, "train", "study.toml", *arguments)
    assert code == 1 and out == "" and reason in err


def test_a_study_is_trained_in_one_process(kit, capsys):
    from pdml.model.model import load_model
    from pdml.training.result import SINGLE_DOMAIN, THIS_JOB

    folders = []
    for name in ("alice", "bob"):
        run(capsys, "node", "data", name, *TABLE, "--epsilon", "2", "--randomise")
        site = NodeDirectory.open(name)
        folders += ["--data", f"{name}={site.path(site.config.data)}"]
    code, out, err = run(
        capsys, "train", "study.toml", *folders, "--job", "one", "--out", "made", "--json"
    )
    summary = json.loads(out)
    assert code == 0 and summary["noise_source"] == "secure" and summary["job"] == "one", err
    model = load_model("made/model.json")
    assert model.classes == ("no", "yes") and model.provenance["servers"] == ["alice", "bob"]
    assert model.predict(np_rows(model)).shape == (2,)
    page = html.unescape(Path("made/report.html").read_text())
    assert "Who is at risk?" in page
    assert (
        model.privacy["counted"] == summary["privacy"]["counted"] == THIS_JOB
    )  # nobody knows more
    assert f"The ledger counts {THIS_JOB}." in page and "all jobs" not in page
    assert model.provenance["parties"] == SINGLE_DOMAIN and SINGLE_DOMAIN.capitalize() in page
    code, out, _ = run(capsys, "privacy", "made/model.json")
    assert code == 0 and THIS_JOB in " ".join(out.split())
    small = STUDY.replace("epsilon = 20", "epsilon = 0.01")
    Path("strict.toml").write_text(small)
    code, _, err = run(capsys, "train", "strict.toml", *folders)
    assert code == 1 and "belongs to the study" in err  # another budget is another study


def np_rows(model):
    import numpy as np

    from pdml.model.model import Features

    return Features(np.zeros((2, model.coefficients.shape[1])))


def test_keys_are_renewed_by_a_revision_and_data_sets_and_ledgers_stay(kit, capsys):
    """Alice has lost its keys: a new card, a revision in which nothing else differs, and the same
    data set under it.
    """
    assert run(capsys, "node", "data", kit, *TABLE, "--epsilon", "1", "--randomised")[0] == 0
    spend(NodeDirectory.open(kit))
    before = NodeDirectory.open(kit)
    digest, hash = before.load_training_data().dataset, before.study().hash
    Path("old.toml").write_text(Path("study.toml").read_text())
    assert run(capsys, "node", "init", kit, "--renew")[0] == 0
    code, _, err = run(capsys, "node", "join", kit, "study.toml")
    assert code == 1 and "pins other keys for alice" in err
    code, _, err = run(capsys, "study", "add-server", "study.toml", "alice/alice.card")
    assert code == 1 and "--revision replaces them" in err
    code, out, _ = run(
        capsys, "study", "add-server", "study.toml", "alice/alice.card", "--revision", "--json"
    )
    assert code == 0 and json.loads(out)["replaces"] == hash
    assert run(capsys, "relay", "config", "study.toml")[0] == 0
    for name in ("alice", "bob"):
        code, _, err = run(capsys, "node", "join", name, "study.toml")
        assert code == 0, err
    after = NodeDirectory.open(kit)
    assert after.lineage() == (hash,) and after.load_training_data().dataset == digest
    assert (
        json.loads(run(capsys, "node", "status", kit, "--json")[1])["datasets"][0]["releases"] == 0
    )
    with contextlib.closing(after.journal()) as journal:
        assert journal.releases(digest) == 1
    Path("study.toml").write_text(
        Path("study.toml").read_text().replace("min_records = 100", "min_records = 101")
    )
    code, _, err = run(capsys, "node", "join", kit, "study.toml")
    assert code == 1 and "no revision of it in which keys and relay alone differ" in err
    assert (
        run(capsys, "node", "init", "late", "--name", "alice")[0] == 0
    )  # a new machine, which has never seen the old study
    Path("study.toml").write_text(Path("old.toml").read_text())
    assert run(capsys, "study", "add-server", "study.toml", "late/alice.card", "--revision")[0] == 0
    assert run(capsys, "node", "join", "late", "study.toml", "--before", "old.toml")[0] == 0
    shutil.copytree(before.path(before.config.data), "copied")
    assert run(capsys, "node", "data", "late", "--from-collect", "copied")[0] == 0


def test_a_changed_card_is_refused(kit, capsys):
    text = Path("alice/alice.card").read_text()
    Path("bad.card").write_text(text.replace('name = "alice"', 'name = "bob"'))
    for path, said in (
        ("bad.card", "not signed by its own key"),
        ("study.toml", "is no card"),
        ("none", "cannot read none"),
    ):
        code, _, err = run(capsys, "study", "add-server", "study.toml", path)
        assert code == 1 and said in err


def test_the_relays_certificate_is_kept_renewed_and_pinned(kit, capsys, tmp_path):
    from pdml.node.crypto import tls
    from pdml.study import Study

    pin, first = Study.load("study.toml").relay.fingerprint, Path("relay/relay.crt").read_bytes()
    assert (
        run(capsys, "relay", "config", "study.toml")[0] == 0
        and Path("relay/relay.crt").read_bytes() == first
    )
    Path("relay/relay.crt").unlink()
    assert run(capsys, "relay", "config", "study.toml")[0] == 0  # another certificate, the same key
    assert (
        Path("relay/relay.crt").read_bytes() != first
        and Study.load("study.toml").relay.fingerprint == pin
    )
    assert tls.fingerprint(tls.read(Path("relay/relay.crt"))) == pin
    code, _, err = run(capsys, "relay", "config", "study.toml", "--out", "other")
    assert code == 1 and "with another certificate or address: --revision" in err
    code, _, err = run(capsys, "relay", "config", "study.toml", "--address", "Not An Address")
    assert code == 1 and "relay.address must be HOST:PORT" in err
    assert all(
        path.stat().st_mode & 0o077 == 0
        for path in (Path("relay/relay.key"), Path("relay/relay.conf"))
    )
