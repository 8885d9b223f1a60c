"""What leaves the system: a linear model with everything a reader needs to judge it, as one JSON
file.

The coefficients are a function of the servers' noisy releases (the average of the last ones, or the
model that their total tells), so the file is post-processing of what the other servers saw anyway
and spends nothing more. A model for the house is none of these: it is made of exact sums, is marked
as such, and is written for its owner alone.
"""

import json
import re
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pdml._types import Array, IntArray, Matrix
from pdml.accounting import LedgerRow
from pdml.accounting.ledger_row import merge_rows, representative_coalition_sizes
from pdml.encoding.dataframe import is_frame, table_of
from pdml.encoding.encoder import Encoder
from pdml.encoding.numeric_columns import NumericColumns, prepare_rows
from pdml.errors import DataError, InvalidInput
from pdml.files import atomic_write, read_file, write_private
from pdml.formats import Format, decode
from pdml.numerics.sums.expected_accuracy import Expectation
from pdml.tables import Table, quote_names

FORMAT = Format(name="model", version=3, oldest=1)
_TAG = "pdml-model/{}"
_VERSIONS = range(FORMAT.oldest, FORMAT.version + 1)
_NEW = {"expected": 2, "house": 2, "inputs": 3}  # a model without them is written as it was before
THIS_TRAINING = "this training alone: other trainings on the same records must be added up"


