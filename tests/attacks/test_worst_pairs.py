"""The search for a worst pair: it finds what no fixed pair looks at, and its bounds are sound.

Each planted mistake is one at an angle: the fixed pairs of records lie along axes, or at one angle
that was worst for right code, so that they see nothing. Seeds are fixed. Without a mistake each
finding would alarm with a chance below 1e-6.
"""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from pdml.accounting import per_release_loss
from pdml.audit import (
    Effort,
    answer_attacks,
    evaluation_attacks,
    rounds_attacks,
    sums_attacks,
    worst_pairs,
)
from pdml.audit.worst_pairs import Space, search
from pdml.device import memo
from pdml.encoding.row_steps import ClipRows
from pdml.mechanisms import count_release, integer_gaussian
from pdml.numerics.sums import statistics

LIGHT = Effort(transcripts=3_000, labels=40_000, pairs=150)


def space_of(spaces, part):
    return next(space for space in spaces() if part in space.name)


def by_sums(name, candidates=150, runs=4_000):
    """What fresh releases say of the pair that is found."""
    space = space_of(worst_pairs.sums_spaces, name)
    pair = search(space, candidates, 7)
    samples = [
        sums_attacks.releases(one, runs, 7, world, 1) for world, one in enumerate(pair.worlds)
    ]
    return sums_attacks.distinguish("worst_pair", pair, samples, pair.worlds[0].claims(pair.data))


def by_fixed_pairs():
    attacks = (sums_attacks.sums_membership, sums_attacks.sums_inference)
    return [finding for attack in attacks for finding in attack(LIGHT, 7)]


def test_a_search_ends_at_the_best_place_by_other_draws():
    """A hill beside a false one, which stands only in the draws that search."""
    place = np.array([2.0, -1.0, 0.5])

    def score(pair, seed):
        hill = -float(np.linalg.norm(pair - place))
        return max(hill, 1.0 if seed == 3 and pair[0] < -1 else -inf)

    space = Space("hill", 3, lambda numbers: numbers, score)
    assert np.linalg.norm(search(space, 1_500, 4) - place) < 0.05
    false = Space("one hill", 3, lambda numbers: numbers, lambda pair, seed: score(pair, seed))
    assert score(search(false, 150, 3), 4) <= 0


@pytest.mark.parametrize("name", ["sums, 2 classes", "sums, 3 classes", "sums, 2 classes, jointly"])
def test_nothing_is_found_where_nothing_is_wrong(name):
    assert by_sums(name).passed


def test_a_search_comes_near_the_worst_pair():
    """Q moves by 1.2 sin φ of its deviations, S by 1.2 sin 2φ: together by 1.5 at the worst."""
    space = space_of(worst_pairs.sums_spaces, "sums, 2 classes")
    first, second = search(space, 300, 7).worlds
    (event,) = first.events()
    scale = sums_attacks.deviations(first, event.label_stddev, event.square_stddev)
    rows = [sums_attacks.exact_rows(world)[world.labels[0]] for world in (first, second)]
    noisy = scale > 0
    moved = np.linalg.norm((rows[1] - rows[0])[noisy] / scale[noisy])
    assert 0.96 * 1.5 < moved < 1.5 * (1 + 1e-6)


def entries_only(monkeypatch):
    """Clipping by the largest entry: a record along an axis is as short as it must be."""
    monkeypatch.setattr(ClipRows, "lengths", lambda step, rows: np.abs(rows).max(axis=1))


def test_rows_that_are_clipped_by_their_largest_entry(monkeypatch):
    entries_only(monkeypatch)
    assert all(finding.passed for finding in by_fixed_pairs())
    assert not by_sums("sums, 2 classes").passed


def test_the_same_by_rounds(monkeypatch):
    entries_only(monkeypatch)
    (fixed,) = rounds_attacks.record_membership(LIGHT, 7)
    assert fixed.passed
    space = space_of(worst_pairs.rounds_spaces, "label")
    assert not worst_pairs._by_rounds(space, replace(LIGHT, transcripts=6_000), 7).passed


def test_squares_that_count_twice_beside_the_diagonal(monkeypatch):
    """Records along the axes have none there."""
    real = statistics.exact

    def doubled(*arguments, **more):
        sums = real(*arguments, **more)
        square = sums.square_sum
        return replace(sums, square_sum=2 * square - np.diag(np.diag(square)))

    monkeypatch.setattr(statistics, "exact", doubled)
    fixed = [finding for finding in by_fixed_pairs() if "noise" not in finding.name]
    assert all(finding.passed for finding in fixed)
    assert not by_sums("sums, 2 classes").passed


def test_a_ledger_that_counts_the_larger_of_both_sums(monkeypatch):
    """No record moves Q and S by most at once, and one at an angle moves both by much."""
    real = per_release_loss._exchange

    def larger(*arguments):
        release = real(*arguments)
        label, record, square = release.whole
        return replace(release, whole=(label, np.maximum(record, square), 0 * square))

    monkeypatch.setattr(per_release_loss, "_exchange", larger)
    assert all(finding.passed for finding in by_fixed_pairs())
    assert not by_sums("sums, 2 classes").passed


def test_a_table_that_counts_the_surest_records_twice(monkeypatch):
    """Weights by confidence, say: whoever the model is not sure of is hidden as before."""
    real = count_release.Counting.exact

    def doubled(counting, truth, choice, confidence):
        sure = confidence > 0.9
        return real(
            counting, *(np.append(part, part[sure]) for part in (truth, choice, confidence))
        )

    assert worst_pairs.by_counts(LIGHT, 7).passed
    monkeypatch.setattr(count_release.Counting, "exact", doubled)
    world = evaluation_attacks.evaluated()
    unsure = (world, world.with_record(np.array([0.0, 0.0, 0.0, 0.0, 1.0])))
    assert evaluation_attacks.distinguish("a pair in the middle", unsure, 750, 7, 1).passed
    assert not worst_pairs.by_counts(LIGHT, 7).passed


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_noise_on_a_table_is_as_wide_as_it_says(monkeypatch, share):
    """Halved, any pair shows it."""
    real = integer_gaussian.sample
    monkeypatch.setattr(integer_gaussian, "sample", lambda scale, rng: real(share * scale, rng))
    finding = worst_pairs.by_counts(replace(LIGHT, transcripts=8_000), 7)
    assert finding.passed == (share == 1.0)
    assert finding.measured_lower_bound > 0.4 * finding.claim


def test_an_answer_that_shows_its_last_level(monkeypatch):
    """The fixed pairs are of the first two levels."""
    real = memo.randomise

    def honest_at_the_end(label, epsilon, classes, answers):
        reported, levels = real(label, epsilon, classes, answers)
        shown = [
            (level, micro) if true == many - 1 == 2 else drawn
            for (level, micro, many), true, drawn in zip(
                answers, (level for level, _, _ in answers), levels, strict=True
            )
        ]
        return reported, shown

    monkeypatch.setattr(memo, "randomise", honest_at_the_end)
    devices = LIGHT.labels // answer_attacks.DEVICES
    fixed = [answer_attacks.from_report(pair, devices) for pair in answer_attacks.report_pairs()]
    assert all(finding.passed for finding in fixed)
    found = {finding.name: finding.passed for finding in worst_pairs._by_reports(LIGHT)}
    assert not found["worst_pair: report, answer: status"]
