"""The records of a node: a frozen data set copied into its folder, or made there from a table."""

import os
import secrets
import shutil
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from pdml import frozen
from pdml._types import Array, IntArray
from pdml.accounting.provenance import ELSEWHERE, OPERATOR
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms.label_flip import flip_labels, micro
from pdml.mechanisms.randomness import LABELS, Secure
from pdml.node import holdings
from pdml.node.home import Home
from pdml.node.party import Holdings
from pdml.study import Study
from pdml.tables import Table, listed, read_table


def copy(home: Home, folder: Path, *, other_people: bool) -> Holdings:
    """Check a frozen data set and copy it into the folder."""
    held = holdings.hold(home.study(), home.name, frozen.open_frozen(folder), before=home.lineage())
    stage = home.path(f".pdml-{secrets.token_hex(8)}")
    try:
        shutil.copytree(folder, stage)
        os.chmod(stage, 0o700)
        for path in stage.iterdir():
            os.chmod(path, 0o600)
        return _adopt(home, stage, held.dataset, other_people=other_people)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def from_table(
    home: Home,
    path: Path,
    *,
    label: str,
    epsilon: float | None,
    epsilon_column: str,
    randomise: bool,
    other_people: bool,
) -> Holdings:
    """Encode a table's rows by the study, in an order that tells nothing, and freeze them in the
    folder.
    """
    study, table = home.study(), read_table(path)
    if not label or label not in table.names:
        raise DataError(
            f"--label must name a column of {path}, got {label!r}: its columns are "
            f"{listed(table.names)}"
        )
    if (epsilon is None) == (not epsilon_column):
        raise InvalidInput(
            "give one of --epsilon and --epsilon-column: every label was or will be "
            "randomised with one"
        )
    classes = _classes(study, table, label)
    epsilons = (
        np.full(table.n_rows, epsilon) if epsilon is not None else table.numeric(epsilon_column)
    )
    millionths = _on_menu(study, epsilons)
    if randomise:
        classes = flip_labels(classes, epsilons, len(study.classes), Secure().stream(LABELS))
    order = np.argsort([secrets.randbits(62) for _ in range(table.n_rows)])
    stage = home.path(f".pdml-{secrets.token_hex(8)}")
    names = {"study_hash": study.hash, "study_id": study.id, "server": home.name}
    names["randomised_by"] = OPERATOR if randomise else ELSEWHERE
    try:
        with frozen.FrozenWriter(
            stage, width=study.width, classes=len(study.classes), **names
        ) as writer:
            writer.append(
                study.encode_table(table)[order], classes[order].astype(np.int32), millionths[order]
            )
            writer.finish(frozen_at=f"{datetime.now(UTC):%Y-%m-%dT%HZ}")
        held = holdings.hold(study, home.name, frozen.open_frozen(stage))
        return _adopt(home, stage, held.dataset, other_people=other_people)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _adopt(home: Home, stage: Path, digest: str, *, other_people: bool) -> Holdings:
    """Under its digest: the name of a data set is what its budget belongs to."""
    if not other_people:
        _refuse_fresh_budget(home, digest)
    folder = home.path("data") / digest[:32]
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    if not folder.exists():
        stage.rename(folder)
    return home.save(data=f"data/{folder.name}").holdings()


def _refuse_fresh_budget(home: Home, digest: str) -> None:
    """The same people under another name would have their budget twice; only the operator can
    know.
    """
    journal = home.committed()
    if journal is None:
        return
    try:
        used = [name for name in journal.datasets() if name != digest and journal.releases(name)]
        known = digest in journal.datasets()
    finally:
        journal.close()
    if used and not known:
        raise InvalidInput(
            f"{home.name} has sent vectors about the data set {used[-1][:12]}, and a new "
            "one begins with a whole budget: say "
            "--other-people if nobody's record is in both, or else keep the old one"
        )


def _classes(study: Study, table: Table, label: str) -> IntArray:
    known = {name: i for i, name in enumerate(study.classes)}
    found = [known.get(str(value).strip(), -1) for value in table.columns[label]]
    if -1 in found:  # the row's number, never somebody's label
        raise DataError(
            f"row {found.index(-1) + 1} of column {label!r} must be one of the study's "
            f"classes {listed(study.classes)}"
        )
    return np.array(found, dtype=np.int64)


def _on_menu(study: Study, epsilons: Array) -> IntArray:
    millionths = np.array([micro(float(value)) for value in epsilons], dtype=np.int64)
    if not np.isin(millionths, study.epsilon_micro).all():
        raise DataError(
            "every epsilon must be on the study's menu: "
            f"{', '.join(f'{value:g}' for value in study.menu)}"
        )
    return millionths
