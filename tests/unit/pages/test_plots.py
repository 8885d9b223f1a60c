"""Charts: inside their frame whatever the values are, in proportion, with round numbers."""

import re
from math import inf, isfinite, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.formatting import numbers
from pdml.pages.charts.plots import (
    AxisScale,
    BandCurve,
    Chart,
    Series,
    around,
    curves_figure,
    from_zero,
    round_numbers,
)
from pdml.pages.charts.svg import WIDTH

VALUES = st.lists(st.floats(0, 1e300) | st.sampled_from([inf, nan, 0.0]), min_size=1, max_size=60)
KNOWN = st.floats(-1e9, 1e9)


def drawn(*lines, scale=None, **more):
    series = tuple(Series(label=f"line {i}", values=values) for i, values in enumerate(lines))
    chart = Chart(y="y", series=series, scale=scale or from_zero(series), **more)
    return chart.figure(name="kind", heading="A heading", caption="", words="Words.")


def having(figure, tag, style):
    found = [(dict(each.attributes), each.words) for each in figure.marks if each.tag == tag]
    return [each for each in found if style in each[0].get("class", "").split()]


def places(figure):
    """Every point of every line, as it lies on the canvas."""
    paths = [attributes.get("d", "") for attributes, _ in having(figure, "path", "line")]
    points = re.findall(r"[ML]([-0-9.e]+) ([-0-9.e]+)", "".join(paths))
    return [(float(across), float(down)) for across, down in points]


@given(one=VALUES, other=VALUES)
def test_any_values_make_a_picture_inside_its_frame(one, other):
    figure = drawn(one, other)
    assert all(0 <= x <= WIDTH and 0 <= y <= figure.height for x, y in places(figure))
    assert figure == drawn(one, other)


@given(values=st.lists(KNOWN, min_size=1, max_size=30))
def test_around_leaves_room_on_both_sides(values):
    series = (Series(label="", values=values),)
    scale = around(series, numbers.tick)
    assert all(0 < scale.share(value) < 1 for value in values)
    figure = drawn(values, scale=scale)
    assert len(places(figure)) >= len(values)


def test_higher_values_are_drawn_higher_and_gaps_stay_gaps():
    first, second, third = places(drawn([1.0, 2.0, 3.0]))
    assert first[1] > second[1] > third[1] and first[0] < second[0] < third[0]
    assert len(places(drawn([1.0, 2.0, inf, 4.0, 5.0]))) == 4
    whole, broken = (
        having(drawn(values), "path", "line")[0][0]["d"].count("M")
        for values in ([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, nan, 4.0, 5.0])
    )
    assert (whole, broken) == (1, 2)


def test_a_tenfold_span_is_logarithmic_and_equal_ratios_are_equal_steps():
    figure = drawn([1.0, 10.0, 100.0])
    heights = [down for _, down in places(figure)]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)
    assert "y, logarithmic" in [each.words for each in figure.marks]
    assert "y" in [each.words for each in drawn([1.0, 9.0]).marks]


@given(start=st.floats(-1000, 1000), span=st.floats(1e-9, 1e9))
def test_round_numbers_are_few_evenly_spaced_and_inside(start, span):
    low = start * span
    found = round_numbers(low, low + span)
    assert 2 <= len(found) <= 7
    assert all(-1e-9 <= (each - low) / span <= 1 + 1e-9 for each in found)
    step = (found[-1] - found[0]) / (len(found) - 1)
    lead = float(f"{step:.6e}".partition("e")[0])
    assert lead == pytest.approx(round(lead), rel=1e-4) and round(lead) in (1, 2, 5, 10)


@given(low=st.floats(1e-250, 1e250), factor=st.floats(11, 1e40))
def test_a_logarithmic_scale_has_a_dozen_numbers_at_most(low, factor):
    scale = AxisScale(low, low * factor, logarithmic=True)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 13 and all(low <= tick <= low * factor for tick in ticks)


def test_many_steps_are_thinned_and_the_last_one_stays():
    points = places(drawn([float(t) for t in range(1, 20_001)]))
    assert len(points) <= 402
    assert points[-1][0] == max(across for across, _ in points)


@pytest.mark.parametrize("value", [0.0, 1e-12, 0.5, 1e9])
def test_one_value_is_a_point(value):
    figure = drawn([value])
    assert "1" in [words for _, words in having(figure, "text", "middle")]
    assert len(having(figure, "circle", "dot")) == 1


def test_nothing_known_has_no_scale_and_a_band_says_so():
    figure = drawn([inf, inf], band=(1, "no guarantee"))
    assert not having(figure, "path", "grid") and not places(figure)
    assert having(figure, "text", "warn")[0][1] == "no guarantee"
    narrow = drawn([1.0] * 9 + [inf], band=(10, "no guarantee"))
    band = having(narrow, "rect", "band")[0][0]
    assert float(band["x"]) + float(band["width"]) == pytest.approx(WIDTH - 20, abs=0.2)
    assert "rotate" in having(narrow, "text", "warn")[0][0]["transform"]


def test_one_series_needs_no_legend_and_three_take_two_lines():
    heights = [drawn(*[[1.0, 2.0]] * n).height for n in (1, 2, 3)]
    assert [high - heights[0] for high in heights] == [0, 22, 44]
    assert "line 2" in [each.words for each in drawn(*[[1.0, 2.0]] * 3).marks]
    assert not any("line" in each.words for each in drawn([1.0, 2.0]).marks)


def test_labels_of_the_second_scale_do_not_touch():
    figure = drawn([1.0, 5.0], right=[(4.0, "a"), (4.1, "b"), (5.0, "c")], right_is="sure")
    result = {each.words for each in figure.marks}
    assert {"a", "c", "sure"} <= result and "b" not in result
    assert all(
        isfinite(float(dict(each.attributes)["x"])) for each in figure.marks if each.tag == "text"
    )


@given(
    st.lists(
        st.lists(st.tuples(KNOWN, KNOWN, st.floats(0, 1e6)), min_size=1, max_size=9),
        min_size=1,
        max_size=5,
    )
)
def test_curves_lie_in_their_panels_with_their_intervals_around_them(drawn_points):
    curves = []
    for k, points in enumerate(drawn_points):
        x, y, reach = zip(*sorted(points), strict=True)
        low = [value - away for value, away in zip(y, reach, strict=True)]
        high = [value + away for value, away in zip(y, reach, strict=True)]
        curves.append(BandCurve(name=f"number {k}", x=x, y=y, low=low, high=high))
    figure = curves_figure(curves, y="up", name="n", heading="h", caption="", words="w")
    assert all(0 <= x <= WIDTH and 0 <= y <= figure.height for x, y in places(figure))
    lines, bands = having(figure, "path", "line"), having(figure, "path", "band")
    assert len(lines) == len(bands) == len(curves)
    for (line, _), (band, _) in zip(lines, bands, strict=True):
        downs = [
            [float(down) for _, down in re.findall(r"([-0-9.e]+) ([-0-9.e]+)", one["d"])]
            for one in (line, band)
        ]
        many = len(downs[0])
        for at, down in enumerate(downs[0]):
            assert downs[1][at] <= down + 0.1 and down <= downs[1][2 * many - 1 - at] + 0.1
