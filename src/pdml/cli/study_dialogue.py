"""What `pdml study new` asks in a terminal, step by step: again until the answer will do."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import typer

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.encoding.encoder import Attribute, Number
    from pdml.errors import UndeclaredColumns
    from pdml.study.schema.validation import ValidationErrors

    Check = Callable[[ValidationErrors, str], Any]

EXAMPLE_EPSILONS = (0.5, 1.0, 2.0)


def ask(prompt: str, check: "Check", default: str | None = None) -> str:
    """Ask until the answer passes ``check``."""
    from pdml.study.schema.validation import ValidationErrors

    def proved(text: str) -> str:
        findings = ValidationErrors()
        check(findings, text.strip())
        if findings.mistakes:
            raise typer.BadParameter(findings.mistakes[0][1])
        return text.strip()

    with require_reply(prompt):
        return str(typer.prompt(prompt, default=default, value_proc=proved, err=True))


@contextmanager
def require_reply(prompt: str) -> Iterator[None]:
    """Around one question: if the input ends, it is named."""
    try:
        yield
    except typer.Abort:
        typer.echo(err=True)  # the question stands on a line of its own
        way_out = "answer in a terminal, or say it by options (--help lists them)"
        raise InvalidInput(f"nobody answered {prompt!r}: {way_out}") from None


def split(text: str) -> list[str]:
    """Words between commas."""
    return [part.strip() for part in text.split(",")] if text else []


def ask_attribute(name: str, kind: str) -> "Attribute":
    """A number's range, and what is expected of people; or the levels of a category."""
    from pdml.cli import column_options
    from pdml.encoding.declarations import with_gaps
    from pdml.encoding.encoder import Category, Number
    from pdml.tables import MISSING

    def some(f: "ValidationErrors", text: str) -> None:
        f.texts(("levels",), split(text), least=1, most=1_000, refused=MISSING)

    def two(f: "ValidationErrors", text: str) -> None:
        try:
            column_options.parse_number(name, text)
        except ValueError:
            f.reject(("range",), "be LOW:HIGH with LOW below HIGH, or LOW:HIGH:whole", text)

    declaration: Attribute
    if kind == "category":
        levels = ask(f"Possible levels of {name}, separated by commas", some)
        declaration = Category(name=name, levels=tuple(split(levels)))
    else:
        prompt = f"Range of {name} that can be known without looking at anybody"
        form = "LOW:HIGH, or LOW:HIGH:whole if fractions are no answers"
        declaration = column_options.parse_number(name, ask(f"{prompt}, as {form}", two))
        assert isinstance(declaration, Number)
        declaration = _expected(declaration) if declaration.typical is None else declaration
    skipped = ask(f"May an answer to {name} be missing, yes or no", _yes_or_no, "no")
    return with_gaps(declaration) if skipped == "yes" else declaration


def _expected(number: "Number") -> "Number":
    """What the author would expect of people, without looking at any."""

    def tried(f: "ValidationErrors", text: str, make: "Callable[[float], Number]") -> None:
        try:
            make(float(text))
        except InvalidInput as error:
            f.add(("answer",), str(error))
        except ValueError:
            f.reject(("answer",), "be a number", text)

    def both(typical: float, spread: float) -> "Number":
        return replace(number, typical=typical, spread=spread)

    middle, sixth = number.scale
    prompt = f"What value of {number.name} would you expect of a typical person?"
    typical = ask(prompt, partial(tried, make=lambda value: both(value, sixth)), f"{middle:g}")
    from_spread = partial(both, float(typical))
    spread = ask(
        "Within how much of it do most people lie?", partial(tried, make=from_spread), f"{sixth:g}"
    )
    return from_spread(float(spread))


def _yes_or_no(f: "ValidationErrors", text: str) -> None:
    if text not in ("yes", "no"):
        f.reject(("answer",), "be yes or no", text)


def ask_attributes(error: "UndeclaredColumns") -> "tuple[Attribute, ...]":
    """What is not declared, asked column by column."""
    typer.echo("Say of each column what you know without looking at anybody's record.", err=True)
    kinds = {name: "number" if name in error.numbers else "category" for name in error.columns}
    return tuple(ask_attribute(name, kind) for name, kind in kinds.items())


def _attributes() -> "tuple[Attribute, ...]":
    typer.echo(
        "Attributes: what the model predicts from. The collecting organisation can read them.",
        err=True,
    )
    attributes: dict[str, Attribute] = {}
    while True:
        prompt = "Name of an attribute" + (" (empty: no more)" if attributes else "")
        name = ask(prompt, partial(_distinct, others=tuple(attributes)), "" if attributes else None)
        if not name and attributes:
            return tuple(attributes.values())
        if not name or name in attributes:
            typer.echo("Error: every attribute needs a name of its own", err=True)
            continue
        attributes[name] = ask_attribute(name, ask("Is it a number or a category", _kind, "number"))


