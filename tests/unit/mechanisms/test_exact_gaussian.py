"""Secure randomness: exact distributions, everything on the grid, nothing repeatable.

Distributions are tested on a seeded stream of words, so that these tests never raise a false alarm
by chance; the few that draw from the operating system raise one with probability 1e-6 each. What
the words become is tested exactly.

tests/vectors/label_flip.json holds the decisions of the label flip that all implementations share;
it is made by tests/vectors/make_label_flip.py from rationals alone.
"""

import copy
import json
import pickle
from decimal import Decimal, localcontext
from fractions import Fraction
from importlib.util import module_from_spec, spec_from_file_location
from math import floor, inf, nan, sqrt
from pathlib import Path

import numpy as np
import pytest
from estimators import make_classifier
from fitting import is_gaussian, is_truncated_gaussian, is_uniform_box
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom, chi2, norm
from servers import make_server

from pdml import PDMLClassifier
from pdml.errors import InvalidInput
from pdml.mechanisms import exact_gaussian as exact
from pdml.mechanisms.exact_gaussian import GRID, HEIGHT, LIMIT, SLOTS, STEPS
from pdml.mechanisms.iterate_noise import IterateNoise, draw_round
from pdml.mechanisms.label_flip import WORD, LabelFlip, flip_labels, threshold
from pdml.mechanisms.objective_noise import ObjectiveNoise
from pdml.mechanisms.randomness import (
    ITERATES,
    LABELS,
    PARTITION,
    TOPOLOGY,
    Secure,
    SecureStream,
    Simulated,
    os_words,
    source_named,
)
from pdml.numerics.admm import labels, rows
from pdml.numerics.admm.graph import Graph
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine
from pdml.training.server import Node

FALSE_ALARM = 1e-6
VECTORS = Path(__file__).parents[2] / "vectors"


def seeded(seed):
    rng = np.random.default_rng(seed)
    return lambda count: rng.integers(0, WORD, size=count, dtype=np.uint64)


def scripted(*words):
    """Entropy that hands out the given words in order, and no more."""
    left = list(words)

    def entropy(count):
        head, left[:] = left[:count], left[count:]
        assert len(head) == count, "more entropy was asked for than expected"
        return np.array(head, dtype=np.uint64)

    entropy.left = left
    return entropy


def accepts_pmf(sample, pmf):
    """Pearson's χ² of whole numbers against {value: probability}; values expected fewer than 10
    times are pooled.
    """
    n = len(sample)
    values, counts = np.unique(sample, return_counts=True)
    seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
    common = {value: p for value, p in pmf.items() if n * p >= 10}
    statistic = sum((seen.get(value, 0) - n * p) ** 2 / (n * p) for value, p in common.items())
    rest, others = 1 - sum(common.values()), n - sum(seen.get(value, 0) for value in common)
    if n * rest >= 10:
        statistic += (others - n * rest) ** 2 / (n * rest)
    elif others > binom.isf(FALSE_ALARM, n, max(rest, 1e-9)):
        return False
    return statistic <= chi2.isf(FALSE_ALARM, len(common) - (n * rest < 10))


def rounded_pmf(sigma, bound=None):
    """Of round(σZ), given |round(σZ)| <= bound."""
    far = bound or int(9 * sigma) + 2
    cells = {
        n: float(norm.cdf((n + 0.5) / sigma) - norm.cdf((n - 0.5) / sigma))
        for n in range(-far, far + 1)
    }
    total = sum(cells.values()) if bound else 1.0
    return {n: p / total for n, p in cells.items()}


def on_grid(values):
    return bool((np.asarray(values) / GRID == np.rint(np.asarray(values) / GRID)).all()) and bool(
        (np.abs(values) <= 2 * LIMIT).all()
    )


def steps_of(values):
    return np.rint(np.ravel(values) / GRID).astype(np.int64)


# --- labels
# -----------------------------------------------------------------------------------------------------------


def load_vectors():
    return json.loads((VECTORS / "label_flip.json").read_text())


