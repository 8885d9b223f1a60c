"""How well a model predicts, for people: what stands beside its accuracy, with noise or without."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pdml.formatting import numbers
from pdml.mechanisms.count_release import edges
from pdml.model.private_evaluation import CountedEvaluation
from pdml.numerics.interval import LEVEL
from pdml.pages.charts.plots import AxisScale, plane_figure
from pdml.pages.charts.svg import Figure

if TYPE_CHECKING:
    from pdml.mechanisms.count_release import Counting
    from pdml.model.evaluation import Evaluation
    from pdml.model.private_evaluation import ShareEstimate

MOST_CLASSES = 12  # of a confusion matrix that people still read
WITHOUT = "without any protection (simulation)"
REFERENCE = "plain regression on all records and true labels, which no deployment could run"


@dataclass(frozen=True)
class Fact:
    """One figure: its name, what is shown, and words that say what it is."""

    name: str
    value: str
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What an evaluation shows: the context of its section, and of the tables of a terminal."""

    evaluation: "Evaluation | CountedEvaluation"
    reference: float | None = None  # accuracy of plain regression on the same records

    @property
    def noisy(self) -> bool:
        """Whether the counts have noise, so that they may be shown."""
        return self._noise is not None

    @property
    def _noise(self) -> "Counting | None":
        evaluation = self.evaluation
        return evaluation.counting if isinstance(evaluation, CountedEvaluation) else None

    @property
    def verdict(self) -> str:
        """One sentence where the model is no better than guessing; else ""."""
        accuracy = self.evaluation.accuracy
        reached = accuracy if isinstance(accuracy, float) else accuracy.high
        if reached > self.evaluation.majority:
            return ""
        return (
            "The model is no better than the majority-class baseline: predicting "
            f"{self.evaluation.majority_class} for everybody is right in "
            f"{numbers.percent(self.evaluation.majority)} of these records."
        )

    @property
    def interval(self) -> str:
        """Of the accuracy, in words; "" without noise."""
        return _interval(self.evaluation.accuracy)

    @property
    def majority(self) -> Fact:
        """What an accuracy is to be held against."""
        baseline = f"predicting {self.evaluation.majority_class} for everybody"
        about = "about " if self.noisy else ""
        return Fact(
            "Majority-class baseline", about + numbers.percent(self.evaluation.majority), baseline
        )

    def facts(self) -> Iterator[Fact]:
        """The figures in the order in which people ask for them."""
        evaluation = self.evaluation
        yield Fact("Accuracy", _share(evaluation.accuracy), self.interval)
        yield self.majority
        if self.reference is not None:
            yield Fact(WITHOUT, numbers.percent(self.reference), REFERENCE)
        yield from self.further()

    def further(self) -> Iterator[Fact]:
        """Those beside the accuracy and what it is held against."""
        evaluation = self.evaluation
        if evaluation.auc is not None:
            several = (
                ", the mean of each class against the rest" if len(evaluation.classes) > 2 else ""
            )
            binned = ", by bins of the score" if self.noisy else ""
            meaning = "the chance that the right one of two records scores higher"
            yield Fact("AUC", numbers.significant(evaluation.auc), meaning + several + binned)
        if evaluation.calibration_error is not None:
            meaning = "how far its confidence lies from how often it is right, on average"
            more = "; noise makes it larger" if self.noisy else ""
            yield Fact(
                "Calibration error", numbers.percent(evaluation.calibration_error), meaning + more
            )
        if evaluation.log_loss is not None:
            meaning = "-ln of the probability that the true class was given, on average"
            more = ", by bins" if self.noisy else ""
            yield Fact("Log loss", numbers.significant(evaluation.log_loss), meaning + more)

    @property
    def _folded(self) -> bool:
        """Whether the classes are too many for a matrix."""
        return len(self.evaluation.classes) > MOST_CLASSES

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Of the matrix: name and style."""
        predictions = (
            [] if self._folded else [f"predicted {name}" for name in self.evaluation.classes]
        )
        return [("True class", ""), *((name, "number") for name in [*predictions, "Recall"])]

    def rows(self) -> Iterator[tuple[str, list[str], str, str]]:
        """For each true class how many were called what, its recall, and that one's interval."""
        evaluation = self.evaluation
        for name, counts, recall in zip(
            evaluation.classes, evaluation.confusion, evaluation.recall, strict=True
        ):
            cells = [] if self._folded else [numbers.count(round(float(count))) for count in counts]
            placeholder = "too few to tell" if self.noisy else "no records"
            recall_text = placeholder if recall is None else _share(recall)
            yield str(name), cells, recall_text, "" if recall is None else _ends(recall)

    @property
    def caption(self) -> str:
        """Of the matrix."""
        many = numbers.count(self.evaluation.records, "record")
        if self._noise is None:
            return f"{many}: in each row those of one true class, by what the model says"
        noise = numbers.significant(self._noise.stddev * self._noise.bins**0.5)
        return (
            f"{many}: in each row about how many of one true class there are, by what the model "
            f"says; the noise of each count has the standard deviation {noise}"
        )

    def figures(self) -> Iterator[Figure]:
        """How often the model is right where it is so sure, if there is anything to see."""
        bins = self.evaluation.reliability
        if not bins:
            return
        lowest = float(edges(len(self.evaluation.classes), 1)[0])
        most = max(entry.records for entry in bins)
        summary = "; ".join(
            f"where it is about {numbers.percent(entry.confidence)} sure, "
            f"{numbers.percent(entry.accuracy)} are right"
            for entry in bins
        )
        blurred = " Noise moves every dot, the smaller the more." if self.noisy else ""
        yield plane_figure(
            [(entry.confidence, entry.accuracy, entry.records / most) for entry in bins],
            AxisScale(lowest, 1.0, write=numbers.percent_tick),
            AxisScale(0.0, 1.0, write=numbers.percent_tick),
            x="How sure the model is of its choice",
            y="Share that is right",
            name="reliability",
            heading="Does it know how sure it may be?",
            caption="On the dashed line it is right as often as it says. Below that it is "
            f"overconfident, above it too modest. Large dots are many records.{blurred}",
            words=f"Of the model's own choices: {summary}.",
        )


def _share(value: "float | ShareEstimate") -> str:
    return numbers.percent(value if isinstance(value, float) else value.value)


def _interval(value: "float | ShareEstimate") -> str:
    """In words; "" of a figure without noise."""
    ends = _ends(value)
    return f"{ends}, a {LEVEL:.0%} interval" if ends else ""


def _ends(value: "float | ShareEstimate") -> str:
    if isinstance(value, float):
        return ""
    return f"{numbers.percent(value.low)} to {numbers.percent(value.high)}"
