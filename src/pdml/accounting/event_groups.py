"""One server's events by kind, and the same spending in fewer of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from pdml._types import Array
from pdml.accounting import kinds
from pdml.accounting.events import (
    AnswerFlipped,
    CountsReleased,
    Event,
    IterateReleased,
    LabelFlipped,
    ObjectiveNoised,
    SumsReleased,
)
from pdml.errors import InvalidInput

ENDLESS = 1e150  # stands for an infinite ratio: its square is still a number, and above this


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
    flips: list[LabelFlipped] = []
    by: str = kinds.DEVICES
    noised: list[ObjectiveNoised] = []
    released: list[IterateReleased] = []
    sums: list[SumsReleased] = []
    counts: list[CountsReleased] = []
    for event in events:
        match event:
            case LabelFlipped():
                if flips and (event.answers or flips[0].answers):
                    raise InvalidInput(
                        "people must report once where other answers than the label are "
                        "randomised, got several reports: what they tell together is not known"
                    )
                flips.append(event)
                by = kinds.worst_randomiser(by, event.by)
            case ObjectiveNoised():
                noised.append(event)
            case IterateReleased():
                released.append(event)
            case SumsReleased():
                sums.append(event)
            case CountsReleased():
                counts.append(event)
            case _:
                raise InvalidInput(
                    f"the ledger does not know the event {event!r}, so it cannot say what was spent"
                )
    menu = flips[0].epsilons if len(flips) == 1 and min(flips[0].epsilons, default=0) > 0 else ()
    epsilons = tuple(flip.epsilon for flip in flips)
    return EventGroups(
        epsilons,
        tuple(noised),
        tuple(released),
        tuple(sums),
        menu,
        by,
        counts=tuple(counts),
        answers=flips[0].answers if flips else (),
        in_clear=any(flip.in_clear for flip in flips) or not flips,
        by_report=() if counts else _by_report(flips, (*noised, *released, *sums)),
    )


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
