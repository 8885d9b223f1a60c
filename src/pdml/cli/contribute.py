"""`pdml contribute`: one person's report from this device, or a table of people as many devices to try a study out."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdml.errors import DataError, InvalidInput, NotDelivered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pdml.contribute.client import Preview
    from pdml.encoder import Attribute
    from pdml.messages import Receipt
    from pdml.study import Study


def contribute(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file (study.toml).")],
    server: Annotated[str, typer.Option(metavar="NAME or URL", help="Who receives it: a server of the study, or an address.")] = "",
    answers: Annotated[Path | None, typer.Option(metavar="FILE", help="Answers as a JSON object; what is missing is asked.")] = None,
    answer: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="One answer; may be repeated.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy of the label, from the study's menu.  [default: asked]")] = None,
    label: Annotated[str, typer.Option(help="The true answer. Better left out: it is asked, and no shell remembers it.")] = "",
    token: Annotated[str, typer.Option(help="An invitation, or the link that holds it.")] = "",
    record: Annotated[str, typer.Option(metavar="NAME", help="Whose record, where several people share this device.")] = "",
    memory: Annotated[
        Path | None, typer.Option(metavar="FOLDER", envvar="PDML_STATE_DIR", help="Where draws are kept.  [default: ~/.local/state/pdml]")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Trust this authority's certificates (PEM) instead of the system's.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Send without asking.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="A table of people, each played as a device of its own.")] = None,
    label_column: Annotated[str, typer.Option(metavar="COLUMN", help="With --csv: the true answers.")] = "",
    epsilon_column: Annotated[str, typer.Option(metavar="COLUMN", help="With --csv: each person's epsilon.")] = "",
    tokens: Annotated[Path | None, typer.Option(metavar="FILE", help="With --csv: invitations, one per line.")] = None,
    outbox: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --csv: where reports wait.  [default: beside the table]")
    ] = None,
    clamp: Annotated[bool, typer.Option("--clamp", help="With --csv: move numbers into their declared ranges.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Answer a study from this device. The true answer never leaves it: chance decides here what is reported.

    Chance decides once for each record: running the command again sends the same report, which counts once.

    \b
    Example:
      pdml contribute study.toml --server alice
    Example, a thousand devices to try a study out:
      pdml contribute study.toml --server http://127.0.0.1:8000 \\
          --csv people.csv --label-column diagnosis
    """
    from pdml.study import Study

    contract = Study.load(study)
    address = _address(contract, server)
    if csv is not None:
        alone = {"--answers": answers, "--answer": answer, "--label": label, "--token": token, "--record": record}
        if given := [name for name, value in alone.items() if value]:
            raise InvalidInput(f"{given[0]} must be left out beside --csv: the table holds everybody's answers")
        _crowd(contract, address, ca, csv, label_column, epsilon_column, epsilon, tokens, outbox, clamp=clamp, as_json=as_json)
        return
    many = {"--label-column": label_column, "--epsilon-column": epsilon_column, "--tokens": tokens, "--outbox": outbox, "--clamp": clamp}
    if given := [name for name, value in many.items() if value]:
        raise InvalidInput(f"{given[0]} needs --csv: it is about a table of people")
    if as_json and not yes:
        raise InvalidInput("--json needs --yes: there is nobody to ask")
    _one(contract, address, ca, _given(answers, answer or []), epsilon, label, token, record, memory, yes=yes, as_json=as_json)


def _address(study: "Study", server: str) -> str:
    if "://" in server:
        return server
    if not server and len(study.servers) > 1:
        names = ", ".join(one.name for one in study.servers)
        raise InvalidInput(f"--server must say who receives the report: one of {names}, or an address")
    return study.server(server).url if server else study.servers[0].url


# One person


