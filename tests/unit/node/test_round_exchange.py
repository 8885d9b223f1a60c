"""A node on the air: real parties in threads, and every way in which a neighbour can misbehave or
be missing.
"""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from consortium import NAMES, PLAN, Consortium

from pdml.clock import SYSTEM_CLOCK
from pdml.errors import JournalError, PDMLError, PeerError
from pdml.node.job import round_exchange
from pdml.node.job.activity import drive
from pdml.node.job.round_exchange import Exchange, Stopped
from pdml.node.protocol import wire_messages
from pdml.node.protocol.requests import LATER, OK, REFUSED, PeerAnswer, RequestKind

HELLO, RELEASE = RequestKind.HELLO, RequestKind.RELEASE


class Air:
    """Carries messages between exchanges in this process; ``bend`` may change, drop (None) or
    repeat what is said.
    """

    def __init__(self, consortium, *, start_timeout=20.0, round_timeout=20.0, bend=None):
        self.bend = bend or (lambda sender, topic, peer, data: [data])
        limits = {"start_timeout": start_timeout, "round_timeout": round_timeout}
        self.exchanges = {
            name: Exchange(consortium.party(name), clock=SYSTEM_CLOCK, **limits) for name in NAMES
        }
        self.transports = {name: Sender(self, name) for name in NAMES}
        self.absent = set()

    def drive(self, name):
        drive(self.exchanges[name].run(), self.transports[name], SYSTEM_CLOCK)

    def run(self, expected=PDMLError):
        """How it ended at each node: None, or what was raised."""

        def one(name):
            try:
                if name not in self.absent:
                    self.drive(name)
            except expected as error:
                return error

        with ThreadPoolExecutor(len(NAMES)) as threads:
            return dict(zip(NAMES, threads.map(one, NAMES), strict=True))


class Sender:
    """The transport of one of them; ``send`` may be bent."""

    def __init__(self, air, name):
        self.air, self.name = air, name

    def ask(self, kind, messages, *, job, timeout):
        answers = self.send(kind, messages, timeout)
        return {peer: msgspec.msgpack.encode(answer) for peer, answer in answers.items()}

    def send(self, kind, messages, timeout):
        answers = {}
        for peer, data in messages.items():
            absent = peer in self.air.absent
            for message in [] if absent else self.air.bend(self.name, kind, peer, data):
                answers[peer] = self.air.exchanges[peer].answer(kind, self.name, message)
        return answers


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(round_exchange, "_PAUSE", 0.02)
    monkeypatch.setattr(round_exchange, "_FIRST", 0.2)


@pytest.fixture
def consortium(tmp_path):
    made = Consortium(tmp_path)
    yield made
    made.close()


def releases(consortium):
    return np.array([consortium.party(name).released for name in NAMES])


def test_rounds_in_threads_are_those_of_the_local_engine(consortium):
    assert set(Air(consortium).run().values()) == {None}
    np.testing.assert_array_equal(releases(consortium), consortium.by_local_engine())


def test_a_release_that_overtakes_a_hello_accuses_nobody(consortium):
    """Carol starts again; while alice's answer to its hello is on its way, alice gets to the next
    round and sends it. Once carol took that release first, and then the hello for one of a journal
    that was rolled back."""
    consortium.run(until=3)
    alice, heard = consortium.party("alice"), []
    consortium.kill("carol")
    honest = Air(consortium)
    carol, transport = honest.exchanges["carol"], honest.transports["carol"]
    greet = transport.send

    def late(topic, messages, timeout):
        answers = greet(topic, messages, timeout)
        with honest.exchanges["alice"]._lock:
            message = (
                alice.message("carol", alice.advance()) if topic == HELLO and alice.ready else None
            )
        if message:
            heard.append(carol.answer(RELEASE, "alice", message))
        return answers

    transport.send = late
    assert set(honest.run().values()) == {None}
    assert heard == [PeerAnswer(LATER, "alice, bob, dave")]
    np.testing.assert_array_equal(releases(consortium), consortium.by_local_engine())


def test_lost_and_repeated_messages_change_nothing(consortium):
    """Each message is lost the first time, then said twice: a replayed release is no release."""
    seen = set()

    def bend(sender, topic, peer, data):
        if (sender, topic, peer, data) in seen:
            return [data, data]
        seen.add((sender, topic, peer, data))
        return []

    assert set(Air(consortium, bend=bend).run().values()) == {None}
    np.testing.assert_array_equal(releases(consortium), consortium.by_local_engine())


