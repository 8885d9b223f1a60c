"""Phase 1: randomised response on the device (`randomized_M`, `eq_p`), binary and K-ary, with
integer probabilities.

A label is replaced when a uniform 64-bit word lies below P = ceil(2^64 · (K-1)/(e^ε + K - 1)), with
ε in millionths and P computed in exact decimal arithmetic: no float touches the secret, and
rounding up errs on the side of privacy.
"""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from functools import lru_cache
from math import isinf

import numpy as np
from numpy.typing import NDArray

from pdml import _validate
from pdml._types import Array, IntArray
from pdml.accounting.events import LabelFlipped
from pdml.errors import InvalidInput
from pdml.mechanisms.randomness import Stream

WORD = 1 << 64
MILLION = 1_000_000
WEAK_ABOVE = 2_944_438  # millionths; ln 19, rounded down


@dataclass(frozen=True)
class LabelFlip:
    """Report another label with probability p = (K-1)/(e^ε + K - 1), each other class being equally
    likely.

    Guarantees
    ----------
    - ε-LDP for each label on its own (Proposition 1); ε = ∞ reports the truth and promises nothing.
    - Nothing is promised for features: they pass through untouched.
    - Nothing is promised if a label is reported twice with fresh randomness: reports must be
      memoised.
    """

    epsilon: float
    classes: int = 2

    def __post_init__(self) -> None:
        _validate.real(
            "epsilon", self.epsilon, low=0, open_low=True, why="0 would report pure noise"
        )
        _validate.integer("classes", self.classes, low=2)

    @property
    def threshold(self) -> int:
        """P: flip when a 64-bit word is below it."""
        return 0 if isinf(self.epsilon) else threshold(micro(self.epsilon), self.classes)

    @property
    def flip_probability(self) -> float:
        return self.threshold / WORD

    def event(self) -> LabelFlipped:
        return LabelFlipped(epsilon=self.epsilon)


def micro(epsilon: float) -> int:
    """ε in millionths, rounded down: what is realised is never above what is claimed."""
    return int(Decimal(repr(float(epsilon))) * MILLION)


@lru_cache(maxsize=4096)
def threshold(micro_epsilon: int, classes: int = 2) -> int:
    """P = ceil(2^64 (K-1)/(e^ε + K - 1)) for ε = micro_epsilon / 10^6, exactly."""
    if micro_epsilon < 1:
        raise InvalidInput(
            f"epsilon must be at least 0.000001, got {micro_epsilon / MILLION:g}: below "
            "that a label is pure noise",
            setting="epsilon",
        )
    if micro_epsilon > 1000 * MILLION:
        # the ceiling of something tiny; never 0, so that even a huge ε is a true randomised
        # response
        return 1
    with localcontext() as context:
        context.prec = 80
        odds = (Decimal(micro_epsilon) / MILLION).exp()
        p = (classes - 1) / (odds + classes - 1)
        return int((p * WORD).to_integral_value(rounding=ROUND_CEILING))


def is_weak(micro_epsilon: int) -> bool:
    """Whether a report tells two answers apart with more than 95%: ε > ln 19.

    Somebody who held two answers equally likely ends at e^ε/(1 + e^ε), however many further classes
    there are: they only matter to people who have not ruled them out.
    """
    return micro_epsilon > WEAK_ABOVE


def flip_labels(labels: IntArray, epsilons: Array, classes: int, rng: Stream) -> IntArray:
    """Each record's reported class index, every record with its own ε."""
    words = rng.integers(0, WORD, size=len(labels), dtype=np.uint64, endpoint=False)
    shifts = rng.integers(1, classes, size=len(labels))
    flipped = np.flatnonzero(words < _thresholds(epsilons, classes))
    reported = np.array(labels)
    reported[flipped] = (reported[flipped] + shifts[flipped]) % classes
    return reported


def _thresholds(epsilons: Array, classes: int) -> NDArray[np.uint64]:
    """P of every record; one number (as an array of one) where all agree, which spares a sort."""
    alike = len(epsilons) > 0 and bool((epsilons == epsilons[0]).all())
    distinct, which = (
        (epsilons[:1], np.zeros(1, dtype=np.int64))
        if alike
        else np.unique(epsilons, return_inverse=True)
    )
    return np.array([LabelFlip(float(e), classes).threshold for e in distinct], dtype=np.uint64)[
        which
    ]