@dataclass(frozen=True, kw_only=True)
class Model:
    """A trained classifier, and everything its file says: these fields in this order are the file.

    Rows are scaled and clipped as in training, one by one, before they meet the coefficients.

    Attributes
    ----------
    classes : tuple
        Names or numbers; the second of two is the one that positive margins mean.
    coefficients : array of shape (C, d)
        C = 1 for two classes, else one row for each class.
    intercepts : array of shape (C,)
        Zero without an intercept.
    norm_bound : float
        The length to which longer rows are shrunk.
    fit_intercept : bool
        Whether a constant 1 is added to every row.
    feature_names : tuple of str
        Of the d features, where they are known.
    ranges : array of shape (d, 2), optional
        Declared ranges, which are mapped to [0, 1]: models before version 3.
    label : str, optional
        The label column's name, if the data was a table.
    encoder : dict, optional
        How a table's columns become features: `pdml.encoding.encoder.Encoder.to_dict`.
    plan, privacy, provenance : dict
        What was agreed, what was spent, and where it comes from.
    expected : Expectation, optional
        How good the model is by what was released alone, where that tells: after one exchange of
        sums. Its intervals hold the truth in 80% of trainings.
    house : str
        The server for whose own use the model was made of its exact sums: not to be shared. Empty
        for a model that was released.
    inputs : dict, optional
        How plain columns of numbers become features:
        `pdml.encoding.numeric_columns.NumericColumns.to_dict`.
    """

    classes: tuple[str | int | float | bool, ...]
    coefficients: Array
    intercepts: Array
    norm_bound: float
    fit_intercept: bool
    feature_names: tuple[str, ...] = ()
    ranges: Array | None = None
    label: str | None = None
    encoder: dict[str, Any] | None = None
    plan: dict[str, Any] = field(default_factory=dict)
    privacy: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    expected: Expectation | None = None
    house: str = ""
    inputs: dict[str, Any] | None = None

    def decision_function(self, x: Matrix) -> Array:
        """Margins: (m,) for two classes (positive means ``classes[1]``), else (m, K)."""
        weights = self.coefficients
        if self.fit_intercept:
            weights = np.hstack([weights, self.intercepts[:, None]])
        scores = np.asarray(self.rows(x) @ weights.T)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def rows(self, x: Matrix) -> Matrix:
        """Records as the weights meet them: scaled, with their constant, none longer than the norm
        bound. A table by the names of its columns, where the model knows them.
        """
        columns = self._columns
        named = self.encoder is not None or columns is not None or self.feature_names
        if named and (isinstance(x, Table) or is_frame(x)):
            x = self.features(x)
        _check_width(x, len(columns.names) if columns else self.coefficients.shape[1])
        prepared, _ = prepare_rows(
            x,
            norm_bound=self.norm_bound,
            fit_intercept=self.fit_intercept,
            ranges=self.ranges,
            columns=columns,
            encoder=self._encoder,
        )
        return prepared

    @property
    def _columns(self) -> NumericColumns | None:
        return None if self.inputs is None else NumericColumns.from_dict(self.inputs)

    @property
    def _encoder(self) -> Encoder | None:
        """From its version 2 on, which scales rows by what is declared."""
        if self.encoder is None or self.encoder.get("version", 1) == 1:
            return None
        return Encoder.from_dict(self.encoder)

    def predict_proba(self, x: Matrix) -> Array:
        """Class probabilities of the logistic model, (m, K)."""
        scores = self.decision_function(x)
        if scores.ndim == 1:
            half = np.tanh(scores / 2) / 2
            return np.column_stack([0.5 - half, 0.5 + half])
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))

    def choose(self, x: Matrix) -> IntArray:
        """The most likely class of each row, as an index into ``classes``."""
        scores = self.decision_function(x)
        return np.asarray((scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1))

    def predict(self, x: Matrix) -> NDArray[Any]:
        """The most likely class of each row."""
        return np.asarray(np.asarray(self.classes)[self.choose(x)])

    def prediction_columns(self, x: Matrix, *, proba: bool = False) -> dict[str, NDArray[Any]]:
        """The prediction of each row as a column, with ``proba`` also each class's probability."""
        columns = {"prediction": self.predict(x)}
        if proba:
            chances = self.predict_proba(x)
            columns |= {f"probability {name}": chances[:, k] for k, name in enumerate(self.classes)}
        return columns

    def save(self, path: str | Path) -> None:
        """Write the model as JSON, usually model.json; an interrupted write leaves no half file.

        Parameters
        ----------
        path : str or path
            The file; one that is there is replaced.

        Guarantees
        ----------
        - A model for the house (usually house.json) can be read by its owner alone: mode 0600.
        """
        self.write(path, self.to_bytes())

    def write(self, path: str | Path, data: bytes) -> None:
        """Write bytes that were made of the model, under the same guarantees as `save`.

        Parameters
        ----------
        path : str or path
            The file.
        data : bytes
            All that it is to hold.
        """
        if self.house:
            write_private(path, data)
        else:
            atomic_write(path, data)

    def to_bytes(self) -> bytes:
        """The file's bytes: the same for the same model, whatever writes it.

        Returns
        -------
        bytes
            JSON, with every number in the shortest spelling that reads back as it.
        """
        versions = [since for name, since in _NEW.items() if getattr(self, name)]
        version = max(1, *versions, 3 if self._encoder is not None else 1)
        values = {name: getattr(self, name) for name in _names(version)}
        text = json.dumps(
            {"format": _TAG.format(version), **values},
            indent=1,
            ensure_ascii=False,
            allow_nan=False,
            default=lambda value: (
                asdict(value) if isinstance(value, Expectation) else value.tolist()
            ),
        )
        return text.encode("utf-8")

    def to_sklearn(self) -> Any:
        """A scikit-learn pipeline that predicts the same and needs no pdml.

        Returns
        -------
        sklearn.pipeline.Pipeline
            Ready to predict, and to be pickled: `pdml.model.export.sklearn.pipeline`.
        """
        from pdml.model.export.sklearn import pipeline

        return pipeline(self)

    def to_onnx(self, path: str | Path) -> None:
        """Write the model as ONNX, for programs in any language.

        Parameters
        ----------
        path : str or path
            The file; one that is there is replaced. What it holds:
            `pdml.model.export.onnx.to_onnx`.

        Guarantees
        ----------
        - As `save` says of a model for the house.
        """
        from pdml.model.export.onnx import to_onnx

        self.write(path, to_onnx(self))

    def _repr_html_(self) -> str:
        """For notebooks."""
        from pdml.model.summary import model_html

        return model_html(self)

    def lines(self) -> list[LedgerRow]:
        """The ledger of its training: who can learn what.

        Raises
        ------
        DataError
            If ``privacy`` holds none that this version can read.
        """
        return read_ledger_rows(self.privacy)

    def coalitions(self) -> list[LedgerRow]:
        """What any k other servers learn together, for labels and features and for every k; none
        where it does not matter how many collude.

        Raises
        ------
        DataError
            If ``privacy`` holds lines that this version cannot read.
        """
        return read_ledger_rows({"coalitions": []} | self.privacy, "coalitions")

    def overview(self) -> list[LedgerRow]:
        """`lines`, and where it matters how many collude, those against one other server, half of
        them, all, and as many as the plan speaks of.

        Raises
        ------
        DataError
            As `lines` does.
        """
        coalitions, planned = self.coalitions(), self.plan.get("colluding")
        others = max((line.colluding or 0 for line in coalitions), default=0)
        also = planned if isinstance(planned, int) else None
        sizes = representative_coalition_sizes(others, also) if others else []
        return merge_rows(self.lines(), [line for line in coalitions if line.colluding in sizes])

    def features(self, table: Any) -> Matrix:
        """Records as the model was taught them: by its encoder, or as plain numbers.

        Parameters
        ----------
        table : Table, DataFrame or array
            With the columns of the training; others are passed over. Of an array all columns, in
            the order of the training.

        Raises
        ------
        DataError
            If a column is missing or holds what the model has no feature for, or if the model was
            not trained on named columns.
        """
        encoder = None if self.encoder is None else Encoder.from_dict(self.encoder)
        columns = self._columns
        column_names = columns.names if columns else self.feature_names
        needed = [a.name for a in encoder.attributes] if encoder else list(column_names)
        if not (isinstance(table, Table) or is_frame(table)):
            _check_width(table, len(needed) or self.coefficients.shape[1])
            return table if encoder is None else encoder.encode(table_of(table, needed, encoder))
        if not needed:
            raise DataError(
                f"the model does not say which columns its {self.coefficients.shape[1]} features "
                "are: it was not trained on a table"
            )
        names = table.names if isinstance(table, Table) else tuple(map(str, table.columns))
        if missing := [name for name in needed if name not in names]:
            source = table.source if isinstance(table, Table) else "X"
            raise DataError(f"{source} lacks columns the model needs: {quote_names(missing)}")
        read = table if isinstance(table, Table) else table_of(table, names, encoder, needed)
        if encoder:
            return encoder.encode(read)
        return np.column_stack([read.numeric(name) for name in needed])


