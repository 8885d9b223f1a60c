"""One server's collection of reports, by name: what the commands of `pdml collect` do."""

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pdml.collector.export_dataset import export
from pdml.collector.intake.intake import hour_text
from pdml.collector.intake.report_rules import Clock, collection_id, hash_id, hash_token
from pdml.collector.storage.retention import ClockJump, keep_retention
from pdml.collector.storage.store import Store, Totals, require_there
from pdml.collector.storage.stores import open_store
from pdml.errors import InvalidInput
from pdml.files import write_private
from pdml.study import Study
from pdml.study.frozen_dataset import Manifest
from pdml.study.schema import trainable


@dataclass(frozen=True, kw_only=True)
class Status:
    """What a collection holds: totals, never a report."""

    study: Study
    server: str
    totals: Totals
    hour: int  # by the machine's clock
    clock_jump: ClockJump | None = None  # why the machine's date is not believed

    @property
    def by_epsilon(self) -> dict[str, int]:
        """Reports by the ε that people chose."""
        return self._sums(lambda epsilon, label: f"{epsilon / 1e6:g}")

    @property
    def by_reported_class(self) -> dict[str, int]:
        """Reports by what chance let through."""
        return self._sums(lambda epsilon, label: self.study.classes[label])

    @property
    def frozen_at(self) -> str:
        """The hour in which it was frozen, or ""."""
        hour = self.totals.frozen_hour
        return "" if hour is None else hour_text(hour)

    @property
    def erased_at(self) -> str:
        """The hour in which all reports were erased, or ""."""
        hour = self.totals.erased_hour
        return "" if hour is None else hour_text(hour)

    @property
    def now(self) -> str:
        """The hour by the machine's clock."""
        return hour_text(self.hour)

    @property
    def latest_hour(self) -> str:
        """The latest hour at which it was used, or "" if nothing is erased by date."""
        hour = self.totals.latest_hour
        return "" if hour == 0 else hour_text(hour)

    @property
    def retention(self) -> str:
        """When they are erased at the latest, or "" if the study does not say."""
        notice = self.study.notice
        return "" if notice is None else f"{notice.retention:%Y-%m-%dT%H:%M:%SZ}"

    def _sums(self, name: Callable[[int, int], str]) -> dict[str, int]:
        sums: dict[str, int] = {}
        for (epsilon, label), count in sorted(self.totals.tallies.items()):
            sums[name(epsilon, label)] = sums.get(name(epsilon, label), 0) + count
        return sums

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
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
        The contract, `Study.load("study.toml")`.
    server : str
        Which of its servers this is; may be left out if it has one.
    database : str
        A SQLite file or postgresql://...; by default STUDY_ID-SERVER.db.
    keys : Path, optional
        The folder of the reports' keys, by default beside the file.
    create : bool
        Make the collection if there is none: people will be asked.
    clock : callable
        Seconds since 1970.

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
    >>> with Collection(Study.load("study.toml"), "alice") as collection:  # doctest: +SKIP
    ...     print(collection.status().totals.reports)
    """

    def __init__(
        self,
        study: Study,
        server: str = "",
        *,
        database: str = "",
        keys: Path | None = None,
        create: bool = False,
        clock: Clock = time.time,
    ) -> None:
        if create:
            trainable.check(study)
        if not server and len(study.servers) > 1:
            raise InvalidInput(
                f"the study has several servers: say which with --server {study.servers[0].name}"
            )
        self.study = study
        self.server = server or study.servers[0].name
        who = collection_id(study, self.server)
        self.database = database or f"{study.id}-{self.server}.db"
        self._clock = clock
        self.store: Store = open_store(self.database, who, create=create, keys=keys)
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
        """The machine's date, in UTC."""
        return datetime.fromtimestamp(self._clock(), UTC)

    def status(self) -> Status:
        """What it holds now.

        Returns
        -------
        Status
            Totals alone: no report is looked at.
        """
        return Status(
            study=self.study,
            server=self.server,
            totals=self.store.totals(),
            hour=int(self._clock() // 3600),
            clock_jump=self.clock_jump,
        )

    def require_clock(self) -> int | None:
        """Refuse what must wait until the date is believed, and erase what is due.

        Returns
        -------
        int or None
            How many reports were erased now; None before the end of retention.

        Raises
        ------
        ClockJump
            If the retention has ended by a clock that is not believed.
        """
        erased = self._keep_retention()
        if self.clock_jump is not None and self.clock_jump.over:
            raise self.clock_jump
        return erased

    def confirm_clock(self) -> None:
        """Believe the machine's date from now on, and erase all reports if their retention has
        ended by it.
        """
        self.store.set_latest_hour(int(self._clock() // 3600))
        self._keep_retention()

    def _keep_retention(self) -> int | None:
        """How many reports were erased because their time has come; None before. A date that is
        not believed is kept for whoever must not go on by it.
        """
        self.clock_jump = None
        try:
            return keep_retention(self.study, self.store, self._clock())
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
        tokens = [secrets.token_hex(16) for _ in range(count)]
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
            raise InvalidInput(
                f"report must be the 32 lower-case hex digits of a receipt's id, got {report!r}"
            )
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
            raise InvalidInput(
                "due must be left out with early, which erases at once", setting="due"
            )
        if early:
            return self.store.erase(int(self._clock() // 3600))
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
        return export(self.store, folder, hour=int(self._clock() // 3600), min_records=least)