@pytest.mark.parametrize(
    ("lie", "carol"),
    [
        ("bob, eve, carol, bob\n", "carol (which says it waits for bob)"),
        ("bob\n", "carol"),
        ("bob, dave", "carol"),
    ],
)
def test_the_one_that_is_gone_is_named_by_those_who_never_speak_with_it(consortium, lie, carol):
    """Dave's neighbours wait for bob, who is none of them. Who says that it waits for dave as well is
    named alone, and nothing is repeated but members' names.
    """

    def bend(sender, topic, peer, data):
        late = (
            topic == RELEASE and msgspec.msgpack.decode(data, type=wire_messages.Vector).round > 3
        )
        return [] if sender == "bob" and late else [data]

    air = Air(consortium, bend=bend)
    dave, honest = air.exchanges["dave"], air.exchanges["carol"].answer
    dave._round_timeout = 1.0

    def lying(topic, peer, data):
        answer = honest(topic, peer, data)
        return msgspec.structs.replace(answer, sentence="dave, carol, eve, bob\n")

    air.exchanges["carol"].answer = lying
    whole = air.drive

    def until_dave_ends(name):
        try:
            whole(name)
        finally:
            if name == "dave":
                for exchange in air.exchanges.values():
                    exchange.stop("dave has ended")

    air.drive = until_dave_ends
    told = str(air.run()["dave"])
    assert "waited 1 s for alice (which says it waits for bob), carol to send their" in told


def test_a_job_that_was_cut_off_goes_on(consortium):
    """Stopped in round 5 at one node, wherever the others were; then resumed from the journals."""
    air = Air(consortium, round_timeout=3.0)
    air.exchanges["bob"]._after_round = lambda t: (
        air.exchanges["bob"].stop("somebody pulled the plug") if t == 5 else None
    )
    ended = air.run()
    assert isinstance(
        ended["bob"], Stopped
    )  # who spoke to him afterwards heard why; who had nothing more to say waits in vain
    assert all(
        "pulled the plug" in str(error) or "for bob to send their release of round 5" in str(error)
        for error in ended.values()
    )
    consortium.close()
    assert set(Air(consortium).run().values()) == {None}
    np.testing.assert_array_equal(releases(consortium), consortium.by_local_engine())


def test_a_missing_neighbour_is_named_when_time_is_up(consortium):
    air = Air(consortium, start_timeout=1.0)
    air.absent.add("carol")
    began = time.monotonic()
    ended = air.run()
    assert time.monotonic() - began < 10
    assert any(
        "waited 1 s for carol to send an answer to the start" in str(error)
        for error in ended.values()
    )


def test_a_neighbour_that_falls_silent_is_named(consortium):
    """Its last words were those of round 4: whoever needs the next ones says so."""
    air = Air(consortium, round_timeout=1.0)
    air.bend = lambda sender, topic, peer, data: (
        [] if sender == "carol" and consortium.party("carol").round >= 4 else [data]
    )
    ended = air.run()
    neighbours = consortium.job_terms.neighbours("carol")
    assert any(
        re.search(r"for carol( \(which .*\))? to send their release of round", str(ended[name]))
        for name in neighbours
    )


LIES = {
    "not finite": lambda m: {"payload": np.full((1, 4), np.nan).tobytes()},
    "no honest one exceeds": lambda m: {"payload": np.full((1, 4), 1e200).tobytes()},
    "two different releases for round": lambda m: {
        "round": m.round - 1
    },  # stale: this payload for the round before
    "while": lambda m: {"round": m.round + 2},
    "trains another study": lambda m: {"study": "6" * 64},
    "under other terms": lambda m: {"terms": "6" * 64},
    "meant for": lambda m: {"recipient": "nobody"},
}


@pytest.mark.parametrize("said", [*LIES, "signature is not bob's", "no vector message"])
def test_a_liar_is_named_and_ends_the_job_for_all(consortium, said):
    def bend(sender, topic, peer, data):
        if sender != "bob" or topic != RELEASE:
            return [data]
        message = msgspec.msgpack.decode(data, type=wire_messages.Vector)
        if message.round != 3:
            return [data]
        if said == "no vector message":
            return [b"\x00" * 40]
        if said.startswith("signature"):
            return [wire_messages._signed(consortium.identities["carol"], message)]
        return [
            wire_messages._signed(
                consortium.identities["bob"],
                msgspec.structs.replace(message, **LIES[said](message)),
            )
        ]

    ended = Air(consortium, bend=bend, round_timeout=3.0).run()
    assert all(isinstance(error, PDMLError) for error in ended.values())
    assert any(
        isinstance(error, PeerError) and said in str(error) and str(error).startswith("bob ")
        for error in ended.values()
    )
    assert "bob" in str(ended["bob"]) and "refused" in str(ended["bob"])
    for name in NAMES:  # the ledger keeps what was spent, and no more than was committed
        (events,) = consortium.party(name).ledger.events
        assert (
            sum(type(event).__name__ == "IterateReleased" for event in events)
            == consortium.party(name).round
            <= 4
        )


