"""Three organisations over a real relay, with real processes: the numbers are the local engine's,
whatever is killed.
"""

import contextlib
import json
import os
import pty
import random
import secrets
import signal
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from pdml.node.protocol.job_terms import JobTerms

pytest.importorskip("nats")

from federation import NAMES, PLAN, RUN, Ended, Federation, free_port, study_of
from lying import at_work

from pdml.accounting import Budget, Ledger
from pdml.consortium.job_client import load_job_result, train_nodes
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.errors import InvalidInput, PDMLError
from pdml.node.crypto.hpke import Context
from pdml.node.daemon.daemon import NodeDaemon
from pdml.node.job.coordinator import Coordinator
from pdml.node.protocol.requests import (
    LATER,
    REFUSED,
    Offer,
    PeerAnswer,
    Postpone,
    RequestKind,
    read_answer,
)
from pdml.node.storage.control_db import ENDED, Attempt, OfferState, digest_of
from pdml.node.storage.journal import JobState, Journal
from pdml.node.storage.node_dir import JOURNAL

ROUNDS = 60


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Started once, with a first job done, so that tests may run in any order."""
    with Federation(
        tmp_path_factory.mktemp("nodes"), study_of(plan=replace(PLAN, rounds=ROUNDS))
    ) as made:
        made.start()
        made.train("first")
        made.all_finished("first")
        yield made


def test_the_numbers_are_the_local_engines_at_every_member(federation):
    for name in NAMES:
        np.testing.assert_array_equal(federation.released("first", name), federation.expected())
        with federation.journal(name) as journal:
            assert (
                journal.job("first").state == JobState.FINISHED
                and journal.job("first").round == ROUNDS
            )
            with pytest.raises(Exception, match="finished"):
                journal.sealed("first")


def test_every_member_has_the_same_statements(federation):
    held = []
    for name in NAMES:
        federation.statements("first", name)  # members end a moment apart
        held.append(federation.signed("first", name))
    assert held[0] == held[1] == held[2] and sorted(held[0]) == sorted(NAMES)


def test_a_python_user_trains_by_one_call_and_every_member_gathers_the_same(federation):
    seen = []
    ended = train_nodes(
        federation.study, federation.homes["alice"].folder, job="by-call", progress=seen.append
    )
    np.testing.assert_array_equal(ended.result.releases, federation.released("by-call"))
    assert ended.problem == "" and seen and set(seen[-1]) <= set(NAMES)
    federation.all_finished("by-call")
    at_bob = load_job_result(federation.homes["bob"], "by-call")
    assert (at_bob.signed, at_bob.evidence) == (ended.signed, {})
    np.testing.assert_array_equal(at_bob.model.coefficients, ended.model.coefficients)
    for job, said in (
        ("by-call", "knows job by-call already"),
        ("a b", "job must be 1 to 64 letters"),
    ):
        with pytest.raises(PDMLError, match=said):
            train_nodes(federation.study, federation.homes["alice"].folder, job=job)
    with pytest.raises(InvalidInput, match="resume needs job"):
        train_nodes(federation.study, federation.homes["alice"].folder, resume=True)
    with pytest.raises(InvalidInput, match="another study"):
        other = replace(federation.study, title="Another one")
        train_nodes(other, federation.homes["alice"].folder)
    with pytest.raises(InvalidInput, match="is not known at alice"):
        load_job_result(federation.homes["alice"], "never")


def test_no_secret_is_readable_by_others_and_nothing_listens(federation):
    for name in NAMES:
        home = federation.homes[name]
        assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
        for path in home.folder.rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path.suffix == ".card", path
        assert sockets(federation.processes[name].pid) == {"listening": 0, "connected": 1}
    assert sockets(federation.processes["relay"].pid)["listening"] == 1


def sockets(pid):
    """Of one process, from /proc: how many TCP and UDP sockets listen, and how many TCP connections
    it has.
    """
    own = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(os.readlink(link))
    listening = connected = 0
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in own:
                listening += fields[3] == "0A" or table.startswith("udp")
                connected += fields[3] == "01"
    return {"listening": listening, "connected": connected}


def test_a_node_is_lean(federation):
    """What is only needed by people who look at figures is not in a node that has done a job."""
    heavy = ("matplotlib", "sklearn", "networkx", "pandas", "numba", "rich")
    code = f"""
