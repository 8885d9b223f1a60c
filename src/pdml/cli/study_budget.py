"""The budget of a new study: by options, asked for, or proposed; and what it means."""

from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdml.cli import asking

if TYPE_CHECKING:
    from pdml.study import Study
    from pdml.study.findings import Findings

PROPOSED = 1.0  # epsilon of features
SHOWN = (0.5, 1.0, 2.0)

_FEATURES = "Budget: epsilon of features against all other servers.  [default: asked for, or 1]"
_LABELS = "Budget: epsilon of labels, if it is to be less than what devices give away."
_YES = "Take the budget that is proposed, without asking."
Features = Annotated[float | None, typer.Option(help=_FEATURES, show_default=False)]
Labels = Annotated[float | None, typer.Option(help=_LABELS, show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", help=_YES)]


def rows(features: float | None, labels: float | None, *, ask: bool) -> dict[str, Any]:
    """The table [budget]. Features always have a row: it ends whatever jobs follow one another."""
    if features is None:
        features = _ask() if ask else PROPOSED
    limits = {"features": features, "labels": labels}
    return {row: {"epsilon": epsilon} for row, epsilon in limits.items() if epsilon is not None}


def told(study: "Study") -> str:
    """What the budget of a new study lets others learn."""
    from pdml.accounting import Budget
    from pdml.cli.budget_words import sure

    epsilon, delta = (study.budget or Budget()).limit("features")
    limit = sure(epsilon, delta, of=" of somebody's answers")
    learnt = f"By its budget all other servers together, from even odds, become {limit}."
    return f"{learnt} After the first report another budget makes another study."


def _ask() -> float:
    from pdml.accounting import Budget
    from pdml.cli.budget_words import sure

    typer.echo("Budget: how much may all other servers together learn about one person's", err=True)
    typer.echo("answers, from all trainings? Starting from even odds they become", err=True)
    for epsilon in SHOWN:
        typer.echo(f"  {epsilon:<4g} {sure(epsilon, Budget().features_delta)}", err=True)
    return float(asking.ask("Epsilon of the budget", _positive, f"{PROPOSED:g}"))


def _positive(f: "Findings", text: str) -> None:
    try:
        if 0 < float(text) < inf:
            return
    except ValueError:
        pass
    f.wrong(("epsilon",), "be a positive number", text)
