"""What one server's releases amount to against the other servers (privacy.md, sections 3 to 7, 14
and 15).

Everything is an array with an entry for each *kind of person*: a label ε, and how loud a report
with it is in training. A server's line is the worst of its people's lines, and a person's own line
is an entry.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from math import sqrt
from typing import Any, TypeVar

import numpy as np

from pdml._math import keep_weight, report_weight
from pdml._types import Array
from pdml.accounting.events import (
    CountsReleased,
    EventGroups,
    IterateReleased,
    ObjectiveNoised,
    SumsReleased,
    ratios,
    root,
)
from pdml.accounting.objective_loss import LossBound, is_gaussian, objective_parts, shifts
from pdml.accounting.profiles import Values

_Record = TypeVar("_Record", "ReleaseLoss", LossBound, "ResponseLoss")
_Quadratic = tuple[Array, Array, Array]  # Σ x², Σ xy, Σ y²


@dataclass(frozen=True)
class ResponseLoss:
    """What `bounds.response_profile` needs of one record, each the μ of one Gaussian,
    and what truncation adds; with a δ of 1 where the label's part is not hidden by Gaussian noise
    once and for all, or was randomised more than once."""

    label: Values
    rest: Values
    square: Values
    rounding: Values
    edge: Values
    outside: Values
    flat: Values


@dataclass(frozen=True)
class ReleaseLoss:
    """What a server's releases amount to for each kind of person: arrays that end in one entry
    each, and begin with the rounds where they were asked for. Each `LossBound` holds by itself."""

    epsilon: Values  # of all reports of the label; infinite if it was never flipped
    classes: Values  # K of its randomised response; 2 stands for any other that is as private
    counted: Values  # μ of counts with the true label, not randomised; in no bound of a label
    theta: LossBound  # of one label, through iterate noise
    eta: LossBound  # through objective noise
    both: LossBound  # through both together
    whole: LossBound  # of one record, in every round
    once: LossBound  # its label's part through objective noise, as far as that is better
    response: ResponseLoss  # its label's part through randomised response, then noise once
    # the same releases, by the report of the label that went into them: what they tell composes
    by_report: tuple["ReleaseLoss", ...] = ()

    def after(self, rounds: int) -> "ReleaseLoss":
        """As it stands after so many rounds."""
        return _arrays(lambda values: values[rounds], self)


def release_loss(
    sent: EventGroups,
    epsilons: Values = None,
    weights: Values = 1.0,
    *,
    classes: int = 2,
    colluding: int | None = None,
    by_round: bool = False,
) -> ReleaseLoss:
    """What one server's releases amount to."""
    total, loud, sums_epsilons = _people(sent, epsilons, weights, classes)
    once = [1 for _ in (*sent.sums, *sent.counts)]
    last = max([event.t for event in sent.released] + once, default=0)
    rounds = last if by_round else 0
    indicator = np.minimum(1.0, np.arange(rounds + 1))[:, None] if by_round else np.ones((1, 1))
    sums = [_exchange(event, sums_epsilons, classes, colluding) for event in sent.sums]
    q_label, q_record, square = (
        indicator * sum((m.whole[i] for m in sums), start=np.zeros(1)) for i in range(3)
    )
    counts = indicator * _counts(sent.counts)
    spread = sqrt(2 * (1 - 1 / classes))  # a record moves q by so much more than its label can
    label, record, most = _iterates(sent.released, classes, rounds)

    def gaussian(mu2: Array) -> LossBound:
        none = np.zeros_like(mu2)
        return LossBound(root(mu2), none, none, none)

    def with_sums(bound: LossBound, mu2: Array) -> LossBound:
        return replace(bound, mu=root(bound.mu**2 + mu2))

    whole = np.minimum(_at(loud, record), most)
    losses = ReleaseLoss(
        epsilon=total,
        classes=np.asarray(2 if len(sent.flips) > 1 else classes),
        counted=root(counts),
        theta=gaussian(_at(loud, label) + q_label),
        eta=with_sums(objective_parts(sent.noised, loud), q_label),
        both=with_sums(_split(sent.noised, loud, label), q_label),
        whole=gaussian(whole + q_record + square + counts),
        once=with_sums(_split(sent.noised, loud, record, spread), q_record + square + counts),
        response=_response_loss(
            sent, loud, record[2] + counts, [m.at(indicator) for m in sums], classes
        ),
        by_report=tuple(
            release_loss(values, classes=classes, colluding=colluding)
            for values in (() if by_round else sent.by_report)
        ),
    )
    shape = losses.theta.mu.shape
    return _arrays(
        lambda values: np.broadcast_to(values, shape)[slice(None) if by_round else 0], losses
    )


