"""What travels between a device and a collection service: versioned JSON and one table of problems.

A report is one JSON object of constant size for a given study. `decode_report` checks the form;
what depends on the study and on the store is the service's.
"""

import base64
import binascii
import hashlib
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pdml.errors import InvalidInput, MessageError
from pdml.formats import Format, decode

FORMAT = Format(name="report", version=1)
MAX_BATCH = 1_000  # reports in one batch
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_HOUR = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}Z", re.ASCII)
CONSENT_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,15}", re.ASCII)
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_LONGEST_NAME = 200  # letters of a server's name

Features = NDArray[np.float32]


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One person's contribution, as it leaves the device.

    Guarantees
    ----------
    - ``label`` was randomised on the device with ``epsilon``; no message tells if it is true.
    - ``features`` are what the person answered, encoded: the server that receives them can read
      them.
    - The size does not depend on the answers (label indices of several digits aside).
    """

    version: int  # 1
    study: str  # Study.hash
    id: str  # 32 lower-case hex digits: `report_id` of a code that only the device knows
    # `report_nonce` of the same code: 32 hex digits without which nobody can repeat a report
    nonce: str
    epsilon: int  # millionths, on the study's menu
    label: int  # index into the study's classes
    features: str  # base64 of the float32 entries, little-endian
    token: str = ""  # an invitation, 32 hex digits; "" where the service takes open reports
    consent: str = ""  # sha256 of the text that the person agreed to; "" where there is none
    consent_version: str = ""  # of that text


class Invitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asked before any person is: would a report with this token be taken now? It stays unused."""

    token: str = ""  # 32 hex digits; "" without an invitation


class Admission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer yes: a report to this study would be taken now."""

    study: str  # Study.hash


class Withdrawal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person takes their report back, by what only their device knows."""

    code: str  # 32 hex digits


class Withdrawn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The service's word that nothing but the number of a report is left."""

    id: str
    study: str
    server: str
    before: bool  # it had been erased earlier


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The service's promise that it holds a report."""

    id: str
    study: str
    server: str
    digest: str  # sha256 of the report's bytes, in hex
    hour: str  # UTC, for example 2026-03-01T14Z: coarse, so that it tells little about the person


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why something was refused, as application/problem+json (RFC 9457) with a stable ``code``."""

    type: str
    title: str
    status: int
    code: str
    detail: str = ""
    id: str = ""  # of the report in question, if it has one


@dataclass(frozen=True)
class Kind:
    """One line of the table of problems."""

    status: int
    title: str


PROBLEMS: Mapping[str, Kind] = MappingProxyType(
    {
        "malformed": Kind(400, "The message is not JSON of the expected form."),
        "too_large": Kind(413, "The message is larger than any valid one."),
        "wrong_version": Kind(400, "The message is of a version that this service does not speak."),
        "wrong_study": Kind(
            409, "The report belongs to another study, or to another version of this one."
        ),
        "bad_id": Kind(400, "The report's id is not 32 lower-case hex digits."),
        "epsilon_not_on_menu": Kind(422, "The epsilon is not on the study's menu."),
        "bad_label": Kind(422, "The label is not one of the study's classes."),
        "bad_features": Kind(
            422,
            "The features have a wrong length, a norm above 1, or no positive constant at the end.",
        ),
        "wrong_consent": Kind(
            422, "The report does not carry the consent that the study asks for."
        ),
        "token_missing": Kind(401, "This service takes invited reports only."),
        "token_unknown": Kind(403, "The invitation is not known."),
        "token_used": Kind(409, "The invitation was used by another report."),
        "id_conflict": Kind(409, "The id is taken, and this does not repeat its report."),
        "too_early": Kind(403, "The study has not opened yet."),
        "closed": Kind(410, "The study is closed."),
        "frozen": Kind(409, "The data set is frozen: nothing can be added or withdrawn."),
        "withdrawal_unknown": Kind(404, "No report here can be withdrawn with this code."),
        "batch_too_long": Kind(413, f"A batch holds at most {MAX_BATCH:,} reports."),
        "not_found": Kind(404, "There is nothing here."),
        "method_not_allowed": Kind(405, "This address does not take this method."),
        "unsupported_type": Kind(415, "The content type is not the expected one."),
        "length_required": Kind(411, "The request must say how long it is."),
        "timeout": Kind(408, "The request did not arrive in time."),
        "unauthorized": Kind(401, "A token is needed here."),
        "too_many_requests": Kind(429, "Too many requests: try again later."),
        "storage_unavailable": Kind(503, "The report could not be stored: send it again later."),
        "internal": Kind(500, "The service made a mistake; nothing was acknowledged."),
    }
)


def problem(code: str, detail: str = "", id: str = "") -> Problem:
    """The problem with this ``code``, which must be in the table."""
    kind = PROBLEMS[code]
    return Problem(f"urn:pdml:problem:{code}", kind.title, kind.status, code, detail, id)


def report_id(code: str) -> str:
    """The id of the report that ``code`` withdraws: who knows ids knows no codes."""
    return hashlib.sha256(f"pdml withdrawal {code}".encode("ascii")).hexdigest()[:32]


def report_nonce(code: str) -> str:
    """The secret by which a device shows that it repeats its own report; stored by no service."""
    return hashlib.sha256(f"pdml repetition {code}".encode("ascii")).hexdigest()[:32]


# Features


def pack_features(features: NDArray[Any]) -> str:
    """base64 of float32 entries in little-endian order; they must be float32 already."""
    array = np.asarray(features)
    if array.dtype.newbyteorder("=") != np.float32 or array.ndim != 1 or not len(array):
        raise InvalidInput(
            f"features must be a vector of float32, got {array.ndim} dimension(s) of {array.dtype}"
        )
    return base64.b64encode(array.astype("<f4").tobytes()).decode("ascii")


def feature_bytes(text: str) -> bytes:
    """The float32 entries behind ``text`` as they travel; no other spelling is taken."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # binascii.Error, and non-ASCII text
        raise MessageError("features must be padded base64", "bad_features") from None
    # Only the bits that padding leaves over could be spelt in several ways.
    several = len(data) % 3 and base64.b64encode(data).decode("ascii") != text
    if not data or len(data) % 4 or several:
        raise MessageError("features must be base64 of whole float32 numbers", "bad_features")
    return data


