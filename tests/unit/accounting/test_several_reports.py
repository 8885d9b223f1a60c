"""People who reported their label with more than one ε: what each report went into is bounded by
itself, and composed (privacy.md, section 18).
"""

from dataclasses import replace
from itertools import product
from math import cos, exp, hypot, inf, pi, sin, sqrt

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from recount import View, chance

from pdml.accounting import Budget, Ledger, profiles
from pdml.accounting.events import IterateReleased, LabelFlipped, ObjectiveNoised, SumsReleased

DELTA = 1e-6
SEEN = 0.02  # δ at which sampling sees enough


def exchange(report: float, label: float, square: float) -> SumsReleased:
    """One exchange of sums into which the report with this ε went."""
    return SumsReleased(
        label_stddev=1.0,
        square_stddev=1.0,
        label_shift=label,
        record_shift=label,
        square_shift=square,
        fixed_shift=0.0,
        epsilon=report,
        report_epsilon=report,
    )


def ledger(*sums, delta: float = DELTA) -> Ledger:
    reports = sorted({event.report_epsilon for event in sums})
    flips = (LabelFlipped(epsilon=report, epsilons=(report,)) for report in reports)
    return Ledger(((*flips, *sums),), delta=delta)


def epsilon(book: Ledger, data: str = "features") -> float:
    return book.row(data, "other servers").epsilon


def view(sums, angle: float, *, noise: float = 1.0, label_only: bool = False) -> View:
    """Two records at this angle, in a mixture over all coins of what everybody sees."""
    reports = [event.report_epsilon for event in sums]
    centres: tuple[list, list] = ([], [])
    chances = []
    for signs in product((1, -1), repeat=len(reports)):
        chances.append([chance(1, sign, e, 2) for sign, e in zip(signs, reports, strict=True)])
        for world, side in zip(centres, (1, -1), strict=True):
            at = []
            for sign, event in zip(signs, sums, strict=True):
                half = event.record_shift / 2 / noise
                at += [sign * half * cos(angle), side * sign * half * sin(angle)]
            apart = hypot(*(event.square_shift for event in sums)) * abs(sin(2 * angle)) / noise
            world.append([*at, 0.0 if side > 0 or label_only else apart])
    weights = np.prod(chances, axis=1)
    return View(np.array(centres[0]), np.array(centres[1]), (weights, weights))


@pytest.mark.parametrize("sizes", [(0.3, 0.4), (1.0, 0.1), (2.0, 1.5)])
def test_two_gaussians_compose_to_one(sizes):
    found = profiles.composed(*map(profiles.gaussian_profile, sizes))
    exact = profiles.gaussian_profile(hypot(*sizes))
    for delta in (1e-3, 1e-6, 1e-12):
        known = profiles.epsilon_at(exact, delta)
        assert known <= profiles.epsilon_at(found, delta) <= 1.01 * known


def test_two_randomised_responses_compose_to_the_sums_of_their_losses():
    """Losses are ±1 ± 2 with known chances: δ is their sum, whatever lies between the nodes."""
    found = profiles.composed(profiles.pure_profile(1.0), profiles.pure_profile(2.0))
    for level in (0.0, 0.5, 1.0, 1.7, 2.5, 2.99):
        exact = sum(
            max(0.0, p * q * (1 - exp(level - a - b)))
            for (a, p), (b, q) in product(_losses(1.0), _losses(2.0))
        )
        assert exact - 1e-12 <= float(found(level)) <= 1.01 * exact + 1e-4


def _losses(report: float) -> list[tuple[float, float]]:
    """Of randomised response, with their chances."""
    return [(report, chance(0, 0, report, 2)), (-report, chance(0, 1, report, 2))]


def test_what_protects_nobody_is_composed_to_nothing():
    found = profiles.composed(profiles.gaussian_profile(inf), profiles.gaussian_profile(1.0))
    assert float(found(3.0)) == 1.0
    alone = profiles.composed(profiles.gaussian_profile(0.0), profiles.gaussian_profile(1.0))
    known = profiles.epsilon_at(profiles.gaussian_profile(1.0), DELTA)
    assert known <= profiles.epsilon_at(alone, DELTA) <= 1.01 * known


def true_epsilon(labels, reports) -> float:
    """Of opposite records in Q alone: over the plane, by the trapezoid rule, which is exact to
    rounding for sums of Gaussians."""
    x = np.linspace(-9, 9, 1201)
    p, q = np.ones((1, 1)), np.ones((1, 1))
    for k, (label, report) in enumerate(zip(labels, reports, strict=True)):
        ahead, behind = (
            np.exp(-((x - side * label / 2) ** 2) / 2) / sqrt(2 * pi) for side in (1, -1)
        )
        keep, shape = chance(0, 0, report, 2), (-1, 1) if k == 0 else (1, -1)
        p = p * (keep * ahead + (1 - keep) * behind).reshape(shape)
        q = q * ((1 - keep) * ahead + keep * behind).reshape(shape)
    cell = (x[1] - x[0]) ** 2
    low, high = 0.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        more = np.maximum(0.0, p - exp(middle) * q).sum() * cell > DELTA
        low, high = (middle, high) if more else (low, middle)
    return high


