"""A study's texts in other languages: what people read, and nothing of what is sent or computed.

Names, classes and levels stay what they are in reports, tables and models; a translation says how a
form shows them. It is whole: whatever the study says in its own language, it says in each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pdml.encoding.encoder import Attribute, Category
from pdml.study.participant_notice import LONGEST, Consent, Notice
from pdml.study.schema import fields
from pdml.study.schema.fields import LANGUAGES, MOST_CLASSES, MOST_LEVELS
from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import ABSENT, ValidationErrors, format_path

_WORDS = ("label", "help")
_NOTICE = ("purpose", "legal_basis", "who_sees", "text", "link")


@dataclass(frozen=True)
class Question:
    """One attribute, as a form puts it; ``levels`` of a category, in the order of the study's."""

    name: str
    label: str
    help: str = ""
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Everything of a study that people read, in one language ("": the study does not say which).

    Classes, attributes and levels are in the order of the study's.
    """

    code: str
    title: str
    question: str
    classes: tuple[str, ...]
    attributes: tuple[Question, ...]
    description: str = ""
    notice: Mapping[str, str] = field(default_factory=dict)  # the texts of [notice], by key
    consent: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, in the layout of the TOML file."""
        texts = {"code": self.code, "title": self.title, "question": self.question}
        texts |= {"description": self.description} if self.description else {}
        tables = {"notice": dict(self.notice), "consent": dict(self.consent)}
        return {
            **texts,
            **{name: table for name, table in tables.items() if table},
            "classes": list(self.classes),
            "attributes": [_plain(question) for question in self.attributes],
        }


def _plain(question: Question) -> dict[str, Any]:
    data = {"name": question.name, "label": question.label}
    data |= {"help": question.help} if question.help else {}
    return {**data, "levels": list(question.levels)} if question.levels else data


def build_texts(
    *,
    code: str,
    title: str,
    description: str,
    question: str,
    classes: Sequence[str],
    attributes: Sequence[Attribute],
    wording: Mapping[str, tuple[str, str]],
    notice: Notice | None,
    consent: Consent | None,
) -> Texts:
    """The texts as the study itself has them."""

    def make_question(attribute: Attribute) -> Question:
        label, help = wording.get(attribute.name, ("", ""))
        levels = attribute.levels if isinstance(attribute, Category) else ()
        return Question(attribute.name, label or attribute.name, help, tuple(levels))

    return Texts(
        code=code,
        title=title,
        description=description,
        question=question,
        classes=tuple(classes),
        attributes=tuple(map(make_question, attributes)),
        notice=_collect_texts(notice, _NOTICE),
        consent=_collect_texts(consent, ("text",)),
    )


def _collect_texts(table: Notice | Consent | None, names: Sequence[str]) -> dict[str, str]:
    texts = {name: getattr(table, name, "") for name in names}
    return {name: text for name, text in texts.items() if text}


def read_language(f: ValidationErrors, path: Path, value: object) -> str:
    """One of the languages that the contributor's page speaks."""
    if isinstance(value, str) and value in LANGUAGES:
        return value
    why = "the page's own words are in these languages"
    f.reject(path, f"be one of {', '.join(map(repr, LANGUAGES))}", value, why)
    return ""


def read_languages(f: ValidationErrors, value: object, texts: Texts) -> tuple[Texts, ...]:
    """The translations of a study's own ``texts``; what one of them lacks is a mistake."""
    translations: list[Texts] = []
    most = len(LANGUAGES) - 1
    tables = f.tables("languages", value, most=most, why="leave it out")
    if tables and not texts.code:
        f.add(("languages",), "study.language is missing: it says what the others translate")
    for at, item in tables:
        table = f.table(at, item, *fields.of("languages"))
        code = read_language(f, (*at, "code"), table["code"]) if "code" in table else ""
        if code and code in (texts.code, *(translation.code for translation in translations)):
            why = "the study's own, and each other one, stands there once"
            f.reject((*at, "code"), "be another language", code, why)
        translations.append(_translation(f, at, table, code, texts))
    return tuple(translations)


