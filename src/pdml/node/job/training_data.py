"""From a frozen data set to what a node trains on."""

from collections.abc import Collection, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdml._types import Matrix
from pdml.accounting.events import LabelFlipped
from pdml.accounting.kinds import UNSAID
from pdml.errors import DataError
from pdml.numerics.admm import labels, rows
from pdml.study import Study
from pdml.study.frozen_dataset import FrozenData
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
    """The records of server ``name``, with labels de-biased by each record's own ε.

    ``before``: hashes of earlier revisions of the study, in which keys and relay alone differ;
    their data sets are its own.

    Guarantees
    ----------
    - Records of another study or server, too few records, or an ε that is not on the study's menu
      are refused.
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
    epsilons = (
        np.asarray(frozen.epsilons) / _MILLION
    )  # a division rounds to the number that was written: 0.4, not 0.39999...
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
    """Without its zeros if the study's encoding makes most of a record zero: public, so that every
    engine does the same.
    """
    most = (
        len(study.attributes) + 1
    )  # entries of an honest record that are not zero: one per answer, and the constant
    return rows.sparse(features) if 4 * most <= study.width else features
