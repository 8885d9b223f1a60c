"""What was released, as frozen records: mechanisms make them, the ledger reads them, and neither
knows the other. Also their JSON, and one server's events by kind.

Journals and statements keep events by name, for as long as their data sets live: once released, no
event and no field is removed or renamed, and none changes its meaning.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isclose
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec
import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.accounting import kinds
from pdml.errors import DataError, InvalidInput
from pdml.formats import decode

ENDLESS = 1e150  # stands for an infinite ratio: its square is still a number, and above this
CLOSE = 1e-9  # relative: what two computations of one number may differ by
_Kind = TypeVar("_Kind")


class AnswerFlipped(NamedTuple):
    """A part of `LabelFlipped`: one of a record's answers went through randomised response on its
    own, with at most this ε, once for all trainings."""

    name: str
    levels: int
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class LabelFlipped:
    """A server's labels went through randomised response, with at most this ε.

    ``by`` says who flipped them (`kinds.RANDOMISED_BY`). The others never saw the true labels,
    so that against them every flip counts; against the own server it counts only if that server
    never had them either. ``answers`` were randomised each on its own; ``in_clear``: the server has
    others as they are.
    """

    epsilon: float
    by: str = kinds.DEVICES
    epsilons: tuple[float, ...] = ()  # every ε in use, where it is known: whoever is worst counts
    answers: tuple[AnswerFlipped, ...] = ()
    in_clear: bool = True

    def __post_init__(self) -> None:
        _validate.choice("by", self.by, kinds.RANDOMISED_BY)


@dataclass(frozen=True, kw_only=True)
class ObjectiveNoised:
    """Server i fixed q_i - η_i/n; all that others see of its labels is a function of this one
    vector.

    ``label_shift`` bounds how far one reported label moves q_i (already divided by m_i), in
    Euclidean norm; ``fixed_shift`` is its part that is the same for every label: rounding (None:
    not known, so that all of it must count as such). ``encoding`` is as of `SumsReleased`.
    """

    kind: str
    bound: float  # R
    stddev: float  # σ of the Gaussian before truncation
    size: int  # coordinates
    n_servers: int
    label_shift: float
    fixed_shift: float | None = None
    encoding: str = ""
    report_epsilon: float = 0.0  # as of `SumsReleased`


@dataclass(frozen=True, kw_only=True)
class IterateReleased:
    """Server i sent w_i(t) + θ_i(t).

    ``label_sensitivity`` and ``record_sensitivity`` bound how far one reported label, or one whole
    record, moves w_i(t); both hold the certified tolerance of the primal solve, of which
    ``solver_slack`` is the part that no label can make smaller (None: not known, so that all of the
    label's sensitivity must count as such).
    """

    t: int
    stddev: float
    label_sensitivity: float
    record_sensitivity: float
    solver_slack: float | None = None
    report_epsilon: float = 0.0  # as of `SumsReleased`


@dataclass(frozen=True, kw_only=True)
class SumsReleased:
    """Server i sent its two sums Q_i and S_i once, each with Gaussian noise
    (docs/concepts/sums.md).

    The shifts bound how far one reported label moves Q_i, one whole record moves Q_i, and one
    record moves S_i (Frobenius norm), for people whose label has ``epsilon``, the largest that
    counts in full. Reports weigh 1/κ(min(ε, epsilon))²: somebody with a smaller ε moves Q_i less by
    κ(epsilon)/κ(ε) and S_i by its square, somebody with a larger one Q_i by κ(ε)/κ(epsilon) and S_i
    as much. ``fixed_shift`` is the part of each that is the same for everybody: rounding.
    ``encoding`` is a digest of how a person's answers became the row: two releases with the same
    one moved by the same row. "": not known, so that it counts as an encoding of its own.
    ``report_epsilon`` is the ε of the person's report that went into it, where their label was
    reported more than once. 0: not known, so that all reports count as having gone into it.
    """

    label_stddev: float  # of what this server adds to every number of Q_i
    square_stddev: float  # to S_i's diagonal; beside it a √2-th
    label_shift: float
    record_shift: float
    square_shift: float
    fixed_shift: float
    epsilon: float
    hidden_among: int = 1  # servers whose sums appear in one total only; 1: everybody's own is seen
    encoding: str = ""
    report_epsilon: float = 0.0


@dataclass(frozen=True, kw_only=True)
class CountsReleased:
    """Somebody who has records with their *true* labels released once how often a model is right on
    them: a table of counts, each with Gaussian noise (docs/guide/evaluate.md).

    ``shift`` bounds how far one record, or its label alone, moves the table in Euclidean norm. No
    device randomised these labels, and whoever counts them has them.
    """

    stddev: float  # of what is added to every count
    shift: float  # √2: one count falls by one, another rises by one


Event = LabelFlipped | ObjectiveNoised | IterateReleased | SumsReleased | CountsReleased
_KINDS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


def encode_event(event: Event) -> dict[str, Any]:
    """The fields of an event, and its kind."""
    fields = event.__dataclass_fields__  # `asdict` would copy every number
    values = {name: getattr(event, name) for name in fields}
    lists = {name: _listed(value) for name, value in values.items() if isinstance(value, tuple)}
    return {"event": type(event).__name__, **values, **lists}


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def decode_event(values: Mapping[str, Any]) -> Event:
    """The inverse of `encode_event`, for values that somebody else may have written."""
    kind = _KINDS.get(str(values.get("event")))
    fields = {name: value for name, value in values.items() if name != "event"}
    try:
        if kind is None or fields.keys() != kind.__dataclass_fields__.keys():
            raise ValueError("its kind is unknown, or its fields are others")
        event = msgspec.convert(fields, kind)
        parts = (item for value in vars(event).values() for item in _parts(value))
        numbers = [part for part in parts if isinstance(part, (int, float))]
        if not all(value >= 0 for value in numbers):
            raise ValueError("its numbers must be at least 0")
    except (ValueError, OverflowError) as error:
        raise _refused(repr(values), error) from None
    return event


def _parts(value: Any) -> list[Any]:
    nested = value if isinstance(value, tuple) else ()
    return [part for item in nested for part in _parts(item)] if nested else [value]


def dump_event(event: Event) -> str:
    """One line of JSON: floats read back exactly, and infinity is written as Infinity."""
    return json.dumps(encode_event(event), sort_keys=True)


def load_event(text: str) -> Event:
    """The inverse; an unknown event is refused, for what it released would go uncounted."""
    try:
        values = decode(text, by=json.loads)  # which reads Infinity
    except msgspec.DecodeError as error:
        raise _refused(text, error) from None
    if not isinstance(values, dict):
        raise _refused(text, "it is no table")
    return decode_event(values)


def _refused(text: str, why: object) -> DataError:
    kinds = ", ".join(_KINDS)
    return DataError(f"an event of the ledger must be one of {kinds}, got {text[:80]!r} ({why})")


def describe_difference(claims: Sequence[Event], planned: Sequence[Event]) -> str:
    """The first event that is not the planned one, in words."""
    if len(claims) != len(planned):
        return f"{len(claims)} events, the plan has {len(planned)}"
    for number, (claim, other) in enumerate(zip(claims, planned, strict=True), start=1):
        fields = encode_event(claim).values(), encode_event(other).values()  # the kind is first
        if not all(map(_close, *fields)):
            return f"event {number} is {claim}, the plan has {other}"
    return ""


def _close(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, float):
        return isclose(value, other, rel_tol=CLOSE, abs_tol=0.0)
    return bool(value == other)


@dataclass(frozen=True)
class EventGroups:
    """One server's events by kind; ``flips`` are the ε of every report of its labels, ``menu`` all
    that are in use, where labels were reported once and it is known."""

    flips: tuple[float, ...]
    noised: tuple[ObjectiveNoised, ...]
    released: tuple[IterateReleased, ...]
    sums: tuple[SumsReleased, ...] = ()
    menu: tuple[float, ...] = ()
    by: str = kinds.DEVICES  # the worst of those who flipped the labels
    counts: tuple[CountsReleased, ...] = ()
    answers: tuple[AnswerFlipped, ...] = ()  # of the record, each randomised on its own
    in_clear: bool = True  # others came as they are
    by_report: tuple["EventGroups", ...] = ()  # the same, by the report that went into each release

    @property
    def server_epsilon(self) -> float:
        """ε of a label against its own server: a flip hides nothing from whoever made it, nor from
        whoever counts true labels."""
        return inf if kinds.server_may_know_labels(self.by) or self.counts else self.epsilon

    @property
    def epsilon(self) -> float:
        """Of all reports of a label, each with fresh randomness; infinite if none was flipped."""
        return sum(self.flips) if self.flips else inf


def group_events(events: Sequence[Event]) -> EventGroups:
    """Sort the events of one server; an unknown one is refused, because its cost is."""
    for event in events:
        if not isinstance(event, Event):
            raise InvalidInput(
                f"the ledger does not know the event {event!r}, so it cannot say what was spent"
            )
    flips = _of(LabelFlipped, events)
    if len(flips) > 1 and any(flip.answers for flip in flips):
        raise InvalidInput(
            "people must report once where other answers than the label are randomised, got "
            "several reports: what they tell together is not known"
        )
    noised, released = _of(ObjectiveNoised, events), _of(IterateReleased, events)
    sums, counts = _of(SumsReleased, events), _of(CountsReleased, events)
    menu = flips[0].epsilons if len(flips) == 1 and min(flips[0].epsilons, default=0) > 0 else ()
    return EventGroups(
        flips=tuple(flip.epsilon for flip in flips),
        noised=noised,
        released=released,
        sums=sums,
        menu=menu,
        by=kinds.worst_randomiser(kinds.DEVICES, *(flip.by for flip in flips)),
        counts=counts,
        answers=flips[0].answers if flips else (),
        in_clear=any(flip.in_clear for flip in flips) or not flips,
        by_report=() if counts else _by_report(flips, (*noised, *released, *sums)),
    )


def _of(kind: type[_Kind], events: Sequence[Event]) -> tuple[_Kind, ...]:
    return tuple(event for event in events if isinstance(event, kind))


def _by_report(
    flips: Sequence[LabelFlipped],
    releases: Sequence[ObjectiveNoised | IterateReleased | SumsReleased],
) -> tuple[EventGroups, ...]:
    """One for each of several reports; none where it is not known which one went into a release."""
    reports = {flip.epsilon: flip for flip in flips}
    attributed = {release.report_epsilon for release in releases} <= set(reports)
    if not attributed or not 1 < len(reports) == len(flips):
        return ()
    return tuple(
        group_events(
            [flip, *(release for release in releases if release.report_epsilon == epsilon)]
        )
        for epsilon, flip in reports.items()
    )


def ratios(moved: Array, noise: Array) -> Array:
    """D/σ: 0 where nothing moves, endless where nothing hides it."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(moved == 0, 0.0, np.minimum(ENDLESS, moved / noise))


def root(square: Array) -> Array:
    """μ of μ²; infinite where something was endless."""
    return np.where(square > ENDLESS, inf, np.sqrt(square))


def merge_iterates(events: Sequence[Event]) -> tuple[Event, ...]:
    """The same spending in fewer events: all iterates as the one Gaussian release they equal."""
    released = group_events(events).released
    others = tuple(event for event in events if not isinstance(event, IterateReleased))
    if not released:
        return others
    noise = np.array([event.stddev for event in released])

    def together(moved: list[float]) -> float:
        terms = ratios(np.array(moved), noise)
        return float(root((terms * terms).sum()))

    slack = [e.solver_slack for e in released if e.solver_slack is not None]
    kinds = {(e.label_sensitivity, e.record_sensitivity, e.solver_slack) for e in released}
    reports = {event.report_epsilon for event in released}
    release = IterateReleased(
        t=1,
        stddev=1.0,
        label_sensitivity=together([event.label_sensitivity for event in released]),
        record_sensitivity=together([event.record_sensitivity for event in released]),
        solver_slack=together(slack) if slack and len(kinds) == 1 else None,
        report_epsilon=reports.pop() if len(reports) == 1 else 0.0,
    )
    return (*others, release)
