"""What `pdml bound` shows beside bounds: graphs compared, and bounds held against real
trainings.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pdml.bounds.topology import Judged
    from pdml.experiments.bounds_check import Case, Comparison


def suggest(
    servers: int, regularization: float, norm_bound: float, seed: int, as_json: bool
) -> None:
    import numpy as np

    from pdml.bounds.topology import candidates, judge
    from pdml.cli import screen
    from pdml.core.losses import LOGISTIC

    curvature = LOGISTIC.curvature_bound * norm_bound**2
    graphs = candidates(servers, np.random.default_rng([seed, 7]))
    judged = [
        judge(name, graph, regularization=regularization, curvature_bound=curvature)
        for name, graph in graphs.items()
    ]
    judged.sort(key=lambda each: each.rounds_per_digit)
    if as_json:
        screen.print_json(
            {
                "servers": servers,
                "regularization": regularization,
                "graphs": [_judged(each) for each in judged],
            }
        )
        return
    columns = ("links", "ratio", "gap", "condition", "best a", "beta", "rounds")
    grid = screen.new_table("graph", *columns)
    for each in judged:
        cells = (each.spread, each.gap, each.ratio, each.best_ratio, each.penalty)
        grid.add_row(
            each.name,
            str(each.links),
            *(f"{value:.3g}" for value in cells),
            f"{each.rounds_per_digit:.0f}",
        )
    out = screen.console()
    screen.show(
        out,
        f"Which graph for {servers} servers?",
        grid,
        "Fastest first: rounds until an error is a tenth, exact for quadratic risks, at "
        "the beta that is best for it.",
        "Ratio: sigma_max/sigma_min of L+. Gap: the second eigenvalue of L-. Condition: "
        "Lemma 5's, which must exceed 1, and at its best a.",
    )
    out.print()
    for sentence in _advice(judged):
        out.print(f"- {sentence}")


def _advice(judged: "list[Judged]") -> list[str]:
    from pdml.report import numbers

    fastest, closest = judged[0], max(judged, key=lambda each: each.best_ratio)
    cheapest = min(
        (each for each in judged if each.contraction**2 <= fastest.contraction),
        key=lambda each: (each.links, each.rounds_per_digit),
    )
    met = [each.name for each in judged if each.best_ratio > 1]
    if met:
        condition = f"The paper's condition can be met on: {', '.join(met)}."
    else:
        nearest = (
            f"closest is {closest.name}, at {closest.best_ratio:.3g} where it needs more than 1"
        )
        condition = f"The paper's condition is met by none of them, whatever a; {nearest}."
    true = [each.name for each in judged if each.true_ratio > 1]
    if true and true != met:
        condition += f" With its constants corrected it can be met on: {', '.join(true)}."
    fast, cheap = (numbers.count(each.links, "link") for each in (fastest, cheapest))
    pace = [f"{each.rounds_per_digit:.0f} rounds per digit" for each in (fastest, cheapest)]
    return [
        condition,
        f"In practice {fastest.name} forgets errors fastest: {pace[0]} over {fast}.",
        f"Fewest links within twice its rounds: {cheapest.name}, {cheap}, {pace[1]}.",
        "A link costs two messages a round, and in Theorem 1, corrected, a server's noise "
        "counts once for each of its links.",
    ]


def _judged(each: "Judged") -> dict[str, Any]:
    return {
        "graph": each.name,
        "links": each.links,
        "sigma_ratio": each.spread,
        "gap": each.gap,
        "condition": each.ratio,
        "condition_best": each.best_ratio,
        "condition_best_corrected": each.true_ratio,
        "penalty": each.penalty,
        "contraction": each.contraction,
        "rounds_per_digit": None
        if each.rounds_per_digit == float("inf")
        else each.rounds_per_digit,
        "edges": [list(edge) for edge in each.graph.edges],
    }


def check(seed: int, jobs: int, as_json: bool) -> None:
    from pdml.cli import screen
    from pdml.experiments.bounds_check import CASES, compare
    from pdml.train.engines.jobs import spread

    with screen.progress("Training", unit="case") as progress:
        cases = spread(compare, [(case, seed) for case in CASES], jobs, progress)
    found = [each for case in cases for each in case]
    failed = [each for each in found if not each.holds]
    if as_json:
        screen.print_json({"holds": not failed, "comparisons": [_compared(each) for each in found]})
    else:
        grid = screen.new_table(
            "training",
            "statement",
            "measured",
            "as printed",
            "corrected",
            "sharper",
            "times the truth",
            words=2,
        )
        for each in found:
            bounds = (each.corrected.per_classifier, each.sharper.per_classifier)
            told = "-" if isinstance(each.printed, str) else f"{each.printed.per_classifier:.3g}"
            cells = (f"{bounds[0]:.3g}{' ' if each.in_class else '*'}", f"{bounds[1]:.3g}")
            loose = f"{min(bounds) / each.excess:.0f}" if each.excess > 0 else "-"
            grid.add_row(
                _words(each.case),
                each.corrected.statement,
                f"{each.excess:.3g}",
                told,
                *cells,
                loose,
            )
        out = screen.console()
        words = (
            "Excess risk per classifier, by integration over the known distribution; "
            "'-' where the paper's condition fails."
        )
        mark = (
            "* A classifier is longer than W: corrected bounds do not speak of it, sharper ones do."
        )
        screen.show(
            out,
            "Do the bounds hold?",
            grid,
            words,
            *([] if all(each.in_class for each in found) else [mark]),
        )
        out.print()
        out.print(f"{len(found) - len(failed)} of {len(found)} comparisons hold.")
    if failed:
        raise typer.Exit(1)


def _words(case: "Case") -> str:
    noise = (
        f"R {case.objective_bound:g} {case.objective_noise.replace('_', ' ')}"
        if case.objective_bound
        else "no eta"
    )
    return (
        f"{case.data}, {case.servers} x {case.records}, eps {case.epsilon:g}, a "
        f"{case.regularization:g}, {noise}, V {case.noise_scale:g}"
    )


def _compared(each: "Comparison") -> dict[str, Any]:
    return {
        "case": asdict(each.case),
        "statement": each.corrected.statement,
        "excess": each.excess,
        "stderr": each.stderr,
        "longest": each.longest,
        "radius": each.radius,
        "in_class": each.in_class,
        "printed": each.printed if isinstance(each.printed, str) else each.printed.per_classifier,
        "corrected": each.corrected.per_classifier,
        "sharper": each.sharper.per_classifier,
        "holds": each.holds,
    }