def _distinct(f: "ValidationErrors", text: str, others: tuple[str, ...]) -> None:
    """The name of one more attribute, or nothing."""
    from pdml.study.schema.validation import Lookalikes

    lookalikes = Lookalikes()
    for other in others:
        lookalikes.add(other)
    if text and f.text(("name",), text, 100) and text not in others:
        f.distinct(("name",), text, lookalikes)


def _servers() -> list[str]:
    from pdml.study.schema.servers import read_servers
    from pdml.study.schema.template import server_table

    def good(f: "ValidationErrors", text: str) -> None:
        read_servers(f, [server_table(part) for part in split(text)])

    return split(ask("Names of the servers, separated by commas", good, "alice,bob,carol"))


def _kind(f: "ValidationErrors", text: str) -> None:
    if text not in ("number", "category"):
        f.reject(("kind",), "be number or category", text)


def _several(what: str, proposed: str) -> list[str]:
    def two_or_more(f: "ValidationErrors", text: str) -> None:
        f.texts(("answer",), split(text), least=2, most=100)

    return split(ask(f"{what}, separated by commas", two_or_more, proposed))


def _short(name: str, most: int) -> "Check":
    return lambda f, text: f.text((name,), text, most)


def ask_notice() -> dict[str, dict[str, Any]]:
    """What people must be told before they are asked; nothing if the author has no answers yet."""
    from pdml.study.participant_notice import LONGEST

    typer.echo("People are asked only by a study that tells them who asks, and for what.", err=True)
    name = ask("Who organises it, a person or an organisation (empty: later)", _perhaps, "")
    if not name:
        return {}

    def day(f: "ValidationErrors", text: str) -> None:
        try:
            if date.fromisoformat(text) <= datetime.now(UTC).date():
                f.reject(("retention",), "be a day to come", text, "all reports would be erased")
        except ValueError:
            f.reject(("retention",), "be a day such as 2030-01-31", text)

    organiser = {
        "name": name,
        "address": ask("Its postal address", _short("address", 500)),
        "contact": ask("Where people write to (e-mail or telephone)", _short("contact", 200)),
    }
    prompt = "Where they write to about their data (empty: the same)"
    if guard := ask(prompt, _perhaps, ""):
        organiser["data_protection_contact"] = guard
    notice = {
        "purpose": ask("What are the answers and the model for", _short("purpose", 2_000)),
        "legal_basis": ask("On what legal basis, such as consent", _short("legal_basis", 2_000)),
        "who_sees": ask("Who sees what of an answer", _short("who_sees", 2_000)),
    }
    until = ask("The day on which all reports are erased, as YYYY-MM-DD", day)
    notice["retention"] = f"{until}T00:00:00Z"
    consent = {
        "text": ask("The sentence that people agree to", _short("text", LONGEST)),
        "version": "1",
    }
    return {"organiser": organiser, "notice": notice, "consent": consent}


def _perhaps(f: "ValidationErrors", text: str) -> None:
    if text:
        f.text(("answer",), text, 200)


QUESTIONS: Mapping[str, Callable[[], Any]] = {  # in the order in which people think of them
    "title": partial(ask, "Title of the study", _short("title", 200)),
    "question": partial(ask, "The question whose answer is kept secret", _short("question", 500)),
    "classes": partial(_several, "Its possible answers", "no,yes"),
    "attributes": _attributes,
    "servers": _servers,
    "notices": ask_notice,
}


def ask_budget(proposed: float) -> float:
    """The limit of features, beside what some limits mean."""
    from pdml.accounting import Budget
    from pdml.cli.render.study_tables import certainty_limit

    typer.echo("Budget: how much may all other servers together learn about one person's", err=True)
    typer.echo("answers, from all trainings? Starting from even odds they become", err=True)
    for epsilon in EXAMPLE_EPSILONS:
        typer.echo(f"  {epsilon:<4g} {certainty_limit(epsilon, Budget().features_delta)}", err=True)
    return float(ask("Epsilon of the budget", _positive, f"{proposed:g}"))


def _positive(f: "ValidationErrors", text: str) -> None:
    try:
        if 0 < float(text) < inf:
            return
    except ValueError:
        pass
    f.reject(("epsilon",), "be a positive number", text)
