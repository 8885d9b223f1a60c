"""The contributor's page: one HTML document with its style and its script inside, made from the
study and from nothing else.

The same study gives the same bytes, so that their hash can be published and anybody can compare
what a server sends.
"""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib import resources
from string import Template

from pdml.study import Study


@dataclass(frozen=True)
class Page:
    """The document, the headers that must go with it, and its fingerprint."""

    html: bytes
    headers: Mapping[str, str]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.html).hexdigest()


def render(study: Study) -> Page:
    """The page of a study.

    Guarantees
    ----------
    - Only the script and the style inside run, by their hashes; nothing is loaded from anywhere
      else.
    - The page can talk to its own server only, no form can be submitted by the browser itself,
      nobody can frame it, and the address it was opened with is told to nobody.
    - What the study says appears as text, never as markup.
    """
    template, style = _asset("page.html"), _asset("page.css")
    script = "\n".join(_asset(name) for name in ("device.js", "form.js", "page.js"))
    description = f'<p class="lead">{escape(study.description)}</p>' if study.description else ""
    html = Template(template).substitute(
        title=escape(study.title),
        description=description,
        study=escape(study.canonical().decode("utf-8"), quote=False),
        style=style,
        script=script,
    )
    return Page(html=html.encode("utf-8"), headers=_headers(style, script))


def _headers(style: str, script: str) -> dict[str, str]:
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src "
        "data:; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-cache",
    }


def _hash(source: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(source.encode('utf-8')).digest()).decode('ascii')}'"


def _asset(name: str) -> str:
    return resources.files("pdml.contribute").joinpath(name).read_text(encoding="utf-8")
