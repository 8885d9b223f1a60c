"""What is declared about X, settled once by `fit` and used by every prediction after it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdml._types import Array, Matrix
from pdml.encoding import numeric_columns
from pdml.encoding.dataframe import is_frame, refuse_gaps, table_of
from pdml.encoding.encoder import Encoder
from pdml.encoding.encoding import Encoding
from pdml.encoding.numeric_columns import NumericColumns
from pdml.numerics.admm import rows

_NUMBERS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "ensure_all_finite": "allow-nan",  # NaN is refused with words of our own
}


@dataclass(frozen=True, kw_only=True, eq=False)
class InputEncoding:
    """How records become rows: by columns of numbers with their scales, by an encoder, or as they
    are if neither is declared.
    """

    names: tuple[str, ...] = ()  # The columns of X, where they have names
    columns: NumericColumns | None = None  # Declared scales of numbers
    encoder: Encoder | None = None  # Declared attributes, of version 2
    leaks: tuple[str, ...] = ()  # What of it was taken from the records

    @classmethod
    def from_declarations(
        cls, estimator: Any, X: Any, y: Any, encoding: Encoding
    ) -> tuple["InputEncoding", Matrix, Any]:
        """The form, X as `rows` takes it, and y."""
        from sklearn.utils.validation import (  # here: tables have no need of it
            check_consistent_length,
            column_or_1d,
            validate_data,
        )

        if not encoding.needs_encoder(X):
            x, y = validate_data(estimator, X, y, **_NUMBERS)
            refuse_gaps(x)
            names = _names(estimator)
            columns, leaks = numeric_columns.resolve_columns(
                x,
                names or numeric_columns.unnamed(x.shape[1]),
                scales=encoding.scales,
                ranges=encoding.ranges,
                feature_map=encoding.maps,
            )
            form = cls(names=names, columns=columns, leaks=tuple(leaks))
            return form, rows.compact(x) if columns is None else x, y
        if is_frame(X):
            x, y = validate_data(estimator, X, y, skip_check_array=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(x, y)
        else:
            x, y = validate_data(estimator, X, y, **{**_NUMBERS, "accept_sparse": False})
        names = _names(estimator) or numeric_columns.unnamed(x.shape[1])
        encoder, leaks = encoding.encoder(x, names)
        form = cls(names=names, encoder=encoder, leaks=tuple(leaks))
        return form, form._entries(encoder, x), y

    def validate_inputs(self, estimator: Any, X: Any) -> Matrix:
        """X of a prediction, as `rows` takes it."""
        from sklearn.utils.validation import validate_data

        if self.encoder is None:
            x = validate_data(estimator, X, **_NUMBERS, reset=False)
            refuse_gaps(x)
            return x
        how = {"skip_check_array": True} if is_frame(X) else {**_NUMBERS, "accept_sparse": False}
        x = validate_data(estimator, X, **how, reset=False)
        return self._entries(self.encoder, x)

    def _entries(self, encoder: Encoder, x: Any) -> Array:
        return np.asarray(encoder.encode(table_of(x, self.names, encoder)))

    @property
    def has_declarations(self) -> bool:
        """Whether anything is."""
        return self.columns is not None or self.encoder is not None

    @property
    def constant(self) -> float:
        """That of a typical row, in units of the norm bound; 0 where nothing is declared."""
        if self.encoder is not None:
            return self.encoder.constant
        return 0.0 if self.columns is None else self.columns.constant

    def rows(self, x: Matrix, *, norm_bound: float, constant: bool) -> tuple[Matrix, int]:
        """Rows as they are trained on, and how many were shrunk."""
        return numeric_columns.prepare_rows(
            x,
            norm_bound=norm_bound,
            fit_intercept=constant,
            columns=self.columns,
            encoder=self.encoder,
        )

    def fields(self) -> dict[str, Any]:
        """What a `Model` keeps of it."""
        if self.encoder is not None:
            encoding = self.encoder.to_dict()
            return {"encoder": encoding, "feature_names": self.encoder.feature_names}
        if self.columns is not None:
            encoding = self.columns.to_dict()
            return {"inputs": encoding, "feature_names": self.columns.expansion.names}
        return {"feature_names": self.names}


def _names(estimator: Any) -> tuple[str, ...]:
    return tuple(map(str, getattr(estimator, "feature_names_in_", ())))
