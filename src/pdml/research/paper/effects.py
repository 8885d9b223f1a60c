"""Figure 4: what the bound R (`effects_M`), the decay ρ (`effects_rho`) and the label ε
(`effects_epsilon`) do to the empirical risk.
"""

from dataclasses import replace
from math import inf, isinf
from typing import TYPE_CHECKING

import numpy as np

from pdml._types import Array
from pdml.accounting.kinds import Data
from pdml.research.paper import convergence_figure, drawing, experiment
from pdml.research.paper.convergence_figure import (
    COMMON,
    REFERENCE,
    SILENT,
    Curve,
    Traces,
    find_convergence_round,
)
from pdml.research.paper.drawing import MUTED, PAPER
from pdml.research.paper.reproduction import Claim, Progress, Reproduction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOUNDS = (0.0, 1.0, 3.0, 6.0, 9.0)  # R
DECAYS = (0.6, 0.8, 0.9, 0.95)  # ρ
EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5)
PHASES = {"Phase 1 only": SILENT, "Phases 1 and 2": COMMON}
_FIRST, _BOTH = PHASES
LIMIT = "without noise on releases"  # where every ρ leads to: the same labels and η, V = 0
LARGE = 0.6  # the paper: beyond it the risk is close to the reference

NEAR = 0.01  # of the risk: what "close" and "converged" mean
FLAT = 0.1  # of the fall from the smallest ε to `LARGE`: how much more the risk may fall beyond

_ADULT = (
    f"Adult, {convergence_figure.PEOPLE:,} people at ten servers with 13 links; a = "
    f"{COMMON.regularization:g}, β = {COMMON.penalty:g}"
)
_RISK = "Empirical risk on the true labels (the paper's original objective divided by n)"


def fig4a(*, seeds: int | None, processes: int, progress: Progress) -> Reproduction:
    """The effect of the bound R of the objective noise, at ρ = 0.8."""
    count = seeds or convergence_figure.SEEDS
    sets = [
        Curve(name=_bound(bound), plan=replace(COMMON, objective_bound=bound)) for bound in BOUNDS
    ]
    curve_traces = convergence_figure.measure(
        [REFERENCE, *sets], seeds=count, processes=processes, progress=progress
    )
    return Reproduction(
        name="fig4a",
        title="Figure 4(a): the larger R, the higher the risk ends",
        caption=(
            f"{_RISK}, round by round, for noise η in the objective uniform in the ball of "
            f"radius R: mean over {count} seeds, pale: lowest "
            "to highest. Dashed: the reference, general ADMM on the original data. "
            f"{_ADULT}; labels at ε = {convergence_figure.EPSILON:g}, "
            f"V = {COMMON.noise_scale:g}, ρ = {COMMON.noise_decay:g}. The right side shows "
            "the same above the reference, logarithmic."
        ),
        columns=("R", "round", "risk_mean", "risk_sd", "risk_min", "risk_max"),
        rows=_by_round(
            curve_traces,
            {curve.name: bound for curve, bound in zip(sets, BOUNDS, strict=True)}
            | {REFERENCE.name: "reference"},
        ),
        claims=(higher(curve_traces),),
        draw=lambda: _draw_bounds(curve_traces),
    )


def higher(curve_traces: dict[str, Traces]) -> Claim:
    """The larger the bound, the larger the gap to the reference."""
    reference = curve_traces[REFERENCE.name].risk[:, -1]
    # (R, seeds)
    gaps = np.array([curve_traces[_bound(bound)].risk[:, -1] - reference for bound in BOUNDS])
    return Claim(
        text="the larger R, the larger the gap between the final risk and the reference, "
        "in every seed",
        holds=bool((np.diff(gaps, axis=0) > 0).all() and (gaps > 0).all()),
        measured="mean gap "
        + ", ".join(
            f"{gap.mean():.5f} at R = {bound:g}" for gap, bound in zip(gaps, BOUNDS, strict=True)
        ),
    )


