"""Whoever tries invitations that were never issued, codes that withdraw nothing, or ids that others
have taken: a few a minute, then answers come late.

All have 128 random bits, so that nobody guesses one; this keeps the trying from costing much, and
lets an operator see it. Only answers to unknown ones wait. People whose invitation or code is good
never do, not even behind the same address.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pdml import _validate
from pdml.collector.http.proxies import group
from pdml.study.messages import Problem

PER_MINUTE = 20
_GUESSED = ("token_unknown", "withdrawal_unknown", "id_conflict")
LONGEST = 5.0  # seconds that an answer waits at most
MOST = 10_000  # addresses that are remembered


class Attempts:
    """Unknown tokens and codes by address: a bucket each, which drains by ``per_minute`` and holds
    as many.

    Guarantees
    ----------
    - At most `MOST` addresses are held, in memory only, none longer than its bucket takes to drain.
    - Nobody waits longer than `LONGEST` seconds.
    """

    def __init__(
        self,
        per_minute: int = PER_MINUTE,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.per_minute = _validate.integer("bad_tokens", per_minute, low=1)
        self.counted = 0  # unknown ones since the start
        self.slowed = 0  # answers that waited
        self._rate = per_minute / 60
        self._clock, self._sleep = clock, sleep
        # By address, the oldest first: how full the bucket was, and when.
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def delay_response(self, scope: Any, answers: Iterable[object]) -> None:
        """Wait before giving ``answers`` to the client of ``scope``, as long as its address
        deserves."""
        problems = (answer for answer in answers if type(answer) is Problem)
        unknown = sum(problem.code in _GUESSED for problem in problems)
        if not unknown:
            return
        self.counted += unknown
        seconds = self._delay(_place(scope), unknown)
        if seconds > 0:
            self.slowed += 1
            await self._sleep(seconds)

    def _delay(self, place: str, unknown: int) -> float:
        """The seconds until the bucket, with ``unknown`` more in it, holds no more than it may."""
        now = self._clock()
        most = self.per_minute + LONGEST * self._rate
        level, when = self._levels.pop(place, (0.0, now))
        level = min(max(level - (now - when) * self._rate, 0.0) + unknown, most)
        self._levels[place] = (level, now)
        drained = now - most / self._rate
        while len(self._levels) > MOST or next(iter(self._levels.values()))[1] < drained:
            self._levels.popitem(last=False)
        return max(level - self.per_minute, 0.0) / self._rate


def _place(scope: Any) -> str:
    """Whose attempts count together."""
    client = scope.get("client")
    return group(client[0]) if client else ""
