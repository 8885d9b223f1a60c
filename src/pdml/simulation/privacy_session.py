"""`PrivacyLedgerSession` counts every fit of `PDMLClassifier` while it is open, as a deployment
would live through them: each person belongs to one server and reports once with each ε.
"""

import os
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from threading import RLock
from typing import Self

import numpy as np

from pdml import _validate
from pdml._types import Array, IntArray
from pdml.accounting import Budget, Ledger, Reports
from pdml.accounting.events import CountsReleased, Event, LabelFlipped, merge_iterates
from pdml.accounting.kinds import SIMULATION
from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, PARTITION, Source, Stream, source_named
from pdml.numerics.admm import rows

ELSEWHERE = (
    "a PrivacyLedgerSession counts fits in its own process, and this one runs in another: use "
    "n_jobs=1, or threads, which a session asks of joblib where no other backend is named"
)

STRANGERS = (
    "The session recognised no record of this fit, and may count the same people as others. Name "
    "them: fit(..., people=names), or STEP__people=names through a pipeline."
)

_OTHER_LABELS = 0.1  # share of known records with labels that were never seen beside their values

_open: list["PrivacyLedgerSession"] = []
_opening = RLock()
_MARK = "PDML_OPEN_SESSION"  # names a file that is there while a session is open in its process


@dataclass(frozen=True, eq=False)
class Fit:
    """One fit; arrays have an entry per record, in input order."""

    people: IntArray
    reports: Reports
    ledger: Ledger  # of this fit alone

    @property
    def released(self) -> list[tuple[Event, ...]]:
        """Of each server, without flips."""
        return [
            merge_iterates([event for event in events if not isinstance(event, LabelFlipped)])
            for events in self.ledger.events
        ]


class PrivacyLedgerSession:
    """Counts all fits on the same people while it is open.

    Parameters
    ----------
    budget : Budget, optional
        What all fits together may spend against other servers: a fit that would go past it is
        refused before it trains.
    randomness : {"simulated", "secure"}
        Of the flips.
    random_state : int, optional
        Makes flips and the partition of people reproducible, if fits follow one another.

    Attributes
    ----------
    ledger : Ledger
        What all fits together spent.
    fits : tuple of Fit
        What was counted.
    id : str
        Drawn at random: models of its fits name it, so that it can be seen whose people they share.

    Guarantees
    ----------
    - A person's label is randomised once for each ε: a second fit with the same ε sees the same
      report and costs nothing more against the person's server. Another ε is another report, and
      both count.
    - Every fit of the process, in whatever thread, counts in every open session, each with its own
      budget; a classifier tells the sum of the one opened first, whose randomness all share. joblib
      is asked for threads.
    - A fit in a process forked or started while a session is open is refused, for nobody would
      count it; so is one of an estimator that left a session for another process. Not seen is a
      new estimator in a process that was there before.
    - Two records are one person's if their values, in single precision, and their label are the
      same, the k-th of equal ones always the k-th. In a pipeline values are those before its first
      step. Behind anything else that is fitted to each fold, which changes values, pass ``people``
      to ``fit``: in every fit of a session, or in none.
    - A session counts one label: named people with another label than before are refused, and so
      are records of which many have labels that were never seen beside their values.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> with PrivacyLedgerSession() as session:
    ...     search = GridSearchCV(PDMLClassifier(), {"epsilon": [0.5, 1.0]}).fit(x, y)
    >>> session.ledger.row("features", "other servers").epsilon > 1  # all fits of all folds
    True
    """

    def __init__(
        self,
        *,
        budget: Budget | None = None,
        randomness: str = "simulated",
        random_state: int | None = None,
    ) -> None:
        if budget is not None and not isinstance(budget, Budget):
            raise InvalidInput(f"budget must be a Budget or None, got {budget!r}")
        if random_state is not None:
            _validate.integer("random_state", random_state, low=0)
        self.budget, self.id = budget, secrets.token_hex(16)
        self.fits: tuple[Fit, ...] = ()
        self.memory = SessionMemory(source_named(randomness, random_state))

    def __enter__(self) -> Self:
        from joblib import parallel_config

        with _opening:
            if self in _open:
                raise InvalidInput("this PrivacyLedgerSession is open already: open another")
            if _open:
                self._join(_open[0])
            self.process = os.getpid()
            if not (_open or _marked()):
                handle, os.environ[_MARK] = tempfile.mkstemp(prefix="pdml-session-")
                os.write(handle, str(self.process).encode())
                os.close(handle)
            _open.append(self)
        self._threads = parallel_config(backend="threading")
        self._threads.__enter__()
        return self

    def __exit__(self, *failed: object) -> None:
        with _opening:
            _open.remove(self)
            if not _open and _marked() == str(os.getpid()):
                os.unlink(os.environ.pop(_MARK))
        self._threads.__exit__(*failed)

    def __len__(self) -> int:
        return len(self.fits)

    def _join(self, outer: "PrivacyLedgerSession") -> None:
        """Share people and their reports with a session that is open."""
        if self.memory is not outer.memory and self.fits:
            raise InvalidInput(
                "a PrivacyLedgerSession that has counted fits cannot be opened again while another "
                "is open: the two know different reports of the same people"
            )
        if self.memory.source.name != outer.memory.source.name:
            raise InvalidInput(
                f"randomness must be {outer.memory.source.name!r} as in the session that is open, "
                f"got {self.memory.source.name!r}",
                setting="randomness",
            )
        self.memory = outer.memory

    def check(self, fit: Fit) -> None:
        """Refuse a fit that goes past the budget, or is of another label."""
        classes, earlier = fit.ledger.classes, [fit.ledger.classes for fit in self.fits[:1]]
        if earlier and earlier != [classes]:
            raise InvalidInput(
                f"a session counts trainings on one label, got {classes} classes after "
                f"{earlier[0]}: open another, or declare classes"
            )
        if self.budget is not None:
            combine_fits((*self.fits, fit)).check(self.budget)

    @property
    def ledger(self) -> Ledger:
        """What all fits so far spent together."""
        return self.ledger_of(None)

    def ledger_of(self, people: IntArray | None) -> Ledger:
        """The same, with rows of these people in this order; by default of all."""
        if not self.fits:
            raise InvalidInput("this session has counted no fit yet")
        return combine_fits(self.fits, people)


