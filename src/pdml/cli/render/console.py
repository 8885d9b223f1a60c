"""What people see in a terminal: bars, tables, and sentences. Answers go to stdout, progress to
stderr. Commands give words and rows; rich, which takes long to load, is known here alone."""

import json
import os
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pdml.errors import visible
from pdml.formatting import numbers

if TYPE_CHECKING:
    from rich.console import Console

    from pdml.accounting.ledger_row import LedgerRow

PEOPLE = "If I said yes, how sure can they be?"
MOST_SERVERS = 20  # rows that still fit on a screen
HEADING = "bold cyan"
_LOG_EVERY = 10.0  # seconds between lines where no bar can be drawn
_INDENT, _GAP = 2, 2

Words = str | tuple[str, str]  # with a style


def console(*, stderr: bool = False) -> "Console":
    """Standard output, in colour only if it is a terminal and NO_COLOR is not set."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


# Something moves


@contextmanager
def working(title: str) -> Iterator[None]:
    """Something moves while it lasts, if there is a terminal to see it."""
    from rich.text import Text

    err = console(stderr=True)
    with err.status(Text(title)) if _draws(err) else nullcontext():
        yield


class ProgressCallback(Protocol):
    """How far something is: (done, of how many), and what it is doing now."""

    def __call__(self, done: int, of: int, doing: str = "") -> None: ...


@contextmanager
def progress(title: str, unit: str = "round") -> Iterator[ProgressCallback]:
    """A function to call as (done, of how many)."""
    with bars(unit) as tell:
        yield lambda done, of, doing="": tell({title: (done, of)}, doing)


class BarsCallback(Protocol):
    """How far each of several is: what, as (done, of how many); one alone may be doing something
    now."""

    def __call__(self, counts: Mapping[str, tuple[int, int | None]], doing: str = "") -> None: ...


@contextmanager
def bars(unit: str) -> Iterator[BarsCallback]:
    """A bar for each. Without a terminal, or in a dumb one, a line now and then instead; the unit
    "byte" is shown as downloads are."""
    err = console(stderr=True)
    if not _draws(err):
        yield _log(unit)
        return
    from rich import progress as rich

    counted = (rich.MofNCompleteColumn(), rich.TextColumn(f"{unit}s"))
    moved = (rich.DownloadColumn(), rich.TransferSpeedColumn())
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        *(moved if unit == "byte" else counted),
        rich.TimeRemainingColumn(),
    )
    tasks: dict[str, rich.TaskID] = {}
    with rich.Progress(*columns, console=err, transient=True) as display:

        def draw(counts: Mapping[str, tuple[int, int | None]], doing: str = "") -> None:
            for what, (done, of) in counts.items():
                if what not in tasks:
                    tasks[what] = display.add_task(what, total=None)
                display.update(tasks[what], completed=done, total=of, description=doing or what)

        yield draw


def _log(unit: str) -> BarsCallback:
    spoken = time.monotonic()

    def log(counts: Mapping[str, tuple[int, int | None]], doing: str = "") -> None:
        nonlocal spoken
        if time.monotonic() - spoken <= _LOG_EVERY:
            return
        spoken = time.monotonic()
        lines = (f"{doing or what}: {_far(unit, *how)}" for what, how in counts.items())
        print(", ".join(lines), file=sys.stderr, flush=True)

    return log


def _far(unit: str, done: int, of: int | None) -> str:
    if unit == "byte":
        return f"{done:,} bytes" + (f" of {of:,}" if of else "")
    return f"{unit} {done} of {of}"


def _draws(err: "Console") -> bool:
    return err.is_terminal and not err.is_dumb_terminal


# Questions


def confirm(question: str) -> bool:
    """Yes or no; an input that has ended is no consent."""
    import typer

    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        typer.echo(err=True)
        return False


# Answers


def print_json(values: Mapping[str, Any]) -> None:
    """The only thing on standard output when --json was asked for."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, indent=1, default=os.fspath)
    print("".join(map(_escaped, text)) if not text.replace("\n", "").isprintable() else text)