def test_vectors_are_what_the_script_makes():
    spec = spec_from_file_location("make_label_flip", VECTORS / "make_label_flip.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (VECTORS / "label_flip.json").read_text() == module.text()


def test_vectors_of_the_flip():
    vectors = load_vectors()
    assert any(
        v["micro_epsilon"] == 10**6
        and v["classes"] == 2
        and v["threshold"] == "4961093570831980854"
        for v in vectors["flips"]
    )
    for vector in vectors["flips"]:
        classes, micro = vector["classes"], vector["micro_epsilon"]
        assert threshold(micro, classes) == int(vector["threshold"])
        words = [int(case["word"]) for case in vector["cases"]]
        entropy = scripted(*words, *([0] * len(words) if classes > 2 else []))
        truth = np.zeros(len(words), dtype=np.int64)
        reported = flip_labels(
            truth, np.full(len(words), micro / 1e6), classes, SecureStream(entropy)
        )
        assert [bool(r) for r in reported] == [case["flip"] for case in vector["cases"]]
        assert entropy.left == []


def test_vectors_of_the_other_class():
    for vector in load_vectors()["other_class"]:
        entropy = scripted(*(int(word) for word in vector["words"]))
        stream = SecureStream(entropy)
        assert stream.integers(1, vector["classes"], size=1).tolist() == [vector["shift"]]


@given(st.integers(2, 1 << 64), st.lists(st.integers(0, WORD - 1), min_size=1, max_size=20))
def test_integers_have_no_bias(span, words):
    """Words from the largest multiple of the range on are refused, so every residue has equally
    many words.
    """
    top = WORD - WORD % span
    entropy = scripted(*words, *[0] * len(words))
    drawn = SecureStream(entropy).integers(0, span, size=len(words), dtype=np.uint64).tolist()
    assert drawn == [word % span if word < top else 0 for word in words]
    assert top % span == 0 and WORD - top < span


def test_integers_respect_low_endpoint_and_dtype():
    stream = SecureStream(scripted(0, 6, 3))
    drawn = stream.integers(-3, 3, size=3, endpoint=True)
    assert drawn.dtype == np.int64 and drawn.tolist() == [-3, 3, 0]
    assert SecureStream(scripted()).integers(1, 2, size=2).tolist() == [1, 1]
    with pytest.raises(InvalidInput, match="integers must have a range"):
        stream.integers(3, 3, size=1)


@pytest.mark.parametrize("classes", [2, 5])
def test_flip_frequencies_from_the_operating_system(classes):
    """False alarm 1e-6 (exact binomial): the right rate is accepted, half and double are not."""
    count = 200_000
    truth = np.zeros(count, dtype=np.int64)
    reported = flip_labels(truth, np.full(count, 1.5), classes, Secure().stream(LABELS))
    p, flipped = LabelFlip(1.5, classes).flip_probability, int((reported != 0).sum())

    def accepts(rate):
        return (
            binom.ppf(FALSE_ALARM / 2, count, rate)
            <= flipped
            <= binom.isf(FALSE_ALARM / 2, count, rate)
        )

    assert accepts(p) and not accepts(p / 2) and not accepts(min(2 * p, 0.99))
    if classes > 2:
        assert accepts_pmf(
            reported[reported != 0], {k: 1 / (classes - 1) for k in range(1, classes)}
        )


def test_labels_are_not_changed_in_place():
    truth = np.arange(1000) % 3
    kept = truth.copy()
    flip_labels(truth, np.full(1000, 0.1), 3, Secure().stream(LABELS))
    np.testing.assert_array_equal(truth, kept)


# --- the Gaussian: its parts, exactly
# ---------------------------------------------------------------------------------


def keep_probability(k, z):
    """a(z) to 80 digits."""
    with localcontext() as context:
        context.prec = 80
        z = Decimal(z.numerator) / Decimal(z.denominator)
        return Fraction(HEIGHT * (-z * z / 2).exp() / Decimal(int(exact.tables().counts[k])))


def test_the_table_is_an_envelope():
    """Every slot belongs to a bin, a(z) <= 1 where it is largest, and a sure word is below a(z)
    where it is smallest.
    """
    table = exact.tables()
    assert len(table.bins) == SLOTS == table.counts.sum()
    np.testing.assert_array_equal(np.bincount(table.bins), table.counts)
    for k in range(len(table.counts)):
        assert keep_probability(k, Fraction(k, STEPS)) <= 1
        assert int(table.sure[k]) <= max(0, 2**47 * keep_probability(k, Fraction(k + 1, STEPS)))
    kept = sum(
        float(norm.cdf((k + 1) / STEPS) - norm.cdf(k / STEPS)) for k in range(len(table.counts))
    )
    assert HEIGHT / SLOTS * STEPS * sqrt(2 * np.pi) * kept > 0.93  # how many proposals are kept


@given(st.integers(0, 200), st.integers(0, WORD - 1), st.integers(0, 2**47 - 1))
@settings(max_examples=100)
def test_keep_exactly_compares_with_the_density(k, u, test):
    kept, (known, bits) = exact.keep_exactly(k, u, test, scripted(1, 1, 1, 1))
    z = Fraction((k << bits) + known, STEPS << bits)
    assert known >> (bits - 64) == u
    if bits == 64:
        assert kept == (Fraction(test, 2**47) < keep_probability(k, z))


@pytest.mark.parametrize("u", [0, 12345678901234567890, WORD - 1])
def test_keep_exactly_asks_for_more_bits_where_they_decide(u):
    """V begins with the same 47 bits as a(z): only its next bits tell, and the bits of z that it
    took are kept.
    """
    k = 9
    near = keep_probability(k, Fraction((k << 64) + u, STEPS << 64))
    test = floor(near * 2**47)
    following = floor((near * 2**47 - test) * WORD)
    for word, answer in ((following - 1000, True), (following + 1000, False)):
        entropy = scripted(77, word)
        assert exact.keep_exactly(k, u, test, entropy) == (answer, ((u << 64) + 77, 128))
        assert entropy.left == []


@given(
    st.integers(0, 639),
    st.integers(0, WORD - 1),
    st.floats(0, 2.0**46),
    st.lists(st.integers(0, WORD - 1), min_size=3, max_size=3),
)
def test_round_exactly_is_the_nearest_integer(k, u, sigma, more):
    entropy = scripted(*more)
    nearest = exact.round_exactly(k, u, 64, sigma, entropy)
    used = len(more) - len(entropy.left)
    for word in more[:used]:
        u = (u << 64) + word
    low = Fraction(sigma) * Fraction((k << (64 + 64 * used)) + u, STEPS << (64 + 64 * used))
    assert nearest == floor(low + Fraction(1, 2))


@given(st.integers(0, exact.REACH * STEPS - 1), st.integers(0, WORD - 1), st.floats(1e-3, 1e9))
def test_what_floats_lose_lies_within_the_margin(k, u, sigma):
    """Else they would decide where an exact sum decides otherwise."""
    z = exact._floats(np.array([k], dtype=np.uint16), np.array([u], dtype=np.uint64))
    value = Fraction(float(z[0] * sigma + 0.5))
    lost = abs(value - (Fraction((k << 64) + u, STEPS << 64) * Fraction(sigma) + Fraction(1, 2)))
    assert lost <= value * Fraction(exact.ROUND_MARGIN) + Fraction(sigma) / 2**67
    assert exact.ROUND_MARGIN < 2**-40  # or hardly anything is decided quickly


def test_round_exactly_asks_for_more_bits_where_they_decide():
    """3z = 1/2 at z = 1/6, which no 64 bits can tell."""
    u = floor((Fraction(16, 6) - 2) * WORD)
    assert exact.round_exactly(2, u, 64, 3.0, scripted(0)) == 0
    assert exact.round_exactly(2, u, 64, 3.0, scripted(WORD - 1)) == 1


@pytest.mark.parametrize("stddev", [1.5 * GRID, 1e-6, 0.3, 64.0])
def test_floating_point_never_decides_anything(stddev, monkeypatch):
    """The same words give the same noise when every question goes the exact way."""
    fast = exact.gaussian((2, 300), stddev, seeded(3))
    monkeypatch.setattr(exact, "KEEP_MARGIN", 2.0)
    monkeypatch.setattr(exact, "ROUND_MARGIN", 2.0)
    np.testing.assert_array_equal(exact.gaussian((2, 300), stddev, seeded(3)), fast)


def test_deep_draws_keep_their_bits(monkeypatch):
    """A draw whose u was extended while deciding is rounded with those bits, not with new ones."""
    k = 9
    slot = int(np.searchsorted(exact.tables().bins, k))
    u = 12345
    near = keep_probability(k, Fraction((k << 64) + u, STEPS << 64)) * 2**47
    test = floor(near)
    word = (test << 17) | slot
    accept = floor((near - test) * WORD) - 1000
    other = exact._propose
    drawn = exact._propose(1, scripted(word, u, 77, accept))
    assert drawn.deep == {0: ((u << 64) + 77, 128)} and drawn.u.tolist() == [u]
    monkeypatch.setattr(
        exact, "_propose", lambda count, entropy: drawn if count < 10 else other(count, entropy)
    )
    noise = exact.gaussian((1,), 0.3, scripted())
    assert steps_of(noise)[0] == exact.round_exactly(k, (u << 64) + 77, 128, 0.3 / GRID, scripted())


def test_deep_draws_of_a_later_part_keep_their_places(monkeypatch):
    """Where a first proposal kept too few, what a second one extended belongs to its own draws."""

    def part(count, u, deep):
        k, negative = np.zeros(count, dtype=np.uint16), np.zeros(count, dtype=bool)
        return exact.Normals(k, np.full(count, u, dtype=np.uint64), negative, deep)

    parts = [part(3, 1, {2: (11, 128)}), part(4, 2, {0: (22, 128), 3: (33, 128)})]
    monkeypatch.setattr(exact, "_propose", lambda count, entropy: parts.pop(0))
    found = exact.standard_normals(6, scripted())
    assert found.deep == {2: (11, 128), 3: (22, 128)} and found.u.tolist() == [1] * 3 + [2] * 3


# --- the Gaussian: its distribution
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.4, 1.3, 7.0])
def test_noise_has_the_exact_pmf(sigma):
    """χ² at 1e-6 against Φ((n+½)/σ) - Φ((n-½)/σ); 5% more or less, and half or double, are
    rejected.
    """
    sample = steps_of(exact.gaussian((400_000,), sigma * GRID, seeded(1)))
    assert accepts_pmf(sample, rounded_pmf(sigma))
    for factor in (0.5, 0.95, 1.05, 2.0):
        assert not accepts_pmf(sample, rounded_pmf(sigma * factor))
    assert not accepts_pmf(np.abs(sample), rounded_pmf(sigma))


