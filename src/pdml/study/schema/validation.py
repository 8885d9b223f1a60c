"""What a key of the study's file is, and checks of single values that remember every mistake.

A field of a dataclass says by `key` how its value is read and what it means in one sentence:
parser, canonical form and hash, template and reference page follow from it.
"""

import difflib
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from pdml.errors import is_hidden
from pdml.study.messages import is_loopback
from pdml.study.schema.toml_lines import Path
from pdml.tables import quote

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
_DIGITS = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST_HINTS = 50  # looking for what was meant takes time, and nobody reads that many

# Hangul fillers, an empty Braille cell, a note without a head: letters and symbols without ink
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\U0001d159")
_TWINS = {  # of one alphabet and case, no two have the same twin: its own words stay apart
    "АВЕЅІЈКМНОРСТУХԚԜ": "ABESIJKMHOPCTYXQW",  # Cyrillic
    "аеѕіјорсухһԁԛԝѵӏ": "aesijopcyxhdqwvl",
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ": "ABEZHIKMNOPTYX",  # Greek
    "αγικνορυχ": "ayikvopux",
    "ՍՕ": "UO",  # Armenian
    "զհոսցօ": "qhnugo",
    "ıɑɡ": "iag",  # Latin
    "‐‑‒–—―−": "-------",
    "‘’ʼ′“”″": "''''\"\"\"",
}
_LATIN = str.maketrans("".join(_TWINS), "".join(_TWINS.values()))

Mistake = tuple[Path, str]
# the value of a key that is not there, which is reported once, where its table is read
ABSENT = object()


def format_path(path: Path) -> str:
    """A path as people write it: attributes[2].range is the range of the second attribute."""
    parts = (f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).lstrip(".")


# Texts that look alike, and texts that nobody can see: a form shows letters, not code points.
#
# Two texts look alike if they agree after compatibility forms (NFKC) and case are folded, letters
# that no screen shows are left out, and letters of other alphabets stand for their Latin twins: an
# excerpt of the confusables of Unicode Technical Standard 39, which no library here carries.
#
# Not caught: likeness within one alphabet (l, I and 1; O and 0; rn and m), accents, other alphabets
# than Cyrillic, Greek and Armenian beside Latin, and what a font alone makes alike.


def is_visible(text: str) -> bool:
    """Whether a screen shows anything of it."""
    return any(_ink(letter).strip() for letter in text)


class Lookalikes:
    """Texts of one list, by what people see of them."""

    def __init__(self) -> None:
        self._by_form: dict[str, str] = {}

    def add(self, text: str) -> str:
        """Take one more text; the one before it that looks alike, or "" if none does."""
        forms = _forms(text)
        twin = next((self._by_form[form] for form in forms if form in self._by_form), "")
        self._by_form |= dict.fromkeys(forms, twin or text)
        return twin


def _forms(text: str) -> tuple[str, str]:
    """What is seen of a text: in its own letters, and in their Latin twins."""
    ink = "".join(map(_ink, unicodedata.normalize("NFKC", text)))
    return _folded(ink), _folded(ink.translate(_LATIN))


def _ink(letter: str) -> str:
    if letter in _BLANK:
        return " "
    joins = letter in "\u200c\u200d\u034f\u17b4\u17b5" or is_hidden(letter)
    return "" if joins or unicodedata.name(letter, "").startswith("VARIATION SEL") else letter


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text.casefold()).split())


