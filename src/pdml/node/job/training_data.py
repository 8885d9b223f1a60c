"""The records of a node: a frozen data set copied into its folder, or made from a table."""

import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdml._types import Matrix
from pdml.accounting.events import LabelFlipped
from pdml.accounting.kinds import ELSEWHERE, OPERATOR, UNSAID
from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms.label_flip import flip_labels, micro
from pdml.mechanisms.randomness import LABELS, Secure
from pdml.node.storage.node_dir import NodeDirectory
from pdml.numerics.admm import labels, rows
from pdml.study import Study, frozen_dataset
from pdml.study.frozen_dataset import FrozenData
from pdml.tables import Table, quote_names
from pdml.training.server import Server

_MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """What a node trains on: its records as a `Server`, the data set's digest, and its labels."""

    server: Server
    dataset: str
    randomised_by: str = UNSAID  # who randomised the labels (`accounting.kinds`)
    apart_from: Set[str] | None = None  # data sets that nobody of this one is in, by the operator

    def flip(self) -> LabelFlipped:
        """The event that the labels went through before this node had them, or when it did."""
        return self.server.spec.flip(self.randomised_by)


def load_training_data(
    study: Study, name: str, frozen: FrozenData, *, before: Collection[str] = ()
) -> TrainingData:
    """The records of server ``name``, with labels de-biased by each record's own ε; ``before``:
    hashes of earlier revisions of the study, in which keys and relay alone differ.

    Guarantees
    ----------
    - Records of another study or server, too few records, or an ε off the study's menu are refused.
    - The sensitivity rests on the smallest ε, the labels' own guarantee on the largest.
    """
    manifest = frozen.manifest
    if manifest.study not in (study.hash, *before):
        raise DataError(
            f"the data set of {name} belongs to the study {manifest.study[:12]}..., not to "
            f"{study.hash[:12]}...: if keys alone were pinned since, pin them as a revision of "
            "that study (`pdml study add-server STUDY CARD... --revision`, then `pdml relay "
            "config`) and join with `pdml node join FOLDER STUDY --before FILE`, FILE being that "
            "study"
        )
    if manifest.server != name:
        raise DataError(f"the data set belongs to the server {manifest.server!r}, not to {name!r}")
    if (manifest.width, manifest.classes) != (study.width, len(study.classes)):
        raise DataError(
            f"the data set of {name} has {manifest.width} features and {manifest.classes} "
            "classes: another study's"
        )
    if len(frozen) < study.min_records:
        raise DataError(
            f"{name} has {len(frozen):,} records, fewer than the {study.min_records:,} with "
            "which the study lets a server train"
        )
    if not np.isin(frozen.epsilons, study.epsilon_micro).all():
        raise DataError(f"the data set of {name} holds an epsilon that is not on the study's menu")
    # A division rounds to the number that was written: 0.4, not 0.39999...
    epsilons = np.asarray(frozen.epsilons) / _MILLION
    used = np.unique(epsilons).tolist()
    spec = study.terms.server_spec(study.index(name), records=len(frozen), epsilons=used)
    matrix = _stored(study, np.array(frozen.features, dtype=np.float32))
    codes = labels.codes(np.asarray(frozen.labels), epsilons, len(study.classes))
    return TrainingData(
        server=Server(spec, matrix, codes),
        dataset=manifest.digest,
        randomised_by=manifest.randomised_by,
    )


def _stored(study: Study, features: NDArray[np.float32]) -> Matrix:
    """Without zeros if most of a record is zero: by public numbers, so that all engines do the
    same."""
    most = len(study.attributes) + 1  # nonzero: one per answer, and the constant
    return rows.sparse(features) if 4 * most <= study.width else features


def import_frozen(
    home: NodeDirectory, folder: Path, *, new_participants: bool = False
) -> TrainingData:
    """Copy a frozen data set into a node's folder, where it is what the node trains on.

    Parameters
    ----------
    home : NodeDirectory
        The node's folder, which is in a study.
    folder : Path
        As `pdml.collector.collection.Collection.export` wrote it.
    new_participants : bool
        That nobody in these records is in a data set of which this organisation has released
        something, be it from another folder; others are told so.

    Returns
    -------
    TrainingData
        What the node holds now.

    Raises
    ------
    DataError
        If it is no data set of this study and server, or too small.
    InvalidInput
        If the node has released something about other records: the same people would have their
        budget twice.
    """
    records = load_training_data(
        home.study(), home.name, frozen_dataset.open_frozen(folder), before=home.lineage()
    )
    with _stage(home) as stage:
        shutil.copytree(folder, stage)
        os.chmod(stage, 0o700)
        for path in stage.iterdir():
            os.chmod(path, 0o600)
        return _adopt(home, stage, records.dataset, new_participants=new_participants)


