"""Write label_flip.json: what every implementation of the label flip, in whatever language, must
decide.

    python tests/vectors/make_label_flip.py

Thresholds come from rationals alone (a Taylor series with a proved remainder), not from the package
that they test. Words and thresholds are decimal strings: 64-bit numbers do not survive JSON
numbers.
"""

import json
from fractions import Fraction
from math import ceil
from pathlib import Path
from random import Random

PATH = Path(__file__).with_name("label_flip.json")
WORD = 1 << 64
MICRO = (
    1,
    1_000,
    100_000,
    400_000,
    693_147,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    44_361_420,
    100_000_000,
)
CLASSES = (2, 3, 5, 10, 1000)


def exp_bounds(x):
    """e^x from below and above: Σ x^j/j! while terms matter, then the remainder is below twice the
    first term left out.
    """
    total, term, j = Fraction(0), Fraction(1), 0
    while j <= 2 * x or term > Fraction(1, 1 << 200):
        total += term
        j += 1
        term = Fraction(
            int(term * x / j * (1 << 400)), 1 << 400
        )  # rounded down by less than 2^-400 a time
    return total, total + 2 * term + Fraction(1, 1 << 250)


def threshold(micro_epsilon, classes):
    """ceil(2^64 (K-1)/(e^ε + K - 1)); both bounds of e^ε must agree on it."""
    low, high = (
        ceil(WORD * Fraction(classes - 1) / (e + classes - 1))
        for e in exp_bounds(Fraction(micro_epsilon, 10**6))
    )
    if low != high:
        raise ArithmeticError("more precision is needed")
    return low


def vectors():
    random = Random(20)
    flips = []
    for micro in MICRO:
        for classes in CLASSES:
            bound = threshold(micro, classes)
            words = sorted(
                {
                    0,
                    bound - 1,
                    bound,
                    bound + 1,
                    WORD - 1,
                    *(random.getrandbits(64) for _ in range(3)),
                }
            )
            cases = [{"word": str(word), "flip": word < bound} for word in words]
            flips.append(
                {
                    "micro_epsilon": micro,
                    "classes": classes,
                    "threshold": str(bound),
                    "cases": cases,
                }
            )
    others = []
    for classes in (2, 3, 4, 7, 1000):
        span = classes - 1
        top = (
            WORD - WORD % span
        )  # a word from here on is drawn again, so that every other class is equally likely
        for words in (
            [0],
            [span],
            [top - 1],
            [top, top, 5],
            [WORD - 1, span + 2],
            [random.getrandbits(64)],
        ):
            drawn = [word for word in words if word < WORD]
            kept = next((word for word in drawn if word < top), None)
            if kept is not None:
                others.append(
                    {
                        "classes": classes,
                        "words": [str(word) for word in drawn],
                        "shift": 1 + kept % span,
                    }
                )
    return {
        "about": "Flip when word < threshold = ceil(2^64 (K-1)/(e^epsilon + K-1)), epsilon "
        "= micro_epsilon/10^6. "
        "A flipped label becomes (label + shift) mod K, shift = 1 + word mod (K-1), "
        "taking the first word below the largest multiple of K-1 that is at most 2^64.",
        "flips": flips,
        "other_class": others,
    }


def text():
    return json.dumps(vectors(), indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(text())
