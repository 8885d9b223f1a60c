"""What a report holds, in words: answers that were read back, and what devices make of them. The
page says the same (`encoding.js`); a test compares them.
"""

from collections.abc import Sequence

from pdml.encoding.attributes import NO_ANSWER
from pdml.encoding.maps import Bins, FeatureMap, Fourier, Products, Squares


def answer(value: float | str | None) -> str:
    """An answer that `Study.decode` gave back."""
    if value is None:
        return NO_ANSWER
    return value if isinstance(value, str) else f"{value:.15g}"


def of_map(feature_map: FeatureMap) -> str:
    """What a map makes of the answers, as the end of a sentence."""
    match feature_map:
        case Squares():
            return f"the square of {_named(feature_map.columns)}"
        case Products():
            return "the product of " + ", of ".join(f"{a} and {b}" for a, b in feature_map.pairs)
        case Bins():
            return f"in which of {feature_map.count} intervals lies {_named(feature_map.columns)}"
        case Fourier():
            return (
                f"{feature_map.count} waves of {_named(feature_map.columns)}, in directions "
                "that all know"
            )


def _named(columns: Sequence[str]) -> str:
    return ", ".join(columns) if columns else "every number that is sent as it is"
