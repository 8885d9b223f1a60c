"""`pdml study new`: ask for what a study needs, or take it from a table's header, and write a
commented study.toml.
"""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdml.cli import study_budget
from pdml.cli.asking import ask as _ask
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.encoder import Attribute
    from pdml.study.findings import Findings
    from pdml.tables import Table

LEAK = (
    "TAKEN FROM THE DATA: whoever is extreme or rare shows here. Replace it by what can "
    "be known without any record."
)


def new(
    file: Annotated[Path, typer.Argument(metavar="STUDY", help="The file to write.")] = Path(
        "study.toml"
    ),
    from_csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take names (and kinds) of attributes from a table."),
    ] = None,
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="Its column that people keep secret.")
    ] = "",
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="COLUMN=LOW:HIGH[:whole]", help="Range of a number."),
    ] = None,
    levels: Annotated[
        list[str] | None,
        typer.Option("--levels", metavar="COLUMN=A,B,...", help="Declared levels of a category."),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column that is no attribute.")
    ] = None,
    from_data: Annotated[
        bool,
        typer.Option(
            "--from-data",
            help="Take ranges, levels and classes not declared from the table: a leak.",
        ),
    ] = False,
    id: Annotated[
        str, typer.Option(help="A short name.  [default: from the title]", show_default=False)
    ] = "",
    title: Annotated[str, typer.Option(help="What people read first.")] = "",
    question: Annotated[str, typer.Option(help="The question whose answer is kept secret.")] = "",
    classes: Annotated[str, typer.Option(metavar="A,B,...", help="Its possible answers.")] = "",
    menu: Annotated[
        str, typer.Option(metavar="E,E,...", help="Epsilons to choose from, ascending.")
    ] = "0.4,1,2",
    accept_weak: Annotated[
        bool,
        typer.Option("--accept-weak", help="Take epsilons above 2.944438, which hardly protect."),
    ] = False,
    default: Annotated[
        float | None,
        typer.Option(help="The one suggested.  [default: the middle]", show_default=False),
    ] = None,
    features_epsilon: study_budget.Features = None,
    labels_epsilon: study_budget.Labels = None,
    yes: study_budget.Yes = False,
    servers: Annotated[
        str, typer.Option(metavar="A,B,...", help="Names of the servers, or NAME=URL.")
    ] = "",
    topology: Annotated[str, typer.Option(help="Who talks to whom: ring or complete.")] = "ring",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of sentences.")
    ] = False,
) -> None:
    """Write a commented study.toml: asked step by step, or from the header of a table.

    Ranges and levels are part of the contract, and so are public. Declare what can be known without
    looking at anybody's record: --from-data takes the rest from the table, which shows whoever is
    extreme or rare, and no noise protects that.

    The budget is the most that all other servers together may learn about one person from all
    trainings. It is part of the contract, too: changed later it makes another study.

    \b
    Example, asked step by step:
      pdml study new
    Example, from a table:
      pdml study new --from-csv people.csv --label diagnosis --classes no,yes \\
          --range age=18:100 --levels sex=female,male,other --servers alice,bob,carol
    """
    from pdml.cli import declared, outputs
    from pdml.study import Study
    from pdml.study.template import render
    from pdml.train import trainable

    outputs.check([file], force=force)
    if from_csv is None and (label or ranges or levels or ignore or from_data):
        raise InvalidInput(
            "--label, --range, --levels, --ignore and --from-data describe a table: give "
            "it with --from-csv FILE"
        )
    guessed: tuple[str, ...] = ()
    leaks: list[str] = []
    if from_csv is None:
        title = title or _ask("Title of the study", lambda f, text: f.text(("title",), text, 200))
        question = question or _ask(
            "The question whose answer is kept secret",
            lambda f, text: f.text(("question",), text, 500),
        )
        answers = _split(
            classes or _ask("Its possible answers, separated by commas", _two_or_more, "no,yes")
        )
        attributes = _ask_attributes()
        servers = servers or _ask(
            "Names of the servers, separated by commas", _two_or_more, "alice,bob,carol"
        )
    else:
        table, known = (
            _read(from_csv, label),
            declared.declarations(ranges or [], levels or [], None),
        )
        attributes, guessed = _attributes(table, label, known, ignore or [], from_data)
        leaks = [*guessed, *([] if classes else [label])]
        answers = _split(classes) if classes else _classes(table, label, from_data)
        title, question = title or f"A study of {label}", question or f"{label}?"
    asked = from_csv is None and not yes
    budget = study_budget.rows(features_epsilon, labels_epsilon, ask=asked)
    choices = _numbers("--menu", menu)
    document = {
        "study": {"id": id or _slug(title), "title": title},
        "label": {
            "question": question,
            "classes": answers,
            "epsilon": {
                "menu": choices,
                "default": choices[len(choices) // 2] if default is None else default,
                "accept_weak": accept_weak,
            },
        },
        "attributes": [attribute.to_dict() for attribute in attributes],
        "servers": [_server(text) for text in _split(servers or "alice,bob,carol")],
        "topology": {"kind": topology},
        "budget": budget,
    }
    study = Study.from_document(document, "what was asked for")
    trainable.check(study)
    outputs.commit({file: _writer(render(study, dict.fromkeys(guessed, LEAK)))})
    if as_json:
        from pdml.cli import screen

        told = {"file": str(file), "hash": study.hash, "budget": study.to_dict()["budget"]}
        screen.print_json(told | {"leaks": leaks})
        return
    typer.echo(f"wrote {file}; next: replace what is a placeholder, then pdml study check {file}")
    typer.echo(study_budget.told(study))
    if leaks:
        from pdml.tables import listed

        typer.echo(
            f"warning: ranges, levels or classes of {listed(leaks)} were taken from the "
            "data: a release no noise protects",
            err=True,
        )


# From a table


def _read(path: Path, label: str) -> "Table":
    from pdml.tables import read_table

    if not label:
        raise InvalidInput("--from-csv needs --label COLUMN: the column that people keep secret")
    return read_table(path)


def _attributes(
    table: "Table",
    label: str,
    known: "dict[str, Attribute]",
    ignore: Sequence[str],
    from_data: bool,
) -> "tuple[tuple[Attribute, ...], tuple[str, ...]]":
    """One attribute per column, and the columns whose declaration came from the data; a person at a
    terminal is asked.
    """
    from pdml.cli import declared
    from pdml.cli.records import Roles

    features = Roles(label=label, ignored=tuple(ignore)).features(table)
    if not from_data and sys.stdin.isatty():
        asked = (name for name in features if name not in known)
        known |= {
            name: _ask_attribute(name, "number" if table.is_numeric(name) else "category")
            for name in asked
        }
    encoder, guessed = declared.encoder(table, known, features=features, from_data=from_data)
    return encoder.attributes, guessed


def _classes(table: "Table", label: str, from_data: bool) -> list[str]:
    if not from_data:
        raise InvalidInput(
            "--classes must name the possible answers, got nothing: or let --from-data "
            "take them from the table"
        )
    return sorted(set(table.text(label, private=True).tolist()))


# Asked step by step


def _two_or_more(f: "Findings", text: str) -> None:
    f.texts(("answer",), _split(text), least=2, most=100)


def _ask_attributes() -> "tuple[Attribute, ...]":
    typer.echo("Attributes: what the model predicts from. The own server can read them.", err=True)
    found: dict[str, Attribute] = {}
    while True:
        prompt = "Name of an attribute" + (" (empty: no more)" if found else "")
        name = _ask(
            prompt, lambda f, text: text and f.text(("name",), text, 100), "" if found else None
        )
        if not name and found:
            return tuple(found.values())
        if not name or name in found:
            typer.echo("Error: every attribute needs a name of its own", err=True)
            continue
        kind = _ask("Is it a number or a category", _kind, "number")
        found[name] = _ask_attribute(name, kind)


def _kind(f: "Findings", text: str) -> None:
    if text not in ("number", "category"):
        f.wrong(("kind",), "be number or category", text)


def _ask_attribute(name: str, kind: str) -> "Attribute":
    from pdml.cli import declared
    from pdml.encoder import Category
    from pdml.tables import MISSING

    if kind == "category":
        levels = _ask(
            f"Possible levels of {name}, separated by commas",
            lambda f, text: f.texts(
                ("levels",), _split(text), least=1, most=1_000, refused=MISSING
            ),
        )
        return Category(name=name, levels=tuple(_split(levels)))

    def two(f: "Findings", text: str) -> None:
        try:
            declared.number(name, text)
        except ValueError:
            f.wrong(("range",), "be LOW:HIGH with LOW below HIGH, or LOW:HIGH:whole", text)

    known = f"Range of {name} that can be known without looking at anybody"
    form = "LOW:HIGH, or LOW:HIGH:whole if fractions are no answers"
    return declared.number(name, _ask(f"{known}, as {form}", two))


# Small pieces of text


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"{option} must be numbers separated by commas, got {text!r}") from None


def _server(text: str) -> dict[str, str]:
    name, _, url = text.partition("=")
    return {"name": name, "url": url or f"https://{name}.example"}


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:63].strip("-") or "study"


def _writer(text: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(text, encoding="utf-8")

    return write