import sys, threading
from pdml.node.daemon.daemon import run
threading.Timer(3.0, lambda: (print([m for m in {heavy} if m in sys.modules]), sys.stdout.flush(), __import__("os")._exit(0))).start()
run(__import__("pathlib").Path(sys.argv[1]), simulated_noise=1)
"""
    federation.kill("carol", signal.SIGTERM)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, federation.homes["carol"].folder],
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        federation.start("carol")
    assert done.stdout.strip() == "[]" and "connected to the relay" in done.stderr


def test_any_member_offers_and_a_job_begins_only_if_all_accept(federation):
    federation.homes["carol"] = federation.homes["carol"].save(accept="ask")
    try:
        attempt = federation.offer("pending", by="bob")
        federation.wait(lambda: federation.state(attempt, "carol")[0] == "pending")
        assert all(federation.round("pending", name) == 0 for name in NAMES)
        folder = federation.homes["carol"].folder
        done = federation.pdml("node", "accept", folder, "pending", "--yes")
        assert done.returncode == 0, done.stderr
        federation.finish(attempt, by="bob")
        refused = federation.offer("refused", by="bob")
        federation.wait(lambda: federation.state(refused, "carol")[0] == "pending")
        done = federation.pdml(
            "node",
            "refuse",
            federation.homes["carol"].folder,
            "refused",
            "--why",
            "not before Monday",
        )
        assert done.returncode == 0, done.stderr
        with pytest.raises(Ended, match=r"carol refused the job: .*not before Monday"):
            federation.finish(refused, by="bob")
        assert all(federation.round("refused", name) == 0 for name in NAMES)
    finally:
        federation.homes["carol"] = federation.homes["carol"].save(accept="study")


@pytest.mark.parametrize("resume", [False, True])
def test_a_finished_job_is_not_done_again(federation, resume):
    if resume:
        federation.train("first", resume=True)
        np.testing.assert_array_equal(federation.released("first"), federation.expected())
    else:
        with pytest.raises(Ended, match="knows job first already"):
            federation.train("first")
    for name in NAMES:
        with federation.journal(name) as journal:
            assert journal.job("first").round == ROUNDS


def test_killed_at_random_moments_it_goes_on_by_itself_to_the_same_bits(federation):
    """Nodes and the relay are killed with kill -9 and started again, as a service manager does,
    while the job goes on.
    """
    rng, killed = random.Random(2026), 0
    attempt = federation.offer("survivor", round_timeout=30)
    federation.wait(lambda: federation.round("survivor", "alice") > 0)
    for victims in (("alice",), ("bob", "carol"), ("relay",), ("carol",)):
        time.sleep(rng.uniform(0, 0.1))
        for name in victims:
            federation.kill(name)
            killed += 1
        federation.start(*victims)
    federation.finish(attempt)
    assert killed == 5
    for name in NAMES:
        federation.wait(lambda name=name: federation.state(attempt, name)[0] == "done")
        np.testing.assert_array_equal(federation.released("survivor", name), federation.expected())


class Whispering(NodeDaemon):
    """Nobody hears it say that a job begins, until it is started again."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        ask = self.transport.ask
        self.transport.ask = lambda kind, messages, **options: (
            {} if kind == RequestKind.BEGIN else ask(kind, messages, **options)
        )


@pytest.mark.parametrize("job", ["unheard", "first"])
def test_a_job_begins_everywhere_though_its_offerer_fell_before_it_could_say_so(federation, job):
    """Of a job that is finished already, too: whoever has accepted it would be busy with it for the
    offerer's whole patience.
    """
    with at_work(federation, "alice", Whispering):
        attempt = federation.offer(job, resume=job == "first", start_timeout=300)
        reached = "done" if job == "first" else "begun"
        federation.wait(lambda: federation.state(attempt)[0] == reached)
        assert [federation.state(attempt, name)[0] for name in NAMES[1:]] == ["accepted"] * 2
    federation.start("alice")
    for name in NAMES:
        federation.wait(lambda name=name: federation.state(attempt, name)[0] == "done")
        np.testing.assert_array_equal(federation.released(job, name), federation.expected())


