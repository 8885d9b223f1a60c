"""One training as one page: a self-contained HTML document without scripts that anybody can open,
keep, mail and print.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources
from math import isfinite, isinf
from typing import Protocol

import numpy as np

from pdml._types import Array
from pdml.accounting import Line
from pdml.errors import InvalidInput
from pdml.files import atomic_write
from pdml.report import html, numbers, plots
from pdml.report.html import Cell, exact, text

LISTED_SERVERS = 40  # a longer table is folded
ABSENT = "not on this page"  # never measured, or kept inside

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_SIMULATED = (
    "The numbers on this page are what a deployment with real noise would guarantee. "
    "This run itself drew its noise from a seeded generator and protects nobody."
)
_READING = (
    "How to read it: somebody gives the true value of one person’s data even odds, or less, and "
    "then sees what the party in the second column sees, all of it or a part. The share is how "
    "sure of the truth they can be afterwards; with a chance of at most δ they are surer. ε and δ "
    "are the guarantee as experts write it. Bars run from even odds (empty) to certainty (full). "
    "Numbers are rounded to the digits shown."
)
_WHOM = {
    "own server": "the server that receives it",
    "other servers": "all other servers together",
    "own and others together": "all servers together",
}


class Rounds(Protocol):
    """What happened round by round: `pdml.release.history.History` is one."""

    @property
    def risk(self) -> Array: ...
    @property
    def consensus(self) -> Array: ...
    @property
    def noise(self) -> Array: ...
    @property
    def spent(self) -> Array: ...


@dataclass(frozen=True)
class ServerRow:
    """One server: its records, its links, and the accuracy of its own last release."""

    name: str
    records: int
    links: int
    accuracy: float | None = None


@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything a report shows. Text is taken as text: markup in it is shown, not obeyed."""

    title: str
    lead: str = ""
    history: Rounds | None = None
    reference_risk: float | None = None  # of a model trained without privacy
    n_servers: int
    edges: tuple[tuple[int, int], ...]
    servers: tuple[ServerRow, ...] = ()
    released_accuracy: float | None = None
    reference_accuracy: float | None = None
    accuracy_note: str = ""  # "on 5,000 fresh test records"
    lines: tuple[Line, ...] = ()  # the ledger
    source: str  # of the noise; "simulated" protects nobody
    settings: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what no noise protects, and anything else a reader must know
    made: str = ""
    figures: tuple[str, ...] | None = None  # HTML drawn beforehand; None: matplotlib draws

    def __post_init__(self) -> None:
        if self.servers and len(self.servers) != self.n_servers:
            raise InvalidInput(
                f"servers must have a row for each of the {self.n_servers} servers or be "
                f"empty, got {len(self.servers)}"
            )
        if self.history is not None:
            lengths = {
                len(getattr(self.history, name)) for name in ("risk", "consensus", "noise", "spent")
            }
            if len(lengths) != 1 or 0 in lengths:
                raise InvalidInput(
                    "history must have one value per round in every field, got fields of "
                    f"{sorted(lengths)} values"
                )


def write(path: str | os.PathLike[str], page: Page) -> None:
    """Render to a file that is either the old one or the new one."""
    atomic_write(path, render(page))


