"""A study's texts in other languages: what people read, and nothing of what is sent or computed.

Names, classes and levels stay what they are in reports, tables and models. A translation is whole:
whatever the study says in its own language, it says in each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pdml.encoding.encoder import Attribute, Category
from pdml.study.participant_notice import LONGEST, Consent, Notice
from pdml.study.schema.questions import MOST_LEVELS, Wording
from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import (
    ABSENT,
    Key,
    ValidationErrors,
    as_fields,
    declared_keys,
    format_path,
    is_list_of_tables,
    key,
    limited_text,
    read_table,
)

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "ar")  # those of the contributor's page
MOST_CLASSES = 100


def read_language(errors: ValidationErrors, path: Path, value: object) -> str:
    """One of the languages that the contributor's page speaks."""
    if isinstance(value, str) and value in LANGUAGES:
        return value
    why = "the page's own words are in these languages"
    errors.reject(path, f"be one of {', '.join(map(repr, LANGUAGES))}", value, why)
    return ""


@dataclass(frozen=True)
class Question:
    """One attribute, as a form puts it; ``levels`` of a category, in the order of the study's."""

    name: str = key("Which attribute, by its name, which is the same in all languages.")
    label: str = key("How the form puts it.", limited_text(500))
    help: str = key(
        "What the form says below it, if the study has that.", limited_text(500), default=""
    )
    levels: tuple[str, ...] = key(
        "Of a category, which needs it: its levels, in the order of the study's.", default=()
    )


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Everything of a study that people read, in one language ("": undeclared), in the study's
    order; ``notice`` and ``consent`` hold the texts of these tables, by key."""

    code: str = key("Which language, another than the study's own.", read_language)
    title: str = key("The study's title in it.", limited_text(200))
    description: str = key(
        "Its description, if it has one.", limited_text(5_000, paragraphs=True), default=""
    )
    question: str = key("The secret question.", limited_text(500))
    classes: tuple[str, ...] = key("The possible answers, in the order of the study's.")
    attributes: tuple[Question, ...] = key(
        "A table for each attribute, `[[languages.attributes]]`."
    )
    notice: Mapping[str, str] = key(
        "What `[notice]` says, if the study has one: `[languages.notice]`.", default={}
    )
    consent: Mapping[str, str] = key(
        "What `[consent]` says, if the study has one: `[languages.consent]`.", default={}
    )


def translated_keys(record: type) -> dict[str, Key]:
    """The texts of [notice] or [consent] that every translation says again."""
    keys = {}
    for name, own in declared_keys(record).items():
        text = limited_text(LONGEST, paragraphs=name == "text")
        read = own.read if own.read is ValidationErrors.url else text
        if own.translation:
            keys[name] = replace(own, help=own.translation, required=False, read=read)
    return keys


def build_texts(study: Mapping[str, Any], attributes: Sequence[Attribute]) -> Texts:
    """The texts as the study itself has them, by its fields."""

    def make_question(attribute: Attribute) -> Question:
        words = study["wording"].get(attribute.name, Wording())
        levels = attribute.levels if isinstance(attribute, Category) else ()
        return Question(attribute.name, words.label or attribute.name, words.help, tuple(levels))

    return Texts(
        code=study["language"],
        title=study.get("title", ""),
        description=study["description"],
        question=study.get("question", ""),
        classes=tuple(study.get("classes", ())),
        attributes=tuple(map(make_question, attributes)),
        notice=_collect_texts(study["notice"]),
        consent=_collect_texts(study["consent"]),
    )


def _collect_texts(table: Notice | Consent | None) -> dict[str, str]:
    texts = {} if table is None else {n: getattr(table, n) for n in translated_keys(type(table))}
    return {name: text for name, text in texts.items() if text}


def read_languages(
    errors: ValidationErrors, value: object, texts: Texts, records: Mapping[str, type]
) -> tuple[Texts, ...]:
    """The translations of a study's own ``texts``; what one of them lacks is a mistake."""
    translations: list[Texts] = []
    most = len(LANGUAGES) - 1
    tables = errors.tables("languages", value, most=most, why="leave it out")
    if tables and not texts.code:
        errors.add(("languages",), "study.language is missing: it says what the others translate")
    for at, item in tables:
        table = read_table(errors, at, item, declared_keys(Texts))
        code = table.get("code", "")
        if code and code in (texts.code, *(translation.code for translation in translations)):
            why = "the study's own, and each other one, stands there once"
            errors.reject((*at, "code"), "be another language", code, why)
        present = "description" in table
        _check_presence(errors, (*at, "description"), present, bool(texts.description))
        names = _names(errors, (*at, "classes"), table, texts.classes, MOST_CLASSES)
        asked = _attributes(errors, at, table.get("attributes", ABSENT), texts.attributes)
        table |= {"classes": names, "attributes": asked}
        for name, record in records.items():
            keys = translated_keys(record)
            table[name] = _table(errors, (*at, name), table, getattr(texts, name), keys)
        required = {"code": "", "title": "", "question": ""}
        translations.append(Texts(**required | as_fields(Texts, table)))
    return tuple(translations)