def _escaped(letter: str) -> str:
    """As JSON may spell a letter that no screen shows; its own line breaks stay."""
    if letter.isprintable() or letter == "\n":
        return letter
    return json.dumps(letter)[1:-1] if ord(letter) != 0x7F else "\\u007f"


def print_answer(as_json: bool, values: Mapping[str, Any], *sentences: str) -> None:
    """What a command has to say: one object for machines, or sentences for people, who may be
    watching a pipe."""
    if as_json:
        print_json(values)
    else:
        print(*map(visible, sentences), sep="\n")
    sys.stdout.flush()


def print_result(as_json: bool, values: Mapping[str, Any], show: Callable[[], None]) -> None:
    """The same, where people are shown tables."""
    if as_json:
        print_json(values)
    else:
        show()


def print_text(*lines: Words | list[Words], whole: bool = False) -> None:
    """Sentences, wrapped between words, or ``whole`` so that they can be copied; one may have
    pieces of several styles."""
    from rich.text import Text

    out = console()
    for line in lines:
        pieces = line if isinstance(line, list) else [line]
        out.print(Text.assemble(*map(_visible, pieces)), soft_wrap=whole)


def _visible(words: Words) -> Words:
    return visible(words) if isinstance(words, str) else (visible(words[0]), words[1])


