"""The few parts of HTTP that the hot path needs, straight on ASGI: bodies under a cap, and answers.

Frameworks' request objects cost more than checking and storing a report does.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from pdml.study.messages import Problem, problem

Scope = Any
Receive = Any
Send = Any

_RETRY = b"1"  # seconds: the queue drains in less
Headers = list[tuple[bytes, bytes]]
PROBLEM = b"application/problem+json"
_CLOSE: Headers = [(b"connection", b"close")]
SAFE: Headers = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


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
    """Refuse other content types. Browsers let any site post text or forms; JSON they ask about
    first, and are told no.
    """
    content_type = header(scope, b"content-type")
    if content_type in allowed:
        return
    if content_type.partition(b";")[0].strip().lower() not in allowed:
        raise Refused(
            "unsupported_type",
            "the content type must be "
            f"{' or '.join(media_type.decode() for media_type in allowed)}",
        )


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The request's body, of at most ``limit`` bytes: by its declared length before reading, and
    counted while it arrives.
    """
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
    send: Send, status: int, body: bytes, kind: bytes, more: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *SAFE, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def problem_headers(answer: Problem) -> Mapping[str, str]:
    """What HTTP wants beside some statuses."""
    if answer.status in (429, 503):
        return {"retry-after": _RETRY.decode()}
    return {"www-authenticate": "Bearer"} if answer.status == 401 else {}


async def send_problem(sender: Send, answer: Problem, *, close: bool = False) -> None:
    """``close``: the body was not read, and the connection must not be used on with it in the
    way.
    """
    await send(
        sender,
        answer.status,
        msgspec.json.encode(answer),
        PROBLEM,
        _headers(answer) + _CLOSE * close,
    )


def raw_problem(answer: Problem) -> bytes:
    """The same as it travels, for when nobody but the socket can be told any more."""
    body = msgspec.json.encode(answer)
    kind = [(b"content-type", PROBLEM), (b"content-length", b"%d" % len(body))]
    lines = [b"%s: %s\r\n" % line for line in (*kind, *SAFE, *_headers(answer), *_CLOSE)]
    phrase = HTTPStatus(answer.status).phrase.encode()
    return b"".join([b"HTTP/1.1 %d %s\r\n" % (answer.status, phrase), *lines, b"\r\n", body])


def _headers(answer: Problem) -> Headers:
    return [(key.encode(), value.encode()) for key, value in problem_headers(answer).items()]
