"""Figures are well-formed, named, self-contained SVG, the same for the same input, and survive what
training can produce.
"""

import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.special import ndtri

from pdml.accounting import profiles
from pdml.core.graph import build
from pdml.errors import InvalidInput
from pdml.report import (
    accuracy_figure,
    consensus_figure,
    graph_figure,
    layout,
    risk_figure,
    spent_figure,
)
from pdml.report.plots import DRAWN_LINKS, NAMED_SERVERS
from pdml.report.svg import NAMESPACE

T = 40
FALLING = np.geomspace(2, 0.1, T)
SPENT = np.geomspace(0.1, 20, T)
RING = build("ring", 8, None)

FIGURES = {
    "risk": lambda: risk_figure(FALLING, 0.2),
    "consensus": lambda: consensus_figure(FALLING, FALLING / 3),
    "spent": lambda: spent_figure(SPENT, 1e-6),
    "spent, unprotected": lambda: spent_figure(np.where(SPENT > 5, np.inf, SPENT), 1e-6),
    "graph": lambda: graph_figure(
        8, RING.edges, np.linspace(0.8, 0.9, 8).tolist(), [f"clinic {i}" for i in range(8)]
    ),
    "graph without values": lambda: graph_figure(8, RING.edges),
    "accuracy": lambda: accuracy_figure([0.8, 0.9, None], 0.91, 0.93),
}


