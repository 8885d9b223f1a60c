"""HTML from templates: the one way to make it, in every room that has pages.

Escaping is always on, a name that was not given is an error, and what comes from outside is text.
"""

import hashlib
import re
from base64 import b64encode
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined
from markupsafe import Markup

__all__ = ["Markup", "plain_text", "policy_hash", "templates"]

_UNSPEAKABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def templates(package: str, folder: str = "templates") -> Environment:
    """The templates of one room.

    Guarantees
    ----------
    - Text is shown, never obeyed, in every template, whatever its file is called.
    - A number that nobody has written for people (a float, None, a truth value) is refused.
    """
    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def plain_text(text: str) -> str:
    """Text without control characters and lone surrogates, which HTML and UTF-8 cannot carry."""
    return _UNSPEAKABLE.sub("\ufffd", text)


def policy_hash(source: str) -> str:
    """What a content security policy calls a script or a style by, so that no other one runs."""
    return f"'sha256-{b64encode(hashlib.sha256(source.encode('utf-8')).digest()).decode('ascii')}'"


def _printed(value: Any) -> Any:
    """What a template may print; the engine escapes it afterwards."""
    if isinstance(value, (Markup, Undefined)):
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError(f"a template may print text and whole numbers, got {value!r}")