def unpack_features(text: str) -> Features:
    """The inverse of `pack_features`, read-only; `acceptable` checks values."""
    return np.frombuffer(feature_bytes(text), dtype="<f4").astype(np.float32, copy=False)


def features_of(report: Report) -> Features:
    return unpack_features(report.features)


ADMITTED = 1 - 2.0**-21
"""The largest squared norm a service takes. Devices stay at 1 - 2^-19 and the proofs ask for 1:
neither an honest report's fate nor a stored one's depends on the order in which a machine adds up.
"""


def acceptable(features: NDArray[Any], *, most: float = 1.0) -> NDArray[np.bool_]:
    """Which rows of (m, d) float32 are finite, with a squared norm of at most ``most`` and a
    positive constant at the end."""
    wide = np.asarray(features, dtype=np.float64)
    squares = np.einsum("ij,ij->i", wide, wide)  # NaN and infinities make the comparison false
    return np.asarray((squares <= most) & (wide[:, -1] > 0))


# Bytes

_MARKS = 34  # quotation marks of a report: of ten names and seven texts


def encode_report(report: Report) -> bytes:
    """The canonical bytes: fields in their order, no spaces."""
    return msgspec.json.encode(report)


def decode_report(data: bytes) -> Report:
    """The report, its form checked; anything else is a `MessageError` with its problem's code."""
    try:
        report: Report = _decode(Report, data, "a report")
    except MessageError:
        # every report says its version: without one it is no report of another
        if b'"version"' in data and (why := FORMAT.refusal_of(data, "the report")):
            raise MessageError(why, "wrong_version") from None
        raise
    if why := FORMAT.refusal(report.version, "the report"):
        raise MessageError(why, "wrong_version")
    if not _HASH.fullmatch(report.study):
        raise MessageError(
            "study must be the 64 lower-case hex digits of the study's hash", "wrong_study"
        )
    if not _ID.fullmatch(report.id):
        raise MessageError("id must be 32 lower-case hex digits", "bad_id")
    if not _ID.fullmatch(report.nonce):
        raise MessageError("nonce must be 32 lower-case hex digits")
    if report.token and not _ID.fullmatch(report.token):
        raise MessageError("token must be 32 lower-case hex digits or empty", "token_unknown")
    if not 0 < report.epsilon < 1 << 53:
        raise MessageError("epsilon must be a positive number of millionths", "epsilon_not_on_menu")
    if not 0 <= report.label < 1 << 31:
        raise MessageError("label must be the index of a class", "bad_label")
    agreed = _HASH.fullmatch(report.consent) and CONSENT_VERSION.fullmatch(report.consent_version)
    if (report.consent or report.consent_version) and not agreed:
        raise MessageError(
            "consent must be the 64 lower-case hex digits of the text's hash, with its version",
            "wrong_consent",
        )
    # A field that is there twice would mean one thing here and may mean another elsewhere. No value
    # holds a quotation mark, so that counting them finds every one more: two of each name and of
    # each of the texts.
    if data.count(b'"') != _MARKS:
        raise MessageError("each field must be there once, and spelt without escapes")
    return report


