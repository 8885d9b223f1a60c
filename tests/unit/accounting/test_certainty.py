"""How sure they can be, but for a chance of δ: that chance is integrated, and nothing less is true.

The truth is x ~ N(μ/2, 1), the alternative N(-μ/2, 1); through the device's coin both are mixtures
of the two. What somebody at even odds sees may be x, a part of it, or rounds one after the other.
"""

from math import exp, inf, log, log1p, sqrt

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit, log_ndtr, logit, ndtr, ndtri

from pdml.accounting import Ledger, profiles
from pdml.accounting.events import IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.accounting.objective_loss import objective_profile
from pdml.accounting.profiles import certainty_at, limit_certainty, limit_epsilon, log_odds_at

mus = st.floats(0.02, 4)
flips = st.floats(0.1, 5) | st.just(inf)  # ε of the coin; infinite: there is none
deltas = st.floats(1e-9, 1e-2)
FAR = 45.0  # Φ(-45) is no float


def normal(x, stddev: float = 1.0):
    return np.exp(-((x / stddev) ** 2) / 2) / (stddev * sqrt(2 * np.pi))


class Pair:
    """x under the truth and under the alternative, and the odds that x gives the truth."""

    def __init__(self, mu: float, flip: float = inf) -> None:
        self.mu, self.keep = mu, 1.0 if flip == inf else 1 / (1 + exp(-flip))
        self.profile = profiles.joint_profile(flip, profiles.gaussian_profile(mu))

    def density(self, x: float) -> float:
        told, other = normal(x - self.mu / 2), normal(x + self.mu / 2)
        return self.keep * told + (1 - self.keep) * other

    def log_odds(self, x: float) -> float:
        """ln of (k e^z + 1-k)/((1-k) e^z + k), z = μx: it rises with x."""
        z, keep = self.mu * x, log(self.keep)
        lie = log(1 - self.keep) if self.keep < 1 else -inf
        return float(np.logaddexp(keep + z, lie) - np.logaddexp(lie + z, keep))

    def chance(self, odds: float) -> float:
        """Of log-odds above ``odds``, by integration under the truth."""
        if self.log_odds(FAR) <= odds:
            return 0.0
        if self.log_odds(-FAR) >= odds:
            return 1.0
        edge = brentq(lambda x: self.log_odds(x) - odds, -FAR, FAR, xtol=1e-13)
        return self.above(edge, self.density)

    @staticmethod
    def above(edge: float, density) -> float:
        near = quad(density, edge, edge + 1, epsabs=0, epsrel=1e-10)[0]
        return near + quad(density, edge + 1, edge + FAR, epsabs=0)[0]

    def told(self, edge: float) -> tuple[float, float]:
        """Chance of x > ``edge`` under the truth, and the log-odds of whoever learns only that."""
        truth, other = self.above(edge, self.density), self.above(edge, lambda x: self.density(-x))
        return truth, log(truth / other)

    def upper(self, x):
        """Chance of more than ``x`` under the truth, in closed form."""
        return self.keep * ndtr(self.mu / 2 - x) + (1 - self.keep) * ndtr(-self.mu / 2 - x)

    def other(self, edges):
        """Chances between ``edges`` under the alternative: each from the tail that is short there,
        or small ones cancel to 0.
        """
        left = self.keep * ndtr(edges + self.mu / 2) + (1 - self.keep) * ndtr(edges - self.mu / 2)
        right = self.keep * ndtr(-edges - self.mu / 2) + (1 - self.keep) * ndtr(self.mu / 2 - edges)
        return np.where(edges[:-1] > 0, -np.diff(right), np.diff(left))

    def edge(self, chance: float) -> float:
        """The x above which there is just so much chance."""
        return brentq(lambda x: log(self.upper(x)) - log(chance), -8, 20, xtol=1e-14)


# The figure itself


@given(mus, deltas)
def test_gaussian_closed_form(mu, delta):
    """β(δ) = Φ(Φ⁻¹(δ) - μ)."""
    exact = log(delta) - log_ndtr(ndtri(delta) - mu)
    assert log_odds_at(profiles.gaussian_profile(mu), delta) == pytest.approx(exact, rel=1e-7)


@given(mus, st.floats(0.1, 5), deltas)
def test_joint_closed_form(mu, flip, delta):
    """ln(δ/β(δ)): Neyman and Pearson's event {x > c} of chance δ under the truth."""
    pair = Pair(mu, flip)
    edge = pair.edge(delta)
    other = (1 - pair.keep) * ndtr(mu / 2 - edge) + pair.keep * ndtr(-mu / 2 - edge)
    exact = log(delta / other)
    assert log_odds_at(pair.profile, delta) == pytest.approx(exact, rel=1e-6, abs=1e-9)


