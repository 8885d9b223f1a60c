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
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml._types import Array, Matrix
from pdml.accounting import Line
from pdml.core import rows
from pdml.core.sums_expectation import Expectation
from pdml.errors import DataError, InvalidInput
from pdml.files import atomic_write, write_private
from pdml.formats import Format
from pdml.study.encoder import Encoder
from pdml.tables import Table, listed

FORMAT = Format(name="model", version=2, oldest=1)
_TAG = "pdml-model/{}"
_NEW = ("expected", "house")  # in version 2: a model without them is written as version 1
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
        Declared ranges, which are mapped to [0, 1].
    label : str, optional
        The label column's name, if the data was a table.
    encoder : dict, optional
        How a table's columns become features: `pdml.study.encoder.Encoder.to_dict`.
    plan, privacy, provenance : dict
        What was agreed, what was spent, and where it comes from.
    expected : Expectation, optional
        How good the model is by what was released alone, where that tells: after one exchange of
        sums, for two classes. Its intervals hold the truth in 80% of trainings.
    house : str
        The server for whose own use the model was made of its exact sums: not to be shared. Empty
        for a model that was released.
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

    def decision_function(self, x: Matrix) -> Array:
        """Margins: (m,) for two classes (positive means ``classes[1]``), else (m, K)."""
        if x.shape[1] != self.coefficients.shape[1]:
            raise DataError(
                f"the model was trained on {self.coefficients.shape[1]} features, got {x.shape[1]}"
            )
        prepared, _ = prepare(
            x, norm_bound=self.norm_bound, fit_intercept=self.fit_intercept, ranges=self.ranges
        )
        weights = self.coefficients
        if self.fit_intercept:
            weights = np.hstack([weights, self.intercepts[:, None]])
        scores = np.asarray(prepared @ weights.T)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, x: Matrix) -> Array:
        """Class probabilities of the logistic model, (m, K)."""
        scores = self.decision_function(x)
        if scores.ndim == 1:
            half = np.tanh(scores / 2) / 2
            return np.column_stack([0.5 - half, 0.5 + half])
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))

    def predict(self, x: Matrix) -> NDArray[Any]:
        """The most likely class of each row."""
        scores = self.decision_function(x)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(np.asarray(self.classes)[index])

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
        if self.house:
            write_private(path, self.to_bytes())
        else:
            atomic_write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """The file's bytes: the same for the same model, whatever writes it.

        Returns
        -------
        bytes
            JSON, with every number in the shortest spelling that reads back as it.
        """
        version = 2 if any(getattr(self, name) for name in _NEW) else 1
        values = {name: getattr(self, name) for name in _names(version)}
        text = json.dumps(
            {"format": _TAG.format(version), **values},
            indent=1,
            ensure_ascii=False,
            allow_nan=False,
            default=lambda own: asdict(own) if isinstance(own, Expectation) else own.tolist(),
        )
        return text.encode("utf-8")

    def _repr_html_(self) -> str:
        """For notebooks."""
        from pdml.release.shown import model_html

        return model_html(self)

    def lines(self) -> list[Line]:
        """The ledger of its training: who can learn what.

        Raises
        ------
        DataError
            If ``privacy`` holds none that this version can read.
        """
        kinds: dict[str, Any] = {"data": str, "adversary": str, "reason": str}
        kinds |= {"epsilon": float, "delta": float, "certainty": float}
        try:
            return [
                Line(
                    **{k: kind(row[k]) for k, kind in kinds.items()}, colluding=row.get("colluding")
                )
                for row in self.privacy["lines"]
            ]
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError(
                "the model does not say what its training spent: it has no ledger that this "
                "version can read"
            ) from None

    def features(self, table: Table) -> Matrix:
        """Records as the model was taught them: by its encoder, or as plain numbers.

        Parameters
        ----------
        table : Table
            With the columns of the training; others are passed over.

        Raises
        ------
        DataError
            If a column is missing or holds what the model has no feature for, or if the model was
            not trained on named columns.
        """
        encoder = None if self.encoder is None else Encoder.from_dict(self.encoder)
        needed = [a.name for a in encoder.attributes] if encoder else list(self.feature_names)
        if not needed:
            raise DataError(
                f"the model does not say which columns its {self.coefficients.shape[1]} features "
                "are: it was not trained on a table"
            )
        if missing := [name for name in needed if name not in table.names]:
            raise DataError(f"{table.source} lacks columns the model needs: {listed(missing)}")
        if encoder:
            return encoder.encode(table)
        return np.column_stack([table.numeric(name) for name in needed])


