"""Waiting for statements: a member that says "later" holds nobody beyond the limits of a job."""

import msgspec
import pytest
from clocks import SimulatedClock
from consortium import Consortium

from pdml.errors import PeerError
from pdml.node.job.activity import drive
from pdml.node.job.statements import CHUNK, fetch_statements, nothing_yet, piece
from pdml.node.protocol.requests import LATER, OK, Fetch, PeerAnswer

LIMIT = 60.0
OTHERS = ("bob", "carol", "dave")


class Statements:
    """Takes whatever is whole."""

    def __init__(self):
        self.here = {}

    def stored_statement(self, server):
        return self.here.get(server, b"")

    def store_statement(self, server, data):
        self.here[server] = data


@pytest.fixture
def clock():
    return SimulatedClock()


@pytest.fixture
def terms(tmp_path):
    return Consortium(tmp_path).job_terms


def gathered(terms, clock, say, *, most=100_000):
    """Fetch while ``say(server, request, number of the request)`` answers; how often it did."""

    class Transport:
        requests = 0

        def ask(self, kind, messages, *, job, timeout):
            self.requests += 1
            clock.time += 0.001
            assert self.requests < most, "it asks without end"
            ((whom, content),) = messages.items()
            request = msgspec.msgpack.decode(content, type=Fetch)
            return {whom: msgspec.msgpack.encode(say(whom, request, self.requests))}

    options = {"name": "alice", "limit": LIMIT, "check": lambda: None, "clock": clock}
    drive(fetch_statements(terms, OTHERS, Statements(), **options), Transport(), clock)


@pytest.mark.parametrize(("step", "limits"), [(1, 5.1), (1000, 1.1)])
def test_growing_rounds_hold_nobody_beyond_one_deadline(terms, clock, step, limits):
    """Rounds past the plan are no news, rounds of the plan only for as long as the others can need
    for what is left of it; and between two questions there is a pause."""
    with pytest.raises(PeerError, match="alice waited 60 s for the statement of bob, carol, dave"):
        gathered(
            terms,
            clock,
            lambda whom, question, asked: nothing_yet(whom, "job", step * asked, expected=True),
        )
    assert LIMIT <= clock.time < limits * LIMIT
    assert clock.sleeps > clock.time


def test_slowly_growing_rounds_hold_nobody_either(terms, clock):
    """One round of the plan in every limit: news each time, but not for twelve limits."""

    def say(whom, question, asked):
        return nothing_yet(whom, "job", int(clock.time / (0.9 * LIMIT)), expected=True)

    with pytest.raises(PeerError, match="alice waited 60 s"):
        gathered(terms, clock, say)
    assert 4 * LIMIT <= clock.time < 4.1 * LIMIT


def test_a_member_that_is_rounds_behind_is_waited_for(terms, clock):
    def say(whom, question, asked):
        if clock.time < 1.5 * LIMIT:
            return nothing_yet(whom, "job", 10 + int(clock.time / LIMIT), expected=True)
        return piece(b"x" * (2 * CHUNK + 5), question.start)

    gathered(terms, clock, say)
    assert clock.time < 2 * LIMIT


def test_a_statement_that_comes_byte_by_byte_is_none(terms, clock):
    def say(whom, question, asked):
        if whom != "bob":
            return PeerAnswer(LATER)
        return PeerAnswer(OK, messages=[b"x", (100_000).to_bytes(8, "big")])

    with pytest.raises(PeerError, match="bob has a statement of 100,000 bytes, which is none"):
        gathered(terms, clock, say)
