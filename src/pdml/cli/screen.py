"""What people see in a terminal: a progress bar, two tables, and sentences. Answers go to stdout,
progress to stderr.
"""

import json
import sys
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from math import isinf
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from pdml.accounting.ledger import Line
from pdml.report import numbers

PEOPLE = "If I said yes, how sure can they be?"
MOST_SERVERS = 20  # rows that still fit on a screen
_LOG_EVERY = 10.0  # seconds between lines where no bar can be drawn
_INDENT, _GAP = 2, 2


def console() -> Console:
    """Standard output, in colour only if it is a terminal and NO_COLOR is not set."""
    return Console(highlight=False, markup=False, emoji=False)


def _err() -> Console:
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def _draws(err: Console) -> bool:
    return err.is_terminal and not err.is_dumb_terminal


@contextmanager
def working(title: str) -> Iterator[None]:
    """Something moves while it lasts, if there is a terminal to see it."""
    err = _err()
    with err.status(Text(title)) if _draws(err) else nullcontext():
        yield


@contextmanager
def progress(title: str, unit: str = "round") -> Iterator[Callable[[int, int], None]]:
    """A function to call as (done, of how many). Without a terminal, or in a dumb one, a line now
    and then instead of a bar.
    """
    err = _err()
    if not _draws(err):
        yield _log(title, unit)
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit}s"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )
    with bar:
        task = bar.add_task(title, total=None)
        yield lambda t, rounds: bar.update(task, completed=t, total=rounds)


def _log(title: str, unit: str) -> Callable[[int, int], None]:
    spoken = time.monotonic()

    def log(t: int, rounds: int) -> None:
        nonlocal spoken
        if time.monotonic() - spoken > _LOG_EVERY:
            spoken = time.monotonic()
            print(f"{title}: {unit} {t} of {rounds}", file=sys.stderr, flush=True)

    return log


def print_json(values: dict[str, Any]) -> None:
    """The only thing on standard output when --json was asked for."""
    print(json.dumps(values, ensure_ascii=False, allow_nan=False, indent=1))


def accuracy_table(
    servers: Sequence[tuple[str, int, int, float | None]],
    totals: Sequence[tuple[str, float | None]],
) -> Table:
    """One row per server (name, records, links, accuracy), then the rows everybody looks for; no
    accuracies without totals.
    """
    table = new_table("server", "records", "links", *(["accuracy"] if totals else []))
    shown = servers if len(servers) <= MOST_SERVERS else servers[: MOST_SERVERS // 2]
    for name, records, links, accuracy in shown:
        table.add_row(
            Text(name),
            numbers.count(records),
            str(links),
            *([numbers.percent(accuracy)] if totals else []),
        )
    if len(shown) < len(servers):
        table.add_row(Text(f"... and {len(servers) - len(shown)} more", style="dim"))
    for name, accuracy in totals:
        table.add_row(
            Text(name, style="bold"), "", "", Text(numbers.percent(accuracy), style="bold")
        )
    return table


def privacy_table(lines: Sequence[Line]) -> Table:
    """The ledger in words: how sure each adversary can become, and the ε behind it."""
    kinds = dict.fromkeys(line.data for line in lines)
    table = new_table(
        "who", *(column for kind in kinds for column in (f"of the {kind}", "epsilon"))
    )
    for who in dict.fromkeys(line.adversary for line in lines):
        cells: list[Text | str] = []
        for line in (line for line in lines if line.adversary == who):
            if isinf(line.epsilon):
                cells += [Text("unprotected", style="red"), ""]
            else:
                style = (
                    "red"
                    if line.certainty > 0.99
                    else "green"
                    if line.certainty < 0.6
                    else "yellow"
                )
                cells += [
                    Text(numbers.certainty(line.certainty), style=style),
                    numbers.epsilon(line.epsilon),
                ]
        table.add_row(who, *cells)
    return table


def even_odds(lines: Sequence[Line]) -> str:
    """What the percentages of `privacy_table` mean; it stands beside every such table."""
    delta = max((line.delta for line in lines), default=0.0)
    start = "Starting from 50%, for the person protected least"
    return f"{start}; against other servers but for a chance of {delta:g} (delta)."


def new_table(*columns: str, words: int | Container[str] = 1) -> Table:
    """The one kind of table; ``words`` are the columns of text: so many first ones, or these.

    All others hold numbers, which stand at the right and are never wrapped.
    """
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for index, name in enumerate(columns):
        text = index < words if isinstance(words, int) else name in words
        table.add_column(name, justify="left" if text else "right", no_wrap=not text)
    return table


def show(out: Console, heading: str, table: Table, *sentences: str) -> None:
    """A heading, what there is to say, and the table."""
    out.print()
    out.print(Text(heading, style="bold cyan"))
    for sentence in sentences:
        out.print(sentence)
    out.print()
    if _INDENT + sum(_least(column) + _GAP for column in table.columns) <= out.width + _GAP:
        out.print(Padding(table, (0, 0, 0, _INDENT), expand=False))
    else:
        _stack(out, table)


def _least(column: Column) -> int:
    """The width below which rich would cut: a number and its heading stand on one line, text wraps
    between words.
    """
    shown = [str(column.header), *(_text(cell).plain for cell in column.cells)]
    pieces = shown if column.no_wrap else [word for text in shown for word in text.split()]
    return max(map(cell_len, pieces), default=0)


def _stack(out: Console, table: Table) -> None:
    """A terminal too narrow for the table gets its cells one below the other: no number is ever
    cut.
    """
    names = [column.header for column in table.columns]
    for first, *others in zip(*(column.cells for column in table.columns), strict=True):
        lead = f"{names[0]} " if table.columns[0].no_wrap else ""  # a number alone says nothing
        out.print(Padding(Text.assemble(lead, _text(first)), (0, 0, 0, _INDENT), expand=False))
        for name, cell in zip(names[1:], others, strict=True):
            if _text(cell).plain:
                told = Text.assemble((f"{name}: ", "dim"), _text(cell))
                out.print(Padding(told, (0, 0, 0, 2 * _INDENT), expand=False))


def _text(cell: Any) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def list_files(out: Console, files: dict[str, Path]) -> None:
    """Paths on lines of their own, whole, so that they can be copied."""
    out.print()
    width = max(map(len, files))
    for what, path in files.items():
        out.print(f"{what:<{width}}  {path}", soft_wrap=True)
