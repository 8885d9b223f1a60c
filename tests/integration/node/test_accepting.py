"""The operator's way with an offer, by the command line: relay, alice and bob are real processes;
mallory has true keys and offers what she likes.
"""

import contextlib
import json
import os
import pty
import secrets
import sys

import msgspec
import pytest

pytest.importorskip("nats")

from federation import RUN, Federation, study_of
from lying import ROUND, Bent, at_work

from pdml.node.daemon.daemon import NodeDaemon
from pdml.node.protocol import requests, wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import LATER, REFUSED, PeerAnswer, RequestKind
from pdml.node.storage.control_db import ENDED, Attempt, OfferState
from pdml.planning.training_plan import TrainingPlan

MEMBERS = ("alice", "bob", "mallory")
CHEAP, DEAR = (TrainingPlan(rounds=rounds, penalty=0.5, noise_scale=0.05) for rounds in (4, 40))


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Without a plan in the study every offer asks, whatever the rule is."""
    folder = tmp_path_factory.mktemp("accepting")
    with Federation(folder, study_of(MEMBERS, plan=None), accept="ask") as made:
        made.start("relay", "alice", "bob")
        yield made


def offer_of(federation, daemon, job, plan):
    job_terms = JobTerms.for_study(federation.study, plan, job)
    limits = {"start_timeout": 600.0, "round_timeout": 20.0}
    terms = {
        "attempt": secrets.token_hex(16),
        "offerer": daemon.member.name,
        "resume": False,
        **limits,
    }
    return requests.Offer.of(job_terms, **terms)


def ask(daemon, kind, content, whom="alice"):
    replies = daemon.transport.ask(kind, {whom: content}, timeout=5)
    return msgspec.msgpack.decode(replies[whom], type=PeerAnswer)


def operate(federation, command, *arguments, name="alice", **options):
    return federation.pdml("node", command, federation.homes[name].folder, *arguments, **options)


def listed(federation, name="alice"):
    """The digests of the offers that wait, by offerer."""
    told = json.loads(operate(federation, "offers", "--json", name=name).stdout)
    return {
        each["offered_by"]: each["digest"] for each in told["offers"] if each["state"] == "pending"
    }


def at_terminal(federation, answer, *arguments):
    """`pdml node accept` of alice's operator on a real terminal: exit code, and what was shown."""
    pid, terminal = pty.fork()
    if not pid:
        command = ["node", "accept", str(federation.homes["alice"].folder), *arguments]
        os.execve(
            sys.executable,
            [sys.executable, "-c", RUN, *command],
            {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        )
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while part := os.read(terminal, 1000):
            shown += part
            if b"[y/N]" in shown and answer:
                os.write(terminal, answer)
                answer = b""
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def test_of_two_offers_of_one_name_the_operator_accepts_the_one_that_was_shown(federation):
    """Bob's comes first; mallory's, ten times as dear, was accepted in its place, once."""
    with at_work(federation, "mallory", NodeDaemon) as mallory:
        attempt = federation.offer("june", by="bob", plan=CHEAP, start_timeout=600)
        for name in ("alice", "mallory"):
            federation.wait(lambda name=name: "bob" in listed(federation, name))
        forged = offer_of(federation, mallory, "june", DEAR)
        ask(mallory, RequestKind.OFFER, forged.signed(mallory.member.identity))
        waiting = listed(federation)
        assert sorted(waiting) == ["bob", "mallory"]

        done = operate(federation, "accept", "june", "--yes")
        assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1
        for who, digest in waiting.items():
            assert f"{digest} is {who}'s offer of june" in done.stderr
        done = operate(federation, "accept", waiting["bob"], input="y\n")
        assert done.returncode == 1 and done.stdout == ""
        assert f"{waiting['bob']} --yes" in done.stderr and done.stderr.count("\n") == 1
        code, shown = at_terminal(federation, b"n\n", waiting["bob"][:16])
        assert code == 1 and "its offer waits on" in shown
        assert listed(federation) == waiting

        told = json.loads(operate(federation, "offers", waiting["bob"], "--json").stdout)
        code, shown = at_terminal(federation, b"y\n", waiting["bob"][:16])
        assert code == 0, shown
        for said in (
            "job june, offered by bob",
            f"digest {waiting['bob']}",
            "members: alice, bob, mallory",
            f"data set: {told['dataset'][:12]}, 60 records",
            "4 rounds with bob, mallory",
            "noise_scale 0.05",
            "at most 600 s until all have accepted",
            "all other servers together",
            "Accept bob's offer of job june on these terms?",
        ):
            assert said in shown, shown
        assert operate(federation, "accept", "june", "--yes", name="mallory").returncode == 0
        done_everywhere(federation, attempt)
        assert federation.round("june", "alice") == CHEAP.rounds
        assert federation.state(forged.attempt, "alice")[0] in (OfferState.PENDING, *ENDED)

        (account,) = federation.status("alice")["datasets"]
        spent = {
            line["data"]: line["epsilon"]
            for line in account["privacy"]["rows"]
            if line["adversary"] == "other servers"
        }
        assert {each["data"]: each["epsilon_after"] for each in told["costs"]} == spent
        assert all(each["epsilon_before"] < each["epsilon_after"] for each in told["costs"])

        done = operate(federation, "refuse", forged.attempt[:8])
        assert done.returncode == 1  # no digest: the attempt's name is the offerer's choice
        if "mallory" in listed(federation):
            done = operate(federation, "refuse", waiting["mallory"], "--why", "too dear")
            assert done.returncode == 0 and f"digest {waiting['mallory']}" in done.stdout


def test_the_name_of_a_job_is_shown_as_plain_text(federation):
    with at_work(federation, "mallory", NodeDaemon) as mallory:
        named = "\x1b[2J\nyes" + "x" * 1000
        offer = msgspec.structs.replace(offer_of(federation, mallory, "ends", CHEAP), job=named)
        ask(mallory, RequestKind.OFFER, offer.signed(mallory.member.identity))
    shown = operate(federation, "offers").stdout
    assert "\x1b" not in shown
    assert f"[2J yes{'x' * 56}, offered by mallory: refused" in shown


def test_few_offers_of_one_member_wait_at_a_time(federation):
    """An operator's list holds no more of them, and has room for everybody else's."""
    with at_work(federation, "mallory", NodeDaemon) as mallory:
        made = [offer_of(federation, mallory, f"many-{i}", CHEAP) for i in range(12)]
        answers = [
            ask(mallory, RequestKind.OFFER, each.signed(mallory.member.identity)) for each in made
        ]
        assert [each.state for each in answers] == [LATER] * 8 + [REFUSED] * 4
        assert answers[-1].sentence == (
            "8 offers of mallory wait for alice's operator: stop one, or wait for an answer"
        )
        again = ask(mallory, RequestKind.OFFER, made[0].signed(mallory.member.identity))
        assert again.state == LATER  # it is one of the eight
        assert federation.state(made[-1].attempt, "alice") == ("", "")
        attempt = federation.offer("bobs", by="bob", plan=CHEAP, start_timeout=600)
        federation.wait(lambda: federation.state(attempt, "alice")[0] == OfferState.PENDING)
        federation.stop(attempt, by="bob")
        stop = requests.Stop(attempt=made[0].attempt, sentence="never mind")
        ask(mallory, RequestKind.STOP, msgspec.msgpack.encode(stop))
        assert (
            ask(mallory, RequestKind.OFFER, made[8].signed(mallory.member.identity)).state == LATER
        )
        for each in made[1:9]:
            stop = requests.Stop(attempt=each.attempt, sentence="never mind")
            ask(mallory, RequestKind.STOP, msgspec.msgpack.encode(stop))


def test_an_offer_that_has_ended_stays_so_however_many_are_refused(federation):
    with at_work(federation, "mallory", NodeDaemon) as mallory:
        offer = offer_of(federation, mallory, "over", CHEAP)
        content = offer.signed(mallory.member.identity)
        with contextlib.closing(federation.control_db()) as table:
            names = {"job": "over", "terms": offer.terms, "offerer": "mallory"}
            ended = {"state": OfferState.FAILED, "sentence": "mallory stopped the job"}
            table.put(Attempt(attempt=offer.attempt, offer=content, **names, **ended))
            ended["state"] = OfferState.REFUSED
            for i in range(1_001):
                table.put(Attempt(attempt=f"{i:032d}", offer=b"", **names, **ended))
        answer = ask(mallory, RequestKind.OFFER, content)
        assert (answer.state, answer.sentence) == (REFUSED, "mallory stopped the job")


def test_a_day_is_too_long_to_hold_a_node(federation):
    folder, study = federation.homes["alice"].folder, federation.folder / "study.toml"
    done = federation.pdml(
        "train", study, "--engine", "nodes", "--node", folder, "--start-timeout", "86400"
    )
    assert done.returncode == 1 and "[1, 3600], got 86400" in done.stderr
    with at_work(federation, "mallory", NodeDaemon) as mallory:
        offer = offer_of(federation, mallory, "long", CHEAP)
        day = msgspec.structs.replace(offer, start_timeout=86_400.0)
        answer = ask(mallory, RequestKind.OFFER, day.signed(mallory.member.identity))
    assert answer.state == REFUSED and "must lie in [1, 3600]" in answer.sentence


# Under the rule "study"


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """Nobody is asked about the study's own plan."""
    folder = tmp_path_factory.mktemp("by-rule")
    with Federation(folder, study_of(MEMBERS), accept="study") as made:
        made.start("relay", "alice", "bob")
        yield made


class Silent(Bent):
    """Says nothing more from round 3 on, while ``quiet``."""

    quiet = True

    def said(self, terms, peer, data):
        message = msgspec.msgpack.decode(data, type=wire_messages.Vector)
        return b"" if self.quiet and message.round >= ROUND else data


def abort(federation, job, way, **options):
    """Mallory begins a job and lets nobody finish it, by word or by silence."""
    patience = 600.0 if way == "stops" else 5.0
    attempt = federation.offer(job, by="mallory", round_timeout=patience, pardon=False, **options)
    federation.wait(lambda: federation.round(job, "alice") >= ROUND - 1)
    if way == "stops":
        federation.stop(attempt, by="mallory")
    for name in MEMBERS:
        federation.wait(lambda name=name: federation.state(attempt, name)[0] in ENDED)
    return attempt


def done_everywhere(federation, attempt):
    """Members end a moment apart, and need each other until then."""
    for name in MEMBERS:
        federation.finish(attempt, by=name)


@pytest.mark.parametrize("way", ["stops", "is silent"])
def test_who_began_a_job_and_left_it_is_asked_about_the_next_time(ruled, way):
    """Forty-one jobs in thirty seconds spent alice's budget, once, and asked nobody."""
    first, again, then, last = (f"{name}-{way[-1]}" for name in ("one", "two", "three", "four"))
    ruled.pardon("mallory")
    with at_work(ruled, "mallory", Silent) as mallory:
        abort(ruled, first, way)
        released = ruled.round(first, "alice")
        assert released >= ROUND - 1
        waits = ruled.offer(again, by="mallory", start_timeout=600, pardon=False)
        for name in ("alice", "bob"):
            ruled.wait(lambda name=name: ruled.state(waits, name)[0] != "")
            assert ruled.state(waits, name) == (
                OfferState.PENDING,
                f"jobs of mallory have spent budget and have no result: {first}",
            )
        shown = " ".join(operate(ruled, "status").stdout.split())
        assert "but an operator is asked about the next: jobs of mallory have spent" in shown
        assert ruled.status("alice")["unfinished"] == {"mallory": [first]}
        ruled.kill("alice")
        ruled.start("alice")
        assert "have no result" in operate(ruled, "offers", again).stdout
        for name in ("alice", "bob"):
            assert (
                ruled.round(again, name) == 0 and ruled.state(waits, name)[0] == OfferState.PENDING
            )
        mallory.quiet = False
        for name in ("alice", "bob"):
            assert operate(ruled, "accept", again, "--yes", name=name).returncode == 0
        done_everywhere(ruled, waits)
        free = ruled.offer(then, by="mallory", pardon=False)  # nobody is asked any more
        done_everywhere(ruled, free)
        mallory.quiet = True
        attempt = abort(ruled, last, way)
        mallory.quiet = False
        resumed = ruled.offer(last, by="mallory", resume=True, pardon=False)
        done_everywhere(ruled, resumed)  # the whole of it was accepted when it was new
        for name in ("alice", "bob"):
            with contextlib.closing(ruled.control_db(name)) as table:
                assert "mallory" not in table.unfinished()
        assert ruled.state(attempt, "alice")[0] == OfferState.FAILED


def test_others_are_not_asked_about_for_what_a_member_left(ruled):
    ruled.pardon("mallory")
    with at_work(ruled, "mallory", Silent) as mallory:
        abort(ruled, "left", "stops")
        mallory.quiet = False
        done_everywhere(ruled, ruled.offer("bobs", by="bob", pardon=False))


def test_a_job_that_ended_before_it_released_anything_asks_nobody(ruled):
    ruled.pardon("mallory")
    with at_work(ruled, "mallory", NodeDaemon) as mallory:
        plan = ruled.study.plan
        offer = offer_of(ruled, mallory, "never", plan)
        assert ask(mallory, RequestKind.OFFER, offer.signed(mallory.member.identity)).state == "ok"
        stop = requests.Stop(attempt=offer.attempt, sentence="never mind")
        ask(mallory, RequestKind.STOP, msgspec.msgpack.encode(stop))
        done_everywhere(ruled, ruled.offer("after-never", by="mallory", pardon=False))
