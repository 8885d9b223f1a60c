"""Marks of figures: the same bytes on every machine."""

from hypothesis import given
from hypothesis import strategies as st

from pdml.pages.charts.svg import Mark, mark, number, point, shortened

lengths = st.floats(-9999, 9999)


@given(lengths)
def test_a_length_is_written_to_a_tenth_and_zero_has_no_sign(value: float) -> None:
    text = number(value)
    assert abs(float(text) - value) <= 0.0501 and text != "-0" and len(text.split(".")[-1]) <= 5


@given(lengths, lengths)
def test_a_place_is_two_lengths(across: float, down: float) -> None:
    assert point(across, down) == f"{number(across)} {number(down)}"


def test_attributes_are_spelled_as_svg_has_them_and_empty_ones_left_out() -> None:
    assert mark("text", "one", class_="axis", text_anchor="end", x=1.04, fill="") == Mark(
        "text", (("class", "axis"), ("text-anchor", "end"), ("x", "1")), "one"
    )


@given(st.text(), st.integers(2, 20))
def test_a_line_is_no_longer_than_it_may_be_and_says_that_it_was_cut(text: str, most: int) -> None:
    line, whole = shortened(text, most), " ".join(text.split())
    assert len(line) <= most and "\n" not in line
    assert line == whole if len(whole) <= most else line == whole[: most - 1] + "…"
