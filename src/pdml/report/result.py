"""The page of a study's training: of one trust domain, or of a result, which is the same to the
byte for everybody.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pdml
from pdml.accounting.provenance import DEVICES, note
from pdml.release.consortium import ONE_DOMAIN
from pdml.report import html, numbers, steady
from pdml.report.page import Page, ServerRow, render

if TYPE_CHECKING:
    from pdml.release.consortium import Outcome
    from pdml.release.history import History
    from pdml.release.result import Result
    from pdml.release.training import TrainedStudy
    from pdml.study import Study

_CLAIMS = (
    "Each organisation has signed what it sent, heard and spent in every round, and `pdml verify` "
    "checks it against what the others have signed. How many records it has, where its labels were "
    "randomised, and that it drew its noise: these are its own word."
)
_SIMULATED = "Simulated: the noise came from a seeded generator, so this run protected nobody."
_TOGETHER = "The ledger says what the parties would have learnt had each run its own node."


def training_page(trained: "TrainedStudy") -> Page:
    """The page of a study that one trust domain has trained.

    Parameters
    ----------
    trained : TrainedStudy
        As `pdml.train_study` gives it.

    Returns
    -------
    Page
        For `pdml.report.page.write`.
    """
    study, outcome = trained.study, trained.outcome
    graph, plan = outcome.contract.graph, outcome.contract.plan.to_dict()
    shown = {name.replace("_", " "): str(told) for name, told in plan.items() if told is not None}
    return Page(
        title=study.title,
        lead=lead(study, outcome),
        history=trained.history,
        n_servers=graph.n,
        edges=graph.edges,
        servers=_servers(outcome),
        accuracy_note="no records were kept to measure it on",
        lines=tuple(outcome.ledger.lines()),
        source=outcome.source,
        settings={
            "study": study.id,
            "study hash": study.hash,
            "job": outcome.contract.job,
            **shown,
        },
        notes=notes_of(outcome),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by pdml {pdml.__version__}",
    )


def _servers(outcome: "Outcome") -> tuple[ServerRow, ...]:
    degrees = outcome.contract.graph.degrees.tolist()
    return tuple(
        ServerRow(name=part.server, records=part.records, links=links)
        for part, links in zip(outcome.parts, degrees, strict=True)
    )


def result_page(result: "Result") -> str:
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
    study, outcome, contract = result.study, result.outcome, result.contract
    settings = {key: value for key, value in contract.plan.to_dict().items() if value is not None}
    history = outcome.history()
    return render(
        Page(
            title=study.title,
            lead=lead(study, outcome),
            history=history,
            n_servers=contract.graph.n,
            edges=contract.graph.edges,
            servers=_servers(outcome),
            accuracy_note="no records were kept to measure it on",
            lines=tuple(outcome.ledger.lines()),
            source=outcome.source,
            settings={
                "study": study.id,
                "study hash": study.hash,
                "job": contract.job,
                "terms": contract.digest,
                **{key.replace("_", " "): str(value) for key, value in settings.items()},
            },
            notes=(*notes_of(outcome), _CLAIMS),
            figures=tuple(_figures(result, history)),
        )
    )


def lead(study: "Study", outcome: "Outcome") -> str:
    """What was trained on, in a sentence.

    Parameters
    ----------
    study : Study
        The contract.
    outcome : Outcome
        What was released.

    Returns
    -------
    str
        Plain words.
    """
    contract, total = outcome.contract, sum(part.records for part in outcome.parts)
    everywhere = all(part.randomised_by == DEVICES for part in outcome.parts)
    where = "on people's devices" if everywhere else "as the notes say"
    features, classes = study.encoder.n_features, ", ".join(study.classes)
    data = f"{numbers.count(total, 'report')} with {numbers.count(features, 'feature')}"
    counts = {
        "organisation": len(contract.servers),
        "link": contract.graph.n_edges,
        "round": contract.plan.rounds,
    }
    sizes = ", ".join(numbers.count(value, noun) for noun, value in counts.items())
    return f"{data}, classes {classes}; labels randomised {where}; {sizes}."


def notes_of(outcome: "Outcome") -> tuple[str, ...]:
    """What a reader must know about each server's data, and about the ledger.

    Parameters
    ----------
    outcome : Outcome
        What was released.

    Returns
    -------
    tuple of str
        Sentences.
    """
    said = [f"The ledger counts {outcome.counted}."]
    for part in outcome.parts:
        used = f"{part.server}'s data set was used before; its ledger holds the earlier jobs too."
        said += [note(part.server, part.randomised_by), used if part.earlier else ""]
    if not outcome.own_nodes:
        said.append(f"{ONE_DOMAIN.capitalize()}. {_TOGETHER}")
    if outcome.source == "simulated":
        said.append(_SIMULATED)
    return tuple(sentence for sentence in said if sentence)


def _figures(result: "Result", history: "History") -> Iterator[str]:
    names, edges = result.contract.servers, result.contract.graph.edges
    spent, apart = history.spent.tolist(), history.consensus.tolist()
    start, end = (numbers.significant(value) for value in (apart[0], apart[-1]))
    rounds = numbers.count(len(spent), "round")
    yield html.figure(
        steady.rounds_figure(
            "spent",
            "Privacy spent by round",
            f"ε of features against other servers, {numbers.epsilon(spent[-1])} after {rounds}.",
            "ε so far",
            [("ε", spent)],
        ),
        "Privacy spent on features",
        "What all other servers together could learn of one person’s features grows by the round.",
    )
    yield html.figure(
        steady.rounds_figure(
            "consensus",
            "Agreement between the servers by round",
            f"Distances between models go from {start} to {end} in {rounds}.",
            "Length of a vector",
            [("distance between models", apart), ("noise of a server", history.noise.tolist())],
        ),
        "Do the servers agree?",
        "How far apart the two most different linked models are, after the last round the two most "
        "different of all; and how much noise a server adds before it sends.",
    )
    links = f"{numbers.count(len(names), 'server')}, {numbers.count(len(edges), 'link')}."
    if len(edges) > steady.DRAWN_LINKS:
        links += f" Of the links, {numbers.count(steady.DRAWN_LINKS)} are drawn."
    yield html.figure(
        steady.graph_figure("Who talks to whom", links, names, edges),
        "Who talks to whom",
        f"{links} Models travel along links only; records never do.",
    )