@pytest.mark.parametrize("stddev", [1e-6, 0.3, 64.0])
def test_noise_is_gaussian_at_every_scale(stddev):
    """`is_gaussian`; half, double, 5% off and the variance for the deviation are rejected."""
    count = 50_000
    sample = exact.gaussian((count,), stddev, seeded(2))
    assert on_grid(sample) and is_gaussian(sample, stddev)
    for factor in (0.5, 2.0, 0.95, 1.05, stddev):
        assert not is_gaussian(sample * factor, stddev)
    assert not is_gaussian(sample + 0.05 * stddev, stddev)


def test_low_bits_are_uniform():
    """At σ = 0.3, 3e11 steps wide, the last 8 bits of a grid point are uniform: the grid is really
    used.
    """
    sample = steps_of(exact.gaussian((200_000,), 0.3, seeded(4)))
    assert accepts_pmf(sample & 255, dict.fromkeys(range(256), 1 / 256))
    assert not accepts_pmf((sample // 2 * 2) & 255, dict.fromkeys(range(256), 1 / 256))


def test_draws_do_not_follow_each_other():
    """Neighbouring draws agree in sign half the time, and their products have variance 1."""
    values = exact.gaussian((100_001,), 1.0, seeded(5))
    agree = int((values[1:] * values[:-1] > 0).sum())
    assert (
        binom.ppf(FALSE_ALARM / 2, 100_000, 0.5)
        <= agree
        <= binom.isf(FALSE_ALARM / 2, 100_000, 0.5)
    )


def test_noise_from_the_operating_system():
    """False alarm 1e-9; half, double and 10% off are rejected."""
    out = np.full((4, 1, 5_000), np.nan)
    Secure().stream(ITERATES).gaussian(out, 0.3)
    assert on_grid(out) and is_gaussian(out, 0.3)
    assert not any(is_gaussian(out, wrong) for wrong in (0.15, 0.6, 0.27, 0.33))


def test_operating_system_words_have_fair_bits():
    """False alarm 1e-6 over all 64 positions (binomial)."""
    words = os_words(20_000)
    for bit in range(64):
        ones = int(((words >> np.uint64(bit)) & np.uint64(1)).sum())
        assert (
            binom.ppf(FALSE_ALARM / 128, 20_000, 0.5)
            <= ones
            <= binom.isf(FALSE_ALARM / 128, 20_000, 0.5)
        )


def test_opendp_agrees():
    """OpenDP's discrete Gaussian and our rounded one differ by less than e^(-2π²σ²) + 1/(24σ²) cell
    by cell in variance.

    At σ = 50 steps no sample of this size can tell them apart: both pass the same χ² at 1e-6,
    OpenDP's doubled noise does not.
    """
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    sigma, count = 50.0, 20_000
    space = (
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=count),
        dp.l2_distance(T=float),
    )
    theirs = dp.m.make_gaussian(*space, scale=sigma * GRID, k=-40)([0.0] * count)
    ours = exact.gaussian((count,), sigma * GRID, seeded(6))
    assert on_grid(theirs)
    pmf = rounded_pmf(sigma)
    assert accepts_pmf(steps_of(ours), pmf) and accepts_pmf(steps_of(theirs), pmf)
    assert not accepts_pmf(2 * steps_of(theirs), pmf)


def test_each_coordinate_has_its_own_standard_deviation():
    scales = np.array([0.0, 0.1, 1.0])[:, None, None]
    sample = exact.gaussian((3, 2, 5000), scales, seeded(7))
    assert (sample[0] == 0).all()
    assert is_gaussian(sample[1], 0.1) and is_gaussian(sample[2], 1.0)


def test_one_call_for_all_servers_draws_on_the_grid():
    """How wide each server's noise is in which round is tested in test_iterate_noise.py."""
    noises = [IterateNoise(scale, 0.9) for scale in (0.0, 0.2, 0.4)]
    streams = [Secure().stream(ITERATES, i) for i in range(3)]
    out = draw_round(noises, 3, np.full((3, 1, 50), np.nan), streams)
    assert on_grid(out) and (out[0] == 0).all()
    assert (out[1:] != 0).all()  # but for a chance below 1e-9
    single = noises[1].draw(2, np.empty((1, 50)), streams[1])
    assert on_grid(single) and (single != 0).all()


# --- η
# ----------------------------------------------------------------------------------------------------------------


@given(st.floats(2 * GRID, LIMIT))
def test_cells_stay_within_the_bound(bound):
    b = exact.cells(bound)
    assert (
        (b + Fraction(1, 2)) * Fraction(GRID)
        <= Fraction(bound)
        < (b + Fraction(3, 2)) * Fraction(GRID)
    )


def test_truncated_noise_has_the_exact_pmf():
    """Rejection, not clipping: χ² at 1e-6 against the conditional pmf, which a clipped sample
    fails.
    """
    sigma, bound = 2.0, 3
    sample = steps_of(
        exact.truncated_gaussian((200_000,), sigma * GRID, (bound + 0.5) * GRID, seeded(8))
    )
    assert np.abs(sample).max() == bound
    assert accepts_pmf(sample, rounded_pmf(sigma, bound))
    clipped = np.clip(steps_of(exact.gaussian((200_000,), sigma * GRID, seeded(8))), -bound, bound)
    assert not accepts_pmf(clipped, rounded_pmf(sigma, bound))
    assert not accepts_pmf(sample, rounded_pmf(2 * sigma, bound)) and not accepts_pmf(
        sample, rounded_pmf(sigma / 2, bound)
    )


def test_box_noise_is_uniform_on_its_grid_points():
    sample = steps_of(SecureStream(seeded(9)).uniform_box((4, 50_000), 5.5 * GRID))
    assert accepts_pmf(sample, {n: 1 / 11 for n in range(-5, 6)})
    assert not accepts_pmf(sample, {n: 1 / 13 for n in range(-6, 7)})


LAWS = {"truncated_gaussian": is_truncated_gaussian, "uniform_box": is_uniform_box}


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("bound", [0.1, 1.0, 9.0])
def test_objective_noise_is_on_the_grid_and_within_its_bound(kind, bound):
    has_law = LAWS[kind]
    sample = ObjectiveNoise(kind, bound).draw((2, 20_000), SecureStream(seeded(10)))
    assert sample.shape == (2, 20_000) and on_grid(sample)
    assert has_law(sample, bound)
    assert not has_law(sample, 1.1 * bound) and not has_law(sample / 1.1, bound)


def test_ball_noise_is_refused():
    with pytest.raises(InvalidInput, match="'uniform_ball' is for simulations only"):
        ObjectiveNoise("uniform_ball", 1.0).draw((1, 3), Secure().stream(1))
    assert (ObjectiveNoise("uniform_ball", 0.0).draw((1, 3), Secure().stream(1)) == 0).all()


# --- what noise is added to
# -------------------------------------------------------------------------------------------

vectors = arrays(float, 6, elements=st.floats(-1e5, 1e5))


@given(vectors, vectors)
def test_settling_adds_at_most_half_a_step_on_either_side(one, other):
    """|settle(a) - settle(b)| <= |a - b| + √d · 2^-40, in rationals."""
    before = sum(
        (Fraction(a) - Fraction(b)) ** 2 for a, b in zip(one.tolist(), other.tolist(), strict=True)
    )
    settled = [exact.round_to_grid(v).tolist() for v in (one, other)]
    after = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(*settled, strict=True))
    slack = Fraction(exact.rounding_shift(6)) * (1 + Fraction(1, 10**12))
    # sqrt(after) <= sqrt(before) + slack without square roots: square twice
    rest = after - before - slack**2
    assert rest <= 0 or rest**2 <= 4 * before * slack**2


