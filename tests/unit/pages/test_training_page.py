"""The page is one inert document: it shows its input, loads nothing, runs nothing, and takes text
as text.
"""

import re
from dataclasses import replace
from html.parser import HTMLParser
from math import inf, nan
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.accounting import LedgerRow
from pdml.errors import InvalidInput
from pdml.formatting import markup, numbers
from pdml.numerics.sums.expected_accuracy import Expectation, Range
from pdml.pages.training_page import Page, ServerRow, render, write

T = 30
LINES = (
    LedgerRow("label", "own server", 1.0, 0.0, "randomised on the device", 0.7310586),
    LedgerRow("label", "other servers", 0.32475738, 1e-6, "both phases", 0.6012),
    LedgerRow("label", "own and others together", 1.0, 0.0, "back to the device", 0.7310586),
    LedgerRow("features", "own server", inf, 0.0, "it receives them", 1.0),
    LedgerRow("features", "other servers", 16.714, 1e-6, "iterate noise", 0.99999998),
    LedgerRow("features", "own and others together", inf, 0.0, "none", 1.0),
)


def history(rounds=T, **changed):
    fields = {name: np.geomspace(2, 0.123456, rounds) for name in ("risk", "consensus", "noise")}
    return SimpleNamespace(**(fields | {"spent": np.geomspace(0.5, 16.714, rounds)} | changed))


PAGE = Page(
    title="Who is at risk?",
    lead="A study of three clinics.",
    history=history(),
    reference_risk=0.1,
    n_servers=3,
    edges=((0, 1), (1, 2)),
    servers=(
        ServerRow("alice", 1200, 1, 0.9712),
        ServerRow("bob", 800, 2, 0.9),
        ServerRow("carol", 500, 1, None),
    ),
    released_accuracy=0.97439,
    reference_accuracy=0.97712,
    accuracy_note="on 5,000 fresh test records",
    lines=LINES,
    source="simulated",
    settings={"rounds": "30"},
    notes=("ranges were taken from the records",),
    creation_note="2026-07-01",
)

VOID = {"meta", "link", "br"}


class Tree(HTMLParser):
    """Checks that tags nest, and keeps every element as (tag, attributes, text inside)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[list] = []
        self.elements: list[list] = []
        self.feed(page)
        assert not self.open, "every tag is closed"

    def handle_starttag(self, tag, attrs):
        element = [tag, dict(attrs), ""]
        assert len(attrs) == len(element[1]), f"an attribute twice in {tag}"
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for element in self.open:
            element[2] += data

    def all(self, *tags):
        return [element for element in self.elements if element[0] in tags]

    def classed(self, name):
        return [
            element for element in self.elements if name in (element[1].get("class") or "").split()
        ]


def inert(page: str) -> None:
    assert not re.search(
        r"https?:|//[a-z]|src=|@import|url\(|<script|<iframe|<object|<embed|<form|javascript:",
        page,
        re.IGNORECASE,
    )
    tree = Tree(page)
    assert not [
        name for _, attributes, _ in tree.elements for name in attributes if name.startswith("on")
    ]
    targets = [
        value
        for _, attributes, _ in tree.elements
        for name, value in attributes.items()
        if name.endswith("href")
    ]
    assert all(target.startswith("#") or target == "data:," for target in targets)


def cards(page: str) -> dict[str, tuple[str, float | None]]:
    """Name of each big number, what is shown, and the exact value it carries."""
    tree, found, name = Tree(page), {}, ""
    for tag, attributes, inside in tree.elements:
        if tag == "dt":
            name = inside
        elif tag == "dd" and "big" in attributes.get("class", ""):
            found[name] = (inside, None)
        elif (
            tag == "data"
            and name in found
            and found[name][1] is None
            and found[name][0].endswith(inside)
        ):
            found[name] = (found[name][0], float(attributes["value"]))
        elif tag == "section" and attributes["aria-labelledby"] != "summary":
            break
    return found


def test_the_page_is_self_contained_and_inert():
    page = render(PAGE)
    inert(page)
    assert (
        """http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'\""""
        in page
    )
    assert page.startswith("<!DOCTYPE html>") and '<html lang="en">' in page


def test_the_same_page_gives_the_same_bytes():
    assert render(PAGE) == render(PAGE)


