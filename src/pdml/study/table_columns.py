"""The columns of a table by a study's own words: its classes, its menu, its declared ranges."""

import numpy as np

from pdml._types import Array, IntArray
from pdml.encoding.attributes import absent_in
from pdml.encoding.encoder import Number
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms.label_flip import micro
from pdml.study.definition import Study
from pdml.tables import Table, columns


def labels_of(study: Study, table: Table, column: str) -> IntArray:
    """Class indices of a column; errors name rows, never a person's label."""
    return columns.positions(table, column, study.classes, what="the study's classes", private=True)


def epsilons_of(study: Study, table: Table, column: str) -> Array:
    """A column of epsilons, all on the menu."""
    return columns.epsilons(
        table,
        column,
        allowed=lambda epsilon: micro(epsilon) in study.epsilon_micro,
        domain=f"epsilons on the study's menu ({_menu(study)})",
    )


def same_epsilon(study: Study, table: Table, epsilon: float) -> Array:
    """One epsilon of the menu for every row."""
    if not (epsilon > 0 and micro(epsilon) in study.epsilon_micro):
        raise InvalidInput(
            f"epsilon must be on the study's menu ({_menu(study)}), got {epsilon:g}",
            setting="epsilon",
        )
    return np.full(table.n_rows, float(epsilon))


def require_in_range(study: Study, table: Table) -> None:
    """Refuse a table with numbers outside the declared ranges, which encoding would clamp."""
    for attribute in study.attributes:
        if isinstance(attribute, Number):
            gaps = absent_in(attribute, table, study.encoder.missing_values)
            with study.encoder.explaining(attribute):
                values = table.numeric(attribute.name, absent=gaps)
            outside = (values < attribute.low) | (values > attribute.high)
            if outside.any():
                row = int(np.argmax(outside))
                domain, got = (
                    f"[{attribute.low:g}, {attribute.high:g}]",
                    f"{values[row]:g} in {table.where(row)}",
                )
                count = f"{int(outside.sum()):,} of {table.n_rows:,} rows do not"
                raise DataError(
                    f"column {attribute.name!r} must lie in {domain}, got {got}: {count}, "
                    "and --clamp takes the nearest end"
                )


def _menu(study: Study) -> str:
    return ", ".join(f"{value:g}" for value in study.menu)
