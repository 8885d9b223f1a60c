"""A released model evaluated by members: each counts its own records once, with noise, and signs
what it releases; anybody checks and adds up what all have released."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from pdml._types import IntArray, Matrix
from pdml.accounting import Ledger, LedgerRow
from pdml.accounting.events import CountsReleased
from pdml.accounting.kinds import Adversary, Data
from pdml.consortium.result_folder import MODEL, STUDY
from pdml.errors import BudgetExceeded, DataError, InvalidInput, JournalError
from pdml.files import read_file, write_private
from pdml.formats import Format, decode
from pdml.mechanisms import integer_gaussian
from pdml.mechanisms.count_release import BINS, SHIFT, Counting
from pdml.mechanisms.randomness import Secure, Source, source_named
from pdml.model.model import Model, load_model
from pdml.model.private_evaluation import CountedEvaluation, count, exact_counts, pooled
from pdml.node.crypto.signing import verify_signature
from pdml.node.protocol import wire_messages
from pdml.node.protocol.job_terms import UNITS
from pdml.node.storage.journal import Journal
from pdml.node.storage.node_dir import NodeDirectory
from pdml.simulation.table_training import labelled_rows
from pdml.study import Study
from pdml.study.frozen_dataset import open_frozen
from pdml.study.schema import trainable
from pdml.tables import Readable, Table, open_table

FORMAT = Format(name="evaluation", version=1)
_SIGNATURE = b"pdml evaluation 1\0"
_TERMS = b"pdml evaluation terms 1\0"
_DATASET = b"pdml evaluated records 1\0"
_MOST_CELLS, _MOST_RELEASES = 250_000, 10_000
_Unit = Annotated[int, Meta(ge=-(2**62), le=2**62)]  # far more than anybody's records


class SignedCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a member releases of one evaluation, signed: noisy or public things only."""

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
    counts: Annotated[list[_Unit], Meta(max_length=_MOST_CELLS)]  # of 2^-24, row by row
    # σ of every release of counts of these records by the node's journal, this one among them
    spent: Annotated[list[float], Meta(max_length=_MOST_RELEASES)]
    signature: str = ""  # of all the rest, in hex

    def signable(self) -> bytes:
        fields = msgspec.structs.asdict(msgspec.structs.replace(self, signature=""))
        return _SIGNATURE + msgspec.json.encode(fields)

    @property
    def evaluation(self) -> CountedEvaluation:
        """The figures."""
        counting = Counting(stddev=self.stddev, classes=len(self.classes), bins=self.bins)
        if len(self.counts) != int(np.prod(counting.shape)) or self.records < 1:
            raise DataError(f"{self.server} tells {len(self.counts)} counts, which is no table")
        units = np.array(self.counts, dtype=np.int64).reshape(counting.shape)
        return CountedEvaluation(
            classes=tuple(self.classes),
            records=self.records,
            counts=integer_gaussian.dequantize(units),
            counting=counting,
            source=self.source,
        )

    def ledger(self, delta: float) -> Ledger:
        """What was spent of these records by the node's journal: every evaluation on them."""
        events = tuple(CountsReleased(stddev=stddev, shift=SHIFT) for stddev in self.spent)
        return Ledger((events,), source=self.source, delta=delta, classes=len(self.classes))

    def save(self, path: str | PathLike[str]) -> None:
        """Write what was released, readable by its owner alone until the owner hands it on.

        Parameters
        ----------
        path : path
            Usually evaluation.json; one that is there is replaced.
        """
        write_private(Path(path), msgspec.json.format(msgspec.json.encode(self), indent=1))


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
        sentences = []
        for part in self.parts:
            times = "once" if len(part.spent) == 1 else f"{len(part.spent)} times"
            sentences.append(
                f"{part.server} signed for {part.records:,} records, counted {times}: epsilon "
                f"{self.row(part).epsilon:.3g} (delta {self.delta:g}) of each against everybody "
                "else."
            )
        return sentences

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


