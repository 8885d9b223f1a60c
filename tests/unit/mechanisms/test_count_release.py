"""One evaluation as a release: what a record can move, and that the noise is what the event says."""

from math import sqrt

import numpy as np
import pytest
from fitting import is_gaussian
from hypothesis import given
from hypothesis import strategies as st

from pdml.accounting import Ledger
from pdml.errors import InvalidInput
from pdml.mechanisms.count_release import SHIFT, Counting, binned, edges
from pdml.mechanisms.integer_gaussian import dequantize
from pdml.mechanisms.randomness import Secure, Simulated


@st.composite
def neighbours(draw):
    """Records and the same with one replaced, as a model sees them."""
    classes, bins = draw(st.integers(2, 5)), draw(st.integers(1, 7))
    record = st.tuples(
        st.integers(0, classes - 1), st.integers(0, classes - 1), st.floats(1 / classes, 1)
    )
    people = draw(st.lists(record, min_size=1, max_size=30))
    other = list(people)
    other[draw(st.integers(0, len(people) - 1))] = draw(record)
    return Counting(stddev=1.0, classes=classes, bins=bins), people, other


def table(counting, people):
    truth, choice, confidence = (np.array(each) for each in zip(*people, strict=True))
    return counting.exact(truth, choice, confidence)


@given(neighbours())
def test_one_record_moves_one_count_to_another(case):
    counting, people, other = case
    one, two = table(counting, people), table(counting, other)
    assert one.sum() == two.sum() == len(people) and one.shape == counting.shape
    moved = float(np.linalg.norm((one - two).ravel()))
    assert moved in (0.0, pytest.approx(SHIFT)) and SHIFT == sqrt(2) == counting.event.shift
    assert np.abs(one - two).sum() in (0, 2)


@given(st.floats(0.05, 5), st.sampled_from([1e-9, 1e-6, 1e-3]), st.integers(2, 6))
def test_the_ledger_charges_what_was_asked_for(epsilon, delta, classes):
    event = Counting.within(epsilon, delta, classes=classes).event
    line = Ledger(((event,),), delta=delta, classes=classes).row("features", "other servers")
    assert epsilon * 0.999 <= line.epsilon <= epsilon * (1 + 1e-6) + 1e-8


def test_secure_noise_has_the_event_s_deviation_and_half_or_double_is_seen():
    """Three checks with a false-alarm rate of 1e-9 each. On the grid 2^-24 two of 10,000 draws are
    the same with a chance of 13%, ten pairs with one below 1e-14.
    """
    counting = Counting(stddev=5.97, classes=4, bins=25)
    counts = np.arange(400).reshape(counting.shape)
    draws = [dequantize(counting.released(counts, Secure())) - counts for _ in range(25)]
    sample = np.array(draws).ravel()
    assert is_gaussian(sample, counting.stddev)
    assert not is_gaussian(sample, 2 * counting.stddev)
    assert not is_gaussian(sample, counting.stddev / 2)
    assert len(np.unique(sample)) > sample.size - 10, "every count has noise of its own"


def test_each_server_draws_its_own_noise_and_a_seed_repeats_it():
    counting = Counting(stddev=3.0, classes=2)
    nothing = np.zeros(counting.shape, dtype=np.int64)
    one, again, other = (counting.released(nothing, Simulated(1), server) for server in (0, 0, 1))
    assert (one == again).all() and (one != other).all()


def test_bins_run_from_a_guess_to_certainty():
    assert edges(4, 3).tolist() == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert binned(np.array([0.25, 0.4999, 0.5, 0.75, 1.0]), 4, 3).tolist() == [0, 0, 1, 2, 2]
    assert binned(np.array([0.5, 1.0]), 2, 1).tolist() == [0, 0]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-6), (1.0, 0.0), (1.0, 1.0)])
def test_a_gaussian_needs_both_numbers(epsilon, delta):
    with pytest.raises(InvalidInput, match="noise on counts cannot do with less"):
        Counting.within(epsilon, delta, classes=2)


def test_what_does_not_fit_is_refused():
    counting = Counting(stddev=1.0, classes=2)
    with pytest.raises(InvalidInput, match="one entry for each record"):
        counting.exact(np.zeros(2, int), np.zeros(3, int), np.ones(3))
    with pytest.raises(InvalidInput, match="shape"):
        counting.released(np.zeros((2, 2), int), Simulated(0))
