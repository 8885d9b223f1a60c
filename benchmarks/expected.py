"""Accuracy to expect, as totals tell it, against the truth, on made-up people with correlated and
one-hot columns (docs/evaluation/forecasts.md).

    python -m benchmarks.expected 20000 250    # the first seed, and how many

`core.sums_expectation` was chosen by seeds below 1,200. A truth is measured on 6,000 other records.
"""

import sys
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from pdml.accounting import Budget
from pdml.core import labels, rows, scaling, sums
from pdml.core.sums_expectation import expect
from pdml.core.sums_model import fit_measured, measured
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.plan.place import Place
from pdml.plan.sums_search import SHARES, calibrated

TESTED = 6000
COLUMNS = ("numbers", "even numbers", "long tails", "categories", "mixed")
SIGNALS = ("all columns", "few columns", "traits", "clusters", "products")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training, as far as a forecast and its truth need it."""

    given: object
    model: object
    loss: object
    x: np.ndarray  # of test records
    y: np.ndarray
    words: dict

    @property
    def truth(self):
        z = self.x @ self.model.weights.T
        chosen = z[:, 0] > 0 if z.shape[1] == 1 else z.argmax(axis=1)
        return float(np.mean(chosen == self.y))


def latent(rng, records, width):
    """Correlated columns of variance 1, and the traits that they share."""
    traits = rng.normal(
        size=(records, int(rng.choice([1, max(1, width // 8), max(1, width // 3)])))
    )
    loadings = rng.normal(size=(traits.shape[1], width))
    shared = rng.beta(1.2, 1.2, size=width) * rng.choice([0.3, 1.0])
    x = traits @ (loadings / np.linalg.norm(loadings, axis=0)) * np.sqrt(shared)
    return x + rng.normal(size=x.shape) * np.sqrt(1 - shared), traits


def levels(rng, block):
    """Which of its columns is the largest; some levels are rarer than others."""
    return (block + rng.normal(size=block.shape[1]) * rng.choice([0.0, 1.0])).argmax(axis=1)


def people(rng, records, width, classes=2):
    """Rows as they are trained on, classes, the typical constant (0 if nothing is declared), and
    words for the kind.
    """
    z, traits = latent(rng, records, width)
    columns, signal = rng.choice(COLUMNS), rng.choice(SIGNALS)
    declared = bool(rng.random() < 0.7)
    margin, lean = np.exp(rng.uniform(np.log(0.3), np.log(6))), rng.choice([0, 0, 0.7, 1.5])
    y = rng.integers(classes, size=records)
    if signal == "clusters":
        apart = rng.normal(size=(classes, width))
        if rng.random() < 0.5:  # a few columns tell the classes apart
            apart *= rng.random(size=width) < max(0.1, 2 / width)
        apart *= margin / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-9)
        if rng.random() < 0.5:  # one class is as declared, the others differ from it
            apart[rng.integers(classes)] = 0
        y = rng.choice(classes, size=records, p=rng.dirichlet(np.full(classes, 20.0)))
        z += apart[y]
    entries, mass, start = [], 0.0, 0
    while start < width:
        kind = columns if columns != "mixed" else rng.choice(COLUMNS[:4])
        stop = min(width, start + (int(rng.integers(2, 9)) if kind == "categories" else 1))
        block = z[:, start:stop]
        if kind == "categories" and stop - start > 1:
            code = levels(rng, block)
            share = 0.0 if declared else 1 / (stop - start)
            entries.append(scaling.centred(code, stop - start) + share)
            mass += (stop - start) * scaling.level_mass(stop - start)
        else:
            if kind == "even numbers":
                block = np.sqrt(12) * (ndtr(block) - 0.5)
            elif kind == "long tails":
                block = np.exp(block.clip(-4, 4)) / 2 - 0.8
            careless = rng.choice([1.0, 1.0, 0.5, 2.0]) if declared else 1.0
            entries.append(scaling.standardised(block, rng.choice([0, 0, -0.5, 0.5]), careless))
            mass += stop - start
        start = stop
    e = np.hstack(entries)
    if signal != "clusters":
        source = traits if signal == "traits" else e
        weights = rng.normal(size=(source.shape[1], classes))
        if signal == "few columns":
            weights *= rng.random(size=(len(weights), 1)) < max(0.15, 2 / width)
        scores = source @ weights
        if signal == "products":
            for k in range(classes):
                one, other = rng.integers(e.shape[1], size=2)
                scores[:, k] += rng.normal() * scores[:, k].std() * e[:, one] * e[:, other]
        scores -= scores.mean(axis=0)
        scores *= margin / max(scores.std(), 1e-9) / (np.sqrt(2) if classes == 2 else 1)
        luck = (
            rng.gumbel(size=scores.shape) if rng.random() < 0.6 else rng.normal(size=scores.shape)
        )
        scores += luck + lean * rng.normal(size=classes)
        y = scores.argmax(axis=1)
    words = {"columns": str(columns), "signal": str(signal), "declared": declared}
    if declared:
        return scaling.finished(e, mass)[0], y, scaling.typical_constant(mass), words
    return np.asarray(rows.clip(rows.append_bias(e), 1.0)[0]), y, 0.0, words


def case(seed, classes=2):
    """One population and one training; None where a class is missing."""
    rng = np.random.default_rng(seed)
    records = int(np.exp(rng.uniform(np.log(120), np.log(20_000))))
    width = int(np.exp(rng.uniform(np.log(2), np.log(min(250, max(8, records / 4))))))
    x, y, constant, words = people(rng, records + TESTED, width, classes)
    if len(np.unique(y[:records])) < classes:
        return None
    servers = int(rng.choice([3, 5, 10]))
    epsilon = float(rng.choice([0.5, 1.0, 1.0, 2.0, 4.0]))
    budget = Budget(
        features_epsilon=float(rng.choice([0.5, 1.0, 1.0, 2.0])),
        features_delta=1e-6,
        colluding=rng.choice([None, None, 1]),
    )
    place = Place(
        server=0,
        n_servers=servers,
        degree=servers - 1,
        records=max(1, records // servers),
        epsilons=(epsilon,),
        width=x.shape[1],
        classes=classes,
        constant=constant,
    )
    plan = calibrated(budget, place, float(rng.choice(SHARES)))
    said = flip_labels(
        y[:records], np.full(records, epsilon), classes, Simulated(seed).stream(LABELS)
    )
    loss = plan.loss_for(classes)
    totals = sums.exact(x[:records], labels.codes(said, epsilon, classes), loss)
    noise = plan.noise_of_total(place)
    square = rng.normal(size=totals.square_sum.shape) * noise.square
    totals += sums.Sums(
        label_sum=rng.normal(size=totals.label_sum.shape) * noise.label,
        square_sum=(square + square.T) / 2,
        size=0.0,
    )
    given = measured(totals, noise, loss=loss, constant=constant)
    return Case(
        given=given,
        model=fit_measured(given, loss),
        loss=loss,
        x=x[records:],
        y=y[records:],
        words=words | {"records": records, "width": x.shape[1], "seed": seed, "epsilon": epsilon},
    )


def compare(first, many):
    """How many intervals hold, in a sentence."""
    found = []
    for one in filter(None, map(case, range(first, first + many))):
        told = expect(one.given, one.model, one.loss).accuracy
        found.append((told.low <= one.truth <= told.high, told.middle - one.truth))
    held, error = np.mean(found, axis=0)
    return f"{len(found)} trainings: {held:.0%} of intervals held, {100 * error:+.1f} points off"


if __name__ == "__main__":
    with threadpool_limits(1):
        print(compare(*map(int, sys.argv[1:])))
