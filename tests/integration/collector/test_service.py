"""Who commits: the loop itself for small groups on a fast store, the thread for all else; and
nobody's mistake stops the service.
"""

import asyncio
import threading

import pytest
from collecting import Slept

from pdml.clock import SYSTEM_CLOCK
from pdml.collector.intake.service import Overloaded, Writer
from pdml.collector.storage.records import STORED, Decision
from pdml.errors import StorageUnavailable


@pytest.fixture
def clock():
    """Moves only when a store takes its time."""
    return Slept(0.0)


class Slowly:
    """A store that takes its time, and notes which thread asked and how much at once."""

    def __init__(self, clock, *, at_once, seconds=0.0, fails=None):
        self.clock, self.at_once, self.seconds, self.fails = clock, at_once, seconds, fails
        self.threads, self.groups = [], []

    def commit_at_once(self, entries):
        return self.commit(entries) if self.at_once else None

    def commit(self, entries):
        self.threads.append(
            "loop" if threading.current_thread() is threading.main_thread() else "thread"
        )
        self.groups.append(len(entries))
        self.clock.time += self.seconds
        if self.fails:
            raise self.fails
        return [STORED] * len(entries)


def played(store, *rounds, capacity=1000):
    """What came of each round: so many commits at once, of so many entries each."""

    async def play():
        writer = Writer(store, capacity=capacity, clock=store.clock)
        outcomes = []
        for commits, size in rounds:
            outcomes += await asyncio.gather(
                *(writer.commit([None] * size) for _ in range(commits)), return_exceptions=True
            )
        await writer.stop()
        assert writer.queued == 0
        return outcomes

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("at_once", "seconds", "size", "who"),
    [
        (True, 0.001, 1, ["loop", "loop", "loop"]),
        (True, 0.001, 300, ["thread", "thread", "thread"]),  # a large group
        (False, 0.001, 1, ["thread", "thread", "thread"]),  # a store over a network
        (True, 0.03, 1, ["loop", "thread", "thread"]),  # a slow disk, found out once
    ],
)
def test_who_commits(clock, at_once, seconds, size, who):
    store = Slowly(clock, at_once=at_once, seconds=seconds)
    assert played(store, (1, size), (1, size), (1, size)) == [[STORED] * size] * 3
    assert store.threads == who


@pytest.mark.parametrize("at_once", [True, False])
def test_what_arrives_together_is_committed_together(clock, at_once):
    store = Slowly(clock, at_once=at_once)
    assert played(store, (40, 2)) == [[STORED] * 2] * 40
    assert store.groups == [80]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("error", [StorageUnavailable("full"), ZeroDivisionError("a mistake")])
def test_a_failed_commit_acknowledges_nobody_and_the_next_is_tried(clock, at_once, error):
    store = Slowly(clock, at_once=at_once, fails=error)
    assert played(store, (2, 1), (1, 1)) == [error] * 3
    assert store.groups == [2, 1]


def test_more_than_it_can_hold_is_refused_and_not_taken(clock):
    store = Slowly(clock, at_once=False)
    outcomes = played(store, (3, 40), capacity=100)
    assert [type(outcome) for outcome in outcomes] == [list, list, Overloaded]
    assert store.groups == [80]


class Mirror:
    """A store that decides about every entry what the entry says."""

    def __init__(self, *, at_once):
        self.at_once = at_once

    def commit_at_once(self, entries):
        return self.commit(entries) if self.at_once else None

    def commit(self, entries):
        return [Decision(entry) for entry in entries]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("gone", [None, 0, 1, 2])
def test_everybody_hears_of_their_own_reports(at_once, gone):
    """Of one group, also if a client has left before the answer."""
    asked = [["stored", "id_conflict"], ["token_used"], ["closed", "stored", "frozen"]]

    async def play():
        writer = Writer(Mirror(at_once=at_once), capacity=1000, clock=SYSTEM_CLOCK)
        tasks = [asyncio.create_task(writer.commit(codes)) for codes in asked]
        await asyncio.sleep(0)  # all have asked, and nothing was committed
        if gone is not None:
            tasks[gone].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await writer.stop()
        return writer.queued, writer.commits, outcomes

    queued, commits, outcomes = asyncio.run(play())
    assert (queued, commits) == (0, 1)
    for number, (codes, outcome) in enumerate(zip(asked, outcomes, strict=True)):
        if number == gone:
            assert isinstance(outcome, asyncio.CancelledError)
        else:
            assert [each.code for each in outcome] == codes


def test_whoever_comes_while_it_stops_is_refused_and_the_others_are_answered(clock):
    async def play():
        writer = Writer(Slowly(clock, at_once=False), capacity=1000, clock=clock)
        early = asyncio.create_task(writer.commit([None]))
        await asyncio.sleep(0)
        stopping = asyncio.create_task(writer.stop())
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await asyncio.wait_for(writer.commit([None]), timeout=60)
        await stopping
        return await early

    assert asyncio.run(play()) == [STORED]
