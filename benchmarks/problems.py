"""The trainings that are measured. HARD is the configuration every figure names."""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.numerics.admm import labels, rows
from pdml.numerics.admm.graph import Graph
from pdml.planning.server_spec import RowSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.research.datasets import adult
from pdml.training import local_engine
from pdml.training.server import Server

EPSILON = 1.0
HARD = TrainingPlan(
    rounds=100,
    regularization=0.01,
    penalty=0.01,
    objective_bound=0.1,
    objective_noise="uniform_ball",
    noise_scale=0.1,
    noise_decay=0.8,
)


@dataclass(frozen=True)
class Problem:
    graph: Graph
    run: local_engine.Run

    @property
    def pooled(self):
        return self.run.servers[0].pooled


def adult_records(storage):
    """45,000 of Adult's complete records in a random order, rows of norm <= 1, in this storage."""
    raw = adult.load()
    order = np.random.default_rng(0).permutation(len(raw.y))[:45_000]
    x = adult.unit_rows(raw)[order]
    return (sp.csr_array(x) if storage == "csr" else x.toarray()), (raw.y[order] > 0).astype(
        np.int64
    )


def federation(x, y, n=10, *, relative=None, seed=0, plan=HARD):
    """n servers with equal slices of x; ``relative``: certify every solve to this fraction of its
    first gradient.
    """
    source = Simulated(seed)
    links = round(1.3 * n)
    graph = Graph.random(n, links, np.random.default_rng(1))
    reported = flip_labels(y, np.full(len(y), EPSILON), 2, source.stream(LABELS))
    codes = labels.codes(reported, EPSILON, 2)
    size = len(y) // n
    terms = TrainingTerms.over(graph, RowSpec(width=x.shape[1]))
    servers = [
        Server(
            terms.server_spec(i, records=size, epsilons=(EPSILON,)),
            rows.take(x, i * size, (i + 1) * size),
            codes[i * size : (i + 1) * size],
            x,
        )
        for i in range(n)
    ]
    if relative is not None:
        first = (
            float(np.linalg.norm(server.linear(plan, plan.loss_for(2), source)))
            for server in servers
        )
        plan = replace(plan, tolerance=tuple(relative * norm for norm in first))
    return Problem(graph, local_engine.Run(plan, servers, source))


def reference(x, y, plan=HARD, n=10):
    """One ordinary fit of the pooled data: the same ridge per record, no privacy."""
    strength = 1 / (plan.regularization / n * len(y))
    return LogisticRegression(C=strength, tol=1e-8, max_iter=10_000, fit_intercept=False).fit(x, y)