class Grid(NamedTuple):
    """The one kind of table; ``words`` are the columns of text: so many first ones, or these.

    All others hold numbers, which stand at the right and are never wrapped.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Words]]
    words: int | Container[str] = 1

    def is_text(self, index: int) -> bool:
        """Whether a column holds words."""
        if isinstance(self.words, int):
            return index < self.words
        return self.columns[index] in self.words


def print_table(heading: str, table: Grid, *sentences: str) -> None:
    """A heading, what there is to say, and the table."""
    from rich.cells import cell_len
    from rich.padding import Padding

    def least(index: int) -> int:
        """The width below which rich would cut: a number and its heading stand on one line, text
        wraps between words."""
        texts = [table.columns[index], *(_plain(row[index]) for row in table.rows)]
        words = [word for text in texts for word in text.split()]
        return max(map(cell_len, words if table.is_text(index) else texts), default=0)

    print_text("", (heading, HEADING), *sentences, "")
    out = console()
    if _INDENT + sum(least(i) + _GAP for i in range(len(table.columns))) <= out.width + _GAP:
        out.print(Padding(_build_table(table), (0, 0, 0, _INDENT), expand=False))
    else:
        _stack(out, table)


def _build_table(table: Grid) -> Any:
    from rich import table as rich
    from rich.text import Text

    rich_table = rich.Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for index, name in enumerate(table.columns):
        text = table.is_text(index)
        rich_table.add_column(visible(name), justify="left" if text else "right", no_wrap=not text)
    for row in table.rows:
        rich_table.add_row(*(Text.assemble(_visible(cell)) for cell in row))
    return rich_table


def _stack(out: "Console", table: Grid) -> None:
    """A terminal too narrow for the table gets its cells one below the other: no number is ever
    cut."""
    from rich.padding import Padding
    from rich.text import Text

    lead = "" if table.is_text(0) else f"{table.columns[0]} "  # a number alone says nothing
    for first, *others in table.rows:
        out.print(Padding(Text.assemble(lead, _visible(first)), (0, 0, 0, _INDENT), expand=False))
        for name, cell in zip(table.columns[1:], others, strict=True):
            if _plain(cell):
                line = Text.assemble((f"{name}: ", "dim"), _visible(cell))
                out.print(Padding(line, (0, 0, 0, 2 * _INDENT), expand=False))


def _plain(cell: Words) -> str:
    return cell if isinstance(cell, str) else cell[0]


# What several commands show


def accuracy_table(
    servers: Sequence[tuple[str, int, int, float | None]],
    totals: Sequence[tuple[str, float | None]],
    *,
    linked: bool,
) -> Grid:
    """One row per server (name, records, links, accuracy), then the rows everybody looks for; no
    accuracies without totals, and no links where all servers sent one total (``linked``)."""
    columns = {"server": True, "records": True, "links": linked, "accuracy": bool(totals)}

    def keep(*cells: Words) -> list[Words]:
        return [cell for cell, wanted in zip(cells, columns.values(), strict=True) if wanted]

    has_accuracy = any(row[3] is not None for row in servers)  # of sums there is one model
    visible_servers = servers if len(servers) <= MOST_SERVERS else servers[: MOST_SERVERS // 2]
    rows = [
        keep(
            name,
            numbers.count(records),
            str(links),
            numbers.percent(accuracy) if has_accuracy else "",
        )
        for name, records, links, accuracy in visible_servers
    ]
    if len(visible_servers) < len(servers):
        rows.append(
            keep((f"... and {len(servers) - len(visible_servers)} more", "dim"), "", "", "")
        )
    for name, accuracy in totals:
        rows.append(keep((name, "bold"), "", "", (numbers.percent(accuracy), "bold")))
    return Grid([name for name, wanted in columns.items() if wanted], rows)


def print_privacy(lines: "Iterable[LedgerRow]", *sentences: str, heading: str = PEOPLE) -> None:
    """The ledger in words: how sure each adversary can become, and the ε behind it."""
    whom = _adversaries(lines)
    kinds = dict.fromkeys(line.data for entries in whom.values() for line in entries)
    columns = ("who", *(column for kind in kinds for column in (f"of the {kind}", "epsilon")))
    rows: list[list[Words]] = [
        [who, *(cell for line in entries for cell in _sure(line))] for who, entries in whom.items()
    ]
    delta = max((line.delta for entries in whom.values() for line in entries), default=0.0)
    odds = f"From 50%, for the person protected least; against other servers delta {delta:g}."
    print_table(heading, Grid(columns, rows), odds, *sentences)


def print_reasons(lines: "Iterable[LedgerRow]") -> None:
    """Why each row of the ledger is what it is, and what small coalitions rest on."""
    from pdml.accounting.ledger_row import RESTS_ON

    whom = _adversaries(lines)
    rows = [
        ("" if row else who, line.data, line.reason)
        for who, entries in whom.items()
        for row, line in enumerate(entries)
    ]
    sizes = {line.colluding for entries in whom.values() for line in entries if line.colluding}
    note = f"Fewer than all others see no more than one total. {RESTS_ON}"
    print_table(
        "Why?", Grid(("who", "of the", "why"), rows, words=3), *([note] if len(sizes) > 1 else [])
    )


def _adversaries(lines: "Iterable[LedgerRow]") -> "dict[str, list[LedgerRow]]":
    """Lines by adversary, in words and in the order in which they come."""
    from pdml.accounting.ledger_row import ADVERSARY_NAMES

    ledger_rows = list(lines)
    most = max((line.colluding or 0 for line in ledger_rows), default=0)
    by_adversary: dict[str, list[LedgerRow]] = {}
    for line in ledger_rows:
        k = line.colluding
        who = numbers.coalition(k, all_others=k == most) if k else ADVERSARY_NAMES[line.adversary]
        by_adversary.setdefault(who, []).append(line)
    return by_adversary


def _sure(line: "LedgerRow") -> tuple[Words, Words]:
    if isinf(line.epsilon):
        return ("unprotected", "red"), ""
    style = "red" if line.certainty > 0.99 else "green" if line.certainty < 0.6 else "yellow"
    return (numbers.certainty(line.certainty), style), numbers.epsilon(line.epsilon)


def print_files(files: Mapping[str, Path]) -> None:
    """Paths on lines of their own, whole, so that they can be copied."""
    width = max(map(len, files))
    print_text("", *(f"{what:<{width}}  {path}" for what, path in files.items()), whole=True)
