"""The audit must find what is wrong: each test plants one mistake in the real code and expects a
violated claim.

All in one process (``jobs=1``), because a patch does not travel to others. An unmodified program
would fail one of these assertions' opposites with a chance below 1e-6 per finding (see
test_clean.py).
"""

from dataclasses import replace

import numpy as np
import pytest

from pdml.accounting import ledger
from pdml.accounting.events import IterateReleased, group_events
from pdml.audit import ATTACKS, Effort, Finding
from pdml.audit.rounds_attacks import DELTA, MU, attack, flip_first, label_victim
from pdml.audit.victim import Victim
from pdml.mechanisms.iterate_noise import IterateNoise
from pdml.mechanisms.label_flip import LabelFlip
from pdml.mechanisms.objective_noise import ObjectiveNoise
from pdml.numerics.admm import kernel, solver
from pdml.numerics.admm.solver import PrimalSolver
from pdml.planning.training_plan import TrainingPlan
from pdml.training.server import Node

EFFORT = Effort(transcripts=1_500, labels=100_000, pairs=200)


def violated(*attacks: str) -> set[str]:
    return {
        finding.name
        for name in attacks
        for finding in ATTACKS[name](EFFORT, 7)
        if not finding.passed
    }


def label(victim: Victim) -> Finding:
    """One case of `label_inference`."""
    return attack("label", victim, flip_first(victim), "label", DELTA, EFFORT, 7)


def theta() -> Finding:
    return label(label_victim().with_noise(MU, "label"))


def eta() -> Finding:
    return label(label_victim().with_objective_noise(MU))


def scaled_draw(change):
    """`IterateNoise.draw` with another standard deviation than it says."""
    real = IterateNoise.draw

    def draw(self, t, out, rng):
        real(self, t, out, rng)
        out *= change(self.stddev(t)) / self.stddev(t) if self.scale else 1.0
        return out

    return draw


def test_halved_iterate_noise(monkeypatch):
    monkeypatch.setattr(IterateNoise, "draw", scaled_draw(lambda sigma: sigma / 2))
    assert not theta().passed
    assert violated("record_membership", "gradient_difference") == {
        "record_membership",
        "gradient_difference, theta on",
    }


def test_variance_used_as_standard_deviation(monkeypatch):
    monkeypatch.setattr(IterateNoise, "draw", scaled_draw(lambda sigma: sigma**2))
    assert not theta().passed
    assert violated("record_membership", "gradient_difference") == {
        "record_membership",
        "gradient_difference, theta on",
    }


def test_the_same_theta_in_every_round(monkeypatch):
    real = IterateNoise.draw
    drawn = {}

    def draw(self, t, out, rng):
        if t == 1:
            real(self, 1, out, rng)
            drawn["unit"] = out / (self.scale or 1.0)
        out[:] = drawn["unit"] * self.stddev(t)
        return out

    monkeypatch.setattr(IterateNoise, "draw", draw)
    assert not theta().passed
    assert violated("record_membership") == {"record_membership"}


def test_the_same_theta_in_every_run(monkeypatch):
    real = IterateNoise.draw
    monkeypatch.setattr(
        IterateNoise, "draw", lambda self, t, out, rng: real(self, t, out, np.random.default_rng(t))
    )
    assert not theta().passed


def test_the_same_eta_in_every_run(monkeypatch):
    real = ObjectiveNoise.draw
    monkeypatch.setattr(
        ObjectiveNoise, "draw", lambda self, shape, rng: real(self, shape, np.random.default_rng(1))
    )
    assert not eta().passed


def test_halved_objective_noise(monkeypatch):
    real = ObjectiveNoise.draw
    monkeypatch.setattr(ObjectiveNoise, "draw", lambda self, shape, rng: real(self, shape, rng) / 2)
    assert not eta().passed


def skip_last_round(monkeypatch):
    real = TrainingPlan.events

    def events(self, place):
        return tuple(
            event
            for event in real(self, place)
            if not isinstance(event, IterateReleased) or event.t < self.rounds
        )

    monkeypatch.setattr(TrainingPlan, "events", events)


def test_a_skipped_ledger_line_is_missed_by_its_number(monkeypatch):
    skip_last_round(monkeypatch)
    finding = theta()
    assert not finding.passed
    assert finding.sentence == "3 messages were sent, but the ledger has rows for 2"


def test_a_skipped_ledger_line_shows_in_the_measured_bound_too(monkeypatch):
    skip_last_round(monkeypatch)
    victim = label_victim()
    victim = replace(victim, plan=replace(victim.plan, noise_decay=0.3)).with_noise(3.0, "label")
    finding = label(victim)
    assert finding.measured_lower_bound > finding.claim


def test_half_the_flip_probability(monkeypatch):
    real = LabelFlip.threshold.fget
    monkeypatch.setattr(LabelFlip, "threshold", property(lambda self: real(self) // 2))
    assert len(violated("label_flips")) == 4
    victim = replace(label_victim().with_noise(2.5, "label"), randomise=True)
    assert not label(victim).passed


@pytest.mark.parametrize("what", ["iterate", "dual"])
def test_something_without_noise_sent_along(monkeypatch, what):
    """A message of two rows: the release, and the un-noised iterate or the dual variable made of
    it.
    """
    real = Node.step

    def step(self, state, heard):
        seen = []
        solve = self.solver.solve
        self.solver.solve = lambda *given: seen.append(solve(*given)) or seen[-1]
        after, released = real(self, state, heard)
        self.solver.solve = solve
        point = seen[0][0][0]
        dual = after.dual + self.plan.penalty * (self.server.spec.degree * point - sum(heard))
        return after, np.vstack([released, point if what == "iterate" else dual])

    monkeypatch.setattr(Node, "step", step)
    assert not theta().passed


@pytest.mark.parametrize("factor", [3, 100])
def test_a_solver_that_ignores_the_tolerance(monkeypatch, factor):
    real = PrimalSolver.solve

    def solve(self, target, tolerance):
        point, reached = real(self, target, factor * tolerance)
        return point, np.minimum(reached, tolerance)

    monkeypatch.setattr(PrimalSolver, "solve", solve)
    found = violated("sensitivity")
    assert "sensitivity: tolerance" in found
    if factor == 100:
        assert "sensitivity: movement" in found


def test_a_certificate_that_trusts_its_own_arithmetic(monkeypatch):
    """As it once was: a step whose length cancels to 0 counts as none, and H as exact."""
    real = solver.rounding_limits

    def limits(*given):
        return real(*given)._replace(slack=0.0, nudge=0.0, per_step=0.0, per_anchor=0.0)

    def spread(moment, step, scratch, slack):
        parts = step.reshape(-1, len(moment))
        return np.sqrt(max(0.0, np.vdot(parts @ moment, parts)))

    monkeypatch.setattr(solver, "rounding_limits", limits)
    monkeypatch.setattr(kernel, "spread", spread)
    assert violated("sensitivity") == {"sensitivity: movement", "sensitivity: tolerance"}


def test_a_sensitivity_that_forgets_kappa(monkeypatch):
    """The bound of plain labels, used for de-biased ones."""
    monkeypatch.setattr(
        "pdml.numerics.admm.labels.record_shift",
        lambda epsilon, norm_bound, loss, classes: 2 * norm_bound,
    )
    assert "sensitivity: movement" in violated("sensitivity")


def test_a_second_training_that_is_not_charged(monkeypatch):
    real = group_events
    monkeypatch.setattr(ledger, "group_events", lambda events: real(tuple(dict.fromkeys(events))))
    assert not label(replace(label_victim().with_noise(MU, "label"), trainings=4)).passed