def test_every_number_of_the_summary_is_the_input():
    shown = cards(render(PAGE))
    assert shown == {
        "Accuracy of the released model": ("97.4%", 0.97439),
        "Accuracy without privacy": ("97.7%", 0.97712),
        "Largest distance between models": ("0.123", PAGE.history.consensus[-1]),
    }
    assert "Released model 97.4%; without privacy 97.7%." in render(PAGE)
    assert "label, collector: 73.1%; label, all others: 60.1%" in render(PAGE)
    assert "the released model loses 0.3 percentage points" in render(PAGE)


EXPECTED = Expectation(
    accuracy=Range(low=0.7012, middle=0.7634, high=0.8156), auc=None, confidence=0.8
)


def test_what_is_expected_is_no_rival_to_what_was_measured():
    """An interval, printed smaller than an accuracy on any screen, and without a middle beside
    one."""
    measured, alone = (
        render(replace(PAGE, expected=EXPECTED, released_accuracy=accuracy))
        for accuracy in (PAGE.released_accuracy, None)
    )
    for page in (measured, alone):
        assert [e[2] for e in Tree(page).classed("estimate")] == ["70.1% to 81.6%"]
        assert "an 80% interval" in page
    assert "76.3%" not in measured and "about 76.3%" in alone
    sizes = {
        name: [
            float(size) for size in re.findall(rf"dd\.{name} {{[^}}]*?font-size: (.+?)rem", alone)
        ]
        for name in ("big", "estimate")
    }
    assert len(sizes["big"]) == len(sizes["estimate"]) == 2  # a wide screen and a phone
    assert max(sizes["estimate"]) < 0.75 * min(sizes["big"])


def test_the_ledger_shows_every_line():
    tree = Tree(render(PAGE))
    rows = [re.sub(r"\s+", " ", text) for tag, _, text in tree.elements if tag == "tr"][
        1 : 1 + len(LINES)
    ]
    for row, line in zip(rows, LINES, strict=True):
        assert numbers.epsilon(line.epsilon) in row and line.reason in row
    assert "73.1%" in rows[0]
    assert "but for a chance" not in rows[0]
    assert re.search("60.1% *at most, but for a chance of 10⁻⁶", rows[1])
    assert render(PAGE).count("ven odds") <= 3
    assert "no protection" in rows[3] and "100%" in rows[3] and "∞" not in render(PAGE)
    assert re.search("over 99.9% *practically no protection", rows[4]) and "100%" not in rows[4]


def test_a_simulation_says_that_it_protects_nobody_and_a_deployment_names_its_source():
    assert "protects nobody" in Tree(render(PAGE)).classed("banner")[0][2]
    deployed = render(replace(PAGE, source="operating system <entropy>"))
    assert (
        "protects nobody" not in deployed
        and "Source of the noise: operating system &lt;entropy&gt;." in deployed
    )


def test_the_risk_is_marked_as_unprotected():
    assert "Covered by no guarantee:" in render(PAGE)
    without = render(replace(PAGE, history=history(risk=np.full(T, nan))))
    assert "Covered by no guarantee:" not in without and "Is the model learning?" not in without


MARKUP = st.sampled_from(
    [
        "<script>alert('x')</script>",
        '"><img src=x onerror=alert(1)>',
        "</style></title></svg>",
        "&amp;&lt;",
        "{{ page }}{% raw %}",
        "\x00\x1b\ud800\ufffe",
        "$x$",
        "-->]]>",
    ]
)
EVIL = st.lists(MARKUP | st.text(max_size=8), max_size=4).map("".join)


def in_words(evil: str, number: float) -> Page:
    """The same page with other words in every field that takes any."""
    return replace(
        PAGE,
        title=f"t{evil}",
        lead=f"l{evil}",
        accuracy_note=f"a{evil}",
        source=f"s{evil}",
        settings={f"k{evil}": f"v{evil}"},
        notes=(f"n{evil}", evil),
        creation_note=f"m{evil}",
        servers=tuple(ServerRow(f"{i}{evil}", 1, 1, number) for i in range(3)),
        lines=(LedgerRow(f"d{evil}", f"b{evil}", 1.0, 0.1, f"r{evil}", 0.8),),
    )


