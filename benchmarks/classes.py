"""More than two classes: what an exchange of sums tells of its own model, on made-up people (for
real ones see `benchmarks.declared`; docs/evaluation/forecasts.md).

    python -m benchmarks.classes 202 10    # a seed, and how many populations of every size
"""

import sys
import warnings

import numpy as np

from benchmarks.declared import summed
from benchmarks.doubts import one_hot
from pdml import Encoding, PDMLClassifier

# records, servers, columns, classes
SIZES = (
    (1000, 5, 10, 3),
    (3000, 10, 10, 3),
    (3000, 5, 20, 4),
    (10_000, 10, 20, 5),
    (10_000, 5, 10, 3),
    (20_000, 10, 40, 6),
    (20_000, 5, 16, 10),
    (40_000, 10, 30, 4),
    (5000, 5, 6, 3),
)
TESTED = 3000


def people(rng, records, width, classes):
    """Records and labels of a population of a random kind, and the scales to declare."""
    traits = rng.normal(size=(records, max(1, width // 3)))
    loadings = rng.normal(size=(traits.shape[1], width))
    shared = rng.beta(1.2, 1.2, size=width)
    x = traits @ (loadings / np.linalg.norm(loadings, axis=0)) * np.sqrt(shared)
    x += rng.normal(size=x.shape) * np.sqrt(1 - shared)
    columns = rng.choice(["plain", "one-hot"])
    if columns == "one-hot":
        x = one_hot(rng, x)
    source = traits if rng.integers(3) == 0 else x
    weights = rng.normal(size=(source.shape[1], classes))
    if rng.integers(2):
        shares = rng.dirichlet(np.full(classes, rng.choice([1.0, 3.0, 20.0])))
        y = rng.choice(classes, size=records, p=shares)
        apart = rng.choice([0.5, 1, 2, 4])
        means = rng.normal(size=(classes, width)) * apart / np.sqrt(width)
        x = (x if columns == "plain" else rng.normal(size=x.shape)) + means[y]
        return x, y, [(0.0, 1.0)] * width
    scores = source @ weights
    scores = (scores - scores.mean(axis=0)) / np.maximum(scores.std(axis=0), 1e-9)
    scores = scores * rng.choice([0.5, 1.5, 4.0])
    scores += rng.choice([0, 0, 1.0, 2.0]) * rng.normal(size=classes)
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return x, y, [(0.0, 1.0)] * width if columns == "plain" else None


def trained(seed, each):
    """As `benchmarks.declared.trained`, of ``each`` populations of every size."""
    rng = np.random.default_rng(seed)
    for records, servers, width, classes in SIZES:
        for _ in range(each):
            x, y, scales = people(rng, records + TESTED, width, classes)
            drawn, colluding = int(rng.integers(10**6)), rng.choice([None, 1])
            if len(set(y[:records])) < classes:
                continue
            model = PDMLClassifier(
                n_servers=servers,
                encoding=Encoding(scales=scales),
                random_state=drawn,
                plan={"method": "sums"},
                colluding=colluding,
            ).fit(x[:records], y[:records])
            right = model.score(x[records:], y[records:])
            lead = right - max(np.mean(y[records:] == k) for k in range(classes))
            told = model.model_.expected.accuracy
            yield lead, bool(model.doubts_), model.result_.gain, right, told, classes


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(summed(list(trained(*map(int, sys.argv[1:])))))
