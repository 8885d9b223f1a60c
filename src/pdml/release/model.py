"""What leaves the system: a linear model with everything a reader needs to judge it, as one JSON
file.

The coefficients are the average of the servers' last noisy releases, so the file is post-processing
of what the other servers saw anyway and spends nothing more.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml._types import Array, Matrix
from pdml.core import rows
from pdml.errors import DataError, InvalidInput
from pdml.files import atomic_write

FORMAT = "pdml-model/1"
THIS_TRAINING = "this training alone: other trainings on the same records must be added up"


class Card(
    msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="format", tag=FORMAT
):
    """The JSON form of a model."""

    classes: list[str | int | float | bool]
    coefficients: list[list[float]]
    intercepts: list[float]
    norm_bound: float
    fit_intercept: bool
    feature_names: list[str]
    ranges: list[tuple[float, float]] | None
    label: str | None
    encoder: dict[str, Any] | None
    plan: dict[str, Any]
    privacy: dict[str, Any]
    provenance: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Model:
    """A trained classifier. Rows are scaled and clipped as in training, one by one, before they
    meet the coefficients.
    """

    classes: tuple[Any, ...]
    coefficients: Array  # (C, d): C = 1 for two classes, else one row per class
    intercepts: Array  # (C,), zero without an intercept
    norm_bound: float
    fit_intercept: bool
    feature_names: tuple[str, ...] = ()
    ranges: Array | None = None  # (d, 2) declared ranges, mapped to [0, 1]
    label: str | None = None  # the label column's name, if the data was a table
    encoder: dict[str, Any] | None = None
    plan: dict[str, Any] = field(default_factory=dict)
    privacy: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

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
        """Write the model as JSON; an interrupted write leaves no half file."""
        atomic_write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """The file's bytes: the same for the same model, whatever writes it.

        Returns
        -------
        bytes
            JSON, with every number in the shortest spelling that reads back as it.
        """
        card = Card(
            classes=[_plain(c) for c in self.classes],
            coefficients=self.coefficients.tolist(),
            intercepts=self.intercepts.tolist(),
            norm_bound=self.norm_bound,
            fit_intercept=self.fit_intercept,
            feature_names=list(self.feature_names),
            ranges=None
            if self.ranges is None
            else [(float(low), float(high)) for low, high in self.ranges],
            label=self.label,
            encoder=self.encoder,
            plan=self.plan,
            privacy=self.privacy,
            provenance=self.provenance,
        )
        values = {"format": FORMAT, **msgspec.structs.asdict(card)}
        text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8")


def load_model(path: str | Path) -> Model:
    """Read a model that `Model.save` wrote."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise DataError(
            f"the model {str(path)!r} cannot be read: {error.strerror or error}"
        ) from None
    try:
        card = msgspec.json.decode(raw, type=Card)
    except msgspec.DecodeError as error:
        raise DataError(f"{str(path)!r} is not a {FORMAT} file: {error}") from None
    coefficients = _matrix(card.coefficients, "coefficients", path)
    intercepts = np.asarray(card.intercepts, dtype=float)
    codes = 1 if len(card.classes) == 2 else len(card.classes)
    if len(card.classes) < 2 or coefficients.shape[0] != codes or intercepts.shape != (codes,):
        raise DataError(
            f"{str(path)!r} holds {len(coefficients)} rows of coefficients for "
            f"{len(card.classes)} classes"
        )
    ranges = None if card.ranges is None else _matrix(card.ranges, "ranges", path)
    if ranges is not None and len(ranges) != coefficients.shape[1]:
        raise DataError(
            f"{str(path)!r} holds ranges for {len(ranges)} features and coefficients for "
            f"{coefficients.shape[1]}"
        )
    if not (
        np.isfinite(coefficients).all() and np.isfinite(intercepts).all() and card.norm_bound > 0
    ):
        raise DataError(
            f"{str(path)!r} holds numbers that are not finite, or a norm bound that is not positive"
        )
    return Model(
        classes=tuple(card.classes),
        coefficients=coefficients,
        intercepts=intercepts,
        norm_bound=card.norm_bound,
        fit_intercept=card.fit_intercept,
        feature_names=tuple(card.feature_names),
        ranges=ranges,
        label=card.label,
        encoder=card.encoder,
        plan=card.plan,
        privacy=card.privacy,
        provenance=card.provenance,
    )


def _matrix(values: Sequence[Sequence[float]], name: str, path: object) -> Array:
    if not values or len({len(row) for row in values}) != 1:
        raise DataError(f"{str(path)!r} holds {name} that are not a rectangular table")
    return np.asarray(values, dtype=float)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


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
