"""What members of a study have released of one model, each signed by its node: read, checked and
added up by anybody. Nobody is trusted.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from pdml.accounting import Ledger, LedgerRow
from pdml.accounting.events import CountsReleased
from pdml.accounting.kinds import Adversary, Data
from pdml.consortium.result_folder import MODEL, STUDY
from pdml.errors import BudgetExceeded, DataError
from pdml.files import read_file
from pdml.formats import Format, decode
from pdml.mechanisms.count_release import SHIFT, Counting
from pdml.model.model import Model, load_model
from pdml.model.private_evaluation import CountedEvaluation, pooled
from pdml.node.crypto.signing import verify_signature
from pdml.study import Study

FORMAT = Format(name="evaluation", version=1)
_DOMAIN = b"pdml evaluation 1\0"
_MOST_CELLS, _MOST_RELEASES = 250_000, 10_000


class SignedCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a member releases of one evaluation: noisy or public things, and its signature."""

    version: int = FORMAT.version
    study: str  # its hash
    server: str
    job: str
    model: str  # sha256 of the model's file
    classes: list[str]
    records: int
    bins: int
    stddev: float
    source: str
    counts: Annotated[list[int], Meta(max_length=_MOST_CELLS)]  # units of 2^-24, row by row
    # σ of every release of counts of these records by the node's journal, this one among them
    spent: Annotated[list[float], Meta(max_length=_MOST_RELEASES)]
    signature: str = ""  # of all the rest, in hex

    def signable(self) -> bytes:
        """What is signed."""
        fields = msgspec.structs.asdict(msgspec.structs.replace(self, signature=""))
        return _DOMAIN + msgspec.json.encode(fields)

    @property
    def evaluation(self) -> CountedEvaluation:
        """The figures that it tells."""
        counting = Counting(stddev=self.stddev, classes=len(self.classes), bins=self.bins)
        if len(self.counts) != int(np.prod(counting.shape)) or self.records < 1:
            raise DataError(f"{self.server} tells {len(self.counts)} counts, which is no table")
        return CountedEvaluation.of(
            np.array(self.counts, dtype=np.int64).reshape(counting.shape),
            counting,
            classes=tuple(self.classes),
            records=self.records,
            source=self.source,
        )

    def ledger(self, delta: float) -> Ledger:
        """What the node says was spent of these records."""
        events = tuple(CountsReleased(stddev=stddev, shift=SHIFT) for stddev in self.spent)
        return Ledger((events,), source=self.source, delta=delta, classes=len(self.classes))


@dataclass(frozen=True, kw_only=True)
class PooledEvaluation:
    """Evaluations of one model whose signatures, counts and spending have been checked.

    Attributes
    ----------
    parts : tuple of SignedCounts
        One for each member that took part.
    delta : float
        At which their spending is told: the budget's for features.
    """

    parts: tuple[SignedCounts, ...]
    delta: float

    @cached_property
    def evaluation(self) -> CountedEvaluation:
        """Of all their records."""
        return pooled([part.evaluation for part in self.parts])

    def row(self, part: SignedCounts) -> LedgerRow:
        """What everybody else may learn of one of a member's records."""
        return part.ledger(self.delta).row(Data.FEATURES, Adversary.OTHERS)

    def sentences(self) -> list[str]:
        """Who has counted what, and what it has spent by its own word."""
        return [
            f"{part.server} signed for {part.records:,} records, counted "
            f"{_count_releases(part)}: epsilon {self.row(part).epsilon:.3g} (delta "
            f"{self.delta:g}) of each "
            "against everybody else."
            for part in self.parts
        ]

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        members = [
            {
                "server": part.server,
                "job": part.job,
                "records": part.records,
                "releases": len(part.spent),
                "epsilon": self.row(part).epsilon,
                "delta": self.delta,
            }
            for part in self.parts
        ]
        return {**self.evaluation.to_dict(), "members": members}


def check_evaluations(
    study: Study, files: Sequence[str | PathLike[str]], *, model: str = ""
) -> PooledEvaluation:
    """Check what members have released of one model.

    Guarantees
    ----------
    - Every part is signed by the key that the study pins for its server.
    - What a member says it has spent keeps to the budget by the ledger; that it says all of it is
      its own signed claim.
    """
    parts: dict[str, SignedCounts] = {}
    for file in files:
        release = _read(Path(file), study)
        if release.server in parts:
            raise DataError(f"{release.server} is in two of the files: nobody may count twice")
        parts[release.server] = release
    if len({(part.model, tuple(part.classes), part.bins) for part in parts.values()}) != 1:
        raise DataError("the files must be evaluations of one model in the same bins, and are not")
    for release in parts.values():
        _check(release, study, model)
    delta = study.budget.features_delta if study.budget is not None else 1e-6
    return PooledEvaluation(parts=tuple(parts.values()), delta=delta)


def verify_evaluations(
    result: str | PathLike[str], files: Sequence[str | PathLike[str]]
) -> PooledEvaluation:
    """Check evaluations of a result's model against its folder, which `verify_result` has verified.

    Parameters
    ----------
    result : path
        The folder of a result.
    files : sequence of path
        As for `check_evaluations`.

    Returns
    -------
    PooledEvaluation

    Raises
    ------
    DataError, BudgetExceeded
        As for `check_evaluations`.
    """
    folder = Path(result)
    digest = digest_of(load_model(folder / MODEL))
    return check_evaluations(Study.load(folder / STUDY), files, model=digest)


def _count_releases(release: SignedCounts) -> str:
    return "once" if len(release.spent) == 1 else f"{len(release.spent)} times"


def digest_of(model: Model) -> str:
    """By which an evaluation names its model."""
    return hashlib.sha256(model.to_bytes()).hexdigest()


def _check(release: SignedCounts, study: Study, model: str) -> None:
    """One member's, beyond its signature."""
    if model and release.model != model:
        raise DataError(f"the evaluation by {release.server} is about another model")
    _ = release.evaluation  # or it is no table
    if release.stddev not in release.spent:
        raise DataError(f"the evaluation by {release.server} does not count itself as spent")
    if study.budget is not None and not release.ledger(1e-6).keeps(study.budget):
        raise BudgetExceeded(
            f"{release.server} says it has counted these records {len(release.spent)} times, which "
            f"spends more than the study {study.id} allows"
        )


def _read(path: Path, study: Study) -> SignedCounts:
    try:
        content = read_file(path)
        release: SignedCounts = decode(content, SignedCounts)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        why = FORMAT.refusal_of(content, str(path))
        raise DataError(why or f"{path} is no evaluation of a node: {error}") from None
    if why := FORMAT.refusal(release.version, str(path)):
        raise DataError(why)
    key = study.signing_keys.get(release.server, "")
    try:
        signature = bytes.fromhex(release.signature)
    except ValueError:
        signature = b""
    if release.study != study.hash or not verify_signature(key, release.signable(), signature):
        raise DataError(f"{path} is not signed by a member of the study {study.id}, or was changed")
    return release
