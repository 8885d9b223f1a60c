"""What `pdml train study.toml` tells: the report's page, the summary for machines, the tables on a
screen.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdml.release.consortium import Outcome
    from pdml.study import Study


def _rows(outcome: "Outcome") -> list[tuple[str, int, int, None]]:
    degrees = outcome.contract.graph.degrees
    return [
        (part.server, part.records, int(degrees[i]), None) for i, part in enumerate(outcome.parts)
    ]


def write_page(path: Path, study: "Study", outcome: "Outcome") -> None:
    import pdml
    from pdml.report.page import Page, ServerRow, write
    from pdml.report.result import lead, notes_of

    plan = outcome.contract.plan.to_dict()
    shown = {
        name.replace("_", " "): str(value) for name, value in plan.items() if value is not None
    }
    page = Page(
        title=study.title,
        lead=lead(study, outcome),
        history=outcome.history(),
        n_servers=outcome.contract.graph.n,
        edges=outcome.contract.graph.edges,
        servers=tuple(
            ServerRow(name=name, records=m, links=links) for name, m, links, _ in _rows(outcome)
        ),
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
    write(path, page)


def summary(outcome: "Outcome", model: Any, engine: str, files: dict[str, Path]) -> dict[str, Any]:
    return {
        "study": model.provenance["study"],
        "job": outcome.contract.job,
        "engine": engine,
        "classes": list(model.classes),
        "servers": [
            {"name": name, "records": m, "links": links, "labels_randomised_by": part.randomised_by}
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
    from pdml.report.result import lead, notes_of

    out = screen.console()
    screen.show(out, study.title, screen.accuracy_table(_rows(outcome), ()), lead(study, outcome))
    lines = outcome.ledger.lines()
    screen.show(out, screen.PEOPLE, screen.privacy_table(lines), screen.even_odds(lines))
    out.print()
    for note in notes_of(outcome):
        out.print(note)
    screen.list_files(out, files)
