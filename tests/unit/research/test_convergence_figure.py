"""Figure 3: what the paper says of it holds in real trainings on Adult, and the checks reject
curves of which it does not.
"""

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from pdml.mechanisms.randomness import Simulated
from pdml.numerics.admm import labels, steps
from pdml.numerics.admm.losses import LOGISTIC
from pdml.planning.training_plan import TrainingPlan
from pdml.research.paper import Reproduction, convergence_figure, experiment, write
from pdml.research.paper.convergence_figure import (
    BOTH,
    PHASE1,
    REFERENCE,
    Curve,
    Traces,
    find_convergence_round,
)
from pdml.training import local_engine


def silent(done: int, of: int) -> None:
    pass


@pytest.fixture(scope="module")
def outcomes(data_dir: Path) -> dict[str, Reproduction]:
    made = (convergence_figure.fig3a, convergence_figure.fig3b)
    return {figure.__name__: figure(seeds=2, processes=1, progress=silent) for figure in made}


def test_everything_the_paper_says_of_figure_3_holds(outcomes: dict[str, Reproduction]) -> None:
    claims = [claim for outcome in outcomes.values() for claim in outcome.claims]
    assert len(claims) == 4
    assert [claim.text for claim in claims if not claim.holds] == []


def test_rows_cover_every_curve_and_round(outcomes: dict[str, Reproduction]) -> None:
    for name, drawn in (("fig3a", 2), ("fig3b", 3)):
        outcome = outcomes[name]
        assert len(outcome.rows) == drawn * convergence_figure.COMMON.rounds
        assert all(len(row) == len(outcome.columns) for row in outcome.rows)
    for row in outcomes["fig3a"].rows:
        distance, norms = row[2], row[6]
        assert norms <= distance * (
            1 + 1e-9
        )  # |‖a‖ - ‖b‖| <= ‖a - b‖: the paper's wording is the weaker one


def test_files_are_written_and_the_same_twice(
    outcomes: dict[str, Reproduction], tmp_path: Path
) -> None:
    for outcome in outcomes.values():
        first, second = write(outcome, tmp_path / "a"), write(outcome, tmp_path / "b")
        assert set(first) == {"csv", "png", "svg"}
        for kind in first:
            assert first[kind].read_bytes() == second[kind].read_bytes()
        assert first["png"].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        words = first["svg"].read_text()
        assert PHASE1.name in words and BOTH.name in words


def test_the_result_depends_on_seeds_alone(data_dir: Path) -> None:
    short = replace(convergence_figure.COMMON, rounds=5)
    sets = [
        replace(BOTH, plan=short),
        replace(REFERENCE, plan=replace(convergence_figure.SILENT, rounds=5)),
    ]
    one, two = (
        convergence_figure.measure(sets, seeds=2, processes=n, progress=silent, people=1000)[
            BOTH.name
        ]
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one.risk, two.risk)
    assert one.risk.shape == (2, 5)
    assert (one.risk[0] != one.risk[1]).all()


def test_the_risk_is_the_papers_original_objective(data_dir: Path) -> None:
    """Σ_i [(1/m_i) Σ_j log(1 + e^(-y w_i·x)) + (a/2n)|w_i|²]/n of the releases, from its definition
    and the true labels.
    """
    plan = TrainingPlan(
        rounds=3,
        regularization=1.0,
        penalty=0.1,
        objective_bound=0.0,
        noise_scale=0.1,
        noise_decay=0.9,
    )
    found = convergence_figure.measure(
        [Curve(name="x", plan=plan)], seeds=1, processes=1, progress=silent, people=500
    )["x"]
    x, y = convergence_figure._records(500)
    graph = experiment.graph()
    out = local_engine.train(
        graph,
        local_engine.Run(plan, experiment.members(x, y, graph, 1.0, Simulated(0)), Simulated(0)),
    )
    total = 0.0
    for i in range(10):
        w, own = out.released[i, 0], slice(50 * i, 50 * (i + 1))
        margins = (2 * y[own] - 1) * (x[own] @ w)
        total += np.mean(np.log1p(np.exp(-margins))) + 1.0 / 20 * w @ w
    assert found.risk[0, -1] == pytest.approx(total / 10, rel=1e-9)
    assert found.distance[0, -1] == pytest.approx(out.consensus[-1], rel=1e-9)