def _table(
    errors: ValidationErrors,
    path: Path,
    table: Mapping[str, Any],
    source: Mapping[str, str],
    keys: Mapping[str, Key],
) -> dict[str, str]:
    """The texts of [notice] or [consent]; a link may stay the study's."""
    name = str(path[-1])
    _check_presence(errors, path, name in table, bool(source))
    if name not in table or not source:
        return {}
    texts = read_table(errors, path, table[name], keys)
    for text in keys:
        if text != "link" or text not in source:
            _check_presence(errors, (*path, text), text in texts, text in source)
    return texts


def _attributes(
    errors: ValidationErrors, at: Path, value: object, questions: Sequence[Question]
) -> tuple[Question, ...]:
    """Every attribute once, in any order."""
    path: Path = (*at, "attributes")
    if value is ABSENT or not questions:  # a mistake among the study's own is reported once
        return ()
    if not is_list_of_tables(value):
        errors.reject(path, "be written as [[languages.attributes]], once for each", value)
        return ()
    by_name = {question.name: question for question in questions}
    translations: dict[str, Question] = {}
    for i, item in enumerate(value):
        here = (*path, i)
        table = read_table(errors, here, item, declared_keys(Question))
        name = table.get("name")
        if not isinstance(name, str) or name not in by_name or name in translations:
            if "name" in table:
                errors.reject((*here, "name"), "name an attribute of the study, once", name)
            continue
        source = by_name[name]
        _check_presence(errors, (*here, "help"), "help" in table, bool(source.help))
        if source.levels:
            here_levels = (*here, "levels")
            table["levels"] = _names(errors, here_levels, table, source.levels, MOST_LEVELS)
        elif levels := table.pop("levels", ()):
            errors.reject((*here, "levels"), "be left out", levels, "a number has none")
        translations[name] = Question(**{"label": ""} | as_fields(Question, table))
    for name in by_name:
        if name not in translations:
            errors.add(path, f"{format_path(path)} lacks a translation of {name!r}")
    return tuple(translations[name] for name in by_name if name in translations)


def _check_presence(errors: ValidationErrors, path: Path, present: bool, wanted: bool) -> None:
    """A text that the study has is translated, and one that it has not is not added."""
    if wanted and not present:
        errors.add(path, f"{format_path(path)} is missing: the study has one in its own language")
    elif present and not wanted:
        must = f"{format_path(path)} must be left out"
        errors.add(path, f"{must}: the study has none in its own language")


def _names(
    errors: ValidationErrors, path: Path, table: Mapping[str, Any], names: Sequence[str], most: int
) -> tuple[str, ...]:
    """As many names as the study has, in its order."""
    key = str(path[-1])
    if key not in table:
        if key == "levels":
            missing = f"{format_path(path)} is missing"
            errors.add(path[:-1], f"{missing}: it translates {len(names):,} levels")
        return ()
    translations = errors.texts(path, table[key], least=1, most=most)
    if translations and names and len(table[key]) != len(names):
        errors.reject(path, f"have {len(names):,} texts, in the order of the study's", table[key])
    return translations