@given(st.floats(-LIMIT, LIMIT))
def test_settling_rounds_to_the_nearest_grid_point(value):
    settled = float(exact.round_to_grid(np.array([value]))[0])
    assert on_grid(settled) and abs(Fraction(settled) - Fraction(value)) <= Fraction(GRID) / 2


def test_a_release_is_the_exact_sum():
    """No rounding is left in w̃ = settle(w) + θ: the sum of floats is the sum of rationals, even at
    the ends.
    """
    rng = np.random.default_rng(1)
    w = exact.round_to_grid(np.concatenate([rng.normal(size=500), [LIMIT, -LIMIT, 1e300, -1e300]]))
    theta = exact.gaussian(w.shape, exact.LARGEST, seeded(11))
    for a, b, total in zip(w.tolist(), theta.tolist(), (w + theta).tolist(), strict=True):
        assert Fraction(total) == Fraction(a) + Fraction(b)
    assert on_grid(w + theta)


def test_the_label_mean_meets_its_noise_on_the_grid():
    source, n = Secure(), 7
    q, eta = np.array([[0.1234567890123, -1.3]]), exact.gaussian((1, 2), 0.5, seeded(12))
    masked = source.less_share(q, eta, n, reach=2.0)
    np.testing.assert_array_equal(masked, (exact.round_to_grid(n * q) - eta) / n)
    np.testing.assert_allclose(masked, q - eta / n, atol=GRID)
    np.testing.assert_array_equal(Simulated(1).less_share(q, eta, n, reach=1e9), q - eta / n)
    with pytest.raises(InvalidInput, match=r"n_servers · .* must be at most 4096 .* got 7 · 1000"):
        source.less_share(q, eta, n, reach=1000.0)


