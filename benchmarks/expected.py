"""Accuracy to expect, as totals tell it, against the truth, on made-up people with correlated and
one-hot columns (docs/evaluation/forecasts.md).

    python -m benchmarks.expected 70000 600    # made-up people: the first seed, and how many
    python -m benchmarks.expected 500          # real sets and the tutorial: the first of 24 splits

`numerics.sums.expected_accuracy` was chosen by seeds below 1,200 and 30,000 to 40,800. A truth is
measured on 6,000 other records, of real sets on all that are left.
"""

import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from pdml import Encoding, PDMLClassifier
from pdml.accounting import Budget
from pdml.encoding import row_steps, scaling
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.numerics.admm import labels, rows
from pdml.numerics.sums import statistics
from pdml.numerics.sums.expected_accuracy import expect
from pdml.numerics.sums.fit import fit_moments, normalise_totals
from pdml.planning.search.sums_search import SHARES, calibrate
from pdml.planning.server_spec import ServerSpec
from pdml.research.datasets import raetsch

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
        return (
            row_steps.take(row_steps.finish(mass, ()), e)[0],
            y,
            scaling.typical_constant(mass),
            words,
        )
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
    place = ServerSpec(
        server=0,
        n_servers=servers,
        degree=servers - 1,
        records=max(1, records // servers),
        epsilons=(epsilon,),
        width=x.shape[1],
        classes=classes,
        constant=constant,
    )
    plan = calibrate(budget, place, float(rng.choice(SHARES)))
    said = flip_labels(
        y[:records], np.full(records, epsilon), classes, Simulated(seed).stream(LABELS)
    )
    loss = plan.loss_for(classes)
    totals = statistics.exact(x[:records], labels.codes(said, epsilon, classes), loss)
    noise = plan.noise_of_total(place)
    square = rng.normal(size=totals.square_sum.shape) * noise.square
    totals += statistics.Sums(
        label_sum=rng.normal(size=totals.label_sum.shape) * noise.label,
        square_sum=(square + square.T) / 2,
        size=0.0,
    )
    given = normalise_totals(totals, noise, loss=loss, constant=constant)
    return Case(
        given=given,
        model=fit_moments(given, loss),
        loss=loss,
        x=x[records:],
        y=y[records:],
        words=words | {"records": records, "width": x.shape[1], "seed": seed, "epsilon": epsilon},
    )


def forecast(one):
    """Accuracy to expect: its interval and middle, with the truth."""
    accuracy = expect(one.given, one.model, one.loss).accuracy
    return accuracy.low, accuracy.middle, accuracy.high, one.truth


def describe(name, found):
    """How many intervals hold, in a sentence; narrow ones are below 15 points."""
    low, middle, high, truth = np.array(found).T
    inside, error, narrow = (low <= truth) & (truth <= high), middle - truth, high - low < 0.15
    words = (
        f"{name}: {len(found)} trainings, {np.mean(inside):.0%} of intervals held "
        f"(truth above {np.mean(truth > high):.0%}, below {np.mean(truth < low):.0%}), "
        f"{100 * np.mean(error):+.1f} points off, width {100 * np.mean(high - low):.0f}"
    )
    if narrow.any():
        words += f"; {narrow.sum()} narrow: mean error {100 * np.mean(np.abs(error[narrow])):.1f}"
    return words


def compare(first, many):
    """Sentences about made-up people, of all and of kinds."""
    cases = list(filter(None, map(case, range(first, first + many))))
    results = [(one.words, forecast(one)) for one in cases]
    kinds = {
        "all": lambda words: True,
        "below 300 records": lambda words: words["records"] < 300,
        "300 to 1,000 records": lambda words: 300 <= words["records"] <= 1000,
        "more records": lambda words: words["records"] > 1000,
        "one-hot": lambda words: words["columns"] == "categories",
    }
    for name, chosen in kinds.items():
        yield describe(name, [values for words, values in results if chosen(words)])


def tutorial(seed, records=6000, tested=20_000):
    """The table of docs/guide/tutorial-table.md, and what is declared of it."""
    rng = np.random.default_rng(seed)
    many = records + tested
    age, shifts = rng.integers(18, 101, size=many), rng.integers(0, 11, size=many)
    sex = pd.Categorical(rng.choice(["female", "male"], size=many))
    tired = rng.normal(age / 20 + shifts, 2) > 7.5
    table = pd.DataFrame({"age": age, "shifts": shifts, "sex": sex})
    declared = {
        "scales": {"age": (60, 25), "shifts": (5, 3)},
        "levels": {"sex": ["female", "male"]},
    }
    return table, np.where(tired, "yes", "no"), records, declared


def real(name, records, seed):
    """A set of Rätsch's in a random order; splice by its letters."""
    x, y = raetsch.load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    table = pd.DataFrame(x[order]).add_prefix("c")
    if name == "splice":
        letters = list("1234")
        table = table.astype(int).astype(str).astype(pd.CategoricalDtype(letters))
        return table, y[order], records, {"levels": dict.fromkeys(table, letters)}
    scale = zip(table, table.mean(), table.std(), strict=True)
    return table, y[order], records, {"scales": {c: (m, s) for c, m, s in scale}}


def train(table, y, records, declared, seed):
    """What the estimator expects of its model, with the truth; None where it trains by rounds."""
    model = PDMLClassifier(
        random_state=seed, n_servers=3, epsilon=1.0, encoding=Encoding(**declared)
    )
    model.fit(table[:records], y[:records])
    expected = model.model_.expected
    if expected is None:
        return None
    accuracy = expected.accuracy
    truth = model.score(table[records:], y[records:])
    return accuracy.low, accuracy.middle, accuracy.high, truth


def compare_sets(first, many=24):
    """Sentences about the tutorial and real sets, which served no choice but are few."""
    sets = {"tutorial": tutorial}
    small = (("twonorm", 200), ("twonorm", 500), ("waveform", 300), ("ringnorm", 300))
    small += (("banana", 300), ("image", 600), ("german", 600))
    for name, records in (*small, ("twonorm", 3000), ("waveform", 3000), ("banana", 3000)):
        sets[f"{name} {records}"] = partial(real, name, records)
    sets["splice letters 1994"] = partial(real, "splice", 1994)
    for name, make in sets.items():
        seeds = range(first, first + many)
        found = [train(*(make(seed=seed)), seed) for seed in seeds]
        found = [one for one in found if one is not None]
        yield describe(name, found) if found else f"{name}: trained by rounds"


if __name__ == "__main__":
    numbers = list(map(int, sys.argv[1:]))
    with threadpool_limits(1):
        for line in compare(*numbers) if len(numbers) > 1 else compare_sets(*numbers):
            print(line, flush=True)
