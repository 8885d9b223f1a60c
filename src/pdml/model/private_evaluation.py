"""An evaluation that may be published: counts with noise (docs/guide/evaluate.md), post-processed.

The number of records is public, so noisy counts are first moved to the nearest ones with that
total: noise in n cells, of which a are added up, then has the variance a(1 - a/n)σ².
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isinf, log, sqrt
from typing import Any

import numpy as np

from pdml._math import expit
from pdml._types import Array, IntArray
from pdml.accounting import Ledger, LedgerRow
from pdml.errors import InvalidInput
from pdml.mechanisms import integer_gaussian
from pdml.mechanisms.count_release import Counting, edges
from pdml.mechanisms.randomness import Secure, Source
from pdml.model.evaluation import Bin, plain_figures, sum_gaps
from pdml.model.model import Model
from pdml.numerics.interval import LEVEL, QUANTILE

_MINIMUM_SIGNAL = 3.0  # deviations of noise, above which a bin or a class has enough records
OTHERS = "this evaluation alone, for people whom the model was not trained on"
SAME = (
    "training and this evaluation together, for people who were in both: their epsilons and deltas "
    "are added up, and other trainings and evaluations on these people must be added, too"
)


@dataclass(frozen=True, kw_only=True)
class ShareEstimate:
    """A share with its 95% interval, over the drawing of records and the noise."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class CountedEvaluation:
    """How a model does, by counts with noise: a release, which may be published.

    Attributes
    ----------
    classes : tuple
        The model's, in its order.
    records : int
        How many were counted: public.
    counts : array of shape (K, K, bins)
        By true class, chosen class and how sure the model was, with their noise.
    counting : Counting
        How much noise that is.
    source : str
        What it was drawn from; "simulated" protects nobody.
    """

    classes: tuple[Any, ...]
    records: int
    counts: Array
    counting: Counting
    source: str = Secure.name

    @cached_property
    def _adjusted_counts(self) -> Array:
        """The nearest counts with the known total."""
        return np.asarray(self.counts + (self.records - self.counts.sum()) / self.counts.size)

    @property
    def confusion(self) -> Array:
        """Estimated counts of class k predicted as class l; noise may leave some below zero."""
        return np.asarray(self._adjusted_counts.sum(axis=2))

    @property
    def accuracy(self) -> ShareEstimate:
        """The share that is predicted rightly."""
        k, every = self.counting.classes, self.counts.size
        cells = every // k
        noise = self.counting.stddev**2 * cells * (1 - cells / every)
        return _share(float(np.trace(self.confusion)), float(self.records), noise, 0.0, 0.0)

    @property
    def majority(self) -> float:
        """About what the majority-class baseline would reach."""
        return float(np.clip(self.confusion.sum(axis=1).max() / self.records, 0.0, 1.0))

    @property
    def majority_class(self) -> Any:
        """The class that seems to be the most frequent."""
        return self.classes[int(self.confusion.sum(axis=1).argmax())]

    @property
    def recall(self) -> tuple[ShareEstimate | None, ...]:
        """Of each class, the share that is predicted as such; None where noise hides the class."""
        k, cells = self.counting.classes, self.counting.bins
        variance = cells * self.counting.stddev**2  # of the right ones, and of each wrong class
        totals = self.confusion.sum(axis=1)
        pairs = zip(np.diagonal(self.confusion).tolist(), totals.tolist(), strict=True)
        return tuple(
            _share(right, total, variance, -variance, k * variance)
            if total > _MINIMUM_SIGNAL * sqrt(k * variance)
            else None
            for right, total in pairs
        )

    @property
    def reliability(self) -> tuple[Bin, ...]:
        """How often the model was right where it was about equally sure (a bin's middle stands for
        it); without bins that noise hides.
        """
        k, sigma = self.counting.classes, self.counting.stddev
        ends = edges(k, self.counting.bins)
        middle = (ends[1:] + ends[:-1]) / 2
        total = self._adjusted_counts.sum(axis=(0, 1))
        right = np.einsum("kkb->b", self._adjusted_counts)
        return tuple(
            Bin(
                records=float(many),
                confidence=float(sure),
                accuracy=float(np.clip(hits / many, 0.0, 1.0)),
            )
            for many, sure, hits in zip(total, middle, right, strict=True)
            if many > _MINIMUM_SIGNAL * k * sigma
        )

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error over `reliability`, enlarged by noise; None without bins."""
        total = sum(group.records for group in self.reliability)
        return sum_gaps(self.reliability) / total if total else None

    @property
    def log_loss(self) -> float | None:
        """About -ln of the true class's probability; wrong choices share the rest equally."""
        bins, others = self.reliability, self.counting.classes - 1
        total = sum(cell.records for cell in bins)

        def loss(group: Bin) -> float:
            wrong = (1 - group.accuracy) * log((1 - group.confidence) / others)
            return -group.records * (group.accuracy * log(group.confidence) + wrong)

        return sum(map(loss, bins)) / total if total else None

    @property
    def auc(self) -> float | None:
        """For two classes, by bins of the score: records of one bin count as equal. Else None."""
        if self.counting.classes != 2:
            return None
        # from surest of the first class to surest of the second
        scores = [np.concatenate([table[0, ::-1], table[1]]) for table in self._adjusted_counts]
        negative, positive = (np.maximum(row, 0.0) for row in scores)
        pairs = float(negative.sum() * positive.sum())
        below = np.cumsum(negative) - negative / 2
        return float(below @ positive) / pairs if pairs else None

    def ledger(self, delta: float = 1e-6) -> Ledger:
        """What this release tells of the people in it, who were in nothing else."""
        spent = ((self.counting.event,),)
        return Ledger(spent, source=self.source, delta=delta, classes=self.counting.classes)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values for JSON."""
        recall = [None if estimate is None else vars(estimate) for estimate in self.recall]
        return plain_figures(self, vars(self.accuracy), recall) | {
            "counts": self.counts.tolist(),
            "noise": self.counting.stddev,
            "interval": LEVEL,
            "noise_source": self.source,
        }


def exact_counts(model: Model, records: Any, truth: IntArray, counting: Counting) -> IntArray:
    """How a model does on records, whatever it predicts from, in numbers that must not be shown."""
    if len(model.classes) != counting.classes:
        raise InvalidInput(
            f"classes must be the model's {len(model.classes)}, got {counting.classes}",
            setting="classes",
        )
    x = model.features(records)
    return counting.exact(truth, model.choose(x), model.predict_proba(x).max(axis=1))


def count(
    model: Model,
    records: Any,
    truth: IntArray,
    counting: Counting,
    *,
    source: Source | None = None,
    server: int = 0,
) -> CountedEvaluation:
    """Count how a model does on records, with fresh noise: each call is a release."""
    noise_source = Secure() if source is None else source
    units = counting.released(exact_counts(model, records, truth, counting), noise_source, server)
    return CountedEvaluation(
        classes=model.classes,
        records=len(truth),
        counts=integer_gaussian.dequantize(units),
        counting=counting,
        source=noise_source.name,
    )


def pooled(parts: Sequence[CountedEvaluation]) -> CountedEvaluation:
    """What several holders of records have counted of one model, added up."""
    if not parts or len({(part.classes, part.counting.bins) for part in parts}) > 1:
        raise InvalidInput("parts must be evaluations of the same classes, in the same bins")
    first = parts[0]
    noise = sqrt(sum(part.counting.stddev**2 for part in parts))
    simulated = [part.source for part in parts if part.source != Secure.name]
    return replace(
        first,
        records=sum(part.records for part in parts),
        counts=np.sum([part.counts for part in parts], axis=0),
        counting=replace(first.counting, stddev=noise),
        source=simulated[0] if simulated else Secure.name,
    )


def privacy_charge(
    model: Model, evaluation: CountedEvaluation, *, same_people: bool, delta: float = 1e-6
) -> dict[str, Any]:
    """Who can learn what about the people who were counted, as a model's ``privacy`` tells it.

    Parameters
    ----------
    model : Model
        Whose ``privacy`` holds what its training spent.
    evaluation : CountedEvaluation
        What was released.
    same_people : bool
        Whether they were trained on, too.
    delta : float
        Of the evaluation.

    Returns
    -------
    dict
        ``rows``, and in ``counted`` what they count: the evaluation, or its sum with the training.
    """
    ledger = evaluation.ledger(delta).rows()
    if same_people:
        training = {(row.data, row.adversary): row for row in model.ledger_rows()}
        ledger = [_sum(training[row.data, row.adversary], row) for row in ledger]
    return {
        "source": evaluation.source,
        "delta": max(row.delta for row in ledger),
        "rows": [row.to_dict() for row in ledger],
        "counted": SAME if same_people else OTHERS,
    }


def _sum(training: LedgerRow, evaluation: LedgerRow) -> LedgerRow:
    """Both together: of a training only ε, δ and log odds remain, each of which can be added."""
    if isinf(evaluation.epsilon):
        return evaluation
    sure = (training.certainty, evaluation.certainty)
    odds = [log(certainty / (1 - certainty)) if certainty < 1 else inf for certainty in sure]
    return replace(
        evaluation,
        epsilon=training.epsilon + evaluation.epsilon,
        delta=training.delta + evaluation.delta,
        certainty=float(expit(sum(odds))),
        reason=f"{training.reason}; {evaluation.reason}",
    )


def _share(hits: float, total: float, fixed: float, linear: float, square: float) -> ShareEstimate:
    """hits/total with the interval of all r for which hits - r·total is no farther from 0 than
    chance and noise of variance fixed + 2·linear·r + square·r² let it be (Wilson's, and with noise
    in both Fieller's): a quadratic in r.
    """
    z2 = QUANTILE**2
    first = total**2 + z2 * (total - square)
    second = -2 * hits * total - z2 * (total + 2 * linear)
    third = hits**2 - z2 * fixed
    inside = second**2 - 4 * first * third
    value = float(np.clip(hits / total, 0.0, 1.0))
    if first <= 0 or inside < 0:
        return ShareEstimate(value=value, low=0.0, high=1.0)
    low, high = ((-second + sign * sqrt(inside)) / (2 * first) for sign in (-1, 1))
    return ShareEstimate(
        value=value, low=min(max(low, 0.0), value), high=max(min(high, 1.0), value)
    )
