"""The check after an exchange: of which models it warns, and how many of these are of no use."""

import warnings

import numpy as np
from pdml.simulation.resolve_plan import utility_warnings
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from benchmarks.problems import adult_records
from pdml import Encoding, PDMLClassifier

# records, servers, columns
SIZES = (
    (300, 5, 4),
    (400, 5, 10),
    (400, 5, 30),
    (1000, 5, 10),
    (1000, 10, 20),
    (3000, 10, 10),
    (3000, 10, 40),
    (10_000, 10, 20),
    (10_000, 10, 60),
    (20_000, 10, 100),
)
TESTED = 4000
HEAD = ("", "models", "of no use", "doubted", "rightly", "ahead by 10 points", "doubted")


def people(rng, records, width):
    """Records and labels of a population of a random kind, and the scales to declare."""
    traits = rng.normal(size=(records, max(1, width // 3)))
    loadings = rng.normal(size=(traits.shape[1], width))
    shared = rng.beta(1.2, 1.2, size=width)
    x = traits @ (loadings / np.linalg.norm(loadings, axis=0)) * np.sqrt(shared)
    x += rng.normal(size=x.shape) * np.sqrt(1 - shared)
    columns = rng.choice(["plain", "one-hot", "far from 0"], p=[0.4, 0.4, 0.2])
    if columns == "one-hot":
        x = one_hot(rng, x)
    source = traits if rng.integers(3) == 0 else x
    few = rng.random(source.shape[1]) < max(0.2, 2 / width)
    weights = rng.normal(size=source.shape[1]) * (few if rng.integers(3) == 0 else 1)
    scores = source @ weights
    margin, lean = rng.choice([0.5, 1.5, 4.0]), rng.choice([0.0, 0.0, 1.0, 2.0])
    scores = (scores - scores.mean()) / max(scores.std(), 1e-9) * margin
    lean *= 2 if margin > 2 else 1
    y = (scores + lean + rng.logistic(size=records) > 0).astype(int)
    if columns == "far from 0":
        x = x + 30  # rows that all point the same way
    return x, y, [(0.0, 1.0)] * width if columns == "plain" else None


def one_hot(rng, latent):
    """Blocks of two to six columns, of which one is 1."""
    found, start, width = np.zeros_like(latent), 0, latent.shape[1]
    while start < width:
        stop = min(width, start + int(rng.integers(2, 7)))
        chosen = (latent[:, start:stop] + rng.normal(size=stop - start)).argmax(axis=1)
        found[np.arange(len(latent)), start + chosen] = 1.0
        start = stop
    return found


def judged(model, x, y, test_x, test_y):
    """(Whether what was released leaves doubts, what the model truly gains); nothing after rounds,
    which tell neither.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    classes, counts = np.unique(y, return_counts=True)
    gain = model.score(test_x, test_y) - np.mean(test_y == classes[counts.argmax()])
    return (
        []
        if model.result_.gain is None
        else [(bool(utility_warnings(None, model.result_.gain)), gain)]
    )


def synthetic(each, seed):
    """``each`` populations of every size."""
    rng = np.random.default_rng(seed)
    for records, servers, width in SIZES:
        for _ in range(each):
            x, y, scales = people(rng, records + TESTED, width)
            drawn = int(rng.integers(10**6))
            if len(set(y[:records])) == 2:
                model = PDMLClassifier(
                    n_servers=servers, encoding=Encoding(scales=scales), random_state=drawn
                )
                yield from judged(model, x[:records], y[:records], x[records:], y[records:])


def breast_cancer(splits):
    """At the defaults, with means and deviations declared to one digit."""
    x, y = load_breast_cancer(return_X_y=True)
    scales = [tuple(float(f"{v:.0e}") for v in (np.mean(c), np.std(c))) for c in x.T]
    for seed in range(splits):
        x0, x1, y0, y1 = train_test_split(x, y, test_size=0.3, random_state=seed, stratify=y)
        model = PDMLClassifier(n_servers=5, encoding=Encoding(scales=scales), random_state=seed)
        yield from judged(model, x0, y0, x1, y1)


def adult(records, splits):
    """At the defaults, on so many records."""
    x, y = adult_records("csr")
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:records], order[-5000:]
        yield from judged(PDMLClassifier(random_state=seed), x[train], y[train], x[test], y[test])


def doubts_rows(each=30, seeds=(11, 12), splits=8):
    """Rows under `HEAD`."""
    yield _row("made-up populations", [one for seed in seeds for one in synthetic(each, seed)])
    yield _row("breast cancer", list(breast_cancer(splits)))
    for records in (5_000, 20_000, 40_000):
        yield _row(f"Adult, {records:,} records", list(adult(records, splits)))


def _row(name, found):
    warned, gain = np.array(found, dtype=float).reshape(-1, 2).T
    warned = warned > 0
    useless, ahead = gain <= 0, gain > 0.1
    counts = (len(gain), useless, warned, warned & useless, ahead, warned & ahead)
    return name, *(each if isinstance(each, int) else int(each.sum()) for each in counts)
