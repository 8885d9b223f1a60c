"""Randomised answers, as planners know them: exact moments, no noise without randomisation, and
forecasts that fall with ε and hold what the real exchange does.
"""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.accounting import Budget
from pdml.encoding import scaling
from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import LabelFlip, flip_labels
from pdml.mechanisms.randomness import LABELS, SUMS, Simulated
from pdml.numerics import coded_rows
from pdml.numerics.admm import labels, rows
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.sums.fit import Noise, fit_sums
from pdml.planning.forecast import utility
from pdml.planning.forecast.synthetic import (
    Population,
    encode_levels,
    populations,
    randomise_rows,
    reported_moment,
)
from pdml.planning.search import sums_search
from pdml.planning.search.rounds_search import Search, SearchSpace
from pdml.planning.sizes import PlannedAnswer, Sizes, blocks_of
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine, sums_release
from pdml.training.server import Server

HUGE = 60.0
LUCK = 0.01  # of a mean over twelve populations: of sums at most 0.7 points, by six other seeds
GRAPH = Graph.ring(5)


def space(**fixed: float) -> SearchSpace:
    return SearchSpace(graph=GRAPH, fixed_settings=tuple(fixed.items()))


def answers_at(epsilon: float, *, smallest: float | None = None, levels=(4, 3), start=3):
    """Two answers beside ``start`` columns of mass 1, with a menu from ``smallest`` to ε."""
    menu = [round(1e6 * min(e, HUGE)) for e in (smallest or epsilon, epsilon)]
    asked = [(f"q{k}", 1 - 1 / many, menu, many) for k, many in enumerate(levels)]
    mass = start + sum(1 - 1 / many for many in levels)
    found = coded_rows.layout_blocks(start, mass, asked)
    return tuple(PlannedAnswer(block=block, epsilon=epsilon) for block in found)


def sizes_at(epsilon: float, **how) -> Sizes:
    answers = answers_at(epsilon, **how)
    width = answers[-1].block.columns.stop + 1
    return Sizes(records=(400,) * 5, width=width, epsilon=1.0, answers=answers)


@given(st.floats(0.05, 8.0), st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(2, 5))
def test_the_moment_of_reports_is_that_over_the_coins_own_probabilities(epsilon, true, levels):
    """Enumerated: every answer at every level, with the chance that the integers give it."""
    (answer,) = answers_at(epsilon, levels=(levels,), start=1)
    at, many = np.array(true) % levels, len(true)
    clear = np.column_stack([np.linspace(-0.3, 0.4, many), np.full(many, 0.2)])
    x = np.hstack([clear[:, :1], encode_levels(at, answer.block), clear[:, 1:]])
    lost = LabelFlip(epsilon, levels).flip_probability
    expected = np.zeros((x.shape[1],) * 2)
    for level in range(levels):
        chance = np.where(at == level, 1 - lost, lost / (levels - 1))
        said = x.copy()
        said[:, answer.block.columns] = encode_levels(
            np.full(many, level), answer.block, answer.weight
        )
        expected += (said * chance[:, None]).T @ said / many
    found = reported_moment(x.T @ x / many, x.mean(axis=0), [answer])
    np.testing.assert_allclose(found, expected, atol=1e-6 * max(1.0, answer.weight))


