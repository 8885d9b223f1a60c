"""What one person says to `pdml contribute`: by options, checked first of all, or when asked."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pdml.cli.asking import somebody
from pdml.errors import DataError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pdml.encoder import Attribute
    from pdml.study import Study


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the options say; None and missing answers are asked for."""

    answers: "Mapping[str, float | str]"
    micro_epsilon: int | None
    label: int | None
    token: str


def given(
    study: "Study",
    file: Path | None,
    pairs: list[str],
    epsilon: float | None,
    label: str,
    token: str,
) -> Said:
    """Everything that was given, or a refusal if any of it is wrong: nobody is asked in vain."""
    from pdml.contribute import answers

    return Said(
        answers=answers.checked(study, _answers(file, pairs)),
        micro_epsilon=None if epsilon is None else _on_menu(study, epsilon),
        label=_class(study, label) if label else None,
        token=_token(token),
    )


def _answers(file: Path | None, pairs: list[str]) -> dict[str, Any]:
    """Answers by name; a pair NAME=VALUE stands above the file."""
    found: dict[str, Any] = {}
    if file is not None:
        read: Any = None
        try:
            read = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(
                f"cannot read {file}: {(error.strerror or str(error)).lower()}"
            ) from None
        except ValueError:
            pass  # not JSON, or not UTF-8
        if not isinstance(read, dict):
            raise DataError(
                f'{file} must be a JSON object of answers by name, such as {{"age": 34}}, '
                "got something else"
            )
        found = read
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput(f"--answer must look like name=value, got {pair!r}")
        found[name.strip()] = value.strip()
    return found


def _on_menu(study: "Study", epsilon: float) -> int:
    from pdml.mechanisms.label_flip import micro

    if not 0 < epsilon < float("inf") or (millionths := micro(epsilon)) not in study.epsilon_micro:
        menu = ", ".join(f"{choice:g}" for choice in study.menu)
        raise InvalidInput(f"--epsilon must be on the study's menu ({menu}), got {epsilon:g}")
    return millionths


def _class(study: "Study", label: str) -> int:
    if label not in study.classes:
        classes = ", ".join(map(repr, study.classes))
        raise InvalidInput(f"--label must be one of {classes}, got something else")
    return study.classes.index(label)


def _token(text: str) -> str:
    token = text.rpartition("#t=")[2].strip()
    if token and not (len(token) == 32 and set(token) <= set("0123456789abcdef")):
        raise InvalidInput("--token must be 32 hex digits, or a link that ends in #t= and these")
    return token


# In the terminal


def complete(study: "Study", answers: "Mapping[str, float | str]") -> dict[str, float | str]:
    """All answers: those that are there, and the others asked for."""
    asked = (one for one in study.attributes if one.name not in answers)
    return {**answers, **{one.name: _ask(study, one) for one in asked}}


def _ask(study: "Study", attribute: "Attribute") -> float | str:
    from pdml.contribute.answers import checked
    from pdml.encoder import Number

    wording = study.wording.get(attribute.name)
    words = (wording.label if wording else "") or attribute.name
    if not isinstance(attribute, Number):
        return attribute.levels[_choose(words, attribute.levels)]
    domain = f"from {attribute.low:g} to {attribute.high:g}{', whole' if attribute.whole else ''}"
    while True:
        with somebody(words):
            said = str(typer.prompt(f"{words} ({domain})", err=True))
        try:
            return checked(study, {attribute.name: said})[attribute.name]
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


def epsilon_of(study: "Study", micro_epsilon: int | None) -> int:
    """In millionths. Asked before the label: the service sees the choice."""
    from pdml.contribute.words import meaning

    if micro_epsilon is not None:
        return micro_epsilon
    micros = study.epsilon_micro
    menu = tuple(f"{one / 1e6:g}: {meaning(one, study.classes)}" for one in micros)
    words = (
        "How private? (smaller is more private)\n"
        "The service sees which one you choose: choose without regard to your answer.\n"
        "Somebody who leaned towards an answer before can become surer than is said here."
    )
    return micros[_choose(words, menu)]


def label_of(study: "Study", label: int | None) -> int:
    """The true class. After it chance decides, and it cannot be changed: nothing remembers it."""
    if label is not None:
        return label
    said = "chance then decides what is reported, once; nothing remembers what you chose"
    return _choose(f"{study.question} ({said})", study.classes, hidden=True)
