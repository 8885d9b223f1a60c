"""What leaves the system: a linear model with all that a reader needs to judge it, as a JSON file.

It is post-processing of what the other servers saw anyway and spends nothing more. A local model is
made of exact sums instead, is marked as such, and is written for its owner alone.
"""

import json
import re
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pdml._types import Array, IntArray, Matrix
from pdml.accounting import LedgerRow, ledger_row
from pdml.accounting.kinds import Adversary, Method
from pdml.accounting.ledger_row import merge_rows, representative_coalition_sizes
from pdml.encoding.encoder import Encoder
from pdml.encoding.pipeline import Pipeline
from pdml.encoding.row_steps import Step
from pdml.errors import DataError, InvalidInput
from pdml.files import atomic_write, read_file, write_private
from pdml.formats import Format, decode
from pdml.formatting import notebook
from pdml.numerics.sums.expected_accuracy import Expectation

FORMAT = Format(name="model", version=1)
_TAG = f"pdml-model/{FORMAT.version}"
THIS_TRAINING = "this training alone: other trainings on the same records must be added up"


@dataclass(frozen=True, eq=False)
class Features:
    """Records that a model has read: `Model` predicts from them as from the records."""

    matrix: Matrix

    def __len__(self) -> int:
        return int(self.matrix.shape[0])