def _check_width(x: Matrix, wanted: int) -> None:
    if x.shape[1] != wanted:
        raise DataError(f"the model was trained on {wanted} features, got {x.shape[1]}")


def read_ledger_rows(privacy: dict[str, Any], name: str = "lines") -> list[LedgerRow]:
    """The lines of a ledger that was written as plain values."""
    kinds: dict[str, Any] = {"data": str, "adversary": str, "reason": str}
    kinds |= {"epsilon": float, "delta": float, "certainty": float}

    def line(row: dict[str, Any]) -> LedgerRow:
        together = row.get("colluding")
        values = {key: kind(row[key]) for key, kind in kinds.items()}
        return LedgerRow(**values, colluding=None if together is None else int(together))

    try:
        return [line(row) for row in privacy[name]]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(
            "the model does not say what its training spent: it has no ledger that this "
            "version can read"
        ) from None


def _names(version: int) -> tuple[str, ...]:
    """The fields of a file."""
    every = (field.name for field in fields(Model))
    return tuple(name for name in every if version >= _NEW.get(name, 1))


def load_model(path: str | Path) -> Model:
    """Read a model that `Model.save` wrote.

    Parameters
    ----------
    path : str or path
        The file, usually model.json.

    Returns
    -------
    Model
        Which predicts exactly as the one that was saved.

    Raises
    ------
    DataError
        If the file cannot be read, is no model, or is one that cannot be.
    """
    try:
        raw = read_file(path)
    except OSError as error:
        raise DataError(
            f"the model {str(path)!r} cannot be read: {error.strerror or error}"
        ) from None
    try:
        content: dict[str, Any] = decode(raw, dict[str, Any])
        tag = content.pop("format", None)
        version = next((number for number in _VERSIONS if tag == _TAG.format(number)), None)
        if version is None:
            raise msgspec.ValidationError("it does not say so")
        names = _names(version)
        for name in (*content, *names):
            if name not in names or name not in content:
                wrong = "misses the field" if name in names else "has an unknown field"
                raise msgspec.ValidationError(f"it {wrong} {name!r}")
        model = msgspec.convert(content, Model, dec_hook=_array)
    except msgspec.DecodeError as error:
        why = _other_version(raw, repr(str(path)))
        raise DataError(why or f"{str(path)!r} is not a model of pdml: {error}") from None
    if mistake := _find_mistake(model):
        raise DataError(f"{str(path)!r} holds {mistake}")
    return model


def _array(kind: type, values: Any) -> Array:
    """A vector or a rectangular table of numbers."""
    nested = isinstance(values, list) and bool(values) and isinstance(values[0], list)
    plain: Any = msgspec.convert(values, list[list[float]] if nested else list[float])
    if nested and len({len(row) for row in plain}) != 1:
        raise ValueError("Expected a rectangular table")
    return np.asarray(plain, dtype=float)


def _find_mistake(model: Model) -> str:
    """Why no training gives such a model."""
    width = model.coefficients.shape[-1]
    codes = 1 if len(model.classes) == 2 else len(model.classes)
    if model.coefficients.ndim != 2:
        return "coefficients that are not a rectangular table"
    shapes = (len(model.coefficients), model.intercepts.shape)
    if len(model.classes) < 2 or shapes != (codes, (codes,)):
        return f"{len(model.coefficients)} rows of coefficients for {len(model.classes)} classes"
    if model.ranges is not None and model.ranges.shape != (width, 2):
        return f"ranges for {len(model.ranges)} features and coefficients for {width}"
    if model.inputs is not None:
        try:
            columns = NumericColumns.from_dict(model.inputs)
        except InvalidInput as error:
            return f"inputs that no training has: {error}"
        if columns.expansion.width != width:
            return f"inputs for {columns.expansion.width} features and coefficients for {width}"
    finite = np.isfinite(model.coefficients).all() and np.isfinite(model.intercepts).all()
    if not finite or model.norm_bound <= 0:
        return "numbers that are not finite, or a norm bound that is not positive"
    return ""


class _Head(msgspec.Struct):
    """All that is read of a model that may be newer."""

    format: str


def _other_version(raw: bytes, what: str) -> str:
    try:
        match = re.fullmatch(r"pdml-model/([0-9]{1,9})", decode(raw, _Head).format)
    except msgspec.DecodeError:
        return ""
    return FORMAT.refusal(int(match[1]), what) if match else ""
