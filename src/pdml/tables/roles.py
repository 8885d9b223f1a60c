"""Which column of a table plays which part."""

from dataclasses import dataclass

from pdml.errors import DataError, InvalidInput
from pdml.tables.cells import quote_names
from pdml.tables.table import Table


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which column plays which part; all others are features. Empty means that no column does."""

    label: str  # The column to predict
    epsilon: str = ""  # Each person's own ε
    server: str = ""  # Which server each record belongs to
    ignored: tuple[str, ...] = ()  # Columns that are no features

    def features(self, table: Table) -> tuple[str, ...]:
        """The columns to predict from, in the table's order."""
        taken = [name for name in (self.label, self.epsilon, self.server) if name]
        if doubled := [name for name in taken if taken.count(name) > 1]:
            raise InvalidInput(
                f"column {doubled[0]!r} must play one part, got two: label, server and "
                "epsilon are different columns"
            )
        for name in (*taken, *self.ignored):
            if name not in table.names:
                raise DataError(
                    f"{table.source} has no column {name!r}: its columns are "
                    f"{quote_names(table.names)}"
                )
        if self.label in self.ignored:
            raise InvalidInput(f"column {self.label!r} must not be ignored: it is the label")
        features = tuple(name for name in table.names if name not in {*taken, *self.ignored})
        if not features:
            raise DataError(
                f"{table.source} must have a column to predict from, got none besides "
                f"{quote_names([*taken, *self.ignored])}"
            )
        return features
