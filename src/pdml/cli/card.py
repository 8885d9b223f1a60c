"""What a finished training looks like to its readers: on the screen, as JSON, and as the report's
page.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import isinf
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pdml
from pdml._types import Matrix
from pdml.cli import screen
from pdml.release.estimator import PDMLClassifier
from pdml.release.model import Model
from pdml.report import numbers

SIMULATED = (
    "Simulated: one process played every party and drew the noise from a pseudo-random "
    "generator, so this run itself "
    "protected nobody; the figures say what a deployment with these settings would give away."
)
WEAK = 0.99  # whoever can be so sure is hardly kept from knowing
PAGE_LEAK = "the page shows figures computed from records without noise: keep it inside"
INSIDE = "computed from records without noise, so that no file holds it: keep it inside"
INSIDE_ONLY = ("accuracy", "servers.accuracy", "mean_server_accuracy", "clipped")  # of the summary


@dataclass(frozen=True, kw_only=True)
class Training:
    """A fitted classifier, and what is known about it from outside."""

    fitted: PDMLClassifier
    names: tuple[str, ...]  # of the servers
    accuracies: tuple[float, ...] | None  # of the servers' own last releases, on held-out records
    accuracy: float | None  # of the released model

    @property
    def rows(self) -> list[tuple[str, int, int, float | None]]:
        records = self.fitted.model_.provenance["records_per_server"]
        accuracies = self.accuracies or (None,) * len(self.names)
        return list(
            zip(self.names, records, self.fitted.graph_.degrees.tolist(), accuracies, strict=True)
        )

    @property
    def disagreement(self) -> str:
        last = self.fitted.history_.consensus[-1]
        size = float(np.linalg.norm(np.column_stack([self.fitted.coef_, self.fitted.intercept_])))
        return (
            "Largest distance between two servers' last releases (consensus): "
            f"{last:.3g}; the model's own length is {size:.3g}."
        )


def measure(
    fitted: PDMLClassifier, names: Sequence[str], x: Matrix | None, truth: NDArray[Any] | None
) -> Training:
    """Accuracy of every server and of the released model on records that were not trained on, if
    there are any.
    """
    if x is None or truth is None:
        return Training(fitted=fitted, names=tuple(names), accuracies=None, accuracy=None)
    each = tuple(float(np.mean(model.predict(x) == truth)) for model in fitted.server_models_)
    return Training(
        fitted=fitted,
        names=tuple(names),
        accuracies=each,
        accuracy=float(np.mean(fitted.predict(x) == truth)),
    )


def released(fitted: PDMLClassifier, *, leaks: Sequence[str], **changes: Any) -> Model:
    """The model as a file: the estimator's, with the version and the leaks that concern the file
    itself.
    """
    own = fitted.model_.provenance
    provenance = {**own, "leaks": [*own["leaks"], *leaks], "pdml_version": pdml.__version__}
    return replace(fitted.model_, provenance=provenance, **changes)


def summary(training: Training, model: Model, **more: Any) -> dict[str, Any]:
    """The whole outcome as plain values for --json."""
    each = training.accuracies
    return {
        "classes": list(model.classes),
        "accuracy": training.accuracy,
        **more,
        "servers": [
            {"name": name, "records": m, "links": links, "accuracy": a}
            for name, m, links, a in training.rows
        ],
        "consensus_distance": float(training.fitted.history_.consensus[-1]),
        "mean_server_accuracy": None if each is None else sum(each) / len(each),
        "plan": model.plan,
        "privacy": model.privacy,
        "clipped": training.fitted.n_clipped_,
        "inside_only": list(INSIDE_ONLY),
        "leaks": [*model.provenance["leaks"], *page_leaks(training)],
        "noise_source": model.provenance["noise_source"],
    }


def page_leaks(training: Training) -> list[str]:
    """What the page holds that no noise protects: nothing unless it was asked for."""
    return [PAGE_LEAK] if training.fitted.diagnostics else []


def counted(training: Training) -> str:
    """Which trainings the ledger is about."""
    return f"The ledger counts {training.fitted.model_.privacy['counted']}."


def inside(training: Training) -> list[str]:
    """What only whoever holds the records may know: words for the terminal, never for a file."""
    fitted = training.fitted
    if not fitted.n_clipped_:
        return []
    total = sum(fitted.model_.provenance["records_per_server"])
    bias = " (which counts the constant 1 of every record)" if fitted.fit_intercept else ""
    return [
        f"{fitted.n_clipped_:,} of {total:,} records were longer than the norm bound "
        f"{fitted.norm_bound:g}{bias} and shrunk to it; this count is {INSIDE}."
    ]


def remarks(training: Training) -> list[str]:
    """What whoever chose the settings should know about where they lead: it follows from them."""
    fitted = training.fitted
    said = []
    line = fitted.privacy_.line("features", "other servers")
    if line.certainty > WEAK:
        spent, how = line.epsilon, "not" if isinf(line.epsilon) else "hardly"
        said.append(
            f"Against other servers, features are {how} protected (epsilon "
            f"{numbers.significant(spent)}): train fewer rounds, or with "
            "a larger noise scale, a slower noise decay (closer to 1), a larger penalty, "
            "or more records per server."
        )
    return said


def show_privacy(out: Any, training: Training, *notes: str) -> None:
    """The ledger, in words first."""
    lines = training.fitted.privacy_.lines()
    screen.show(out, screen.PEOPLE, screen.privacy_table(lines), screen.even_odds(lines))
    out.print()
    said = (*inside(training), *remarks(training), counted(training))
    for note in (*notes, *said, SIMULATED):
        out.print(note)


def settings(training: Training, **more: str) -> dict[str, str]:
    """The public settings, as people read them."""
    plan = training.fitted.model_.plan
    shown = {
        name.replace("_", " "): _plain(value) for name, value in plan.items() if value is not None
    }
    return {**more, **shown, "norm bound": _plain(training.fitted.norm_bound)}


def _plain(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_plain, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def page(
    training: Training,
    *,
    title: str,
    lead: str,
    settings: dict[str, str],
    notes: Sequence[str],
    accuracies: bool,
    **more: Any,
) -> Any:
    """The page: a function of releases and public settings, unless diagnostics were asked for.

    ``accuracies``: show them, because the records they were measured on are nobody's, or because
    that was asked for.
    """
    from pdml.report.page import Page, ServerRow

    fitted = training.fitted
    servers = tuple(
        ServerRow(name=name, records=m, links=links, accuracy=accuracy if accuracies else None)
        for name, m, links, accuracy in training.rows
    )
    return Page(
        title=title,
        lead=lead,
        history=fitted.history_,
        n_servers=fitted.graph_.n,
        edges=fitted.graph_.edges,
        servers=servers,
        released_accuracy=training.accuracy if accuracies else None,
        lines=tuple(fitted.privacy_.lines()),
        source=fitted.privacy_.source,
        settings=settings,
        notes=(*notes, *page_leaks(training), *remarks(training), counted(training)),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by pdml {pdml.__version__}",
        **more,
    )
