"""The whole method on the paper's Twonorm benchmark, with simulated people, and the same without
privacy.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pdml.encoding.encoding import Encoding
from pdml.errors import PDMLError
from pdml.formatting import numbers
from pdml.mechanisms.label_flip import LabelFlip
from pdml.model.model import load_model
from pdml.simulation.generators import twonorm
from pdml.training.result import TrainingResult, measure

if TYPE_CHECKING:
    from pdml.pages.training_page import Page

USERS, TESTED = 7_000, 3_900
SERVERS, LINKS = 10, 13  # as in the paper's evaluation
NAME = "pdml demo"

Progress = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Two trainings of the same people on the same graph."""

    private: TrainingResult
    unprotected: TrainingResult  # no flips, no noise
    epsilon: float
    seed: int

    @property
    def flip_probability(self) -> float:
        """Of each label."""
        return LabelFlip(self.epsilon).flip_probability


def run_demo(
    *,
    epsilon: float = 1.0,
    features_epsilon: float | None = 1.0,
    rounds: int | None = None,
    seed: int = 1,
    diagnostics: bool = False,
    progress: Progress = lambda title: nullcontext(lambda done, of: None),
) -> Demo:
    """Train on 7,000 simulated people of the Twonorm benchmark, privately and without privacy.

    Parameters
    ----------
    epsilon : float
        How private each label is on the device.
    features_epsilon : float or None
        The most that other servers may learn of a person's features; None sets no limit.
    rounds : int, optional
        By default as the planner finds best.
    seed : int
        Another seed: other people, another graph, other noise.
    diagnostics : bool
        Also the risk, round by round, which no noise protects.
    progress : callable
        From a title a context in which a callable hears (rounds done, of how many).

    Returns
    -------
    Demo
        Both trainings, measured on 3,900 fresh records.

    Examples
    --------
    >>> run_demo(rounds=3).private.records
    7000
    """
    from pdml.simulation.estimator import PDMLClassifier

    _ = LabelFlip(epsilon).threshold  # refuses a bad epsilon before the work
    rng = np.random.default_rng(seed)
    people, fresh = twonorm(USERS, rng), twonorm(TESTED, rng)
    trained: list[TrainingResult] = []
    for title, label_epsilon, limit in (
        ("Training privately", epsilon, features_epsilon),
        ("The same without privacy", None, None),
    ):
        method = trained[0].plan.method if trained else None
        with progress(title) as hear:
            model = PDMLClassifier(
                label_epsilon,
                features_epsilon=limit,
                plan={"method": method, "rounds": rounds},
                n_servers=SERVERS,
                topology=("random", LINKS),
                # normal, as the paper has them
                encoding=Encoding(scales=[(0, 1)] * people[0].shape[1]),
                classes=(-1, 1),
                diagnostics=diagnostics,
                random_state=seed,
            )
            model.fit(people[0], people[1].astype(int), on_round=hear)
        trained.append(_evaluate(model.result_, label_epsilon, fresh))
    return Demo(private=trained[0], unprotected=trained[1], epsilon=epsilon, seed=seed)


def demo_page(demo: Demo) -> "Page":
    """The page of the demo, beside the same training without privacy."""
    from pdml.pages import table_pages  # not before there is something to draw

    trained, unprotected = demo.private, demo.unprotected
    show_risk = trained.diagnostics and trained.rounds
    risk = float(unprotected.history.risk[-1]) if show_risk else None
    graph = trained.graph
    return table_pages.training_page(
        trained,
        title="PDML demo: Twonorm",
        lead=f"{trained.records:,} simulated people flipped their labels with epsilon = "
        f"{demo.epsilon:g}; {numbers.sizes('server', graph.n, graph.n_edges, trained.rounds)}.",
        accuracies=True,
        accuracy_note=f"on {TESTED:,} fresh records of the same kind",
        extra_settings={"label epsilon": f"{demo.epsilon:g}", "seed": str(demo.seed)},
        reference_accuracy=unprotected.accuracy,
        reference_risk=risk,
    )


def is_demo_model(path: Path) -> bool:
    """Whether a file is the model of an earlier demo, which a new one may replace."""
    try:
        return load_model(path).provenance.get("made_by") == NAME
    except PDMLError:
        return False


def _evaluate(
    result: TrainingResult, epsilon: float | None, fresh: tuple[np.ndarray, np.ndarray]
) -> TrainingResult:
    x, y = fresh
    names = tuple(f"x{k}" for k in range(1, x.shape[1] + 1))
    named = result.replaced(
        inputs={**result.inputs, "feature_names": names, "label": "y"},
        producer={**result.producer, "made_by": NAME},
        label_epsilon=epsilon,
    )
    return measure(named, x, (y > 0).astype(int))
