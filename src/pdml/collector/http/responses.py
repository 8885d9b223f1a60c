"""The few parts of HTTP that the hot path needs, straight on ASGI: capped bodies, and answers."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from pdml.study.messages import Problem, problem

Scope = Any
Receive = Any
Send = Any

_RETRY = b"1"  # seconds: the queue drains in less
_Headers = list[tuple[bytes, bytes]]
_PROBLEM = b"application/problem+json"
_CLOSE: _Headers = [(b"connection", b"close")]
NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Refused(Exception):
    """The request cannot be an acceptable one; ``problem`` says why."""

    def __init__(self, code: str, detail: str = "") -> None:
        self.problem = problem(code, detail)


class ClientDisconnected(Exception):
    """The client left before its request was complete: there is nobody to answer."""


def header(scope: Scope, name: bytes) -> bytes:
    """The first value of a header, or nothing."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


def require_type(scope: Scope, *allowed: bytes) -> None:
    """Browsers let any site post text or forms; JSON they ask about first, and are refused."""
    content_type = header(scope, b"content-type")
    if content_type in allowed:
        return
    if content_type.partition(b";")[0].strip().lower() not in allowed:
        types = " or ".join(media_type.decode() for media_type in allowed)
        raise Refused("unsupported_type", f"the content type must be {types}")


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """At most ``limit`` bytes: by the declared length, and counted while it arrives."""
    declared = header(scope, b"content-length")
    if declared and (len(declared) > 15 or int(declared) > limit):
        raise Refused("too_large", f"the body may have at most {limit} bytes")
    parts = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnected
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise Refused("too_large", f"the body may have at most {limit} bytes")
        parts.append(part)
        if not message.get("more_body"):
            return part if size == len(part) else b"".join(parts)


async def send(
    sender: Send, status: int, body: bytes, kind: bytes, more: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *_SAFE, *more]
    await sender({"type": "http.response.start", "status": status, "headers": headers})
    await sender({"type": "http.response.body", "body": body})


async def send_problem(
    sender: Send, answer: Problem, headers: Mapping[str, str] | None = None, *, close: bool = False
) -> None:
    """``close``: the body may not have been read, and would be in the way."""
    more = _problem_headers(answer) + _raw(headers or {}) + _CLOSE * close
    await send(sender, answer.status, msgspec.json.encode(answer), _PROBLEM, more)


def raw_problem(answer: Problem) -> bytes:
    """The same as it travels, for when nobody but the socket can be told any more."""
    body = msgspec.json.encode(answer)
    kind = [(b"content-type", _PROBLEM), (b"content-length", b"%d" % len(body))]
    headers = [*kind, *_SAFE, *_problem_headers(answer), *_CLOSE]
    lines = [b"%s: %s\r\n" % header for header in headers]
    phrase = HTTPStatus(answer.status).phrase.encode()
    return b"".join([b"HTTP/1.1 %d %s\r\n" % (answer.status, phrase), *lines, b"\r\n", body])


def _raw(headers: Mapping[str, str]) -> _Headers:
    return [(key.lower().encode(), value.encode()) for key, value in headers.items()]


def _problem_headers(answer: Problem) -> _Headers:
    """What HTTP wants beside some statuses."""
    if answer.status in (429, 503):
        return [(b"retry-after", _RETRY)]
    return [(b"www-authenticate", b"Bearer")] if answer.status == 401 else []


_SAFE = _raw(NO_STORE)
