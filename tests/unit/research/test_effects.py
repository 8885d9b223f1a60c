"""Figure 4: what the paper says of R, ρ and ε holds in real trainings on Adult, and the checks
reject curves of which it does not.
"""

import csv
from math import inf, isinf
from pathlib import Path

import numpy as np
import pytest

from pdml.research.paper import Reproduction, convergence_figure, effects, write
from pdml.research.paper.convergence_figure import REFERENCE, Traces
from pdml.research.paper.effects import BOUNDS, DECAYS, EPSILONS, LIMIT, PHASES

T = 60


def silent(done: int, of: int) -> None:
    pass


@pytest.fixture(scope="module")
def outcomes(data_dir: Path) -> dict[str, Reproduction]:
    return {
        f.__name__: f(seeds=2, processes=1, progress=silent)
        for f in (effects.fig4a, effects.fig4b, effects.fig4c)
    }


def test_everything_the_paper_says_of_figure_4_holds(outcomes: dict[str, Reproduction]) -> None:
    claims = [claim for outcome in outcomes.values() for claim in outcome.claims]
    assert len(claims) == 7
    assert [claim.text for claim in claims if not claim.holds] == []


def test_rows_are_complete(outcomes: dict[str, Reproduction]) -> None:
    rounds = convergence_figure.COMMON.rounds
    assert len(outcomes["fig4a"].rows) == (len(BOUNDS) + 1) * rounds
    assert len(outcomes["fig4b"].rows) == (len(DECAYS) + 2) * rounds
    assert len(outcomes["fig4c"].rows) == 2 * len(EPSILONS) + 1
    for outcome in outcomes.values():
        assert all(len(row) == len(outcome.columns) for row in outcome.rows)


def test_figure_4b_shows_what_each_decay_spends(outcomes: dict[str, Reproduction]) -> None:
    """Spending grows round by round; faster fading spends more in the end, and the noiseless curve
    proves nothing.
    """
    spent = {
        decay: [row[6] for row in outcomes["fig4b"].rows if row[0] == decay] for decay in DECAYS
    }
    for values in spent.values():
        assert values == sorted(values)
    ends = [spent[decay][-1] for decay in DECAYS]
    assert ends == sorted(ends, reverse=True) and not isinf(ends[-1])
    assert {row[6] for row in outcomes["fig4b"].rows if row[0] == LIMIT} == {inf}
    assert "features against the other servers" in outcomes["fig4b"].caption


def test_files_hold_the_rows_and_the_pictures(
    outcomes: dict[str, Reproduction], tmp_path: Path
) -> None:
    for outcome in outcomes.values():
        paths = write(outcome, tmp_path)
        table = list(csv.reader(paths["csv"].read_text().splitlines()))
        assert tuple(table[0]) == outcome.columns and len(table) == len(outcome.rows) + 1
        assert paths["png"].stat().st_size > 10_000
    assert all(f"R = {bound:g}" in (tmp_path / "fig4a.svg").read_text() for bound in BOUNDS)
    assert all(f"ρ = {decay:g}" in (tmp_path / "fig4b.svg").read_text() for decay in DECAYS)


# The checks themselves


def traces(risk: np.ndarray) -> Traces:
    return Traces(np.vstack([risk, risk]), np.vstack([risk, risk]), np.vstack([risk, risk]))


def test_higher_needs_every_step_of_the_bound() -> None:
    level = {REFERENCE.name: traces(np.full(T, 0.5))}
    rising = {f"R = {b:g}": traces(np.full(T, 0.51 + 0.01 * k)) for k, b in enumerate(BOUNDS)}
    assert effects.higher(level | rising).holds
    assert not effects.higher(level | rising | {"R = 6": rising["R = 3"]}).holds
    assert not effects.higher(level | rising | {"R = 0": traces(np.full(T, 0.5))}).holds


def test_longer_and_same_end_tell_slow_from_never() -> None:
    t = np.arange(T)
    found = {LIMIT: traces(np.full(T, 0.5))} | {
        f"ρ = {r:g}": traces(0.5 + 0.5 * rate**t)
        for r, rate in zip(DECAYS, (0.5, 0.6, 0.7, 0.8), strict=True)
    }
    assert effects.longer(found).holds and effects.same_end(found).holds
    assert not effects.longer(found | {"ρ = 0.95": found["ρ = 0.9"]}).holds
    assert not effects.same_end(found | {"ρ = 0.95": traces(np.full(T, 0.6))}).holds


def ends(shape: np.ndarray) -> dict[str, np.ndarray]:
    """Two seeds of final risks above a reference of 0.5, Phase 2 a little higher."""
    first, both = PHASES
    return {
        first: np.stack([shape, shape + 1e-5], axis=1),
        both: np.stack([shape, shape + 1e-5], axis=1) + 1e-3,
    }


def test_the_checks_of_figure_4c() -> None:
    eps = np.array(EPSILONS)
    good = ends(0.5 + 1e-3 / eps**2)
    assert (
        effects.falling(good).holds
        and effects.phase2_costs(good).holds
        and effects.close(good, 0.5).holds
        and effects.flat(good).holds
    )
    assert not effects.falling(ends(0.5 + 1e-3 * eps)).holds
    assert not effects.falling(ends(0.5 + 1e-3 / eps**2 + 0.01 * (eps == 0.8))).holds
    assert not effects.flat(ends(0.52 - 0.01 * eps)).holds
    assert not effects.close(good, 0.49).holds
    first, both = PHASES
    assert not effects.phase2_costs({first: good[both], both: good[first]}).holds
