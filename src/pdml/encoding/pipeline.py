"""`Pipeline`: how a record becomes a row of norm at most B, and the list of steps that says so.

`Pipeline.rows` takes the steps in NumPy; pandas, scikit-learn, ONNX and the browser's JavaScript
take the same list (`pdml.model.export`), and one test holds all of them to shared vectors. Every
step looks at one record and at public settings only, so it leaks nothing; what was taken from the
records themselves is a leak, and is named as one.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from pdml._types import Array, Matrix
from pdml.encoding import scaling
from pdml.encoding.attributes import Category
from pdml.encoding.encoder import Encoder
from pdml.encoding.row_steps import (
    AppendConstant,
    ClipRows,
    ReadNumbers,
    Step,
)
from pdml.errors import DataError, InvalidInput
from pdml.numerics.admm import rows
from pdml.tables import Table, as_table, quote_names

_LONG = ((2.0, 0.5), (10.0, 0.1))  # times the norm bound; the share of rows beyond it
_CHUNK = 512  # rows at a time: what is made on the way stays in cache


@dataclass(frozen=True, kw_only=True, eq=False)
class Pipeline:
    """From records to rows; a study's encoder and an estimator's declarations lead to the same
    type."""

    encoder: Encoder | None = None  # What is declared; None: rows of numbers are taken as they are
    names: tuple[str, ...] = ()  # Of the columns, where they have names
    norm_bound: float = 1.0
    intercept: bool = True
    leaks: tuple[str, ...] = ()  # What of it was taken from the records
    auto_maps: bool = False  # Whether public sizes decide on maps, once they are known
    source: str = ""  # Of what was declared, where public records tell it

    @property
    def constant(self) -> float:
        """That of a typical row, in units of the norm bound; 0 where nothing is declared."""
        return 0.0 if self.encoder is None else self.encoder.constant

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that it reads."""
        if self.encoder is None:
            return self.names
        return tuple(attribute.name for attribute in self.encoder.attributes)

    @property
    def _texts(self) -> dict[str, bool]:
        """The columns of a table that it reads, and whether each is text."""
        if self.encoder is None:
            return dict.fromkeys(self.names, False)
        return {one.name: isinstance(one, Category) for one in self.encoder.attributes}

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Of the entries of a row, where they are known; the constant has none."""
        return self.names if self.encoder is None else self.encoder.feature_names

    def read(self, records: Any) -> Matrix:
        """Records as `rows` takes them: columns of numbers, or `Encoder.numbers`.

        ``records``: a `Table`, a path of one, a DataFrame, or an array with all columns in order.
        """
        encoder, columns = self.encoder, self.columns
        table = as_table(records, self._texts)
        if table is None:
            if columns and records.shape[1] != len(columns):
                raise DataError(
                    f"the model was trained on {len(columns)} features, got {records.shape[1]}"
                )
            if encoder is None or encoder.is_numeric:
                return records
            cells = {name: np.asarray(records[:, k]) for k, name in enumerate(columns)}
            table = Table(columns=encoder.as_cells(cells), source="X")
        if not columns:
            raise DataError(
                "the model does not say which columns its features are: it was not trained on a "
                "table"
            )
        if missing := [name for name in columns if name not in table.names]:
            raise DataError(f"{table.source} lacks columns the model needs: {quote_names(missing)}")
        if encoder is None:
            return np.column_stack([table.numeric(name) for name in columns])
        return encoder.read(table)

    def rows(self, x: Matrix) -> tuple[Matrix, int]:
        """Rows as they are trained on, and how many were clipped.

        Guarantees
        ----------
        - No row is longer than the norm bound.
        - A row depends on its own record and on public settings alone, to the bit.
        """
        x, encoder = rows.as_rows(x), self.encoder
        if encoder is None:
            if self.intercept:
                x = rows.append_bias(x)
            return rows.clip(x, self.norm_bound, in_place=self.intercept)  # which has made a copy
        if sp.issparse(x):
            return self._sparse(x, encoder)
        matrix, clipped = np.empty((len(x), encoder.n_features + self.intercept), x.dtype), 0
        for start in range(0, len(x), _CHUNK):
            part = slice(start, start + _CHUNK)
            matrix[part], lengths = encoder.rows(
                x[part], constant=self.intercept, bound=self.norm_bound
            )
            clipped += int(np.count_nonzero(lengths > encoder.room))
        return matrix, clipped

    def _sparse(self, x: Matrix, encoder: Encoder) -> tuple[Matrix, int]:
        scale = encoder.scale
        if encoder.maps:
            raise InvalidInput(
                "maps must be left out for a sparse X, got one: its columns would fill in every "
                "zero",
                setting="maps",
            )
        if scale.origin.any():
            raise InvalidInput(
                "scales of a sparse X must have averages of 0: others would fill in every zero",
                setting="scales",
            )
        if (scale.low > 0).any() or (scale.high < 0).any():
            raise InvalidInput(
                "ranges of a sparse X must hold 0: others would fill in every zero",
                setting="ranges",
            )
        factor = scaling.row_factor(encoder.mass) * self.norm_bound
        matrix = x.copy()
        matrix.data = (scale.take(x.indices).apply(x.data) * factor).astype(x.dtype)
        if self.intercept:
            matrix = rows.append_bias(matrix, scaling.CONSTANT * self.norm_bound)
        return rows.clip(matrix, self.norm_bound)

    @cached_property
    def by_name(self) -> bool:
        """Whether columns are found by names of their own, not by their place."""
        if self.encoder is None:
            return False
        return not self.encoder.is_numeric or self.columns != unnamed(len(self.columns))

    def steps(self, width: int) -> tuple[Step, ...]:
        """The same, step by step; ``width``: how many numbers a record has if nothing is
        declared."""
        encoder = self.encoder
        read: Step = ReadNumbers(width=width, names=self.names)
        if encoder is None:
            constant = (AppendConstant(value=1.0),) if self.intercept else ()
            return (read, *constant, ClipRows(bound=self.norm_bound))
        read = encoder.columns if self.by_name else ReadNumbers(width=len(self.columns))
        return (read, *encoder.steps(constant=self.intercept, bound=self.norm_bound))


def unnamed(many: int) -> tuple[str, ...]:
    """x0, x1, ... as scikit-learn calls columns without names."""
    return tuple(f"x{k}" for k in range(many))


def loses_by_clipping(lengths: Array) -> bool:
    """Whether clipping undeclared rows of these lengths, in units of the norm bound, may have
    thrown away what they tell.
    """
    return any(np.count_nonzero(lengths > factor) > share * len(lengths) for factor, share in _LONG)
