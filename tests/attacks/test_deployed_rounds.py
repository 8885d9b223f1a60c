"""What is wrong with a deployed node must be found: one mistake in the real code at a time.

Noise comes from the operating system here, so nothing can be repeated. Each attack lives through so
many runs that it misses its mistake with a chance below 1e-6; without one it alarms as rarely.
"""

from math import sqrt

import numpy as np
import pytest

from pdml.audit import deployed_rounds
from pdml.audit.confidence import Finding
from pdml.mechanisms.iterate_noise import IterateNoise
from pdml.mechanisms.objective_noise import ObjectiveNoise
from pdml.mechanisms.randomness import Secure
from pdml.node.storage.journal import Journal
from pdml.training.server import Node

THETA, ETA, FEATURES = "label, mostly theta", "label, mostly eta", "features"
FEW, ENOUGH = 60, 500  # runs of either world: for the width of the noise, and for a bound on ε


def case(name: str) -> deployed_rounds.Case:
    return next(one for one in deployed_rounds.cases() if one.name == name)


def told_apart(name: str, runs: int = ENOUGH) -> Finding:
    chosen = case(name)
    return deployed_rounds.distinguish(chosen, deployed_rounds.lives(chosen, runs))


def width(name: str) -> Finding:
    chosen = case(name)
    return deployed_rounds.width({chosen: deployed_rounds.lives(chosen, FEW)})


def theta_of(change):
    """`IterateNoise.draw` with another standard deviation than it says."""
    real = IterateNoise.draw

    def draw(self, t, out, rng):
        real(self, t, out, rng)
        out *= change(self, t) / self.stddev(t) if self.scale else 1.0
        return out

    return draw


@pytest.mark.parametrize("name", [THETA, ETA, FEATURES])
def test_nothing_is_found_where_nothing_is_wrong(name):
    found = told_apart(name, FEW)
    assert found.passed, found.sentence
    if name != FEATURES:
        measured = width(name)
        assert measured.passed
        assert measured.measured_lower_bound > 0.6  # so that noise 25% too narrow shows


SLIPS = {
    "halved": lambda noise, t: noise.stddev(t) / 2,
    "of the next round": lambda noise, t: noise.stddev(t + 1),
    "not wide enough by a third": lambda noise, t: noise.stddev(t) * 2 / 3,
}


@pytest.mark.parametrize("name", [THETA, ETA])
@pytest.mark.parametrize("slip", SLIPS)
def test_theta_that_is_too_narrow(monkeypatch, slip, name):
    monkeypatch.setattr(IterateNoise, "draw", theta_of(SLIPS[slip]))
    assert not width(name).passed


@pytest.mark.slow
def test_a_quarter_of_theta_shows_in_what_can_be_told_apart(monkeypatch):
    monkeypatch.setattr(IterateNoise, "draw", theta_of(lambda noise, t: noise.stddev(t) / 4))
    assert not told_apart(THETA).passed


def test_the_noise_of_another_server(monkeypatch):
    """The node draws with its neighbour's V, while the ledger counts on its own."""
    real = Node.__init__

    def init(self, server, plan, source, **others):
        real(self, server, plan, source, **others)
        self._noise = plan.iterates(0, server.spec.n_servers)

    monkeypatch.setattr(Node, "__init__", init)
    assert not width(THETA).passed


@pytest.mark.slow
def test_the_same_theta_in_every_round(monkeypatch):
    real, drawn = IterateNoise.draw, {}

    def draw(self, t, out, rng):
        real(self, t, out, rng)
        unit = drawn.setdefault(id(rng), out / (self.stddev(t) or 1.0))
        out[:] = unit * self.stddev(t)
        return out

    monkeypatch.setattr(IterateNoise, "draw", draw)
    assert not told_apart(FEATURES).passed


@pytest.mark.parametrize(
    ("share", "attack"), [(2, width), pytest.param(4, told_apart, marks=pytest.mark.slow)]
)
def test_too_little_eta(monkeypatch, share, attack):
    real = ObjectiveNoise.draw
    less = lambda self, shape, rng: real(self, shape, rng) / share  # noqa: E731
    monkeypatch.setattr(ObjectiveNoise, "draw", less)
    assert not attack(ETA).passed


def test_one_nth_too_much(monkeypatch):
    """η/n² instead of η/n: half of it, as there are two servers."""
    real = Secure.less_share
    less = lambda self, q, eta, n, reach: real(self, q, eta / n, n, reach)  # noqa: E731
    monkeypatch.setattr(Secure, "less_share", less)
    assert not width(ETA).passed


@pytest.mark.slow
def test_a_sensitivity_that_forgets_kappa(monkeypatch):
    """The bound of plain one-hots, used for de-biased ones, 2.7 times as long at ε = 1."""
    plain = "pdml.numerics.admm.labels.label_shift"
    monkeypatch.setattr(plain, lambda epsilon, norm_bound, loss, classes: sqrt(2) * norm_bound)
    assert not told_apart(THETA).passed


def test_debits_skipped_after_the_first_round(monkeypatch):
    real = Journal.commit

    def commit(self, job, t, *, payload, events):
        real(self, job, t, payload=payload, events=events if t == 1 else ())

    monkeypatch.setattr(Journal, "commit", commit)
    found = told_apart(THETA, 5)
    assert not found.passed
    assert found.sentence == "2 different messages were sent, but the journal has rows for 1"


def test_a_message_that_changes_when_it_is_asked_for_again(monkeypatch):
    """Fresh noise on what was released before: whoever asks often enough averages it away."""
    real = Journal.outgoing

    def outgoing(self, job, t):
        values = np.frombuffer(real(self, job, t), dtype="<f8")
        return (values + np.random.default_rng().normal(0, 1e-3, values.shape)).tobytes()

    monkeypatch.setattr(Journal, "outgoing", outgoing)
    found = told_apart(THETA, 5)
    assert not found.passed
    assert "different messages were sent, but the journal has rows for 2" in found.sentence
