"""Options that are numbers of seconds."""

from math import isfinite

import typer


def finite(value: float) -> float:
    """NaN is below no bound and above none, so that a lower bound alone lets it through; and nobody
    waits for ever.
    """
    if not isfinite(value):
        raise typer.BadParameter(f"{value} is not a number of seconds.")
    return value
