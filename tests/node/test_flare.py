"""Three organisations on FLARE: provisioned kits, TLS, real processes. Killed, lied to and resumed, the numbers stay the local engine's."""

import contextlib
import json
import random
import signal
import stat
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare")

import lying
import psutil
from federation import NAMES, PLAN, Federation, released, small_disk, study_of, wait_for_journal

from pdml.cli import train_study
from pdml.cli.train_study import Choices
from pdml.node.flare import process
from pdml.node.flare.session import JobFailed
from pdml.node.journal import FINISHED
from pdml.release.model import load_model
from pdml.study import template

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flare")]

ROUNDS = 60
KILLS = 10


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Started once, with a first job done, so that tests may run in any order; carol's operator also allows the executor of `lying.py`."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", str(Path(__file__).parent))
    made = Federation(tmp_path_factory.mktemp("flare"), study_of(plan=replace(PLAN, rounds=ROUNDS)), tapped=True)
    allow(made, "carol", lying.PATH)
    try:
        made.start()
        made.first = made.train("first")
        yield made
    finally:
        made.close()
        patch.undo()


def allow(federation, name, path):
    resources = federation.kits[name] / "local" / "resources.json"
    content = json.loads(resources.read_text())
    content["class_allow_list"].append(path)
    resources.write_text(json.dumps(content))


def test_the_numbers_are_the_local_engines(federation):
    reports = federation.first
    np.testing.assert_array_equal(released(reports), federation.expected())
    for name in NAMES:
        report = reports[name]
        assert (report.records, report.source, report.earlier) == (60, "simulated", [])
        assert federation.rounds_spent(name, "first") == list(range(1, ROUNDS + 1))
        readable = [path for path in federation.kits[name].rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077]
        assert readable == []  # to others on the machine: what FLARE wrote included
        journal = wait_for_journal(federation.sites[name])
        assert journal.job("first").state == FINISHED
        with pytest.raises(Exception, match="finished"):
            journal.sealed("first")
        journal.close()