def _one(
    study: "Study",
    address: str,
    ca: Path | None,
    given: dict[str, Any],
    epsilon: float | None,
    label: str,
    token: str,
    record: str,
    memory: Path | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    from pdml.cli import screen
    from pdml.contribute import client
    from pdml.contribute.delivery import Service
    from pdml.contribute.memo import Memory

    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    kept = Memory(memory or home / "pdml")
    with Service(address, ca=ca) as service:
        known = kept.recall(study.hash, record)
        if known is not None and known.sent:
            data = known.sent.encode("ascii")
            _tell("A report of this record has left this device already. It cannot be changed; the same one is sent again.", as_json)
        else:
            values = {one.name: given.pop(one.name) if one.name in given else _ask(study, one) for one in study.attributes}
            if given:
                raise DataError(f"answers must be to the study's questions, got one to {next(iter(given))!r}")
            values = {one.name: _value(one, values[one.name]) for one in study.attributes}
            client.require_in_range(study, values)
            if known is not None:
                _tell(f"Epsilon is {known.epsilon / 1e6:g}: it was settled when chance decided, and stays for this record.", as_json)
            micro_epsilon = known.epsilon if known is not None else _epsilon(study, epsilon)
            position = _label(study, label)
            data = client.prepare(study, kept, values, position, micro_epsilon, record=record, token=_token(token))
        seen = client.preview(study, data)
        if not as_json:
            _show(study, seen, service.url)
            if not yes and not typer.confirm("Send this?", err=True):
                typer.echo("Nothing was sent. This device remembers the draw: asking again will show the same.", err=True)
                raise typer.Exit(1)
        with screen.working("Sending"):
            receipt = client.submit(kept, service, data, record=record)
    if as_json:
        import json

        import msgspec

        screen.print_json({"report": json.loads(data), "receipt": msgspec.to_builtins(receipt)})
    else:
        _thank(receipt)


def _given(file: Path | None, pairs: list[str]) -> dict[str, Any]:
    import json

    found: dict[str, Any] = {}
    if file is not None:
        read: Any = None
        try:
            read = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"cannot read {file}: {(error.strerror or str(error)).lower()}") from None
        except ValueError:
            pass  # not JSON, or not UTF-8
        if not isinstance(read, dict):
            raise DataError(f'{file} must be a JSON object of answers by name, such as {{"age": 34}}, got something else')
        found = read
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput(f"--answer must look like name=value, got {pair!r}")
        found[name.strip()] = value.strip()
    return found


def _ask(study: "Study", attribute: "Attribute") -> str:
    from pdml.encoder import Number

    wording = study.wording.get(attribute.name)
    words = (wording.label if wording else "") or attribute.name
    if isinstance(attribute, Number):
        return str(typer.prompt(f"{words} (from {attribute.low:g} to {attribute.high:g})", err=True))
    return attribute.levels[_choose(words, attribute.levels)]


def _choose(words: str, levels: "tuple[str, ...]", *, hidden: bool = False) -> int:
    """The position of a level, chosen by its number or its name."""
    typer.echo(words, err=True)
    for i, level in enumerate(levels, start=1):
        typer.echo(f"  {i}  {level}", err=True)
    while True:
        hide = hidden and sys.stdin.isatty()
        said = str(typer.prompt("Your choice" + (" (not shown)" if hide else ""), err=True, hide_input=hide)).strip()
        if said in levels:
            return levels.index(said)
        if said.isascii() and said.isdigit() and 1 <= int(said) <= len(levels):
            return int(said) - 1
        typer.echo(f"Please give a number from 1 to {len(levels)}.", err=True)


def _value(attribute: "Attribute", value: Any) -> Any:
    from pdml.encoder import Number

    if not isinstance(attribute, Number) or not isinstance(value, str):
        return value
    try:
        return float(value.replace(",", ".", 1)) if "_" not in value else value  # encoding says what is wrong with the rest
    except ValueError:
        return value


def _epsilon(study: "Study", epsilon: float | None) -> int:
    """In millionths. Asked before the label, so that the choice says nothing about it."""
    from pdml.mechanisms.label_flip import micro

    if epsilon is not None:
        if not 0 < epsilon < float("inf"):
            raise InvalidInput(f"--epsilon must be on the study's menu, got {epsilon:g}")
        return micro(epsilon)
    menu = tuple(f"{value:g}: {_meaning(study, one)}" for value, one in zip(study.menu, study.epsilon_micro, strict=True))
    return study.epsilon_micro[_choose("How private? (smaller is more private)", menu)]


def _meaning(study: "Study", micro_epsilon: int) -> str:
    from pdml.mechanisms.label_flip import WORD, threshold
    from pdml.report import numbers

    kept = 1 - threshold(micro_epsilon, len(study.classes)) / WORD
    return f"the server sees your true answer with {numbers.certainty(kept)}, it can never be sure"


def _label(study: "Study", label: str) -> int:
    if not label:
        return _choose(study.question, study.classes, hidden=True)
    if label not in study.classes:
        raise InvalidInput(f"--label must be one of {', '.join(map(repr, study.classes))}, got something else")
    return study.classes.index(label)


