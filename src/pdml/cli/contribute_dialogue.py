"""What one person says to `pdml contribute`: by options, checked first of all, or when asked."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pdml.cli.study_dialogue import require_reply
from pdml.errors import DataError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pdml.encoding.encoder import Attribute
    from pdml.study import Study
    from pdml.study.translations import Question, Texts


_THEN = "the device then randomises it, once; nothing remembers what you chose"


@dataclass(frozen=True, kw_only=True)
class PresetAnswers:
    """What the options say; None and missing answers are asked for."""

    answers: "Mapping[str, float | str | None]"
    micro_epsilon: int | None
    label: int | None
    token: str
    epsilons: "Mapping[str, int]"  # millionths, of sensitive answers: chosen, or else suggested
    chosen: "frozenset[str]"  # the sensitive answers whose epsilon an option names
    agreed: bool
    texts: "Texts"  # the study's, in the language that this person reads


def read_preset(
    study: "Study",
    file: Path | None,
    pairs: list[str],
    epsilon: float | None,
    label: str,
    token: str,
    *,
    privacies: list[str],
    agreed: bool,
    language: str = "",
) -> PresetAnswers:
    """Everything that was given, or a refusal if any of it is wrong: nobody is asked in vain."""
    from pdml.device import answers

    texts = study.texts(language)
    entries: dict[str, Any] = {} if file is None else answers.read(file)
    entries |= _pairs("--answer", pairs)  # each stands above the file
    chosen = {}
    for name, value in _pairs("--epsilon-of", privacies).items():
        try:
            chosen[name] = float(value)
        except ValueError:
            must = "--epsilon-of must give a number, such as income=1"
            raise InvalidInput(f"{must}, got {value!r}") from None
    return PresetAnswers(
        answers=answers.check_answers(study, entries),
        micro_epsilon=None if epsilon is None else answers.on_menu(study, epsilon),
        label=answers.class_index(study, label) if label else None,
        token=answers.invitation(token),
        epsilons=answers.on_menus(study, chosen),
        chosen=frozenset(chosen),
        agreed=agreed,
        texts=texts,
    )


def _pairs(option: str, pairs: list[str]) -> dict[str, str]:
    values = {}
    for pair in pairs:
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
    sensitive ones, which are randomised already.
    """
    wanted = study.encoder.clear if skip_sensitive else study.attributes
    both = zip(study.attributes, preset.texts.attributes, strict=True)
    unanswered = (
        (attribute, put)
        for attribute, put in both
        if attribute.name not in preset.answers and attribute in wanted
    )
    return {
        **preset.answers,
        **{attribute.name: _ask(study, attribute, put) for attribute, put in unanswered},
    }


def _ask(study: "Study", attribute: "Attribute", put: "Question") -> float | str | None:
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
