"""`pdml study`: write, check and read a study."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pdml.cli import dialogue, outputs
from pdml.cli.column_options import NO_COLUMNS, Columns
from pdml.cli.options import (
    FORCE,
    JSON,
    STUDY_FILE,
    STUDY_HERE,
    argument,
    flag,
    group,
    option,
    split_words,
    spread_options,
)
from pdml.cli.render import console
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.encoding.encoder import Encoder
    from pdml.study import Study
    from pdml.study.study_summary import LintMessage


study = group("Write, check and read a study.")

_REVISION = "The study is in use: name what this revision replaces, so that data sets stay usable."


@study.command()
def check(
    file: Path = STUDY_HERE,
    test: bool = flag("--test", "Nobody is asked by it: it need not say what people must be told."),
    as_json: bool = JSON,
) -> None:
    """Find every mistake in a study file, each with its line; exit code 1 if there is one.

    A study under which nobody could ever train is a mistake: one without a budget that ends, or
    with a plan that cannot keep to it. So is one that does not tell people who asks, what becomes
    of their answers and what they agree to; --test is for studies by which nobody is asked, as
    those of organisations that have their records already. Warnings are told as well: addresses
    that are placeholders, and a plan that would exceed the budget with as few records as the study
    allows. Where the study has a plan and a menu of several epsilons, it says what the menu costs.

    \b
    Example:
      pdml study check study.toml
    """
    from pdml.study.study_summary import examine, menu_cost

    examination = examine(file, test=test)
    cost = menu_cost(examination.study) if examination.study else ""
    if as_json:
        named = examination.study.hash if examination.study else None
        summary = {"file": file, "valid": not examination.mistakes, "hash": named}
        summary["menu_cost"] = cost
        console.print_json(summary | examination.to_dict())
    else:
        _list(file, examination.mistakes, "")
        _list(file, examination.warnings, "warning: ")
    if examination.mistakes or examination.study is None:
        count = len(examination.mistakes)
        raise InvalidInput(f"{file} has {count} mistake{'s' if count > 1 else ''}")
    if not as_json:
        typer.echo(f"{file} is a valid study: {_sizes(examination.study)}")
        if cost:
            typer.echo(f"menu: {cost}")
        typer.echo(f"hash {examination.study.hash}")


@study.command()
def show(file: Path = STUDY_HERE, as_json: bool = JSON) -> None:
    """Say in words what a study asks, who takes part, and what it promises.

    \b
    Example:
      pdml study show study.toml
    """
    from pdml.errors import StudyError
    from pdml.study.study_summary import describe_study, examine

    examination = examine(file)
    if examination.study is None:
        raise StudyError(str(file), examination.mistakes)
    facts = {**describe_study(examination.study), "page_sha256": _page(examination.study)}
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
    file: Path = STUDY_FILE,
    cards: list[Path] = argument(..., "Public cards that `pdml node init` printed.", "CARD..."),
    url: str = option("", "The collection service of a server that the study does not have yet."),
    revision: bool = flag("--revision", _REVISION),
    as_json: bool = JSON,
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
    from pdml.study.schema import template

    if url and len(cards) > 1:
        raise InvalidInput("--url is one server's address: give its card alone")
    public_cards = [Card.load(path) for path in cards]
    study = template.pin_in_file(
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
    out. None on a device that has nothing to draw pages with."""
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


_FROM_CSV = "Take names (and kinds) of attributes from a table."
_FROM_DATA = "Take ranges, levels and classes not declared from the table: a leak."
_WEAK = "Take epsilons above 2.944438, which hardly protect."
_FEATURES = "Budget: epsilon of features against all other servers.  [default: asked for, or 1]"
_LABELS = "Budget: epsilon of labels, if it is to be less than what devices give away."
Number = float | None


