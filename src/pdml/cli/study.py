"""`pdml study`: write, check and read the contract of a study."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdml.cli.study_new import new
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.cli.studyfile import Told
    from pdml.study import Study

study = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Write, check and read the contract of a study.",
)
study.command()(new)

File = Annotated[Path, typer.Argument(metavar="STUDY", help="A study.toml.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")]


@study.command()
def check(file: File = Path("study.toml"), as_json: Json = False) -> None:
    """Find every mistake in a study file, each with its line; exit code 1 if there is one.

    A study under which nobody could ever train is a mistake: one without a budget that ends, or
    with a plan that cannot keep to it. Warnings are told as well: addresses that are placeholders,
    and a plan that would exceed the budget with as few records as the study allows.

    \b
    Example:
      pdml study check study.toml
    """
    from pdml.cli import screen, studyfile

    found = studyfile.examine(file)
    if as_json:
        named = found.study.hash if found.study else None
        told = {"file": str(file), "valid": not found.mistakes, "hash": named}
        screen.print_json(
            told
            | {name: studyfile.as_json(getattr(found, name)) for name in ("mistakes", "warnings")}
        )
    else:
        _list(file, found.mistakes, "")
        _list(file, found.warnings, "warning: ")
    if found.mistakes or found.study is None:
        count = len(found.mistakes)
        raise InvalidInput(f"{file} has {count} mistake{'s' if count > 1 else ''}")
    if not as_json:
        typer.echo(f"{file} is a valid study: {_sizes(found.study)}")
        typer.echo(f"hash {found.study.hash}")


@study.command()
def show(file: File = Path("study.toml"), as_json: Json = False) -> None:
    """Say in words what a study asks, who takes part, and what it promises.

    \b
    Example:
      pdml study show study.toml
    """
    from pdml.cli import screen, studyfile
    from pdml.errors import StudyError

    found = studyfile.examine(file)
    if found.study is None:
        raise StudyError(str(file), found.mistakes)
    facts = _facts(found.study)
    if as_json:
        told = {name: studyfile.as_json(getattr(found, name)) for name in ("mistakes", "warnings")}
        screen.print_json({**facts, "study": found.study.to_dict(), **told})
        return
    from pdml.cli.study_words import tell

    tell(found.study, facts)
    _list(file, found.mistakes, "")
    _list(file, found.warnings, "warning: ")


@study.command()
def add_server(
    file: File,
    cards: Annotated[
        list[Path],
        typer.Argument(metavar="CARD...", help="Public cards that `pdml node init` printed."),
    ],
    url: Annotated[
        str,
        typer.Option(help="The collection service of a server that the study does not have yet."),
    ] = "",
    revision: Annotated[
        bool,
        typer.Option(
            "--revision",
            help="The study is in use: name what this revision replaces, so that data sets "
            "stay usable.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Pin the public keys of servers in the study: from then on its hash covers them.

    Compare each card's fingerprint with its organisation first, by a way that whoever sent the card
    does not control.

    \b
    Example:
      pdml study add-server study.toml alice.card bob.card
    Example, after alice has lost its keys:
      pdml study add-server study.toml alice.card --revision
    """
    from pdml.cli import screen
    from pdml.cli.node import needs_node
    from pdml.files import atomic_write
    from pdml.study import Study, edit
    from pdml.study.contract import read_text

    with needs_node():
        from pdml.node.card import Card
    if url and len(cards) > 1:
        raise InvalidInput("--url is one server's address: give its card alone")
    found = [Card.load(path) for path in cards]
    text = edit.pin_servers(
        read_text(file), [card.entry(url) for card in found], revision=revision, source=str(file)
    )
    study = Study.from_text(text, str(file))
    atomic_write(file, text)
    if as_json:
        fingerprints = {card.name: card.fingerprint for card in found}
        screen.print_json(
            {
                "study": study.id,
                "hash": study.hash,
                "replaces": study.replaces,
                "cards": fingerprints,
            }
        )
        return
    for card in found:
        typer.echo(f"{card.name}: {card.fingerprint}")
    typer.echo(f"hash {study.hash}" + (f", replaces {study.replaces}" if study.replaces else ""))


def _list(file: Path, told: "tuple[Told, ...]", kind: str) -> None:
    for line, text in told:
        typer.echo(f"{file}:{line}: {kind}{text}" if line else f"{file}: {kind}{text}")


def _sizes(study: "Study") -> str:
    from pdml.report import numbers

    attributes = numbers.count(len(study.attributes), "attribute")
    asked = f"{len(study.classes)} classes, {attributes} in {study.width} features"
    return f"{study.id}, {len(study.servers)} servers, {asked}"


def _facts(study: "Study") -> dict[str, Any]:
    """What follows from a study and is not written in it."""
    from pdml.contribute import words
    from pdml.core.labels import keep_weight
    from pdml.mechanisms.label_flip import is_weak
    from pdml.train import trainable

    classes = len(study.classes)
    floor = float(keep_weight(study.menu[0], classes))
    plan = trainable.plan_of(study)
    return {
        "hash": study.hash,
        "page_sha256": _page(study),
        "width": study.width,
        "menu": [
            {
                "epsilon": epsilon,
                "millionths": micro,
                "true_answer": float(words.kept(micro, classes)),
                "certainty": float(words.certainty(micro)),
                "weak": is_weak(micro),
                "meaning": words.meaning(micro, study.classes),
            }
            for epsilon, micro in zip(study.menu, study.epsilon_micro, strict=True)
        ],
        "influence": {
            "weight": floor,
            "records": study.min_records,
            "cap": floor / study.min_records,
        },
        "plan": None if plan is None else plan.to_dict(),
        "ledger": None if plan is None else trainable.planned(study, plan).to_dict(),
    }


def _page(study: "Study") -> str:
    """sha256 of the page that contributors see: publish it, so that anybody can compare what a
    server hands out.
    """
    from pdml.contribute.page import render

    return render(study).sha256