def test_neighbours_have_the_same_low_bits():
    """With floating-point noise some outputs are possible for one input only; on the grid both
    reach the same points.
    """
    for value in (0.0, 1 / 3):
        released = exact.round_to_grid(np.full(2000, value)) + exact.gaussian(
            (2000,), 0.1, seeded(13)
        )
        assert on_grid(released)
    assert not on_grid(1 / 3 + np.random.default_rng(1).normal(0, 0.1, 2000))


# --- refusals
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stddev", [nan, inf, -1.0, 65.0])
def test_bad_standard_deviations_are_refused(stddev):
    with pytest.raises(InvalidInput, match="standard deviation of secure noise must lie in"):
        Secure().stream(ITERATES).gaussian(np.empty(3), stddev)


@pytest.mark.parametrize("bound", [nan, inf, -1.0, 0.0, 5000.0, GRID / 2])
def test_bad_bounds_are_refused(bound):
    for draw in (
        lambda s: s.uniform_box((2,), bound),
        lambda s: s.truncated_gaussian((2,), 0.1, bound),
    ):
        with pytest.raises(InvalidInput, match="bound of secure noise"):
            draw(Secure().stream(ITERATES))
    with pytest.raises(InvalidInput, match="must be at least its standard deviation"):
        Secure().stream(ITERATES).truncated_gaussian((2,), nan, 1.0)


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_unprotectable_vectors_are_refused(value):
    with pytest.raises(InvalidInput, match="finite numbers only"):
        Secure().settle(np.array([0.0, value]))


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="broadcast"):
        Secure().stream(ITERATES).gaussian(np.empty((2, 3)), np.ones(4))
    with pytest.raises(ValueError, match=r"argument \d is (shorter|longer)"):
        draw_round(
            [IterateNoise(0.1, 0.5)] * 2, 1, np.empty((3, 1, 2)), [np.random.default_rng(1)] * 3
        )