def evaluate_at_node(
    home: NodeDirectory,
    model: Model,
    table: Readable,
    *,
    label: str,
    job: str,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    bins: int = BINS,
    new_participants: bool = False,
    simulated_noise: int | None = None,
) -> SignedCounts:
    """Count how a released model does on records that this organisation held back, once, with
    noise.

    Parameters
    ----------
    home : Home
        The node's folder, `Home.open("alice")`; its process must not be running.
    model : Model
        A result of the study.
    table : Table, path or DataFrame
        Records that the node has not trained on, with their true labels.
    label : str
        The column of labels.
    job : str
        A name for this evaluation. Asked for again with the same records and settings, it gives
        what was released, and releases nothing.
    epsilon, delta : float
        What the release may tell about one record.
    bins : int
        Of the model's confidence.
    new_participants : bool
        That nobody in these records is in a data set of which the node has released something.
    simulated_noise : int, optional
        A seed, for tests: it protects nobody.

    Returns
    -------
    SignedCounts
        Signed by the node; `SignedCounts.ledger` is what its journal says of these records.

    Raises
    ------
    DataError
        If the model is of another study, or a record does not fit it.
    BudgetExceeded
        If it spends more on these records than the study allows.
    InvalidInput, JournalError
        If the node has released something about other people, or has trained on these records,
        whatever ``new_participants`` says; or the name is taken, or the node is running.

    Guarantees
    ----------
    - The release and its event are on disk, in one transaction, before anything is returned; it is
      never drawn twice.
    - These records have an account of their own in the journal, within the study's budget.
    """
    study, source = home.checked_study(), _source(simulated_noise)
    trainable.check_budget(study)
    _check_model(study, home, model)
    read = open_table(table)
    x, truth = labelled_rows(model, read, label)
    counting = Counting.within(epsilon, delta, classes=len(model.classes), bins=bins)
    dataset = _dataset(study.encoder.read(read), truth)
    terms = (study.hash, home.name, job, digest_of(model), dataset, repr(counting), source.name)
    digest = hashlib.sha256(_TERMS + msgspec.json.encode(terms)).hexdigest()
    with closing(home.journal()) as journal:
        if not _was_released(journal, home, job, digest):
            _check_people(journal, home, read, dataset, new_participants=new_participants)
            _check_account(journal, study, dataset, counting, source)
            units = counting.released(exact_counts(model, x, truth, counting), source)
            names = {"terms": digest, "server": home.name, "source": source.name}
            payload = wire_messages.encode_vector(units.reshape(1, -1), UNITS)
            journal.release(job, **names, dataset=dataset, payload=payload, events=[counting.event])
        sent = wire_messages.decode_vector(
            journal.outgoing(job, 1), (1, int(np.prod(counting.shape))), UNITS
        )
        spent = journal.spent(dataset)
    release = SignedCounts(
        study=study.hash,
        server=home.name,
        job=job,
        model=digest_of(model),
        classes=[str(name) for name in model.classes],
        records=len(truth),
        bins=bins,
        stddev=counting.stddev,
        source=source.name,
        counts=sent.ravel().tolist(),
        spent=[event.stddev for event in spent if isinstance(event, CountsReleased)],
    )
    signature = home.identity().sign(release.signable()).hex()
    return msgspec.structs.replace(release, signature=signature)


def evaluate_study(
    model: Model,
    tables: Mapping[str, Readable],
    label: str = "",
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    bins: int = BINS,
    random_state: int | None = None,
) -> CountedEvaluation:
    """What the members would release together, where one trust domain holds all their records."""
    source = _source(random_state)
    counting = Counting.within(epsilon, delta, classes=len(model.classes), bins=bins)
    test_sets = (labelled_rows(model, table, label) for table in tables.values())
    return pooled(
        [
            count(model, *rows, counting, source=source, server=server)
            for server, rows in enumerate(test_sets)
        ]
    )


def _source(seed: int | None) -> Source:
    return Secure() if seed is None else source_named("simulated", seed)


def _check_model(study: Study, home: NodeDirectory, model: Model) -> None:
    of = model.provenance.get("study_hash")
    if of not in (study.hash, *home.lineage()) or model.local:
        raise DataError(
            f"the model must be a result of the study {study.id}, got one that is not: members "
            "evaluate what they have released together"
        )