class SessionMemory:
    """People, their server and their labels, over all sessions that are open together."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._lock = RLock()
        self._by_name: bool | None = None  # unknown before the first fit
        # (fingerprint, which of equal ones) -> person
        self._people: dict[tuple[int, int], int] = {}
        self._labels: dict[int, set[int]] = {}  # by a person's name, or by values
        self._reports: dict[tuple[float, int], dict[int, int]] = {}  # (ε, K) -> person -> report
        self._assignments: dict[int, dict[int, int]] = {}  # n -> person -> server

    @cached_property
    def _flips(self) -> Stream:
        return self.source.stream(LABELS)

    @cached_property
    def _partition(self) -> np.random.Generator:
        return self.source.public(PARTITION)

    def recognise(
        self, prints: IntArray, keys: IntArray, labels: IntArray, *, by_name: bool
    ) -> IntArray:
        """Each record's person, new ones included."""
        with self._lock:
            if self._by_name is not None and self._by_name != by_name:
                raise InvalidInput(
                    "people must be named in every fit of a session or in none, got "
                    f"{'names after fits without' if by_name else 'none after fits with names'}: "
                    "nobody could tell who is who",
                    setting="people",
                )
            pairs = list(zip(keys.tolist(), labels.tolist(), strict=True))
            earlier = [(key, label) for key, label in pairs if key in self._labels]
            other = sum(label not in self._labels[key] for key, label in earlier)
            if other > (0 if by_name else _OTHER_LABELS * len(earlier)):
                raise InvalidInput(
                    f"a session counts trainings on one label, got {other:,} of {len(earlier):,} "
                    "records of earlier fits with another one: open a session for each label, and "
                    "add up what they tell of one person"
                    + ("" if by_name else "; or name people (people=) if these are others"),
                    setting="y",
                )
            self._by_name = by_name
            for key, label in pairs:
                self._labels.setdefault(key, set()).add(label)
            people, again = np.empty(len(prints), dtype=np.int64), dict[int, int]()
            for k, print_ in enumerate(prints.tolist()):
                which = again[print_] = again.get(print_, -1) + 1
                people[k] = self._people.setdefault((print_, which), len(self._people))
            return people

    def servers(self, people: IntArray, n_servers: int) -> IntArray | None:
        """The server of each person, the same in every fit of so many servers; None if one of them
        would be left without a record.
        """
        with self._lock:
            server_of = self._assignments.setdefault(n_servers, {})
            new = [person for person in people.tolist() if person not in server_of]
            order, cuts = rows.partition_records(len(new), n_servers, self._partition)
            for server, (a, b) in enumerate(pairwise(cuts.tolist())):
                server_of.update((new[k], server) for k in order[a:b].tolist())
            owners = np.array([server_of[person] for person in people.tolist()], dtype=np.int64)
        return owners if len(np.unique(owners)) == n_servers else None

    def randomise_labels(
        self, people: IntArray, index: IntArray, epsilons: Array, classes: int
    ) -> IntArray:
        """Each person's earlier report with the same ε, or a new one."""
        with self._lock:
            reports = np.empty(len(people), dtype=np.int64)
            for epsilon in np.unique(epsilons).tolist():
                answers = self._reports.setdefault((epsilon, classes), {})
                members = np.flatnonzero(epsilons == epsilon)
                new = np.array(
                    [k for k in members.tolist() if int(people[k]) not in answers], dtype=int
                )
                flipped = flip_labels(index[new], epsilons[new], classes, self._flips)
                answers.update(zip(people[new].tolist(), flipped.tolist(), strict=True))
                reports[members] = [answers[person] for person in people[members].tolist()]
            return reports

    def add(self, sessions: Sequence[PrivacyLedgerSession], fit: Fit) -> None:
        """Count a fit before it trains: in all sessions, or in none where one of them refuses."""
        with self._lock:
            for session in sessions:
                session.check(fit)
            for session in sessions:
                session.fits = (*session.fits, fit)


