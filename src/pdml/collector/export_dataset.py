"""From a collection to the frozen data set of training, a chunk at a time."""

import shutil
from pathlib import Path

import numpy as np

from pdml.accounting.provenance import DEVICES
from pdml.collector.intake.intake import hour_text
from pdml.collector.storage.store import Store
from pdml.errors import DataError
from pdml.study.frozen_dataset import FrozenWriter, Manifest

_CHUNK_BYTES = 8 << 20


def export(store: Store, folder: Path, *, hour: int, min_records: int) -> Manifest:
    """Freeze the collection and write it to ``folder``; again and again, always with the same
    bytes.

    Guarantees
    ----------
    - Nothing is added or withdrawn from the moment it is frozen, which comes first.
    - Rows are in the order of the reports' random ids; ids, hours and tokens are not exported.
    - The digest of the first export is kept: an export that differs is refused, because the
      database was altered.
    """
    reports = store.totals().reports
    if reports < min_records:
        raise DataError(
            f"the collection holds {reports:,} reports and the study asks for at least "
            f"{min_records:,}: collect more before freezing it"
        )
    who = store.collection_id
    writer = FrozenWriter(
        folder,
        width=who.width,
        classes=who.classes,
        study_hash=who.study_hash,
        study_id=who.study_id,
        server=who.server,
        randomised_by=DEVICES,
    )
    with writer:
        frozen = hour_text(store.freeze(hour))
        totals = store.totals()
        done = 0
        for rows in store.rows(max(1, _CHUNK_BYTES // (4 * who.width))):
            features, labels, epsilons = zip(*rows, strict=True)
            matrix = np.frombuffer(b"".join(features), dtype="<f4").reshape(len(rows), who.width)
            writer.append(
                matrix, np.array(labels, dtype=np.int64), np.array(epsilons, dtype=np.int64)
            )
            done += len(rows)
        if done != totals.reports:
            raise DataError(
                f"the collection counts {totals.reports:,} reports but holds {done:,}: the "
                "database was altered"
            )
        manifest = writer.finish(frozen_at=frozen)
    if not totals.digest:
        store.set_digest(manifest.digest)
    elif totals.digest != manifest.digest:
        shutil.rmtree(folder, ignore_errors=True)
        raise DataError(
            f"the data set now has digest {manifest.digest[:12]}, and had "
            f"{totals.digest[:12]} when it was first exported: "
            "the database was altered after it was frozen"
        )
    return manifest