def concatenate_losses(parts: Sequence[ReleaseLoss]) -> ReleaseLoss:
    """Several servers' kinds of people as one; whoever has sent less stays where it stopped."""

    def joined(*arrays: Array) -> Array:
        longest = max(len(array) for array in arrays)
        if arrays[0].ndim > 1 and any(len(array) < longest for array in arrays):
            arrays = tuple(
                np.pad(array, ((0, longest - len(array)), (0, 0)), mode="edge") for array in arrays
            )
        return np.concatenate(arrays, axis=-1)

    longest = max(len(part.by_report) for part in parts)
    return _arrays(joined, *(_with_reports(part, longest) for part in parts))


def _with_reports(part: ReleaseLoss, many: int) -> ReleaseLoss:
    """With so many reports at least, the others of which went into nothing."""
    if len(part.by_report) == many:
        return part
    nothing = release_loss(EventGroups((1.0,), (), ()), np.ones(part.epsilon.shape[-1]))
    return replace(part, by_report=(*part.by_report, *[nothing] * (many - len(part.by_report))))


def of_kinds(spent: ReleaseLoss, chosen: Values) -> ReleaseLoss:
    """Of these kinds of people only."""
    return _arrays(lambda array: array[..., chosen], spent)


def columns(*parts: ReleaseLoss) -> Array:
    """All numbers of each kind of person, one below the other."""
    collected: list[Array] = []

    def note(array: Array) -> Array:
        collected.append(array)
        return array

    for part in parts:
        _arrays(note, part)
    return np.array(collected)


def _arrays(change: Callable[..., Array], *parts: _Record) -> _Record:
    """The same change to every array of records of arrays."""
    first = parts[0]
    values: dict[str, Any] = {}
    for field in fields(first):
        arrays = [getattr(part, field.name) for part in parts]
        if isinstance(arrays[0], tuple):
            values[field.name] = tuple(
                _arrays(change, *tuple_of_parts) for tuple_of_parts in zip(*arrays, strict=True)
            )
        else:
            values[field.name] = (
                _arrays(change, *arrays) if is_dataclass(arrays[0]) else change(*arrays)
            )
    return type(first)(**values)


def _people(
    sent: EventGroups, epsilons: Values, weights: Values, classes: int
) -> tuple[Array, Array, Array | None]:
    """Of each kind of person: ε of all reports, how loud they are in rounds, and the ε that says
    how loud they are in sums (None: as loud as anybody)."""
    if epsilons is None and not sent.menu:
        return np.full(1, sent.epsilon), np.ones(1), None
    if epsilons is None:
        epsilons = np.unique(sent.menu)
        weights = keep_weight(epsilons, classes) / keep_weight(epsilons[0], classes)
    label_epsilons = np.atleast_1d(np.asarray(epsilons, dtype=float))
    loud = np.broadcast_to(np.asarray(weights, dtype=float), label_epsilons.shape)
    if len(sent.flips) > 1:  # with which ε they made the others is not known: as loud as can be
        return _repeated(sent.flips, label_epsilons), np.ones_like(label_epsilons), None
    return label_epsilons, loud, label_epsilons


def _repeated(flips: Sequence[float], epsilons: Array) -> Array:
    """ε_j and the largest ε of every other report. Which of the reports ε_j belongs to is not
    known: of those that it can, the one with the smallest, so that the others are largest."""
    ordered = np.sort(flips)
    positions = np.searchsorted(ordered, epsilons)  # the first not below ε_j; none: all are others
    others = [np.delete(ordered, position).sum() for position in range(len(ordered))]
    return np.asarray(epsilons + np.array([*others, ordered.sum()])[positions])


