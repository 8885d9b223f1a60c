"""What the terminal asks, again until the answer will do: for `pdml study new`, undeclared
columns of a table, and the answers of one person."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from pdml.cli.options import split_words
from pdml.errors import DataError, InvalidInput

if TYPE_CHECKING:
    from pdml.cli.column_options import Columns
    from pdml.cli.commands.contribute import PersonOptions
    from pdml.encoding.encoder import Attribute, Number
    from pdml.errors import UndeclaredColumns
    from pdml.study import Study
    from pdml.study.schema.validation import ValidationErrors
    from pdml.study.translations import Question, Texts

    Check = Callable[[ValidationErrors, str], Any]

Result = TypeVar("Result")
EXAMPLE_EPSILONS = (0.5, 1.0, 2.0)


def ask(prompt: str, check: "Check", default: str | None = None) -> str:
    """Ask until the answer passes ``check``."""
    from pdml.study.schema.validation import ValidationErrors

    def proved(text: str) -> str:
        findings = ValidationErrors()
        try:
            check(findings, text.strip())
        except InvalidInput as error:
            raise typer.BadParameter(str(error)) from None
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


def ask_attribute(name: str, kind: str) -> "Attribute":
    """A number's range, and what is expected of people; or the levels of a category."""
    from pdml.cli import column_options
    from pdml.encoding.declarations import with_gaps
    from pdml.encoding.encoder import Category, Number
    from pdml.tables import MISSING

    def some(f: "ValidationErrors", text: str) -> None:
        f.texts(("levels",), split_words(text), least=1, most=1_000, refused=MISSING)

    def two(f: "ValidationErrors", text: str) -> None:
        try:
            column_options.parse_number(name, text)
        except ValueError:
            f.reject(("range",), "be LOW:HIGH with LOW below HIGH, or LOW:HIGH:whole", text)

    declaration: Attribute
    if kind == "category":
        prompt = f"Possible levels of {name}, separated by commas"
        levels = ask(f"{prompt} (one with a comma in double quotes)", some)
        declaration = Category(name=name, levels=tuple(split_words(levels)))
    else:
        prompt = f"Range of {name} that can be known without looking at anybody"
        form = "LOW:HIGH, or LOW:HIGH:whole if fractions are no answers"
        declaration = column_options.parse_number(name, ask(f"{prompt}, as {form}", two))
        assert isinstance(declaration, Number)
        declaration = _expected(declaration) if declaration.average is None else declaration
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

    def both(average: float, spread: float) -> "Number":
        return replace(number, average=average, spread=spread)

    middle, sixth = number.scale
    prompt = f"What average of {number.name} do you expect?"
    average = ask(prompt, partial(tried, make=lambda value: both(value, sixth)), f"{middle:g}")
    from_spread = partial(both, float(average))
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


def declare_columns(
    columns: "Columns",
    command: Sequence[str],
    call: "Callable[[dict[str, Any]], Result]",
    *,
    ask: bool,
) -> "tuple[Result, tuple[Attribute, ...]]":
    """Call with what the options declare; what is not declared is asked for if there is somebody to
    ``ask``, else told as options of the ``command``. Also what was answered."""
    from pdml.cli.column_options import suggest_options
    from pdml.errors import UndeclaredColumns

    settings = columns.settings()
    with suggest_options([*command, *columns.to_arguments()]):
        try:
            return call(settings), ()
        except UndeclaredColumns as error:
            if not (ask and sys.stdin.isatty()):
                raise
            attributes = ask_attributes(error)
            settings["attributes"] += attributes
            return call(settings), attributes


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
        read_servers(f, [server_table(part) for part in split_words(text)])

    return split_words(ask("Names of the servers, separated by commas", good, "alice,bob,carol"))


def _kind(f: "ValidationErrors", text: str) -> None:
    if text not in ("number", "category"):
        f.reject(("kind",), "be number or category", text)


def _several(what: str, proposed: str) -> list[str]:
    def two_or_more(f: "ValidationErrors", text: str) -> None:
        f.texts(("answer",), split_words(text), least=2, most=100)

    return split_words(ask(f"{what}, separated by commas", two_or_more, proposed))


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


_THEN = "the device then randomises it, once; nothing remembers what you chose"


@dataclass(frozen=True, kw_only=True)
class PresetAnswers:
    """What the options say; None and missing answers are asked for."""

    answers: Mapping[str, float | str | None]
    micro_epsilon: int | None
    label: int | None
    token: str
    epsilons: Mapping[str, int]  # millionths, of sensitive answers: chosen, or else suggested
    chosen: frozenset[str]  # the sensitive answers whose epsilon an option names
    agreed: bool
    texts: "Texts"  # the study's, in the language that this person reads


def read_preset(study: "Study", person: "PersonOptions", epsilon: float | None) -> PresetAnswers:
    """Everything that was given, or a refusal if any of it is wrong: nobody is asked in vain."""
    from pdml.device import answers

    texts = study.texts(person.language)
    entries: dict[str, Any] = {} if person.answers is None else answers.read(person.answers)
    entries |= _pairs("--answer", person.answer)  # each stands above the file
    chosen = {}
    for name, value in _pairs("--epsilon-of", person.epsilon_of).items():
        try:
            chosen[name] = float(value)
        except ValueError:
            must = "--epsilon-of must give a number, such as income=1"
            raise InvalidInput(f"{must}, got {value!r}") from None
    return PresetAnswers(
        answers=answers.check_answers(study, entries),
        micro_epsilon=None if epsilon is None else answers.on_menu(study, epsilon),
        label=answers.class_index(study, person.label) if person.label else None,
        token=answers.invitation(person.token),
        epsilons=answers.on_menus(study, chosen),
        chosen=frozenset(chosen),
        agreed=person.agree,
        texts=texts,
    )


