"""The words of the page of predictions: a catalogue per language, made as the contributor's page's
are (`pdml.device.languages`); what both pages say alike is said there alone."""

import re
from collections.abc import Mapping
from functools import cache

from markupsafe import escape

from pdml.device import languages
from pdml.formatting import numbers
from pdml.formatting.markup import Markup

SHARED = (
    "language.direction",
    "field.choose",
    "field.none",
    "field.skip",
    "number.hint.whole",
    "number.empty",
    "number.empty.whole",
    "number.digits",
    "number.digits.whole",
    "number.fraction.whole",
    "share.under",
    "share.over",
)
"""Keys of the contributor's page that this one says, too."""

_TAGS = {"*": "strong", "`": "code"}


class Share(float):
    """A number that is shown as a percentage."""


@cache
def catalogues() -> Mapping[str, Mapping[str, str]]:
    """Every catalogue by its language, English first."""
    ours, theirs = languages.read(__name__), languages.catalogues()
    result: dict[str, dict[str, str]] = {}
    for code, words in ours.items():
        both = {key: theirs[code][key] for key in SHARED} | words
        result[code] = {key: str(sentence) for key, sentence in both.items()}
    return result


def translate(code: str, key: str, **values: str | float) -> Markup:
    """A sentence as markup, *strong words* and `code` with their tags."""
    pieces = re.split(r"(\*[^*]+\*|`[^`]+`)", catalogues()[code][key])
    fragments = []
    for piece in filter(None, pieces):
        tag = _TAGS.get(piece[0])
        text = _filled(piece[1:-1] if tag else piece, code, values)
        fragments.append(f"<{tag}>{text}</{tag}>" if tag else text)
    return Markup("".join(fragments))


def _filled(text: str, code: str, values: Mapping[str, str | float]) -> str:
    parts = re.split(r"\{(\w+)\}", text)
    texts = (
        _format_value(values[part], code) if k % 2 else escape(part) for k, part in enumerate(parts)
    )
    return "".join(texts)


def _format_value(value: str | float, code: str) -> str:
    """Other people's words keep their own direction."""
    if isinstance(value, str):
        return f"<bdi>{escape(value)}</bdi>"
    share = isinstance(value, Share)
    digits = numbers.percent(value) if share else f"{value:.15g}"
    text = digits if code in ("en", "ar") else digits.replace(".", ",")
    kind = "share" if share else "number"
    return f'<data class="{kind}" value="{float(value)!r}">{text}</data>'