def encode_invitation(token: str) -> bytes:
    return msgspec.json.encode(Invitation(token))


def decode_invitation(data: bytes) -> Invitation:
    """The invitation, its form checked; anything else is a `MessageError` with a problem's code."""
    invitation: Invitation = _decode(Invitation, data, "an invitation")
    if invitation.token and not _ID.fullmatch(invitation.token):
        raise MessageError("token must be 32 lower-case hex digits or empty", "token_unknown")
    if data.count(b'"') > 4:  # as for a report: the one field twice, or hidden behind an escape
        raise MessageError("the token must be there once")
    return invitation


def decode_admission(data: bytes) -> Admission | Problem:
    """What a service says to an invitation; a problem as in `decode_answer`."""
    reply: Admission | Problem = _decode_reply(Admission, data, "an admission")
    return reply


def encode_withdrawal(code: str) -> bytes:
    return msgspec.json.encode(Withdrawal(code))


def decode_withdrawal(data: bytes) -> Withdrawal:
    """The withdrawal, its form checked; anything else is a `MessageError` with a problem's code."""
    withdrawal: Withdrawal = _decode(Withdrawal, data, "a withdrawal")
    if not _ID.fullmatch(withdrawal.code):
        raise MessageError("code must be 32 lower-case hex digits", "withdrawal_unknown")
    if data.count(b'"') != 4:
        raise MessageError("the code must be there once")
    return withdrawal


def decode_withdrawn(data: bytes) -> Withdrawn | Problem:
    """What a service says to a withdrawal; a problem as in `decode_answer`."""
    reply: Withdrawn | Problem = _decode_reply(Withdrawn, data, "a withdrawal")
    return reply


def decode_answer(data: bytes) -> Receipt | Problem:
    """What a service says about one report; no text of it can move a terminal's cursor."""
    receipt: Receipt | Problem = _decode_reply(Receipt, data, "a receipt")
    if isinstance(receipt, Problem):
        return receipt
    patterns = (
        (_ID, receipt.id),
        (_HASH, receipt.study),
        (_HASH, receipt.digest),
        (_HOUR, receipt.hour),
    )
    named = 0 < len(receipt.server) <= _LONGEST_NAME and receipt.server.isprintable()
    if not named or not all(pattern.fullmatch(text) for pattern, text in patterns):
        raise MessageError(
            "a receipt must hold hex digits, an hour such as 2026-03-01T14Z, and a "
            "printable name, got something else"
        )
    return receipt


def _safe_problem(reply: Problem) -> Problem:
    if not _CODE.fullmatch(reply.code):
        raise MessageError(
            "a problem's code must be lower-case letters, digits and underscores, got "
            "something else"
        )
    title = PROBLEMS[reply.code].title if reply.code in PROBLEMS else _printable(reply.title)
    kind, detail, id = map(_printable, (reply.type, reply.detail, reply.id))
    return Problem(kind, title, reply.status, reply.code, detail, id)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def split_batch(data: bytes) -> list[bytes]:
    """The lines of a batch, undecoded; only the end may lack its newline."""
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


MAX_INVITATION_BYTES = 256  # also of a withdrawal


def max_report_bytes(width: int) -> int:
    """No valid report of ``width`` features is longer."""
    return 4 * ((4 * width + 2) // 3) + 1024


def _decode_reply(kind: type, data: bytes, what: str) -> Any:
    try:
        return decode(data, kind)
    except msgspec.DecodeError:
        return _safe_problem(_decode(Problem, data, f"{what} or a problem"))


def _decode(kind: type, data: bytes, what: str) -> Any:
    try:
        return decode(data, kind)
    except msgspec.DecodeError as error:
        # msgspec's text names fields and types; it never quotes values, which may be somebody's.
        raise MessageError(f"the message is not {what}: {error}") from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``, so that reports may travel unencrypted."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
