"""One file over HTTP(S), continued where a connection broke, and kept only if its content is the
expected one.

Whether bytes are right is for the caller's ``unpack`` to say, by a digest. So a part may be
continued whenever the server agrees; if the whole turns out wrong, it is fetched once more from the
start before the address is given up.
"""

import http.client
import json
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import IO, TypeVar

from pdml.errors import DataError

T = TypeVar("T")
Tell = Callable[[int, int | None], None]  # bytes so far, and of how many if that is known

_CHUNK = 1 << 16
_LATER = {408, 425, 429, 500, 502, 503, 504}  # answers that may be others in a while


class Unavailable(DataError):
    """An address does not give the file; another one may."""


class _Broken(Exception):
    """This attempt failed, the next one may not."""

    def __init__(self, sentence: str, wait: float = 0.0) -> None:
        super().__init__(sentence)
        self.wait = wait


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to keep trying one address; a wait doubles from ``wait`` to at most ``longest_wait``
    seconds.
    """

    attempts: int = 4  # in a row without a byte more than before
    timeout: float = 30.0  # of silence
    wait: float = 1.0
    longest_wait: float = 30.0
    longest: float = (
        3600.0  # seconds in all: a server that sends a byte now and then must not hold us for ever
    )


def download(
    url: str, part: Path, *, unpack: Callable[[bytes], T], most: int, tell: Tell, patience: Patience
) -> T:
    """``unpack(content of url)``; raises `Unavailable` if the address does not give it.

    ``part`` holds what has arrived and stays behind after an interrupt or when patience ends, so
    that the next call goes on there. ``unpack`` refuses wrong content by a `DataError`. More than
    ``most`` bytes are never taken.
    """
    again = False
    until = time.monotonic() + patience.longest
    while True:
        final = _complete(url, part, most=most, tell=tell, patience=patience, until=until) or again
        try:
            return unpack(part.read_bytes())
        except DataError as error:
            if final:
                raise Unavailable(f"{url} gives something else ({error})") from error
            again = True
        finally:
            discard(part)


def _complete(
    url: str, part: Path, *, most: int, tell: Tell, patience: Patience, until: float
) -> bool:
    """Fill ``part``; True if it came in one answer, False if it was put together."""
    opener = urllib.request.build_opener(_Redirects())
    if _validator(url, part) is None:
        discard(part)  # left by another address, or by nobody we know
    reached, failures = _size(part), 0
    while True:
        try:
            return _receive(
                opener,
                url,
                part,
                most=most,
                tell=_in_time(url, tell, patience, until),
                timeout=patience.timeout,
            )
        except _Broken as error:
            failures = 0 if _size(part) > reached else failures + 1
            if failures >= patience.attempts:
                raise Unavailable(f"{url} {error}") from error
            _check_time(url, patience, until)
            reached = max(reached, _size(part))
            time.sleep(
                min(
                    patience.longest_wait,
                    max(error.wait, patience.wait * 2 ** max(0, failures - 1)),
                )
            )


def _in_time(url: str, tell: Tell, patience: Patience, until: float) -> Tell:
    """``tell``, which comes after each chunk, and the end of patience."""

    def told(done: int, total: int | None) -> None:
        tell(done, total)
        if done != total:
            _check_time(url, patience, until)

    return told


def _check_time(url: str, patience: Patience, until: float) -> None:
    if time.monotonic() > until:
        raise Unavailable(f"{url} is not done after {patience.longest:g} seconds")


def _receive(
    opener: urllib.request.OpenerDirector,
    url: str,
    part: Path,
    *,
    most: int,
    tell: Tell,
    timeout: float,
) -> bool:
    """One request; True if its answer was the whole file, False if it continued ``part``."""
    offset = _size(part)
    request = urllib.request.Request(
        url, headers={"User-Agent": "pdml", "Accept-Encoding": "identity"}
    )
    if offset:
        request.add_header("Range", f"bytes={offset}-")
        if validator := _validator(url, part):
            request.add_header("If-Range", validator)  # a file that changed meanwhile comes whole
    try:
        response = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and offset:
                return False  # nothing is missing, or the part is wrong: its digest tells
            sentence = f"answers {error.code} {error.reason}"
            if error.code in _LATER:
                raise _Broken(sentence, _retry_after(error.headers)) from error
        raise Unavailable(f"{url} {sentence}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _failure(url, error, timeout) from error
    with response:
        fresh: bool = response.status != 206
        if not fresh and _start(response.headers) != offset:
            discard(part)
            raise _Broken("continues at another byte than asked")
        if fresh:
            offset = 0
            part.with_suffix(".json").write_text(
                json.dumps({"url": url, "validator": _tag(response.headers)})
            )
        total = _total(response.headers, offset=offset)
        if total is not None and total > most:
            discard(part)
            raise Unavailable(f"{url} offers {total:,} bytes where at most {most:,} are expected")
        with part.open("wb" if fresh else "ab") as file:
            _copy(url, response, file, offset, total, most=most, tell=tell, timeout=timeout)
    return fresh


def _copy(
    url: str,
    response: http.client.HTTPResponse,
    file: IO[bytes],
    done: int,
    total: int | None,
    *,
    most: int,
    tell: Tell,
    timeout: float,
) -> None:
    tell(done, total)
    while True:
        try:
            chunk = response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise _failure(url, error, timeout) from error
        if not chunk:
            break
        done += len(chunk)
        if done > most:
            discard(Path(file.name))
            raise Unavailable(f"{url} sends more than the {most:,} bytes expected")
        file.write(chunk)
        tell(done, total)
    if total is not None and done < total:
        raise _Broken(f"breaks off after {done:,} of {total:,} bytes")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but never from https to anything less."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> urllib.request.Request | None:
        if req.type == "https" and not newurl.lower().startswith("https://"):
            fp.close()
            raise Unavailable(f"{req.full_url} leads away from https, to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _failure(url: str, error: Exception, timeout: float) -> Exception:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Unavailable(
            f"{url} shows a certificate that is not trusted ({reason.verify_message})"
        )
    if isinstance(reason, socket.gaierror):  # resolvers have tried again themselves
        return Unavailable(f"{url} cannot be found (no network, or no such host)")
    if isinstance(reason, TimeoutError):
        return _Broken(f"is silent for {timeout:g} seconds")
    if isinstance(reason, http.client.IncompleteRead):
        return _Broken("breaks off")
    text = (
        reason.strerror
        if isinstance(reason, OSError) and reason.strerror
        else str(reason) or type(reason).__name__
    )
    return _Broken(f"cannot be reached ({text.lower()})")


# What a part and an answer say of themselves


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def discard(part: Path) -> None:
    """Forget what has arrived."""
    part.unlink(missing_ok=True)
    part.with_suffix(".json").unlink(missing_ok=True)


def _validator(url: str, part: Path) -> str | None:
    """The validator of the answer ``part`` began with, "" if it had none, None if ``part`` is not
    of this address.
    """
    try:
        known = json.loads(part.with_suffix(".json").read_text())
        return str(known["validator"]) if known["url"] == url else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _tag(headers: Message) -> str:
    tag = str(headers.get("ETag", ""))
    return (
        tag if tag.startswith('"') else str(headers.get("Last-Modified", ""))
    )  # weak tags must not be used with If-Range


def _start(headers: Message) -> int | None:
    match = re.match(r"bytes (\d+)-", str(headers.get("Content-Range", "")))
    return int(match[1]) if match else None


def _total(headers: Message, *, offset: int) -> int | None:
    ranged, length = (
        re.search(r"/(\d+)$", str(headers.get("Content-Range", ""))),
        str(headers.get("Content-Length", "")),
    )
    if ranged:
        return int(ranged[1])
    return offset + int(length) if length.isdigit() and "Content-Range" not in headers else None


def _retry_after(headers: Message) -> float:
    seconds = str(headers.get("Retry-After", ""))
    return float(seconds) if seconds.isdigit() else 0.0