@given(mus, flips, deltas)
def test_the_odds_exceed_it_with_no_more_than_the_stated_chance(mu, flip, delta):
    """The theorem, integrated."""
    pair = Pair(mu, flip)
    assert pair.chance(log_odds_at(pair.profile, delta)) <= delta * (1 + 1e-6)


@given(mus, flips, deltas)
def test_somebody_who_is_told_one_bit_reaches_it(mu, flip, delta):
    """Nothing smaller is true: told whether x lies above an edge, with a chance just over δ they
    are as sure, to 10⁻³ of L."""
    pair = Pair(mu, flip)
    odds = log_odds_at(pair.profile, delta)
    chance, reached = pair.told(pair.edge(1.001 * delta))
    assert chance > delta
    assert odds * (1 - 1e-3) - 1e-9 <= reached <= odds * (1 + 1e-6) + 1e-9


@given(st.floats(0.02, 1), st.floats(1e-9, 1e-5))
def test_the_former_figure_is_exceeded_far_more_often(mu, delta):
    """e^ε/(1 + e^ε) + δ: its chance is 3 and more times δ."""
    former = expit(profiles.epsilon_at(profiles.gaussian_profile(mu), delta)) + delta
    assert Pair(mu).chance(float(logit(former))) > 3 * delta


@given(st.floats(0.05, 1.0), st.floats(0.5, 3), st.floats(1e-8, 1e-5))
def test_the_former_figure_fails_through_the_coin(mu, flip, delta):
    pair = Pair(mu, flip)
    spent = profiles.epsilon_at(pair.profile, delta)
    assume(0 < spent < 0.8 * flip)
    assert pair.chance(float(logit(expit(spent) + delta))) > 2 * delta


# Why the tail of the likelihood ratio alone would not do

SIMPLE = "mu²/2 + mu·Φ⁻¹(1 - δ): exact for one Gaussian that is seen whole"


def simple(mu: float, delta: float) -> float:
    return mu * mu / 2 - mu * float(ndtri(delta))


@given(mus, deltas)
def test_one_gaussian_seen_whole_has_a_smaller_figure(mu, delta):
    assert Pair(mu).chance(simple(mu, delta)) == pytest.approx(delta, rel=1e-6)
    assert simple(mu, delta) < log_odds_at(profiles.gaussian_profile(mu), delta)


def stopping_chance(mu: float, odds: float, rounds: int = 64) -> float:
    """Rounds of μ²/T each; a neighbour that sees odds above e^``odds`` keeps all later ones from
    telling anything. Chance under the truth of odds above that at the end, by quadrature over the
    log-odds of those that go on.
    """
    step, (below, h) = mu / sqrt(rounds), np.linspace(odds - 10 * mu, odds, 1501, retstep=True)
    move = normal(below[:, None] - below - step**2 / 2, step) * h
    rise = ndtr(step / 2 - (odds - below) / step)
    density = normal(below - step**2 / 2, step) * h
    stopped = float(ndtr(step / 2 - odds / step))
    for _ in range(rounds - 1):
        stopped, density = stopped + float(rise @ density), move @ density
    return stopped


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-5])
def test_whoever_stops_in_time_exceeds_the_simple_figure_and_not_ours(mu, delta):
    """T adaptive releases of μ in all: their odds may be frozen when they are high."""
    assert stopping_chance(mu, simple(mu, delta), rounds=1) == pytest.approx(delta, rel=1e-6)
    assert stopping_chance(mu, simple(mu, delta)) > 1.25 * delta
    assert stopping_chance(mu, float(log_odds_at(profiles.gaussian_profile(mu), delta))) <= delta


@given(st.floats(0.05, 2), st.floats(1e-8, 1e-4))
def test_whoever_sees_less_exceeds_the_simple_figure(mu, delta):
    """One bit of x, of chance 1.5δ, gives odds above those that x itself exceeds with δ only."""
    edge = mu / 2 - float(ndtri(1.5 * delta))
    chance, reached = Pair(mu).told(edge)
    assert chance == pytest.approx(1.5 * delta, rel=1e-6) and reached > simple(mu, delta)