def test_who_is_done_at_once_still_tells_the_others_that_the_job_begins(federation, monkeypatch):
    """A node that has finished the job is done before it could have told anybody."""
    broadcast = Coordinator.broadcast_begin

    def late(self, offer, begin):
        federation.wait(lambda: federation.state(offer.attempt)[0] == "done")
        yield from broadcast(self, offer, begin)

    monkeypatch.setattr(Coordinator, "broadcast_begin", late)
    with at_work(federation, "alice", NodeDaemon):
        attempt = federation.offer("first", resume=True, start_timeout=300)
        for name in NAMES:
            federation.wait(lambda name=name: federation.state(attempt, name)[0] == "done")
    federation.start("alice")


SIGNALS = """
import os, random, signal, sys, threading, time
from pdml.node.daemon import daemon as node_process

class Idle:
    def __init__(self):
        self.leaving = threading.Event()
    def leave(self):
        self.leaving.set()

for i in range(300):
    idle = Idle()
    node_process.leave_on_signal(idle)
    if not (child := os.fork()):  # another process: a thread would interrupt where locks are released
        time.sleep(random.uniform(0, 0.002))
        os.kill(os.getppid(), (signal.SIGTERM, signal.SIGINT)[i % 2])
        os._exit(0)
    while not idle.leaving.wait(1e-9):
        pass
    os.waitpid(child, 0)
"""


def test_a_signal_ends_a_node_whatever_it_does_just_then():
    """A handler that takes a lock which the interrupted thread holds hangs for ever: here, within a
    few of 300 signals.
    """
    env = dict(os.environ)
    env.pop("COVERAGE_PROCESS_CONFIG", None)  # measuring takes locks of its own
    subprocess.run([sys.executable, "-c", SIGNALS], check=True, timeout=60, env=env)


def test_a_member_that_stays_away_is_named_and_the_job_resumes(federation):
    attempt = federation.offer("absent", round_timeout=5)
    federation.wait(lambda: federation.round("absent", "bob") > 0)
    federation.kill("bob")
    with pytest.raises(Ended, match="bob"):
        federation.finish(attempt)
    federation.start("bob")
    federation.wait(
        lambda: federation.state(attempt, "bob")[0] == "failed"
    )  # its neighbours are in the job no more
    federation.train("absent", resume=True, by="carol")
    np.testing.assert_array_equal(federation.released("absent", "carol"), federation.expected())


def test_an_offer_waits_for_the_job_before_it_and_can_be_stopped_meanwhile(federation):
    first, then = federation.offer("one", by="alice"), federation.offer("two", by="alice")
    stopped = federation.offer("three", by="alice")
    federation.wait(lambda: federation.state(stopped)[0] != "")
    federation.stop(stopped)
    with pytest.raises(Ended, match="alice stopped the job"):
        federation.finish(stopped)
    federation.finish(first)
    federation.finish(then)
    assert [federation.round(job, "bob") for job in ("one", "two", "three")] == [ROUNDS, ROUNDS, 0]