def fig4b(*, seeds: int | None, processes: int, progress: Progress) -> Reproduction:
    """The effect of the decay ρ of the iterate noise, at R = 1."""
    count = seeds or convergence_figure.SEEDS
    sets = [Curve(name=_decay(decay), plan=replace(COMMON, noise_decay=decay)) for decay in DECAYS]
    limit = Curve(name=LIMIT, plan=replace(COMMON, noise_scale=0.0))
    curve_traces = convergence_figure.measure(
        [REFERENCE, limit, *sets], seeds=count, processes=processes, progress=progress
    )
    spent = {curve.name: convergence_figure.ledger(curve).epsilons(Data.FEATURES) for curve in sets}
    values: dict[str, float | str] = {
        curve.name: decay for curve, decay in zip(sets, DECAYS, strict=True)
    }
    rows = _by_round(curve_traces, values | {REFERENCE.name: "reference", LIMIT: LIMIT})
    epsilons = [
        spent[name][t] if name in spent else inf
        for name, traces in curve_traces.items()
        for t in range(traces.risk.shape[1])
    ]
    rounds = {
        name: float(
            find_convergence_round(
                curve_traces[name].risk, curve_traces[LIMIT].risk[:, -1], NEAR
            ).mean()
        )
        for name in spent
    }
    costs = "; ".join(
        f"{name}: {_epsilon(spent[name][min(round(rounds[name]), COMMON.rounds) - 1])} by "
        f"then, {_epsilon(spent[name][-1])} at the end"
        for name in spent
    )
    return Reproduction(
        name="fig4b",
        title="Figure 4(b): the larger ρ, the longer the way",
        caption=(
            f"{_RISK}, round by round, for noise θ(t) on releases whose variance falls by ρ "
            f"each round: mean over {count} seeds, pale: "
            f"lowest to highest. Dashed: the reference. {_ADULT}; labels at ε = "
            f"{convergence_figure.EPSILON:g}, R = {COMMON.objective_bound:g}, "
            f"V = {COMMON.noise_scale:g}. Dots: where a curve comes within {NEAR:.0%} of "
            "its limit for good. What the ledger proves for "
            f"features against the other servers (ε at δ = {experiment.DELTA:g}): {costs}."
        ),
        columns=(
            "rho",
            "round",
            "risk_mean",
            "risk_sd",
            "risk_min",
            "risk_max",
            "features_epsilon",
        ),
        rows=tuple((*row, epsilon) for row, epsilon in zip(rows, epsilons, strict=True)),
        claims=(longer(curve_traces), same_end(curve_traces)),
        draw=lambda: _draw_decays(curve_traces),
    )


def longer(curve_traces: dict[str, Traces]) -> Claim:
    """The larger the decay rate, the more iterations."""
    limit = curve_traces[LIMIT].risk[:, -1]
    rounds = np.array(
        [find_convergence_round(curve_traces[_decay(decay)].risk, limit, NEAR) for decay in DECAYS]
    )
    return Claim(
        text=f"the larger ρ, the more rounds until the risk stays within {NEAR:.0%} of its "
        "limit, in every seed",
        holds=bool((np.diff(rounds, axis=0) > 0).all()),
        measured=", ".join(
            f"{durations.mean():.1f} rounds at ρ = {decay:g}"
            for durations, decay in zip(rounds, DECAYS, strict=True)
        ),
    )


def same_end(curve_traces: dict[str, Traces]) -> Claim:
    """Given enough iterations the final risk is the same."""
    limit = curve_traces[LIMIT].risk[:, -1]
    apart = {
        decay: float(np.abs(curve_traces[_decay(decay)].risk[:, -1] / limit - 1).max())
        for decay in DECAYS
    }
    return Claim(
        text=f"all ρ end at the same risk, within {NEAR:.0%}, in every seed",
        holds=all(value <= NEAR for value in apart.values()),
        measured="largest difference "
        + ", ".join(f"{value:.1e} at ρ = {decay:g}" for decay, value in apart.items()),
    )