@pytest.mark.parametrize("mistake", ["", "weight", "shared coin"])
def test_reports_are_true_answers_on_average_and_their_coins_independent(mistake):
    """Of 40,000 people: the mean of every column, and of the product of two answers, within 6
    standard errors, a false alarm in fewer than one of 10⁶ runs; a wrong weight and one coin for
    both answers are seen.
    """
    answers = answers_at(1.0, levels=(3, 3), start=1)
    if mistake == "weight":
        wrong = PlannedAnswer(block=answers[0].block, epsilon=1.1)
        wrong.__dict__["weight"] = answers[0].weight * 1.05
        answers = (wrong, answers[1])
    many = 40_000
    true = [np.zeros(many, dtype=int), np.zeros(many, dtype=int)]
    codes = [
        encode_levels(level, answer.block) for level, answer in zip(true, answers, strict=True)
    ]
    x = np.hstack([np.zeros((many, 1)), *codes, np.full((many, 1), 0.2)])
    said = randomise_rows(x, answers, Simulated(4).stream(SUMS))
    if mistake == "shared coin":
        said[:, answers[1].block.columns] = said[:, answers[0].block.columns]
    first, second = (answer.block.columns for answer in answers)
    for found, truth in (
        (said, x[0]),
        (said[:, first] * said[:, second], x[0, first] * x[0, second]),
    ):
        far = np.abs(found.mean(axis=0) - truth)
        wrong = (far > 6 * found.std(axis=0) / np.sqrt(many) + 1e-9).any()
        if wrong:
            break
    assert wrong == bool(mistake)


def test_an_answer_is_as_loud_as_its_coin():
    (one, _), (as_it_is, _) = answers_at(0.5), answers_at(inf)
    assert one.weight == one.loudest == pytest.approx(coded_rows.weight(500_000, 4))
    assert (as_it_is.weight, as_it_is.loudest) == pytest.approx((1.0, 1.0))
    menu, _ = answers_at(2.0, smallest=0.5)
    assert menu.weight == coded_rows.weight(2_000_000, 4) and menu.loudest == pytest.approx(
        one.loudest
    )
    with pytest.raises(InvalidInput, match="epsilon of 'q0'"):
        PlannedAnswer(block=one.block, epsilon=0.0)


def judged(sizes: Sizes, how: str):
    made = populations(sizes)[:12]  # every kind of signal, with every clearness
    if how == "rounds":
        search = Search(sizes, space(rounds=4, penalty=0.3), made)
        choice = search._best([(0.05, 0.0)])
        return np.array(search.score(choice, 1))
    if how == "alone":
        return np.array([utility.score_alone(each, sizes, LOGISTIC, 1) for each in made])
    plan = TrainingPlan(method="sums", label_noise=1.5, square_noise=2.0)
    return sums_search.score(plan, sizes, made, 1)


@pytest.mark.parametrize("how", ["sums", "rounds", "alone"])
def test_a_coin_of_a_huge_epsilon_is_forecast_as_none(how):
    np.testing.assert_array_equal(judged(sizes_at(HUGE), how), judged(sizes_at(inf), how))


def variance_of_q(population: Population, sizes: Sizes) -> float:
    """Of all its entries together: flips of labels multiply what was reported, and coins make its
    squares larger than those of true answers.
    """
    reports, true = (
        np.trace(each) for each in (population.reported_moment, population.square_moment)
    )
    kappa = 1.0 if sizes.epsilon == inf else float(labels.kappa(sizes.epsilon))
    own = LOGISTIC.label_weight**2 * (reports - true)
    flips = LOGISTIC.label_weight**2 * (kappa**2 - 1) * reports
    return (own + flips) / sum(sizes.records)