def import_table(
    home: NodeDirectory,
    table: Table,
    *,
    label: str,
    epsilon: float | None = None,
    epsilon_column: str = "",
    randomise: bool,
    new_participants: bool = False,
    clock: Clock = SYSTEM_CLOCK,
) -> TrainingData:
    """Encode a table's rows by the study, in random order, and freeze them in a node's folder.

    Parameters
    ----------
    home : NodeDirectory
        The node's folder, which is in a study.
    table : Table
        One row for each person, `pdml.tables.read_table("people.csv")`.
    label : str
        The column of labels.
    epsilon, epsilon_column : float, str
        The labels' ε, from the study's menu: one for all, or a column of each one's own.
    randomise : bool
        Whether the labels are true and are randomised now; else they were before.
    new_participants : bool
        As for `import_frozen`.
    clock : Clock
        Tells the hour that the data set bears.

    Returns
    -------
    TrainingData
        What the node holds now.

    Raises
    ------
    DataError
        If a row does not fit the study; it names the row, never somebody's label.
    InvalidInput
        As for `import_frozen`, and if not exactly one ε is given.

    Guarantees
    ----------
    - The order of the rows is drawn at random, and true labels are not stored if ``randomise``.
    """
    study = home.study()
    if not label or label not in table.names:
        raise DataError(
            f"label must name a column of {table.source}, got {label!r}: its columns are "
            f"{quote_names(table.names)}",
            setting="label",
        )
    if (epsilon is None) == (not epsilon_column):
        raise InvalidInput(
            "give one of --epsilon and --epsilon-column: every label was or will be "
            "randomised with one"
        )
    classes = study.read_labels(table, label)
    if epsilon is None:
        epsilons = study.read_epsilons(table, epsilon_column)
    else:
        epsilons = study.repeat_epsilon(table, epsilon)
    if study.encoder.sensitive and not randomise:
        raise InvalidInput(
            "a table with answers that the study randomises can be imported with --randomise only: "
            "which of them were randomised, and how, is not known"
        )
    millionths = np.array([micro(value) for value in epsilons.tolist()], dtype=np.int64)
    if randomise:
        classes = flip_labels(classes, epsilons, len(study.classes), Secure().stream(LABELS))
    order = np.argsort([secrets.randbits(62) for _ in range(table.n_rows)])
    names = {"study_hash": study.hash, "study_id": study.id, "server": home.name}
    names["randomised_by"] = OPERATOR if randomise else ELSEWHERE
    with _stage(home) as stage:
        with frozen_dataset.FrozenWriter(
            stage, width=study.width, classes=len(study.classes), **names
        ) as writer:
            writer.append(
                study.encode_table(table)[order], classes[order].astype(np.int32), millionths[order]
            )
            hour = datetime.fromtimestamp(clock.now(), UTC)
            writer.finish(frozen_at=f"{hour:%Y-%m-%dT%HZ}")
        records = load_training_data(study, home.name, frozen_dataset.open_frozen(stage))
        return _adopt(home, stage, records.dataset, new_participants=new_participants)


@contextmanager
def _stage(home: NodeDirectory) -> Iterator[Path]:
    """A name in the folder that is free, and is free again afterwards."""
    stage = home.path(f".pdml-{secrets.token_hex(8)}")
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _adopt(
    home: NodeDirectory, stage: Path, digest: str, *, new_participants: bool
) -> TrainingData:
    """Under its digest: the name of a data set is what its budget belongs to."""
    declared, journal = dict(home.config.new_participants), home.committed()
    if journal is None:
        declared |= {digest: ()} if new_participants else {}
    else:
        with closing(journal):
            if new_participants:
                declared[digest] = tuple(journal.released_datasets())
            datasets = declared.get(digest)
            apart_from = None if datasets is None else frozenset(datasets)
            journal.refuse_fresh_budget(home.name, digest, apart_from)
    folder = home.path("data") / digest[:32]
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    if not folder.exists():
        stage.rename(folder)
    return home.save(data=f"data/{folder.name}", new_participants=declared).load_training_data()
