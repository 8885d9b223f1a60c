"""Write releases.json: what three servers release in a seeded training, and what the ledger says.

    python tests/vectors/make_releases.py [--check]

Written once and kept, so that a change of structure provably changes no noise and no number.
``--check`` writes nothing and compares every bit with the file. Releases by sums are integers and
the same on every machine; those by rounds go through a solver whose last bits depend on the
kernels of the linear algebra, so that the script runs itself with the kernels of AVX2 processors.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from pdml import PDMLClassifier
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.planning.server_spec import RowSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine
from pdml.training.server import Server

STORED = Path(__file__).parent / "releases.json"
SERVERS, RECORDS, WIDTH, EPSILON = 3, 40, 5, 1.0
GRAPH = Graph(SERVERS, ((0, 1), (1, 2), (0, 2)))
SUMS = TrainingPlan(method="sums", label_noise=4.0, square_noise=3.0)
ROUNDS = TrainingPlan(
    rounds=12,
    regularization=0.05,
    penalty=0.05,
    objective_bound=0.5,
    noise_scale=0.1,
    noise_decay=0.9,
    tolerance=1e-11,
)


def run(plan: TrainingPlan, classes: int) -> local_engine.Run:
    """Records on a dyadic grid, so that their sums are exact in any order."""
    rng = np.random.default_rng(11)
    x = rng.integers(-8, 9, size=(SERVERS * RECORDS, WIDTH)) / 32
    truth = rng.integers(0, classes, len(x))
    source = Simulated(5)
    reports = flip_labels(truth, np.full(len(x), EPSILON), classes, source.stream(LABELS))
    codes = labels.codes(reports, EPSILON, classes)
    parts = [slice(i * RECORDS, (i + 1) * RECORDS) for i in range(SERVERS)]
    terms = TrainingTerms.over(GRAPH, RowSpec(width=WIDTH, classes=classes))
    servers = [
        Server(terms.server_spec(i, records=RECORDS, epsilons=[EPSILON]), x[part], codes[part])
        for i, part in enumerate(parts)
    ]
    return local_engine.Run(plan, servers, source)


def by_sums(classes: int) -> list[list[int]]:
    """The integers that each server would mask and send."""
    return local_engine.exchange(run(SUMS, classes)).released.tolist()


def by_rounds(classes: int) -> np.ndarray:
    """The releases of all rounds: (rounds, servers, codes, width)."""
    rounds: list[np.ndarray] = []
    local_engine.train(
        GRAPH,
        run(ROUNDS, classes),
        observe=lambda t, released, _: rounds.append(released[0].copy()),
        threads=1,
        use_numba=False,
    )
    return np.array(rounds)


def ledger(**settings: Any) -> list[list[str]]:
    """The rows of an estimator's ledger."""
    rng = np.random.default_rng(3)
    x = rng.integers(-8, 9, size=(240, 3)) / 16
    y = (x[:, 0] + rng.integers(-4, 5, 240) / 16 > 0).astype(int)
    model = PDMLClassifier(n_servers=SERVERS, random_state=5, plan=settings).fit(x, y)
    return [
        [row.data, row.adversary, str(row.epsilon), str(row.delta)] for row in model.privacy_.rows()
    ]


def make() -> dict[str, Any]:
    return {
        "sums": {str(k): by_sums(k) for k in (2, 3)},
        "rounds": {
            str(k): {
                "last": by_rounds(k)[-1].tolist(),
                "bits": hashlib.sha256(by_rounds(k).tobytes()).hexdigest(),
            }
            for k in (2, 3)
        },
        "ledger": {
            "sums": ledger(method="sums"),
            "rounds": ledger(method="rounds", rounds=20),
        },
    }


if __name__ == "__main__":
    if "OPENBLAS_CORETYPE" not in os.environ:  # it counts before NumPy is imported
        os.execve(
            sys.executable,
            [sys.executable, *sys.argv],
            os.environ | {"OPENBLAS_CORETYPE": "Haswell"},
        )
    text = json.dumps(make(), indent=1) + "\n"
    if "--check" in sys.argv:
        if text != STORED.read_text():
            sys.exit("a release or a ledger row differs from tests/vectors/releases.json")
        print("bit-equal")
    else:
        STORED.write_text(text)