@dataclass(frozen=True, kw_only=True)
class Model:
    """A trained classifier, and everything its file says: these fields in this order are the file.

    Attributes
    ----------
    classes : tuple
        Names or numbers; the second of two is the one that positive margins mean.
    coefficients : array of shape (C, d)
        C = 1 for two classes, else one row for each class.
    intercepts : array of shape (C,)
        Zero without an intercept.
    norm_bound : float
        The length to which longer rows are clipped.
    fit_intercept : bool
        Whether a constant 1 is added to every row.
    feature_names : tuple of str
        Of the d features, where they have names.
    label : str, optional
        The label column's name, if the data was a table.
    encoder : dict, optional
        How columns become features: `pdml.encoding.encoder.Encoder.to_dict`. None: rows of numbers.
    plan, privacy, provenance : dict
        What was agreed, what was spent, and where it comes from.
    expected : Expectation, optional
        How good the model is by what was released alone, with 80% intervals; after sums only.
    local : str
        The server for whose own use the model was made of its exact sums: do not publish it. Empty
        for a model that was released.
    """

    classes: tuple[str | int | float | bool, ...]
    coefficients: Array
    intercepts: Array
    norm_bound: float
    fit_intercept: bool
    feature_names: tuple[str, ...] = ()
    label: str | None = None
    encoder: dict[str, Any] | None = None
    plan: dict[str, Any] = field(default_factory=dict)
    privacy: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    expected: Expectation | None = None
    local: str = ""

    def decision_function(self, x: Any) -> Array:
        """Margins: (m,) for two classes (positive means ``classes[1]``), else (m, K)."""
        scores = np.asarray(self.rows(x) @ self.weights.T)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @property
    def weights(self) -> Array:
        """What a row is multiplied by, (C, d) or with the constant's last (C, d + 1)."""
        if not self.fit_intercept:
            return self.coefficients
        return np.hstack([self.coefficients, self.intercepts[:, None]])

    def rows(self, x: Any) -> Matrix:
        """Records as the weights meet them: scaled, with their constant, clipped to the bound."""
        return self.pipeline.rows(self.features(x).matrix)[0]

    @cached_property
    def pipeline(self) -> Pipeline:
        """How a record becomes a row."""
        return Pipeline(
            encoder=None if self.encoder is None else Encoder.from_dict(self.encoder),
            names=self.feature_names if self.encoder is None else (),
            norm_bound=self.norm_bound,
            intercept=self.fit_intercept,
        )

    def translatable_steps(self) -> tuple[Step, ...]:
        """`pipeline`, step by step, for other programs that are taught to take it."""
        if self.pipeline.encoder is not None and self.pipeline.encoder.sensitive:
            raise InvalidInput(
                "a model of randomised answers cannot be expressed in other programs: use the "
                "model itself"
            )
        return self.pipeline.steps(self.coefficients.shape[1])

    def predict_proba(self, x: Any) -> Array:
        """Class probabilities of the logistic model, (m, K)."""
        scores = self.decision_function(x)
        if scores.ndim == 1:
            half = np.tanh(scores / 2) / 2
            return np.column_stack([0.5 - half, 0.5 + half])
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))

    def choose(self, x: Any) -> IntArray:
        """The most likely class of each row, as an index into ``classes``."""
        scores = self.decision_function(x)
        return np.asarray((scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1))

    def predict(self, x: Any) -> NDArray[Any]:
        """The most likely class of each row."""
        return np.asarray(np.asarray(self.classes)[self.choose(x)])

    def prediction_columns(self, x: Any, *, proba: bool = False) -> dict[str, NDArray[Any]]:
        """The prediction of each row as a column, with ``proba`` also each class's probability."""
        columns = {"prediction": self.predict(x)}
        if proba:
            chances = self.predict_proba(x)
            columns |= {f"probability {name}": chances[:, k] for k, name in enumerate(self.classes)}
        return columns

    def save(self, path: str | Path) -> None:
        """Write the model as JSON, usually model.json; an interrupted write leaves no half file.

        Guarantees
        ----------
        - A local model (usually local_model.json) can be read by its owner alone: mode 0600.
        """
        self.write(path, self.to_bytes())

    def write(self, path: str | Path, data: bytes) -> None:
        """Write bytes that were made of the model, under the same guarantees as `save`."""
        if self.local:
            write_private(path, data)
        else:
            atomic_write(path, data)

    def to_bytes(self) -> bytes:
        """The file's bytes: the same for the same model, every number in its shortest spelling."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}

        def plain(value: Any) -> Any:
            return asdict(value) if isinstance(value, Expectation) else value.tolist()

        file = {"format": _TAG, **values}
        text = json.dumps(file, indent=1, ensure_ascii=False, allow_nan=False, default=plain)
        return text.encode("utf-8")

    def to_sklearn(self) -> Any:
        """A fitted scikit-learn pipeline that predicts the same and needs no pdml."""
        from pdml.model.export.sklearn import pipeline

        return pipeline(self)

    def to_onnx(self, path: str | Path) -> None:
        """Write the model as ONNX, for programs in any language, guarded as `save` says."""
        from pdml.model.export.onnx import to_onnx

        self.write(path, to_onnx(self))

    def _repr_html_(self) -> str:
        """For notebooks."""
        return _model_html(self)

    def ledger_rows(self) -> list[LedgerRow]:
        """The ledger of its training: who can learn what. `DataError` if ``privacy`` holds none."""
        return read_ledger_rows(self.privacy)

    def coalitions(self) -> list[LedgerRow]:
        """What any k other servers learn together, for every k; none where k does not matter."""
        return read_ledger_rows({"coalitions": []} | self.privacy, "coalitions")

    def overview(self) -> list[LedgerRow]:
        """`ledger_rows`, and where their number matters coalitions of 1, half, all, the plan's."""
        coalitions, planned = self.coalitions(), self.plan.get("colluding")
        others = max((line.colluding or 0 for line in coalitions), default=0)
        also = planned if isinstance(planned, int) else None
        sizes = representative_coalition_sizes(others, also) if others else []
        return merge_rows(self.ledger_rows(), [row for row in coalitions if row.colluding in sizes])

    def features(self, records: Any) -> Features:
        """Records that are read once, for several predictions.

        Parameters
        ----------
        records : Table, path of a table, DataFrame or array
            With the columns of the training; others are passed over. Of an array all columns, in
            the order of the training.

        Raises
        ------
        DataError
            If a column is missing or holds what the model has no feature for, or the model was not
            trained on named columns.
        """
        if isinstance(records, Features):
            return records
        matrix = self.pipeline.read(records)
        if self.encoder is None and matrix.shape[1] != (width := self.coefficients.shape[1]):
            raise DataError(f"the model was trained on {width} features, got {matrix.shape[1]}")
        return Features(matrix)


