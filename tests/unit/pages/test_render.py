"""What pages say of a row of the ledger is true at every value of it."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from pdml.accounting import LedgerRow
from pdml.accounting.kinds import Adversary
from pdml.formatting import numbers
from pdml.pages.render import HARDLY, sure


def row(epsilon: float, certainty: float, delta: float = 0.0) -> LedgerRow:
    return LedgerRow("features", Adversary.OTHERS, epsilon, delta, "noise", certainty)


def test_without_a_bound_nothing_keeps_them_from_being_certain() -> None:
    assert sure(row(inf, 1.0)) == "nothing keeps them from being certain"


@given(st.floats(0.5, 1.0))
def test_who_can_be_nearly_certain_is_not_called_kept_from_it(certainty: float) -> None:
    text = sure(row(1.0, certainty))
    assert ("practically no protection" in text) == (certainty >= HARDLY)
    assert "100.0%" not in text and f"{numbers.certainty(certainty)} sure after" in text


@given(st.floats(0.5, 0.99), st.floats(1e-12, 0.1))
def test_a_chance_of_failure_is_said(certainty: float, delta: float) -> None:
    assert "but for a chance of" in sure(row(1.0, certainty, delta))
    assert "but for" not in sure(row(1.0, certainty))