def _dataset(entries: Matrix, truth: IntArray) -> str:
    """A name for these records, whatever their order, by what the study reads of them."""
    dense = np.asarray(entries, dtype=np.float64)
    rows = [
        hashlib.sha256(row.tobytes() + bytes([0]) + str(int(code)).encode()).digest()
        for row, code in zip(dense, truth, strict=True)
    ]
    return hashlib.sha256(_DATASET + b"".join(sorted(rows))).hexdigest()


def _was_released(journal: Journal, home: NodeDirectory, job: str, digest: str) -> bool:
    """Whether this evaluation was released before; another one under its name is refused."""
    entry = journal.job(job)
    if entry is not None and (entry.terms != digest or not entry.round):
        raise JournalError(
            f"job {job} is in the journal of {home.name} with other records or settings: give "
            "the evaluation another name"
        )
    return entry is not None


def _check_people(
    journal: Journal, home: NodeDirectory, table: Table, dataset: str, *, new_participants: bool
) -> None:
    """Refuse records whose people may have spent a budget in a training: theirs counts both."""
    used = journal.released_datasets()
    apart_from = set(used) if new_participants else None
    instead = "evaluate with records of people who were held back from every training"
    if any(_holds_people(home, digest, table) for digest in used if digest != dataset):
        raise InvalidInput(
            f"{home.name} has trained on these records: the budget of these people counts the "
            "training and every evaluation, and an evaluation keeps no such account. Instead, "
            f"{instead}"
        )
    if journal.begins_fresh(dataset, apart_from):
        raise InvalidInput(
            f"{home.name} has released something about other records. Whoever is in both has one "
            "budget, which counts both, and an evaluation keeps no such account: "
            f"{instead}, and confirm with --new-participants that none of them is in those records"
        )


def _holds_people(home: NodeDirectory, digest: str, table: Table) -> bool:
    """Whether all these records are in a data set of the node, by the features that chance does not
    change: it holds as many, or most are those of one person there."""
    folder, study = home.path("data") / digest[:32], home.study()
    if not folder.is_dir():  # of an evaluation, or removed
        return False
    features = open_frozen(folder).features
    clear = study.encoder.n_features - sum(block.levels for block in study.encoder.blocks)
    if not clear:
        return False
    rows, trained = (
        Counter(row.tobytes() for row in np.asarray(matrix, dtype=np.float32)[:, :clear])
        for matrix in (study.encode_table(table), features)
    )
    alone = sum(count for row, count in rows.items() if trained[row] == 1)
    return rows <= trained and (rows == trained or 2 * alone > rows.total())


def _check_account(
    journal: Journal, study: Study, dataset: str, counting: Counting, source: Source
) -> None:
    """Refuse what these records' account cannot hold beside all that was released of them."""
    if others := journal.sources(dataset) - {source.name}:
        raise JournalError(
            f"these records were counted with {others.pop()} noise before: one ledger cannot hold "
            f"that and {source.name}"
        )
    spent = (*journal.spent(dataset), counting.event)
    assert study.budget is not None  # `trainable.check_budget` has refused the study otherwise
    Ledger((spent,), classes=counting.classes).check(study.budget)


def combine_evaluations(
    study: Study, files: Sequence[str | PathLike[str]], *, model: str = ""
) -> PooledEvaluation:
    """Check and add up what the members of a study have released of one model.

    Parameters
    ----------
    study : Study
        Whose pinned keys say who signed.
    files : sequence of path
        One for each member, as `SignedCounts.save` wrote it.
    model : str, optional
        The sha256 of the model's file; by default they must be about one model.

    Returns
    -------
    PooledEvaluation

    Raises
    ------
    DataError
        If a file is no evaluation, was changed, or is about another model or study; or if one
        member is in two.
    BudgetExceeded
        If a member says that it has spent more of its records than the study allows.

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

    Returns
    -------
    PooledEvaluation

    Raises
    ------
    DataError, BudgetExceeded
        As `combine_evaluations` does.
    """
    folder = Path(result)
    digest = digest_of(load_model(folder / MODEL))
    return combine_evaluations(Study.load(folder / STUDY), files, model=digest)


def digest_of(model: Model) -> str:
    """The sha256 of the model's file, by which an evaluation names it."""
    return hashlib.sha256(model.to_bytes()).hexdigest()


def _check(release: SignedCounts, study: Study, model: str) -> None:
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
