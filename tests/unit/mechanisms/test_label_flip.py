"""Phase 1: the integer thresholds, the frequencies, the de-biased codes and how far one label or
record moves them.
"""

from fractions import Fraction
from math import ceil, expm1, hypot, inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom, chi2

from pdml.accounting.events import LabelFlipped
from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import MILLION, WORD, LabelFlip, flip_labels, threshold
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import BINARY, LOGISTIC, MATSUSHITA, SOFTMAX

FALSE_ALARM = 1e-8  # of every single statistical check below; all of them together stay under 1e-6
BITS = 512
ONE = 1 << BITS

micros = st.one_of(
    st.integers(1, 100), st.integers(1, 50 * MILLION), st.integers(1, 1000 * MILLION)
)
class_counts = st.integers(2, 40)


def exp_interval(exponent: Fraction) -> tuple[int, int]:
    """Integers with low <= 2^512·e^x <= high for 0 <= x <= 1000, by a Taylor series rounded
    outwards.
    """
    halvings = 14  # x/2^14 < 1/16: each term is less than 1/16 of the one before
    part = exponent / 2**halvings
    low = high = 0
    down = up = ONE
    n = 0
    while up > 1:
        low, high, n = low + down, high + up, n + 1
        down = down * part.numerator // (part.denominator * n)
        up = -(-up * part.numerator // (part.denominator * n))
    high += 2  # the terms left out
    for _ in range(halvings):
        low, high = low * low >> BITS, -(-high * high >> BITS)
    return low, high


def micro_interval(micro: int) -> tuple[int, int]:
    return exp_interval(Fraction(micro, MILLION))


def never_exceeds(p: int, classes: int, low: int) -> bool:
    """Whether keeping is at most e^ε times as likely as each other class, in exact integers: (2^64
    - P)/(P/(K-1)) <= e^ε.
    """
    return (WORD - p) * (classes - 1) * ONE <= p * low


# The threshold, as mathematics


def test_interval_holds_e_and_is_narrow():
    low, high = exp_interval(Fraction(1))
    digits = Fraction(
        "2.71828182845904523536028747135266249775724709369995957496696762772407663035354759"
    )  # of e, cut off
    assert low <= (digits + Fraction(1, 10**80)) * ONE
    assert high >= digits * ONE
    assert high - low < ONE >> 480


@pytest.mark.parametrize(("micro", "classes", "expected"), [(MILLION, 2, 4961093570831980854)])
def test_known_threshold(micro, classes, expected):
    """The integer that every implementation, in the browser too, must share."""
    assert threshold(micro, classes) == expected


@given(micros, class_counts)
def test_threshold_is_the_exact_ceiling(micro, classes):
    """P - 1 < 2^64 (K-1)/(e^ε + K - 1) <= P: rounded up, never down, and by less than one."""
    low, high = micro_interval(micro)
    p, share = threshold(micro, classes), WORD * (classes - 1) * ONE
    assert p * (low + (classes - 1) * ONE) >= share
    assert (p - 1) * (high + (classes - 1) * ONE) < share


@given(micros, class_counts)
def test_no_report_is_more_than_e_to_epsilon_times_likelier_under_another_label(micro, classes):
    """ε-LDP in integers, both ways round; half the noise would break it."""
    low, _ = micro_interval(micro)
    p = threshold(micro, classes)
    assert never_exceeds(p, classes, low)
    assert p * ONE <= (WORD - p) * (classes - 1) * low
    assert not never_exceeds(p // 2, classes, low)
    assert not never_exceeds(
        p - 1, classes, micro_interval(micro)[1]
    )  # nor would any smaller integer do


@given(micros, micros, class_counts)
def test_threshold_falls_with_epsilon_and_grows_with_classes(one, other, classes):
    small, large = sorted((one, other))
    assert threshold(small, classes) >= threshold(large, classes) >= 1
    assert threshold(small, classes) <= threshold(small, classes + 1)


@given(class_counts)
def test_extreme_epsilons(classes):
    uniform = ceil(Fraction(WORD * (classes - 1), classes))
    assert (
        uniform - threshold(1, classes) <= WORD // MILLION
    )  # ε = 1e-6: nearly uniform over all classes, and no more than that
    assert threshold(1, classes) <= uniform
    assert (
        threshold(1000 * MILLION, classes)
        == LabelFlip(1e9, classes).threshold
        == LabelFlip(1e300, classes).threshold
        == 1
    )
    assert LabelFlip(inf, classes).threshold == 0
    assert LabelFlip(inf, classes).flip_probability == 0.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), True, "1", None])