def fig4c(*, seeds: int | None, processes: int, progress: Progress) -> Reproduction:
    """The final risk against the label ε, with and without Phase 2."""
    count = seeds or convergence_figure.SEEDS
    sets = [
        Curve(name=_point(e, phase), plan=plan, epsilon=e)
        for phase, plan in PHASES.items()
        for e in EPSILONS
    ]
    curve_traces = convergence_figure.measure(
        [REFERENCE, *sets], seeds=count, processes=processes, progress=progress, every_round=False
    )
    # (ε, seeds)
    ends = {
        phase: np.array([curve_traces[_point(e, phase)].risk[:, -1] for e in EPSILONS])
        for phase in PHASES
    }
    reference = float(curve_traces[REFERENCE.name].risk[:, -1].mean())
    rows = [
        (phase, e, *_summary(values))
        for phase in PHASES
        for e, values in zip(EPSILONS, ends[phase], strict=True)
    ]
    return Reproduction(
        name="fig4c",
        title="Figure 4(c): the final risk falls with ε, and hardly any more beyond 0.6",
        caption=(
            f"{_RISK} after {COMMON.rounds} rounds, against the ε of the labels: mean over "
            f"{count} seeds, pale: lowest to highest. Dashed: "
            f"the reference, general ADMM on the original data. {_ADULT}; Phase 2: η "
            "uniform in the ball of radius "
            f"R = {COMMON.objective_bound:g}, V = {COMMON.noise_scale:g}, ρ = "
            f"{COMMON.noise_decay:g}."
        ),
        columns=("curve", "epsilon", "risk_mean", "risk_sd", "risk_min", "risk_max"),
        rows=(*rows, (REFERENCE.name, inf, reference, 0.0, reference, reference)),
        claims=(falling(ends), phase2_costs(ends), close(ends, reference), flat(ends)),
        draw=lambda: _draw_epsilons(ends, reference),
    )


def falling(ends: dict[str, Array]) -> Claim:
    """The risk decreases with ε; neighbouring ε differ by less than their luck, so each step may
    rise by two standard errors.
    """
    worst = max(
        float((_step(values).mean(axis=1) / np.maximum(_error(_step(values)), 1e-300)).max())
        for values in ends.values()
    )
    total = {phase: float((values[0] - values[-1]).min()) for phase, values in ends.items()}
    return Claim(
        text="the final risk falls as ε grows: from the smallest ε to the largest in every "
        "seed, and no step rises by two standard errors",
        holds=worst < 2 and all(value > 0 for value in total.values()),
        measured=f"largest step {worst:+.1f} standard errors; least fall "
        + ", ".join(f"{value:.4f} ({phase})" for phase, value in total.items()),
    )


def phase2_costs(ends: dict[str, Array]) -> Claim:
    """Phase 2 leads to larger risks for all ε."""
    more = ends[_BOTH] - ends[_FIRST]
    return Claim(
        text="Phase 2 ends higher at every ε, in every seed",
        holds=bool((more > 0).all()),
        measured=f"by {more.min():.4f} to {more.max():.4f}",
    )


def close(ends: dict[str, Array], reference: float) -> Claim:
    """For ε > 0.6 the risks are close to the reference."""
    large = np.array(EPSILONS) > LARGE
    gaps = {
        phase: float((values[large].max() - reference) / reference)
        for phase, values in ends.items()
    }
    return Claim(
        text=f"for ε > {LARGE:g} the mean final risk is within {NEAR:.0%} of the reference",
        holds=all(
            float((values[large].mean(axis=1) / reference - 1).max()) <= NEAR
            for values in ends.values()
        ),
        measured=f"reference {reference:.4f}; largest gap of any seed "
        + ", ".join(f"{gap:.2%} ({phase})" for phase, gap in gaps.items()),
    )


def flat(ends: dict[str, Array]) -> Claim:
    """... and do not significantly change."""
    edge = EPSILONS.index(LARGE)
    shares = {}
    for phase, values in ends.items():
        mean = values.mean(axis=1)
        shares[phase] = float((mean[edge] - mean[-1]) / (mean[0] - mean[edge]))
    return Claim(
        text=f"beyond ε = {LARGE:g} the risk falls by at most {FLAT:.0%} of what it fell before",
        holds=all(share <= FLAT for share in shares.values()),
        measured=", ".join(f"{share:.1%} ({phase})" for phase, share in shares.items()),
    )


def _step(values: Array) -> Array:
    return np.asarray(np.diff(values, axis=0))