@example(mu=3.0, flip=inf, delta=1e-9, cuts=[7.0])
@given(mus, flips, deltas, st.lists(st.floats(-6, 9), min_size=1, max_size=8))
def test_no_coarser_view_exceeds_it(mu, flip, delta, cuts):
    """Only the cell of x is told: cells whose odds exceed e^L have at most δ together."""
    pair = Pair(mu, flip)
    odds = log_odds_at(pair.profile, delta)
    edges = np.array([-inf, *sorted(cuts), inf])
    truth, other = -np.diff(pair.upper(edges)), pair.other(edges)
    surer = truth > np.exp(odds) * other * (1 + 1e-9) + 1e-18
    assert truth[surer].sum() <= delta * (1 + 1e-6)


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0.05, 1)), min_size=1, max_size=4),
    st.floats(0.05, 3),
    st.floats(0.01, 0.5),
    st.floats(1e-6, 1e-2),
)
def test_any_prior_that_gives_the_truth_no_more_than_even_odds(others, mu, prior, delta):
    """Several alternatives, each at most μ away, with any weights; other odds before, by Bayes."""
    x, step = np.linspace(-12, 12, 48_001, retstep=True)
    truth = normal(x)
    weights = np.array([weight for _, weight in others])
    apart = np.array([place * mu for place, _ in others])
    other = (weights / weights.sum()) @ normal(x - apart[:, None])
    posterior = prior * truth / (prior * truth + (1 - prior) * other)
    odds = float(log_odds_at(profiles.gaussian_profile(mu), delta))
    limit = prior * exp(odds) / (prior * exp(odds) + 1 - prior)
    assert truth[posterior > limit * (1 + 1e-12)].sum() * step <= delta * (1 + 1e-3) + 1e-12
    assert limit <= expit(odds) + 1e-15


# Noise with an end


def noised(kind: str, shift: float, *, bound: float = 1.0, stddev: float = 1.0, size: int = 1):
    cut = {"kind": kind, "bound": bound, "stddev": stddev, "size": size}
    return ObjectiveNoised(**cut, n_servers=1, label_shift=shift)


@given(st.floats(0.05, 3), st.floats(4, 7), st.floats(1e-7, 1e-2))
def test_truncated_noise(shift, reach, delta):
    """Exactly, in one coordinate: where the other box does not reach, the truth is plain."""
    event = noised("truncated_gaussian", shift, bound=reach)
    odds = float(log_odds_at(objective_profile(event), delta))
    assume(odds < inf)
    bend = min(reach, shift / 2 - odds / shift)  # left of it the Gaussians' odds are larger
    plain = ndtr(shift - reach) - ndtr(-reach)
    chance = max(plain, ndtr(bend) - ndtr(-reach)) / (1 - 2 * ndtr(-reach))
    assert chance <= delta


@given(st.floats(0.01, 0.99), st.floats(1e-6, 1e-2))
def test_uniform_noise_tells_all_with_its_own_chance(part, delta):
    """(0, δ₁): with δ₁ < δ the odds are 1/(1 - δ₁/δ), for whoever is told "in the strip, or so much
    beside it"; with less than δ₁ nothing holds."""
    profile = objective_profile(noised("uniform_box", 2 * part * delta))
    assert log_odds_at(profile, delta) == pytest.approx(-log1p(-part), rel=1e-6, abs=1e-8)
    assert log_odds_at(profile, 0.99 * part * delta) == inf


# The ends


@given(st.floats(0.01, 8), st.floats(0, 1e-2))
def test_randomised_response_never_says_more_than_its_epsilon(epsilon, delta):
    assert log_odds_at(profiles.pure_profile(epsilon), delta) <= epsilon + 1e-7
    assert log_odds_at(profiles.pure_profile(epsilon), 0.0) == pytest.approx(epsilon, abs=1e-7)


@given(st.floats(0.01, 8), st.floats(0, 50), deltas)
def test_training_adds_nothing_to_what_the_device_gave_away(epsilon, mu, delta):
    joint = profiles.joint_profile(epsilon, profiles.gaussian_profile(mu))
    assert certainty_at(joint, delta) <= expit(epsilon) + 1e-7


def test_nothing_and_everything():
    assert certainty_at(profiles.gaussian_profile(0.0), 1e-6) == 0.5
    for blunt in (profiles.gaussian_profile(inf), profiles.nothing_profile):
        assert certainty_at(blunt, 1e-6) == 1.0
    assert log_odds_at(profiles.gaussian_profile(1.0), 0.0) == inf