def _token(text: str) -> str:
    token = text.rpartition("#t=")[2].strip()
    if token and not (len(token) == 32 and set(token) <= set("0123456789abcdef")):
        raise InvalidInput("--token must be 32 hex digits, or a link that ends in #t= and these")
    return token


def _show(study: "Study", seen: "Preview", address: str) -> None:
    from pdml.report import numbers

    facts: Mapping[str, str] = {
        **{name: f"{value:g}" if isinstance(value, float) else value for name, value in seen.answers.items()},
        study.question: f"{seen.label}  (after chance: {numbers.percent(seen.flip_probability)} of all reports at this level are not true)",
        "epsilon": f"{seen.epsilon:g}",
        "report number": seen.report.id,
    }
    width = max(map(len, facts))
    typer.echo(f"\nThis goes to {address}, and nothing else does:\n")
    for name, value in facts.items():
        typer.echo(f"  {name:<{width}}  {value}")
    typer.echo(f"\nThe exact bytes:\n{seen.bytes.decode('ascii')}\n")


def _thank(receipt: "Receipt") -> None:
    typer.echo(f"Stored by {receipt.server}, in the hour {receipt.hour}.")
    typer.echo(f"Receipt: report {receipt.id}, sha256 {receipt.digest}")


def _tell(sentence: str, as_json: bool) -> None:
    if not as_json:
        typer.echo(sentence, err=True)


# Many devices


def _crowd(
    study: "Study",
    address: str,
    ca: Path | None,
    csv: Path,
    label: str,
    epsilon_column: str,
    epsilon: float | None,
    tokens: Path | None,
    outbox: Path | None,
    *,
    clamp: bool,
    as_json: bool,
) -> None:
    import numpy as np

    from pdml.cli import screen
    from pdml.contribute import crowd
    from pdml.contribute.delivery import Service
    from pdml.tables import read_table

    if not label:
        raise InvalidInput("--csv needs --label-column: the column of true answers")
    if epsilon_column and epsilon is not None:
        raise InvalidInput("--epsilon must be left out beside --epsilon-column: each person has one already")
    Service(address, ca=ca)  # a bad address is refused before the work
    table = read_table(csv, [*(one.name for one in study.attributes), label, *([epsilon_column] if epsilon_column else [])])
    if not clamp:
        crowd.require_in_range(study, table)
    labels = crowd.labels_of(study, table, label)
    if epsilon_column:
        epsilons = crowd.epsilons_of(study, table, epsilon_column)
    else:
        chosen = study.default_epsilon if epsilon is None else epsilon
        if chosen not in study.menu:
            raise InvalidInput(f"--epsilon must be on the study's menu ({', '.join(f'{one:g}' for one in study.menu)}), got {chosen:g}")
        epsilons = np.full(table.n_rows, chosen)
    invited = crowd.read_tokens(tokens, table.n_rows) if tokens is not None else ()
    stem = csv.name.split(".")[0]
    reports = outbox or csv.with_name(f"{stem}.reports.ndjson")
    receipts, failures = (reports.with_name(f"{reports.name.split('.')[0]}.{what}.ndjson") for what in ("receipts", "failures"))
    source = crowd.source_digest(csv, label, epsilon_column, "" if epsilon is None else f"{epsilon!r}")
    with screen.working("Randomising"):
        crowd.fill(reports, study, table, labels, epsilons, source=source)
    with screen.progress("Sending", unit="report") as progress:
        tally = crowd.deliver(reports, receipts, lambda: Service(address, ca=ca), tokens=invited, progress=progress)
    crowd.write_failures(failures, tally.undelivered)
    problems = tally.by_code()
    if as_json:
        files = {"reports": str(reports), "receipts": str(receipts), "failures": str(failures)}
        screen.print_json({"stored": tally.stored, "stored_before": tally.stored_before, "problems": problems, "files": files})
    else:
        before = f" ({tally.stored_before:,} had receipts already)" if tally.stored_before else ""
        typer.echo(f"{tally.stored + tally.stored_before:,} of {table.n_rows:,} reports are stored{before}.")
        for code, count in problems.items():
            typer.echo(f"  {code}: {count:,}")
        screen.list_files(screen.console(), {"reports": reports, "receipts": receipts, "not stored": failures})
    if tally.undelivered:
        why = f"{tally.trouble}; " if tally.trouble else ""
        raise NotDelivered(f"{why}{len(tally.undelivered):,} reports are not stored: the same command sends them again, unchanged")
