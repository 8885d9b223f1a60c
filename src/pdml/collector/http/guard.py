"""Who may connect, and for how long: a few greedy or slow clients must not shut the others out.

The guard knows every connection that the `listener` accepts. It stands around the application,
which is how it hears when a request's head and body are there and when it is answered.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from pdml.collector.http.clients import Proxies, group
from pdml.collector.http.responses import Receive, Scope, Send, header, send_problem
from pdml.errors import InvalidInput
from pdml.study.messages import problem

if TYPE_CHECKING:
    from pdml.collector.http.listener import Connection

_App = Callable[[Scope, Receive, Send], Awaitable[None]]
LARGEST_HEAD = 64 << 10  # bytes
_GRACE = 3.0  # seconds for bodies and answers on their way when the service stops


@dataclass(frozen=True, kw_only=True)
class Limits:
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
                raise InvalidInput(
                    f"{name} must be a positive number of seconds, got {getattr(self, name)}"
                )
        for name in ("connections", "per_address"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)}")


class Guard:
    """Counts connections, and ends those that take too long; ``problems``: refusals by code."""

    def __init__(self, limits: Limits | None = None, proxies: Proxies | None = None) -> None:
        self.limits = limits or Limits()
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
        """``app``, of whose requests the guard hears, with the client that a trusted proxy names."""

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
                    await self._refuse(
                        send, "too_large", f"a head may have at most {LARGEST_HEAD} bytes"
                    )
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
            await self._refuse(
                send,
                "too_many_requests",
                f"at most {self.limits.per_address} requests at once from one address",
            )
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
    return header(scope, b"content-length") not in (b"", b"0") or bool(
        header(scope, b"transfer-encoding")
    )
