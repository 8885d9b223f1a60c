"""One connection as the guard sees it: between the socket and the HTTP server, through asyncio's
own two interfaces alone.

To the socket it is a protocol, to the server's protocol it is a transport. It passes everything on
and keeps the time: the application says when a request's head and body are there and when it is
answered, the transport when its client does not read.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from pdml.collector.http.responses import raw_problem
from pdml.errors import InvalidInput
from pdml.study.messages import problem


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long and how many. Every deadline is for the whole of its part: a byte now and then does
    not help.
    """

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


LARGEST_HEAD = 64 << 10  # bytes


class Watch(Protocol):
    """What all connections share: the time, their limits, what was refused, and where to say that
    one is gone.
    """

    now: float  # seconds of the loop's clock, a moment ago
    end: float  # when the service, which stops, waits for nobody any more
    limits: Limits
    problems: Counter[str]

    def lost(self, connection: "Connection") -> None: ...


class Connection(asyncio.Protocol):
    """Everything that `asyncio.Protocol` and `asyncio.Transport` say and the HTTP server uses, with
    deadlines.
    """

    def __init__(
        self, watch: Watch, address: str, peer: tuple[str, int], inner: asyncio.Protocol
    ) -> None:
        self.address = address  # for counting
        self.peer = peer
        self._watch = watch
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
        """The head of a request is complete."""
        self.reading = True
        self._deadline = self._watch.now + self._watch.limits.body

    def read(self) -> None:
        """So is its body; from here on it is we who take our time."""
        self.reading = False
        self._received = 0
        self._deadline = inf

    def ended(self, *, unread: bool) -> None:
        """It is answered. A body that nobody read is not waited for: with it in the way no other
        request can come.
        """
        self.reading = False
        self._received = 0
        self._deadline = self._watch.now + self._watch.limits.head
        if unread:
            self.close()

    # What the watch says

    def look(self) -> None:
        """Called often."""
        now = self._watch.now
        if not self._is_connected:
            return  # the handshake has a deadline of its own
        if now > self._stuck or (self._stuck < inf and now > self._watch.end):
            self._watch.problems["timeout"] += 1
            self.abort()
        elif now > self._deadline or (self.reading and now > self._watch.end):
            self._deadline = inf
            if self.reading:
                self._late()
            else:
                self.close()

    def _late(self) -> None:
        """The body did not come. The server learns that the client is gone; the client learns
        why.
        """
        self.reading = False
        self._watch.problems["timeout"] += 1
        limit = self._watch.limits.body
        self._transport.write(
            raw_problem(problem("timeout", f"the body must arrive within {limit:g} seconds"))
        )
        self.close()

    # What the socket says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport, self._is_connected = transport, True
        self._deadline = self._watch.now + self._watch.limits.head
        self._inner.connection_made(self)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        if not self.reading:
            if self._received > LARGEST_HEAD:  # and still no request
                self._watch.problems["too_large"] += 1
                self.abort()
                return
            self._received += len(data)
            if self._received > LARGEST_HEAD:
                self.sent_much = True
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._stuck = self._watch.now + self._watch.limits.write
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._stuck = inf
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._watch.lost(self)
        self._inner.connection_lost(exc)

    # What the server says

    def write(self, data: bytes) -> None:
        """The head of an answer leaves in one write with its body: half the system calls and
        packets.
        """
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
        self._stuck = min(self._stuck, self._watch.now + self._watch.limits.write)
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