# --- nothing can be repeated
# ------------------------------------------------------------------------------------------


def test_secure_draws_cannot_be_repeated():
    """Not by a seed, a copy, a pickle or a second stream of the same name; equal by chance with
    probability far below 2^-100.
    """
    source = Secure(seed=1)
    stream = source.stream(ITERATES, 2)
    others = [
        stream,
        copy.deepcopy(stream),
        pickle.loads(pickle.dumps(stream)),
        source.stream(ITERATES, 2),
        Secure(seed=1).stream(ITERATES, 2),
    ]
    drawn = [other.gaussian(np.empty(20), 0.3).tobytes() for other in [*others, stream]]
    assert len(set(drawn)) == len(drawn)


def test_what_is_public_follows_the_seed():
    for purpose in (PARTITION, TOPOLOGY):
        first, again = (Secure(seed=5).public(purpose).permutation(50).tolist() for _ in range(2))
        assert (
            first
            == again
            == Simulated(5).stream(purpose).permutation(50).tolist()
            == Simulated(5).public(purpose).permutation(50).tolist()
        )


def test_sources_by_name():
    assert (source_named("secure").name, source_named("simulated", 3).name) == (
        "secure",
        "simulated",
    )
    with pytest.raises(
        InvalidInput, match="randomness must be one of 'simulated', 'secure', got 'magic'"
    ):
        source_named("magic")


