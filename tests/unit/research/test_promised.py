"""Rademacher complexity: exact on small sets, sampled within its interval, never above the closed
form.
"""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pdml.errors import InvalidInput
from pdml.research.bounds import promised

small = arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 3)), elements=st.floats(-1, 1))


def exact(x: np.ndarray, radius: float) -> float:
    """All 2^m signs; the supremum over |w| <= W is W|Σ ν x|."""
    return (
        radius
        * float(
            np.mean(
                [np.linalg.norm(np.array(signs) @ x) for signs in product((-1, 1), repeat=len(x))]
            )
        )
        / len(x)
    )


@given(x=small, radius=st.floats(0.1, 10))
def test_the_closed_form_is_never_below_the_complexity(x: np.ndarray, radius: float) -> None:
    assert exact(x, radius) <= promised.closed_form(x, radius) * (1 + 1e-12) + 1e-12


def test_orthogonal_records_attain_the_closed_form() -> None:
    assert exact(np.eye(5), 2.0) == pytest.approx(promised.closed_form(np.eye(5), 2.0))


def test_sampling_finds_the_exact_complexity_and_not_another() -> None:
    """False alarm: ``miss`` = 10^-6 by the central limit; the interval is narrow enough to tell 5%
    apart.
    """
    x = np.random.default_rng(0).normal(size=(9, 2))
    found = promised.sampled(x, 3.0, np.random.default_rng(1), draws=40_000, miss=1e-6)
    truth = exact(x, 3.0)
    assert found.low <= truth <= found.high
    assert not found.low <= 1.05 * truth <= found.high
    assert not found.low <= 0.95 * truth <= found.high


def test_sampled_stays_below_the_closed_form_on_many_records() -> None:
    x = np.random.default_rng(2).normal(size=(2000, 20)) / 10
    found = promised.sampled(x, 1.0, np.random.default_rng(3))
    assert found.low <= promised.closed_form(x, 1.0)
    assert found.value > 0.9 * promised.closed_form(
        x, 1.0
    )  # |Σνx| concentrates: Jensen loses little
    same = promised.sampled(sp.csr_array(x), 1.0, np.random.default_rng(3))
    assert same.value == pytest.approx(found.value)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="radius must"):
        promised.closed_form(np.ones((2, 2)), 0.0)
    with pytest.raises(InvalidInput, match="at least one record"):
        promised.closed_form(np.ones((0, 2)), 1.0)
    with pytest.raises(InvalidInput, match="draws must"):
        promised.sampled(np.ones((2, 2)), 1.0, np.random.default_rng(0), draws=1)
