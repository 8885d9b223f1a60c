import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml._math import arithmetic, bisect, geometric, whole

edges = st.floats(0.01, 100)


@given(edge=edges, upwards=st.booleans())
def test_the_answer_holds_and_lies_within_the_tolerance_of_the_edge(
    edge: float, upwards: bool
) -> None:
    """From either side; what is returned is never beyond the edge."""
    if upwards:
        found = bisect(lambda x: x <= edge, 0.0, 200.0, absolute=1e-6)
        assert edge - 1e-6 <= found <= edge
    else:
        found = bisect(lambda x: x >= edge, 200.0, 0.0, absolute=1e-6)
        assert edge <= found <= edge + 1e-6


@given(edge=edges)
def test_a_relative_tolerance_counts_from_the_larger_end(edge: float) -> None:
    found = bisect(lambda x: x >= edge, 1e4, 1e-4, relative=0.01, middle=geometric)
    assert edge <= found <= edge / 0.99


@given(edge=st.integers(0, 1000))
def test_whole_numbers_are_found_exactly(edge: int) -> None:
    assert bisect(lambda n: n <= edge, 0, 1001, absolute=1, middle=whole) == edge
    assert bisect(lambda n: n >= edge, 1001, -1, absolute=1, middle=whole) == edge


@pytest.mark.parametrize("middle", [arithmetic, geometric])
def test_the_ends_are_not_tried(middle: object) -> None:
    tried: list[float] = []

    def holds(x: float) -> bool:
        tried.append(x)
        return x >= 3

    bisect(holds, 8.0, 1.0, absolute=0.1, middle=middle)  # type: ignore[arg-type]
    assert 8.0 not in tried
    assert 1.0 not in tried
