"""How rows should be made of declared columns: accuracies of one exchange of sums on made-up tables
of raw numbers and categories (docs/concepts/encoding.md).

    python -m benchmarks.encoding 100 400 [careless | wide]    # seeds 100 to 499

A table has 6 to 80 columns in units of their own: normal, skewed, heavy-tailed, uniform, counts
with many zeros, two-humped, and categories; some correlated. What a person would declare is made
from the population with the care that a person has: mean and deviation to one significant digit,
or a range. Labels have ε = 1, features (1, 10⁻⁶) against all other servers.
"""

import sys
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pdml.accounting import Budget
from pdml.encoding import scaling
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.sums import statistics
from pdml.numerics.sums.fit import fit_sums
from pdml.planning.search.sums_search import calibrate
from pdml.planning.sizes import Sizes

EPSILON = 1.0
BUDGET = Budget(features_epsilon=1.0, features_delta=1e-6)
SHARE = 0.35
TESTED = 3000
SHAPES = ("normal", "skewed", "heavy", "uniform", "zeros", "humps")
SIGNALS = ("all", "few", "clusters", "factors")


def digit(value):
    """To one significant digit."""
    return float(f"{value:.0e}")


@dataclass(frozen=True)
class Raw:
    """A table, its classes, and what is declared of each column: (average, spread), (low, high), or
    the number of levels.
    """

    numbers: np.ndarray
    levels: list
    y: np.ndarray
    scales: np.ndarray
    ranges: np.ndarray
    counts: list
    records: int
    servers: int


