"""Records of an evaluation under attack, by its table of counts (docs/guide/evaluate.md).

The adversary knows the model and all records but one, so it knows what would be counted in either
world and how wide the noise is said to be: the likelihood ratio of two Gaussians is the best test
there is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pdml._types import Array, IntArray
from pdml.accounting import Ledger
from pdml.accounting.kinds import Adversary, Data
from pdml.audit.confidence import DELTAS, Finding, compare, strongest_separation
from pdml.audit.victim import CHUNK
from pdml.mechanisms.count_release import Counting
from pdml.mechanisms.randomness import Simulated
from pdml.model.model import Model
from pdml.model.private_evaluation import count, exact_counts
from pdml.research.processes import run_parallel

CLASSES, COLUMNS = 3, 2
_OTHERS = 3  # records beside the one in question
_NOISE = 0.8  # deviations, of which a pair in two cells is √2 apart


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluated:
    """The records of one evaluation; record 0 is the one in question."""

    model: Model
    counting: Counting
    features: Array
    truth: IntArray

    def with_record(self, numbers: Array) -> "Evaluated":
        """The same with another record 0, and another label of it: the largest of as many numbers
        as there are classes.
        """
        features, truth = self.features.copy(), self.truth.copy()
        features[0], truth[0] = numbers[:COLUMNS], np.argmax(numbers[COLUMNS:])
        return replace(self, features=features, truth=truth)

    def exact(self) -> Array:
        """What would be released without noise."""
        counts = exact_counts(self.model, self.features, self.truth, self.counting)
        return counts.ravel().astype(float)

    def claims(self) -> Mapping[float, float]:
        """The ledger's ε at every δ of `DELTAS`."""
        spent = ((self.counting.event,),)
        ledgers = {delta: Ledger(spent, delta=delta, classes=CLASSES) for delta in DELTAS}
        return {d: each.row(Data.FEATURES, Adversary.OTHERS).epsilon for d, each in ledgers.items()}


def evaluated() -> Evaluated:
    """A model that is sure of some records, and hardly of others."""
    model = Model(
        classes=tuple(range(CLASSES)),
        coefficients=np.array([[4.0, 0.0], [-2.0, 3.0], [-2.0, -3.0]]),
        intercepts=np.zeros(CLASSES),
        norm_bound=1.0,
        fit_intercept=False,
    )
    return Evaluated(
        model=model,
        counting=Counting(stddev=_NOISE, classes=CLASSES),
        features=np.zeros((1 + _OTHERS, COLUMNS)),
        truth=np.arange(1 + _OTHERS) % CLASSES,
    )


def apart(pair: tuple[Evaluated, Evaluated]) -> float:
    """How far the two tables lie apart, in deviations."""
    difference = pair[0].exact() - pair[1].exact()
    return float(np.linalg.norm(difference)) / pair[0].counting.event.stddev


def releases(world: Evaluated, runs: int, seed: int, jobs: int) -> Array:
    """Independent tables, (runs, cells)."""
    seeds = np.random.SeedSequence(seed).generate_state(runs, np.uint64)
    tasks = [(world, chunk) for chunk in np.array_split(seeds, max(1, runs // CHUNK))]
    return np.concatenate(run_parallel(_releases, tasks, jobs))


def _releases(world: Evaluated, seeds: IntArray) -> Array:
    tables = [
        count(
            world.model, world.features, world.truth, world.counting, source=Simulated(int(seed))
        ).counts.ravel()
        for seed in seeds
    ]
    return np.array(tables)


def distinguish(
    name: str, pair: tuple[Evaluated, Evaluated], runs: int, seed: int, jobs: int
) -> Finding:
    """Which world is it? By the likelihood ratio, and by Fisher's test on all cells beside it."""
    samples = [releases(world, runs, seed + k, jobs) for k, world in enumerate(pair)]
    direction = pair[1].exact() - pair[0].exact()
    scores: Sequence[Array] = [(sample @ direction)[:, None] for sample in samples]
    claims = pair[0].claims()
    separation = strongest_separation(((scores[0], scores[1]), (samples[0], samples[1])), claims)
    return compare(
        name,
        claims[separation.delta],
        separation.epsilon,
        f"from one table, at delta {separation.delta:g}, with {runs:,} runs per world; a guess at "
        f"even odds is right {separation.accuracy:.1%} of the time",
    )
