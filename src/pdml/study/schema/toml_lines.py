"""On which line of a TOML text each key and element stands; `tomllib`, which accepted it, does not
tell."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import msgspec

from pdml.errors import InvalidInput, StudyError, because
from pdml.files import open_file
from pdml.formats import decode

MOST_BYTES = 1 << 22  # of a study file: a thousand servers with their keys

Path = tuple[str | int, ...]

_SPACE = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")  # between elements: spaces, newlines, comments
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TEXT = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:\\.|[^"\\])*"|' + r"'[^']*'", re.DOTALL
)
_PLAIN = re.compile(r"[^,\]}#\r\n]+")  # numbers, truth values and times, in which spaces may stand


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a study file: UTF-8, and not endless."""
    source = os.fspath(path)
    try:
        with open_file(source) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"cannot read {source}: {because(error)}") from None
    if len(data) > MOST_BYTES:
        raise StudyError(source, [(0, f"the file must be at most {MOST_BYTES:,} bytes long")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        why = "the file must be UTF-8 text, got other bytes: save it again as UTF-8"
        raise StudyError(source, [(line, why)]) from None


def parse(text: str, source: str) -> tuple[dict[str, Any], dict[Path, int]]:
    """The document and the line of every path in it; text that is not TOML is a `StudyError`."""
    try:
        document = decode(text, by=tomllib.loads)
        return document, lines(text)
    except msgspec.DecodeError as error:
        if " (at " in str(error):
            message, line = _located(str(error), text)
            raise StudyError(source, [(line, f"this is not TOML: {message}")]) from None
        raise StudyError(
            source, [(0, "the file holds a number or a nesting that nobody can read")]
        ) from None


def line_of(path: Path, where: Mapping[Path, int]) -> int:
    """The line of a path, or of the nearest table around it."""
    while path and path not in where:
        path = path[:-1]
    return where.get(path, 1)


def _located(message: str, text: str) -> tuple[str, int]:
    """tomllib says "... (at line 3, column 7)" or "... (at end of document)"."""
    reason, _, position = message.rpartition(" (at ")
    if position.startswith("line "):
        line, column = (int("".join(filter(str.isdigit, part))) for part in position.split(","))
        return f"{reason[:1].lower()}{reason[1:]} (column {column})", line
    return f"{reason[:1].lower()}{reason[1:]} (at the end)", text.rstrip("\n").count("\n") + 1


def lines(text: str) -> dict[Path, int]:
    """Line (from 1) of every path, such as ("label", "epsilon", "menu", 0)."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.line_numbers: dict[Path, int] = {}
        self.elements: dict[Path, int] = {}  # how many [[tables]] each array has so far
        self.counted, self.line = 0, 1  # position up to which newlines are counted

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while True:
            self._skip(_GAP)
            if self.at >= len(self.text):
                return self.line_numbers
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        """The path of a [table] or new element of [[tables]]; an array on the way is its last."""
        start, brackets = self.at, 2 if self.text.startswith("[[", self.at) else 1
        self.at += brackets
        names = self._key()
        self.at += brackets
        path: Path = ()
        for left, name in enumerate(names, 1 - len(names)):
            path = (*path, name)
            self._mark(path, start)
            if left == 0 and brackets == 2:
                self.elements[path] = self.elements.get(path, 0) + 1
            if path in self.elements:
                path = (*path, self.elements[path] - 1)
                self._mark(path, start)
        return path

    def _pair(self, table: Path) -> None:
        start = self.at
        path = table
        for name in self._key():
            path = (*path, name)
            self._mark(path, start)
        self.at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> tuple[str, ...]:
        """A dotted key and the spaces around it."""
        names = []
        while True:
            self._skip(_SPACE)
            if bare := _BARE.match(self.text, self.at):
                names.append(bare.group())
                self.at = bare.end()
            else:
                names += tomllib.loads(f"{self._take(_TEXT)} = 0")
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return tuple(names)
            self.at += 1

    def _value(self, path: Path) -> None:
        first = self.text[self.at]
        if first == "[":
            for index in self._elements("]"):
                self._mark((*path, index), self.at)
                self._value((*path, index))
        elif first == "{":
            for _ in self._elements("}"):
                self._pair(path)
        elif first in "\"'":
            self._take(_TEXT)
        else:
            self._take(_PLAIN)

    def _elements(self, close: str) -> Iterator[int]:
        """Stand at each element between brackets, one after the other."""
        self.at += 1
        for index in count():
            self._skip(_GAP)
            if self.text[self.at] == close:
                self.at += 1
                return
            yield index
            self._skip(_GAP)
            if self.text[self.at] == ",":
                self.at += 1

    def _mark(self, path: Path, position: int) -> None:
        """The first line on which a path is spoken of; positions come in order."""
        self.line += self.text.count("\n", self.counted, position)
        self.counted = position
        self.line_numbers.setdefault(path, self.line)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if match := pattern.match(self.text, self.at):
            self.at = match.end()

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            # impossible after tomllib accepted the text
            raise ValueError(f"no TOML at position {self.at}")
        self.at = match.end()
        return match.group()