def _names(version: int) -> tuple[str, ...]:
    """The fields of a file."""
    every = (field.name for field in fields(Model))
    return tuple(name for name in every if version > 1 or name not in _NEW)


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
        raw = Path(path).read_bytes()
    except OSError as error:
        raise DataError(
            f"the model {str(path)!r} cannot be read: {error.strerror or error}"
        ) from None
    try:
        said: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
        tag = said.pop("format", None)
        version = next((each for each in (1, 2) if tag == _TAG.format(each)), None)
        if version is None:
            raise msgspec.ValidationError("it does not say so")
        names = _names(version)
        for name in (*said, *names):
            if name not in names or name not in said:
                wrong = "misses the field" if name in names else "has an unknown field"
                raise msgspec.ValidationError(f"it {wrong} {name!r}")
        model = msgspec.convert(said, Model, dec_hook=_array)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = _other_version(raw, repr(str(path)))
        raise DataError(why or f"{str(path)!r} is not a model of pdml: {error}") from None
    if mistake := _mistake(model):
        raise DataError(f"{str(path)!r} holds {mistake}")
    return model


def _array(kind: type, values: Any) -> Array:
    """A vector or a rectangular table of numbers."""
    nested = isinstance(values, list) and bool(values) and isinstance(values[0], list)
    plain: Any = msgspec.convert(values, list[list[float]] if nested else list[float])
    if nested and len({len(row) for row in plain}) != 1:
        raise ValueError("Expected a rectangular table")
    return np.asarray(plain, dtype=float)


def _mistake(model: Model) -> str:
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
    finite = np.isfinite(model.coefficients).all() and np.isfinite(model.intercepts).all()
    if not finite or model.norm_bound <= 0:
        return "numbers that are not finite, or a norm bound that is not positive"
    return ""


class _Head(msgspec.Struct):
    """All that is read of a model that may be newer."""

    format: str


def _other_version(raw: bytes, what: str) -> str:
    try:
        found = re.fullmatch(
            r"pdml-model/([0-9]{1,9})", msgspec.json.decode(raw, type=_Head).format
        )
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return FORMAT.refusal(int(found[1]), what) if found else ""


def prepare(
    x: Matrix, *, norm_bound: float, fit_intercept: bool, ranges: Array | None
) -> tuple[Matrix, int]:
    """Scale by declared ranges, append the bias, clip each row to the norm bound; also say how many
    rows were clipped.

    Every step looks at one record and public settings only, so preparing leaks nothing.
    """
    prepared = rows.as_rows(x)
    if ranges is not None:
        prepared = _to_unit(prepared, ranges)
    if fit_intercept:
        prepared = rows.append_bias(prepared)
    return rows.clip(prepared, norm_bound)


def _to_unit(x: Matrix, ranges: Array) -> Matrix:
    """Map [low, high] to [0, 1], values outside to its ends."""
    if ranges.shape != (x.shape[1], 2):
        raise InvalidInput(
            f"feature_ranges must have a (low, high) pair for each of the {x.shape[1]} "
            f"features, got shape {ranges.shape}"
        )
    low, high = ranges.T
    if not (np.isfinite(ranges).all() and (low < high).all()):
        raise InvalidInput("feature_ranges must be finite with low < high for every feature")
    if sp.issparse(x):
        if (low != 0).any():
            raise InvalidInput(
                "feature_ranges of a sparse X must start at 0: another low would fill in every zero"
            )
        scaled = x.copy()
        scaled.data = np.clip(x.data / high[x.indices], 0, 1).astype(x.dtype)
        return scaled
    return np.clip((x - low) / (high - low), 0, 1).astype(x.dtype)
