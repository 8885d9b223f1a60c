"""The model that one exchange of sums gives: post-processing of the total of all releases."""

import json
from dataclasses import asdict
from math import ceil, isclose, log2
from typing import Any

import msgspec
import numpy as np

from pdml._threads import one_thread
from pdml._types import Array
from pdml.formats import decode
from pdml.mechanisms.integer_gaussian import Units
from pdml.numerics.interval import Range
from pdml.numerics.sums.expected_accuracy import Expectation, expect, gain, tells
from pdml.numerics.sums.fit import Measured, SumsModel, fit_measured, measured
from pdml.planning.server_spec import Place
from pdml.planning.training_plan import TrainingPlan
from pdml.training import sums_release

EACH_SEEN = "every server's own sums are seen, each with all of the noise"
MASKED = "masked by each pair of servers, so that nothing but the total of all sums can be read"
UNMASKED = (
    "added up without masks inside one trust domain, with the noise that they would have had if "
    "nothing but their total could be read"
)
HOUSE = (
    "made of the exact sums of one server, which no noise protects: for its own use, never to be "
    "shared"
)
# Eigenvalues and logarithms differ between machines in their last digits. Weights keep 24 bits and
# chances four digits, so that a file hardly ever does: two machines disagree where a number lies
# within 10^-12 or so of the middle between two neighbours on this grid.
_BITS, _DIGITS = 24, 4


def carried(plan: TrainingPlan, *, own_nodes: bool) -> str:
    """How the sums met, in words for a model's provenance.

    Parameters
    ----------
    plan : TrainingPlan
        With ``method`` "sums".
    own_nodes : bool
        Whether each organisation ran its own node: only they mask anything.

    Returns
    -------
    str
    """
    if plan.colluding is None:
        return EACH_SEEN
    return MASKED if own_nodes else UNMASKED


def weights(total: Units, plan: TrainingPlan, place: Place, *, intercept: bool = True) -> Array:
    """The model that the total of all servers' releases tells.

    Parameters
    ----------
    total : array of int64
        The exact sum of all rows, masks cancelled.
    plan : TrainingPlan
        With ``method`` "sums": it knows how much noise the total has.
    place : Place
        Any server's: nothing in which they differ is needed.
    intercept : bool
        Whether the last column is the constant one.

    Returns
    -------
    array of shape (C, d)

    Guarantees
    ----------
    - A function of its arguments alone, equal on every machine up to one unit of the grid on which
      weights are rounded, 2^-24 of the largest.
    """
    with one_thread():  # the same bits with any number of threads
        return _weights(fitted(total, plan, place, intercept)[1], place)


def learnt(
    total: Units, plan: TrainingPlan, place: Place, *, intercept: bool = True
) -> tuple[Array, Range | None]:
    """`weights`, and how much more often they are right than whoever always says the largest class.

    Parameters
    ----------
    total, plan, place, intercept
        As for `weights`.

    Returns
    -------
    weights : array of shape (C, d)
    gain : Range or None
        Told by the same total; None without a constant column, and for more than 50 classes.
    """
    with one_thread():
        given, model = fitted(total, plan, place, intercept)
        asked = intercept and tells(place.classes)
        more = gain(given, model, plan.loss_for(place.classes)) if asked else None
        return _weights(model, place), more


def fitted(
    total: Units, plan: TrainingPlan, place: Place, intercept: bool
) -> tuple[Measured, SumsModel]:
    """What a total says per record, in units of the norm bound, and the model of it; parameters as
    in `weights`.
    """
    loss = plan.loss_for(place.classes)
    given = measured(
        sums_release.totals(total, place.codes, place.width),
        plan.noise_of_total(place),
        loss=loss,
        norm_bound=place.norm_bound,
        intercept=intercept,
        constant=place.constant,
    )
    return given, fit_measured(given, loss)


def _weights(model: SumsModel, place: Place) -> Array:
    """Of records as they are, rounded."""
    found = model.weights / place.norm_bound
    largest = float(np.abs(found).max(initial=0.0))
    if not largest:
        return found
    grid = _step(largest)
    return np.asarray(np.rint(found / grid) * grid)


def expected(total: Units, plan: TrainingPlan, place: Place) -> Expectation | None:
    """What to expect of the model from `weights`, told by the same total.

    Parameters
    ----------
    total, plan, place
        As for `weights`; the last column is the constant one.

    Returns
    -------
    Expectation or None
        Accuracy, and for two classes AUC, with intervals that hold the truth in about 80% of
        trainings. None for more than 50 classes.
    """
    if not tells(place.classes):
        return None
    with one_thread():
        found = expect(*fitted(total, plan, place, True), plan.loss_for(place.classes))
    return Expectation(
        accuracy=_rounded(found.accuracy),
        auc=None if found.auc is None else _rounded(found.auc),
        confidence=round(found.confidence, _DIGITS),
    )


def _rounded(found: Range) -> Range:
    return Range(**{name: round(value, _DIGITS) for name, value in asdict(found).items()})


def near(model: bytes, own: bytes) -> bool:
    """Whether a file is this machine's own up to the digits in which two machines may differ.

    Parameters
    ----------
    model : bytes
        A model.json of sums, from anywhere.
    own : bytes
        The one that the same total gives here.

    Returns
    -------
    bool
        True if all but weights and expectations is equal to the byte, weights lie on the same grid
        and differ by at most one step of it (2^-24 of the largest, rounded up to a power of two),
        and expectations by at most one of their last digits.
    """
    try:
        said, made = decode(model, by=json.loads), json.loads(own)
    except msgspec.DecodeError:
        return False
    if not isinstance(said, dict) or list(said) != list(made) or spelt(said) != model:
        return False
    largest = max(np.abs(made[name]).max(initial=0.0) for name in ("coefficients", "intercepts"))
    grid = _step(float(largest))
    steps = {"coefficients": grid, "intercepts": grid, "expected": 10.0**-_DIGITS}
    return all(
        _alike(said.pop(name), made.pop(name), step) for name, step in steps.items()
    ) and spelt(said) == spelt(made)


def spelt(values: dict[str, Any]) -> bytes:
    """As `Model.to_bytes` spells it."""
    return json.dumps(values, indent=1, ensure_ascii=False).encode()


def _step(largest: float) -> float:
    """The distance of two neighbours on the grid of weights."""
    return 2.0 ** (ceil(log2(largest)) - _BITS) if largest else 1.0


def _alike(one: Any, other: Any, step: float) -> bool:
    """Whether two trees of JSON have the same form, and numbers that are equal or neighbours."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        keys = list(one) == list(other)
        return keys and all(_alike(one[name], other[name], step) for name in one)
    if isinstance(one, list):
        both = zip(one, other, strict=False)
        return len(one) == len(other) and all(_alike(a, b, step) for a, b in both)
    if isinstance(one, float):
        return one == other or isclose(abs(one - other), step, rel_tol=1e-6)
    return bool(one == other)