def _iterates(
    events: Sequence[IterateReleased], classes: int, rounds: int
) -> tuple[_Quadratic, _Quadratic, Array]:
    """What iterates tell, in units of their noise: of the loudest label (its own part, and what is
    the same for every label), of the loudest record (its label's part, and the rest), and all of
    the record's at once. T adaptive Gaussian releases equal one, with μ² = Σ (D/σ_t)².

    A record moves the gradient by (code·x - slope of g)/m. For two classes the parts of label and
    of g add up. For K > 2, with codes κ(e_y - 1/K) + 1/K and c² = 1 - 1/K, a label's part is
    √2·κx, a record's 2cκx, that of g 2cx, and all at once (softmax on another class)
    2x√(c²(1 + κ²) + 2κ/K), from which κ follows. For K = 2 the same formulas add up.
    """
    when = [event.t if rounds else 0 for event in events]
    noise = np.array([event.stddev for event in events])
    moved = np.array([event.label_sensitivity for event in events])
    both = np.array([event.record_sensitivity for event in events])
    slack = [e.label_sensitivity if e.solver_slack is None else e.solver_slack for e in events]
    fixed = np.minimum(slack, moved)
    c2, separable = 1 - 1 / classes, moved > fixed
    with np.errstate(invalid="ignore", over="ignore"):
        label = np.where(separable, moved - fixed, 0.0)
        ratio = np.where(separable, (both - fixed) / np.where(separable, label, 1.0), 0.0)
        inside = np.maximum(0.0, 1 / classes**2 + c2 * (ratio**2 / 2 - c2))
        inverse = np.maximum(0.0, np.sqrt(inside) - 1 / classes) / c2  # 1/κ
        curved = sqrt(2 * c2) * label * inverse + fixed
    rest = np.where(separable & (ratio > 0), curved, both)
    label_ratio, still, record = ratios(label, noise), ratios(fixed, noise), ratios(both, noise)
    part, left = sqrt(2 * c2) * label_ratio, ratios(rest, noise)

    def summed_up(products: Array) -> Array:
        by_round = (
            np.bincount(when, products, rounds + 1) if len(products) else np.zeros(rounds + 1)
        )
        return np.asarray(np.cumsum(by_round)[:, None], dtype=float)

    def quadratic(x: Array, y: Array) -> _Quadratic:
        return summed_up(x * x), summed_up(x * y), summed_up(y * y)

    return quadratic(label_ratio, still), quadratic(part, left), summed_up(record * record)


def _at(weight: Array, sums: _Quadratic) -> Array:
    """Σ (weight·x + y)²."""
    square, product, rest = sums
    return np.asarray(weight**2 * square + 2 * weight * product + rest)


def _split(
    events: Sequence[ObjectiveNoised], loud: Array, theta: _Quadratic, spread: float = 1.0
) -> LossBound:
    """A share λ of a label's part is hidden by η, once, and the rest by θ, in every round: the best
    λ, in closed form."""
    if not is_gaussian(events):  # uniform noise hides all of it or nothing
        return objective_parts((), loud)
    label_shifts, fixed = np.array([shifts(event) for event in events]).T
    noise = np.array([event.stddev for event in events])
    label_shifts, fixed = ratios(spread * label_shifts, noise), ratios(fixed, noise)
    square, product, _ = theta
    steep = loud * (label_shifts**2).sum() + loud * square
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        best = (loud * square + product - (label_shifts * fixed).sum()) / steep
    share = np.where(steep > 0, np.clip(best, 0.0, 1.0), 1.0)
    bound = objective_parts(events, share * spread * loud)
    return replace(bound, mu=root(bound.mu**2 + _at((1 - share) * loud, theta)))


def _response_loss(
    sent: EventGroups, loud: Array, rest: Array, sums: Sequence["_Moved"], classes: int
) -> ResponseLoss:
    """All trainings and exchanges share one response, and the squares of each μ add."""
    hidden = is_gaussian(sent.noised) or not sent.released
    unprotected = classes > 2 or len(sent.flips) > 1 or not hidden
    eta = objective_parts(sent.noised, loud)
    moved = list(sums)
    for event in sent.noised if hidden else ():
        label_shift, fixed = (
            ratios(np.asarray(shift), np.asarray(event.stddev)) for shift in shifts(event)
        )
        moved.append(_Moved(event.encoding, (loud * label_shift) ** 2, np.zeros(1), fixed**2))
    label, square, others = _combine_angles(moved)
    return ResponseLoss(
        label=root(label),
        rest=root(rest + others),
        square=root(square),
        rounding=root(sum((release.rounding for release in moved), start=np.zeros(1))),
        edge=2 * eta.edge,  # a part of one mixture may miss either of the other's
        outside=eta.outside,
        flat=np.asarray(float(unprotected)),
    )


