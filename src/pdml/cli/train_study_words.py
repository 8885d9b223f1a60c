"""What `pdml train study.toml` tells: the report's page, the summary for machines, the tables on a screen."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdml.release.consortium import Outcome
    from pdml.study import Study

SIMULATED = "Simulated: the noise came from a seeded generator, so this run protected nobody."
TOGETHER = "The ledger says what the parties would have learnt had each run its own node."


def _rows(outcome: "Outcome") -> list[tuple[str, int, int, None]]:
    degrees = outcome.contract.graph.degrees
    return [(part.server, part.records, int(degrees[i]), None) for i, part in enumerate(outcome.parts)]


def _notes(outcome: "Outcome") -> list[str]:
    from pdml.accounting.provenance import note
    from pdml.release.consortium import ONE_DOMAIN

    said = []
    for part in outcome.parts:
        if labels := note(part.server, part.labels):
            said.append(labels)
        if part.earlier:
            said.append(f"{part.server}'s data set was used before; its ledger holds the earlier jobs too.")
    said.append(f"The ledger counts {outcome.counted}.")
    if not outcome.own_nodes:
        said.append(f"{ONE_DOMAIN.capitalize()}. {TOGETHER}")
    if outcome.source == "simulated":
        said.append(SIMULATED)
    return said


def _lead(study: "Study", outcome: "Outcome") -> str:
    from pdml.accounting.provenance import DEVICES
    from pdml.report import numbers

    total, contract = sum(part.records for part in outcome.parts), outcome.contract
    everywhere = all(part.labels == DEVICES for part in outcome.parts)
    where = "on people's devices" if everywhere else "as the notes say"
    sizes = {"organisation": len(contract.servers), "link": contract.graph.n_edges, "round": contract.plan.rounds}
    return (
        f"{total:,} reports with {study.encoder.n_features} features, classes "
        f"{', '.join(study.classes)}; labels randomised {where}; "
        f"{', '.join(numbers.count(size, noun) for noun, size in sizes.items())}."
    )


def write_page(path: Path, study: "Study", outcome: "Outcome") -> None:
    import pdml
    from pdml.report.page import Page, ServerRow, write

    plan = outcome.contract.plan.to_dict()
    shown = {name.replace("_", " "): str(value) for name, value in plan.items() if value is not None}
    page = Page(
        title=study.title,
        lead=_lead(study, outcome),
        history=outcome.history(),
        n_servers=outcome.contract.graph.n,
        edges=outcome.contract.graph.edges,
        servers=tuple(ServerRow(name=name, records=m, links=links) for name, m, links, _ in _rows(outcome)),
        accuracy_note="no records were kept to measure it on",
        lines=tuple(outcome.ledger.lines()),
        source=outcome.source,
        settings={"study": study.id, "study hash": study.hash, "job": outcome.contract.job, **shown},
        notes=tuple(_notes(outcome)),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by pdml {pdml.__version__}",
    )
    write(path, page)


def summary(outcome: "Outcome", model: Any, engine: str, files: dict[str, Path]) -> dict[str, Any]:
    return {
        "study": model.provenance["study"],
        "job": outcome.contract.job,
        "engine": engine,
        "classes": list(model.classes),
        "servers": [
            {"name": name, "records": m, "links": links, "labels_randomised": part.labels}
            for (name, m, links, _), part in zip(_rows(outcome), outcome.parts, strict=True)
        ],
        "consensus_distance": outcome.consensus,
        "plan": model.plan,
        "privacy": model.privacy,
        "noise_source": outcome.source,
        "files": {name: str(path) for name, path in files.items()},
    }


def show(study: "Study", outcome: "Outcome", files: dict[str, Path]) -> None:
    from pdml.cli import screen

    out = screen.console()
    screen.show(out, study.title, screen.accuracy_table(_rows(outcome), ()), _lead(study, outcome))
    ledger = outcome.ledger
    sentence = f"Starting from 50%, for the person protected least; against other servers but for a chance of {ledger.delta:g} (delta)."
    screen.show(out, "If I said yes, how sure can they be?", screen.privacy_table(ledger.lines()), sentence)
    out.print()
    for note in _notes(outcome):
        out.print(note)
    screen.list_files(out, files)
