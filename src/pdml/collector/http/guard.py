"""Who may connect, and for how long: a few greedy or slow clients must not shut the others out.

The guard accepts connections itself, because a TLS handshake that never ends costs as much as a
request that never does, and hands them to the HTTP server as asyncio's `create_server` would. It
knows HTTP only by what the application tells it.
"""

import asyncio
import resource
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Any

from pdml.collector.http.connection import LARGEST_HEAD, Connection, Limits
from pdml.collector.http.proxies import Proxies, group
from pdml.collector.http.responses import Receive, Scope, Send, header, send_problem
from pdml.study.messages import problem

_App = Callable[[Scope, Receive, Send], Awaitable[None]]
_Factory = Callable[[], asyncio.Protocol]
_AT_ONCE = 100  # connections accepted in one turn of the loop: others have their turn too
_RESERVE = 64  # file descriptors for everything but connections
_BREATH = 0.5  # seconds without accepting when there are no file descriptors
_TICK = 0.5  # seconds between two looks at the deadlines
_GRACE = 3.0  # seconds for bodies and answers on their way when the service stops


class Guard:
    """Counts connections, and ends those that take too long. ``problems`` counts by code what was
    refused here.
    """

    def __init__(self, limits: Limits | None = None, proxies: Proxies | None = None) -> None:
        self.limits = limits or Limits()
        self.now, self.end = 0.0, inf
        self.problems: Counter[str] = Counter()
        self._proxies = proxies or Proxies()
        # by the other end, those still shaking hands included
        self._open: dict[tuple[str, int], Connection] = {}
        self._count: Counter[str] = Counter()  # of them by address
        self._busy: Counter[str] = Counter()  # requests at once by address, behind a proxy
        self._most = self.limits.connections
        self._arriving: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        return len(self._open)

    # As an application around another

    def around(self, app: _App) -> _App:
        """``app``, whose requests the guard hears of; what it is told of the client is what a
        trusted proxy says.
        """

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            connection = self._open.get(scope["client"]) if scope["type"] == "http" else None
            if connection is None:  # the application's own start and end, or a client that has gone
                await app(scope, receive, send)
                return

            async def noted() -> Any:
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
                elif self._proxies and self._proxies.trusts(connection.peer[0]):
                    await self._forwarded(app, scope, noted, send)
                else:
                    await app(scope, noted, send)
            finally:
                connection.ended(unread=connection.reading and _has_body(scope))

        return watched

    async def _forwarded(self, app: _App, scope: Scope, receive: Receive, send: Send) -> None:
        """A request by a trusted proxy, whose connections are many people's."""
        client = self._proxies.client(scope["client"][0], scope["headers"])
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
            self._busy[address] -= 1
            if not self._busy[address]:
                del self._busy[address]

    async def _refuse(self, send: Send, code: str, detail: str) -> None:
        self.problems[code] += 1
        await send_problem(send, problem(code, detail), close=True)

    # As a listener

    def listen(self, factory: _Factory, listener: socket.socket, ssl: Any) -> "_Listening":
        """Accept from ``listener`` until closed; ``factory`` makes the HTTP server's protocol for
        each connection.
        """
        loop = asyncio.get_running_loop()
        self._most = _make_room(self.limits.connections)
        listener.setblocking(False)
        self.now = loop.time()

        def accept() -> None:
            for _ in range(_AT_ONCE):
                try:
                    wire, address = listener.accept()
                except (BlockingIOError, InterruptedError, ConnectionError):
                    return
                except OSError:  # no file descriptors, or no memory for one more
                    loop.remove_reader(listener)
                    loop.call_later(_BREATH, listening.resume)
                    return
                self._admit(wire, (str(address[0]), int(address[1])), factory, ssl)

        listening = _Listening(self, listener, accept)
        listening.resume()
        return listening

    def _admit(
        self, wire: socket.socket, peer: tuple[str, int], factory: _Factory, ssl: Any
    ) -> None:
        address = group(peer[0])
        crowded = self._count[address] >= self.limits.per_address and not self._proxies.trusts(
            peer[0]
        )
        if crowded or len(self._open) >= self._most:
            self.problems["too_many_requests"] += 1
            wire.close()
            return
        if (old := self._open.get(peer)) is not None:  # its end has not been told yet
            self.lost(old)
        connection = self._open[peer] = Connection(self, address, peer, factory())
        self._count[address] += 1
        task = asyncio.get_running_loop().create_task(self._greet(wire, connection, ssl))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _greet(self, wire: socket.socket, connection: Connection, ssl: Any) -> None:
        """The handshake, if there is one; whatever goes wrong in it is the client's affair."""
        patience = (
            {"ssl_handshake_timeout": self.limits.head, "ssl_shutdown_timeout": self.limits.write}
            if ssl
            else {}
        )
        try:
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, wire, ssl=ssl, **patience
            )
        except BaseException as error:
            wire.close()
            self.lost(connection)
            if not isinstance(error, OSError | TimeoutError):
                raise

    def lost(self, connection: Connection) -> None:
        """Again does no harm."""
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
            self._count[connection.address] -= 1
            if not self._count[connection.address]:
                del self._count[connection.address]

    def look(self) -> None:
        """At every deadline."""
        self.now = asyncio.get_running_loop().time()
        for connection in list(self._open.values()):
            connection.look()

    def stop(self) -> None:
        """Nothing more is accepted; what is under way, or begins now, is finished soon."""
        self.end = self.now + _GRACE


class _Listening:
    """What `create_server` would give, as far as anybody asks."""

    def __init__(self, guard: Guard, listener: socket.socket, accept: Callable[[], None]) -> None:
        self._guard, self._listener, self._accept = guard, listener, accept
        self._loop = asyncio.get_running_loop()
        self._tick = min(
            _TICK,
            *(
                timeout / 4
                for timeout in (guard.limits.head, guard.limits.body, guard.limits.write)
            ),
        )
        self._closed = False
        self._loop.call_later(self._tick, self._look)

    def resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listener, self._accept)

    def _look(self) -> None:
        """Also while the server is stopping: it waits for its connections."""
        self._loop.call_later(self._tick, self._look)
        self._guard.look()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._listener)
            self._guard.stop()

    async def wait_closed(self) -> None:
        """Nothing to wait for: the HTTP server waits for its connections itself."""


def _size(scope: Scope) -> int:
    """Of a request's head, about."""
    return (
        len(scope["raw_path"])
        + len(scope["query_string"])
        + sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    )


def _has_body(scope: Scope) -> bool:
    return header(scope, b"content-length") not in (b"", b"0") or bool(
        header(scope, b"transfer-encoding")
    )


def _make_room(connections: int) -> int:
    """As many connections as asked for, or as the system has file descriptors for when it gives
    what it can.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _RESERVE
    if 0 <= soft < wanted:  # RLIM_INFINITY is below
        soft = wanted if hard < 0 else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if soft < 0 else max(1, min(connections, soft - _RESERVE))
