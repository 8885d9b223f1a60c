"""How well a model predicts records whose true labels are known, without noise: for own use."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdml._types import Array, IntArray
from pdml.errors import DataError
from pdml.mechanisms.count_release import binned
from pdml.model.model import Model

BINS = 10  # of how sure the model was
_WEAK = 100.0  # 1/ridge over all records: what the records say, not what a prior does
REFERENCE = (
    "plain logistic regression on the pooled records and true labels, without noise or flips: a "
    "simulation that no party of a deployment could run"
)


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Records in whose class the model was about equally sure."""

    records: float  # how many; with noise, not whole
    confidence: float  # how sure it was, on average
    accuracy: float  # the share of them that it got right


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How a model does on labelled records. Computed without noise: do not publish it.

    Attributes
    ----------
    classes : tuple
        The model's, in its order.
    confusion : array of shape (K, K)
        How many records of class k were predicted as class l.
    auc : float, optional
        Of more than two classes the mean of each against the rest; None with one class alone.
    log_loss : float
        The mean of -ln of the probability of the true class.
    calibration_error : float
        Expected calibration error over `reliability`.
    reliability : tuple of Bin
        How often the model was right where it was about equally sure, without empty bins.
    """

    classes: tuple[Any, ...]
    confusion: IntArray
    auc: float | None
    log_loss: float
    calibration_error: float
    reliability: tuple[Bin, ...]

    @property
    def records(self) -> int:
        """How many."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """The share that is predicted rightly."""
        return float(np.trace(self.confusion) / self.records)

    @property
    def majority(self) -> float:
        """The accuracy of the majority-class baseline: a model below it has learnt nothing."""
        return float(self.confusion.sum(axis=1).max() / self.records)

    @property
    def majority_class(self) -> Any:
        """The class that most of these records have."""
        return self.classes[int(self.confusion.sum(axis=1).argmax())]

    @property
    def recall(self) -> tuple[float | None, ...]:
        """Of the records of each class, the share that is predicted as such; None without any."""
        totals = self.confusion.sum(axis=1)
        right = np.diagonal(self.confusion)
        return tuple(float(hit / of) if of else None for hit, of in zip(right, totals, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values for JSON."""
        return plain_figures(self, self.accuracy, list(self.recall))


def plain_figures(evaluation: Any, accuracy: Any, recall: list[Any]) -> dict[str, Any]:
    """The figures of an evaluation, with or without noise, as plain values for JSON."""
    return {
        "records": evaluation.records,
        "classes": list(evaluation.classes),
        "accuracy": accuracy,
        "majority_class": evaluation.majority_class,
        "majority_accuracy": evaluation.majority,
        "recall": recall,
        "auc": evaluation.auc,
        "log_loss": evaluation.log_loss,
        "calibration_error": evaluation.calibration_error,
        "reliability": [vars(group) for group in evaluation.reliability],
        "confusion": evaluation.confusion.tolist(),
    }


def evaluate(model: Model, records: Any, truth: IntArray) -> Evaluation:
    """Measure a model on records, whatever it predicts from; ``truth``: indices of classes."""
    from sklearn import metrics  # not loaded where nothing is measured

    x = model.features(records)
    if len(x) != len(truth) or not len(truth):
        raise DataError(
            f"an evaluation needs one label for each record, got {len(truth)} labels and "
            f"{len(x)} records"
        )
    chances, predictions = model.predict_proba(x), model.choose(x)
    indices = np.arange(len(model.classes))
    bins = _reliability(chances.max(axis=1), predictions == truth, len(indices))
    return Evaluation(
        classes=model.classes,
        confusion=metrics.confusion_matrix(truth, predictions, labels=indices),
        auc=_auc(truth, chances),
        log_loss=float(metrics.log_loss(truth, chances, labels=indices)),
        calibration_error=sum_gaps(bins) / len(truth),
        reliability=bins,
    )


def sum_gaps(bins: Iterable[Bin]) -> float:
    """How far right shares lie from how sure the model was, over all records."""
    return sum(group.records * abs(group.accuracy - group.confidence) for group in bins)


def _reliability(confidence: Array, right: Array, classes: int) -> tuple[Bin, ...]:
    place = binned(confidence, classes, BINS)
    many, sure, hits = (
        np.bincount(place, weights=weights, minlength=BINS)
        for weights in (np.ones_like(confidence), confidence, right.astype(float))
    )
    return tuple(
        Bin(records=float(many[b]), confidence=sure[b] / many[b], accuracy=hits[b] / many[b])
        for b in np.flatnonzero(many)
    )


def _auc(truth: IntArray, chances: Array) -> float | None:
    """Of every class that is there, and not everywhere, against the rest."""
    from sklearn.metrics import roc_auc_score

    indicators = [np.asarray(truth == k) for k in range(chances.shape[1])]
    classes = [k for k, indicator in enumerate(indicators) if 0 < indicator.sum() < len(truth)]
    if not classes:
        return None
    if len(indicators) == 2:
        return float(roc_auc_score(indicators[1], chances[:, 1]))
    return float(np.mean([roc_auc_score(indicators[k], chances[:, k]) for k in classes]))


def reference_accuracy(
    model: Model, x: Any, truth: IntArray, tested: Any, tested_truth: IntArray
) -> float | None:
    """What the same records would have given without any protection: `REFERENCE`."""
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(truth)) < 2:
        return None
    training_rows, test_rows = (model.rows(matrix) for matrix in (x, tested))
    plain = LogisticRegression(C=_WEAK, fit_intercept=False, max_iter=1_000)
    fitted = plain.fit(training_rows, truth)
    return float(np.mean(fitted.predict(test_rows) == tested_truth))