def render(page: Page) -> str:
    """The whole document. It loads nothing, runs nothing, and is the same for the same page."""
    style = resources.files("pdml.report").joinpath("page.css").read_text(encoding="utf-8")
    tables = f'<div class="pair">{_servers(page)}{_settings(page)}</div>'
    body = [_summary(page), _ledger(page), _figures(page), tables, _notes(page)]
    lead = f'<p class="lead">{text(page.lead)}</p>' if page.lead else ""
    made = f"Made on {text(page.made)}. " if page.made else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{text(page.title)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{text(page.title)}</h1>
{lead}
{_source(page)}
</header>
<main>
{"".join(part + chr(10) for part in body if part)}</main>
<footer>{made}This page runs no script and loads nothing from the network.</footer>
</body>
</html>
"""


def _source(page: Page) -> str:
    if page.source == "simulated":
        return f'<p class="banner" role="note"><strong>Simulation.</strong> {_SIMULATED}</p>'
    return f'<p class="source">Source of the noise: {text(page.source)}.</p>'


def _card(name: str, big: str, small: str, style: str = "") -> str:
    """A big number (HTML) with its name above and words below."""
    below = f"<dd>{text(small)}</dd>" if small else ""
    return f'<div class="card"><dt>{text(name)}</dt><dd class="big{style}">{big}</dd>{below}</div>'


def _share(value: float | None) -> str:
    if value is None or not isfinite(value):
        return text(ABSENT)
    return exact(value, numbers.percent(value))


def _missing(value: float | None) -> str:
    """The style of a number that is not there."""
    return " missing" if value is None or not isfinite(value) else ""


def _summary(page: Page) -> str:
    """The numbers somebody with ten seconds should take away."""
    released, reference = (
        None if _missing(value) else value
        for value in (page.released_accuracy, page.reference_accuracy)
    )
    note = page.accuracy_note
    model = [_card("Accuracy of the released model", _share(released), note, _missing(released))]
    if reference is not None:
        change = "" if released is None else numbers.difference(released - reference)
        gap = f"the released model {change}" if change else ""
        model.append(_card("Accuracy without privacy", _share(reference), gap))
    if page.history is not None:
        apart = np.asarray(page.history.consensus, dtype=float)
        start = f"; {numbers.significant(apart[0])} after the first" if len(apart) > 1 else ""
        end = f"after {numbers.count(len(apart), 'round')}{start}"
        model.append(
            _card(
                "Largest distance between models",
                exact(apart[-1], numbers.significant(apart[-1])),
                end,
            )
        )
    privacy = [
        _card(
            f"{line.data.capitalize()}, against {_WHOM.get(line.adversary, line.adversary)}",
            _spent(line) if isinf(line.epsilon) else f"<small>ε = </small>{_spent(line)}",
            _sure(line),
            " words" if isinf(line.epsilon) else " weak" * _is_weak(line),
        )
        for line in page.lines
        if line.adversary != "own and others together"
    ]
    guarantees = f'<dl class="cards four">{"".join(privacy)}</dl>' if privacy else ""
    return html.section(
        "summary", "In short", "", f'<dl class="cards">{"".join(model)}</dl>{guarantees}'
    )


def _spent(line: Line) -> str:
    return (
        text(numbers.NO_PROTECTION)
        if isinf(line.epsilon)
        else exact(line.epsilon, numbers.epsilon(line.epsilon))
    )


def _sure(line: Line) -> str:
    """What somebody at even odds can come to believe."""
    if isinf(line.epsilon):
        return "nothing keeps them from being certain"
    after = numbers.certainty(line.certainty)
    if _is_weak(line):
        return f"at even odds before, {after} sure after: practically no protection"
    rarely = f", but for a chance of {numbers.delta(line.delta)}" if line.delta else ""
    return f"at even odds before, at most {after} sure after{rarely}"


def _is_weak(line: Line) -> bool:
    return line.certainty >= 0.999


def _ledger(page: Page) -> str:
    if not page.lines:
        words = (
            "No ledger came with this page, so it can promise nothing: assume that "
            "everybody can learn everything."
        )
        return html.section("ledger", "What each party can learn", words, "")
    rows = []
    for line in page.lines:
        after = "100%" if isinf(line.epsilon) else numbers.certainty(line.certainty)
        sure = min(max(2 * line.certainty - 1, 0.0), 1.0)
        weak = " weak" * (line.certainty > 0.9)
        meter = (
            f'<span class="meter{weak}" aria-hidden="true"><i style="width: '
            f'{100 * sure:.1f}%"></i></span>'
        )
        rows.append(
            (
                Cell(text(line.data.capitalize()), header=True),
                Cell(text(_WHOM.get(line.adversary, line.adversary)), "whom"),
                Cell(_spent(line), "number none" if isinf(line.epsilon) else "number"),
                Cell(
                    "–" if isinf(line.epsilon) else exact(line.delta, numbers.delta(line.delta)),
                    "number",
                ),
                Cell(
                    f'<span class="gauge"><strong>{exact(line.certainty, after)}</strong>{meter}'
                    f"</span>{text(_sure(line))}",
                    "sure",
                ),
                Cell(text(line.reason), "why"),
            )
        )
    columns = (
        ("Data", ""),
        ("Against", ""),
        ("ε", "number"),
        ("δ", "number"),
        ("How sure they can be", ""),
        ("Why", ""),
    )
    content = html.table(
        "For a contributor at the least protected server", columns, rows, stacked=True
    )
    return html.section(
        "ledger",
        "What each party can learn",
        "",
        f'{content}<p class="reading">{text(_READING)}</p>',
    )


def _figures(page: Page) -> str:
    pictures = "\n".join(_pictures(page) if page.figures is None else page.figures)
    return html.section(
        "figures", "How the training went", "", f'<div class="figures">{pictures}</div>'
    )


def _pictures(page: Page) -> Iterator[str]:
    accuracies = [row.accuracy for row in page.servers]
    known = [value for value in accuracies if value is not None and isfinite(value)]
    history = page.history
    if known:
        note = f"Measured {text(page.accuracy_note)}. " if page.accuracy_note else ""
        yield html.figure(
            plots.accuracy_figure(accuracies, page.released_accuracy, page.reference_accuracy),
            "Accuracy, server by server",
            f"{note}The released model averages the servers’ last releases.",
        )
    if history is not None:
        deltas = [
            line.delta
            for line in page.lines
            if (line.data, line.adversary) == ("features", "other servers")
        ]
        yield html.figure(
            plots.spent_figure(history.spent, deltas[0] if deltas else None),
            "Privacy spent on features",
            "What all other servers together could learn about one person’s features grows "
            "with every round sent.",
        )
        yield html.figure(
            plots.consensus_figure(history.consensus, history.noise),
            "Do the servers agree?",
            "How far apart the two most different models are, and the standard deviation σ of the "
            "noise that a server adds to each coefficient before it sends.",
        )
        if np.isfinite(np.asarray(history.risk, dtype=float)).any():
            yield html.figure(
                plots.risk_figure(history.risk, page.reference_risk),
                "Is the model learning?",
                "<em>Covered by no guarantee:</em> computed from the records without "
                "noise, to be kept inside the servers.",
            )
    yield html.figure(
        plots.graph_figure(
            page.n_servers,
            page.edges,
            accuracies if known else None,
            [row.name for row in page.servers] or None,
        ),
        "Who talks to whom",
        f"{numbers.count(page.n_servers, 'server')}, {numbers.count(len(page.edges), 'link')}. "
        "The closer two servers are drawn, the fewer links lie between them. Models travel "
        "along links only; records never do."
        + (
            f" Of the links, {numbers.count(plots.DRAWN_LINKS)} are drawn."
            if len(page.edges) > plots.DRAWN_LINKS
            else ""
        ),
    )


def _servers(page: Page) -> str:
    if not page.servers:
        return ""
    measured = any(not _missing(row.accuracy) for row in page.servers)
    columns = [("Server", ""), ("Records", "number"), ("Links", "number")]
    rows = [
        [
            Cell(text(row.name), header=True),
            Cell(exact(row.records, numbers.count(row.records)), "number"),
            Cell(exact(row.links, numbers.count(row.links)), "number"),
        ]
        for row in page.servers
    ]
    records = numbers.count(sum(row.records for row in page.servers), "record")
    total = f"{numbers.count(len(page.servers), 'server')}, {records}"
    if measured:
        total += "; the accuracy is that of each server’s own model"
        columns.append(("Accuracy", "number"))
        for cells, row in zip(rows, page.servers, strict=True):
            cells.append(Cell(_share(row.accuracy), f"number{_missing(row.accuracy)}"))
    content = html.table(total, columns, rows)
    if len(rows) > LISTED_SERVERS:
        content = (
            f"<details><summary>Show all {numbers.count(len(rows))} "
            f"servers</summary>{content}</details>"
        )
    return html.section("servers", "The servers", "", content)


def _settings(page: Page) -> str:
    if not page.settings:
        return ""
    rows = [
        (Cell(text(name), header=True), Cell(text(value))) for name, value in page.settings.items()
    ]
    return html.section(
        "settings",
        "Settings",
        "",
        html.table("Public before the training starts", (("Setting", ""), ("Value", "")), rows),
    )


def _notes(page: Page) -> str:
    if not page.notes:
        return ""
    items = "".join(f"<li>{text(note)}</li>" for note in page.notes)
    return html.section(
        "notes",
        "Notes",
        "What no noise protects, and what else a reader should know.",
        f'<ul class="notes">{items}</ul>',
    )