def raw(seed, careless=False, wide=False):
    """A table of its own kind for each seed; ``wide``: of many categories alone."""
    rng = np.random.default_rng([seed, 7])
    columns = int(np.exp(rng.uniform(np.log(6), np.log(80))))
    records = int(np.exp(rng.uniform(np.log(300), np.log(15000))))
    servers = int(rng.choice([5, 10]))
    kind = rng.choice(["numbers", "categories", "mixed"], p=[0.5, 0.15, 0.35])
    if wide:
        columns, kind = max(columns, 30), "categories"
    share = {"numbers": 0.0, "categories": 1.0, "mixed": rng.uniform(0.2, 0.8)}[kind]
    many = records + TESTED
    factors = rng.normal(size=(many, int(rng.choice([1, 3, max(1, columns // 3)]))))
    loadings = rng.normal(size=(factors.shape[1], columns))
    loadings /= np.linalg.norm(loadings, axis=0)
    common = rng.beta(*[(1.2, 1.2), (0.7, 2.5), (4, 1.5)][int(rng.integers(3))], size=columns)
    y = (rng.random(many) < rng.uniform(0.3, 0.7)).astype(int)
    latent = factors @ loadings * np.sqrt(common)
    latent += rng.normal(size=latent.shape) * np.sqrt(1 - common)
    signal, margin = SIGNALS[seed % 4], float(rng.choice([0.7, 1.5, 3.0, 6.0]))
    if signal == "clusters":
        apart = rng.normal(size=columns) * (rng.random(columns) < rng.choice([0.3, 1.0]))
        apart[0] += 1e-9
        latent += margin * (2 * y[:, None] - 1) * apart / np.linalg.norm(apart) / 2
    else:
        found = factors if signal == "factors" else latent
        weights = rng.normal(size=found.shape[1])
        if signal == "few":
            weights *= rng.random(len(weights)) < max(0.2, 2 / len(weights))
            weights[0] += 1e-9
        score = found @ weights
        score = margin * score / score.std() + rng.normal() * 0.5
        y = (rng.random(many) < 1 / (1 + np.exp(-score))).astype(int)
    numbers, levels, counts, scales, ranges = [], [], [], [], []
    for j in range(columns):
        z = latent[:, j] / latent[:, j].std()
        if rng.random() < share:
            count = int(rng.choice([2, 2, 3, 4, 5, 8, 12]))
            cuts = np.sort(np.quantile(z, rng.dirichlet(np.full(count, 3.0)).cumsum()[:-1]))
            names = rng.permutation(count)
            levels.append(names[np.searchsorted(cuts, z)])
            counts.append(count)
            continue
        values = _shaped(z, SHAPES[int(rng.integers(len(SHAPES)))], rng)
        unit = 10 ** rng.uniform(-2, 4)
        values = (values + rng.normal() * rng.choice([0, 1, 5])) * unit
        average, spread = np.mean(values), values.std()
        if careless:  # a person may be off by half a spread, and by a factor of two
            average += rng.uniform(-0.5, 0.5) * spread
            spread *= 2 ** rng.uniform(-1, 1)
        scales.append((digit(average), digit(spread)))
        low, high = np.quantile(values, [0.001, 0.999])
        room = (high - low) * rng.uniform(0, 0.5, size=2)
        ranges.append((low - room[0], high + room[1]))
        numbers.append(values)
    stacked = np.column_stack(numbers) if numbers else np.zeros((many, 0))
    return Raw(
        stacked,
        levels,
        y,
        np.array(scales).reshape(-1, 2),
        np.array(ranges).reshape(-1, 2),
        counts,
        records,
        servers,
    )


def _shaped(z, shape, rng):
    """A column that grows with z, of another shape."""
    match shape:
        case "skewed":
            return np.exp(rng.uniform(0.4, 1.2) * z)
        case "heavy":
            return np.sinh(rng.uniform(0.7, 1.5) * z)
        case "uniform":
            return np.argsort(np.argsort(z)) / len(z)
        case "zeros":
            return np.maximum(np.exp(z) - rng.uniform(0.5, 2), 0)
        case "humps":
            return z + 2.5 * np.sign(z - rng.normal() * 0.5)
    return z


@dataclass(frozen=True)
class Way:
    """One way from declarations to rows."""

    numbers: str = "scales"  # or "unit": ranges to [0, 1]; or "range": about the middle
    limit: float = 3.0
    centred: bool = True
    size: float = 1.0  # inf: every row is brought to norm 1
    constant: float = 0.3
    quarters: float = 4.0
    by_mass: bool = True  # or all entries by 1/√attributes
    known: bool = False  # whether the model knows the constant of a typical row

    def rows(self, table):
        """Rows of norm at most 1, with their constant."""
        if self.numbers == "scales":
            average, spread = table.scales.T
        elif self.numbers == "unit":
            average, spread = table.ranges[:, 0], table.ranges[:, 1] - table.ranges[:, 0]
        else:
            low, high = table.ranges.T
            average, spread = (low + high) / 2, (high - low) / self.quarters
        e = np.clip((table.numbers - average) / spread, -self.limit, self.limit)
        if self.numbers == "unit":
            e = np.clip(e, 0, 1)
        parts, mass = [e], float(e.shape[1])
        for codes, count in zip(table.levels, table.counts, strict=True):
            part = scaling.centred(codes, count)
            parts.append(part if self.centred else part + 1 / count)
            mass += (count - 1) / count if self.by_mass else 1
        e = np.hstack(parts)
        if self.numbers == "unit":
            x = np.hstack([e, np.ones((len(e), 1))])
        else:
            size = 1.0 if np.isinf(self.size) else self.size
            x = np.hstack([e * size / np.sqrt(mass), np.full((len(e), 1), self.constant)])
        norm = np.linalg.norm(x, axis=1, keepdims=True)
        return x / (norm if np.isinf(self.size) else np.maximum(norm, 1))

    @property
    def row_constant(self):
        """The constant of a typical row, where it is known; else 0."""
        return self.constant / np.hypot(self.size, self.constant) if self.known else 0.0


@lru_cache(maxsize=4096)
def noise(records, servers):
    """Of the total, by the ledger."""
    sizes = Sizes(records=(records // servers,) * servers, width=20, epsilon=EPSILON)
    plan = calibrate(BUDGET, sizes.server_spec(0, Graph.ring(servers)), SHARE)
    return plan.noise_of_total(sizes.server_spec(0))


def accuracy(x, table, seed, constant=0.0):
    """Of the model that one exchange of sums tells, on records that nobody trained on."""
    m, y = table.records, table.y
    epsilons = np.full(m, EPSILON)
    said = flip_labels(y[:m], epsilons, 2, Simulated(seed).stream(LABELS))
    exact = statistics.exact(x[:m], labels.codes(said, epsilons, 2), LOGISTIC)
    added = noise(1 << (m - 1).bit_length(), table.servers)
    rng = np.random.default_rng([seed, 3])
    fresh = rng.normal(size=exact.square_sum.shape) * added.square
    noisy = statistics.Sums(
        label_sum=exact.label_sum + rng.normal(size=exact.label_sum.shape) * added.label,
        square_sum=exact.square_sum + (fresh + fresh.T) / 2,
        size=exact.size,
    )
    w = fit_sums(noisy, added, loss=LOGISTIC, constant=constant).weights
    return float(np.mean((x[m:] @ w[0] > 0) == y[m:]))


WAYS = {
    "[0, 1], constant 1": Way("unit", constant=1.0, centred=False),
    "middle of range, 1/2": Way("range", quarters=2.0),
    "middle of range, 1/4": Way("range"),
    "middle of range, 1/6": Way("range", quarters=6.0),
    "average, spread": Way(),
    "... limit 2": Way(limit=2.0),
    "... limit 5": Way(limit=5.0),
    "... no limit": Way(limit=1e9),
    "... not centred": Way(centred=False),
    "... size 0.7": Way(size=0.7),
    "... size 0.85": Way(size=0.85),
    "... size 1.2": Way(size=1.2),
    "... size 1.5": Way(size=1.5),
    "... norm 1": Way(size=np.inf),
    "... constant 0.1": Way(constant=0.1),
    "... constant 0.2": Way(constant=0.2),
    "... constant 0.5": Way(constant=0.5),
    "... constant 1": Way(constant=1.0),
    "... by attributes": Way(by_mass=False),
    "... size 2": Way(size=2.0),
    "... norm 1, constant 0.2": Way(size=np.inf, constant=0.2),
    "... norm 1, constant 0.5": Way(size=np.inf, constant=0.5),
    "... size 1.5, 0.2": Way(size=1.5, constant=0.2),
    "... size 1.5, 0.2, known": Way(size=1.5, constant=0.2, known=True),
    "... size 1.5, 0.5": Way(size=1.5, constant=0.5),
    "... size 1.5, limit 5": Way(size=1.5, limit=5.0),
    "... size 1.5, limit 2": Way(size=1.5, limit=2.0),
}


def encoding(first, many, **kind):
    """Accuracies of every way, one for each table."""
    found = {name: [] for name in WAYS}
    for seed in range(first, first + many):
        table = raw(seed, **kind)
        for name, way in WAYS.items():
            found[name].append(accuracy(way.rows(table), table, seed, way.row_constant))
    return {name: np.array(each) for name, each in found.items()}


if __name__ == "__main__":
    first, many, *kind = sys.argv[1:]
    found = encoding(int(first), int(many), **dict.fromkeys(kind, True))
    for name, each in found.items():
        more = 100 * (each - found["average, spread"])
        error = more.std() / np.sqrt(len(more))
        print(f"{name:26} {100 * each.mean():6.2f} {more.mean():+6.2f} ± {error:.2f}", flush=True)
