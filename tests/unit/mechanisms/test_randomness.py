"""Named streams: the same numbers for the same name, independent ones for another."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pdml.mechanisms.randomness import ITERATES, LABELS, OBJECTIVE, PARTITION, TOPOLOGY, Simulated

FALSE_ALARM = 1e-8
PURPOSES = (LABELS, OBJECTIVE, ITERATES, PARTITION, TOPOLOGY)
seeds = st.integers(0, 2**128)
names = st.tuples(st.sampled_from(PURPOSES), st.integers(0, 10_000))


def words(source: Simulated, purpose: int, server: int = 0) -> list[int]:
    return source.stream(purpose, server).integers(0, 2**64, 4, dtype=np.uint64).tolist()


def test_purposes_are_distinct():
    assert len(set(PURPOSES)) == len(PURPOSES)


@given(seeds, names)
def test_a_stream_starts_anew_whenever_it_is_asked_for(seed, name):
    source = Simulated(seed)
    first = words(source, *name)
    words(source, LABELS, 3)  # others draw in between
    assert words(source, *name) == first == words(Simulated(seed), *name)


@given(seeds, names, names)
def test_other_names_give_other_streams(seed, one, other):
    """Equal by chance with probability 2^-256."""
    assert (words(Simulated(seed), *one) == words(Simulated(seed), *other)) == (one == other)


@given(seeds, seeds, names)
def test_other_seeds_give_other_streams(one, other, name):
    assert (words(Simulated(one), *name) == words(Simulated(other), *name)) == (one == other)


def test_the_server_defaults_to_the_first():
    assert words(Simulated(1), PARTITION) == words(Simulated(1), PARTITION, 0)


def test_streams_do_not_follow_each_other():
    """False alarm 1e-8 per pair (exact binomial): signs agree half the time; a stream, its mirror
    and a half copy are rejected.
    """
    count = 20_000
    low, high = binom.ppf(FALSE_ALARM / 2, count, 0.5), binom.isf(FALSE_ALARM / 2, count, 0.5)

    def independent(one, other):
        return low <= ((one > 0) == (other > 0)).sum() <= high

    source = Simulated(7)
    drawn = [
        source.stream(purpose, server).standard_normal(count)
        for purpose in PURPOSES
        for server in (0, 1)
    ]
    for k, one in enumerate(drawn):
        assert all(independent(one, other) for other in drawn[:k])
    half = np.where(np.arange(count) % 2 == 0, drawn[0], drawn[1])
    assert not any(independent(drawn[0], other) for other in (drawn[0], -drawn[0], half))


def test_without_a_seed_every_source_is_its_own_and_can_be_repeated():
    one, other = Simulated(), Simulated()
    assert one.seed != other.seed  # equal with probability 2^-128
    assert words(Simulated(one.seed), ITERATES, 2) == words(one, ITERATES, 2)
    assert Simulated(0).seed == 0  # a seed of zero is a seed


def test_a_simulation_says_that_it_is_one():
    assert Simulated(1).name == "simulated"