@given(evil=EVIL)
def test_text_from_outside_is_only_ever_text(evil):
    """It comes back as it was, and no tag and no attribute is there that plain words would not
    give.
    """
    page = render(in_words(evil, 0.5))
    page.encode("utf-8")
    tree, plain = Tree(page), Tree(render(in_words("x", 0.5)))
    assert [(tag, list(names)) for tag, names, _ in tree.elements] == [
        (tag, list(names)) for tag, names, _ in plain.elements
    ]
    expected = markup.plain_text(evil).replace("\r\n", "\n").replace("\r", "\n")
    shown = [text.replace("\r\n", "\n").replace("\r", "\n") for _, _, text in tree.all("h1", "li")]
    assert shown == [f"t{expected}", f"n{expected}", expected]
    assert not any(name.startswith("on") for _, names, _ in tree.elements for name in names)


def test_headings_captions_scopes_and_names():
    page = render(PAGE)
    tree = Tree(page)
    assert [tag for tag, *_ in tree.all("h1", "h2", "h3")] == [
        "h1",
        "h2",
        "h2",
        "h2",
        "h2",
        "h2",
        "h2",
    ]
    assert [text for _, _, text in tree.all("h2")] == [
        "In short", "What each party can learn", "How the training went", "The servers", "Settings", "Notes",
    ]  # fmt: skip
    assert len(tree.all("table")) == len(tree.all("caption")) == 3
    assert all(attributes.get("scope") in ("col", "row") for _, attributes, _ in tree.all("th"))
    assert all(
        attributes["role"] == "img" and attributes["aria-label"]
        for _, attributes, _ in tree.all("svg")
    )
    ids = [attributes["id"] for _, attributes, _ in tree.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    pointed = re.findall(r'(?:aria-labelledby|aria-describedby)="([^"]+)"', page)
    assert set(pointed) <= set(ids)


def test_figures_have_no_colours_of_their_own_but_those_that_mean_an_accuracy():
    """The rest are classes of the style sheet, so that they turn dark with the page."""
    bare = replace(PAGE, servers=tuple(replace(row, accuracy=None) for row in PAGE.servers))
    for page, coloured in ((PAGE, True), (bare, False)):
        pictures = re.findall("<svg.*?</svg>", render(page), re.DOTALL)
        assert bool(re.search("#[0-9a-f]{6}", "".join(pictures))) is coloured
        assert 'style="' not in "".join(pictures)
    style = render(PAGE).partition("<style>")[2].partition("</style>")[0]
    used = {
        name
        for _, attributes, _ in Tree("".join(pictures)).elements
        for name in (attributes.get("class") or "").split()
    }
    result = {name for name in used if re.search(rf"[. ]{name}\b", style)}
    assert used - result <= {"blue"}  # the colour of a line that has no other


def test_missing_numbers_are_said_to_be_missing():
    bare = Page(title="t", n_servers=2, edges=((0, 1),), source="simulated")
    page = render(bare)
    inert(page)
    assert cards(page) == {} and "not on this page" not in page
    assert (
        "assume that everybody can learn everything" in page
        and "nan" not in page.lower()
        and "None" not in page
    )
    unknown = replace(
        PAGE,
        released_accuracy=nan,
        servers=tuple(replace(row, accuracy=None) for row in PAGE.servers),
    )
    assert "Accuracy of the released model" not in cards(render(unknown))
    for words in ("Accuracy, server by server", ">Accuracy<"):  # the figure, and the table's column
        assert words in render(PAGE) and words not in render(unknown)


def test_one_round_and_no_guarantee_at_all():
    page = render(
        replace(
            PAGE,
            history=history(
                rounds=1, spent=np.array([inf]), consensus=np.array([0.0]), noise=np.array([0.0])
            ),
        )
    )
    inert(page)
    assert "no guarantee" in page and cards(page)["Largest distance between models"] == ("0", 0.0)


def test_a_thousand_servers_are_folded():
    servers = tuple(ServerRow(f"server {i}", i, 2, i / 2000) for i in range(1000))
    page = render(
        replace(
            PAGE,
            n_servers=1000,
            edges=tuple((i, (i + 1) % 1000) for i in range(1000)),
            servers=servers,
        )
    )
    tree = Tree(page)
    assert len(tree.all("details")) == 1 and "Show all 1,000 servers" in page
    assert sum(text.startswith("server ") for tag, _, text in tree.elements if tag == "th") == 1000
    assert len(page) < 1_000_000


def test_inconsistent_pages_are_refused():
    with pytest.raises(InvalidInput, match="3 servers"):
        replace(PAGE, servers=PAGE.servers[:2])
    with pytest.raises(InvalidInput, match="servers 0 to 2"):
        replace(PAGE, edges=((0, 3),))
    with pytest.raises(InvalidInput, match="history"):
        replace(PAGE, history=history(rounds=0))
    with pytest.raises(InvalidInput, match="history"):
        replace(PAGE, history=history(noise=np.ones(T - 1)))


def test_write_puts_the_page_into_a_file(tmp_path):
    write(tmp_path / "report.html", PAGE)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == render(PAGE)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("write_number", "value", "shown"),
    [
        (numbers.epsilon, 1.0, "1.00"),
        (numbers.epsilon, 0.32475, "0.325"),
        (numbers.epsilon, 16.714, "16.7"),
        (numbers.epsilon, 9.999, "10.0"),
        (numbers.epsilon, 1234.5, "1,230"),
        (numbers.epsilon, 0.0, "0"),
        (numbers.epsilon, 1.2e-7, "1.20 × 10⁻⁷"),
        (numbers.epsilon, 3e12, "3.00 × 10¹²"),
        (numbers.epsilon, inf, "no protection"),
        (numbers.epsilon, nan, "not measured"),
        (numbers.delta, 1e-6, "10⁻⁶"),
        (numbers.delta, 2.5e-7, "2.5 × 10⁻⁷"),
        (numbers.delta, 0.0, "0"),
        (numbers.delta, 0.02, "0.02"),
        (numbers.percent, 0.97439, "97.4%"),
        (numbers.percent, None, "not measured"),
        (numbers.certainty, 0.7310586, "73.1%"),
        (numbers.certainty, 0.99951, "over 99.9%"),
        (numbers.certainty, 1.0, "over 99.9%"),
        (numbers.difference, -0.0027, "loses 0.3 percentage points"),
        (numbers.difference, 0.012, "gains 1.2 percentage points"),
        (numbers.difference, -0.0001, "makes no difference"),
        (numbers.significant, -0.5, "−0.500"),
        (numbers.count, 12345, "12,345"),
    ],
)
def test_numbers_as_people_write_them(write_number, value, shown):
    assert write_number(value) == shown