def combine_fits(fits: Sequence[Fit], people: IntArray | None = None) -> Ledger:
    """The ledger of several fits: people with the same events are one server of it."""
    everybody = np.unique(np.concatenate([fit.people for fit in fits]))
    many, n_people = 1 + int(everybody[-1]), len(everybody)
    kinds: dict[tuple[Event, ...], int] = {}
    event_kind = np.full((many, len(fits)), -1, dtype=np.int64)  # -1: not in that fit
    chosen, loud = np.full((many, len(fits)), np.nan), np.zeros(many)
    for k, fit in enumerate(fits):
        indices = [kinds.setdefault(events, len(kinds)) for events in fit.released]
        event_kind[fit.people, k] = np.array(indices)[fit.reports.servers]
        chosen[fit.people, k] = fit.reports.epsilons
        loud[fit.people] = np.maximum(loud[fit.people], fit.reports.weights)
    selection = everybody if people is None else people
    smallest = np.nanmin(chosen[selection], axis=1)
    several = smallest < np.nanmax(chosen[selection], axis=1)  # reported with more than one ε
    epsilons = np.where(several[:, None], np.nan_to_num(chosen[selection], nan=-1.0), -1.0)
    keys = np.column_stack([event_kind[selection], epsilons])
    groups, owner = np.unique(keys, axis=0, return_inverse=True)
    owner, spent = owner.ravel(), list(kinds)
    events = []
    for g, key in enumerate(groups):
        group = smallest[owner == g]
        used = np.unique(key[len(fits) :][key[len(fits) :] > 0])
        flips = [_flip(used[i : i + 1]) for i in range(len(used))] or [_flip(np.unique(group))]
        through = (
            _of_report(event, float(report))
            for kind, report in zip(key[: len(fits)], key[len(fits) :], strict=True)
            if kind >= 0
            for event in spent[int(kind)]
        )
        events.append((*flips, *through))
    ledgers, how = [fit.ledger for fit in fits], many_fits(len(fits))
    sources = {ledger.source for ledger in ledgers}
    return Ledger(
        tuple(events),
        source=sources.pop() if len(sources) == 1 else "mixed",
        delta=max(ledger.delta for ledger in ledgers),
        classes=ledgers[0].classes,
        reports=Reports(owner.astype(np.int64), smallest, loud[selection]),
        scope=f"{how} of a session on {len(selection):,} people",
        notes=(
            f"{how} of a session on {n_people:,} people are added up"
            if len(fits) > 1
            else f"one fit of a session on {n_people:,} people is counted",
            *dict.fromkeys(note for ledger in ledgers for note in ledger.notes),
        ),
    )


def _flip(epsilons: Array) -> LabelFlipped:
    return LabelFlipped(
        epsilon=float(epsilons[-1]), by=SIMULATION, epsilons=tuple(epsilons.tolist())
    )


def _of_report(event: Event, epsilon: float) -> Event:
    """The same release, of reports with this ε; below 0: the only report."""
    if epsilon < 0 or isinstance(event, LabelFlipped | CountsReleased):
        return event
    return replace(event, report_epsilon=epsilon)


def many_fits(many: int) -> str:
    return f"{many:,} fit{'' if many == 1 else 's'}"


def open_sessions() -> tuple[PrivacyLedgerSession, ...]:
    """Those that are open, in the order of opening."""
    return tuple(_open)  # without a lock, which another thread may have held when this was forked


def strangers(sessions: Sequence[PrivacyLedgerSession], people: IntArray) -> bool:
    """Whether there were earlier fits, and none of these people was in one."""
    earlier = [fit.people for fit in (sessions[0].fits if sessions else ())]
    return bool(earlier) and not np.isin(people, np.concatenate(earlier)).any()


def sessions_of_a_fit() -> tuple[PrivacyLedgerSession, ...]:
    """Those that count a fit of this process; refused in a copy of another."""
    pid, sessions = os.getpid(), open_sessions()
    copied = any(session.process != pid for session in sessions)
    if copied or _marked() not in ("", str(pid)):
        raise InvalidInput(ELSEWHERE, setting="n_jobs")
    return sessions


def _marked() -> str:
    """The process with an open session that this one is, or comes from; "" without one."""
    try:
        with open(os.environ.get(_MARK, ""), encoding="ascii") as file:
            return file.read()
    except OSError:  # it has ended
        return ""


@dataclass(frozen=True)
class CloneOrigin:
    """Where a clone was made."""

    process: int
    session: bool  # inside one

    @classmethod
    def here(cls) -> Self:
        return cls(os.getpid(), bool(open_sessions()))

    def check(self) -> None:
        """Refuse to train where the session that would count it is not."""
        if self.session and self.process != os.getpid():
            raise InvalidInput(ELSEWHERE, setting="n_jobs")