def test_the_reference_is_the_minimum_of_the_original_objective(data_dir: Path) -> None:
    """At the minimiser of the pooled objective the gradient vanishes, so nothing near it has less
    risk than where ADMM ends.
    """
    found = convergence_figure.measure(
        [REFERENCE], seeds=1, processes=1, progress=silent, people=1000
    )[REFERENCE.name]
    x, y = convergence_figure._records(1000)
    loss = LOGISTIC
    mean = labels.label_mean(x, labels.codes(y, inf, 2), loss)
    from scipy.optimize import minimize

    best = minimize(
        lambda w: float(steps.risk(x, loss, mean, 0.1, w[None, None])[0]),
        np.zeros(x.shape[1]),
        tol=1e-12,
    )
    assert found.risk[0, -1] == pytest.approx(best.fun, abs=1e-7)


def test_the_ledger_of_a_curve_is_that_of_its_plan() -> None:
    quiet, loud = (
        convergence_figure.ledger(
            Curve(name="x", plan=replace(convergence_figure.COMMON, noise_scale=v, rounds=10))
        )
        for v in (0.2, 0.4)
    )
    assert (
        loud.row("features", "other servers").epsilon
        < quiet.row("features", "other servers").epsilon
    )
    assert quiet.row("label", "own server").epsilon == convergence_figure.EPSILON


# The checks themselves: curves that do not do what the paper says are not waved through.

T = 50


def traces(risk: np.ndarray, distance: np.ndarray | None = None) -> Traces:
    both = np.vstack([risk, risk])
    apart = both if distance is None else np.vstack([distance, distance])
    return Traces(both, apart, apart)


def good() -> dict[str, Traces]:
    t = np.arange(T)
    return {
        REFERENCE.name: traces(0.50 + 0.1 * 0.5**t),
        PHASE1.name: traces(0.51 + 0.1 * 0.5**t, 0.7**t),
        BOTH.name: traces(0.52 + 0.1 * 0.7**t, 0.8**t),
    }


def test_curves_that_do_what_the_paper_says_pass() -> None:
    found = good()
    assert convergence_figure.agreement(
        {name: found[name] for name in (PHASE1.name, BOTH.name)}
    ).holds
    assert (
        convergence_figure.above(found).holds
        and convergence_figure.slower(found).holds
        and convergence_figure.still(found).holds
    )


def test_a_distance_that_stays_is_not_agreement() -> None:
    found = {
        PHASE1.name: good()[PHASE1.name],
        BOTH.name: traces(np.ones(T), 0.8 ** np.arange(T) + 0.01),
    }
    assert not convergence_figure.agreement(found).holds


def test_a_risk_at_or_below_the_reference_is_not_above_it() -> None:
    assert not convergence_figure.above(good() | {PHASE1.name: good()[REFERENCE.name]}).holds


def test_phase_2_must_end_farther_above_than_phase_1_in_every_seed() -> None:
    found = good()
    assert not convergence_figure.above(found | {BOTH.name: found[PHASE1.name]}).holds
    one = replace(
        found[BOTH.name],
        risk=np.vstack([found[BOTH.name].risk[0], found[PHASE1.name].risk[0] - 0.001]),
    )
    assert not convergence_figure.above(found | {BOTH.name: one}).holds


def test_equal_speed_is_not_slower() -> None:
    assert not convergence_figure.slower(good() | {BOTH.name: good()[PHASE1.name]}).holds


def test_a_risk_that_still_moves_has_not_converged() -> None:
    assert not convergence_figure.still(
        good() | {BOTH.name: traces(0.5 + 0.01 * np.sin(np.arange(T)))}
    ).holds


def test_settled_is_the_first_round_from_which_a_curve_stays_near() -> None:
    risk = np.array(
        [[3.0, 1.0, 2.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0], [9.0, 9.0, 9.0, 9.0, 9.0]]
    )
    assert find_convergence_round(risk, np.ones(3), 0.1).tolist() == [4, 1, 6]
