"""HTML and Markdown from templates: the one way to make them.

Escaping is always on, a name that was not given is an error, and what comes from outside is text.
"""

import hashlib
import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined
from jinja2.ext import Extension
from markupsafe import Markup as Markup

_UNSPEAKABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN_MARKS = re.compile(r"((?<=^ )[-+]|^[-+]|[\\`*_\[\]<>|#~])")
_LINE_STATEMENT = re.compile(r"^[ \t]*%(.*)\n", re.MULTILINE)


def templates(package: str, folder: str = "templates") -> Environment:
    """The HTML templates of one package.

    Guarantees
    ----------
    - Text is shown, never obeyed, in every template, whatever its file is called.
    - A number that nobody has written for people (a float, None, a truth value) is refused.
    """
    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: _printed(value, plain_text),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def markdown_templates(package: str, folder: str) -> Environment:
    """Templates of Markdown, under the same rules.

    Lines that begin with % hold conditions and loops; ``cells|row`` is a line of a table.
    """
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: _printed(value, escape_markdown),
        extensions=[_LineStatements],
    )
    environment.filters["row"] = _row
    return environment


class _LineStatements(Extension):
    """A line that begins with % leaves nothing behind; the engine's own kind takes the empty lines
    below it along, which part paragraphs."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return _LINE_STATEMENT.sub("{%\\1\n%}", source)


def escape_markdown(text: str) -> str:
    """Text that Markdown shows and does not obey, on one line."""
    return Markup(_MARKDOWN_MARKS.sub(r"\\\1", re.sub(r"\s+", " ", plain_text(text))))


def _row(cells: Iterable[str]) -> str:
    return Markup("| " + " | ".join(map(escape_markdown, cells)) + " |")


def plain_text(text: str) -> str:
    """Text without control characters and lone surrogates, which HTML and UTF-8 cannot carry."""
    return _UNSPEAKABLE.sub("\ufffd", text)


def policy_hash(source: str) -> str:
    """What a content security policy calls a script or a style by, so that no other one runs."""
    return f"'sha256-{b64encode(hashlib.sha256(source.encode('utf-8')).digest()).decode('ascii')}'"


def _printed(value: Any, escape: Callable[[str], str]) -> Any:
    """What a template may print; the engine escapes for HTML afterwards what is not `Markup`."""
    if isinstance(value, (Markup, Undefined)):
        return value
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError(f"a template may print text and whole numbers, got {value!r}")