def parse(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{{{NAMESPACE}}}svg"
    return root


def words(svg: str) -> list[str]:
    return [element.text or "" for element in parse(svg).iter(f"{{{NAMESPACE}}}text")]


def described(svg: str) -> str:
    return parse(svg).findtext(f"{{{NAMESPACE}}}desc") or ""


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_figures_are_named_and_self_contained(draw):
    svg = draw()
    root = parse(svg)
    assert root.get("role") == "img" and root.get("aria-label")
    assert root[0].tag.endswith("title") and root[0].text == root.get("aria-label")
    assert (
        root[1].tag.endswith("desc")
        and root[1].text
        and root.get("aria-describedby") == root[1].get("id")
    )
    assert svg.count("http") == 1 and f'xmlns="{NAMESPACE}"' in svg
    assert not re.search(r"url\(|src=|@import|<style|<script|<image|<metadata|DejaVu", svg)
    assert words(svg), "text is kept as text"


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_the_same_input_gives_the_same_bytes(draw):
    assert draw() == draw()


def test_bytes_do_not_depend_on_the_users_style_which_is_left_alone():
    import matplotlib

    expected = FIGURES["risk"]()
    with matplotlib.rc_context({"font.size": 31, "axes.facecolor": "red", "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert FIGURES["risk"]() == expected
        assert dict(matplotlib.rcParams) == before


def test_neither_importing_nor_drawing_touches_pyplot():
    code = (
        "import sys, pdml.report as r\n"
        "assert 'matplotlib' not in sys.modules\n"
        "r.risk_figure([1.0, 0.5]); r.graph_figure(2, [(0, 1)], [0.5, 0.6])\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_ids_are_unique_in_a_page_with_all_figures_and_every_reference_resolves():
    page = "".join(draw() for draw in FIGURES.values())
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


@pytest.mark.parametrize(
    "draw",
    [
        lambda v: risk_figure(v, 1.0),
        lambda v: consensus_figure(v, v),
        lambda v: spent_figure(v, 1e-6),
    ],
)
@pytest.mark.parametrize("value", [0.0, 1e-12, 0.5, 1e9])
def test_one_round_is_a_point(draw, value):
    assert "1" in words(draw([value]))  # the round's number on the axis
    assert "in 1 round." in described(draw([value]))


def test_descriptions_carry_the_numbers():
    assert "from 2.00 to 0.100 in 40 rounds" in described(FIGURES["risk"]())
    assert "without privacy ends at 0.200" in described(FIGURES["risk"]())
    assert "80.0% to 90.0%" in described(
        FIGURES["accuracy"]()
    ) and "Without privacy: 93.0%" in described(FIGURES["accuracy"]())


def test_rounds_without_a_guarantee_are_said_and_shown():
    svg = spent_figure([0.5, 1.0, np.inf, np.inf], 1e-6)
    assert "no guarantee" in words(svg) and "From round 3 on there is no guarantee" in described(
        svg
    )
    svg = spent_figure([np.inf], 1e-6)
    assert (
        "no guarantee" in words(svg) and described(svg) == "From round 1 on there is no guarantee."
    )
    assert "no guarantee" not in words(spent_figure(SPENT, 1e-6))


def test_the_second_scale_translates_epsilon_into_certainty():
    """75% are odds of 3 to 1, which a Gaussian of this ε exceeds with at most δ."""
    svg = spent_figure([0.1, 3.0], 1e-6)
    ticks = {t.text: float(t.get("y")) for t in parse(svg).iter(f"{{{NAMESPACE}}}text")}
    bottom, top = ticks["0.0"], ticks["3.0"]
    mu = ndtri(1e-6) - ndtri(1e-6 / 3)
    epsilon = profiles.epsilon_at(profiles.gaussian_profile(mu), 1e-6)
    assert (ticks["75%"] - bottom) / (top - bottom) == pytest.approx(epsilon / 3, abs=0.01)
    assert "75%" not in words(spent_figure([0.1, 3.0], None))


@pytest.mark.parametrize("epsilon", [0.0, 1e-7, 0.01, 12.0, 1e6])
def test_any_size_of_epsilon_has_readable_ticks(epsilon):
    assert len(words(spent_figure([epsilon / 2, epsilon], 0.01))) >= 4


def test_gaps_and_zeros():
    parse(risk_figure([np.nan, 0.5, np.inf, 0.3]))
    assert "noise in each coefficient" not in words(consensus_figure(FALLING, np.zeros(T)))
    assert "the models are equal and no noise was added" in words(
        consensus_figure(np.zeros(3), np.zeros(3))
    )


def test_what_cannot_be_drawn_is_refused():
    for draw in (
        lambda: risk_figure([np.nan, np.nan]),
        lambda: risk_figure([]),
        lambda: risk_figure([[1.0]]),
        lambda: consensus_figure([1.0, 2.0], [1.0]),
        lambda: accuracy_figure([None, float("nan")], None, None),
        lambda: graph_figure(2, [(0, 2)]),
        lambda: graph_figure(2, [(0, 1)], names=["only one"]),
    ):
        with pytest.raises(InvalidInput):
            draw()


@pytest.mark.parametrize("topology", ["random", "ring", "complete", "star", "grid", "small_world"])
def test_servers_never_hide_each_other(topology):
    graph = build(topology, 24, np.random.default_rng(0))
    points = layout.positions(24, graph.edges)
    apart = np.hypot(*(points[:, None] - points).T) + 1e9 * np.eye(24)
    assert apart.min() > 0.03 * np.ptp(points, axis=0).max()


def test_distances_on_paper_are_distances_in_the_graph():
    """A path drawn as a straight line has no stress at all."""
    points = layout.positions(6, [(i, i + 1) for i in range(5)])
    apart = np.hypot(*(points[:, None] - points).T)
    hops = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(apart, hops, atol=1e-2)


def test_two_servers_and_servers_that_cannot_reach_each_other():
    assert {"0", "1"} <= set(words(graph_figure(2, [(0, 1)])))
    parse(graph_figure(4, [(0, 1), (2, 3)]))
    parse(graph_figure(1, []))


@pytest.mark.parametrize("topology", ["random", "complete"])
def test_a_thousand_servers_have_no_labels_and_a_bounded_size(topology):
    graph = build(topology, 1000, np.random.default_rng(0))
    svg = graph_figure(
        1000, graph.edges, np.linspace(0.6, 0.9, 1000).tolist(), [f"name {i}" for i in range(1000)]
    )
    assert not any("name" in word for word in words(svg))
    assert len(svg) < 400_000
    assert ("Only 4,000 of the links are drawn" in described(svg)) == (
        len(graph.edges) > DRAWN_LINKS
    )


def test_up_to_forty_servers_are_named():
    for n in (NAMED_SERVERS, NAMED_SERVERS + 1):
        svg = graph_figure(n, build("ring", n).edges, names=[f"clinic {i}" for i in range(n)])
        assert ("clinic 7" in words(svg)) == (n <= NAMED_SERVERS)


def test_names_are_text_whatever_they_look_like():
    names = [
        "<script>alert(1)</script>",
        "$\\frac{1}{2}$",
        "a & b",
        "bad\x00\x1b\ud800",
        "病院",
        "two\nlines",
        "x" * 200,
        "",
    ]
    drawn = words(graph_figure(8, RING.edges, names=names))
    assert {
        "<script>alert(1)<…",
        "$\\frac{1}{2}$",
        "a & b",
        "bad\ufffd\ufffd\ufffd",
        "病院",
        "two lines",
        "x" * 17 + "…",
    } <= set(drawn)


def test_missing_accuracies_are_left_out_but_not_the_servers():
    svg = graph_figure(3, [(0, 1), (1, 2)], [0.5, None, float("nan")])
    assert "50.0% to 50.0%" in described(svg) and {"0", "1", "2"} <= set(words(svg))
    assert "servers’ own models" not in described(accuracy_figure([], 0.9, None))
