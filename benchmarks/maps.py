"""What maps are worth by size: `python -m benchmarks.maps [seeds]`.

Simulated people whose answers bend, or do not; accuracy on 4,000 others, mean of the seeds.
"""

import sys
import warnings
from collections.abc import Iterator

import numpy as np

from pdml import Encoding, PDMLClassifier
from pdml._types import Array, IntArray
from pdml.encoding.maps import Splines, Squares

SIZES, OTHERS, COLUMNS = (2_000, 8_000, 40_000), 4_000, 8
MAPS = {"none": None, "squares": Squares(), "splines": Splines(), "auto": "auto"}


def populations(rng: np.random.Generator, many: int) -> Iterator[tuple[str, Array, IntArray]]:
    """Additive with bends, a line, and correlated columns with one-sided bends."""
    x = rng.normal(size=(many, COLUMNS))
    bends = 1.5 * np.abs(x[:, 0]) + 1.2 * np.sin(2 * x[:, 1]) + x[:, 2] + 2 * np.maximum(x[:, 3], 0)
    yield "bends", x, _labels(bends, rng, 0.7)
    yield "a line", x, _labels(x @ rng.normal(size=COLUMNS), rng, 0.7)
    z = x @ rng.normal(size=(COLUMNS, COLUMNS))
    z /= z.std(axis=0)
    yield (
        "one side",
        z,
        _labels(2 * np.exp(z[:, 0] / 2) - 2 * np.minimum(z[:, 1], 0) + z[:, 2], rng, 1),
    )


def _labels(scores: Array, rng: np.random.Generator, luck: float) -> IntArray:
    return (scores - np.median(scores) + luck * rng.logistic(size=len(scores)) > 0).astype(int)


def main() -> None:
    warnings.simplefilter("ignore")
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    print("people   data      " + "".join(f"{name:>9}" for name in MAPS))
    for size in SIZES:
        scores: dict[str, list[list[float]]] = {}
        for seed in range(seeds):
            for name, x, y in populations(np.random.default_rng(seed), size + OTHERS):
                row = [
                    PDMLClassifier(
                        encoding=Encoding(scales=[(0, 1)] * COLUMNS, maps=maps), random_state=seed
                    )
                    .fit(x[:size], y[:size])
                    .score(x[size:], y[size:])
                    for maps in MAPS.values()
                ]
                scores.setdefault(name, []).append(row)
        for name, rows in scores.items():
            means = "".join(f"{100 * mean:9.1f}" for mean in np.mean(rows, axis=0))
            print(f"{size:6,}   {name:<10}{means}", flush=True)


if __name__ == "__main__":
    main()
