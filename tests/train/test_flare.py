"""Three organisations on FLARE: provisioned kits, TLS, real processes. Killed, lied to and resumed, the numbers stay the local engine's."""

import json
import os
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
from federation import NAMES, PLAN, Federation, study_of

from pdml.accounting.events import IterateReleased
from pdml.cli import train_study
from pdml.cli.train_study import Choices
from pdml.errors import InvalidInput
from pdml.release.model import load_model
from pdml.study import template
from pdml.train.engines.flare import process
from pdml.train.engines.flare.provision import EXECUTOR, provision
from pdml.train.engines.flare.session import JobFailed
from pdml.train.journal import FINISHED, Journal

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flare")]

ROUNDS = 40


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


def released(reports):
    return np.array([reports[name].vector for name in NAMES])


def test_the_numbers_are_the_local_engines(federation):
    reports = federation.first
    np.testing.assert_array_equal(released(reports), federation.expected())
    for name in NAMES:
        report = reports[name]
        assert (report.records, report.source, report.earlier) == (60, "simulated", [])
        assert sum(isinstance(event, IterateReleased) for event in report.spent) == ROUNDS
        journal = wait_for_journal(federation.sites[name])
        assert journal.job("first").state == FINISHED
        with pytest.raises(Exception, match="finished"):
            journal.sealed("first")
        journal.close()


def wait_for_journal(site, seconds=20):
    """Free as soon as the job's process has ended."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return Journal(site.path("journal.db"))
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


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
    for each in processes:
        each.kill()
    psutil.wait_procs(processes, timeout=10)
    return len(processes)


def wait_until_training(federation, seconds=60):
    """Until every node's job process has begun; then a random moment of it."""
    deadline = time.monotonic() + seconds
    while not all(federation.job_processes(name) for name in NAMES):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_killed_at_random_moments_it_goes_on_to_the_same_bits(federation):
    """Job processes, whole sites and the relay: ten processes are killed with kill -9 before the job may end."""
    rng, killed, said = random.Random(2026), 0, []
    for attempt, victims in enumerate((("alice", "bob"), ("carol", "alice"), ("relay", "bob"))):
        number = federation.submit("survivor", resume=attempt > 0, start_timeout=60, round_timeout=8)
        wait_until_training(federation)
        time.sleep(rng.uniform(2.0, 6.0))
        for name in victims:
            whole = attempt > 0
            killed += kill(process.members(federation.sites[name]) if whole else federation.job_processes(name))
        if "relay" not in victims:
            try:
                federation.finish(number, "survivor", timeout=90)
            except JobFailed as error:
                said.append(str(error))
        federation.start()
    assert killed >= 8  # ten, unless a job was quicker than its killer
    assert [sentence for sentence in said if not any(name in sentence for name in NAMES)] == []  # somebody is named
    number = federation.submit("survivor", resume=True, start_timeout=90)
    wait_until_training(federation)
    silent = federation.job_processes("bob")
    for signal_number in (signal.SIGSTOP, signal.SIGCONT):  # a slow link: nobody answers for a while
        for each in silent:
            each.send_signal(signal_number)
        time.sleep(4)
    reports = federation.finish(number, "survivor")
    np.testing.assert_array_equal(released(reports), federation.expected())
    (events,) = {len(reports[name].events) for name in NAMES}
    assert events == ROUNDS + 1  # no round was released twice
    assert all(len(reports[name].earlier) == ROUNDS + 1 for name in NAMES)  # the first job's, on the same data sets


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


@pytest.mark.parametrize(("kind", "said"), [("nan", "carol sent a vector of round 3 that is not finite"), ("forged", "not carol's")])
def test_a_lying_node_is_named(federation, kind, said):
    federation.sites["carol"].path("lie").write_text(kind)
    try:
        with pytest.raises(JobFailed, match=f"carol.*{said}|{said}"):
            federation.train(f"lie-{kind}", executors={"carol": lying.PATH}, round_timeout=10)
    finally:
        federation.sites["carol"].path("lie").unlink()
    journal = wait_for_journal(federation.sites["alice"])
    job, events = journal.job(f"lie-{kind}"), journal.spent(federation.sites["alice"].holdings().dataset)
    assert 0 < job.round < ROUNDS
    of_job = [event for event in events if isinstance(event, IterateReleased)]
    assert len(of_job) >= job.round  # what was spent stays spent
    journal.close()


def test_another_study_and_a_class_that_is_not_allowed_are_refused(federation):
    study = federation.sites["bob"].path("study.toml")
    before = study.read_text()
    study.write_text(template.render(replace(federation.study, title="Another title")))
    try:
        with pytest.raises(JobFailed, match=r"bob: the job is for the study .* but this node has"):
            federation.train("other")
    finally:
        study.write_text(before)
    with pytest.raises(JobFailed):
        federation.train("foreign", executors={"bob": lying.PATH}, timeout=90)


# Without processes


def test_kits_are_private_and_trust_nobody(tmp_path):
    kits = provision(study_of(), tmp_path / "kits")
    for path in (tmp_path / "kits").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    resources = json.loads((kits["bob"] / "local" / "resources.json").read_text())
    assert resources["class_allow_list"] == [EXECUTOR] and resources["allow_log_streaming"] is False
    rights = json.loads((kits["bob"] / "local" / "authorization.json").read_text())["permissions"]
    assert set(rights) == {"project_admin"} and rights["project_admin"]["byoc"] == rights["project_admin"]["shell_commands"] == "none"
    keys = [json.loads((kit / "pdml" / "node.json").read_text())["keys"] for kit in kits.values()]
    assert all(key == keys[0] and set(key) == set(NAMES) for key in keys)
    assert len({(kits[name] / "pdml" / "node.key").read_text() for name in NAMES}) == len(NAMES)
    assert not os.path.exists(kits["bob"] / "startup" / "rootCA.key")


def test_provisioning_refuses_what_cannot_work(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be used for training with FLARE"):
        provision(study_of(("relay", "bob", "carol")), tmp_path / "a")
    study = study_of()
    far = replace(study, servers=(replace(study.servers[0], url="https://alice.example"), *study.servers[1:]))
    with pytest.raises(InvalidInput, match="relay must be given as HOST:PORT"):
        provision(far, tmp_path / "b")
    with pytest.raises(InvalidInput, match="relay must be HOST:PORT"):
        provision(far, tmp_path / "c", relay="nowhere")
    (tmp_path / "d").mkdir()
    with pytest.raises(InvalidInput, match="exists already"):
        provision(study, tmp_path / "d")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d"]
