"""The page as bytes: what it contains, what it may do, and that a study's words never become
markup.
"""

import hashlib
import re
from base64 import b64encode
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from example_study import STUDY
from hypothesis import given
from hypothesis import strategies as st

from pdml.device.page import ContributorPage, render
from pdml.encoding.encoder import Category, Encoder
from pdml.formatting import markup
from pdml.study import Study


def worded(
    *,
    title: str,
    description: str,
    question: str,
    classes: tuple[str, ...],
    name: str,
    levels: tuple[str, ...],
) -> Study:
    """The shared study in other words."""
    asked = Encoder(attributes=(Category(name=name, levels=levels),))
    return replace(
        STUDY,
        title=title,
        description=description,
        question=question,
        classes=classes,
        encoder=asked,
        wording={},
    )


HOSTILE = worded(
    title="</title><script>alert(1)</script>",
    description="<img src=x onerror=alert(1)> &amp; $title ${script}",
    question="</pre></script><b>Which?</b>",
    classes=("<i>no</i>", '"yes" &lt;'),
    name="<b>a</b>",
    levels=("</pre><script>alert(2)</script>", "b"),
)
PLAIN = worded(
    title="Title",
    description="Words",
    question="Which?",
    classes=("no", "yes"),
    name="a",
    levels=("a", "b"),
)


class Read(HTMLParser):
    """The document as a browser would take it apart."""

    def __init__(self, page: ContributorPage) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, str] = {}
        self._open: list[str] = []
        self.feed(page.html.decode("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self._open.append(dict(attributes).get("id") or tag)

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inside[self._open[-1]] = self.inside.get(self._open[-1], "") + data


def policy(page: ContributorPage) -> dict[str, list[str]]:
    rules = (rule.split() for rule in page.headers["content-security-policy"].split(";"))
    return {name: values for name, *values in rules}


def test_the_policy_allows_the_page_itself_and_nothing_else(page: ContributorPage) -> None:
    read, rules = Read(page), policy(page)
    for tag in ("script", "style"):
        assert [found for found, _ in read.tags].count(tag) == 1
        digest = b64encode(hashlib.sha256(read.inside[tag].encode()).digest()).decode()
        assert rules[f"{tag}-src"] == [f"'sha256-{digest}'"]
    assert (
        rules["default-src"]
        == rules["form-action"]
        == rules["base-uri"]
        == rules["frame-ancestors"]
        == ["'none'"]
    )
    assert rules["connect-src"] == ["'self'"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-content-type-options"] == "nosniff"


def test_nothing_comes_from_elsewhere(page: ContributorPage) -> None:
    for _, attributes in Read(page).tags:
        for name in ("src", "href", "action", "data"):
            assert urlsplit(attributes.get(name) or "").scheme in ("", "data")
        assert not [
            name for name in attributes if name.startswith("on") or name == "style"
        ]  # the policy would refuse them
    script = Read(page).inside["script"]
    assert re.findall(r"""(?:fetch|import)\(\s*["'`]([^"'`]*)""", script) == ["v1/${path}"]
    assert set(re.findall(r"""\bask\(["'`]([^"'`]*)""", script)) == {
        "invitations",
        "reports",
        "withdrawals",
    }
    markup = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function"
    elsewhere = r"sendBeacon|WebSocket|cookie|indexedDB|caches"
    assert not re.search(rf"Math\.random|{markup}|{elsewhere}", script)
    assert script.count("sessionStorage") == script.count("localStorage") == 1  # in one place


def test_the_study_in_the_page_is_the_one_that_is_hashed(
    page: ContributorPage, study: Study
) -> None:
    assert hashlib.sha256(Read(page).inside["study"].encode()).hexdigest() == study.hash


def test_a_study_cannot_write_markup() -> None:
    page, plain = render(HOSTILE), render(PLAIN)
    read = Read(page)
    assert read.inside["study"].encode() == HOSTILE.canonical()
    assert read.inside["title"] == HOSTILE.title
    assert read.inside["p"].count(HOSTILE.description) == 1
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in Read(plain).tags]
    assert policy(page)["script-src"] == policy(plain)["script-src"]


LETTERS = st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp"))


@given(words=st.text(LETTERS, max_size=20).map(str.strip))
def test_no_words_make_markup(words: str) -> None:
    """Any title and description; the study in the page stays the one that is hashed."""
    study = replace(PLAIN, title=f"t{words}", description=f"d{words}")
    read, plain = Read(render(study)), Read(render(replace(PLAIN, description="d")))
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in plain.tags]
    assert markup.plain_text(study.title) == read.inside["title"] == read.inside["h1"]
    assert read.inside["study"].encode() == study.canonical()


def test_the_same_study_gives_the_same_page_and_another_gives_another(study: Study) -> None:
    assert (
        render(study).sha256
        == render(study).sha256
        == hashlib.sha256(render(study).html).hexdigest()
    )
    assert render(study).sha256 != render(HOSTILE).sha256


PAIRS = (  # text on its background
    *(("ink", on) for on in ("paper", "wash", "tint", "sand")),
    *(("muted", on) for on in ("paper", "wash", "tint")),
    ("orange", "paper"),
    ("blue", "wash"),
    ("on-blue", "blue"),
    ("on-blue", "deep"),
)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_stands_out(page: ContributorPage, scheme: int) -> None:
    """Contrast of at least 4.5 for text and 3 for the edges of fields, as WCAG 2 asks (AA)."""
    colours = dict(
        re.findall(
            r"--([\w-]+): (#[0-9a-f]{6})", Read(page).inside["style"].split(":root")[1 + scheme]
        )
    )

    def contrast(a: str, b: str) -> float:
        dark, light = sorted(luminance(colours[name]) for name in (a, b))
        return (light + 0.05) / (dark + 0.05)

    assert min(contrast(*pair) for pair in PAIRS) >= 4.5
    assert contrast("edge", "paper") >= 3 and contrast("blue", "paper") >= 3
