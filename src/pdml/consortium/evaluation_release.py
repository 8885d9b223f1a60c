"""A released model evaluated by the members of a consortium: each counts its own records once, with
noise, in its own node's journal; what all have released can be added up by anybody.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import msgspec
import numpy as np

from pdml._types import IntArray, Matrix
from pdml.accounting import Ledger
from pdml.accounting.events import CountsReleased
from pdml.consortium.signed_counts import SignedCounts, check_evaluations, digest_of
from pdml.errors import DataError, InvalidInput, JournalError
from pdml.files import write_private
from pdml.mechanisms.count_release import BINS, Counting
from pdml.mechanisms.randomness import Secure, Source, source_named
from pdml.model.model import Model
from pdml.model.private_evaluation import CountedEvaluation, count, exact_counts, pooled
from pdml.node.protocol import wire_messages
from pdml.node.protocol.job_terms import UNITS
from pdml.node.storage.journal import Journal
from pdml.node.storage.node_dir import NodeDirectory
from pdml.simulation.table_training import labelled_rows
from pdml.study import Study
from pdml.study.frozen_dataset import open_frozen
from pdml.study.schema import trainable
from pdml.tables import Readable, Table, open_table

_DOMAIN = b"pdml evaluation terms 1\0"
_DATASET = b"pdml evaluated records 1\0"


@dataclass(frozen=True, kw_only=True)
class NodeEvaluation:
    """One member's evaluation: what it released, and what its journal says of the people."""

    signed: SignedCounts
    ledger: Ledger  # of the records that were counted, every evaluation on them included

    @property
    def evaluation(self) -> CountedEvaluation:
        """The figures."""
        return self.signed.evaluation

    def save(self, path: str | PathLike[str]) -> None:
        """Write what was released, readable by its owner alone until the owner hands it on.

        Parameters
        ----------
        path : path
            Usually evaluation.json; one that is there is replaced.
        """
        write_private(Path(path), msgspec.json.format(msgspec.json.encode(self.signed), indent=1))


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
) -> NodeEvaluation:
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
    NodeEvaluation
        Signed by the node.

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
    model_digest = digest_of(model)
    dataset = _dataset(study.encoder.encode(read), truth)
    terms = (study.hash, home.name, job, model_digest, dataset, repr(counting), source.name)
    digest = hashlib.sha256(_DOMAIN + msgspec.json.encode(terms)).hexdigest()
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
        model=model_digest,
        classes=[str(name) for name in model.classes],
        records=len(truth),
        bins=bins,
        stddev=counting.stddev,
        source=source.name,
        counts=sent.ravel().tolist(),
        spent=[event.stddev for event in spent if isinstance(event, CountsReleased)],
    )
    signature = home.identity().sign(release.signable()).hex()
    return NodeEvaluation(
        signed=msgspec.structs.replace(release, signature=signature),
        ledger=Ledger((spent,), source=source.name, delta=delta, classes=counting.classes),
    )


def combine_evaluations(study: Study, files: Sequence[str | PathLike[str]]) -> CountedEvaluation:
    """What the members of a study have released of one model, together.

    Parameters
    ----------
    study : Study
        Whose pinned keys say who signed.
    files : sequence of path
        One for each member, as `NodeEvaluation.save` wrote it.

    Returns
    -------
    CountedEvaluation
        Of all their records.

    Raises
    ------
    DataError
        If a file is no evaluation, was changed, or is about another model or study; or if one
        member is in two.
    BudgetExceeded
        If a member says that it has spent more of its records than the study allows.
    """
    return check_evaluations(study, files).evaluation


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
    """Whether every one of these records is in a data set of the node, by the features that chance
    does not change, and not merely since many people share them: it holds as many, or most are
    those of one person there.
    """
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
    assert study.budget is not None  # `check_budget_bounds` has refused the study otherwise
    Ledger((spent,), classes=counting.classes).check(study.budget)
