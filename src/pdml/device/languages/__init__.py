"""The page's own words: one catalogue per language, a sentence for each key.

A sentence has {placeholders}; *strong words* and `code` are marked. Where a language has several
forms for numbers, a sentence is a table of them by CLDR's category ("one", "few", ...), and {count}
decides.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

Sentence = str | Mapping[str, str]


def read(package: str) -> dict[str, dict[str, Sentence]]:
    """The catalogues of a package by their languages, English first: it is the one that others
    translate."""
    files = [file for file in resources.files(package).iterdir() if file.name.endswith(".json")]
    by_language = {
        file.name.removesuffix(".json"): json.loads(file.read_text("utf-8")) for file in files
    }
    return {
        code: by_language[code]
        for code in sorted(by_language, key=lambda code: (code != "en", code))
    }


@cache
def catalogues() -> Mapping[str, Mapping[str, Sentence]]:
    """Those of the contributor's page."""
    return read(__name__)


def constant(words: Mapping[str, Mapping[str, Sentence]]) -> str:
    """Catalogues as a constant of a page's script."""
    text = json.dumps(words, ensure_ascii=False, separators=(",", ":"))
    return "const CATALOGUES = " + text.replace("<", "\\u003c") + ";\n"  # no tag ends the script


def script() -> str:
    """All of them for the page's script."""
    return constant(catalogues())
