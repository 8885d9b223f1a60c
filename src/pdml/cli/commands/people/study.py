"""`pdml study`: write, check and read the contract of a study."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdml.cli.commands.people.study_new import new
from pdml.cli.options import Json, StudyFile, argument, flag, group, option
from pdml.cli.render import console
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.study import Study
    from pdml.study.schema.lint import LintMessage

study = group("Write, check and read the contract of a study.")
study.command()(new)

_REVISION = "The study is in use: name what this revision replaces, so that data sets stay usable."


_TEST = "Nobody is asked by it: it need not say what people must be told."


@study.command()
def check(
    file: StudyFile = Path("study.toml"),
    test: Annotated[bool, flag("--test", _TEST)] = False,
    as_json: Json = False,
) -> None:
    """Find every mistake in a study file, each with its line; exit code 1 if there is one.

    A study under which nobody could ever train is a mistake: one without a budget that ends, or
    with a plan that cannot keep to it. So is one that does not tell people who asks, what becomes
    of their answers and what they agree to; --test is for studies by which nobody is asked, as
    those of organisations that have their records already. Warnings are told as well: addresses
    that are placeholders, and a plan that would exceed the budget with as few records as the study
    allows.

    \b
    Example:
      pdml study check study.toml
    """
    from pdml.study.schema.lint import examine

    examination = examine(file, test=test)
    if as_json:
        named = examination.study.hash if examination.study else None
        summary = {"file": str(file), "valid": not examination.mistakes, "hash": named}
        console.print_json(summary | examination.to_dict())
    else:
        _list(file, examination.mistakes, "")
        _list(file, examination.warnings, "warning: ")
    if examination.mistakes or examination.study is None:
        count = len(examination.mistakes)
        raise InvalidInput(f"{file} has {count} mistake{'s' if count > 1 else ''}")
    if not as_json:
        typer.echo(f"{file} is a valid study: {_sizes(examination.study)}")
        typer.echo(f"hash {examination.study.hash}")


@study.command()
def show(file: StudyFile = Path("study.toml"), as_json: Json = False) -> None:
    """Say in words what a study asks, who takes part, and what it promises.

    \b
    Example:
      pdml study show study.toml
    """
    from pdml.errors import StudyError
    from pdml.study.schema.lint import examine
    from pdml.study.study_facts import facts as facts_of

    examination = examine(file)
    if examination.study is None:
        raise StudyError(str(file), examination.mistakes)
    facts = {**facts_of(examination.study), "page_sha256": _page(examination.study)}
    if as_json:
        console.print_json({**facts, "study": examination.study.to_dict(), **examination.to_dict()})
        return
    from pdml.cli.render.study_tables import print_study

    print_study(examination.study, facts)
    if examination.mistakes or examination.warnings:
        console.print_text("", ("What must be mended first?", console.HEADING))
    _list(file, examination.mistakes, "")
    _list(file, examination.warnings, "warning: ")


@study.command()
def add_server(
    file: StudyFile,
    cards: Annotated[
        list[Path], argument("Public cards that `pdml node init` printed.", "CARD...")
    ],
    url: Annotated[
        str, option("The collection service of a server that the study does not have yet.")
    ] = "",
    revision: Annotated[bool, flag("--revision", _REVISION)] = False,
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
    from pdml.node.crypto.signing import Card
    from pdml.study.schema import toml_edit

    if url and len(cards) > 1:
        raise InvalidInput("--url is one server's address: give its card alone")
    public_cards = [Card.load(path) for path in cards]
    study = toml_edit.pin_in_file(
        file, [card.entry(url) for card in public_cards], revision=revision
    )
    summary = {"study": study.id, "hash": study.hash, "replaces": study.replaces}
    console.print_answer(
        as_json,
        summary | {"cards": {card.name: card.fingerprint for card in public_cards}},
        *(f"{card.name}: {card.fingerprint}" for card in public_cards),
        f"hash {study.hash}" + (f", replaces {study.replaces}" if study.replaces else ""),
    )


def _list(file: Path, findings: "tuple[LintMessage, ...]", kind: str) -> None:
    for line, text in findings:
        typer.echo(f"{file}:{line}: {kind}{text}" if line else f"{file}: {kind}{text}")


def _page(study: "Study") -> str | None:
    """The hash of the contributors' page, to be published: anybody can compare what a server hands
    out. None on a device that has nothing to draw pages with.
    """
    from pdml.errors import MissingExtra
    from pdml.extras import needed

    try:
        with needed("collect"):
            from pdml.device.page import render
    except MissingExtra:
        return None
    return render(study).sha256


def _sizes(study: "Study") -> str:
    from pdml.formatting import numbers

    attributes = numbers.count(len(study.attributes), "attribute")
    features = numbers.count(study.encoder.n_features, "feature")
    shape = f"{len(study.classes)} classes, {attributes} in {features} and a constant"
    return f"{study.id}, {len(study.servers)} servers, {shape}"
