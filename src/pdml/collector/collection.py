"""One server's collection of reports, by name: what the commands of `pdml collect` do."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from pdml.accounting.kinds import DEVICES
from pdml.collector.intake.report_rules import collection_id, hash_id, hash_token
from pdml.collector.storage import open_store
from pdml.collector.storage.records import Totals, hour_text, require_there
from pdml.collector.storage.retention import ClockJump, keep_retention
from pdml.collector.storage.store import Machine, Store
from pdml.errors import DataError, InvalidInput
from pdml.files import write_private
from pdml.study import Study
from pdml.study.frozen_dataset import FrozenWriter, Manifest
from pdml.study.schema import trainable

_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True)
class CollectionStatus:
    """What a collection holds: totals, never a report."""

    study: Study
    server: str
    totals: Totals
    hour: int  # by the machine's clock
    clock_jump: ClockJump | None = None  # why the machine's date is not believed

    @property
    def by_epsilon(self) -> dict[str, int]:
        return self._sums(lambda epsilon, label: f"{epsilon / 1e6:g}")

    @property
    def by_reported_class(self) -> dict[str, int]:
        """Reports by the class they report, randomised."""
        return self._sums(lambda epsilon, label: self.study.classes[label])

    @property
    def frozen_at(self) -> str:
        return hour_text(self.totals.frozen_hour)

    @property
    def erased_at(self) -> str:
        return hour_text(self.totals.erased_hour)

    @property
    def now(self) -> str:
        return hour_text(self.hour)

    @property
    def latest_hour(self) -> str:
        """The latest hour at which it was used, or empty if nothing is erased by date."""
        return hour_text(self.totals.latest_hour or None)

    @property
    def retention(self) -> str:
        """When they are erased at the latest, or empty if the study does not say."""
        notice = self.study.notice
        return "" if notice is None else f"{notice.retention:%Y-%m-%dT%H:%M:%SZ}"

    def _sums(self, name: Callable[[int, int], str]) -> dict[str, int]:
        sums: dict[str, int] = {}
        for (epsilon, label), count in sorted(self.totals.tallies.items()):
            sums[name(epsilon, label)] = sums.get(name(epsilon, label), 0) + count
        return sums

    def to_dict(self) -> dict[str, Any]:
        return {
            "study": self.study.hash,
            "server": self.server,
            "state": self.totals.state,
            "reports": self.totals.reports,
            "min_records": self.study.min_records,
            "by_epsilon": self.by_epsilon,
            "by_reported_class": self.by_reported_class,
            "withdrawn": self.totals.withdrawn,
            "conflicts": self.totals.conflicts,
            "invitations": self.totals.invitations,
            "invitations_used": self.totals.invitations_used,
            "consent_version": None if self.study.consent is None else self.study.consent.version,
            "retention": self.retention or None,
            "erased_at": self.erased_at or None,
            "latest_hour": self.latest_hour or None,
            "clock_jump": None if self.clock_jump is None else str(self.clock_jump),
            "frozen_at": self.frozen_at or None,
            "digest": self.totals.digest or None,
        }


class Collection:
    """One server's collection, open until it is closed; best used by ``with``.

    Parameters
    ----------
    study : Study
        `Study.load("study.toml")`.
    server : str
        Which of its servers this is; may be left out if it has one.
    database : str
        A SQLite file or postgresql://...; by default STUDY_ID-SERVER.db.
    keys : Path, optional
        The folder of the reports' keys, by default beside the file.
    create : bool
        Make the collection if there is none: people will be asked.
    machine : Machine, optional
        Its clock, randomness and disk, where they are not this machine's.

    Raises
    ------
    UntrainableStudy
        If it would be made under a study that nobody could ever train under.
    InvalidInput
        If there is no such server or collection, or the database is another's.

    Guarantees
    ----------
    - Whoever opens a collection whose retention has ended finds it erased, unless the date is not
      believed: `clock_jump` says why, and nothing is erased, handed over or invited to then.

    Examples
    --------
    >>> with Collection(Study.load("study.toml"), "alice", create=True) as collection:
    ...     collection.status().by_epsilon
    {}
    """

    def __init__(
        self,
        study: Study,
        server: str = "",
        *,
        database: str = "",
        keys: Path | None = None,
        create: bool = False,
        machine: Machine | None = None,
    ) -> None:
        if create:
            trainable.check(study)
        if not server and len(study.servers) > 1:
            example = study.servers[0].name
            raise InvalidInput(f"the study has several servers: say which with --server {example}")
        self.study = study
        self.server = server or study.servers[0].name
        who = collection_id(study, self.server)
        self.database = database or f"{study.id}-{self.server}.db"
        self.machine = machine or Machine()
        self.store: Store = open_store(
            self.database, who, create=create, keys=keys, machine=self.machine
        )
        self.clock_jump: ClockJump | None = None
        try:
            self._keep_retention()
        except BaseException:
            self.store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *how: object) -> None:
        self.store.close()

    @property
    def url(self) -> str:
        """Where people reach the service, as the study says."""
        return self.study.server(self.server).url.rstrip("/")

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.machine.clock.now(), UTC)

    @property
    def _hour(self) -> int:
        return int(self.machine.clock.now() // 3600)

    def status(self) -> CollectionStatus:
        """What it holds now.

        Returns
        -------
        CollectionStatus
            Totals alone: no report is looked at.
        """
        return CollectionStatus(
            study=self.study,
            server=self.server,
            totals=self.store.totals(),
            hour=self._hour,
            clock_jump=self.clock_jump,
        )

    def require_clock(self) -> int | None:
        """Refuse with `ClockJump` what must wait until the date is believed, and erase what is due:
        how many, None before the end of retention."""
        erased = self._keep_retention()
        if self.clock_jump is not None and self.clock_jump.over:
            raise self.clock_jump
        return erased

    def confirm_clock(self) -> None:
        """Believe the machine's date, and erase all reports if their retention has ended by it."""
        self.store.set_latest_hour(self._hour)
        self._keep_retention()

    def _keep_retention(self) -> int | None:
        """How many were erased because their time has come; None before. A date that is not
        believed is kept in `clock_jump`."""
        self.clock_jump = None
        try:
            return keep_retention(self.study, self.store, self.machine.clock.now())
        except ClockJump as jump:
            self.clock_jump = jump
            return None

    def invite(self, count: int, file: Path) -> None:
        """Make invitations: links that work once.

        Parameters
        ----------
        count : int
            How many people.
        file : Path
            A new CSV file of token and link, for its owner alone: the only copy, because the
            store keeps hashes.

        Guarantees
        ----------
        - The file reaches the disk before the store knows the invitations; if the store refuses
          them, it does not stay.
        """
        self.require_clock()
        tokens = [self.machine.entropy(16).hex() for _ in range(count)]
        lines = "".join(f"{token},{self.url}/#t={token}\n" for token in tokens)
        if not write_private(file, f"token,link\n{lines}", first=True):
            raise InvalidInput(f"{file} exists already: it may hold other invitations")
        try:
            self.store.invite(map(hash_token, tokens))
        except BaseException:
            file.unlink(missing_ok=True)
            raise

    def withdraw(self, report: str) -> bool:
        """Erase a report but for its id, which stays refused.

        Parameters
        ----------
        report : str
            The id of its receipt.

        Returns
        -------
        bool
            False if it was withdrawn before.

        Raises
        ------
        InvalidInput
            For an unknown report or a frozen collection.
        """
        if not re.fullmatch("[0-9a-f]{32}", report):
            must = "report must be the 32 lower-case hex digits of a receipt's id"
            raise InvalidInput(f"{must}, got {report!r}")
        return self.store.withdraw(hash_id(report))

    def purge(self, *, early: bool = False, due: bool = False) -> int:
        """Erase every report, as if each had been withdrawn; nothing more is taken.

        Parameters
        ----------
        early : bool
            Also before the study's ``retention``, or without one.
        due : bool
            Before it, erase nothing instead of refusing: for timers that ask every night.

        Returns
        -------
        int
            How many were erased now; what the end of retention has erased before is not counted.

        Raises
        ------
        InvalidInput
            If the retention has not ended, unless ``early`` or ``due``, or for both of these.
        ClockJump
            If it has ended by a clock that is not believed, unless ``early``.

        Guarantees
        ----------
        - The keys of all reports, and of the totals, are destroyed: also in backups of the
          database, and in its logs, nobody can read them any more. Data sets that were exported
          before are copies that this does not reach.
        """
        if early and due:
            must = "due must be left out with early, which erases at once"
            raise InvalidInput(must, setting="due")
        if early:
            return self.store.erase(self._hour)
        erased = self.require_clock()
        if erased is None:
            if due:
                return 0
            notice = self.study.notice
            until = "the study has no retention"
            if notice is not None:
                until = f"the study keeps reports until {notice.retention:%Y-%m-%d %H:%M} UTC"
            raise InvalidInput(f"{until}: --early erases them before", setting="early")
        return erased

    def set_open(self, is_open: bool) -> None:
        """Take no more reports, at once, also in a running service; or take them again.

        Parameters
        ----------
        is_open : bool
            Whether reports are taken from now on.
        """
        self.store.set_open(is_open)

    def export(self, folder: Path, *, force_small: bool = False) -> Manifest:
        """Freeze the collection for good and write its data set for training.

        Parameters
        ----------
        folder : Path
            Must not exist.
        force_small : bool
            Also with fewer reports than the study's ``min_records``.

        Returns
        -------
        Manifest
            With the number of records and their digest; exporting again gives the same bytes.

        Raises
        ------
        UntrainableStudy
            If nobody could ever train under the study: nothing is frozen then.
        DataError
            If there are too few reports, or the database was altered since the first export.
        """
        trainable.check(self.study)
        self.require_clock()
        require_there(self.store.totals().state)
        least = 1 if force_small else self.study.min_records
        return export(self.store, folder, hour=self._hour, min_records=least)


