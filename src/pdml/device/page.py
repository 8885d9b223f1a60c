"""The contributor's page: one HTML document with its style and its script inside, made from the
study and from nothing else.

The same study gives the same bytes, so that their hash can be published and anybody can compare
what a server sends.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from pdml.device import languages
from pdml.formatting.markup import Markup, policy_hash, templates
from pdml.study import Study, participant_notice

_SCRIPTS = ("device.js", "encoding.js", "i18n.js", "form.js", "notice.js")


@dataclass(frozen=True)
class ContributorPage:
    """The document, the headers that must go with it, and its fingerprint."""

    html: bytes
    headers: Mapping[str, str]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.html).hexdigest()


def render(study: Study) -> ContributorPage:
    """The page on which people answer a study.

    Parameters
    ----------
    study : Study

    Returns
    -------
    ContributorPage
        Its bytes, their SHA-256 and the headers it is served with: functions of the study alone.

    Guarantees
    ----------
    - Only the script and the style inside run, by their hashes; nothing is loaded from elsewhere.
    - The page talks to the service it came from alone, no form can be submitted by the browser,
      nobody can frame it, and the address it was opened with is told to nobody.
    - What the study says appears as text, never as markup.
    - A study by which nobody may be asked (`pdml.study.participant_notice`) says that it is only
      tried out.
    - Of a sensitive answer only the randomised one, drawn on the device, is sent or stored.
    """
    style = _asset("page.css")
    parts = [_asset(name) for name in _SCRIPTS]
    script = "\n".join([*parts, languages.script(), _asset("page.js")])
    html = (
        templates("pdml.device", ".")
        .get_template("page.html")
        .render(
            study=study,
            unfit=bool(participant_notice.mistakes(study)),
            style=Markup(style),
            script=Markup(script),
            catalogues=languages.catalogues(),
        )
    )
    return ContributorPage(html=html.encode("utf-8"), headers=_headers(style, script))


def _headers(style: str, script: str) -> dict[str, str]:
    policy = (
        f"default-src 'none'; script-src {policy_hash(script)}; style-src {policy_hash(style)}; "
        "img-src data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors "
        "'none'; require-trusted-types-for 'script'; trusted-types 'none'"
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


def _asset(name: str) -> str:
    return resources.files("pdml.device").joinpath(name).read_text(encoding="utf-8")
