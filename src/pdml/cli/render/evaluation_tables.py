"""What `pdml evaluate` and `pdml train --test` tell of how well a model predicts."""

from typing import TYPE_CHECKING

from pdml.cli.render import console

if TYPE_CHECKING:
    from pdml.pages.evaluation_text import Assessment


def show(view: "Assessment", *, further: bool = False) -> None:
    """Every figure in a line, or those beside the accuracy alone; then the confusion matrix with
    the recall of each class.
    """
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