def test_what_coalitions_learn_is_shown_for_one_for_half_and_drawn_for_all():
    sizes = range(1, 10)
    features = tuple(
        LedgerRow("features", "other servers", k / 2, 1e-6, "sums", 0.6, colluding=k) for k in sizes
    )
    shown = render(replace(PAGE, history=None, edges=(), coalitions=features))
    assert re.findall("any [0-9][^<]*", shown) == [
        "any 1 other server",
        "any 4 other servers together",
    ]
    assert "If some of them collude" in shown and "Other servers that collude" in shown
    assert "from 0.500 against one server to 4.50 against all others" in shown
    plain = render(PAGE)
    assert "If some of them collude" not in plain and "other servers together" in plain


def test_coalitions_of_randomised_answers_stand_in_the_table_and_are_not_drawn():
    kinds = ("label", "features", "answer: Marital Status", "label and randomised answers")
    lines = tuple(
        LedgerRow(data, "other servers", k / 2, 1e-6, "sums", 0.6, colluding=k)
        for data in kinds
        for k in (1, 2)
    )
    shown = render(replace(PAGE, history=None, edges=(), coalitions=lines))
    assert shown.count("any 1 other server<") == len(kinds)
    assert "Answer: Marital Status" in shown  # as it was written
    assert "of the label from" in shown and "of the answer" not in shown


def test_a_model_of_no_use_is_said_at_the_top() -> None:
    doubted = replace(PAGE, doubts=("Too few <people>.", "Add some."))
    result = "The model may be of no use.</strong> Too few &lt;people&gt;. Add some.</p>"
    shown = render(doubted)
    assert result in shown and shown.index(result) < shown.index("In short")
    assert "of no use" not in render(PAGE)
