"""Figures that are the same on every machine: well formed, told in words, inside their frame."""

import re
from math import inf, nan
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.report import steady

VALUES = st.lists(st.floats(0, 1e300) | st.sampled_from([inf, nan, 0.0]), min_size=1, max_size=60)


def drawn(*lines):
    named = [("line", values) for values in lines]
    return steady.rounds_figure("kind", "A heading", "Words & more.", "y", named)


def places(svg):
    """Every point of every path, as it lies on the canvas."""
    paths = [path for path in re.findall(r'd="([^"]*)"', svg) if "L" in path]
    points = [point for path in paths for point in re.split("[ML]", path)[1:]]
    return [tuple(map(float, point.split())) for point in points]


@given(one=VALUES, other=VALUES)
def test_any_values_make_a_picture_inside_its_frame(one, other):
    svg = drawn(one, other[: len(one)] or [1.0])
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img" and "Words &amp; more." in svg
    assert all(0 <= x <= steady.WIDTH and 0 <= y <= steady.HEIGHT for x, y in places(svg))
    assert svg == drawn(one, other[: len(one)] or [1.0])


def test_higher_values_are_drawn_higher_and_gaps_stay_gaps():
    first, second, third = places(drawn([1.0, 2.0, 3.0]))
    assert first[1] > second[1] > third[1] and first[0] < second[0] < third[0]
    whole, broken = drawn([1.0, 2.0, 3.0, 4.0, 5.0]), drawn([1.0, 2.0, inf, 4.0, 5.0])
    assert (len(places(whole)), len(places(broken))) == (5, 4)
    assert broken.count("M") == whole.count("M") + 1


def test_a_tenfold_span_is_logarithmic_and_equal_ratios_are_equal_steps():
    heights = [y for _, y in places(drawn([1.0, 10.0, 100.0]))]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)


def test_many_rounds_are_thinned_and_the_last_one_stays():
    points = places(drawn([float(t) for t in range(1, 20_001)]))
    assert len(points) <= 402
    assert points[-1][0] == max(x for x, _ in points)


@pytest.mark.parametrize("n", [1, 2, 40, 41, 1000])
def test_servers_are_named_as_long_as_names_fit(n):
    names = [f"server-{i}" for i in range(n)]
    edges = [(i, (i + 1) % n) for i in range(n)] if n > 2 else []
    svg = steady.graph_figure("Who", "Words.", names, edges)
    root = ElementTree.fromstring(svg)
    assert svg.count("<circle") == n
    assert len(root.findall("{*}text")) == (n if n <= 40 else 0)


def test_markup_in_names_is_shown_and_not_obeyed():
    svg = steady.graph_figure("Who", "Words.", ["<script>", "b"], [(0, 1)])
    assert "<script>" not in svg and "&lt;script&gt;" in svg
