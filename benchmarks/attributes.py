"""What sensitive attributes cost on Adult: marital status and relationship through coins of their
own, one exchange of sums without other noise; and what a planner expects beforehand, with 12,000
public people like them (of those who are learnt from) and by sizes alone.

    python -m benchmarks.attributes [SPLITS]
"""

import sys

import numpy as np

from pdml.encoding import device_encoding
from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, SUMS, Simulated
from pdml.numerics import coded_rows
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.sums import statistics
from pdml.numerics.sums.fit import Noise, fit_sums
from pdml.planning.forecast.synthetic import populations
from pdml.planning.search import sums_search
from pdml.planning.sizes import PlannedAnswer, Sizes
from pdml.planning.training_plan import TrainingPlan
from pdml.research.datasets import adult
from pdml.tables import Table

SENSITIVE = ("marital-status", "relationship")
# low, high, average, spread: what one would write down without looking at the data
NUMBERS = {
    "age": (17, 90, 40, 10),
    "education-num": (1, 16, 10, 3),
    "capital-gain": (0, 99_999, 0, 3_000),
    "capital-loss": (0, 5_000, 0, 500),
    "hours-per-week": (1, 99, 40, 10),
}
FIRST, LEARNT, EPSILON = 100, 32_000, 1.0
PUBLIC = 12_000


def people():
    """Adult as a table of answers, and who earns much."""
    data = adult.load()
    dense, names = np.asarray(data.X.todense()), list(data.columns)
    columns = {name: dense[:, names.index(name)] for name in NUMBERS}
    levels = {}
    for field in adult.CATEGORICAL:
        own = [k for k, name in enumerate(names) if name.startswith(f"{field}=")]
        levels[field] = tuple(names[k].partition("=")[2] for k in own)
        columns[field] = np.array(levels[field])[dense[:, own].argmax(axis=1)]
    return columns, levels, (data.y > 0).astype(int)


def encoder(levels, how):
    """``how``: "clear", "left out", or the ε of the sensitive ones."""
    asked = [
        Number(name=name, low=low, high=high, average=average, spread=spread)
        for name, (low, high, average, spread) in NUMBERS.items()
    ]
    for name, choices in levels.items():
        if name in SENSITIVE and how == "left out":
            continue
        menu = None
        if name in SENSITIVE and how != "clear":
            menu = Menu(menu=(how,), default=how, accept_weak=how > 2.9)
        asked.append(Category(name=name, levels=choices, epsilon=menu))
    return Encoder(attributes=tuple(asked))


def accuracy(how, seed, columns, levels, y):
    source = Simulated(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    learnt, held = order[:LEARNT], order[LEARNT:]
    tables = [Table(columns={k: v[part] for k, v in columns.items()}) for part in (learnt, held)]
    one = encoder(levels, how)
    x = device_encoding.encode_table(one, tables[0], source.stream(SUMS)).astype(float)
    test, _ = one.rows(one.read(tables[1]))
    said = flip_labels(y[learnt], np.full(LEARNT, EPSILON), 2, source.stream(LABELS))
    found = statistics.exact(x, labels.codes(said, EPSILON, 2), LOGISTIC, one.blocks)
    noise = Noise(label=0.0, square=0.0, coded=coded_rows.variance(one.blocks, x.shape[1]))
    weights = fit_sums(found, noise, loss=LOGISTIC).weights[0]
    return float(np.mean((test @ weights > 0) == y[held]))


def forecasts(how, columns, levels, y):
    """The accuracy that rehearsals expect: on public people, and on made-up populations."""
    one = encoder(levels, how)
    answers = tuple(PlannedAnswer(block=block, epsilon=how) for block in one.blocks)
    sizes = Sizes(
        records=(LEARNT // 10,) * 10, width=one.n_features + 1, epsilon=EPSILON, answers=answers
    )
    public = np.random.default_rng(FIRST).permutation(len(y))[:PUBLIC]
    table = Table(columns={k: v[public] for k, v in columns.items()})
    like = one.rows(one.read(table))[0], y[public]
    silent = TrainingPlan(method="sums", label_noise=0.0, square_noise=0.0)
    for times, known in ((12, like), (1, None)):
        found = sums_search.score(silent, sizes, populations(sizes, known), times)
        yield float(found[..., 1].mean())


def main(splits=10):
    data = people()
    print("           measured      expected, public  by sizes")
    for how in ("clear", "left out", 4.0, 2.0, 1.0, 0.5):
        each = [accuracy(how, FIRST + k, *data) for k in range(splits)]
        error = np.std(each, ddof=1) / np.sqrt(splits)
        public, sizes = forecasts(how, *data)
        print(
            f"{how!s:>9}  {100 * np.mean(each):.2f} ± {100 * error:.2f}"
            f"  {100 * public:16.2f}  {100 * sizes:8.2f}"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
