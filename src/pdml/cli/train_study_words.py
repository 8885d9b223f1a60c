"""What `pdml train study.toml` tells: the summary for machines, the tables on a screen."""

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