@given(mus, flips, deltas, st.floats(1.01, 3))
def test_more_noise_and_a_larger_chance_make_it_smaller(mu, flip, delta, factor):
    faint, loud = Pair(factor * mu, flip).profile, Pair(mu, flip).profile
    odds = log_odds_at(faint, delta)
    assert log_odds_at(loud, delta) <= odds + 1e-7
    assert log_odds_at(faint, min(0.5, factor * delta)) <= odds + 1e-7


@given(st.floats(0.02, 6), st.floats(1e-9, 1e-4))
def test_a_limit_bounds_how_sure_a_gaussian_within_it_makes(epsilon, delta):
    sure = limit_certainty(epsilon)
    assert limit_epsilon(sure) == pytest.approx(epsilon, rel=1e-9, abs=1e-9)
    mu = profiles.gaussian_mu(epsilon, delta)
    beyond = (log(sure / (1 - sure)) - mu**2 / 2) / mu  # where the odds exceed those of `sure`
    assert ndtr(-beyond) <= 2 * delta


@given(st.floats(0.02, 6), st.floats(1e-9, 1e-4))
def test_no_smaller_certainty_follows_from_a_limit(epsilon, delta):
    """A view that is (ε, δ) and makes this sure with a chance of 2δ: nothing less is true."""
    sure = limit_certainty(epsilon)
    told, rarely = 2 * delta, 2 * delta * (1 - sure) / sure
    assert told - np.exp(epsilon) * rarely == pytest.approx(delta, rel=1e-9)
    assert told / (told + rarely) == pytest.approx(sure)


def test_many_at_once_are_each_alone():
    mu, flip = np.array([0.0, 0.1, 1.0, inf]), np.array([1.0, 0.5, inf, 2.0])
    many = log_odds_at(profiles.joint_profile(flip, profiles.gaussian_profile(mu)), 1e-6)
    alone = [log_odds_at(Pair(m, e).profile, 1e-6) for m, e in zip(mu, flip, strict=True)]
    assert many.tolist() == pytest.approx(alone, rel=1e-9)


# In the ledger


def sent(stddev: float) -> IterateReleased:
    return IterateReleased(t=1, stddev=stddev, label_sensitivity=0.1, record_sensitivity=0.2)


def eta(stddev: float) -> ObjectiveNoised:
    return noised("truncated_gaussian", 0.2, bound=6 * stddev, stddev=stddev, size=3)


def sure(data: str, *events, adversary: str = "other servers", **settings) -> float:
    return Ledger((events,), **settings).row(data, adversary).certainty


@given(st.floats(0.05, 2), st.floats(0.2, 4), st.floats(1e-8, 1e-3))
def test_lines_tell_the_chance_that_is_true(stddev, flip, delta):
    """Features: one Gaussian. Labels: the same through the coin."""
    events = (LabelFlipped(epsilon=flip), sent(stddev))
    for data, pair in (("features", Pair(0.2 / stddev)), ("label", Pair(0.1 / stddev, flip))):
        odds = float(logit(sure(data, *events, delta=delta)))
        assert pair.chance(odds) <= delta * (1 + 1e-6)
    assert sure("label", *events, adversary="own server") == pytest.approx(expit(flip), rel=1e-12)
    assert sure("features", *events, adversary="own server") == 1.0


@pytest.mark.parametrize("classes", [2, 3])
def test_the_better_of_two_bounds_holds_for_the_same_transcript(classes):
    flip = LabelFlipped(epsilon=3.0)
    for quiet, loud in ((0.2, 3.0), (3.0, 0.2)):
        both = sure("label", flip, eta(quiet), sent(loud), classes=classes)
        alone = [
            sure("label", flip, eta(quiet), sent(0.0), classes=classes),
            sure("label", flip, sent(loud), classes=classes),
        ]
        assert both == pytest.approx(min(alone), rel=1e-9)
    little = LabelFlipped(epsilon=0.1)
    assert sure("label", little, eta(0.01), sent(0.01), classes=classes) <= expit(0.1) + 1e-9


def test_a_second_training_makes_them_surer_and_the_worst_server_speaks():
    flip = LabelFlipped(epsilon=2.0)
    for data in ("features", "label"):
        assert sure(data, flip, sent(0.5), sent(0.5)) > sure(data, flip, sent(0.5))
        both = Ledger(((flip, sent(0.5)), (flip, sent(0.25)))).row(data, "other servers")
        assert both.certainty == sure(data, flip, sent(0.25))
    again = sure("features", sent(0.5), sent(0.5))
    assert again == pytest.approx(sure("features", sent(0.5 / sqrt(2))), rel=1e-9)