@pytest.mark.parametrize(("heard", "epsilon"), [(500, inf), (8_000, inf), (2_000, 2.0)])
def test_coins_move_totals_as_those_of_so_many_people_do(monkeypatch, heard, epsilon):
    """Without other noise, what the model is fitted to is off by `variance_of_q`, and in S, beside
    a column in the clear, by x² times the variance of a code, which its coin's own probabilities
    tell. Traces over 400 rehearsals within 5 of their standard errors: a false alarm in fewer than
    one of 10⁵ runs. Rehearsals without coins, with those of the population's own people alone, or
    with flips of true rows, are seen.
    """
    sizes = replace(sizes_at(0.7), epsilon=epsilon, records=(heard // 5,) * 5)
    population = populations(sizes)[0]
    seen = []
    real = utility.fit_moments
    monkeypatch.setattr(
        utility, "fit_moments", lambda given, loss: seen.append(given) or real(given, loss)
    )
    monkeypatch.setattr(Population, "score", lambda self, weights: (0.0, 0.0))
    silent = Noise(label=0.0, square=0.0, coded=0.5)
    utility.score_sums(population, sizes, silent, LOGISTIC, 400)
    off = np.array([(one.q - population.label_moment) ** 2 for one in seen]).sum(axis=(1, 2))
    assert abs(off.mean() - variance_of_q(population, sizes)) < 5 * off.std() / 20
    answer, first = sizes.answers[0], population.x[:, 0]
    block = answer.block
    lost = LabelFlip(answer.epsilon, block.levels).flip_probability
    true = population.x[:, block.columns].argmax(axis=1)[:, None] == np.arange(block.levels)
    chance = np.where(true, 1 - lost, lost / (block.levels - 1))
    each = (block.scale * answer.weight) ** 2 * chance * (1 - chance)
    wanted = np.mean(first[:, None] ** 2 * each, axis=0).sum() / heard
    at = (0, block.columns)
    off = np.array([np.sum((one.s[at] - population.square_moment[at]) ** 2) for one in seen])
    assert abs(off.mean() - wanted) < 5 * off.std() / 20


def test_one_round_without_noise_is_off_by_as_much_as_its_q(monkeypatch):
    """One step of equal servers is linear in q: per gain the release varies as q does. Labels
    hardly flip, so that coins can be seen."""
    sizes = replace(sizes_at(0.7), epsilon=4.0)
    population = populations(sizes)[0]
    search = Search(sizes, space(rounds=1, penalty=0.3), (population,))
    choice, seen = search._best([(0.0, 0.0)]), []
    monkeypatch.setattr(Population, "score", lambda self, w: seen.append(w[0]) or (0.0, 0.0))
    search.score(choice, 400)
    values, vectors = population.spectrum
    left, share = search._between(values)
    nodes = search.reached.gain[choice.shape, 0]
    gain = (1 - share) * nodes[left] + share * nodes[left + 1]
    found = np.array(seen) @ vectors / gain - population.label_moment[0] @ vectors
    off = np.sum(found**2, axis=1)
    wanted = variance_of_q(population, sizes)
    assert abs(off.mean() - wanted) < 5 * off.std() / 20 + 0.02 * wanted  # λ between its nodes


def test_a_server_alone_has_reports_as_well(monkeypatch):
    """Of its own people, each time anew."""
    sizes, seen, real = sizes_at(0.7), [], utility.randomise_rows
    monkeypatch.setattr(
        utility, "randomise_rows", lambda *asked: seen.append(real(*asked)) or seen[-1]
    )
    utility.score_alone(populations(sizes)[0], sizes, LOGISTIC, 3)
    assert [len(each) for each in seen] == [400] * 3 and (seen[0] != seen[1]).any()


@pytest.mark.parametrize("how", ["sums", "rounds", "alone"])
def test_the_forecast_falls_with_epsilon(how):
    """The mean accuracy over twelve populations of the same people."""
    found = [judged(sizes_at(epsilon), how)[..., 1].mean() for epsilon in (4.0, 1.0, 0.25)]
    assert found[1] < found[0] + LUCK and found[2] < found[1] + LUCK
    assert found[2] < found[0] - LUCK


def test_people_and_their_unprotected_model_are_the_same_at_every_epsilon():
    clear, randomised = (populations(sizes_at(epsilon)) for epsilon in (inf, 0.3))
    for one, other in zip(clear, randomised, strict=True):
        assert (one.y == other.y).all()
        assert np.mean(one._reference == other._reference) >= 0.995
        for blocks in (blocks_of(one.answers), blocks_of(other.answers)):
            assert scaling.room(blocks) == pytest.approx(scaling.room(blocks_of(one.answers)))
        assert rows.norms(other.x).max() <= 1 + 1e-12


def made_people(many: int, rng: np.random.Generator, answers: tuple[PlannedAnswer, ...]):
    """Who is in which class hangs on an answer more than on all columns beside it."""
    x = rng.normal(size=(many, 3))
    levels = [rng.integers(0, 4, many), rng.integers(0, 3, many)]
    score = 1.5 * (levels[0] == 1) - 1.2 * (levels[0] == 2) + 0.5 * (x[:, 0] + levels[1] - 1)
    y = (rng.random(many) < 1 / (1 + np.exp(-2 * score))).astype(np.int64)
    clear, _ = rows.clip(rows.append_bias(x), scaling.room(blocks_of(answers)))
    codes = [
        encode_levels(level, answer.block) for level, answer in zip(levels, answers, strict=True)
    ]
    return np.hstack([clear[:, :-1], *codes, clear[:, -1:]]), y


def sent_by(people, x, y, sizes, source):
    """Their reports: rows with codes of randomised answers, and codes of labels with ε = 1."""
    said = flip_labels(y[people], np.ones(len(people)), 2, source.stream(LABELS))
    sent = randomise_rows(x[people], sizes.answers, source.stream(SUMS, 9))
    return sent, labels.codes(said, 1.0, 2)


def honest(seed: int, times: int):
    """The accuracy that is forecast from 4,000 public people, of real exchanges of 10,000 others
    each, and as it would be forecast of answers in the clear.
    """
    sizes = replace(sizes_at(0.5), records=(2_000,) * 5)
    plan = TrainingPlan(method="sums", label_noise=0.5, square_noise=0.5)
    x, y = made_people(18_000, np.random.default_rng(seed), sizes.answers)
    like = (x[14_000:], y[14_000:])
    result = sums_search.score(plan, sizes, populations(sizes, like), 12)[..., 1].mean()
    right = []
    for turn in range(times):
        source, own = Simulated(turn), np.random.default_rng([seed, turn]).permutation(14_000)
        train, test = own[:10_000], own[10_000:]
        sent, codes = sent_by(train, x, y, sizes, source)
        released = []
        for i, part in enumerate(np.split(np.arange(10_000), 5)):
            server = Server(sizes.server_spec(i, GRAPH), sent[part], codes[part])
            released.append(
                sums_release.release_sums(sums_release.exact(server, plan), server, plan, source)
            )
        total = sums_release.totals(sum(released), 1, sizes.width)
        model = fit_sums(total, plan.noise_of_total(server.spec), loss=LOGISTIC)
        whole = Population(x=x[train], y=y[train], test_x=x[test], test_y=y[test], classes=2)
        right.append(whole.score(model.weights)[1])
    silent = replace(sizes, answers=tuple(replace(one, epsilon=inf) for one in sizes.answers))
    noise = replace(plan.noise_of_total(sizes.server_spec(0)), coded=0.0)
    (clear,) = populations(silent, like)
    hoped = np.array(utility.score_sums(clear, silent, noise, LOGISTIC, 12))[:, 1].mean()
    return result, np.array(right), hoped


def test_the_forecast_is_honest_about_coins():
    """On six populations together within 3 points of the real exchange: over 20 the difference had
    a mean of -0.6 and a deviation of 2.2 points, so that a false alarm comes in about one of 200
    choices of seeds, which are fixed. Answers in the clear would be forecast 5 points too good.
    """
    result, right, hoped = zip(*(honest(seed, 4) for seed in range(6)), strict=True)
    assert np.mean(result) == pytest.approx(np.mean(right), abs=0.03)
    assert np.mean(hoped) > np.mean(right) + 0.03


def test_the_forecast_of_rounds_is_honest_about_coins():
    """As above with rounds of the real engine, on three populations together within 4 points: over
    twelve the difference had a mean of -0.7 and a deviation of 1.4 points, so that a false alarm
    comes in fewer than one of 1,000 choices of seeds. Answers in the clear are right on 80%.
    """
    sizes, budget = replace(sizes_at(1.0), records=(2_000,) * 5), Budget(features_epsilon=8.0)
    result, right = [], []
    for seed in range(3):
        x, y = made_people(18_000, np.random.default_rng(seed), sizes.answers)
        search = Search(
            sizes,
            SearchSpace(graph=GRAPH, most_rounds=20),
            populations(sizes, (x[14_000:], y[14_000:])),
        )
        choice = search.best(budget)
        result.append(np.array(search.score(choice, 12))[..., 1].mean())
        for turn in range(2):
            source, own = Simulated(turn), np.random.default_rng([seed, turn]).permutation(14_000)
            sent, codes = sent_by(own[:10_000], x, y, sizes, source)
            servers = [
                Server(sizes.server_spec(i, GRAPH), sent[part], codes[part])
                for i, part in enumerate(np.split(np.arange(10_000), 5))
            ]
            run = local_engine.Run(search.plan(choice, budget)[0], servers, source)
            weights = local_engine.train(GRAPH, run).released.mean(axis=0)
            right.append(np.mean((x[own[10_000:]] @ weights[0] > 0) == y[own[10_000:]]))
    assert np.mean(result) == pytest.approx(np.mean(right), abs=0.04)
    assert np.mean(result) < 0.72


def test_sizes_refuse_answers_that_no_study_lays_out_so():
    good = sizes_at(1.0)
    assert good.in_clear and not sizes_at(1.0, start=0).in_clear
    assert good.server_spec(0).blocks == blocks_of(good.answers)
    with pytest.raises(InvalidInput, match="the last columns but one"):
        replace(good, width=good.width + 1)
    with pytest.raises(InvalidInput, match="the last columns but one"):
        replace(good, answers=good.answers[::-1])
    with pytest.raises(InvalidInput, match="norm_bound must be 1"):
        replace(good, norm_bound=2.0)


def test_wide_data_keep_their_answers():
    """Made-up populations have at most 300 columns; it is others that are left out."""
    wide = sizes_at(1.0, start=800)
    (first, *_) = populations(wide)
    assert first.x.shape[1] == 300 and first.answers[-1].block.columns.stop == 299
    assert [each.epsilon for each in first.answers] == [1.0, 1.0]


@pytest.mark.parametrize("classes", [2, 3])
def test_more_people_are_those_of_fewer_and_others(classes):
    sizes = Sizes(records=(40,) * 5, width=6, epsilon=1.0, classes=classes)
    more = populations(replace(sizes, records=(400,) * 5))
    for few, many in zip(populations(sizes), more, strict=True):
        assert len(few.y) == 200 and len(many.y) == 1500
        np.testing.assert_array_equal(few.x, many.x[:200])
        np.testing.assert_array_equal(few.y, many.y[:200])
        np.testing.assert_array_equal(few.test_x, many.test_x)


@pytest.mark.parametrize("prevalence", [(0.02, 0.02), (0.1, 0.3)])
def test_the_second_class_is_as_rare_as_it_is_guessed(prevalence):
    """Of 2,300 people each; a share of 30% has a standard deviation of 1 point where it is drawn,
    so that five points more are beyond five deviations."""
    low, high = prevalence
    made = populations(Sizes(records=(400,) * 5, width=6, epsilon=1.0, prevalence=prevalence))
    shares = [np.mean(np.concatenate([one.y, one.test_y])) for one in made]
    assert low - 0.05 <= min(shares) and max(shares) <= high + 0.05
    assert np.mean(shares) == pytest.approx((low + high) / 2, abs=0.02)
    assert np.ptp(shares) >= 0.8 * (high - low)


@pytest.mark.parametrize("bad", [(0.0, 0.5), (0.5, 0.2), (0.5, 1.0), (np.nan, 0.5)])
def test_a_prevalence_is_two_shares(bad):
    with pytest.raises(InvalidInput, match="two shares between 0 and 1"):
        Sizes(records=(40,) * 5, width=6, epsilon=1.0, prevalence=bad)
    with pytest.raises(InvalidInput, match="of two classes"):
        Sizes(records=(40,) * 5, width=6, epsilon=1.0, classes=3, prevalence=(0.1, 0.2))
