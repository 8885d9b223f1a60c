"""The smallest ε that reaches an accuracy, on public or synthetic records of the same shape as
those to be trained on.

Every question "does ε do?" is answered by real trainings, several seeds in one sweep, under the
plan proposed for that ε. The seeds are the same for all ε (common random numbers: the same device
flips at ε if it flips at a larger one), so that the answers to neighbouring ε differ by ε and
hardly by luck, and bisection makes sense.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pdml import _validate
from pdml._math import bisect, geometric
from pdml._types import Array, IntArray, Matrix
from pdml.accounting import Budget
from pdml.errors import BudgetExceeded, InvalidInput
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import DEAL, LABELS, Simulated
from pdml.numerics.admm import labels, rows
from pdml.numerics.admm.graph import Graph
from pdml.planning.search.planner import Proposal, Sizes, propose
from pdml.training.engines import local_engine
from pdml.training.server import Server

LOWEST, HIGHEST = 0.05, 16.0  # the ε searched


@dataclass(frozen=True, kw_only=True)
class Reached:
    """The smallest ε found, the plan it was reached with, and what was measured on the way, as (ε,
    accuracy).
    """

    epsilon: float
    accuracy: float
    proposal: Proposal
    tried: tuple[tuple[float, float], ...]


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
) -> Reached:
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
    RoundsForecast
        That ε, its plan, and what was measured on the way.

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
    tried: list[tuple[float, float]] = []

    def attempt(epsilon: float) -> tuple[float, Proposal | None]:
        allowed = (
            Budget(features_epsilon=epsilon, labels_epsilon=epsilon) if budget is None else budget
        )
        outcome: tuple[float, Proposal | None] = (0.0, None)
        with suppress(BudgetExceeded):
            outcome = trial.run(epsilon, allowed)
        tried.append((epsilon, outcome[0]))
        return outcome

    accuracy, proposal = attempt(HIGHEST)
    if proposal is None or accuracy < target_accuracy:
        best = (
            "no plan meets the budget"
            if proposal is None
            else f"even epsilon {HIGHEST:g} reaches {accuracy:.1%} only"
        )
        without = trial.noiseless()
        more = (
            "without any noise the same records give"
            if without > accuracy
            else "a training without noise does no better, with"
        )
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
    return Reached(
        epsilon=epsilon, accuracy=accuracy, proposal=proposal, tried=tuple(sorted(tried))
    )


class _Trial:
    """Public records dealt to the servers of a graph, and a part held out."""

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
        if len(y) != clipped.shape[0] or y.min(initial=0) < 0 or y.max(initial=0) >= classes:
            raise InvalidInput(
                f"y must hold one class index below {classes} per record "
                f"({clipped.shape[0]} of them)"
            )
        test_size = len(y) // 4
        sizes = (
            np.full(graph.n, (len(y) - test_size) // graph.n)
            if records is None
            else np.asarray(records)
        )
        if (
            len(sizes) != graph.n
            or sizes.min() < 1
            or sizes.sum() + test_size > len(y)
            or test_size < 1
        ):
            raise InvalidInput(
                f"like must hold records for {graph.n} servers and as many as a third of "
                f"them to test on, got {len(y)}"
            )
        order = Simulated(0).stream(DEAL).permutation(len(y))
        self.test = rows.as_rows(clipped[order[:test_size]]), y[order[:test_size]]
        kept = order[test_size : test_size + int(sizes.sum())]
        self.x, self.y = rows.as_rows(clipped[kept]), y[kept]
        self.cuts = np.concatenate([[0], np.cumsum(sizes)])
        self.slices = [
            rows.take(self.x, int(a), int(b))
            for a, b in zip(self.cuts[:-1], self.cuts[1:], strict=True)
        ]
        self.graph, self.classes, self.norm_bound, self.seeds = graph, classes, norm_bound, seeds
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
        proposal = propose(budget, sizes, self.graph, like=(self.x, self.y), method="rounds")
        return self._accuracy(epsilon, proposal), proposal

    def noiseless(self) -> float:
        """The accuracy without flips and noise."""
        plan = propose(Budget(), replace(self.sizes, epsilon=30.0), self.graph, method="rounds")
        return self._accuracy(np.inf, plan)

    def _accuracy(self, epsilon: float, proposal: Proposal) -> float:
        runs = []
        for seed in range(self.seeds if np.isfinite(epsilon) else 1):
            source = Simulated(seed)
            codes = labels.codes(self._reported(epsilon, source), epsilon, self.classes)
            runs.append(local_engine.Run(proposal.plan, self._servers(codes, epsilon), source))
        trained = local_engine.sweep(self.graph, runs)
        return float(
            np.mean(
                [
                    np.mean(self._predict(out.released.mean(axis=0)) == self.test[1])
                    for out in trained
                ]
            )
        )

    def _reported(self, epsilon: float, source: Simulated) -> IntArray:
        return flip_labels(
            self.y, np.full(len(self.y), epsilon), self.classes, source.stream(LABELS)
        )

    def _servers(self, codes: Array, epsilon: float) -> list[Server]:
        sizes = replace(self.sizes, epsilon=epsilon)
        return [
            Server(sizes.server_spec(i, self.graph), part, codes[a:b], self.x)
            for i, (part, (a, b)) in enumerate(zip(self.slices, pairwise(self.cuts), strict=True))
        ]

    def _predict(self, weights: Array) -> IntArray:
        scores = np.asarray(self.test[0] @ weights.T)
        return (scores[:, 0] > 0).astype(np.int64) if self.classes == 2 else scores.argmax(axis=1)
