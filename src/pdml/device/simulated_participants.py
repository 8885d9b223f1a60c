"""`pdml contribute --csv` as a function: many devices in one process, to try a study out.

The outbox is written whole before any network activity, and never drawn again: an interrupted
delivery goes on with the same reports. Its first line says what it was made from; each further
line is one report without token.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path
from threading import local
from typing import Any, BinaryIO

import msgspec

from pdml._types import Array, IntArray
from pdml.device.answers import consent
from pdml.device.delivery import Answer, Delivery
from pdml.device.memo import stream_of
from pdml.errors import DataError, InvalidInput, NotDelivered, because
from pdml.files import open_file, open_ours, read_file, write_private
from pdml.formats import Format, decode
from pdml.mechanisms.label_flip import flip_labels, micro
from pdml.study import Study, messages
from pdml.study.messages import Receipt, Report, decode_report, encode_report, pack_features
from pdml.tables import Table, read_table

FORMAT = Format(name="outbox", version=1)
BATCH = 100
CONNECTIONS = 4
_TOKEN = re.compile(r"\b[0-9a-f]{32}\b")


class OutboxOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an outbox was made from."""

    version: int
    study: str
    source: str  # sha256 of the table's file and of the columns used
    reports: int


class NotSent(StrEnum):
    """Why a report that nobody refused is not stored."""

    NOT_SENT = "not_sent"  # the delivery ended before its turn
    NOT_DELIVERED = "not_delivered"  # no clear answer


@dataclass(frozen=True)
class Undelivered:
    """A report that the service does not hold, and why."""

    row: int  # from 1
    id: str
    code: str  # `NotSent`, or that of the problem for which it was refused


@dataclass
class Tally:
    """Every report is in exactly one place."""

    stored: int = 0
    stored_before: int = 0
    undelivered: list[Undelivered] = field(default_factory=list)
    trouble: str = ""  # the sentence with which delivery ended early

    def add_undelivered(self, reports: Iterable[tuple[int, bytes]], code: str) -> None:
        self.undelivered += [
            Undelivered(row, decode_report(data).id, code) for row, data in reports
        ]

    def by_code(self) -> dict[str, int]:
        return dict(sorted(Counter(failure.code for failure in self.undelivered).items()))


def read_tokens(path: Path, needed: int) -> list[str]:
    """Invitations, one per line, bare or inside links."""
    try:
        lines = read_file(path).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"cannot read {path}: {why}") from None
    tokens = [matches[-1] for line in lines if (matches := _TOKEN.findall(line))]
    if len(set(tokens)) != len(tokens):
        raise DataError(f"{path} must hold each invitation once, got one twice")
    if len(tokens) < needed:
        must = f"{path} must hold an invitation for each of the {needed:,} records"
        raise DataError(f"{must}, got {len(tokens):,}")
    return tokens


def fill(
    path: Path,
    study: Study,
    table: Table,
    labels: IntArray,
    epsilons: Array,
    *,
    source: str,
    entropy: Callable[[int], bytes] = os.urandom,
) -> OutboxOrigin:
    """Draw every report and write the outbox; if it exists for the same source, draw nothing again.

    Guarantees
    ----------
    - Each label is ε-LDP with its own ε, from OS entropy; the outbox holds reports alone.
    - The file appears whole or not at all, readable by its owner alone; of two runs the first wins.
    """
    origin = OutboxOrigin(
        version=FORMAT.version, study=study.hash, source=source, reports=table.n_rows
    )
    if not path.exists():
        stream = stream_of(entropy)
        reported = flip_labels(labels, epsilons, len(study.classes), stream).tolist()
        write_private(path, _lines(origin, study, table, reported, epsilons, entropy), first=True)
    if (existing := _origin(path)) != origin:
        what = "another study" if existing.study != study.hash else "another table or other columns"
        other = f"{path} holds reports drawn for {what}"
        raise DataError(f"{other}: move it away, or name another --outbox")
    return origin


def _lines(
    origin: OutboxOrigin,
    study: Study,
    table: Table,
    reported: list[int],
    epsilons: Array,
    entropy: Callable[[int], bytes],
) -> Iterator[bytes]:
    yield msgspec.json.encode(origin) + b"\n"
    rows = zip(map(micro, epsilons.tolist()), reported, study.encode_table(table), strict=True)
    for micro_epsilon, label, features in rows:
        report = Report(
            version=messages.FORMAT.version,
            study=study.hash,
            id=entropy(16).hex(),
            nonce=entropy(16).hex(),
            epsilon=micro_epsilon,
            label=label,
            features=pack_features(features),
            **consent(study, agreed=True),
        )
        yield encode_report(report) + b"\n"