def test_epsilon_outside_the_domain_is_refused(epsilon):
    with pytest.raises(InvalidInput, match="epsilon must be a number"):
        LabelFlip(epsilon)


def test_epsilon_below_a_millionth_and_a_single_class_are_refused():
    with pytest.raises(InvalidInput, match=r"at least 0\.000001"):
        _ = LabelFlip(1e-7).threshold
    with pytest.raises(InvalidInput, match="classes"):
        LabelFlip(1.0, 1)


@given(micros, class_counts)
def test_mechanism_is_its_threshold_and_its_event(micro, classes):
    flip = LabelFlip(micro / MILLION, classes)
    assert flip.threshold == threshold(micro, classes)
    assert flip.flip_probability == threshold(micro, classes) / WORD
    assert flip.event() == LabelFlipped(epsilon=micro / MILLION)


@pytest.mark.parametrize("epsilon", ["1.0000006", "0.0000016", "0.4999999"])
def test_epsilon_between_millionths_is_never_exceeded(epsilon):
    low, _ = exp_interval(Fraction(epsilon))
    assert never_exceeds(LabelFlip(float(epsilon)).threshold, 2, low)


# The flip itself


class Scripted:
    """A generator that hands out the given words and shifts."""

    def __init__(self, words, shifts):
        self.words, self.shifts = words, shifts

    def integers(self, low, high, size, dtype=np.int64, endpoint=False):
        assert not endpoint
        if high == WORD:
            assert (low, size, dtype) == (0, len(self.words), np.uint64)
            return np.array(self.words, dtype=np.uint64)
        assert (low, size) == (1, len(self.shifts))
        return np.array(self.shifts)


@given(
    st.lists(
        st.tuples(st.one_of(micros, st.just(inf)), st.integers(-1, 0)), min_size=1, max_size=8
    ),
    st.integers(2, 7),
    st.data(),
)
def test_a_label_flips_exactly_when_its_word_is_below_its_own_threshold(users, classes, data):
    """Word P - 1 flips, word P does not, for every record of a mixed batch: no float comparison on
    the way.
    """
    epsilons = np.array([micro / MILLION for micro, _ in users])
    words = [
        max(0, LabelFlip(float(e), classes).threshold + off)
        for e, (_, off) in zip(epsilons, users, strict=True)
    ]
    shifts = [data.draw(st.integers(1, classes - 1)) for _ in users]
    truth = np.array([data.draw(st.integers(0, classes - 1)) for _ in users])
    reported = flip_labels(truth, epsilons, classes, Scripted(words, shifts))
    for k, (micro, off) in enumerate(users):
        flips = off == -1 and micro != inf
        assert reported[k] == ((truth[k] + shifts[k]) % classes if flips else truth[k])


def accepts_count(count: int, total: int, p: float) -> bool:
    """Exact two-sided binomial test."""
    return binom.ppf(FALSE_ALARM / 2, total, p) <= count <= binom.isf(FALSE_ALARM / 2, total, p)


def test_of_nobody_nothing_is_reported():
    nobody = flip_labels(np.array([], dtype=np.int64), np.array([]), 2, np.random.default_rng(0))
    assert nobody.shape == (0,)


@pytest.mark.parametrize("classes", [2, 5])
def test_frequencies_of_every_epsilon_in_a_mixed_batch(classes):
    """False alarm 1e-8 per group (exact binomial); half, double and the neighbours' probabilities
    are rejected.
    """
    menu = [0.4, 1.0, 2.5, inf]
    rng = np.random.default_rng(1)
    epsilons = rng.permutation(np.repeat(menu, 100_000))
    truth = rng.integers(0, classes, len(epsilons))
    reported = flip_labels(truth, epsilons, classes, np.random.default_rng(2))
    assert reported.min() >= 0 and reported.max() < classes
    for epsilon in menu[:-1]:
        group = epsilons == epsilon
        count, total = int((reported != truth)[group].sum()), int(group.sum())
        p = (classes - 1) / (np.exp(epsilon) + classes - 1)
        assert accepts_count(count, total, p)
        others = [
            (classes - 1) / (np.exp(e) + classes - 1)
            for e in (epsilon / 2, 2 * epsilon, *menu[:-1])
            if e != epsilon
        ]
        wrong = [p / 2, min(1.0, 2 * p), 1 - p, p * (classes - 1) / classes, *others]
        assert not any(accepts_count(count, total, q) for q in wrong)
    kept = np.isinf(epsilons)
    np.testing.assert_array_equal(reported[kept], truth[kept])


