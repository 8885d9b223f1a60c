"""What a node tells at the end of a job: noisy or public things only, signed, so that the relay cannot change them."""

from collections.abc import Iterable, Mapping
from math import inf

import msgspec
import numpy as np

from pdml._types import Array
from pdml.accounting import records
from pdml.accounting.events import Event
from pdml.accounting.provenance import RANDOMISED_BY, UNSAID
from pdml.errors import PDMLError, PeerError
from pdml.node.contract import Contract
from pdml.node.identity import Identity, verified

_DOMAIN = b"pdml training report 1\0"


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The end of a job at one node."""

    version: int = 1
    contract: str  # its digest
    server: str
    records: int
    epsilon: float  # the smallest label ε of the records
    released: list[list[float]]  # w̃_i(T)
    apart: list[float]  # rounds 1 to T-1: distance to the farthest neighbour's release
    label_epsilon: float  # the largest
    earlier: list[str]  # what other jobs have released from the same data set
    source: str  # of the noise
    labels: str = UNSAID  # where they were randomised, as the node says

    @property
    def vector(self) -> Array:
        return np.array(self.released, dtype=float)

    @property
    def spent_before(self) -> tuple[Event, ...]:
        return tuple(records.loads(text) for text in self.earlier)


def lines(events: Iterable[Event]) -> list[str]:
    return [records.dumps(event) for event in events]


class Signed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A report as it travels."""

    server: str
    report: bytes
    signature: bytes


def sign(report: Report, identity: Identity) -> bytes:
    content = msgspec.json.encode(report)
    return msgspec.json.encode(Signed(server=report.server, report=content, signature=identity.sign(_DOMAIN + content)))


def open_report(data: bytes, contract: Contract, server: str, keys: Mapping[str, str]) -> Report:
    """Check the report of ``server``; whatever does not check out names it."""
    try:
        signed = msgspec.json.decode(data, type=Signed)
        if signed.server != server or not verified(keys.get(server, ""), _DOMAIN + signed.report, signed.signature):
            raise PeerError(f"the report of {server} is not signed by it: the relay or {server} changed it")
        report = msgspec.json.decode(signed.report, type=Report)
    except msgspec.DecodeError as error:
        raise PeerError(f"{server} sent something that is no report: {error}") from None
    if report.server != server or report.contract != contract.digest:
        raise PeerError(f"{server} reports on another contract")
    rows, width = contract.shape
    good = len(report.released) == rows and all(len(row) == width for row in report.released)
    if not good or not np.linalg.norm(report.vector) <= contract.norm_cap:
        raise PeerError(f"{server} reports a release that no honest node would have")
    if len(report.apart) != contract.plan.rounds - 1 or not all(0 <= distance < inf for distance in report.apart):
        raise PeerError(f"{server} reports distances that no honest node would have")
    if not (report.records >= 1 and report.epsilon >= contract.epsilon and inf > report.label_epsilon >= report.epsilon):
        raise PeerError(f"{server} reports records that no honest node would have")
    if report.labels not in RANDOMISED_BY:
        raise PeerError(f"{server} reports labels that no honest node would have")
    try:
        _ = report.spent_before
    except PDMLError as error:
        raise PeerError(f"{server} reports earlier jobs that cannot be read: {error}") from None
    return report