def test_the_relay_carries_what_it_cannot_read(federation):
    """Of all frames that reached the relay, read after TLS, none holds a vector, nor the half of one; the topics are there."""
    seen = federation.tap.read_bytes()
    assert seen.count(b"pdml.release") >= len(NAMES) * (ROUNDS - 1)
    for name in NAMES:
        journal = wait_for_journal(federation.sites[name])
        try:
            payloads = [journal.outgoing("first", t) for t in range(1, ROUNDS)]
        finally:
            journal.close()
        assert not any(payload[: len(payload) // 2] in seen for payload in payloads)


def kill(processes):
    """How many of them still lived."""
    dead = 0
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
            dead += 1
    psutil.wait_procs(processes, timeout=10)
    return dead


def wait_for_a_round(federation, since, seconds=60):
    """Until a node has done one since then; not for ever, because a job may fail before."""
    told = [federation.sites[name].path("progress.json") for name in NAMES]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not any(path.exists() and path.stat().st_mtime > since for path in told):
        time.sleep(0.05)


def test_killed_at_random_moments_it_goes_on_to_the_same_bits(federation):
    """Job processes, whole sites and the relay: ten processes are killed with kill -9 before the job may end."""
    rng, job, killed, said, attempts = random.Random(2026), "survivor", 0, [], 0
    while killed < KILLS:
        assert attempts < 12, (killed, said)
        kind = attempts % 3
        began, number = time.time(), federation.submit(job, resume=True, start_timeout=60, round_timeout=8)
        wait_for_a_round(federation, began)
        time.sleep(rng.uniform(0, 0.5))
        for name in (("alice", "bob"), ("carol", "alice"), ("relay", "bob"))[kind]:
            killed += kill(federation.job_processes(name) if kind == 0 else process.members(federation.sites[name]))
        if kind < 2:
            try:
                federation.finish(number, job, timeout=90)
            except JobFailed as error:
                said.append(str(error))
        federation.start()
        attempts += 1
        if len(federation.rounds_spent("carol", job)) == ROUNDS:  # quicker than its killer: another one from the start
            job, killed = f"survivor-{attempts}", 0
    assert [sentence for sentence in said if not any(name in sentence for name in NAMES)] == []  # somebody is named
    began, number = time.time(), federation.submit(job, resume=True, start_timeout=90)
    wait_for_a_round(federation, began)
    silent = federation.job_processes("bob")
    for signal_number in (signal.SIGSTOP, signal.SIGCONT):  # nobody answers for a while
        for each in silent:
            each.send_signal(signal_number)
        time.sleep(4)
    reports = federation.finish(number, job)
    np.testing.assert_array_equal(released(reports), federation.expected())
    for name in NAMES:
        assert federation.rounds_spent(name, job) == list(range(1, ROUNDS + 1))  # none was released twice
        assert len(reports[name].earlier) > ROUNDS  # the first job's, on the same data sets


def test_both_engines_write_the_same_model(federation, tmp_path, capsys):
    """`pdml train`, of the finished job (whose reports are fetched again: nothing is run twice) and in one process."""
    study = tmp_path / "study.toml"
    study.write_text(template.render(federation.study))
    flare = Choices(engine="flare", admin=federation.kits["admin"], job="first", resume=True)
    folders = tuple(f"{name}={federation.sites[name].path('data')}" for name in NAMES)
    local = Choices(engine="local", folders=folders, job="first", seed=federation.seed)
    models = []
    for name, choices in (("flare", flare), ("local", local)):
        files = {"report": tmp_path / f"{name}.html", "model": tmp_path / f"{name}.json"}
        train_study.run(study, choices, files, force=False, as_json=True)
        assert json.loads(capsys.readouterr().out)["engine"] == name
        models.append(load_model(files["model"]))
        assert federation.study.title in files["report"].read_text()
    ours, oracle = models
    np.testing.assert_array_equal(ours.coefficients, oracle.coefficients)
    np.testing.assert_array_equal(ours.intercepts, oracle.intercepts)
    assert ours.provenance == oracle.provenance and ours.plan == oracle.plan and ours.privacy == oracle.privacy
    with pytest.raises(JobFailed, match="knows job first already: resume it, or give the job another name"):
        federation.train("first")


@pytest.mark.parametrize("kind", lying.LIES)
def test_a_lying_node_is_named(federation, kind):
    job, lie = f"lie-{kind}", federation.sites["carol"].path("lie")
    lie.write_text(kind)
    try:
        with pytest.raises(JobFailed, match=lying.LIES[kind]):
            federation.train(job, executors={"carol": lying.PATH}, round_timeout=15)
    finally:
        lie.unlink()
    spent = federation.rounds_spent("alice", job)
    assert spent == list(range(1, len(spent) + 1)) and lying.ROUND - 1 <= len(spent) <= lying.ROUND + 1  # what was spent stays spent


def test_nobody_speaks_in_anothers_name(federation):
    """FLARE lets any node in a job tell another to stop; what it says of a third is not repeated."""
    lie = federation.sites["carol"].path("lie")
    lie.write_text(lying.FRAMING)
    try:
        with pytest.raises(JobFailed, match=r"alice was told to stop$") as told:
            federation.train("framed", executors={"carol": lying.PATH}, round_timeout=15)
    finally:
        lie.unlink()
    assert lying.SLANDER not in str(told.value)


def test_a_full_disk_is_told_and_survived(federation):
    """Bob's journal has room for a few rounds; a job needs tens of KB for each."""
    journal = federation.sites["bob"].path("journal.db")
    wait_for_journal(federation.sites["bob"]).close()
    with small_disk(journal.stat().st_size + 3_000_000) as place:
        federation.move_journal("bob", str(place / "journal.db"))
        try:
            (place / "ballast").write_bytes(bytes(2_600_000))
            with pytest.raises(JobFailed, match=r"bob could not go on: the log of its node says"):
                federation.train("full", round_timeout=30)
            (place / "ballast").unlink()
            assert 0 < len(federation.rounds_spent("bob", "full")) < ROUNDS
            reports = federation.train("full", resume=True)
            np.testing.assert_array_equal(released(reports), federation.expected())
            assert federation.rounds_spent("bob", "full") == list(range(1, ROUNDS + 1))
        finally:
            federation.move_journal("bob", "journal.db")


def test_another_study_and_a_class_that_is_not_allowed_are_refused(federation):
    study = federation.sites["bob"].path("study.toml")
    before = study.read_text()
    study.write_text(template.render(replace(federation.study, title="Another title")))
    try:
        with pytest.raises(JobFailed, match=r"bob: the job is for the study .* but this node has"):
            federation.train("other")
    finally:
        study.write_text(before)
    with pytest.raises(JobFailed, match=r"\bbob\b"):
        federation.train("foreign", executors={"bob": lying.PATH}, timeout=90)
