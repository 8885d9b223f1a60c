"""Bytes to a collection service and its answer back: the standard library's HTTP, verified TLS, the
same bytes at every attempt."""

import hashlib
import ssl
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import NoReturn, Self
from urllib.parse import SplitResult, urlsplit

from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.errors import DataError, InvalidInput, MessageError, NotDelivered, plain
from pdml.study import Study
from pdml.study.messages import (
    Problem,
    Receipt,
    Withdrawn,
    decode_admission,
    decode_answer,
    decode_report,
    decode_withdrawn,
    encode_invitation,
    encode_withdrawal,
    is_loopback,
    report_id,
    split_batch,
)

ATTEMPTS = 5
_FIRST_PAUSE = 0.5  # seconds; each further one is twice as long
_TIMEOUT = 30.0
_MOST_ANSWER = 1 << 22  # bytes of an answer that are read at all
_APART = ("/v1/study", "/v1/invitations", "/v1/withdrawals")  # which send no report
# nothing was acknowledged: the same bytes may be sent again
_AGAIN = {408, 425, 429, 500, 502, 503, 504}

_OTHER_STUDY = "works for another study, or another version of it"
_UNSURE = "it may or may not hold the report"

Answer = Receipt | Problem


class Delivery:
    """A connection to one collection service, kept open.

    Guarantees
    ----------
    - Off this machine, https with a verified certificate or nothing; redirections are not followed.
    - An attempt without a clear answer is repeated with the same bytes, which services count once.
    - A receipt is believed only if it is for exactly the bytes that were sent.
    """

    def __init__(
        self,
        url: str,
        *,
        ca: Path | None = None,
        attempts: int = ATTEMPTS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.url = url.rstrip("/")
        self._parts = _checked(self.url)
        self._tls = _context(ca) if self._parts.scheme == "https" else None
        self._attempts, self._clock = attempts, clock
        self._open: HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        self._close()

    def require_study(self, study: str) -> None:
        """Refuse a service of another study, before anything about a person is sent to it."""
        status, body = self._ask("/v1/study")
        if status != 200:
            why = f"it answered {status} when asked for its study"
            raise NotDelivered(f"{self.url} is no collection service: {why}")
        if (digest := hashlib.sha256(body).hexdigest()) != study:
            hashes = f"({digest[:12]}..., not {study[:12]}...)"
            raise NotDelivered(f"{self.url} {_OTHER_STUDY} {hashes}", "wrong_study")

    def require_admission(self, study: str, token: str) -> None:
        """Refuse, before anything is asked, where a report with this token would not be taken."""
        status, body = self._ask("/v1/invitations", encode_invitation(token))
        try:
            answer = decode_admission(body)
        except MessageError:
            why = f"it answered {status} when asked for admission"
            raise NotDelivered(f"{self.url} is no collection service: {why}") from None
        if isinstance(answer, Problem):
            why = f"({answer.code}): {answer.title}"
            raise NotDelivered(f"{self.url} would not take a report now {why}", answer.code)
        if status != 200 or answer.study != study:
            raise NotDelivered(f"{self.url} {_OTHER_STUDY}", "wrong_study")

    def withdraw(self, code: str) -> Withdrawn | Problem:
        """Take a report back: the service's word that it is erased, or why it is not."""
        status, body = self._ask("/v1/withdrawals", encode_withdrawal(code))
        try:
            answer = decode_withdrawn(body)
        except MessageError:
            answer = None
        done = isinstance(answer, Withdrawn) and status == 200 and answer.id == report_id(code)
        refused = isinstance(answer, Problem) and _refuses(status) and _refuses(answer.status)
        if answer is None or not (done or refused):
            unsure = "the report may or may not be withdrawn. Try again, which is safe"
            raise NotDelivered(f"{self.url} gave no clear answer: {unsure}")
        return answer

    def send(self, report: bytes) -> Answer:
        """Its receipt, or the problem for which it was refused and certainly not stored."""
        status, body = self._ask("/v1/reports", report)
        answer = self._answer(report, body)
        if isinstance(answer, Receipt) != (status in (200, 201)):
            self._unclear()
        # the body alone may be anybody's
        if isinstance(answer, Problem) and not (_refuses(status) and _refuses(answer.status)):
            why = f"({answer.code}): {answer.title} Try again later, it will be the same report"
            raise NotDelivered(f"{self.url} may or may not hold the report {why}", answer.code)
        return answer

    def send_batch(self, reports: Sequence[bytes]) -> list[Answer]:
        """Deliver many reports: one answer for each, in the same order."""
        batch = b"".join(report + b"\n" for report in reports)
        status, body = self._ask("/v1/batches", batch, "application/x-ndjson")
        lines = split_batch(body)
        if status != 200:
            answer = self._understood(body)
            return [answer] * len(reports) if isinstance(answer, Problem) else self._unclear()
        if len(lines) != len(reports):
            self._unclear()
        return [self._answer(report, line) for report, line in zip(reports, lines, strict=True)]

    def _answer(self, report: bytes, line: bytes) -> Answer:
        answer = self._understood(line)
        if isinstance(answer, Receipt):
            own, digest = decode_report(report), hashlib.sha256(report).hexdigest()
            if (answer.id, answer.study, answer.digest) != (own.id, own.study, digest):
                other = "gave a receipt for something else than what was sent"
                raise NotDelivered(f"{self.url} {other}: {_UNSURE}")
        return answer

    def _understood(self, line: bytes) -> Answer:
        try:
            return decode_answer(line)
        except MessageError:
            self._unclear()

    def _unclear(self) -> NoReturn:
        foreign = "gave an answer that is none of a collection service"
        raise NotDelivered(f"{self.url} {foreign}: {_UNSURE}")

    def _ask(
        self, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        why = "it did not answer"
        for attempt in range(self._attempts):
            if attempt:
                self._clock.sleep(_FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                status, answer = self._once(path, body, kind)
            except ssl.SSLCertVerificationError as error:
                why = f"{error.verify_message}; nothing was sent (--ca names an own CA)"
                raise NotDelivered(f"{self.url} could not prove who it is: {why}") from None
            except (OSError, HTTPException) as error:
                self._close()
                why = f"no answer ({_reason(error)})"
                continue
            if status not in _AGAIN or attempt == self._attempts - 1:
                return status, answer
            why = f"answer {status}"
        later = "try again later" + ("" if path in _APART else ", it will be the same report")
        tried = f"{why} after {self._attempts} attempts"
        raise NotDelivered(f"{self.url} could not be reached, {tried}: {later}")

    def _once(self, path: str, body: bytes | None, kind: str) -> tuple[int, bytes]:
        if self._open is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._tls is None:
                self._open = HTTPConnection(host, port, timeout=_TIMEOUT)
            else:
                self._open = HTTPSConnection(host, port, timeout=_TIMEOUT, context=self._tls)
        headers = {"Accept": "application/json"} | ({} if body is None else {"Content-Type": kind})
        method = "GET" if body is None else "POST"
        self._open.request(method, self._parts.path + path, body, headers)
        response = self._open.getresponse()
        answer = response.read(_MOST_ANSWER + 1)
        if len(answer) > _MOST_ANSWER:
            raise HTTPException("an endless answer")
        if 300 <= response.status < 400:
            why = f"({response.status}): give the address where the service itself is"
            raise NotDelivered(f"{self.url} points elsewhere {why}")
        return response.status, answer

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def address_of(study: Study, server: str = "") -> str:
    """Where a study's server takes reports; an address is what it is."""
    if "://" in server:
        return server
    if not server and len(study.servers) > 1:
        names = ", ".join(candidate.name for candidate in study.servers)
        raise InvalidInput(f"--server must name your organisation: one of {names}, or an address")
    return study.server(server).url if server else study.servers[0].url


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.username or parts.query or parts.fragment:
        must = "the address of a service must look like https://alice.example"
        raise InvalidInput(f"{must}, got {url!r}")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        must = f"the address must begin with https:// off this machine, got {url!r}"
        raise InvalidInput(f"{must}: others could read your answers on the way")
    return parts


def _context(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as error:
        must = f"{ca} must hold certificates in PEM form, got a file that cannot be used"
        raise DataError(f"{must}: {_reason(error)}") from None


def _refuses(status: int) -> bool:
    """Whether a status says for certain that nothing was stored."""
    return 400 <= status < 500 and status not in _AGAIN


def _reason(error: Exception) -> str:
    """In words; an error of the protocol quotes the server, which may send control characters."""
    text = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
    return plain(text, longest=200)