@pytest.mark.parametrize("classes", [3, 5])
def test_other_classes_are_equally_likely(classes):
    """False alarm 1e-8 per true class (chi-square, K - 2 degrees of freedom); a preference of 10%
    is rejected.
    """
    total = 150_000
    truth = np.repeat(np.arange(classes), total)
    reported = flip_labels(truth, np.full(len(truth), 0.5), classes, np.random.default_rng(3))
    limit = chi2.isf(FALSE_ALARM, classes - 2)

    def statistic(counts):
        return float(((counts - counts.mean()) ** 2 / counts.mean()).sum())

    for y in range(classes):
        counts = np.delete(np.bincount(reported[truth == y], minlength=classes), y).astype(float)
        assert statistic(counts) <= limit
        skewed = counts.copy()
        skewed[0] *= 1.1
        assert statistic(skewed) > limit


# De-biasing: Proposition 2 (i)


def expected_code(truth: int, epsilon: float, classes: int, p: float) -> np.ndarray:
    """E[code of the report], over the exact probabilities of the flip."""
    chance = np.full(classes, p / (classes - 1))
    chance[truth] = 1 - p
    return chance @ labels.codes(np.arange(classes), epsilon, classes)


@given(st.integers(1000, 40 * MILLION), st.integers(2, 12), st.data())
def test_codes_are_unbiased(micro, classes, data):
    truth = data.draw(st.integers(0, classes - 1))
    flip = LabelFlip(micro / MILLION, classes)
    target = np.array([2.0 * truth - 1]) if classes == 2 else np.eye(classes)[truth]
    tight = 1e-14 * classes * float(labels.keep_weight(flip.epsilon, classes))
    np.testing.assert_allclose(
        expected_code(truth, flip.epsilon, classes, flip.flip_probability),
        target,
        rtol=0,
        atol=tight,
    )


@given(st.integers(1000, 5 * MILLION), st.integers(2, 12))
def test_codes_are_biased_under_half_or_double_the_flips(micro, classes):
    flip = LabelFlip(micro / MILLION, classes)
    right = expected_code(0, flip.epsilon, classes, flip.flip_probability)
    for factor in (0.5, 2.0):
        assert (
            abs(
                expected_code(0, flip.epsilon, classes, factor * flip.flip_probability) - right
            ).max()
            > 1e-3
        )


def test_codes_take_one_epsilon_per_record_and_infinity_is_the_truth():
    epsilons = np.array([0.5, 3.0, inf])
    for classes in (2, 4):
        together = labels.codes(np.array([1, 0, 1]), epsilons, classes)
        alone = [
            labels.codes(np.array([y]), e, classes)[0]
            for y, e in zip([1, 0, 1], epsilons, strict=True)
        ]
        np.testing.assert_array_equal(together, alone)
        np.testing.assert_array_equal(together[2], [1.0] if classes == 2 else [0, 1, 0, 0])


# How far one label, or one record, moves what training sees

bounds = st.floats(0.1, 10)
debias = st.one_of(st.floats(0.01, 20), st.just(inf))
directions = arrays(float, 3, elements=st.floats(-1, 1))


def inside(direction: np.ndarray, bound: float) -> np.ndarray:
    """A record of norm at most B; most lie on the sphere, where the bounds are tight."""
    norm = np.linalg.norm(direction)
    return direction * (bound / norm if norm > 0.1 else bound)


