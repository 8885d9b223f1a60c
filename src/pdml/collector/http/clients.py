"""Who a request comes from, and how long whoever guesses has to wait.

A request comes from the other end of its connection, or from whom a trusted proxy there names.

Whoever tries invitations that were never issued, codes that withdraw nothing, or ids that others
have taken has a few tries a minute, then answers come late. All have 128 random bits, so that
nobody guesses one; this keeps the trying from costing much, and lets an operator see it. Only
answers to unknown ones wait: people whose invitation or code is good never do, not even behind the
same address.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from pdml import _validate
from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.errors import InvalidInput
from pdml.study.messages import Problem

_LONGEST_ADDRESS = 64  # characters, with a port
PER_MINUTE = 20
_GUESSES = ("token_unknown", "withdrawal_unknown", "id_conflict")
LONGEST = 5.0  # seconds that an answer waits at most
MOST = 10_000  # addresses that are remembered


class Proxies:
    """The addresses whose X-Forwarded-For is believed; anybody else could write anything there."""

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        """``trusted`` are addresses or networks, such as 10.0.0.7 or 10.0.0.0/24."""
        self._networks = tuple(_network(address) for address in trusted)
        self.trusts = lru_cache(maxsize=4096)(self._trusts)

    def _trusts(self, host: str) -> bool:
        address = _address(host)
        return address is not None and any(address in network for network in self._networks)

    def client(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The last address that is no trusted proxy: each adds the one that called it."""
        values = b",".join(value for name, value in headers if name == b"x-forwarded-for")
        for hop in reversed(values.decode("latin-1").split(",")):
            host = _bare(hop.strip())
            if host and not self.trusts(host):
                return host
        return peer


class Attempts:
    """Unknown tokens and codes by address: a bucket each, which drains by ``per_minute``.

    Guarantees
    ----------
    - At most `MOST` addresses, in memory only, none longer than its bucket takes to drain.
    - Nobody waits longer than `LONGEST` seconds.
    """

    def __init__(self, per_minute: int = PER_MINUTE, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.per_minute = _validate.integer("bad_tokens", per_minute, low=1)
        self.counted = 0  # unknown ones since the start
        self.slowed = 0  # answers that waited
        self._rate = per_minute / 60
        self._clock = clock
        # By address, the oldest first: how full the bucket was, and when.
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def delay_response(self, scope: Any, answers: Iterable[object]) -> None:
        """Wait before ``answers`` go to the client of ``scope``, as its address deserves."""
        problems = (answer for answer in answers if type(answer) is Problem)
        unknown = sum(problem.code in _GUESSES for problem in problems)
        if not unknown:
            return
        self.counted += unknown
        client = scope.get("client")
        seconds = self._delay(group(client[0]) if client else "", unknown)
        if seconds > 0:
            self.slowed += 1
            await self._clock.sleep_async(seconds)

    def _delay(self, address: str, unknown: int) -> float:
        """Seconds until the bucket, with ``unknown`` more in it, holds no more than it may."""
        now = self._clock.monotonic()
        most = self.per_minute + LONGEST * self._rate
        level, when = self._levels.pop(address, (0.0, now))
        level = min(max(level - (now - when) * self._rate, 0.0) + unknown, most)
        self._levels[address] = (level, now)
        drained = now - most / self._rate
        while len(self._levels) > MOST or next(iter(self._levels.values()))[1] < drained:
            self._levels.popitem(last=False)
        return max(level - self.per_minute, 0.0) / self._rate


@lru_cache(maxsize=4096)
def group(host: str) -> str:
    """What counts as one address: an IPv6 network of 64 bits belongs to one household."""
    address = _address(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address or host)


def _network(text: str) -> Any:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise InvalidInput(
            f"proxy must be an address or a network such as 10.0.0.0/24, got {text!r}"
        ) from None


def _address(host: str) -> Any:
    """None for what is no address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _bare(text: str) -> str:
    """Without a port."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return text[:_LONGEST_ADDRESS]
