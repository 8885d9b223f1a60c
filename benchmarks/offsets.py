"""What the estimator of sums loses by its offset, by the declared centre and by the size of the
constant (docs/evaluation/accuracy.md).

    python -m benchmarks.offsets alone 5000 300    # exact sums of one server: first seed, how many
    python -m benchmarks.offsets line 5000 300     # noisy totals of five servers

People are made up (`benchmarks.expected.people`), or scikit-learn's: wine (the first class or
another), digits (below five or not) and diabetes (above the median or not), of which a random half
is trained on. Labels are flipped at epsilon 1.
"""

import sys

import numpy as np
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.expected import people
from pdml.accounting import Budget
from pdml.encoding import row_steps, scaling
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.sums import statistics
from pdml.numerics.sums.fit import Noise, fit_sums
from pdml.planning.search.sums_search import SHARES, calibrate
from pdml.planning.server_spec import ServerSpec

EPSILON, TESTED = 1.0, 2000
EXACT = Noise(label=0.0, square=0.0)


def flip(rng, y):
    """Reports of classes 0 and 1."""
    return np.where(rng.random(len(y)) < 1 / (1 + np.exp(EPSILON)), 1 - y, y)


def made_up(seed):
    """Rows and classes of 40 to 1,500 people, and of others to judge by."""
    rng = np.random.default_rng(seed)
    records = int(np.exp(rng.uniform(np.log(40), np.log(1500))))
    width = int(np.exp(rng.uniform(np.log(4), np.log(60))))
    x, y, *_ = people(rng, records + TESTED, width)
    return x, y, records


def public(name, seed):
    """The same of a set of scikit-learn's, with exact averages and spreads."""
    if name == "wine":
        x, y = load_wine(return_X_y=True)
        y = y == 0
    elif name == "digits":
        x, y = load_digits(return_X_y=True)
        y = y < 5
    else:
        x, y = load_diabetes(return_X_y=True)
        y = y > np.median(y)
    order = np.random.default_rng(seed).permutation(len(y))
    e = scaling.standardised(x, x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9))
    return (
        row_steps.take(row_steps.finish(float(x.shape[1]), ()), e)[0][order],
        y[order],
        len(y) // 2,
    )


def regress(x, y):
    """A logistic regression of standardised columns, C = 0.1, as weights of rows."""
    features = x[:, :-1] / x[:, -1:]
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread == 0] = 1
    if len(np.unique(y)) < 2:
        return np.append(np.zeros(len(mean)), y[0] - 0.5)
    model = LogisticRegression(C=0.1, max_iter=1000).fit((features - mean) / spread, y)
    w = model.coef_[0] / spread
    return np.append(w, model.intercept_[0] - w @ mean)


def estimate(x, y):
    """The estimator's weights by exact sums."""
    totals = statistics.exact(x, labels.codes(y, EPSILON, 2), LOGISTIC)
    return fit_sums(totals, EXACT, loss=LOGISTIC).weights[0]


def move(x, shift, size):
    """The same people with centres off by ``shift`` entries of root mean square, and a constant of
    another ``size``."""
    scale = np.sqrt(np.mean(x[:, :-1] ** 2))
    moved = np.column_stack([x[:, :-1] + shift * scale * x[:, -1:] / x[0, -1], size * x[:, -1]])
    return moved / max(1.0, np.linalg.norm(moved, axis=1).max())


def alone(x, y, records, rng):
    """Accuracy of every estimator."""
    said = flip(rng, y[:records].astype(np.int64))
    rows = {
        "as declared": x,
        "centres off by one": move(x, 1, 1),
        "constant times 5": move(x, 0, 5),
    }
    weights = {name: (row, estimate(row[:records], said)) for name, row in rows.items()}
    weights["logistic regression"] = x, regress(x[:records], said)
    return {
        name: 100 * np.mean((row[records:] @ w > 0) == (y[records:] == 1))
        for name, (row, w) in weights.items()
    }


