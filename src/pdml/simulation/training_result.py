"""A simulated training, and what is known about it from outside."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

import pdml
from pdml._types import IntArray, Matrix
from pdml.accounting import Ledger
from pdml.model.evaluation import REFERENCE, Evaluation, evaluate, reference_accuracy
from pdml.model.history import History
from pdml.model.intervals import Intervals
from pdml.model.model import Model
from pdml.numerics.sums.expected_accuracy import Expectation
from pdml.simulation.simulation import Simulation

INSIDE = "computed from records without noise, so that no file holds it: do not publish it"
PAGE_LEAK = "the page shows figures computed from records without noise: keep it inside"
_TABLE = ("classes", "encoder", "feature_names", "label")  # what a table adds to a model
# What of `Trained.summary` is computed from records without noise.
INSIDE_ONLY = (
    *("accuracy", "majority_accuracy", "reference_accuracy", "evaluation"),
    *("servers.accuracy", "mean_server_accuracy", "clipped"),
)


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """A simulation with its model and the accuracy on records that were not trained on.

    Attributes
    ----------
    simulation : Simulation
        Done; its classes are indices if the records were a table's.
    model : Model
        What is released, with names, leaks and version: ``model.save("model.json")``.
    servers : tuple of str
        Their names.
    evaluation : Evaluation, optional
        Of the released model, on records that were not trained on. Computed from records without
        noise: keep it inside.
    reference_accuracy : float, optional
        What the same records would have given without any protection
        (`pdml.model.evaluation.REFERENCE`). In no file: keep it inside as well.
    server_accuracies : tuple of float, optional
        Of each server's own last release; to be kept inside as well. None after an exchange of
        sums, where there is one model and all have it.
    source : str
        The table's name, if it was one.
    epsilon_column : str
        The column of people's own ε, if there was one.
    """

    simulation: Simulation
    model: Model
    servers: tuple[str, ...]
    evaluation: Evaluation | None = None
    reference_accuracy: float | None = None
    server_accuracies: tuple[float, ...] | None = None
    source: str = ""
    epsilon_column: str = ""

    @property
    def test_records(self) -> int:
        """How many records were kept to measure on."""
        return 0 if self.evaluation is None else self.evaluation.records

    @property
    def accuracy(self) -> float | None:
        """Of the released model on them: keep it inside."""
        return None if self.evaluation is None else self.evaluation.accuracy

    @property
    def majority(self) -> float | None:
        """What always saying their most frequent class would reach: keep it inside."""
        return None if self.evaluation is None else self.evaluation.majority

    @property
    def ledger(self) -> Ledger:
        """Who can learn what."""
        return self.simulation.privacy_

    @property
    def history(self) -> History:
        """Round by round."""
        return self.simulation.history_

    @property
    def records(self) -> int:
        """How many records were trained on."""
        return sum(self.model.provenance["records_per_server"])

    @property
    def rounds(self) -> int:
        """How many were done; 0 of an exchange of sums."""
        return len(self.history.noise)

    @property
    def consensus(self) -> float | None:
        """The largest distance between two servers' last releases; sums have none."""
        return float(self.history.consensus[-1]) if len(self.history.consensus) else None

    @property
    def expected(self) -> Expectation | None:
        """How good the model is by what was released alone, where that tells: see `Model`."""
        return self.model.expected

    @property
    def intervals(self) -> Intervals:
        """What noise does to each coefficient: a function of what was released."""
        return self.simulation.intervals_

    @property
    def house(self) -> dict[str, Model]:
        """Each server's model for its own house, by name, if it was asked for: not to be shared."""
        pairs = zip(self.servers, self.simulation.house_, strict=False)
        table_fields = {name: getattr(self.model, name) for name in _TABLE}
        return {name: replace(model, local=name, **table_fields) for name, model in pairs}

    @property
    def page_leaks(self) -> list[str]:
        """What the page holds that no noise protects: nothing unless it was asked for."""
        return [PAGE_LEAK] if self.simulation.diagnostics else []

    @property
    def rows(self) -> list[tuple[str, int, int, float | None]]:
        """For each server its name, records, links, and accuracy if it was measured."""
        records = self.model.provenance["records_per_server"]
        links = self.simulation.graph_.degrees.tolist()
        accuracies = self.server_accuracies or (None,) * len(self.servers)
        return list(zip(self.servers, records, links, accuracies, strict=True))

    def summary(self) -> dict[str, Any]:
        """The whole outcome as plain values; ``inside_only`` names those to be kept inside."""
        accuracies = self.server_accuracies
        return {
            "label": self.model.label,
            "classes": list(self.model.classes),
            "records": self.records,
            "test_records": self.test_records,
            "accuracy": self.accuracy,
            "majority_accuracy": self.majority,
            "reference_accuracy": self.reference_accuracy,
            "reference": REFERENCE if self.reference_accuracy is not None else None,
            "evaluation": None if self.evaluation is None else self.evaluation.to_dict(),
            "servers": [
                {"name": name, "records": m, "links": links, "accuracy": a}
                for name, m, links, a in self.rows
            ],
            "consensus_distance": self.consensus,
            "expected": None if self.expected is None else asdict(self.expected),
            "mean_server_accuracy": None
            if accuracies is None
            else sum(accuracies) / len(accuracies),
            "plan": self.model.plan,
            "privacy": self.model.privacy,
            "clipped": self.simulation.n_clipped_,
            "inside_only": list(INSIDE_ONLY),
            "doubts": self.simulation.doubts_,
            "leaks": [*self.model.provenance["leaks"], *self.page_leaks],
            "noise_source": self.model.provenance["noise_source"],
        }


def release_model(simulation: Simulation, *, leaks: Sequence[str] = (), **changes: Any) -> Model:
    """A simulation's model as a file: with the version, and the leaks that concern the file
    itself.
    """
    original = simulation.model_.provenance
    provenance = {
        **original,
        "leaks": [*original["leaks"], *leaks],
        "pdml_version": pdml.__version__,
    }
    return replace(simulation.model_, provenance=provenance, **changes)


def add_evaluation(
    trained: TrainingResult,
    x: Matrix,
    truth: IntArray,
    *,
    training_records: tuple[Matrix, IntArray] | None = None,
) -> TrainingResult:
    """With what the released model and every server's own reach on records that were not trained
    on.
    """
    models = trained.simulation.server_models_
    accuracies = tuple(float(np.mean(model.choose(x) == truth)) for model in models)
    beside = (
        None
        if training_records is None
        else reference_accuracy(trained.model, *training_records, x, truth)
    )
    return replace(
        trained,
        evaluation=evaluate(trained.model, x, truth),
        reference_accuracy=beside,
        server_accuracies=accuracies or None,
    )
