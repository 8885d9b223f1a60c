"""The page of a study's training: of one trust domain, or of a result, which is the same to the
byte for everybody."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pdml.accounting.kinds import DEVICES, randomiser_note
from pdml.formatting import numbers
from pdml.pages.charts.training_charts import coefficient_figure, effects_figure
from pdml.pages.training_page import Page, creation_note, render
from pdml.training.result import SINGLE_DOMAIN

if TYPE_CHECKING:
    from pdml.node.job.job_result import JobResult
    from pdml.study import Study
    from pdml.training.result import TrainingResult

_CLAIMS = (
    "Each organisation has signed what it sent, heard and spent in every round, and `pdml verify` "
    "checks it against what the others have signed. How many records it has, where its labels were "
    "randomised, and that it drew its noise: these are its own word."
)
_SIMULATED = "Simulated: the noise came from a seeded generator, so this run protected nobody."
_TOGETHER = "The ledger says what the parties would have learnt had each run its own node."


def training_page(study: "Study", result: "TrainingResult") -> Page:
    """The page of a study that one trust domain has trained."""
    figure = coefficient_figure(result.intervals, study.encoder.feature_names, study.classes)
    return replace(
        _page(study, result),
        notes=notes_of(result),
        coefficients=figure,
        effects=effects_figure(result.additive_effects, study.classes),
        creation_note=creation_note(),
    )


def result_page(job: "JobResult") -> str:
    """The page of a result.

    Parameters
    ----------
    job : JobResult
        Of statements that agree.

    Returns
    -------
    str
        HTML without scripts, dates, versions or names of machines.
    """
    page = _page(job.study, job.result)
    return render(replace(page, notes=(*notes_of(job.result), _CLAIMS), signed=True))


def _page(study: "Study", result: "TrainingResult") -> Page:
    """What both have in common."""
    plan = {name: value for name, value in result.plan.to_dict().items() if value is not None}
    return Page.of(
        result,
        title=study.title,
        lead=lead(study, result),
        accuracy_note="no records were kept to measure it on",
        settings={
            "study": study.id,
            "study hash": study.hash,
            "job": result.origin["job"],
            "terms": result.origin["terms"],
            **{name.replace("_", " "): str(value) for name, value in plan.items()},
        },
    )


def lead(study: "Study", result: "TrainingResult") -> str:
    """What was trained on, in a sentence."""
    everywhere = all(part.randomised_by == DEVICES for part in result.parts)
    where = "on people's devices" if everywhere else "as the notes say"
    features, classes = study.encoder.n_features, ", ".join(study.classes)
    data = f"{numbers.count(result.records, 'report')} with {numbers.count(features, 'feature')}"
    graph = result.graph
    sizes = numbers.sizes("organisation", graph.n, graph.n_edges, result.rounds)
    return f"{data}, classes {classes}; labels randomised {where}; {sizes}."


def notes_of(result: "TrainingResult") -> tuple[str, ...]:
    """What a reader must know about each server's data, and about the ledger."""
    notes = [f"The ledger counts {result.counted}."]
    for part in result.parts:
        used = f"{part.name}'s data set was used before; its ledger holds the earlier jobs too."
        notes += [randomiser_note(part.name, part.randomised_by), used if part.earlier else ""]
    if not result.separate_nodes:
        notes.append(f"{SINGLE_DOMAIN.capitalize()}. {_TOGETHER}")
    if result.ledger.source == "simulated":
        notes.append(_SIMULATED)
    return tuple(sentence for sentence in notes if sentence)
