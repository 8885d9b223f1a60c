"""Numbers as people read them: never more protection than there is, never more certainty."""

from math import inf, isclose, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.formatting import numbers

RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def read(text: str) -> float:
    """The number that a text of ours says."""
    lead, _, power = text.replace("−", "-").replace(",", "").partition(" × 10")
    if lead.startswith("10") and lead[2:].translate(RAISED) != lead[2:]:
        return 10.0 ** int(lead[2:].translate(RAISED))
    return float(lead) * (10.0 ** int(power.translate(RAISED)) if power else 1)


@given(st.floats(1e-12, 1e12), st.sampled_from([1, -1]))
def test_three_digits_say_the_number_to_half_a_percent(size: float, sign: int) -> None:
    assert isclose(read(numbers.significant(sign * size)), sign * size, rel_tol=5.1e-3)


@given(st.floats(1e-15, 9e-4))
def test_a_small_delta_is_a_power_of_ten(value: float) -> None:
    assert isclose(read(numbers.delta(value)), value, rel_tol=5.1e-3)


def test_no_protection_is_no_symbol_and_nothing_measured_is_no_number() -> None:
    assert numbers.epsilon(inf) == "no protection" and numbers.epsilon(1.0) == "1.00"
    assert numbers.epsilon(nan) == numbers.percent(None) == numbers.delta(nan) == "not measured"
    assert numbers.significant(-inf) == "−∞" and numbers.significant(0.0) == "0"


@given(st.floats(0, 1))
def test_nobody_is_said_to_be_certain(value: float) -> None:
    assert numbers.certainty(value) != "100.0%"


@given(st.floats(0, 1e6))
def test_the_most_that_can_be_is_never_rounded_down(value: float) -> None:
    assert read(numbers.at_most(value)) >= value - 1e-9


@pytest.mark.parametrize(
    ("count", "noun", "text"), [(1, "link", "1 link"), (1300, "link", "1,300 links"), (7, "", "7")]
)
def test_counts_have_their_plural(count: int, noun: str, text: str) -> None:
    assert numbers.count(count, noun) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59, "0 minutes"), (119 * 60, "119 minutes"), (7200, "2 hours"), (3 * 86400, "3 days")],
)
def test_times_are_in_the_largest_unit_of_which_there_are_two(seconds: int, text: str) -> None:
    assert numbers.duration(seconds) == text


def test_gains_and_losses_in_words() -> None:
    assert numbers.difference(0.0123) == "gains 1.2 percentage points"
    assert numbers.difference(-0.5) == "loses 50.0 percentage points"
    assert numbers.difference(0.0004) == "makes no difference"


def test_coalitions_sizes_and_settings() -> None:
    assert numbers.coalition(1) == "any 1 other server"
    assert numbers.coalition(3, all_others=True) == "all 3 other servers together"
    assert numbers.sizes("node", 3, 2, 0) == "3 nodes, one exchange of sums"
    assert numbers.sizes("node", 3, 2, 10) == "3 nodes, 2 links, 10 rounds"
    assert numbers.setting((0.30, "ring")) == "0.3, ring"


@given(st.floats(-1e9, 1e9))
def test_machines_get_twelve_digits(value: float) -> None:
    assert isclose(float(numbers.machine(value)), value, rel_tol=1e-11, abs_tol=1e-300)
