"""Who may connect, for how long, and how long whoever guesses has to wait: a few greedy or slow
clients must not shut the others out.

A request comes from the other end of its connection, or from whom a trusted proxy there names. The
guard knows every connection that the `listener` accepts. It stands around the application, which is
how it hears when a request's head and body are there and when it is answered.

Whoever tries invitations that were never issued, codes that withdraw nothing, or ids that others
have taken has a few tries a minute, then answers come late. All have 128 random bits: this keeps
the trying from costing much, and lets an operator see it. People whose invitation or code is good
never wait, not even behind the same address.
"""

import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

from pdml import _validate
from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.collector.http.responses import Receive, Scope, Send, header, send_problem
from pdml.errors import InvalidInput
from pdml.study.messages import Problem, problem

if TYPE_CHECKING:
    from pdml.collector.http.listener import Connection

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
        must = "proxy must be an address or a network such as 10.0.0.0/24"
        raise InvalidInput(f"{must}, got {text!r}") from None


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


_App = Callable[[Scope, Receive, Send], Awaitable[None]]
LARGEST_HEAD = 64 << 10  # bytes
_GRACE = 3.0  # seconds for bodies and answers on their way when the service stops


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """How long and how many. Every deadline is for the whole of its part."""

    # seconds until a request's head is complete, from the connection or the last answer on
    head: float = 30.0
    body: float = 30.0  # seconds for its body
    write: float = 30.0  # seconds in which a client takes enough of its answers
    connections: int = 2000  # in all
    per_address: int = 128  # of one address; of what a trusted proxy names, requests at once

    def __post_init__(self) -> None:
        for name in ("head", "body", "write"):
            if not 0 < getattr(self, name) < inf:  # NaN is no number of seconds either
                must = f"{name} must be a positive number of seconds"
                raise InvalidInput(f"{must}, got {getattr(self, name)}")
        for name in ("connections", "per_address"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)}")


class Guard:
    """Counts connections, and ends those that take too long; ``problems``: refusals by code."""

    def __init__(
        self, limits: ConnectionLimits | None = None, proxies: Proxies | None = None
    ) -> None:
        self.limits = limits or ConnectionLimits()
        self.most = self.limits.connections  # or as many as the system has room for
        self.now = 0.0  # seconds of the loop's clock, a moment ago
        self.end = inf  # when the service, which stops, waits for nobody any more
        self.problems: Counter[str] = Counter()
        self.proxies = proxies or Proxies()
        # by the other end, those still shaking hands included
        self._open: dict[tuple[str, int], Connection] = {}
        self._count: Counter[str] = Counter()  # of them by address
        self._busy: Counter[str] = Counter()  # requests at once by address, behind a proxy

    @property
    def connections(self) -> int:
        return len(self._open)

    # What the listener says

    def admits(self, peer: tuple[str, int]) -> bool:
        """Whether there is room for a connection, in all and for its address."""
        crowded = self._count[group(peer[0])] >= self.limits.per_address
        if (crowded and not self.proxies.trusts(peer[0])) or len(self._open) >= self.most:
            self.problems["too_many_requests"] += 1
            return False
        return True

    def add(self, connection: "Connection") -> None:
        if (old := self._open.get(connection.peer)) is not None:  # its end has not been told yet
            self.remove(old)
        self._open[connection.peer] = connection
        self._count[connection.address] += 1

    def remove(self, connection: "Connection") -> None:
        """Again does no harm."""
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
            _decrement(self._count, connection.address)

    def look(self, now: float) -> None:
        """At every deadline."""
        self.now = now
        for connection in list(self._open.values()):
            connection.look()

    def stop(self) -> None:
        """What is under way, or begins now, is finished soon."""
        self.end = self.now + _GRACE

    # Around the application

    def around(self, app: _App) -> _App:
        """``app``, of whose requests the guard hears; the client is whom a trusted proxy names."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            connection = self._open.get(scope["client"]) if scope["type"] == "http" else None
            if connection is None:  # the application's own start and end, or a client that has gone
                await app(scope, receive, send)
                return

            async def receive_part() -> Any:
                message = await receive()
                if not message.get("more_body"):
                    connection.read()
                return message

            connection.began()
            try:
                if connection.sent_much and _size(scope) > LARGEST_HEAD:
                    most = f"a head may have at most {LARGEST_HEAD} bytes"
                    await self._refuse(send, "too_large", most)
                elif self.proxies.trusts(connection.peer[0]):
                    await self._forwarded(app, scope, receive_part, send)
                else:
                    await app(scope, receive_part, send)
            finally:
                connection.ended(unread=connection.reading and _has_body(scope))

        return guarded

    async def _forwarded(self, app: _App, scope: Scope, receive: Receive, send: Send) -> None:
        """A request by a trusted proxy, whose connections are many people's."""
        client = self.proxies.client(scope["client"][0], scope["headers"])
        address = group(client)
        if self._busy[address] >= self.limits.per_address:
            most = f"at most {self.limits.per_address} requests at once from one address"
            await self._refuse(send, "too_many_requests", most)
            return
        self._busy[address] += 1
        try:
            await app({**scope, "client": (client, 0)}, receive, send)
        finally:
            _decrement(self._busy, address)

    async def _refuse(self, send: Send, code: str, detail: str) -> None:
        self.problems[code] += 1
        await send_problem(send, problem(code, detail), close=True)


def _decrement(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _size(scope: Scope) -> int:
    return (
        len(scope["raw_path"])
        + len(scope["query_string"])
        + sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    )


def _has_body(scope: Scope) -> bool:
    if header(scope, b"content-length") not in (b"", b"0"):
        return True
    return bool(header(scope, b"transfer-encoding"))