def gradient(loss, x: np.ndarray, code: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """∂ℓ̂/∂w of one record, (C, d)."""
    return np.outer(loss.slope((weights @ x)[None])[0] - loss.label_weight * code, x)


@st.composite
def problems(draw):
    """A loss, its number of classes, and the number C of score vectors."""
    classes = draw(st.sampled_from([2, 2, 3, 6]))
    loss = draw(st.sampled_from(list(BINARY.values()))) if classes == 2 else SOFTMAX
    return loss, classes, 1 if classes == 2 else classes


@given(problems(), debias, bounds, arrays(float, (3, 3), elements=st.floats(-1, 1)), st.data())
def test_one_reported_label_moves_the_label_mean_by_at_most_label_shift(
    problem, epsilon, bound, raw, data
):
    """Among other records, whose ε may be larger; attained whenever the label changes and the
    record lies on the sphere.
    """
    loss, classes, _ = problem
    x = np.array([inside(row, bound) for row in raw])
    before = np.array([data.draw(st.integers(0, classes - 1)) for _ in x])
    after = before.copy()
    after[0] = data.draw(st.integers(0, classes - 1))
    epsilons = np.array([epsilon, 2 * epsilon, inf])
    moved = [
        labels.label_mean(x, labels.codes(y, epsilons, classes), loss) for y in (before, after)
    ]
    distance, most = (
        len(x) * float(np.linalg.norm(moved[1] - moved[0])),
        labels.label_shift(epsilon, bound, loss, classes),
    )
    assert distance <= most * (1 + 1e-12)
    if after[0] != before[0]:
        assert distance == pytest.approx(most * np.linalg.norm(x[0]) / bound, rel=1e-9)


@given(problems(), debias, bounds, directions, directions, st.floats(0, 50), st.data())
def test_one_replaced_record_moves_the_gradient_by_at_most_record_shift(
    problem, epsilon, bound, first, second, size, data
):
    """Whatever the weights, the labels, and the newcomer's own (larger) ε."""
    loss, classes, codes = problem
    weights = size * data.draw(arrays(float, (codes, 3), elements=st.floats(-1, 1)))
    moved = []
    for direction, own in (
        (first, epsilon),
        (second, epsilon * data.draw(st.sampled_from([1.0, 3.0]))),
    ):
        code = labels.codes(np.array([data.draw(st.integers(0, classes - 1))]), own, classes)[0]
        moved.append(gradient(loss, inside(direction, bound), code, weights))
    assert np.linalg.norm(moved[1] - moved[0]) <= labels.record_shift(
        epsilon, bound, loss, classes
    ) * (1 + 1e-12)


def opposite_records(bound: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two records almost opposite each other, and a direction on whose positive side both lie."""
    angle = 1e-3
    return (
        bound * np.array([1.0, 0.0]),
        bound * np.array([-np.cos(angle), np.sin(angle)]),
        np.array([1.0, 2 / np.tan(angle)]),
    )


@given(st.sampled_from([LOGISTIC, MATSUSHITA]), debias, bounds)
def test_binary_record_shift_is_attained(loss, epsilon, bound):
    """Two nearly opposite records, both of label -1 and both far on the positive side: the
    supremum.
    """
    one, other, normal = opposite_records(bound)
    code = labels.codes(np.array([0]), epsilon, 2)[0]
    weights = 1e5 / bound * normal[None]
    moved = np.linalg.norm(
        gradient(loss, one, code, weights) - gradient(loss, other, code, weights)
    )
    assert moved == pytest.approx(labels.record_shift(epsilon, bound, loss, 2), rel=1e-5)


def test_square_loss_has_no_record_bound():
    assert labels.record_shift(1.0, 1.0, BINARY["square"], 2) == inf


def attained_softmax_shift(epsilon: float, bound: float, classes: int) -> float:
    """Two nearly opposite records of class 0, both taken for class 1 with certainty."""
    one, other, normal = opposite_records(bound)
    code = labels.codes(np.array([0]), epsilon, classes)[0]
    weights = np.zeros((classes, 2))
    weights[1] = 1e5 / bound * normal
    return float(
        np.linalg.norm(
            gradient(SOFTMAX, one, code, weights) - gradient(SOFTMAX, other, code, weights)
        )
    )


@given(debias, bounds, st.integers(3, 12))
def test_softmax_record_shift_covers_its_supremum(epsilon, bound, classes):
    """|softmax - code| is convex in the softmax, so it is largest at another vertex: √(top² + (1 -
    low)² + (K - 2)·low²).
    """
    low = 0.0 if epsilon == inf else -1 / expm1(epsilon)
    top = float(labels.keep_weight(epsilon, classes)) + low
    supremum = 2 * bound * hypot(top, 1 - low, sqrt(classes - 2) * low)
    assert attained_softmax_shift(epsilon, bound, classes) == pytest.approx(supremum, rel=1e-5)
    assert supremum <= labels.record_shift(epsilon, bound, SOFTMAX, classes) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 5.0, inf])
def test_softmax_record_shift_is_not_loose(epsilon):
    assert attained_softmax_shift(epsilon, 1.0, 3) >= 0.95 * labels.record_shift(
        epsilon, 1.0, SOFTMAX, 3
    )


def test_huge_epsilon_is_as_good_as_infinite():
    assert labels.record_shift(800.0, 1.0, SOFTMAX, 3) == labels.record_shift(inf, 1.0, SOFTMAX, 3)


@given(st.floats(0.01, 20), st.floats(1, 5), bounds, problems())
@settings(max_examples=50)
def test_the_smallest_epsilon_gives_the_largest_shifts(epsilon, factor, bound, problem):
    """Why a server's events take the smallest ε among its records."""
    loss, classes, _ = problem
    for shift in (labels.label_shift, labels.record_shift):
        assert (
            shift(epsilon, bound, loss, classes)
            >= shift(factor * epsilon, bound, loss, classes)
            >= shift(inf, bound, loss, classes)
        )