# --- whole trainings
# --------------------------------------------------------------------------------------------------

PLAN = TrainingPlan(
    rounds=12,
    regularization=0.05,
    penalty=0.1,
    objective_bound=0.3,
    noise_scale=0.1,
    noise_decay=0.8,
)


def federation(source, classes=2, m=3000, n=3):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(m, 5))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    truth = np.argmax(x @ rng.normal(size=(5, classes)), axis=1)
    graph = Graph.complete(n)
    codes = labels.codes(
        flip_labels(truth, np.full(m, 2.0), classes, source.stream(LABELS)), 2.0, classes
    )
    cuts = np.linspace(0, m, n + 1).astype(int)
    servers = [
        make_server(
            graph,
            i,
            rows.take(x, cuts[i], cuts[i + 1]),
            codes[cuts[i] : cuts[i + 1]],
            epsilons=(2.0,),
            classes=classes,
            pooled=x,
        )
        for i in range(n)
    ]
    return graph, local_engine.Run(PLAN, servers, source), x, truth


@pytest.mark.parametrize("classes", [2, 3])
def test_a_secure_training_learns_and_stays_on_the_grid(classes):
    graph, run, x, truth = federation(Secure(), classes)
    seen = []
    trained = local_engine.train(
        graph, run, observe=lambda t, released, point: seen.append((released.copy(), point.copy()))
    )
    assert all(on_grid(released) for released, _ in seen)
    assert not any(on_grid(point) for _, point in seen)
    for released, point in seen:
        assert on_grid(released - exact.round_to_grid(point))
    weights = trained.released.mean(axis=0)
    scores = x @ weights.T
    guess = (scores[:, 0] > 0).astype(int) if classes == 2 else scores.argmax(axis=1)
    assert (guess == truth).mean() > (0.85 if classes == 2 else 0.75)