def export(store: Store, folder: Path, *, hour: int, min_records: int) -> Manifest:
    """Freeze the collection and write it to ``folder``; again and again, always the same bytes.

    Guarantees
    ----------
    - Nothing is added or withdrawn from the moment it is frozen, which comes first.
    - Rows are in the order of the reports' random ids; ids, hours and tokens are not exported.
    - An export whose digest differs from the first one's is refused: the database was altered.
    """
    reports = store.totals().reports
    if reports < min_records:
        least = f"the study asks for at least {min_records:,}: collect more before freezing it"
        raise DataError(f"the collection holds {reports:,} reports and {least}")
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
            writer.append(matrix, np.array(labels, np.int64), np.array(epsilons, np.int64))
            done += len(rows)
        if done != totals.reports:
            counts = f"the collection counts {totals.reports:,} reports but holds {done:,}"
            raise DataError(f"{counts}: the database was altered")
        manifest = writer.finish(frozen_at=frozen)
    if not totals.digest:
        store.set_digest(manifest.digest)
    elif totals.digest != manifest.digest:
        shutil.rmtree(folder, ignore_errors=True)
        digests = f"{manifest.digest[:12]}, and had {totals.digest[:12]} when it was first exported"
        altered = "the database was altered after it was frozen"
        raise DataError(f"the data set now has digest {digests}: {altered}")
    return manifest