def test_a_full_disk_ends_the_job_with_one_sentence(tmp_path):
    """SQLite's own limit of pages: a commit fails half way, as on a full disk."""
    consortium = Consortium(tmp_path, plan=replace(PLAN, rounds=60))
    consortium.party("dave")
    db = consortium.journals["dave"]._db
    (pages,) = db.row("PRAGMA page_count")
    db.change(f"PRAGMA max_page_count = {pages}")
    ended = Air(consortium, round_timeout=3.0).run()
    assert isinstance(ended["dave"], JournalError) and "full; nothing was sent" in str(
        ended["dave"]
    )
    stood = consortium.party("dave").round
    assert 0 < stood < 60 and consortium.journals["dave"].job("job-1").round == stood
    consortium.close()


def test_strangers_are_turned_away_and_change_nothing(consortium):
    alice = Air(consortium).exchanges["alice"]
    assert alice.answer(RELEASE, "mallory", b"x") == PeerAnswer(
        REFUSED, "mallory is no neighbour of alice"
    )
    assert alice.answer(HELLO, "", b"").state == REFUSED
    alice._check()  # the job goes on


def test_a_node_that_is_not_ready_is_asked_again(consortium):
    air = Air(consortium)
    ready = threading.Event()

    def shy(name):
        honest = air.transports[name].send

        def send(topic, messages, timeout):
            answers = honest(
                topic,
                {peer: data for peer, data in messages.items() if ready.is_set() or peer != "dave"},
                timeout,
            )
            return answers | {peer: PeerAnswer(LATER) for peer in messages if peer not in answers}

        return send

    for name, transport in air.transports.items():
        transport.send = shy(name)
    threading.Timer(1.0, ready.set).start()
    assert set(air.run().values()) == {None}


def test_an_answer_of_the_wrong_kind_names_who_gave_it(consortium):
    air = Air(consortium)
    air.exchanges["bob"].answer = lambda topic, peer, data: PeerAnswer(OK)
    ended = air.run()
    assert any("bob answered a hello with nothing" in str(error) for error in ended.values())


def test_a_neighbours_words_reach_no_terminal_as_they_are(consortium):
    air = Air(consortium)
    air.exchanges["bob"].answer = lambda topic, peer, data: PeerAnswer(
        "perhaps", "\x1b[31mred\n" + "x" * 10_000
    )
    said = [str(error) for error in air.run().values() if "bob refused" in str(error)]
    assert said and all(
        each.isprintable() and "red x" in each and len(each) < 1200 for each in said
    )


def test_a_node_ends_when_it_has_heard_the_last_round_of_all(consortium):
    """Carol's last release is lost three times; without it nobody could tell all it heard."""
    lost = []

    def bend(sender, topic, peer, data):
        if sender == "carol" and topic == RELEASE and len(lost) < 9:
            message = msgspec.msgpack.decode(data, type=wire_messages.Vector)
            if message.round == PLAN.rounds:
                lost.append(peer)
                return []
        return [data]

    air, complete = Air(consortium, bend=bend), {}

    def one(name):
        air.drive(name)
        complete[name] = consortium.party(name).complete

    with ThreadPoolExecutor(len(NAMES)) as threads:
        list(threads.map(one, NAMES))
    assert complete == dict.fromkeys(NAMES, True) and len(lost) == 9
    for name in NAMES:
        consortium.party(name).statement()


def test_who_contradicts_itself_after_the_last_round_is_proved_to_have(consortium):
    """Nobody waits for releases any more: the proof must not be lost."""
    last = {}

    def bend(sender, topic, peer, data):
        if (sender, topic, peer) == ("bob", RELEASE, "alice"):
            last["bob"] = msgspec.msgpack.decode(data, type=wire_messages.Vector)
        return [data]

    air = Air(consortium, bend=bend)
    assert set(air.run().values()) == {None}
    alice = air.exchanges["alice"]
    assert alice.equivocation is None
    other = msgspec.structs.replace(last["bob"], payload=np.zeros((1, 4)).tobytes())
    signed = wire_messages._signed(consortium.identities["bob"], other)
    assert alice.answer(RELEASE, "bob", signed).state == REFUSED
    alice.stop("bob ended the job")  # whoever lies hurries to end it
    assert "bob sent two different releases" in str(alice.equivocation)
    assert alice.equivocation.evidence
