"""Waiting for statements: a member that says "later" holds nobody beyond the limits of a job."""

import msgspec
import pytest
from consortium import Consortium

from pdml.errors import PeerError
from pdml.node.job import statement_sync
from pdml.node.job.round_exchange import LATER, OK, Answer
from pdml.node.job.statement_sync import CHUNK, gather, nothing_yet, piece

LIMIT = 60.0
OTHERS = ("bob", "carol", "dave")


class Clock:
    """Goes on by sleeping, and a little by asking."""

    def __init__(self):
        self.now, self.slept = 0.0, 0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now, self.slept = self.now + seconds, self.slept + 1


class Statements:
    """Takes whatever is whole."""

    def __init__(self):
        self.here = {}

    def stored_statement(self, server):
        return self.here.get(server, b"")

    def hear_statement(self, server, data):
        self.here[server] = data


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(statement_sync, "time", made)
    return made


@pytest.fixture
def contract(tmp_path):
    return Consortium(tmp_path).contract


def gathered(contract, clock, say, *, most=100_000):
    """Gather while ``say(server, question, number of the question)`` answers; how often it did."""
    asked = 0

    def ask(kind, questions, timeout):
        nonlocal asked
        asked, clock.now = asked + 1, clock.now + 0.001
        assert asked < most, "it asks without end"
        ((whom, content),) = questions.items()
        question = msgspec.msgpack.decode(content, type=statement_sync.Fetch)
        return {whom: msgspec.msgpack.encode(say(whom, question, asked))}

    terms = {"name": "alice", "limit": LIMIT, "check": lambda: None}
    gather(contract, OTHERS, Statements(), ask, **terms)
    return asked


@pytest.mark.parametrize(("step", "limits"), [(1, 5.1), (1000, 1.1)])
def test_growing_rounds_hold_nobody_beyond_one_deadline(contract, clock, step, limits):
    """Rounds past the plan are no news, rounds of the plan only for as long as the others can need
    for what is left of it; and between two questions there is a pause."""
    with pytest.raises(PeerError, match="alice waited 60 s for the statement of bob, carol, dave"):
        gathered(
            contract,
            clock,
            lambda whom, question, asked: nothing_yet(whom, "job", step * asked, expected=True),
        )
    assert LIMIT <= clock.now < limits * LIMIT
    assert clock.slept > clock.now


def test_slowly_growing_rounds_hold_nobody_either(contract, clock):
    """One round of the plan in every limit: news each time, but not for twelve limits."""

    def say(whom, question, asked):
        return nothing_yet(whom, "job", int(clock.now / (0.9 * LIMIT)), expected=True)

    with pytest.raises(PeerError, match="alice waited 60 s"):
        gathered(contract, clock, say)
    assert 4 * LIMIT <= clock.now < 4.1 * LIMIT


def test_a_member_that_is_rounds_behind_is_waited_for(contract, clock):
    def say(whom, question, asked):
        if clock.now < 1.5 * LIMIT:
            return nothing_yet(whom, "job", 10 + int(clock.now / LIMIT), expected=True)
        return piece(b"x" * (2 * CHUNK + 5), question.start)

    gathered(contract, clock, say)
    assert clock.now < 2 * LIMIT


def test_a_statement_that_comes_byte_by_byte_is_none(contract, clock):
    def say(whom, question, asked):
        if whom != "bob":
            return Answer(LATER)
        return Answer(OK, messages=[b"x", (100_000).to_bytes(8, "big")])

    with pytest.raises(PeerError, match="bob has a statement of 100,000 bytes, which is none"):
        gathered(contract, clock, say)