@pytest.mark.parametrize("labels", [(0.3, 0.5), (1.0, 0.4)])
@pytest.mark.parametrize("data", ["features", "label"])
def test_opposite_records_by_integration(labels, data):
    """Never below the truth, close to it, and half the noise is seen."""
    reports = (1.0, 2.0)
    sums = [exchange(e, label, 1e-9) for e, label in zip(reports, labels, strict=True)]
    line = epsilon(ledger(*sums), data)
    known = true_epsilon(labels, reports)
    assert known <= line
    if data == "label" or labels == (0.3, 0.5):  # elsewhere another pair of records tells more
        assert line <= 1.05 * known
    assert true_epsilon([2 * label for label in labels], reports) > line


moved = st.sampled_from([0.1, 0.4, 0.8, 1.5])


@given(
    st.lists(st.tuples(moved, moved), min_size=2, max_size=3),
    st.sampled_from([(0.4, 1.0, 2.0), (1.0, 2.0, 4.0)]),
)
@settings(deadline=None, derandomize=True, max_examples=15, phases=(Phase.generate,))
def test_no_pair_of_records_tells_more(sizes, reports):
    """At any angle, by sampling: a false alarm in 30,000 comparisons, and seeds are fixed."""
    sums = [exchange(e, *size) for e, size in zip(reports, sizes, strict=False)]
    book = ledger(*sums, delta=SEEN)
    profile, label = (book.profile(data, "other servers", 0) for data in ("features", "label"))
    for angle in np.linspace(0.1, 0.5, 5) * pi:
        seen = view(sums, angle)
        for level in (0.0, 0.3, 1.0, 2.5):
            assert seen.told(level) <= float(profile(level)) + 1e-12
    opposite = view(sums, pi / 2, label_only=True)
    for level in (0.0, 0.3, 1.0, 2.5):
        assert opposite.told(level) <= float(label(level)) + 1e-12


def test_half_the_noise_is_seen_at_some_angle():
    sums = [exchange(1.0, 0.4, 0.3), exchange(2.0, 0.4, 0.3)]
    line = epsilon(ledger(*sums, delta=SEEN))
    angles = np.linspace(0.1, 0.5, 9) * pi
    assert max(view(sums, angle).told(line) for angle in angles) <= SEEN
    assert max(view(sums, angle, noise=0.5).told(line) for angle in angles) > SEEN


def test_never_above_adding_up_nor_above_what_all_releases_tell_without_coins():
    sums = [exchange(1.0, 0.3, 0.2), exchange(2.0, 0.5, 0.2), exchange(2.0, 0.2, 0.1)]
    for data in ("features", "label"):
        alone = [epsilon(ledger(*sums[:1]), data), epsilon(ledger(*sums[1:]), data)]
        line = epsilon(ledger(*sums, delta=2 * DELTA), data)
        assert max(alone) <= 1.001 * epsilon(ledger(*sums), data)
        assert line <= sum(alone)
    unknown = ledger(*(replace(event, report_epsilon=0.0) for event in sums))
    flips = ledger(*sums).events[0][:2]
    unknown = replace(unknown, events=((*flips, *unknown.events[0][1:]),))
    assert epsilon(ledger(*sums)) < 0.9 * epsilon(unknown)


def test_the_reports_of_a_training_by_rounds_too():
    """Objective noise and iterates belong to the report of their training."""
    eta = ObjectiveNoised(
        kind="truncated_gaussian",
        bound=60.0,
        stddev=1.0,
        size=1,
        n_servers=1,
        label_shift=0.4,
        fixed_shift=0.0,
        report_epsilon=1.0,
    )
    sent = IterateReleased(
        t=1,
        stddev=1e-6,
        label_sensitivity=1.0,
        record_sensitivity=1.0,
        solver_slack=0.0,
        report_epsilon=1.0,
    )
    sums = exchange(2.0, 0.5, 1e-9)
    flips = (LabelFlipped(epsilon=e, epsilons=(e,)) for e in (1.0, 2.0))
    line = epsilon(Ledger(((*flips, eta, sent, sums),), delta=DELTA))
    known = true_epsilon((0.4, 0.5), (1.0, 2.0))
    assert known <= line <= 1.05 * known


def test_budgets_and_curves_go_by_the_same_bound():
    sums = [exchange(1.0, 0.4, 0.3), exchange(2.0, 0.4, 0.3)]
    book = ledger(*sums)
    line = epsilon(book)
    assert book.keeps(Budget(features_epsilon=1.001 * line, features_delta=DELTA))
    assert not book.keeps(Budget(features_epsilon=0.99 * line, features_delta=DELTA))
    assert book.epsilons("features")[-1] == pytest.approx(line)


def test_beside_a_server_whose_people_reported_once():
    """Each server has its own line, in whatever order they stand."""
    several = ledger(exchange(1.0, 0.4, 0.3), exchange(2.0, 0.4, 0.3))
    once = ledger(replace(exchange(1.0, 0.9, 0.8), report_epsilon=1.0))
    for events in ((*several.events, *once.events), (*once.events, *several.events)):
        book = Ledger(events, delta=DELTA)
        lines = sorted(book.row("features", "other servers", server).epsilon for server in range(2))
        assert lines == pytest.approx(sorted([epsilon(several), epsilon(once)]))
        assert epsilon(book) == pytest.approx(lines[-1])