class Hesitant(NodeDaemon):
    """Answers no offer before it is told to."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.open = threading.Event()
        honest = self.handlers.by_kind[RequestKind.OFFER]

        def hesitate(context, content):
            return honest(context, content) if self.open.is_set() else PeerAnswer(LATER)

        self.handlers.by_kind[RequestKind.OFFER] = hesitate


def digest(federation, job, by, attempt):
    limits = {"resume": False, "start_timeout": 60.0, "round_timeout": 20.0}
    offer = Offer.of(federation.job_terms(job), attempt=attempt, offerer=by, **limits)
    return digest_of(offer.signed(federation.homes[by].identity()))


@pytest.mark.parametrize("first", ["alice", "bob"])
def test_of_two_members_offers_at_the_same_time_one_waits_for_the_other(federation, first):
    """Carol has accepted alice's, and each of the two has accepted its own, before either hears
    of the other's.
    """
    jobs = {name: f"{name}s-while-{first}-is-first" for name in ("alice", "bob")}
    with at_work(federation, "bob", Hesitant) as bob:
        attempts = {"alice": secrets.token_hex(16)}
        federation.offer(jobs["alice"], attempt=attempts["alice"], start_timeout=60.0)
        federation.wait(lambda: federation.state(attempts["alice"], "carol")[0] == "accepted")
        other = digest(federation, jobs["alice"], "alice", attempts["alice"])
        while (digest(federation, jobs["bob"], "bob", tried := secrets.token_hex(16)) < other) != (
            first == "bob"
        ):
            pass
        attempts["bob"] = tried
        federation.wait(lambda: federation.state(attempts["alice"])[0] == "accepted")
        federation.offer(jobs["bob"], by="bob", attempt=tried, start_timeout=60.0)
        federation.wait(
            lambda: bob.admission.work is not None and bob.admission.work.offer.attempt == tried
        )
        bob.open.set()
        for name, attempt in attempts.items():
            federation.finish(attempt, by=name)
            federation.all_finished(jobs[name])
    federation.start("bob")
    for name in NAMES:
        with federation.journal(name) as journal:
            order = [job.job for job in journal.jobs() if job.job in jobs.values()]
        assert order[0] == jobs[first]


def test_nobody_postpones_anothers_job_nor_one_that_has_begun(federation):
    with at_work(federation, "bob", Hesitant), at_work(federation, "carol", NodeDaemon) as carol:
        attempt = federation.offer("not-postponed")
        federation.wait(lambda: carol.admission.work is not None)
        work, message = carol.admission.work, msgspec.msgpack.encode(Postpone(attempt=attempt))
        for sender, begun in (("bob", False), ("alice", True)):
            work.begun = begun
            context = Context(
                carol.member.study.hash,
                "",
                RequestKind.POSTPONE,
                sender,
                "carol",
                secrets.token_hex(16),
            )
            answer = read_answer(carol.handlers.handle(context, message))
            assert answer.state == REFUSED and "wants to postpone" in answer.sentence
            assert carol.admission.work is work
        work.begun = False
        federation.stop(attempt)
        with pytest.raises(Ended, match="alice stopped the job"):
            federation.finish(attempt)
    federation.start("bob", "carol")


def test_a_job_that_nobody_answers_is_given_up(federation):
    federation.kill("bob")
    try:
        began = time.monotonic()
        with pytest.raises(
            Ended,
            match=r"not accepted by all within 2 s \(bob: it does not answer\); nothing was "
            r"released",
        ):
            federation.train("unanswered", start_timeout=2)
        assert time.monotonic() - began < 15
    finally:
        federation.start("bob")


def test_any_member_stops_a_job_everywhere_and_the_journal_tells_what_was_released(federation):
    attempt = federation.offer("stopped", by="alice")
    federation.wait(lambda: federation.round("stopped", "carol") > 3)
    federation.processes["bob"].send_signal(signal.SIGSTOP)  # the others wait for it
    try:
        done = federation.pdml("node", "stop", federation.homes["carol"].folder)
        assert done.returncode == 0, done.stderr
        with pytest.raises(Ended, match="carol ended the job: carol stopped the job"):
            federation.finish(attempt)
    finally:
        federation.processes["bob"].send_signal(signal.SIGCONT)
    for name in NAMES:
        federation.wait(lambda name=name: federation.state(attempt, name)[0] == "failed")
        told = federation.status(name)
        with federation.journal(name) as journal:
            released = journal.job("stopped").round
            assert (
                next(job["released"] for job in told["jobs"] if job["job"] == "stopped") == released
            )
            assert (
                journal.releases(federation.homes[name].load_training_data().dataset)
                == told["datasets"][0]["releases"]
            )
    federation.train("stopped", resume=True)
    np.testing.assert_array_equal(federation.released("stopped"), federation.expected())


def test_status_tells_the_truth(federation):
    told = federation.status("alice")
    assert told["running"] and told["connected"] and told["problem"] == "" and told["warning"] == ""
    assert abs(told["connection"]["since"] - time.time()) < 3600
    federation.kill("relay")
    try:
        federation.wait(lambda: not federation.connected("alice"))
        told = federation.status("alice")
        assert told["running"] and not told["connected"] and "relay" in told["connection"]["why"]
    finally:
        federation.start("relay", *NAMES)
    federation.kill("alice")
    told = federation.status("alice")
    assert not told["running"] and not told["connected"]
    federation.start("alice")


def test_figures_for_prometheus_on_this_machine_only(federation):
    import urllib.request

    folder, port = federation.homes["bob"].folder, free_port()
    done = federation.pdml("node", "run", folder, "--metrics", f"0.0.0.0:{port}")
    assert done.returncode == 1 and (
        "metrics must be 127.0.0.1:PORT" in done.stderr or "another process" in done.stderr
    )
    federation.kill("bob")
    command = [*federation.command("bob"), "--metrics", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        federation.wait(lambda: federation.connected("bob"))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            shown = dict(line.rsplit(" ", 1) for line in page.read().decode().splitlines())
        assert shown["pdml_node_connected"] == "1"
        with federation.journal("bob") as journal:
            assert (
                float(shown["pdml_node_released_total"])
                == journal.releases(federation.homes["bob"].load_training_data().dataset)
                > 0
            )
        assert any(name.startswith("pdml_node_spent_epsilon") for name in shown)
    finally:
        process.terminate()
        process.wait(20)
        federation.start("bob")


@pytest.mark.parametrize("state", [OfferState.PENDING, OfferState.ALLOWED])
def test_an_offer_that_its_offerer_has_given_up_does_not_stay_open(federation, state):
    """Killed before it could accept, and down when the offerer said that it was over."""
    federation.kill("bob")
    terms = {"attempt": secrets.token_hex(16), "job": f"given-up-{state}", "offerer": "alice"}
    job_terms = federation.job_terms(terms["job"])
    limits = {"start_timeout": 1.0, "round_timeout": 1.0}
    offer = Offer.of(
        job_terms, attempt=terms["attempt"], offerer="alice", resume=False, **limits
    ).signed(federation.homes["alice"].identity())
    with contextlib.closing(federation.control_db("bob")) as control_db:
        control_db.put(
            Attempt(**terms, terms=job_terms.digest, offer=offer, state=state, sentence="")
        )
    federation.start("bob")
    federation.wait(lambda: federation.state(terms["attempt"], "bob")[0] in ENDED)
    assert "alice offered job given-up" in federation.state(terms["attempt"], "bob")[1]


def test_two_processes_on_one_journal(federation):
    done = federation.pdml("node", "run", federation.homes["alice"].folder, timeout=60)
    assert done.returncode == 1 and "another process is using it" in done.stderr


def test_the_budget_of_any_node_refuses_before_anybody_releases(tmp_path):
    """Alice, with few records, can afford one job of twelve rounds, and not a second one; the
    others could.
    """
    study = study_of(plan=replace(PLAN, noise_scale=2.0, objective_bound=1.0))
    job_terms = JobTerms.for_study(study, study.plan, "one")
    once = Ledger(
        (
            job_terms.plan.events(
                job_terms.training.server_spec(
                    job_terms.index("alice"), records=40, epsilons=(0.5,)
                )
            ),
        ),
        classes=2,
    )
    spent = next(
        line.epsilon
        for line in once.rows()
        if (line.adversary, line.data) == ("other servers", "features")
    )
    study = replace(study, budget=Budget(features_epsilon=1.1 * spent))
    with Federation(
        tmp_path, study, records={"alice": 40, "bob": 4000, "carol": 4000}
    ) as federation:
        federation.start()
        federation.train("one", by="bob")
        with pytest.raises(
            Ended,
            match="alice refused the job: 12 rounds exceed alice's budget for this data "
            "set after the 12 releases",
        ):
            federation.train("two", by="bob")
        assert all(federation.round("two", name) == 0 for name in NAMES)


def test_compiled_and_sparse_solves_are_the_local_engines_too(tmp_path):
    """One server above the size from which loops are compiled, two below; and a study whose records
    are mostly zeros.
    """
    pytest.importorskip("numba")
    study = study_of(
        plan=replace(PLAN, rounds=250, noise_decay=1 - 1e-4),
        encoder=Encoder(attributes=tuple(Number(name=f"x{i}", low=0, high=1) for i in range(3))),
    )
    with Federation(
        tmp_path / "large", study, records={"alice": 50_000, "bob": 60, "carol": 70}
    ) as federation:
        federation.start()
        federation.train("large", start_timeout=60, round_timeout=60, timeout=120)
        np.testing.assert_array_equal(federation.released("large"), federation.expected())
    levels = tuple(f"level {i}" for i in range(12))
    study = study_of(
        encoder=Encoder(
            attributes=(Number(name="age", low=18, high=100), Category(name="town", levels=levels))
        )
    )
    with Federation(tmp_path / "sparse", study) as federation:
        federation.start()
        federation.train("sparse")
        np.testing.assert_array_equal(federation.released("sparse"), federation.expected())


class WrongClocks(Federation):
    """Alice lives a day ahead and bob a day behind: Python's clock, for under a pin TLS asks
    none.
    """

    def command(self, name):
        days = {"alice": 1, "bob": -1}.get(name, 0)
        code = f"import time; now = time.time; time.time = lambda: now() + {days} * 86400; {RUN}"
        self.program = [sys.executable, "-c", code, "node", "run"]
        return super().command(name)


def test_clocks_that_are_a_day_apart_change_nothing(tmp_path):
    with WrongClocks(tmp_path) as federation:
        federation.program = "of each node"
        federation.start()
        times = [federation.log(name).read_text()[:10] for name in NAMES]
        assert times[1] < times[2] < times[0]  # they are that wrong
        federation.train("first")
        np.testing.assert_array_equal(federation.released("first"), federation.expected())
        told = federation.status("bob")
        assert told["connected"] and [job["released"] for job in told["jobs"]] == [PLAN.rounds]


def test_ctrl_c_on_a_terminal_stops_the_job_at_every_member(federation):
    """The real command on a real terminal; one node is held, so that the others wait."""
    federation.train("quick")
    federation.processes["bob"].send_signal(signal.SIGSTOP)
    try:
        arguments = [
            "train",
            str(federation.folder / "study.toml"),
            "--engine",
            "nodes",
            "--job",
            "typed",
            "--node",
        ]
        pid, terminal = pty.fork()
        if not pid:
            os.execv(
                sys.executable,
                [sys.executable, "-c", RUN, *arguments, str(federation.homes["alice"].folder)],
            )
        with contextlib.closing(federation.control_db()) as control_db:
            federation.wait(lambda: any(a.job == "typed" for a in control_db.attempts()))
            attempt = [a for a in control_db.attempts() if a.job == "typed"][-1].attempt
        os.write(terminal, b"\x03")
        said = b""
        with contextlib.suppress(OSError):  # how a terminal ends
            while part := os.read(terminal, 1000):
                said += part
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130, said
        assert b"job typed is being stopped at every member" in said and b"Traceback" not in said
    finally:
        federation.processes["bob"].send_signal(signal.SIGCONT)
        os.close(terminal)
    for name in ("alice", "carol"):
        federation.wait(lambda name=name: federation.state(attempt, name)[0] in (*ENDED, ""))
    federation.train("typed", resume=True)
    np.testing.assert_array_equal(federation.released("typed"), federation.expected())


def test_a_lost_journal_is_not_begun_anew(tmp_path):
    with Federation(tmp_path) as federation:
        federation.start()
        federation.train("first")
        federation.kill("bob")
        for path in federation.homes["bob"].folder.glob(f"{JOURNAL}*"):
            path.rename(path.with_name("gone-" + path.name))
        done = federation.pdml("node", "run", federation.homes["bob"].folder)
        assert done.returncode == 1 and "the journal journal.db is gone" in done.stderr
        assert (
            Journal.holder(federation.homes["alice"].path(JOURNAL))
            == federation.processes["alice"].pid
        )
        assert json.loads(
            federation.pdml("node", "offers", federation.homes["alice"].folder, "--json").stdout
        )["offers"]
