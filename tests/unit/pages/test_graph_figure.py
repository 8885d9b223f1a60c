"""The graph: every server drawn once, named while names fit, coloured by what is known."""

import re
from itertools import pairwise
from math import dist, nan

import numpy as np
import pytest

from pdml.numerics.admm.graph import build
from pdml.pages.charts import training_charts
from pdml.pages.charts.training_charts import MOST_LINKS, NAMED_SERVERS, circle, graph_figure


def drawn(n, edges, accuracies=None, names=None, places=None):
    names = names or [f"clinic {i}" for i in range(n)]
    return graph_figure(names, edges, places or circle(n), accuracies or [None] * n, "Caption.")


def servers(figure):
    found = [dict(each.attributes) for each in figure.marks if each.tag == "circle"]
    return [(float(each["cx"]), float(each["cy"]), each.get("fill")) for each in found]


def words(figure):
    return [each.words for each in figure.marks if each.tag == "text"]


@pytest.mark.parametrize("n", [1, 2, NAMED_SERVERS, NAMED_SERVERS + 1, 1000])
def test_every_server_is_drawn_and_named_as_long_as_names_fit(n):
    figure = drawn(n, build("ring", n).edges if n > 2 else [])
    assert len(servers(figure)) == n
    assert len(words(figure)) == (n if n <= NAMED_SERVERS else 0)
    assert all(0 < x < figure.width and 0 < y < figure.height for x, y, _ in servers(figure))


def test_edges_of_many_servers_do_not_cover_their_neighbours():
    for n, edge in ((200, 1.5), (1000, 0.3)):
        (found,) = {
            dict(each.attributes)["stroke-width"]
            for each in drawn(n, build("ring", n).edges).marks
            if each.tag == "circle"
        }
        assert float(found) == edge


def test_links_join_the_servers_they_name():
    figure = drawn(4, [(0, 1), (2, 3)])
    path = next(dict(each.attributes)["d"] for each in figure.marks if each.tag == "path")
    ends = [tuple(map(float, each)) for each in re.findall(r"[ML]([0-9.]+) ([0-9.]+)", path)]
    spots = [(x, y) for x, y, _ in servers(figure)]
    assert ends == [spots[0], spots[1], spots[2], spots[3]]


def test_of_many_links_some_are_drawn_and_that_is_said():
    edges = build("complete", 100).edges
    figure = drawn(100, edges)
    path = next(dict(each.attributes)["d"] for each in figure.marks if each.tag == "path")
    assert path.count("M") == MOST_LINKS < len(edges)
    assert "100 servers, 4,950 links. Of the links, 4,000 are drawn." in figure.words
    assert figure.caption.endswith(". Caption.")


def test_colours_go_from_the_least_to_the_most_accurate_and_grey_is_unknown():
    figure = drawn(4, [(0, 1)], [0.5, 0.9, nan, None])
    low, high, *unknown = (colour for *_, colour in servers(figure))
    assert (low, high) == ("#440154", "#fde725") and set(unknown) == {"#d5dbe1"}
    assert "50.0% to 90.0%" in figure.words and {"50%", "90%"} <= set(words(figure))
    plain = drawn(4, [(0, 1)])
    assert {colour for *_, colour in servers(plain)} == {None} and "Colours" not in plain.words


def test_short_names_stand_inside_and_long_ones_are_cut():
    inside = drawn(2, [(0, 1)], names=["0", "1"])
    assert any("inside" in dict(each.attributes).get("class", "") for each in inside.marks)
    assert words(drawn(2, [], names=["x" * 200, "two\nlines"])) == ["x" * 17 + "…", "two lines"]


def test_the_shape_is_kept():
    """Whatever the unit of the places, a square stays one."""
    for size in (1e-3, 1.0, 1e6):
        places = [(0.0, 0.0), (size, 0.0), (size, size), (0.0, size)]
        spots = [(x, y) for x, y, _ in servers(drawn(4, [], places=places))]
        sides = [dist(one, other) for one, other in pairwise([*spots, spots[0]])]
        assert max(sides) == pytest.approx(min(sides), abs=0.3) and spots[0][1] > spots[3][1]


@pytest.mark.parametrize("topology", ["random", "ring", "complete", "star", "grid", "small_world"])
def test_servers_never_hide_each_other(topology):
    graph = build(topology, 24, np.random.default_rng(0))
    points = training_charts.positions(24, graph.edges)
    apart = np.hypot(*(points[:, None] - points).T) + 1e9 * np.eye(24)
    assert apart.min() > 0.03 * np.ptp(points, axis=0).max()


def test_distances_on_paper_are_distances_in_the_graph():
    """A path drawn as a straight line has no stress at all."""
    points = training_charts.positions(6, [(i, i + 1) for i in range(5)])
    apart = np.hypot(*(points[:, None] - points).T)
    hops = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(apart, hops, atol=1e-2)


def test_servers_that_cannot_reach_each_other_have_places_too():
    for n, edges in ((4, [(0, 1), (2, 3)]), (1, [])):
        assert np.isfinite(training_charts.positions(n, edges)).all()
