"""A simulated training, and what is known about it from outside."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pdml
from pdml._types import Matrix
from pdml.accounting import Ledger
from pdml.core.sums_expectation import Expectation
from pdml.release.estimator import PDMLClassifier
from pdml.release.form import Encoded
from pdml.release.history import History
from pdml.release.model import Model

INSIDE = "computed from records without noise, so that no file holds it: keep it inside"
PAGE_LEAK = "the page shows figures computed from records without noise: keep it inside"
_TABLE = ("classes", "encoder", "feature_names", "label")  # what a table adds to a model
# What of `Trained.summary` is computed from records without noise.
INSIDE_ONLY = ("accuracy", "servers.accuracy", "mean_server_accuracy", "clipped")


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A fitted classifier with its model and the accuracy on records that were not trained on.

    Attributes
    ----------
    classifier : PDMLClassifier
        Fitted; its classes are indices if the records were a table's.
    model : Model
        What is released, with names, leaks and version: ``model.save("model.json")``.
    servers : tuple of str
        Their names.
    test_records : int
        How many records were kept to measure on.
    accuracy : float, optional
        Of the released model. Computed from records without noise: keep it inside.
    server_accuracies : tuple of float, optional
        Of each server's own last release; to be kept inside as well. None after an exchange of
        sums, where there is one model and all have it.
    source : str
        The table's name, if it was one.
    epsilon_column : str
        The column of people's own ε, if there was one.
    """

    classifier: PDMLClassifier
    model: Model
    servers: tuple[str, ...]
    test_records: int = 0
    accuracy: float | None = None
    server_accuracies: tuple[float, ...] | None = None
    source: str = ""
    epsilon_column: str = ""

    @property
    def ledger(self) -> Ledger:
        """Who can learn what."""
        return self.classifier.privacy_

    @property
    def history(self) -> History:
        """Round by round."""
        return self.classifier.history_

    @property
    def records(self) -> int:
        """How many records were trained on."""
        return sum(self.model.provenance["records_per_server"])

    @property
    def consensus(self) -> float | None:
        """The largest distance between two servers' last releases; sums have none."""
        return float(self.history.consensus[-1]) if len(self.history.consensus) else None

    @property
    def expected(self) -> Expectation | None:
        """How good the model is by what was released alone, where that tells: see `Model`."""
        return self.model.expected

    @property
    def house(self) -> dict[str, Model]:
        """Each server's model for its own house, by name, if it was asked for: not to be shared."""
        each = zip(self.servers, self.classifier.house_, strict=False)
        taught = {name: getattr(self.model, name) for name in _TABLE}
        return {name: replace(model, house=name, **taught) for name, model in each}

    @property
    def page_leaks(self) -> list[str]:
        """What the page holds that no noise protects: nothing unless it was asked for."""
        return [PAGE_LEAK] if self.classifier.diagnostics else []

    @property
    def rows(self) -> list[tuple[str, int, int, float | None]]:
        """For each server its name, records, links, and accuracy if it was measured."""
        records = self.model.provenance["records_per_server"]
        links = self.classifier.graph_.degrees.tolist()
        accuracies = self.server_accuracies or (None,) * len(self.servers)
        return list(zip(self.servers, records, links, accuracies, strict=True))

    def summary(self) -> dict[str, Any]:
        """The whole outcome as plain values; ``inside_only`` names those to be kept inside."""
        each = self.server_accuracies
        return {
            "label": self.model.label,
            "classes": list(self.model.classes),
            "records": self.records,
            "test_records": self.test_records,
            "accuracy": self.accuracy,
            "servers": [
                {"name": name, "records": m, "links": links, "accuracy": a}
                for name, m, links, a in self.rows
            ],
            "consensus_distance": self.consensus,
            "expected": None if self.expected is None else asdict(self.expected),
            "mean_server_accuracy": None if each is None else sum(each) / len(each),
            "plan": self.model.plan,
            "privacy": self.model.privacy,
            "clipped": self.classifier.n_clipped_,
            "inside_only": list(INSIDE_ONLY),
            "leaks": [*self.model.provenance["leaks"], *self.page_leaks],
            "noise_source": self.model.provenance["noise_source"],
        }


def released(classifier: PDMLClassifier, *, leaks: Sequence[str] = (), **changes: Any) -> Model:
    """A fitted classifier's model as a file: with the version, and the leaks that concern the file
    itself.
    """
    own = classifier.model_.provenance
    provenance = {**own, "leaks": [*own["leaks"], *leaks], "pdml_version": pdml.__version__}
    return replace(classifier.model_, provenance=provenance, **changes)


def measured(trained: Trained, x: Matrix | Encoded, truth: NDArray[Any]) -> Trained:
    """With the accuracy of every server and of the released model on records that were not trained
    on.
    """
    fitted = trained.classifier
    plain = x.entries if isinstance(x, Encoded) else x
    each = tuple(float(np.mean(model.predict(plain) == truth)) for model in fitted.server_models_)
    accuracy = float(np.mean(fitted.predict(x) == truth))
    return replace(
        trained, test_records=len(truth), accuracy=accuracy, server_accuracies=each or None
    )