def _combine_angles(moved: Sequence["_Moved"]) -> tuple[Array, Array, Array]:
    """μ² of a label in all of Q and η, the part of all τ² of S that follows the one angle between
    two records in them, and the part that need not (privacy.md, section 13, vi).

    Each encoding has an angle of its own. With p_i = μ_i²/μ² the one of all has the cosine
    c = Σ p_i c_i, and as Σ p_i c_i² >= c², for τ_p² = min τ_i²/p_i,

        Σ τ_i² (1 - c_i²) <= τ_p² (1 - c²) + Σ τ_i² - τ_p².
    """
    by_encoding: dict[object, tuple[Array, Array]] = {}
    for number, release in enumerate(moved):
        label, square = by_encoding.get(release.encoding or number, (np.zeros(1), np.zeros(1)))
        by_encoding[release.encoding or number] = label + release.label, square + release.square
    label = sum((part for part, _ in by_encoding.values()), start=np.zeros(1))
    square = sum((part for _, part in by_encoding.values()), start=np.zeros(1))
    follows = square
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for encoding_label, encoding_square in by_encoding.values():
            share = encoding_label / label
            follows = np.where(share > 0, np.minimum(follows, encoding_square / share), follows)
    return label, follows, np.maximum(0.0, square - follows)


def _counts(events: Sequence[CountsReleased]) -> Array:
    """μ² of all counts, the same for everybody and for a label and a record."""
    moved, noise = np.array([(event.shift, event.stddev) for event in events]).reshape(-1, 2).T
    return np.asarray((ratios(moved, noise) ** 2).sum(keepdims=True))


@dataclass(frozen=True)
class _Moved:
    """μ² of what one release moves with a randomised label: Q, or q through η, and S; without
    rounding, and of that alone. ``whole``: of a label in Q, of a record in Q and in S, rounded."""

    encoding: str
    label: Array
    square: Array
    rounding: Array
    whole: tuple[Array, ...] = ()

    def at(self, indicator: Array) -> "_Moved":
        """Where it was seen."""
        return replace(
            self,
            label=indicator * self.label,
            square=indicator * self.square,
            rounding=indicator * self.rounding,
        )


def _exchange(
    event: SumsReleased, epsilons: Array | None, classes: int, colluding: int | None
) -> _Moved:
    """What one exchange of sums moves for people with these ε (None: for the loudest).

    A total of n servers holds the noise of the n - k that do not collude (privacy.md,
    "Coalitions").
    """
    weight = loud = np.ones(1)
    if epsilons is not None:
        weights = report_weight(np.append(epsilons, event.epsilon), classes, event.epsilon)
        weight = weights[:-1] / weights[-1]
        loud = weight * keep_weight(epsilons, classes) / keep_weight(event.epsilon, classes)
    many = 1 if colluding is None else max(1, event.hidden_among - colluding)
    noise = sqrt(many) * np.array([event.label_stddev] * 2 + [event.square_stddev])
    moved = np.array([event.label_shift, event.record_shift, event.square_shift])
    fixed = np.minimum(event.fixed_shift, moved)
    personal_shifts = [
        w * shift for w, shift in zip((loud, loud, weight), moved - fixed, strict=True)
    ]
    return _Moved(
        encoding=event.encoding,
        label=ratios(personal_shifts[1], noise[1]) ** 2,
        square=ratios(personal_shifts[2], noise[2]) ** 2,
        rounding=ratios(fixed[1], noise[1]) ** 2 + ratios(fixed[2], noise[2]) ** 2,
        whole=tuple(ratios(personal_shifts[i] + fixed[i], noise[i]) ** 2 for i in range(3)),
    )
