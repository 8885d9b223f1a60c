"""What one person says to `pdml contribute`: by options, checked first of all, or when asked."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pdml.cli.study_asked import somebody
from pdml.errors import DataError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pdml.study import Study
    from pdml.study.encoder import Attribute
    from pdml.study.languages import Question, Texts


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the options say; None and missing answers are asked for."""

    answers: "Mapping[str, float | str | None]"
    micro_epsilon: int | None
    label: int | None
    token: str
    agreed: bool
    texts: "Texts"  # the study's, in the language that this person reads


def said_by(
    study: "Study",
    file: Path | None,
    pairs: list[str],
    epsilon: float | None,
    label: str,
    token: str,
    *,
    agreed: bool,
    language: str = "",
) -> Said:
    """Everything that was given, or a refusal if any of it is wrong: nobody is asked in vain."""
    from pdml.contribute import answers

    texts = study.texts(language)
    found: dict[str, Any] = {} if file is None else answers.read(file)
    for pair in pairs:  # each stands above the file
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput(f"--answer must look like name=value, got {pair!r}")
        found[name.strip()] = value.strip()
    return Said(
        answers=answers.checked(study, found),
        micro_epsilon=None if epsilon is None else answers.on_menu(study, epsilon),
        label=answers.class_index(study, label) if label else None,
        token=answers.invitation(token),
        agreed=agreed,
        texts=texts,
    )


def agreed(study: "Study", said: Said) -> bool:
    """Whether the person agrees to the study's consent: told who asks and for what, then asked."""
    if study.consent is None or said.agreed:
        return said.agreed
    from pdml.study.people import in_words

    for name, value in in_words(study, said.texts).items():
        typer.echo(f"{name}: {value}", err=True)
    with somebody("Do you agree?"):
        return typer.confirm("Do you agree?", err=True)


def complete(study: "Study", said: Said) -> "dict[str, float | str | None]":
    """All answers: those that are there, and the others asked for."""
    both = zip(study.attributes, said.texts.attributes, strict=True)
    asked = ((one, put) for one, put in both if one.name not in said.answers)
    return {**said.answers, **{one.name: _ask(study, one, put) for one, put in asked}}


def _ask(study: "Study", attribute: "Attribute", put: "Question") -> float | str | None:
    from pdml.contribute.answers import checked
    from pdml.study.attributes import NO_ANSWER
    from pdml.study.encoder import Number

    words = put.label
    if not isinstance(attribute, Number):
        shown = (*put.levels, NO_ANSWER) if attribute.missing else put.levels
        return (*attribute.levels, None)[_choose(words, shown)]
    domain = f"from {attribute.low:g} to {attribute.high:g}{', whole' if attribute.whole else ''}"
    domain += f"; empty: {NO_ANSWER}" if attribute.missing else ""
    silence = "" if attribute.missing else None
    while True:
        with somebody(words):
            typed = str(typer.prompt(f"{words} ({domain})", silence, show_default=False, err=True))
        try:
            return checked(study, {attribute.name: typed})[attribute.name]
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
    with somebody(prompt):
        said = str(typer.prompt(prompt, err=True, hide_input=hide)).strip()
    if said in levels:
        return levels.index(said)
    number = int(said) if said.isascii() and said.isdigit() else 0
    return number - 1 if 1 <= number <= len(levels) else None


def epsilon_of(study: "Study", said: Said) -> int:
    """In millionths. Asked before the label: the service sees the choice."""
    from pdml.study.words import meaning

    if said.micro_epsilon is not None:
        return said.micro_epsilon
    micros = study.epsilon_micro
    menu = tuple(f"{one / 1e6:g}: {meaning(one, said.texts.classes)}" for one in micros)
    words = (
        "How private? (smaller is more private)\n"
        "The service sees which one you choose: choose without regard to your answer.\n"
        "Somebody who leaned towards an answer before can become surer than is said here."
    )
    return micros[_choose(words, menu)]


def label_of(said: Said) -> int:
    """The true class. After it chance decides, and it cannot be changed: nothing remembers it."""
    if said.label is not None:
        return said.label
    then = "chance then decides what is reported, once; nothing remembers what you chose"
    return _choose(f"{said.texts.question} ({then})", said.texts.classes, hidden=True)
