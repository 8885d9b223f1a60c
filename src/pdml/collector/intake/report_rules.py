"""What a report must be before the store is asked: everything that follows from the study alone.

Norms above 1 are refused, not clipped: an honest device never sends one, and the bound on one
report's influence rests on it.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from pdml.collector.storage.records import CollectionId, Entry, Outcome
from pdml.collector.storage.retention import ends
from pdml.encoding import device_encoding
from pdml.errors import MessageError
from pdml.numerics.coded_rows import Block
from pdml.study import Study
from pdml.study.messages import (
    ADMITTED,
    MAX_BATCH,
    acceptable,
    decode_report,
    feature_bytes,
    max_report_bytes,
)


class Refusal(NamedTuple):
    """A problem's code, a sentence about this case, and the report's id if it could be read."""

    code: str
    detail: str = ""
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The study's rules, made ready for checking thousands of reports a second."""

    study_hash: str
    menu: frozenset[int]  # millionths
    classes: int
    width: int
    opens: float
    closes: float
    require_tokens: bool
    # (hash, version) of what people may have agreed to, and how it is kept
    consents: Mapping[tuple[str, str], bytes]
    # of each sensitive answer: where it stands, and its menu in millionths
    codes: tuple[tuple[Block, tuple[int, ...]], ...] = ()

    @classmethod
    def of(cls, study: Study, *, require_tokens: bool) -> "Rules":
        encoder = study.encoder
        return cls(
            study_hash=study.hash,
            menu=frozenset(study.epsilon_micro),
            classes=len(study.classes),
            width=study.width,
            opens=study.opens.timestamp() if study.opens else -float("inf"),
            closes=min(study.closes.timestamp() if study.closes else float("inf"), ends(study)),
            require_tokens=require_tokens,
            codes=tuple(
                (block, attribute.epsilon.millionths)
                for attribute, block in zip(encoder.sensitive, encoder.blocks, strict=True)
                if attribute.epsilon is not None
            ),
            consents=_consents(study),
        )

    @cached_property
    def max_report(self) -> int:
        return max_report_bytes(self.width)

    @property
    def max_batch(self) -> int:
        return MAX_BATCH * (self.max_report + 1)

    def read(self, lines: Sequence[bytes], now: float) -> list[Entry | Refusal]:
        """Each report's entry, or the first rule it breaks; a bad one harms no other."""
        reason, hour = self.closed_reason(now), int(now // 3600)
        read = [self._read_line(line, hour, reason) for line in lines]
        features = [result.features for result in read if type(result) is Entry]
        if features and not all(acceptances := self._accept_features(features)):
            fine = iter(acceptances)
            read = [
                result if type(result) is Refusal or next(fine) else _outside(result)
                for result in read
            ]
        return read

    def closed_reason(self, now: float) -> Outcome | None:
        """Why nothing is taken outside the study's times."""
        if now < self.opens:
            return Outcome.TOO_EARLY
        return Outcome.CLOSED if now >= self.closes else None

    def _accept_features(self, features: Sequence[bytes]) -> list[bool]:
        """Whether each is `acceptable`, and every sensitive answer, to the bit, the code of one
        level at an ε of its menu: nothing else has the bound on its influence."""
        # a signalling NaN must not warn on its way to being refused
        with np.errstate(invalid="ignore"):
            if len(features) == 1 and not self.codes:  # shorter: NumPy costs more than the sum does
                wide = np.frombuffer(features[0], dtype="<f4").astype(np.float64)
                return [bool(wide.dot(wide) <= ADMITTED and wide[-1] > 0)]
            rows = np.frombuffer(b"".join(features), dtype="<f4").reshape(-1, self.width)
            good = acceptable(rows, most=ADMITTED)
        for block, menu in self.codes:
            good &= device_encoding.match_epsilons(block, menu, rows) > 0
        return list(good.tolist())

    def _read_line(self, line: bytes, hour: int, reason: Outcome | None) -> Entry | Refusal:
        if len(line) > self.max_report:
            why = f"a report has at most {self.max_report} bytes, got {len(line)}"
            return Refusal("too_large", why)
        try:
            report = decode_report(line)
        except MessageError as error:
            return Refusal(error.code, str(error))
        id = report.id
        if report.study != self.study_hash:
            own = f"this service collects for the study with hash {self.study_hash}"
            return Refusal("wrong_study", own, id)
        if report.epsilon not in self.menu:
            must = f"epsilon must be one of {sorted(self.menu)} millionths"
            return Refusal("epsilon_not_on_menu", must, id)
        if report.label >= self.classes:
            return Refusal("bad_label", f"label must be in 0 ... {self.classes - 1}", id)
        consent = self.consents.get((report.consent, report.consent_version))
        if consent is None:
            return Refusal("wrong_consent", "a report carries the consent of its study", id)
        token = report.token
        # the store decides: a report that was stored without one keeps its receipt
        if not token and self.require_tokens:
            reason = reason or Outcome.TOKEN_MISSING
        try:
            features = feature_bytes(report.features)
        except MessageError as error:
            return Refusal(error.code, str(error), id)
        if len(features) != 4 * self.width:
            must = f"features must have {self.width} entries, got {len(features) // 4}"
            return Refusal("bad_features", must, id)
        digest = sha256(line).digest()
        return Entry(
            hash_id(id),
            digest,
            report.epsilon,
            report.label,
            hour,
            features,
            hash_token(token) if token else b"",
            reason,
            consent,
            hmac.digest(bytes.fromhex(report.nonce), line, "sha256"),
            id,
        )


def _consents(study: Study) -> dict[tuple[str, str], bytes]:
    """Reports to a study that asks for no consent carry none."""
    if study.consent is None:
        return {("", ""): b""}
    digest, version = study.consent.digest, study.consent.version
    return {(digest, version): bytes.fromhex(digest) + version.encode().ljust(16, b"\0")}


def _outside(entry: Entry | Refusal) -> Refusal:
    assert type(entry) is Entry
    return Refusal(
        "bad_features",
        "features must be finite, have a norm clearly below 1, end with a positive constant, and "
        "hold a code of its menu for every answer that the study randomises",
        entry.report,
    )


def hash_id(id: str) -> bytes:
    """How a report's id is kept: whoever copies the database cannot ask the service about it."""
    return sha256(b"pdml report " + bytes.fromhex(id)).digest()[:16]


def hash_token(token: str) -> bytes:
    """How an invitation is kept: its 128 random bits cannot be searched for."""
    return sha256(token.encode()).digest()


def collection_id(study: Study, server: str) -> CollectionId:
    """Whose collection it is, for opening its store."""
    study.server(server)  # refuses a server that the study does not name
    return CollectionId(
        study_id=study.id,
        study_hash=study.hash,
        server=server,
        width=study.width,
        classes=len(study.classes),
        epsilons=len(set(study.epsilon_micro)),
    )
