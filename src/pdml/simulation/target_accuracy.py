"""The smallest ε that reaches an accuracy on public records, by bisection over real trainings under
the plan proposed for each ε. All ε have the same seeds (common random numbers), so that neighbours
hardly differ by luck.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pdml import _validate
from pdml._math import bisect, geometric
from pdml._types import Array, IntArray, Matrix
from pdml.accounting import Budget
from pdml.accounting.kinds import Method
from pdml.errors import BudgetExceeded, InvalidInput
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, PARTITION, Simulated
from pdml.numerics.admm import labels, rows
from pdml.numerics.admm.graph import Graph
from pdml.planning.search.planner import Proposal, Sizes, propose
from pdml.training import local_engine
from pdml.training.server import Server

LOWEST, HIGHEST = 0.05, 16.0  # the ε searched


@dataclass(frozen=True, kw_only=True)
class SmallestEpsilon:
    """The smallest ε, its plan, and all that were measured, as (ε, accuracy)."""

    epsilon: float
    accuracy: float
    proposal: Proposal
    measured: tuple[tuple[float, float], ...]


def smallest_epsilon(
    target_accuracy: float,
    X: Matrix,
    y: IntArray,
    graph: Graph,
    *,
    budget: Budget | None = None,
    records: tuple[int, ...] | None = None,
    classes: int = 2,
    norm_bound: float = 1.0,
    seeds: int = 4,
    resolution: float = 1.1,
) -> SmallestEpsilon:
    """The smallest label ε whose trainings reach an accuracy on public records.

    Parameters
    ----------
    target_accuracy : float
        The share of held-out records to predict; a quarter is held out.
    X : matrix
        Public records as they would be trained on: encoded, with a constant column.
    y : array
        Their class indices.
    graph : Graph
        Who is linked to whom.
    budget : Budget, optional
        Against other servers. By default it moves along, features and labels at the same ε and
        δ = 10⁻⁶, so that one number scales everything.
    records : tuple of int, optional
        Of each server; by default what ``X`` gives, and never more.
    classes : int
        How many the label has.
    norm_bound : float
        Longer records are clipped to it.
    seeds : int
        Trainings for each ε that is tried.
    resolution : float
        The factor to which ε is found.

    Returns
    -------
    SmallestEpsilon
        With its plan, and what was measured on the way.

    Raises
    ------
    InvalidInput
        If no ε reaches it.
    """
    _validate.real(
        "target_accuracy",
        target_accuracy,
        low=0,
        high=1,
        open_low=True,
        open_high=True,
        why="it is a share of records",
    )
    _validate.integer("seeds", seeds, low=1)
    trial = _Trial(X, np.asarray(y), graph, records, classes, norm_bound, seeds)
    measured: list[tuple[float, float]] = []

    def attempt(epsilon: float) -> tuple[float, Proposal | None]:
        limit = budget or Budget(features_epsilon=epsilon, labels_epsilon=epsilon)
        outcome: tuple[float, Proposal | None] = (0.0, None)
        with suppress(BudgetExceeded):
            outcome = trial.run(epsilon, limit)
        measured.append((epsilon, outcome[0]))
        return outcome

    accuracy, proposal = attempt(HIGHEST)
    if proposal is None or accuracy < target_accuracy:
        best = f"even epsilon {HIGHEST:g} reaches {accuracy:.1%} only"
        if proposal is None:
            best = "no plan meets the budget"
        without, more = trial.noiseless(), "a training without noise does no better, with"
        if without > accuracy:
            more = "without any noise the same records give"
        raise InvalidInput(
            "target_accuracy must be one that these records can reach, got "
            f"{target_accuracy:.1%}: {best}, and {more} {without:.1%}",
            setting="target_accuracy",
        )

    def reaches(epsilon: float) -> bool:
        nonlocal accuracy, proposal
        reached, candidate = attempt(epsilon)
        if candidate is None or reached < target_accuracy:
            return False
        accuracy, proposal = reached, candidate
        return True

    epsilon = bisect(reaches, HIGHEST, LOWEST, relative=1 - 1 / resolution, middle=geometric)
    return SmallestEpsilon(
        epsilon=epsilon, accuracy=accuracy, proposal=proposal, measured=tuple(sorted(measured))
    )


class _Trial:
    """Public records assigned to the servers of a graph, and a quarter of them to test on."""

    def __init__(
        self,
        x: Matrix,
        y: IntArray,
        graph: Graph,
        records: tuple[int, ...] | None,
        classes: int,
        norm_bound: float,
        seeds: int,
    ) -> None:
        clipped, _ = rows.clip(rows.as_rows(x), norm_bound)
        total, test_size = len(y), len(y) // 4
        if total != clipped.shape[0] or y.min(initial=0) < 0 or y.max(initial=0) >= classes:
            raise InvalidInput(
                f"y must hold one class index below {classes} per record "
                f"({clipped.shape[0]} of them)"
            )
        sizes = np.asarray(records or [(total - test_size) // graph.n] * graph.n)
        if (
            len(sizes) != graph.n
            or sizes.min() < 1
            or sizes.sum() + test_size > total
            or test_size < 1
        ):
            raise InvalidInput(
                f"like must hold records for {graph.n} servers and as many as a third of "
                f"them to test on, got {total}"
            )
        order = Simulated(0).stream(PARTITION).permutation(total)
        self.test = rows.as_rows(clipped[order[:test_size]]), y[order[:test_size]]
        training = order[test_size : test_size + int(sizes.sum())]
        self.x, self.y = rows.as_rows(clipped[training]), y[training]
        self.spans = list(pairwise([0, *np.cumsum(sizes).tolist()]))
        self.slices = [rows.take(self.x, a, b) for a, b in self.spans]
        self.graph, self.seeds = graph, seeds
        self.sizes = Sizes(
            records=tuple(map(int, sizes)),
            width=clipped.shape[1],
            epsilon=1.0,
            classes=classes,
            norm_bound=norm_bound,
        )

    def run(self, epsilon: float, budget: Budget) -> tuple[float, Proposal]:
        """Mean accuracy over seeds of the plan proposed for ε, its servers' releases averaged."""
        sizes = replace(self.sizes, epsilon=epsilon)
        proposal = propose(budget, sizes, self.graph, like=(self.x, self.y), method=Method.ROUNDS)
        return self._accuracy(epsilon, proposal, self.seeds), proposal

    def noiseless(self) -> float:
        """The accuracy without flips and noise."""
        plan = propose(
            Budget(), replace(self.sizes, epsilon=30.0), self.graph, method=Method.ROUNDS
        )
        return self._accuracy(np.inf, plan, 1)

    def _accuracy(self, epsilon: float, proposal: Proposal, seeds: int) -> float:
        classes, epsilons = self.sizes.classes, np.full(len(self.y), epsilon)
        sizes = replace(self.sizes, epsilon=epsilon)
        runs = []
        for seed in range(seeds):
            source = Simulated(seed)
            reported = flip_labels(self.y, epsilons, classes, source.stream(LABELS))
            codes = labels.codes(reported, epsilon, classes)
            servers = [
                Server(sizes.server_spec(i, self.graph), part, codes[a:b], self.x)
                for i, (part, (a, b)) in enumerate(zip(self.slices, self.spans, strict=True))
            ]
            runs.append(local_engine.Run(proposal.plan, servers, source))
        trained = local_engine.sweep(self.graph, runs)
        predictions = (self._predict(out.released.mean(axis=0)) for out in trained)
        return float(np.mean([np.mean(guess == self.test[1]) for guess in predictions]))

    def _predict(self, weights: Array) -> IntArray:
        scores = np.asarray(self.test[0] @ weights.T)
        two = self.sizes.classes == 2
        return (scores[:, 0] > 0).astype(np.int64) if two else scores.argmax(axis=1)
