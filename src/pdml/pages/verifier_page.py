"""The page on which anybody checks a result: one HTML file with its style and script inside.

Its script is another implementation than `pdml.consortium`: it is written from
docs/reference/result-format.md, and shares no code and no number with the package.
"""

import posixpath
import re
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

from pdml._version import __version__
from pdml.formatting.markup import Markup, policy_hash
from pdml.pages import render

_MAIN = "page.js"
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (\{[^}]*\});$", re.MULTILINE)


@dataclass(frozen=True)
class _Page:
    """What the template asks for."""

    @property
    def version(self) -> str:
        return f"pdml {__version__}"

    @cached_property
    def style(self) -> Markup:
        return Markup(_asset("templates/page.css") + _asset("templates/verifier.css"))

    @cached_property
    def script(self) -> Markup:
        return Markup(verifier_script())

    @property
    def policy(self) -> str:
        return (
            f"default-src 'none'; script-src {policy_hash(self.script)}; worker-src blob:; "
            f"style-src {policy_hash(self.style)}; img-src data:; form-action 'none'; "
            "base-uri 'none'; require-trusted-types-for 'script'; trusted-types verifier"
        )


def verifier_page() -> bytes:
    """A page that checks the folder of a result, in a browser and without a network.

    Returns
    -------
    bytes
        HTML, a function of the version of pdml alone.

    Guarantees
    ----------
    - Only the script and the style inside run, by their hashes; nothing is loaded or sent.
    - What the folder says appears as text, never as markup.
    - Where the browser cannot check signatures, the page says so and checks nothing.
    """
    return render.document("verifier.html", _Page()).encode("utf-8")


def verifier_script() -> str:
    """The modules of `verifier/` as one script: each is a function, in the order of its imports."""
    parts: dict[str, str] = {}
    _add_module(_MAIN, parts)
    return '"use strict";\nconst modules = {};\n\n' + "\n".join(parts.values())


def _add_module(path: str, parts: dict[str, str]) -> None:
    if path in parts:
        return
    source = _asset(f"verifier/{path}")
    folder = posixpath.dirname(path)

    def required(match: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(folder, match[2]))
        _add_module(place, parts)
        return f'const {match[1]} = modules["{place}"];'

    body = _IMPORT.sub(required, source)
    body = _EXPORT.sub(r"return \1;", body)
    parts[path] = f'modules["{path}"] = (() => {{\n{body}}})();\n'


def _asset(name: str) -> str:
    return resources.files("pdml.pages").joinpath(name).read_text("utf-8")