@study.command()
@spread_options
def new(
    file: Path = argument(Path("study.toml"), "The file to write.", "STUDY"),
    from_csv: Path | None = option(None, _FROM_CSV, "FILE"),
    label: str = option("", "Its column that people keep secret.", "COLUMN"),
    columns: Columns = NO_COLUMNS,
    from_data: bool = flag("--from-data", _FROM_DATA),
    id: str = option("", "A short name.  [default: from the title]"),
    title: str = option("", "What people read first."),
    question: str = option("", "The question whose answer is kept secret."),
    classes: str = option("", "Its possible answers.", "A,B,..."),
    menu: str = option("0.4,1,2", "Epsilons to choose from, ascending.", "E,E,..."),
    accept_weak: bool = flag("--accept-weak", _WEAK),
    default: Number = option(None, "The one suggested.  [default: the middle]"),
    features_epsilon: Number = option(None, _FEATURES),
    labels_epsilon: Number = option(None, _LABELS),
    yes: bool = flag("--yes", "Take the budget that is proposed, without asking."),
    servers: str = option("", "Names of the servers, or NAME=URL.", "A,B,..."),
    topology: str = option("ring", "Who talks to whom: ring or complete."),
    force: bool = FORCE,
    as_json: bool = JSON,
) -> None:
    """Write a commented study.toml: asked step by step, or from the header of a table.

    Ranges, averages and levels are part of the study, and so are public. Declare what can
    be known without looking at anybody's record: with age=18:100:45:20 ages from 18 to 100 are
    accepted, and most people are expected to be 45 ± 20. --from-data takes the rest from the table,
    which shows whoever is extreme or rare, and no noise protects that.

    The budget is the most that all other servers together may learn about one person from all
    trainings. It is part of the study, too: changed later it makes another study.

    \b
    Example, asked step by step:
      pdml study new
    Example, from a table:
      pdml study new --from-csv people.csv --label diagnosis --classes no,yes \\
          --range age=18:100:45:20 --levels sex=female,male,other --servers alice,bob,carol
    """
    from pdml.files import atomic_write
    from pdml.study.schema.template import FEATURES_EPSILON, LEAK, new_study, render

    outputs.check([file], force=force)
    answers: dict[str, Any] = {"title": title, "question": question}
    answers |= {"classes": split_words(classes), "servers": split_words(servers)}
    leaks: tuple[str, ...] = ()
    if from_csv is not None:
        proposals, leaks = _of_table(from_csv, label, columns, from_data=from_data)
        if not (classes or from_data):
            raise InvalidInput(
                "--classes must name the possible answers, got nothing: or let --from-data take "
                "them from the table"
            )
        answers = {name: answers.get(name) or value for name, value in proposals.items()}
    elif label or from_data or columns != NO_COLUMNS:
        raise InvalidInput(
            "--label, --range, --levels, --encoder, --ignore, --missing, --missing-values, --map "
            "and --from-data describe a table: give it with --from-csv FILE"
        )
    else:
        answers = {name: answers.get(name) or ask() for name, ask in dialogue.QUESTIONS.items()}
    if features_epsilon is None:  # there always is a limit, which ends whatever jobs follow
        asks = from_csv is None and not yes
        features_epsilon = dialogue.ask_budget(FEATURES_EPSILON) if asks else FEATURES_EPSILON
    study = new_study(
        **answers,
        id=id,
        menu=_numbers("--menu", menu),
        default=default,
        accept_weak=accept_weak,
        topology=topology,
        features_epsilon=features_epsilon,
        labels_epsilon=labels_epsilon,
    )
    text = render(study, dict.fromkeys(leaks, LEAK))
    outputs.commit({file: partial(atomic_write, data=text)})
    leaks = leaks if classes or from_csv is None else (*leaks, label)
    summary = {"file": file, "hash": study.hash, "budget": study.to_dict()["budget"]}
    console.print_answer(
        as_json,
        summary | {"leaks": leaks},
        f"wrote {file}; next: replace what is a placeholder, then pdml study check {file}",
        _budget(study),
    )
    if leaks and not as_json:
        from pdml.tables import quote_names

        what = f"ranges (to two digits of their width), levels or classes of {quote_names(leaks)}"
        alone = "also a level or class that one person alone has"
        typer.echo(
            f"warning: {what} were taken from the data, {alone}: a release no noise protects",
            err=True,
        )


def _of_table(
    file: Path, label: str, columns: Columns, *, from_data: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a table proposes, and the columns whose declaration came from the data. A person at a
    terminal is asked for what is not declared."""
    from pdml.encoding.declarations import by_name, encoder_for
    from pdml.study.schema.template import SERVERS
    from pdml.tables import read_table
    from pdml.tables.columns import Roles

    if not label:
        raise InvalidInput("--from-csv needs --label COLUMN: the column that people keep secret")
    table = read_table(file)
    features = Roles(label=label, ignored=tuple(columns.ignore or ())).features(table)

    def read(settings: dict[str, Any]) -> "tuple[Encoder, tuple[str, ...]]":
        how = {name: value for name, value in settings.items() if name != "attributes"}
        declared = by_name(settings["attributes"])
        return encoder_for(table, declared, features=features, from_data=from_data, **how)

    command = ["pdml", "study", "new", "--from-csv", str(file), "--label", label]
    (encoder, guessed), _ = dialogue.declare_columns(columns, command, read, ask=True)
    proposed = {
        "title": f"A study of {label}",
        "question": f"{label}?",
        "classes": sorted(set(table.text(label, private=True).tolist())) if from_data else [],
        "attributes": encoder.attributes,
        "missing_values": encoder.missing_values,
        "maps": encoder.maps,
        "servers": SERVERS,
    }
    return proposed, guessed


def _budget(study: "Study") -> str:
    """What the budget of a new study lets others learn."""
    from pdml.accounting import Budget
    from pdml.accounting.kinds import Data
    from pdml.cli.render.study_tables import certainty_limit

    budget = study.budget or Budget()
    limit = certainty_limit(*budget.limit(Data.FEATURES), of=" of somebody's answers")
    learnt = f"By its budget, from even odds, {budget.whom} can become {limit}."
    return f"{learnt} After the first report another budget makes another study."


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"{option} must be numbers separated by commas, got {text!r}") from None
