"""Single values: what lies in the domain comes back, all else is named with the domain."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml._validate import choice, integer, real
from pdml.errors import InvalidInput


@given(st.floats(-10, 10))
def test_a_number_comes_back_inside_and_is_refused_outside(value: float) -> None:
    if -1 <= value < 2:
        assert real("x", value, low=-1, high=2, open_high=True) == value
    else:
        with pytest.raises(InvalidInput, match=r"^x must be a number in \[-1, 2\), got"):
            real("x", value, low=-1, high=2, open_high=True)


@pytest.mark.parametrize("value", [True, nan, "1", None, 1j, [1.0]])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="must be a number") as caught:
        real("penalty", value)
    assert caught.value.setting == "penalty"


def test_open_ends_are_outside_and_infinity_is_inside_where_it_may_be() -> None:
    assert real("x", inf) == inf and real("x", 0, low=0) == 0.0
    for ends in ({"low": 0, "open_low": True}, {"high": 0, "open_high": True}):
        with pytest.raises(InvalidInput):
            real("x", 0.0, **ends)


def test_whole_numbers_of_numpy_are_whole_numbers_of_python() -> None:
    assert type(integer("n", np.int64(3), low=1, high=3)) is int
    for value in (0, 4, 3.0, True, "3"):
        with pytest.raises(InvalidInput, match="whole number >= 1 and <= 3"):
            integer("n", value, low=1, high=3)


def test_one_of_several_words_and_the_reason_at_the_end() -> None:
    assert choice("loss", "cosh", ("cosh", "square")) == "cosh"
    with pytest.raises(
        InvalidInput, match="be one of 'cosh', 'square', got 'hinge': it has a bend"
    ):
        choice("loss", "hinge", ("cosh", "square"), why="it has a bend")
