"""The model that one exchange of sums gives: post-processing of the total of all releases."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import ceil, isclose, log2
from typing import Any

import msgspec
import numpy as np

from pdml._threads import single_thread
from pdml._types import Array
from pdml.formats import decode
from pdml.mechanisms.integer_gaussian import Units
from pdml.numerics.interval import Range
from pdml.numerics.sums.expected_accuracy import Expectation, expect, gain, supports_classes
from pdml.numerics.sums.expected_accuracy import line as decision_line
from pdml.numerics.sums.fit import NoisyMoments, SumsModel, fit_moments, normalise_totals
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.training import sums_release

INDIVIDUAL = "every server's own sums are seen, each with all of the noise"
MASKED = "masked by each pair of servers, so that nothing but the total of all sums can be read"
UNMASKED = (
    "added up without masks inside one trust domain, with the noise that they would have had if "
    "nothing but their total could be read"
)
LOCAL_USE = (
    "made of the exact sums of one server, which no noise protects: for its own use, never to be "
    "shared"
)
# Eigenvalues and logarithms differ between machines in their last digits. Weights keep 24 bits and
# chances four digits, so that a file hardly ever does: two machines disagree where a number lies
# within 10^-12 or so of the middle between two neighbours on this grid.
_BITS, _DIGITS = 24, 4


def transport_note(plan: TrainingPlan, *, separate_nodes: bool) -> str:
    """How the sums met, for a model's provenance."""
    if plan.colluding is None:
        return INDIVIDUAL
    return MASKED if separate_nodes else UNMASKED


def weights(total: Units, plan: TrainingPlan, spec: ServerSpec, *, intercept: bool = True) -> Array:
    """The model that the total of all servers' releases tells.

    Guarantees
    ----------
    - A function of its arguments alone, equal on every machine up to one unit of the grid on which
      weights are rounded, 2^-24 of the largest.
    """
    with single_thread():  # the same bits with any number of threads
        return _weights(fit_total(total, plan, spec, intercept)[1], spec)


def fit_with_gain(
    total: Units, plan: TrainingPlan, spec: ServerSpec, *, intercept: bool = True
) -> tuple[Array, Range | None]:
    """`weights`, and their lead over the majority-class baseline."""
    with single_thread():
        moments, model = fit_total(total, plan, spec, intercept)
        has_gain = intercept and supports_classes(spec.classes)
        more = gain(moments, model, plan.loss_for(spec.classes)) if has_gain else None
        return _weights(model, spec), more


def fit_total(
    total: Units, plan: TrainingPlan, spec: ServerSpec, intercept: bool
) -> tuple[NoisyMoments, SumsModel]:
    """The moments per record, in units of the norm bound, and the model of them."""
    loss = plan.loss_for(spec.classes)
    moments = normalise_totals(
        sums_release.totals(total, spec.codes, spec.width),
        plan.noise_of_total(spec),
        loss=loss,
        norm_bound=spec.norm_bound,
        intercept=intercept,
        constant=spec.constant,
    )
    return moments, fit_moments(moments, loss)


def _weights(model: SumsModel, spec: ServerSpec) -> Array:
    """Of records in their own units, rounded."""
    coefficients = model.weights / spec.norm_bound
    largest = float(np.abs(coefficients).max(initial=0.0))
    if not largest:
        return coefficients
    grid = _step(largest)
    return np.asarray(np.rint(coefficients / grid) * grid)


def expected(total: Units, plan: TrainingPlan, spec: ServerSpec) -> Expectation | None:
    """How good the model of a total is, by the same total."""
    if not supports_classes(spec.classes):
        return None
    with single_thread():
        expectation = expect(*fit_total(total, plan, spec, True), plan.loss_for(spec.classes))
    return Expectation(
        accuracy=_rounded(expectation.accuracy),
        auc=None if expectation.auc is None else _rounded(expectation.auc),
        confidence=round(expectation.confidence, _DIGITS),
    )


def line(
    total: Units, plan: TrainingPlan, spec: ServerSpec, shares: Mapping[str, float]
) -> float | None:
    """By how much an intercept must fall for a sensitivity, or a specificity
    (`expected_accuracy.line`)."""
    with single_thread():
        moments, model = fit_total(total, plan, spec, True)
        fall = decision_line(moments, model, plan.loss_for(spec.classes), **shares)
    return None if fall is None else fall / spec.norm_bound


def _rounded(interval: Range) -> Range:
    return Range(**{name: round(value, _DIGITS) for name, value in asdict(interval).items()})


def equal_up_to_rounding(model: bytes, reference: bytes) -> bool:
    """Whether a model's file is this machine's own up to digits in which machines may differ."""
    try:
        model_fields, reference_fields = decode(model, by=json.loads), json.loads(reference)
    except msgspec.DecodeError:
        return False
    if (
        not isinstance(model_fields, dict)
        or list(model_fields) != list(reference_fields)
        or canonical_json(model_fields) != model
    ):
        return False
    largest = max(
        np.abs(reference_fields[name]).max(initial=0.0) for name in ("coefficients", "intercepts")
    )
    grid = _step(float(largest))
    steps = {"coefficients": grid, "intercepts": grid, "expected": 10.0**-_DIGITS}
    return all(
        _alike(model_fields.pop(name), reference_fields.pop(name), step)
        for name, step in steps.items()
    ) and canonical_json(model_fields) == canonical_json(reference_fields)


def canonical_json(values: dict[str, Any]) -> bytes:
    """As `Model.to_bytes` spells it."""
    return json.dumps(values, indent=1, ensure_ascii=False).encode()


def _step(largest: float) -> float:
    """The distance of two neighbours on the grid of weights."""
    return 2.0 ** (ceil(log2(largest)) - _BITS) if largest else 1.0


def _alike(value: Any, other: Any, step: float) -> bool:
    """Whether two trees of JSON have the same form, and numbers that are equal or neighbours."""
    if type(value) is not type(other):
        return False
    if isinstance(value, dict):
        keys = list(value) == list(other)
        return keys and all(_alike(value[name], other[name], step) for name in value)
    if isinstance(value, list):
        both = zip(value, other, strict=False)
        return len(value) == len(other) and all(_alike(a, b, step) for a, b in both)
    if isinstance(value, float):
        return value == other or isclose(abs(value - other), step, rel_tol=1e-6)
    return bool(value == other)