def write_failures(path: Path, undelivered: Iterable[Undelivered]) -> None:
    """One line for each report that is not stored, readable by their owner alone."""
    write_private(path, (msgspec.json.encode(failure) + b"\n" for failure in undelivered))


def deliver(
    path: Path,
    receipts: Path,
    connect: Callable[[], Delivery],
    *,
    tokens: Sequence[str] = (),
    progress: Callable[[int, int], None] = lambda done, of: None,
    connections: int = CONNECTIONS,
) -> Tally:
    """Send what has no receipt yet, in batches; each receipt is written down as it comes. A service
    that cannot be reached ends the delivery: the rest goes out next time."""
    origin, tally = _origin(path), Tally()
    with connect() as service:
        service.require_study(origin.study)
    stored_ids = _receipts(receipts)
    thread_state, kept = local(), ExitStack()

    def send(batch: list[tuple[int, bytes]]) -> list[Answer]:
        if not hasattr(thread_state, "service"):
            thread_state.service = kept.enter_context(connect())
        answers: list[Answer] = thread_state.service.send_batch([data for _, data in batch])
        return answers

    running: dict[Future[list[Answer]], list[tuple[int, bytes]]] = {}
    todo = _unsent(path, stored_ids, tokens, tally)
    with (
        kept,
        ThreadPoolExecutor(connections) as pool,
        _open(receipts, _RECEIPTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as file,
    ):
        while True:
            while not tally.trouble and len(running) < 2 * connections:
                if not (batch := list(islice(todo, BATCH))):
                    break
                running[pool.submit(send, batch)] = batch
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                _account(tally, running.pop(future), future, file)
            file.flush()
            progress(tally.stored + tally.stored_before + len(tally.undelivered), origin.reports)
        os.fsync(file.fileno())
    tally.add_undelivered(todo, NotSent.NOT_SENT)
    tally.undelivered.sort(key=lambda failure: failure.row)
    return tally


def _account(
    tally: Tally, batch: list[tuple[int, bytes]], future: "Future[list[Answer]]", file: BinaryIO
) -> None:
    try:
        answers = future.result()
    except NotDelivered as error:
        tally.trouble = tally.trouble or str(error)
        tally.add_undelivered(batch, NotSent.NOT_DELIVERED)
        return
    for (row, data), answer in zip(batch, answers, strict=True):
        if isinstance(answer, Receipt):
            tally.stored += 1
            file.write(msgspec.json.encode(answer) + b"\n")
        else:
            tally.add_undelivered([(row, data)], answer.code)


def _unsent(
    path: Path, stored_ids: set[str], tokens: Sequence[str], tally: Tally
) -> Iterator[tuple[int, bytes]]:
    """Row and bytes of each; the invitation is put in now: it may come later than the draw."""
    with _open(path, _OUTBOX) as file:
        next(file)
        for row, line in enumerate(file, start=1):
            report = decode_report(line)
            if report.id in stored_ids:
                tally.stored_before += 1
            else:
                if tokens:
                    report = msgspec.structs.replace(report, token=tokens[row - 1])
                yield row, encode_report(report)


_RESULTS = ("receipts", "failures")
_OUTBOX, _RECEIPTS = "the outbox", "the file of receipts"
_LONGEST_LINE = 1 << 16  # bytes of an outbox's first line


def _origin(path: Path) -> OutboxOrigin:
    with _open(path, _OUTBOX) as file:
        line = file.readline(_LONGEST_LINE)
    must = f"{path} must be an outbox that `pdml contribute --csv` wrote, got something else"
    return FORMAT.read(line, OutboxOrigin, str(path), f"{must}: name another --outbox")


def _open(path: Path, what: str, flags: int = os.O_RDONLY) -> BinaryIO:
    """A file of our own; to write to, at its end."""
    try:
        return open(open_ours(path, what, flags), "ab" if flags & os.O_WRONLY else "rb")
    except OSError as error:
        raise DataError(f"cannot open {path}: {because(error)}") from None


def _receipts(path: Path) -> set[str]:
    """Ids that a service holds; a last line that an interrupt cut short is sent again."""
    if not os.path.lexists(path):
        return set()
    stored_ids = set()
    with _open(path, _RECEIPTS) as file:
        for line in file:
            with suppress(msgspec.DecodeError):
                stored_ids.add(decode(line, Receipt).id)
    return stored_ids


def source_digest(path: Path, *columns: str) -> str:
    """sha256 of a file and of how it is read."""
    digest = hashlib.sha256("\n".join(columns).encode())
    with open_file(path) as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class SubmittedTable:
    """What became of the reports of a table, and the files that hold them."""

    rows: int
    tally: Tally
    files: Mapping[str, Path]  # of reports, receipts and failures

    def to_dict(self) -> dict[str, Any]:
        """How many reports are stored, and why others are not, for JSON."""
        counts = {"stored": self.tally.stored, "stored_before": self.tally.stored_before}
        files = {kind: str(path) for kind, path in self.files.items()}
        return {**counts, "problems": self.tally.by_code(), "files": files}

    def check(self) -> None:
        """Raise `NotDelivered` if a report is not stored."""
        if self.tally.undelivered:
            why = f"{self.tally.trouble}; " if self.tally.trouble else ""
            count = f"{len(self.tally.undelivered):,} reports are not stored"
            raise NotDelivered(f"{why}{count}: the same command sends them again, unchanged")


def submit_table(
    study: Study,
    url: str,
    file: Path,
    *,
    label_column: str,
    epsilon_column: str = "",
    epsilon: float | None = None,
    tokens: Path | None = None,
    outbox: Path | None = None,
    clamp: bool = False,
    ca: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> SubmittedTable:
    """Try a study out: randomise every row of a table as the device of a person who agrees would,
    and send the reports.

    Parameters
    ----------
    study : Study
        `Study.load("study.toml")`.
    url : str
        The collection service.
    file : Path
        A table with the study's attributes as columns.
    label_column : str
        The column of true answers.
    epsilon_column, epsilon : str, float
        A column of each person's ε, or one for all; by default the study's suggestion.
    tokens : Path, optional
        Invitations, one per line.
    outbox : Path, optional
        Where reports wait, by default beside the table.
    clamp : bool
        Move numbers into their declared ranges instead of refusing the table.
    ca : Path, optional
        Trust this authority's certificates (PEM) instead of the system's.
    progress : callable
        Hears (reports answered, of how many).

    Returns
    -------
    SubmittedTable
        Reports that could not be delivered are told in it, not raised: calling it again sends
        them, unchanged.

    Raises
    ------
    InvalidInput
        For a bad address or a table that does not fit the study: before anything is drawn.

    Guarantees
    ----------
    - Those of `fill`: each label is ε-LDP with its own ε, drawn once.
    """
    if not label_column:
        raise InvalidInput("--csv needs --label-column: the column of true answers")
    if epsilon_column and epsilon is not None:
        must = "--epsilon must be left out beside --epsilon-column"
        raise InvalidInput(f"{must}: each person has one already")
    Delivery(url, ca=ca)  # a bad address is refused before the work
    named = [label_column, *([epsilon_column] if epsilon_column else [])]
    table = read_table(file, [*(attribute.name for attribute in study.attributes), *named])
    if not clamp:
        study.check_ranges(table)
    labels = study.read_labels(table, label_column)
    if epsilon_column:
        epsilons = study.read_epsilons(table, epsilon_column)
    else:
        chosen = study.default_epsilon if epsilon is None else epsilon
        epsilons = study.repeat_epsilon(table, chosen)
    invited = read_tokens(tokens, table.n_rows) if tokens is not None else ()
    reports = outbox or file.with_name(f"{file.name.split('.')[0]}.reports.ndjson")
    stem = reports.name.split(".")[0]
    receipts, failures = (reports.with_name(f"{stem}.{what}.ndjson") for what in _RESULTS)
    epsilon_text = "" if epsilon is None else f"{epsilon!r}"
    source = source_digest(file, label_column, epsilon_column, epsilon_text)
    fill(reports, study, table, labels, epsilons, source=source)
    connect = partial(Delivery, url, ca=ca)
    tally = deliver(reports, receipts, connect, tokens=invited, progress=progress)
    write_failures(failures, tally.undelivered)
    files = {"reports": reports, "receipts": receipts, "failures": failures}
    return SubmittedTable(rows=table.n_rows, tally=tally, files=files)
