"""What `pdml train people.csv` and `pdml demo` tell of a simulated training."""

from typing import TYPE_CHECKING

import numpy as np

from pdml.cli.render import console
from pdml.formatting import numbers
from pdml.pages.evaluation_text import WITHOUT, Assessment
from pdml.pages.table_pages import measured_on, remarks, table_lead
from pdml.training.result import INSIDE

if TYPE_CHECKING:
    from pdml.model.evaluation import Evaluation
    from pdml.model.private_evaluation import CountedEvaluation
    from pdml.numerics.sums.expected_accuracy import Expectation
    from pdml.training.result import TrainingResult


SIMULATED = "Simulated in one process: this run itself protected nobody."
EXACT = "exact: do not publish"
_MOST_RECALLS = 5


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
        measured = trained.accuracy is not None
        blank = [] if measured else [""]
        console.print_text(*blank, expectation(trained.expected, measured=measured))
    if trained.doubts:
        console.print_text("", *trained.doubts)
    console.print_privacy(trained.ledger.overview(trained.model.plan.get("colluding")))
    console.print_text("", *notes, *_inside(trained), " ".join([*remarks(trained), SIMULATED]))


def show_accuracy(trained: "TrainingResult") -> None:
    """The accuracy with what to hold it against, and other figures in a sentence."""
    rows = comparison_rows(trained)
    secret = "" if trained.diagnostics else f"; {EXACT}"  # else the leak is named below
    hint = secret if rows else " (--test FILE or --test-fraction 0.2)"
    lines = [table_lead(trained), f"Accuracy: {measured_on(trained)}{hint}."]
    if trained.evaluation is None:
        console.print_text("", ("How accurate is it?", console.HEADING), *lines)
        return
    own = trained.server_accuracies or ()
    ends = [numbers.percent(end) for end in (min(own, default=0), max(own, default=0))]
    cells: list[tuple[console.Words, console.Words]] = [
        ((name, "bold"), (numbers.percent(accuracy), "bold")) for name, accuracy in rows
    ]
    cells += [("the servers' own models", " to ".join(dict.fromkeys(ends)))] if own else []
    console.print_table("How accurate is it?", console.Grid(("model", "accuracy"), cells), *lines)
    view = Assessment(evaluation=trained.evaluation)
    figures = [f"{fact.name} {fact.value}" for fact in view.further()][:2]
    recalls = [f"{name} {recall}" for name, _, recall, _ in view.rows()]
    if len(recalls) <= _MOST_RECALLS:
        figures.append(f"recall of {', '.join(recalls)}")
    console.print_text("", *filter(None, [f"{'; '.join(figures)}.", view.verdict]))


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
    if not trained.clipped or trained.declared:  # typical rows of declared columns are clipped
        return []
    bias = " (which counts the constant of every record)" if trained.intercept else ""
    return [
        f"{trained.clipped:,} of {trained.records:,} records were longer than the norm bound "
        f"{trained.model.norm_bound:g}{bias} and clipped to it; this count is {INSIDE}."
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