def _translation(
    f: ValidationErrors, at: Path, table: Mapping[str, Any], code: str, texts: Texts
) -> Texts:
    def text(key: str, most: int, **how: bool) -> str:
        return f.text((*at, key), table[key], most, **how) if key in table else ""

    _check_presence(f, (*at, "description"), "description" in table, bool(texts.description))
    return Texts(
        code=code,
        title=text("title", 200),
        description=text("description", 5_000, paragraphs=True),
        question=text("question", 500),
        classes=_names(f, (*at, "classes"), table, texts.classes, MOST_CLASSES),
        attributes=_attributes(f, at, table.get("attributes", ABSENT), texts.attributes),
        notice=_table(f, (*at, "notice"), table, texts.notice),
        consent=_table(f, (*at, "consent"), table, texts.consent),
    )


def _table(
    f: ValidationErrors, path: Path, table: Mapping[str, Any], wanted: Mapping[str, str]
) -> dict[str, str]:
    """The texts of [notice] or [consent]; a link may stay the study's."""
    name = str(path[-1])
    _check_presence(f, path, name in table, bool(wanted))
    if name not in table or not wanted:
        return {}
    texts = f.table(path, table[name], *fields.of(f"languages.{name}"))
    for key in fields.TABLES[f"languages.{name}"]:
        if key != "link" or key not in wanted:
            _check_presence(f, (*path, key), key in texts, key in wanted)
    return {
        key: f.url((*path, key), text)
        if key == "link"
        else f.text((*path, key), text, LONGEST, paragraphs=key == "text")
        for key, text in texts.items()
    }


def _attributes(
    f: ValidationErrors, at: Path, value: object, questions: Sequence[Question]
) -> tuple[Question, ...]:
    """Every attribute once, in any order."""
    path: Path = (*at, "attributes")
    if value is ABSENT or not questions:  # a mistake among the study's own is told once
        return ()
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(entry, Mapping) for entry in value
    ):
        f.reject(path, "be written as [[languages.attributes]], once for each", value)
        return ()
    by_name = {question.name: question for question in questions}
    translations: dict[str, Question] = {}
    for i, item in enumerate(value):
        here = (*path, i)
        name = item.get("name")
        table = f.table(here, item, *fields.of("languages.attributes"))
        if not isinstance(name, str) or name not in by_name or name in translations:
            if "name" in table:
                f.reject((*here, "name"), "name an attribute of the study, once", name)
            continue
        source = by_name[name]
        _check_presence(f, (*here, "help"), "help" in table, bool(source.help))
        texts = {key: f.text((*here, key), table[key], 500) for key in table if key in _WORDS}
        if source.levels:
            levels = _names(f, (*here, "levels"), table, source.levels, MOST_LEVELS)
        elif levels := table.get("levels", ()):
            f.reject((*here, "levels"), "be left out", levels, "a number has none")
        translations[name] = Question(
            name, texts.get("label", ""), texts.get("help", ""), tuple(levels)
        )
    for name in by_name:
        if name not in translations:
            f.add(path, f"{format_path(path)} lacks a translation of {name!r}")
    return tuple(translations[name] for name in by_name if name in translations)


def _check_presence(f: ValidationErrors, path: Path, present: bool, wanted: bool) -> None:
    """A text that the study has is translated, and one that it has not is not added."""
    if wanted and not present:
        f.add(path, f"{format_path(path)} is missing: the study has one in its own language")
    elif present and not wanted:
        f.add(path, f"{format_path(path)} must be left out: the study has none in its own language")


def _names(
    f: ValidationErrors, path: Path, table: Mapping[str, Any], names: Sequence[str], most: int
) -> tuple[str, ...]:
    """As many names as the study has, in its order."""
    key = str(path[-1])
    if key not in table:
        if key == "levels":
            f.add(path[:-1], f"{format_path(path)} is missing: it translates {len(names):,} levels")
        return ()
    translations = f.texts(path, table[key], least=1, most=most)
    if translations and names and len(table[key]) != len(names):
        f.reject(path, f"have {len(names):,} texts, in the order of the study's", table[key])
    return translations
