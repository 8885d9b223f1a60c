"""Accepts connections itself, because a TLS handshake that never ends costs as much as a request
that never does, and hands them to the HTTP server as asyncio's `create_server` would."""

import asyncio
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any

from pdml.collector.http.guard import LARGEST_HEAD, Guard, group
from pdml.collector.http.responses import raw_problem
from pdml.study.messages import problem

_AT_ONCE = 100  # connections accepted in one turn of the loop: others have their turn too
_RESERVE = 64  # file descriptors for everything but connections
_BREATH = 0.5  # seconds without accepting when there are no file descriptors
_TICK = 0.5  # seconds between two looks at the deadlines


class Listener:
    """Accepts until closed, as far as anybody asks what `create_server` gives; ``factory`` makes
    the HTTP server's protocol for each connection."""

    def __init__(
        self,
        guard: Guard,
        factory: Callable[[], asyncio.Protocol],
        wire: socket.socket,
        ssl: Any = None,
    ) -> None:
        self._guard, self._factory, self._wire, self._ssl = guard, factory, wire, ssl
        self._loop = asyncio.get_running_loop()
        limits = guard.limits
        self._tick = min(_TICK, *(part / 4 for part in (limits.head, limits.body, limits.write)))
        self._arriving: set[asyncio.Task[None]] = set()
        self._is_closed = False
        guard.most = _make_room(limits.connections)
        wire.setblocking(False)
        self._look()
        self._resume()

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._wire, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                wire, address = self._wire.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError:  # no file descriptors, or no memory for one more
                self._loop.remove_reader(self._wire)
                self._loop.call_later(_BREATH, self._resume)
                return
            peer = str(address[0]), int(address[1])
            if not self._guard.admits(peer):
                wire.close()
                continue
            connection = Connection(self._guard, peer, self._factory())
            self._guard.add(connection)
            task = self._loop.create_task(self._greet(wire, connection))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    async def _greet(self, wire: socket.socket, connection: "Connection") -> None:
        """The handshake, if there is one; whatever goes wrong in it is the client's affair."""
        limits = self._guard.limits
        timeouts = {"ssl_handshake_timeout": limits.head, "ssl_shutdown_timeout": limits.write}
        try:
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                lambda: connection, wire, ssl=self._ssl, **(timeouts if self._ssl else {})
            )
        except BaseException as error:
            wire.close()
            self._guard.remove(connection)
            if not isinstance(error, OSError | TimeoutError):
                raise

    def _look(self) -> None:
        """Also while the server is stopping: it waits for its connections."""
        self._loop.call_later(self._tick, self._look)
        self._guard.look(self._loop.time())

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._wire)
            self._guard.stop()

    async def wait_closed(self) -> None:
        """Nothing to wait for: the HTTP server waits for its connections itself."""


class Connection(asyncio.Protocol):
    """One connection: to the socket a protocol, to the HTTP server's protocol a transport. It
    passes everything on and keeps the time."""

    def __init__(self, guard: Guard, peer: tuple[str, int], inner: asyncio.Protocol) -> None:
        self.address = group(peer[0])  # for counting
        self.peer = peer
        self._guard = guard
        self._inner = inner
        self._transport: asyncio.Transport
        self._is_connected = False  # not before the handshake is done
        self._gone = False
        self._loop = asyncio.get_running_loop()
        self._pending_head = b""  # the head of an answer, until its body comes
        self._deadline = inf
        self._stuck = inf  # when a client that does not read is given up
        self.reading = False  # a request's head is there, and not all of its body
        self._received = 0  # bytes since the last answer that may be a head
        self.sent_much = False  # a head may be longer than the limit

    # What the application says

    def began(self) -> None:
        self.reading = True
        self._deadline = self._guard.now + self._guard.limits.body

    def read(self) -> None:
        """So is its body; from here on it is we who take our time."""
        self.reading = False
        self._received = 0
        self._deadline = inf

    def ended(self, *, unread: bool) -> None:
        """It is answered. With a body that nobody read in the way no other request can come."""
        self.reading = False
        self._received = 0
        self._deadline = self._guard.now + self._guard.limits.head
        if unread:
            self.close()

    # What the guard says

    def look(self) -> None:
        now = self._guard.now
        if not self._is_connected:
            return  # the handshake has a deadline of its own
        if now > self._stuck or (self._stuck < inf and now > self._guard.end):
            self._guard.problems["timeout"] += 1
            self.abort()
        elif now > self._deadline or (self.reading and now > self._guard.end):
            self._deadline = inf
            if self.reading:
                self._late()
            else:
                self.close()

    def _late(self) -> None:
        """The server learns that the client is gone; the client learns why."""
        self.reading = False
        self._guard.problems["timeout"] += 1
        must = f"the body must arrive within {self._guard.limits.body:g} seconds"
        self._transport.write(raw_problem(problem("timeout", must)))
        self.close()

    # What the socket says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport, self._is_connected = transport, True
        self._deadline = self._guard.now + self._guard.limits.head
        self._inner.connection_made(self)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        if not self.reading:
            if self._received > LARGEST_HEAD:  # and still no request
                self._guard.problems["too_large"] += 1
                self.abort()
                return
            self._received += len(data)
            if self._received > LARGEST_HEAD:
                self.sent_much = True
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._stuck = self._guard.now + self._guard.limits.write
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._stuck = inf
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._guard.remove(self)
        self._inner.connection_lost(exc)

    # What the server says

    def write(self, data: bytes) -> None:
        """The head of an answer leaves in one write with its body: half the system calls."""
        if self._gone:  # a server that answers several requests of one client may not have heard
            return
        if self._pending_head:
            data, self._pending_head = self._pending_head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._pending_head = data
            self._loop.call_soon(self._flush)  # an answer without a body, as to HEAD
            return
        self._transport.write(data)

    def _flush(self) -> None:
        if self._pending_head and not self._gone:
            self._transport.write(self._pending_head)
        self._pending_head = b""

    def close(self) -> None:
        """When everything written has been read; but not for ever."""
        self._flush()
        self._stuck = min(self._stuck, self._guard.now + self._guard.limits.write)
        self._transport.close()

    def abort(self) -> None:
        self._stuck = inf
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)


def _make_room(connections: int) -> int:
    """As many connections as asked for, or as the system has file descriptors for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _RESERVE
    if 0 <= soft < wanted:  # RLIM_INFINITY is below
        soft = wanted if hard < 0 else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if soft < 0 else max(1, min(connections, soft - _RESERVE))