def is_list_of_tables(value: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Whether a value is what [[tables]] become."""
    return isinstance(value, (list, tuple)) and all(isinstance(item, Mapping) for item in value)


class ValidationErrors:
    """The mistakes so far. Every check returns the value, or something empty after a mistake."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def add(self, path: Path, sentence: str) -> None:
        self.mistakes.append((path, sentence))

    def reject(self, path: Path, must: str, value: object, why: str = "") -> None:
        reason = f": {why}" if why else ""
        self.add(path, f"{format_path(path)} must {must}, got {_format_value(value)}{reason}")

    def suggest(self, word: str, options: Sequence[str]) -> str:
        """The option that was probably misspelt."""
        if len(self.mistakes) >= _MOST_HINTS:
            return ""
        close = difflib.get_close_matches(word.lower()[:100], options, n=1)
        return f"did you mean {close[0]!r}?" if close else ""

    def table(
        self, path: Path, value: object, required: Sequence[str], optional: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The known keys of a table; what is unknown or missing is a mistake."""
        if not isinstance(value, Mapping):
            if not path:
                self.add(path, "a study must be a table of tables")
            elif value is not ABSENT:
                self.reject(path, "be a table", value)
            return {}
        keys = (*required, *optional)
        hints = ""
        for key in value:
            if key not in keys:
                hint = self.suggest(str(key), [k for k in keys if k not in value])
                hints += hint
                instead = hint or f"known are {', '.join(keys)}"
                self.add((*path, key), f"{format_path((*path, key))} is unknown: {instead}")
        for key in required:
            # a misspelt key is one mistake, not two
            if key not in value and repr(key) not in hints:
                self.add(path, f"{format_path((*path, key))} is missing")
        return {key: value[key] for key in keys if key in value}

    def tables(
        self, key: str, value: object, *, least: int = 1, most: int, why: str
    ) -> list[tuple[Path, Any]]:
        if value is ABSENT:
            return []
        if not is_list_of_tables(value):
            self.reject((key,), f"be written as [[{key}]], once for each", value)
            return []
        if not least <= len(value) <= most:
            few = f": {why}" if len(value) < least else ""
            self.add((key,), f"{key} must be {least} to {most:,} tables, got {len(value):,}{few}")
        return [((key, i), item) for i, item in enumerate(value[:most])]

    def text(self, path: Path, value: object, most: int, *, paragraphs: bool = False) -> str:
        if not isinstance(value, str):
            self.reject(path, "be text in quotes", value)
            return ""
        if not paragraphs and (not value or value != value.strip()):
            self.reject(path, "be text that neither is empty nor begins or ends with spaces", value)
        elif len(value) > most:
            self.reject(path, f"have at most {most:,} characters", value)
        elif any(is_hidden(letter) and not (paragraphs and letter in "\n\t") for letter in value):
            self.reject(path, "be free of control characters and of letters that hide", value)
        elif not is_visible(value):
            self.reject(path, "say something", value, "a screen shows nothing of it")
        else:
            return value
        return ""

    def texts(
        self, path: Path, value: object, *, least: int, most: int, refused: Collection[str] = ()
    ) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)) or not least <= len(value) <= most:
            self.reject(path, f"be a list of {least} to {most:,} texts", value)
            return ()
        sentences: list[str] = []
        lookalikes = Lookalikes()
        for i, item in enumerate(value):
            text = self.text((*path, i), item, 200)
            if text and text in refused:
                why = "in a table it stands for a missing value"
                self.reject((*path, i), "be another text", item, why)
            elif text and text in sentences:
                self.reject((*path, i), "differ from the others", item, "it stands there twice")
            elif text:
                self.distinct((*path, i), text, lookalikes)
                sentences.append(text)
        return tuple(sentences)

    def distinct(self, path: Path, text: str, others: Lookalikes) -> None:
        """A text that people can tell from those before it."""
        if twin := others.add(text):
            why = f"people would take it for {_format_value(twin)}; change one of the two"
            self.reject(path, "look different from the others", text, why)

    def name(self, path: Path, value: object) -> str:
        if isinstance(value, str) and _NAME.fullmatch(value):
            return value
        letters = "lower-case letters, digits, dots, dashes or underscores"
        self.reject(path, f"be 1 to 63 {letters}, the first a letter or digit", value)
        return ""

    def digits(self, path: Path, value: object) -> str:
        """64 hexadecimal digits: a key, a hash, a fingerprint."""
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            return value
        self.reject(path, "be 64 hexadecimal digits, letters in lower case", value)
        return ""

    def number(self, path: Path, value: object) -> float | None:
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and abs(value) <= sys.float_info.max
        ):
            return float(value) + 0.0  # no negative zero
        self.reject(path, "be a finite number", value)
        return None

    def truth(self, path: Path, value: object) -> bool:
        if isinstance(value, bool):
            return value
        self.reject(path, "be true or false", value)
        return False

    def whole_number(self, path: Path, value: object, low: int, high: int) -> int | None:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self.reject(path, f"be a whole number from {low:,} to {high:,}", value)
        return None

    def time(self, path: Path, value: object) -> datetime | None:
        """A moment in UTC, to the second; from JSON as text."""
        moment = value
        if isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value)
            except ValueError:
                moment = None
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            self.reject(path, "be a time with its zone, such as 2026-03-01T08:00:00Z", value)
            return None
        try:
            return moment.astimezone(UTC).replace(microsecond=0)
        except OverflowError:
            self.reject(path, "be a time within the calendar", value)
            return None

    def url(self, path: Path, value: object) -> str:
        if not self.text(path, value, 500):
            return ""
        text = str(value)
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port, parts = "", None, urlsplit("")
        more = parts.username or parts.password or parts.query or parts.fragment
        plain = not more and text.isascii() and " " not in text
        if parts.scheme not in ("http", "https") or not host or port == 0 or not plain:
            self.reject(path, "be an address such as https://alice.example", value)
            return ""
        if parts.scheme == "http" and not is_loopback(host):
            why = "only on this machine (localhost) may reports travel unencrypted"
            self.reject(path, "begin with https://", value, why)
            return ""
        return text.rstrip("/")


def _format_value(value: object) -> str:
    try:
        return quote(str(value) if isinstance(value, (date, time)) else value)
    except ValueError:  # Python does not print numbers of thousands of digits
        return "a huge number"


Reader = Callable[[ValidationErrors, Path, Any], Any]


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of a table."""

    help: str
    read: Reader | None = None  # None: its table reads it together with other keys
    required: bool = False
    only: str = ""  # the kind of attribute that has it; of that kind it may be required
    table: str = ""  # in which it stands, where a dataclass spreads over several
    name: str = ""  # where it is not the field's
    example: str = ""  # in TOML, for a new file that leaves its table out
    always: bool = False  # written, and hashed, though it is the default
    translation: str = ""  # of a text that every translation says again: its help there


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """One table of the file: its keys are the fields of ``record``, or given one by one."""

    help: str = ""
    record: type | None = None
    keys: Mapping[str, Key] = field(default_factory=dict)
    required: bool = False
    many: bool = False  # [[name]], once for each
    comment: str = ""  # above it in a new file


def key(help: str, read: Reader | None = None, *, default: Any = MISSING, **more: Any) -> Any:
    """A dataclass's field that a table of the file holds; without a default it is required."""
    metadata = {"key": Key(help=help, read=read, required=default is MISSING, **more)}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def declared_fields(record: type, table: str = "") -> Iterator[tuple[str, Key, Field[Any]]]:
    """The fields of a dataclass that stand in a table, with the names of their keys."""
    for entry in fields(record):
        declared = entry.metadata.get("key")
        if declared is not None and declared.table == table:
            yield declared.name or entry.name, declared, entry


def declared_keys(record: type, table: str = "") -> dict[str, Key]:
    """The same as keys by name."""
    return {name: declared for name, declared, _ in declared_fields(record, table)}


def names_of(keys: Mapping[str, Key]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys that a table must have, and those that it may have."""
    required = tuple(name for name, key in keys.items() if key.required)
    return required, tuple(name for name in keys if name not in required)


def read_table(
    errors: ValidationErrors, path: Path, value: object, keys: Mapping[str, Key]
) -> dict[str, Any]:
    """The known keys of a table, each read by itself."""
    table = errors.table(path, value, *names_of(keys))
    for name, item in table.items():
        if (read := keys[name].read) is not None:
            table[name] = read(errors, (*path, name), item)
    return table


def as_fields(record: type, table: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """What was read, by the names of fields; optional ones that are not there have defaults."""
    return {
        entry.name: table[name] if name in table else _default_of(entry)
        for name, key, entry in declared_fields(record, at)
        if name in table or not key.required
    }


def write_fields(record: Any, table: str = "") -> dict[str, Any]:
    """The inverse, as plain JSON types, without defaults, which leave no trace in the hash."""
    return {
        name: plain(getattr(record, entry.name))
        for name, key, entry in declared_fields(type(record), table)
        if key.required or key.always or getattr(record, entry.name) != _default_of(entry)
    }


def _default_of(entry: Field[Any]) -> Any:
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def plain(value: Any) -> Any:
    """Plain JSON types; times in UTC."""
    if is_dataclass(value):
        return write_fields(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


# How values are read; the checks of `ValidationErrors` that need no limits are readers already


def limited_text(most: int, *, paragraphs: bool = False) -> Reader:
    """A text of at most so many characters."""
    return lambda errors, path, value: errors.text(path, value, most, paragraphs=paragraphs)


def distinct_texts(least: int, most: int) -> Reader:
    """A list of texts that people can tell apart."""
    return lambda errors, path, value: errors.texts(path, value, least=least, most=most)


def whole_number(low: int, high: int) -> Reader:
    """A whole number within limits."""
    return lambda errors, path, value: errors.whole_number(path, value, low, high)