def _error(values: Array) -> Array:
    """The standard error of each row's mean."""
    return np.asarray(values.std(axis=1, ddof=1) / np.sqrt(values.shape[1]))


def _bound(bound: float) -> str:
    return f"R = {bound:g}"


def _decay(decay: float) -> str:
    return f"ρ = {decay:g}"


def _point(epsilon: float, phase: str) -> str:
    return f"{phase}, ε = {epsilon:g}"


def _epsilon(value: float) -> str:
    return "none" if isinf(value) else f"ε = {value:.3g}"


def _summary(values: Array) -> tuple[float, float, float, float]:
    return float(values.mean()), float(values.std(ddof=1)), float(values.min()), float(values.max())


def _by_round(
    curve_traces: dict[str, Traces], values: dict[str, float | str]
) -> tuple[tuple[float | str, ...], ...]:
    return tuple(
        (values[name], t + 1, *_summary(traces.risk[:, t]))
        for name, traces in curve_traces.items()
        for t in range(traces.risk.shape[1])
    )


def _draw_bounds(curve_traces: dict[str, Traces]) -> "Figure":
    level = curve_traces[REFERENCE.name].risk[:, -1:]
    names = [
        ("Round", "Empirical risk per server"),
        ("Round", "The same above the reference, logarithmic"),
    ]
    with drawing.plots(
        "fig4a", "A larger bound R ends higher (ρ = 0.8)", names, size=(10.4, 4.5)
    ) as (figure, (left, right)):
        ends = []
        for bound, colour in zip(BOUNDS, drawing.shades(len(BOUNDS)), strict=True):
            risk = curve_traces[_bound(bound)].risk
            rounds = np.arange(1, risk.shape[1] + 1)
            gap = np.where(risk > level, risk - level, np.nan)
            drawing.band(left, rounds, risk, colour, "_")
            drawing.band(right, rounds, gap, colour, "_")
            ends.append((float(gap[:, -1].mean()), _bound(bound)))
        drawing.reference(left, float(level.mean()), "reference: ADMM on the original data")
        right.set_yscale("log")
        for axes in (left, right):
            axes.set_xlim(0, rounds[-1])
        left.set_ylim(0.55, None)
        drawing.legend(figure)
        drawing.end_labels(right, rounds[-1], ends)
        return figure


def _draw_decays(curve_traces: dict[str, Traces]) -> "Figure":
    level, limit = (
        float(curve_traces[REFERENCE.name].risk[:, -1].mean()),
        curve_traces[LIMIT].risk[:, -1],
    )
    with drawing.plots(
        "fig4b", "A larger decay ρ takes longer (R = 1)", [("Round", "Empirical risk per server")]
    ) as (figure, (axes,)):
        for decay, colour in zip(DECAYS, drawing.shades(len(DECAYS)), strict=True):
            risk = curve_traces[_decay(decay)].risk
            drawing.band(axes, np.arange(1, risk.shape[1] + 1), risk, colour, _decay(decay))
            t = int(find_convergence_round(risk, limit, NEAR).mean().round())
            if t <= risk.shape[1]:
                axes.plot(
                    [t],
                    [risk[:, t - 1].mean()],
                    "o",
                    color=colour,
                    markeredgecolor=PAPER,
                    markersize=9,
                    zorder=4,
                )
        drawing.reference(axes, level, "reference")
        axes.set_xlim(0, risk.shape[1])
        drawing.legend(figure, columns=3)
        return figure


def _draw_epsilons(ends: dict[str, Array], reference: float) -> "Figure":
    names = [("ε of the labels", "Final empirical risk per server")]
    with drawing.plots("fig4c", "Beyond ε = 0.6 the final risk hardly changes", names) as (
        figure,
        (axes,),
    ):
        for (phase, values), colour in zip(ends.items(), drawing.SERIES, strict=True):
            drawing.band(axes, np.array(EPSILONS), values.T, colour, phase, marker="o")
        drawing.reference(axes, reference, "reference")
        axes.axvline(LARGE, color=MUTED, linewidth=1, linestyle=(0, (1, 3)))
        axes.set_xlim(0, max(EPSILONS) + 0.05)
        drawing.legend(figure)
        return figure