def read_ledger_rows(privacy: dict[str, Any], name: str = "rows") -> list[LedgerRow]:
    """The lines of a ledger that was written as plain values."""
    kinds: dict[str, Any] = {"data": str, "adversary": Adversary, "reason": str}
    kinds |= {"epsilon": float, "delta": float, "certainty": float}

    def line(row: dict[str, Any]) -> LedgerRow:
        together = row.get("colluding")
        values = {key: kind(row[key]) for key, kind in kinds.items()}
        return LedgerRow(**values, colluding=None if together is None else int(together))

    try:
        return [line(row) for row in privacy[name]]
    except (KeyError, TypeError, ValueError, AttributeError):
        why = "it has no ledger that this version can read"
        raise DataError(f"the model does not say what its training spent: {why}") from None


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
        If the file cannot be read, or is no model that a training gives.
    """
    try:
        raw = read_file(path)
    except OSError as error:
        why = error.strerror or error
        raise DataError(f"the model {str(path)!r} cannot be read: {why}") from None
    try:
        content: dict[str, Any] = decode(raw, dict[str, Any])
        tag = content.pop("format", None)
        if tag != _TAG:
            raise msgspec.ValidationError("it does not say so")
        names = tuple(field.name for field in fields(Model))
        for name in (*content, *names):
            if name not in names or name not in content:
                wrong = "misses the field" if name in names else "has an unknown field"
                raise msgspec.ValidationError(f"it {wrong} {name!r}")
        model = msgspec.convert(content, Model, dec_hook=_array)
        msgspec.convert(content, _Facts)
    except msgspec.DecodeError as error:
        why = _other_version(raw, repr(str(path)))
        raise DataError(why or f"{str(path)!r} is not a model of pdml: {error}") from None
    if mistake := _find_mistake(model):
        raise DataError(f"{str(path)!r} holds {mistake}")
    return model


class _PlanFacts(msgspec.Struct):
    """What pages read of a plan; what else stands there is passed over."""

    method: str = ""
    rounds: int | None = None


class _PrivacyFacts(msgspec.Struct):
    """The same of what was spent; `read_ledger_rows` reads its rows."""

    counted: str = ""
    source: str = ""


class _ProvenanceFacts(msgspec.Struct):
    """The same of where a model comes from."""

    records_per_server: list[int] = []
    noise_source: str = ""
    leaks: list[str] = []
    study_hash: str = ""


class _Facts(msgspec.Struct):
    plan: _PlanFacts
    privacy: _PrivacyFacts
    provenance: _ProvenanceFacts


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
    if len(model.feature_names) not in (0, width):
        return f"{len(model.feature_names)} names for {width} features"
    if model.encoder is not None:
        try:
            features = Encoder.from_dict(model.encoder).n_features
        except InvalidInput as error:
            return f"an encoder that no training has: {error}"
        if features != width:
            return f"an encoder of {features} features and coefficients for {width}"
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


_MOST = 12  # coefficients


def _model_html(model: Model) -> str:
    """What a reader needs to judge a model by, as a part of a page."""
    title = f"Model of {model.label}" if model.label else "Model"
    title += f" for {model.local} alone: do not publish it" if model.local else ""
    sheets = [_facts(model), _weights(model)]
    try:
        sheets.append(ledger_row.sheet(model.ledger_rows()))
    except DataError:  # it has none, which is said below
        notes = ["The model does not say what its training spent."]
    else:
        counted = model.privacy.get("counted")
        notes = [f"The ledger counts {counted}."] if counted else []
    leaks = model.provenance.get("leaks", [])
    return notebook.as_html(title, sheets, [*notes, *(f"Leak: {leak}." for leak in leaks)])


def _facts(model: Model) -> notebook.Sheet:
    records = model.provenance.get("records_per_server", [])
    method = f"{model.plan['rounds']} rounds" if "rounds" in model.plan else ""
    facts = {
        "classes": ", ".join(map(str, model.classes)),
        "features": f"{model.coefficients.shape[1]:,}",
        "records": f"{sum(records):,} of {len(records)} servers" if records else "",
        "trained in": "one exchange of sums" if model.plan.get("method") == Method.SUMS else method,
        "noise": str(model.provenance.get("noise_source", "")),
    }
    if model.expected is not None:
        right = model.expected.accuracy
        facts["accuracy to expect"] = (
            f"{right.middle:.0%} ({right.low:.0%} to {right.high:.0%}), by what was released"
        )
    return notebook.Sheet(columns=("", ""), rows=tuple((k, v) for k, v in facts.items() if v))


def _weights(model: Model) -> notebook.Sheet:
    """The largest, for features as the encoder makes them."""
    width = model.coefficients.shape[1]
    names = model.feature_names or tuple(f"feature {k + 1}" for k in range(width))
    size = np.abs(model.coefficients).max(axis=0)
    order = np.argsort(-size, kind="stable")[:_MOST]
    rows = [(names[k], *(f"{w:.3g}" for w in model.coefficients[:, k])) for k in order.tolist()]
    rows.append(("(constant)", *(f"{w:.3g}" for w in model.intercepts)))
    several = len(model.classes) > 2
    heads = [*map(str, model.classes)] if several else [f"towards {model.classes[1]}"]
    caption = f"The {_MOST} largest coefficients of {width:,}" if width > _MOST else "Coefficients"
    return notebook.Sheet(caption=caption, columns=("feature", *heads), rows=tuple(rows))