def test_a_secure_node_releases_grid_points():
    _, run, _, _ = federation(Secure())
    node = Node(run.servers[0], run.plan, run.source)
    state, message = node.step(node.start(), [np.zeros((1, 5))] * 2)
    assert on_grid(message) and state.t == 1
    _, again = node.step(node.start(), [np.zeros((1, 5))] * 2)
    assert (again != message).any()


def test_a_sweep_may_mix_sources():
    """The simulated run is the one it is alone, within the solver's tolerance."""
    graph, simulated, _, _ = federation(Simulated(3))
    secure = local_engine.Run(simulated.plan, simulated.servers, Secure())
    both = local_engine.sweep(graph, [simulated, secure])
    np.testing.assert_allclose(
        both[0].released, local_engine.train(graph, simulated).released, atol=1e-3
    )
    assert on_grid(both[1].released) and not on_grid(both[0].released)


def test_the_classifier_says_that_it_was_secure():
    _, _, x, truth = federation(Simulated(0))
    settings = {"n_servers": 3, "plan": PLAN, "randomness": "secure", "random_state": 1}
    first, second = (make_classifier(3.0, **settings) for _ in range(2))
    first.fit(x, truth)
    second.fit(x, truth)
    assert first.privacy_.source == first.model_.provenance["noise_source"] == "secure"
    assert first.graph_.edges == second.graph_.edges
    assert (first.coef_ != second.coef_).all()
    assert first.score(x, truth) > 0.8
    with pytest.raises(InvalidInput, match="randomness must be one of"):
        PDMLClassifier(randomness="numpy").fit(x, truth)


@pytest.mark.parametrize("classes", [2, 4])
def test_events_count_the_rounding(classes):
    """√(Cd)·2^-40 on every release, and its n-th part on the label mean; and m²u of the label
    mean's own sum.
    """
    plan = TrainingPlan(rounds=1, regularization=0.1, penalty=0.2, tolerance=1e-300)
    sizes = {"records": 1000, "epsilons": (1.0,), "width": 9, "classes": classes}
    first, sent = plan.events(ServerSpec(server=0, n_servers=5, degree=2, **sizes))
    grid, ridge = sqrt(9 * (1 if classes == 2 else classes)) * 2.0**-40, 0.1 / 5 + 2 * 0.2 * 2
    loss = plan.loss_for(classes)
    label, record = (
        shift(1.0, 1.0, loss, classes) / 1000 for shift in (labels.label_shift, labels.record_shift)
    )
    summed = label * 1000**2 * 2.0**-52
    assert first.label_shift - label == pytest.approx(summed + grid / 5, rel=1e-4)
    assert sent.label_sensitivity - label / ridge == pytest.approx(summed / ridge + grid, rel=1e-4)
    assert sent.record_sensitivity - record / ridge == pytest.approx(
        summed / ridge + grid, rel=1e-3
    )


def test_what_secure_noise_makes_lies_on_its_grid_and_other_noise_does_not() -> None:
    """Exact: no false alarm. Around 1 a number of another source passes with a chance of 2^-12."""
    source, rng = Secure(), np.random.default_rng(5)
    point = rng.standard_normal(200)
    noise = source.stream(ITERATES).gaussian(np.empty(200), 0.5)
    assert exact.on_grid(source.settle(point) + noise)
    assert not exact.on_grid(point + noise)
    assert not exact.on_grid(source.settle(point) + rng.standard_normal(200))
    assert not exact.on_grid(np.array([np.nan])) and not exact.on_grid(np.array([np.inf]))
    assert not exact.on_grid(np.array([2.0**14])) and exact.on_grid(np.zeros(3))


def test_what_was_rejected_is_proposed_again():
    """First words that keep nothing: the values are those of the words that follow."""
    count, calls = 5, []

    def entropy(many):
        calls.append(many)
        return seeded(3)(many) if len(calls) > 1 else np.full(many, 2**64 - 1, dtype=np.uint64)

    found = exact.standard_normals(count, entropy)
    assert len(calls) == 2 and len(found.k) == len(found.u) == len(found.negative) == count
    straight = exact.standard_normals(count, seeded(3))
    np.testing.assert_array_equal(found.k, straight.k)
    np.testing.assert_array_equal(found.u, straight.u)