def _pairs(option: str, pairs: list[str] | None) -> dict[str, str]:
    values = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput(f"{option} must look like name=value, got {pair!r}")
        values[name.strip()] = value.strip()
    return values


def ask_consent(study: "Study", preset: PresetAnswers) -> bool:
    """Whether the person agrees to the study's consent: told who asks and for what, then asked."""
    if study.consent is None or preset.agreed:
        return preset.agreed
    from pdml.study.participant_notice import in_words

    for name, value in in_words(study, preset.texts).items():
        typer.echo(f"{name}: {value}", err=True)
    with require_reply("Do you agree?"):
        return typer.confirm("Do you agree?", err=True)


def complete_answers(
    study: "Study", preset: PresetAnswers, *, skip_sensitive: bool
) -> "dict[str, float | str | None]":
    """All answers: those that are there, and the others asked for; ``skip_sensitive``: but for
    sensitive ones, which are randomised already."""
    wanted = study.encoder.clear if skip_sensitive else study.attributes
    both = zip(study.attributes, preset.texts.attributes, strict=True)
    unanswered = (
        (attribute, put)
        for attribute, put in both
        if attribute.name not in preset.answers and attribute in wanted
    )
    return {
        **preset.answers,
        **{attribute.name: _ask_answer(study, attribute, put) for attribute, put in unanswered},
    }


def _ask_answer(study: "Study", attribute: "Attribute", put: "Question") -> float | str | None:
    from pdml.device.answers import check_answers
    from pdml.encoding.attributes import NO_ANSWER
    from pdml.encoding.encoder import Number

    secret = attribute.epsilon is not None
    words = f"{put.label} ({_THEN})" if secret else put.label
    if not isinstance(attribute, Number):
        choices = (*put.levels, NO_ANSWER) if attribute.missing else put.levels
        return (*attribute.levels, None)[_choose(words, choices, hidden=secret)]
    domain = f"from {attribute.low:g} to {attribute.high:g}{', whole' if attribute.whole else ''}"
    domain += f"; empty: {NO_ANSWER}" if attribute.missing else ""
    silence = "" if attribute.missing else None
    hide = secret and sys.stdin.isatty()
    if secret:
        typer.echo(words, err=True)
    prompt = f"{put.label} ({domain}{'; not shown' if hide else ''})"

    def typed(words: str) -> str:
        with require_reply(put.label):
            return str(typer.prompt(words, silence, show_default=False, err=True, hide_input=hide))

    while True:
        text = typed(prompt)
        if hide and typed("Once more") != text:
            typer.echo("Please answer again: the same both times.", err=True)
            continue
        try:
            return check_answers(study, {attribute.name: text})[attribute.name]
        except DataError as error:
            typer.echo(f"Please answer again: {error}.", err=True)


def _choose(words: str, levels: "tuple[str, ...]", *, hidden: bool = False) -> int:
    """The position of a level, by its number or its name; what is typed unseen is asked twice."""
    typer.echo(words, err=True)
    for i, level in enumerate(levels, start=1):
        typer.echo(f"  {i}  {level}", err=True)
    hide = hidden and sys.stdin.isatty()
    while True:
        chosen = _position(levels, "Your choice" + (" (not shown)" if hide else ""), hide)
        if chosen is not None and (not hide or _position(levels, "Once more", hide) == chosen):
            return chosen
        same = " the same both times" if hide else ""
        typer.echo(f"Please give a number from 1 to {len(levels)}{same}.", err=True)


def _position(levels: "tuple[str, ...]", prompt: str, hide: bool) -> int | None:
    with require_reply(prompt):
        reply = str(typer.prompt(prompt, err=True, hide_input=hide)).strip()
    if reply in levels:
        return levels.index(reply)
    number = int(reply) if reply.isascii() and reply.isdigit() else 0
    return number - 1 if 1 <= number <= len(levels) else None


def ask_epsilon(study: "Study", preset: PresetAnswers) -> int:
    """In millionths. Asked before the label: the service sees the choice."""
    if preset.micro_epsilon is not None:
        return preset.micro_epsilon
    return _choose_epsilon("How private?", study.epsilon_micro, preset.texts.classes)


def ask_epsilons(study: "Study", preset: PresetAnswers) -> "dict[str, int]":
    """In millionths, of sensitive answers: asked wherever the answer itself is asked for."""
    epsilons = dict(preset.epsilons)
    for attribute, put in zip(study.attributes, preset.texts.attributes, strict=True):
        if (
            attribute.epsilon
            and attribute.name not in preset.answers
            and attribute.name not in preset.chosen
        ):
            menu = attribute.epsilon.millionths
            silence = attribute.choices[len(put.levels) :]  # that of no answer, where there is one
            choices = (*put.levels, *silence) if put.levels else attribute.choices
            epsilons[attribute.name] = _choose_epsilon(f"{put.label}: how private?", menu, choices)
    return epsilons


def _choose_epsilon(question: str, menu: "tuple[int, ...]", choices: "tuple[str, ...]") -> int:
    from pdml.study.study_summary import meaning

    words = (
        f"{question} (smaller is more private)\n"
        "The service sees which one you choose: choose without regard to your answer.\n"
        "Somebody who leaned towards an answer before can become surer than is said here."
    )
    return menu[
        _choose(
            words,
            tuple(
                f"{micro_epsilon / 1e6:g}: {meaning(micro_epsilon, choices)}"
                for micro_epsilon in menu
            ),
        )
    ]


def ask_label(preset: PresetAnswers) -> int:
    """The true class, which is then randomised and cannot be changed: nothing remembers it."""
    if preset.label is not None:
        return preset.label
    return _choose(f"{preset.texts.question} ({_THEN})", preset.texts.classes, hidden=True)
