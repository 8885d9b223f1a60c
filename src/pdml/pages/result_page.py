"""The page of a study's training: of one trust domain, or of a result, which is the same to the
byte for everybody.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pdml
from pdml.accounting.kinds import Method
from pdml.accounting.provenance import DEVICES, note
from pdml.consortium.outcome import SINGLE_DOMAIN
from pdml.formatting import numbers
from pdml.pages.charts.training_charts import coefficient_figure
from pdml.pages.training_page import Page, ServerRow, render

if TYPE_CHECKING:
    from pdml.consortium.outcome import ConsortiumResult
    from pdml.consortium.result_folder import SignedResult
    from pdml.model.history import History
    from pdml.simulation.study_training import TrainedStudy
    from pdml.study import Study

_CLAIMS = (
    "Each organisation has signed what it sent, heard and spent in every round, and `pdml verify` "
    "checks it against what the others have signed. How many records it has, where its labels were "
    "randomised, and that it drew its noise: these are its own word."
)
_SIMULATED = "Simulated: the noise came from a seeded generator, so this run protected nobody."
_TOGETHER = "The ledger says what the parties would have learnt had each run its own node."


def training_page(trained: "TrainedStudy") -> Page:
    """The page of a study that one trust domain has trained."""
    creation_note = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by pdml {pdml.__version__}"
    page = _page(trained.study, trained.outcome, trained.history)
    figure = coefficient_figure(
        trained.outcome.intervals, trained.study.encoder.feature_names, trained.study.classes
    )
    return replace(
        page, notes=notes_of(trained.outcome), coefficients=figure, creation_note=creation_note
    )


def result_page(result: "SignedResult") -> str:
    """The page of a result.

    Parameters
    ----------
    result : Result
        Of statements that agree.

    Returns
    -------
    str
        HTML without scripts, dates, versions or names of machines.
    """
    outcome = result.outcome
    page = _page(result.study, outcome, outcome.history())
    return render(replace(page, notes=(*notes_of(outcome), _CLAIMS), signed=True))


def _page(study: "Study", outcome: "ConsortiumResult", history: "History") -> Page:
    """What both have in common."""
    contract, graph = outcome.contract, outcome.contract.graph
    plan = {name: value for name, value in contract.plan.to_dict().items() if value is not None}
    rows = zip(outcome.parts, graph.degrees.tolist(), strict=True)
    return Page(
        title=study.title,
        lead=lead(study, outcome),
        history=history if len(history.noise) else None,
        n_servers=graph.n,
        edges=graph.edges if len(history.noise) else (),
        expected=outcome.expected,
        servers=tuple(ServerRow(part.server, part.records, links) for part, links in rows),
        accuracy_note="no records were kept to measure it on",
        lines=tuple(outcome.ledger.rows()),
        coalitions=outcome.ledger.every_coalition,
        source=outcome.source,
        settings={
            "study": study.id,
            "study hash": study.hash,
            "job": contract.job,
            "terms": contract.digest,
            **{name.replace("_", " "): str(value) for name, value in plan.items()},
        },
    )


def lead(study: "Study", outcome: "ConsortiumResult") -> str:
    """What was trained on, in a sentence."""
    contract, total = outcome.contract, sum(part.records for part in outcome.parts)
    everywhere = all(part.randomised_by == DEVICES for part in outcome.parts)
    where = "on people's devices" if everywhere else "as the notes say"
    features, classes = study.encoder.n_features, ", ".join(study.classes)
    data = f"{numbers.count(total, 'report')} with {numbers.count(features, 'feature')}"
    rounds = contract.plan.rounds if contract.plan.method == Method.ROUNDS else 0
    links = contract.graph.n_edges
    sizes = numbers.sizes("organisation", len(contract.servers), links, rounds)
    return f"{data}, classes {classes}; labels randomised {where}; {sizes}."


def notes_of(outcome: "ConsortiumResult") -> tuple[str, ...]:
    """What a reader must know about each server's data, and about the ledger."""
    notes = [f"The ledger counts {outcome.ledger_scope}."]
    for part in outcome.parts:
        used = f"{part.server}'s data set was used before; its ledger holds the earlier jobs too."
        notes += [note(part.server, part.randomised_by), used if part.earlier else ""]
    if not outcome.separate_nodes:
        notes.append(f"{SINGLE_DOMAIN.capitalize()}. {_TOGETHER}")
    if outcome.source == "simulated":
        notes.append(_SIMULATED)
    return tuple(sentence for sentence in notes if sentence)
