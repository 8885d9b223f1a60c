"""Activities: generators of steps that whoever drives them answers."""

from collections.abc import Mapping
from typing import Any

from clocks import SimulatedClock

from pdml.node.job.activity import Wait, ask_all, drive

PAUSE = Wait(1.0)


class Members:
    """A transport to members that answer from a certain request on."""

    def __init__(self, **first: int) -> None:
        self.first, self.asked = first, dict.fromkeys(first, 0)
        self.requests: list[list[str]] = []

    def ask(
        self, kind: str, messages: Mapping[str, bytes], *, job: str = "", timeout: float
    ) -> dict[str, bytes]:
        self.requests.append(list(messages))
        for name in messages:
            self.asked[name] += 1
        return {name: b"yes" for name in messages if self.asked[name] >= self.first[name]}


def ask(members: Members, **options: Any) -> set[str]:
    """Who did not answer, by a clock that goes on by waiting alone."""
    clock = SimulatedClock()
    defaults = {"limit": 100.0, "timeout": 5.0, "pause": PAUSE}
    steps = ask_all("begin", b"go", list(members.first), clock=clock, **defaults | options)
    return drive(steps, members, clock)


def test_who_has_answered_is_asked_no_more() -> None:
    members = Members(alice=1, bob=3)
    assert ask(members) == set()
    assert members.asked == {"alice": 1, "bob": 3}
    assert members.requests == [["alice", "bob"], ["bob"], ["bob"]]


def test_after_the_limit_whoever_is_missing_is_named() -> None:
    members = Members(alice=1, bob=10**9)
    assert ask(members, limit=4.0) == {"bob"}
    assert 4 < members.asked["bob"] < 8


def test_an_answer_that_is_not_accepted_is_none() -> None:
    members = Members(alice=1)
    answers = iter([False, False, True])
    assert ask(members, accept=lambda name, data: next(answers)) == set()
    assert members.asked["alice"] == 3


def test_it_ends_at_once_when_it_need_not_go_on() -> None:
    members = Members(alice=1)
    assert ask(members, goes_on=lambda: False) == {"alice"} and not members.requests


def test_with_nobody_to_ask_nothing_is_asked() -> None:
    assert ask(Members()) == set()


def test_a_request_goes_to_all_at_once_in_a_fixed_order() -> None:
    members = Members(carol=1, alice=1)
    assert ask(members) == set() and members.requests == [["alice", "carol"]]
