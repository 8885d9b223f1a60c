"""What one person says to `pdml contribute`: by options, by a file, or when asked in the terminal."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pdml.errors import DataError, InvalidInput

if TYPE_CHECKING:
    from pdml.encoder import Attribute
    from pdml.study import Study


def given(file: Path | None, pairs: list[str]) -> dict[str, Any]:
    """Answers by name; a pair NAME=VALUE stands above the file."""
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


def ask(study: "Study", attribute: "Attribute") -> str:
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


def value_of(attribute: "Attribute", value: Any) -> Any:
    from pdml.encoder import Number

    if not isinstance(attribute, Number) or not isinstance(value, str):
        return value
    try:
        return float(value.replace(",", ".", 1)) if "_" not in value else value  # encoding says what is wrong with the rest
    except ValueError:
        return value


def epsilon_of(study: "Study", epsilon: float | None) -> int:
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


def label_of(study: "Study", label: str) -> int:
    if not label:
        return _choose(study.question, study.classes, hidden=True)
    if label not in study.classes:
        raise InvalidInput(f"--label must be one of {', '.join(map(repr, study.classes))}, got something else")
    return study.classes.index(label)


def token_of(text: str) -> str:
    token = text.rpartition("#t=")[2].strip()
    if token and not (len(token) == 32 and set(token) <= set("0123456789abcdef")):
        raise InvalidInput("--token must be 32 hex digits, or a link that ends in #t= and these")
    return token