def describe(name, found):
    """Means in a sentence, and the standard error of their differences from the first."""
    values = np.array([list(one.values()) for one in found])
    error = (values - values[:, :1]).std(axis=0) / np.sqrt(len(values))
    parts = [
        f"{key} {mean:.1f}" + (f" (difference ± {e:.1f})" if e else "")
        for key, mean, e in zip(found[0], values.mean(axis=0), error, strict=True)
    ]
    return f"{name}, {len(found)}: {', '.join(parts)}"


def compare_alone(first, many):
    """Sentences about exact sums."""
    seeds = range(first, first + many)
    found = [alone(*made_up(seed), np.random.default_rng(seed)) for seed in seeds]
    yield describe("made-up people", found)
    for name in ("wine", "digits", "diabetes"):
        sets = [alone(*public(name, seed), np.random.default_rng(seed)) for seed in seeds[:50]]
        yield describe(name, sets)


def place_line(x, y, w):
    """The same direction with slope and offset by true labels."""
    margins = x @ np.append(w[:-1], 0.0)
    design = np.column_stack([margins / max(margins.std(), 1e-12), x[:, -1] / x[:, -1].mean()])
    fit = LogisticRegression(C=1e6, fit_intercept=False, max_iter=1000).fit(design, y)
    slope, offset = fit.coef_[0]
    return np.append(slope * w[:-1] / max(margins.std(), 1e-12), offset / x[:, -1].mean())


def cost(seed):
    """What the model's offset costs beside a line by true training labels, in points; the larger
    class's share and the number of records. None where a class is missing."""
    rng = np.random.default_rng(seed)
    records = int(np.exp(rng.uniform(np.log(150), np.log(4000))))
    width = int(np.exp(rng.uniform(np.log(5), np.log(60))))
    x, y, constant, _ = people(rng, records + TESTED, width)
    train, test, true = x[:records], x[records:], y[:records]
    if len(np.unique(true)) < 2:
        return None
    spec = ServerSpec(
        server=0,
        n_servers=5,
        degree=4,
        records=records // 5,
        epsilons=(EPSILON,),
        width=x.shape[1],
        constant=constant,
    )
    colluding = (None, 2)[int(rng.integers(2))]
    budget = Budget(features_epsilon=1.0, features_delta=1e-6, colluding=colluding)
    plan = calibrate(budget, spec, float(rng.choice(SHARES)))
    noise = plan.noise_of_total(spec)
    totals = statistics.exact(train, labels.codes(flip(rng, true), EPSILON, 2), LOGISTIC)
    square = rng.normal(size=totals.square_sum.shape) * noise.square
    totals += statistics.Sums(
        label_sum=rng.normal(size=totals.label_sum.shape) * noise.label,
        square_sum=(square + square.T) / 2,
        size=0.0,
    )
    w = fit_sums(totals, noise, loss=LOGISTIC, constant=constant).weights[0]
    right = [np.mean((test @ v > 0) == (y[records:] == 1)) for v in (place_line(train, true, w), w)]
    return 100 * (right[0] - right[1]), abs(np.mean(true) - 0.5) + 0.5, records


def compare_lines(first, many):
    """Sentences about what offsets cost."""
    found = np.array([c for seed in range(first, first + many) if (c := cost(seed)) is not None])
    costs, share, records = found.T
    kinds = {
        "all": records > 0,
        "below 600 records": records < 600,
        "600 records or more": records >= 600,
        "larger class above 65%": share > 0.65,
        "larger class below 55%": share < 0.55,
    }
    for name, kind in kinds.items():
        mean, error = costs[kind].mean(), costs[kind].std() / np.sqrt(kind.sum())
        yield f"{name}, {kind.sum()}: the offset costs {mean:.2f} ± {error:.2f} points"


if __name__ == "__main__":
    kinds = {"alone": compare_alone, "line": compare_lines}
    with threadpool_limits(1):
        for line in kinds[sys.argv[1]](*map(int, sys.argv[2:])):
            print(line, flush=True)
