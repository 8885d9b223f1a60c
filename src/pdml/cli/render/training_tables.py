"""What `pdml train people.csv` and `pdml demo` tell of a simulated training."""

from typing import TYPE_CHECKING

import numpy as np

from pdml.cli.render import console
from pdml.pages.evaluation_text import WITHOUT, Assessment
from pdml.pages.table_pages import remarks
from pdml.training.result import INSIDE

if TYPE_CHECKING:
    from pdml.model.evaluation import Evaluation
    from pdml.model.private_evaluation import CountedEvaluation
    from pdml.numerics.sums.expected_accuracy import Expectation
    from pdml.training.result import TrainingResult


SIMULATED = (
    "Simulated: one process played every party and drew the noise from a pseudo-random "
    "generator, so this run itself "
    "protected nobody; the figures say what a deployment with these settings would give away."
)


def show_training(trained: "TrainingResult", *notes: str) -> None:
    """How far the servers' models differ; the ledger, in words first; and what one must know."""
    model = trained.model
    size = float(np.linalg.norm(np.column_stack([model.coefficients, model.intercepts])))
    distance = "Largest distance between two servers' last releases (consensus)"
    if trained.consensus is not None:
        console.print_text(
            "", f"{distance}: {trained.consensus:.3g}; the model's own length is {size:.3g}."
        )
    if trained.expected is not None:
        console.print_text("", expectation(trained.expected, measured=trained.accuracy is not None))
    if trained.doubts:
        console.print_text("", *trained.doubts)
    console.print_privacy(trained.ledger.overview(trained.model.plan.get("colluding")))
    console.print_text("", *notes, *_inside(trained), *remarks(trained), SIMULATED)


def comparison_rows(trained: "TrainingResult") -> list[tuple[str, float | None]]:
    """The released model's accuracy with what to hold it against; nothing if none was measured."""
    evaluation = trained.evaluation
    if evaluation is None:
        return []
    rows: list[tuple[str, float | None]] = [("released model", evaluation.accuracy)]
    rows.append((f"majority-class baseline ({evaluation.majority_class})", evaluation.majority))
    if trained.reference_accuracy is not None:
        rows.append((WITHOUT, trained.reference_accuracy))
    return rows


def expectation(expected: "Expectation", *, measured: bool) -> str:
    """What the totals tell of their own model; where its accuracy was measured, no rival to it."""
    accuracy = expected.accuracy
    interval = f"{accuracy.low:.0%} to {accuracy.high:.0%}, an 80% interval"
    text = interval if measured else f"{accuracy.middle:.0%} ({interval})"
    return f"Accuracy to expect, by what was released alone: {text}."


def _inside(trained: "TrainingResult") -> list[str]:
    """What only whoever holds the records may know: words for the terminal, never for a file."""
    if not trained.clipped:
        return []
    bias = " (which counts the constant of every record)" if trained.intercept else ""
    usual = ", as typical ones are where inputs are declared" if trained.declared else ""
    return [
        f"{trained.clipped:,} of {trained.records:,} records were longer than the norm bound "
        f"{trained.model.norm_bound:g}{bias} and clipped to it{usual}; this count is {INSIDE}."
    ]


def show_evaluation(evaluation: "Evaluation | CountedEvaluation", *, further: bool = False) -> None:
    """Every figure in a line, or those beside the accuracy alone; then the confusion matrix with
    the recall of each class."""
    view = Assessment(evaluation=evaluation)
    facts = view.further() if further else view.facts()
    figures = [[fact.name, fact.value, fact.words] for fact in facts]
    table = console.Grid(("figure", "value", ""), figures, {"figure", ""})
    console.print_table("How well does it predict?", table, *filter(None, [view.verdict]))
    names = [name for name, _ in view.columns]
    rows = [
        [name, *cells, f"{recall} ({ends})" if ends else recall]
        for name, cells, recall, ends in view.rows()
    ]
    console.print_table("Where is it wrong?", console.Grid(names, rows), f"{view.caption}.")
