"""The pages of tables: of a simulated training, one like the demo's, or of an evaluation."""

from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml.accounting import LedgerRow
from pdml.accounting.kinds import Adversary, Data
from pdml.formatting import numbers
from pdml.model.model import read_ledger_rows
from pdml.model.private_evaluation import CountedEvaluation
from pdml.pages.charts.training_charts import coefficient_figure, effects_figure
from pdml.pages.evaluation_text import REFERENCE, Assessment
from pdml.pages.training_page import Page, creation_note
from pdml.training.result import INSIDE

if TYPE_CHECKING:
    from pdml.model.evaluation import Evaluation
    from pdml.model.model import Model
    from pdml.training.result import TrainingResult

WEAK = 0.99  # whoever can be so sure is hardly kept from knowing


def table_page(trained: "TrainingResult") -> Page:
    """The page of a table's training."""
    diagnostics = trained.diagnostics
    return training_page(
        trained,
        title=f"{trained.model.label}, learnt from {Path(trained.source).name}",
        lead=table_lead(trained),
        accuracies=diagnostics,
        accuracy_note=INSIDE if trained.test_records and not diagnostics else measured_on(trained),
        extra_settings={"label epsilon": _label_epsilon(trained)},
        reference_accuracy=trained.reference_accuracy if diagnostics else None,
        reference_note=REFERENCE,
    )


def table_lead(trained: "TrainingResult") -> str:
    """What was trained on, how, and by how many."""
    model, graph = trained.model, trained.graph
    names = [str(name) for name in model.classes]
    classes = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    column = trained.epsilon_column
    randomised = (
        f"each person's own epsilon (column {column})"
        if column
        else f"epsilon {_label_epsilon(trained)}"
    )
    return (
        f"{trained.records:,} records with {len(model.feature_names)} features, classes "
        f"{classes}; labels randomised with {randomised}; "
        f"{numbers.sizes('server', graph.n, graph.n_edges, trained.rounds)}."
    )


def assess(trained: "TrainingResult") -> Assessment | None:
    """How well it predicts, if it was measured: not to be published where the records are
    somebody's."""
    if trained.evaluation is None:
        return None
    return Assessment(evaluation=trained.evaluation, reference=trained.reference_accuracy)


def measured_on(trained: "TrainingResult") -> str:
    """What an accuracy was measured on."""
    if not trained.test_records:
        return "no records were kept to measure it on"
    return f"on {trained.test_records:,} records that were not trained on"


def remarks(trained: "TrainingResult") -> list[str]:
    """What whoever chose the settings should know about where they lead: it follows from them."""
    sentences = [f"{note[:1].upper()}{note[1:]}." for note in trained.ledger.notes]
    line = trained.ledger.row(Data.FEATURES, Adversary.OTHERS)
    if line.certainty > WEAK:
        spent, how = line.epsilon, "not" if isinf(line.epsilon) else "hardly"
        way_out = (
            "train fewer rounds, or with a larger noise scale, a slower noise decay (closer to 1), "
            "a larger penalty, or more records per server"
            if trained.rounds
            else "add more noise to the sums"
        )
        sentences.append(
            f"Against all other servers together, features are {how} protected (epsilon "
            f"{numbers.significant(spent)}): {way_out}."
        )
    return [*sentences, f"The ledger counts {trained.model.privacy['counted']}."]


def training_page(
    trained: "TrainingResult", *, accuracies: bool, extra_settings: dict[str, str], **more: Any
) -> Page:
    """``accuracies``: show them, because the records they were measured on are nobody's, or because
    that was asked for."""
    assessment = assess(trained)
    measured = filter(None, [assessment.verdict] if accuracies and assessment else [])
    names, classes = trained.model.feature_names, trained.model.classes
    return Page.of(
        trained,
        accuracies=accuracies,
        released_accuracy=trained.accuracy if accuracies else None,
        assessment=assessment if accuracies else None,
        majority=trained.majority if accuracies else _estimated_majority(trained),
        coefficients=coefficient_figure(trained.intervals, names, classes),
        effects=effects_figure(trained.additive_effects, classes),
        doubts=(*measured, *trained.doubts),
        settings=_settings(trained, extra_settings),
        notes=(*trained.model.provenance["leaks"], *trained.page_leaks, *remarks(trained)),
        creation_note=creation_note(),
        **more,
    )


def _estimated_majority(trained: "TrainingResult") -> float | None:
    """The accuracy of the majority-class baseline by what was released, after sums."""
    if trained.expected is None or trained.gain is None:
        return None
    return max(0.0, trained.expected.accuracy.middle - trained.gain.middle)


def _settings(trained: "TrainingResult", extra_settings: dict[str, str]) -> dict[str, str]:
    """The public settings, as people read them."""
    plan = {
        name.replace("_", " "): numbers.setting(value)
        for name, value in trained.model.plan.items()
        if value is not None
    }
    return {**extra_settings, **plan, "norm bound": numbers.setting(trained.model.norm_bound)}


def _label_epsilon(trained: "TrainingResult") -> str:
    column, same = trained.epsilon_column, trained.label_epsilon
    return f"column {column}" if column else "inf" if same is None else f"{same:g}"


KEEP = (
    "These figures are computed from the records without noise: whoever is shown them is shown "
    "something of these people."
)
NO_NOISE = "none, these figures are exact"


def evaluation_page(
    model: "Model",
    evaluation: "Evaluation | CountedEvaluation",
    *,
    source: str = "",
    privacy: dict[str, Any] | None = None,
) -> Page:
    """The page of an evaluation.

    Parameters
    ----------
    model : Model
        What was evaluated.
    evaluation : Evaluation or CountedEvaluation
        Without noise or with it.
    source : str
        The table's name.
    privacy : dict, optional
        What the release tells (`pdml.model.private_evaluation.privacy_charge`).

    Returns
    -------
    Page
        For `pdml.pages.training_page.write`.
    """
    view = Assessment(evaluation=evaluation)
    lines: tuple[LedgerRow, ...] = () if privacy is None else tuple(read_ledger_rows(privacy))
    accuracy = evaluation.accuracy
    where = f" of {source}" if source else ""
    on = f"on {numbers.count(evaluation.records, 'record')}{where}"
    counted = () if privacy is None else (f"The ledger counts {privacy['counted']}.",)
    return Page(
        title=f"{model.label or 'A model'}, evaluated",
        lead=f"How well the model predicts {numbers.count(evaluation.records, 'record')}{where}.",
        n_servers=1,
        edges=(),
        released_accuracy=accuracy if isinstance(accuracy, float) else accuracy.value,
        accuracy_note=on,
        assessment=view,
        doubts=tuple(filter(None, [view.verdict])),
        keep="" if view.noisy else KEEP,
        lines=lines,
        source=evaluation.source if isinstance(evaluation, CountedEvaluation) else NO_NOISE,
        notes=counted,
        creation_note=creation_note(),
    )
