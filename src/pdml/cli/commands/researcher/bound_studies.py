"""What `pdml bound` shows beside bounds: graphs compared, and bounds held against real
trainings.
"""

from typing import TYPE_CHECKING

import typer

from pdml.cli.render import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pdml.research.bounds.topology import Advice
    from pdml.research.paper.bounds_check import Case, Comparison


def suggest(
    servers: int, regularization: float, norm_bound: float, seed: int, as_json: bool
) -> None:
    """Graphs for so many servers, fastest first."""
    from pdml.research.bounds import topology

    advice = topology.suggest(
        servers, regularization=regularization, norm_bound=norm_bound, seed=seed
    )
    summary = {"servers": servers, "regularization": regularization}
    graphs = {"graphs": [graph.to_dict() for graph in advice.graphs]}
    console.print_result(as_json, summary | graphs, lambda: _graphs(servers, advice))


def _graphs(servers: int, advice: "Advice") -> None:
    columns = ("graph", "links", "ratio", "gap", "condition", "best a", "beta", "rounds")
    rows = []
    for graph in advice.graphs:
        cells = (graph.spread, graph.gap, graph.ratio, graph.best_ratio, graph.penalty)
        figures = (f"{value:.3g}" for value in cells)
        rows.append((graph.name, str(graph.links), *figures, f"{graph.rounds_per_digit:.0f}"))
    console.print_table(
        f"Which graph for {servers} servers?",
        console.Grid(columns, rows),
        "Fastest first: rounds until an error is a tenth, exact for quadratic risks, at "
        "the beta that is best for it.",
        "Ratio: sigma_max/sigma_min of L+. Gap: the second eigenvalue of L-. Condition: "
        "Lemma 5's, which must exceed 1, and at its best a.",
    )
    console.print_text("", *(f"- {sentence}" for sentence in _sentences(advice)))


def _sentences(advice: "Advice") -> list[str]:
    from pdml.formatting import numbers

    fastest, cheapest, closest = advice.fastest, advice.cheapest, advice.closest
    met, true = advice.meeting(corrected=False), advice.meeting(corrected=True)
    near = f"closest is {closest.name}, at {closest.best_ratio:.3g} where it needs more than 1"
    condition = f"The paper's condition is met by none of them, whatever a; {near}."
    if met:
        condition = f"The paper's condition can be met on: {', '.join(met)}."
    if true and true != met:
        condition += f" With its constants corrected it can be met on: {', '.join(true)}."
    fast, cheap = (numbers.count(graph.links, "link") for graph in (fastest, cheapest))
    pace = [f"{graph.rounds_per_digit:.0f} rounds per digit" for graph in (fastest, cheapest)]
    return [
        condition,
        f"In practice {fastest.name} forgets errors fastest: {pace[0]} over {fast}.",
        f"Fewest links within twice its rounds: {cheapest.name}, {cheap}, {pace[1]}.",
        "A link costs two messages a round, and in Theorem 1, corrected, a server's noise "
        "counts once for each of its links.",
    ]


def check(seed: int, jobs: int, as_json: bool) -> None:
    """Bounds beside what trainings lose."""
    from pdml.research.paper import bounds_check

    with console.progress("Training", unit="case") as progress:
        comparisons = bounds_check.check(seed=seed, processes=jobs, progress=progress)
    holds = all(comparison.holds for comparison in comparisons)
    summary = {"holds": holds, "comparisons": [comparison.to_dict() for comparison in comparisons]}
    console.print_result(as_json, summary, lambda: _comparisons(comparisons))
    if not holds:
        raise typer.Exit(1)


def _comparisons(comparisons: "Sequence[Comparison]") -> None:
    columns = ("training", "statement", "measured", "as printed", "corrected", "sharper")
    rows = []
    for comparison in comparisons:
        bounds = (comparison.corrected.per_classifier, comparison.sharper.per_classifier)
        printed_bound = (
            "-"
            if isinstance(comparison.printed, str)
            else f"{comparison.printed.per_classifier:.3g}"
        )
        cells = (f"{bounds[0]:.3g}{' ' if comparison.in_class else '*'}", f"{bounds[1]:.3g}")
        loose = f"{min(bounds) / comparison.excess:.0f}" if comparison.excess > 0 else "-"
        about = (
            _words(comparison.case),
            comparison.corrected.statement,
            f"{comparison.excess:.3g}",
        )
        rows.append((*about, printed_bound, *cells, loose))
    mark = "* A classifier is longer than W: corrected bounds do not speak of it, sharper ones do."
    console.print_table(
        "Do the bounds hold?",
        console.Grid((*columns, "times the truth"), rows, words=2),
        "Excess risk per classifier, by integration over the known distribution; '-' where the "
        "paper's condition fails.",
        *([] if all(comparison.in_class for comparison in comparisons) else [mark]),
    )
    console.print_text(
        "",
        f"{sum(comparison.holds for comparison in comparisons)} of {len(comparisons)} comparisons "
        "hold.",
    )


def _words(case: "Case") -> str:
    kind = case.objective_noise.replace("_", " ")
    noise = f"R {case.objective_bound:g} {kind}" if case.objective_bound else "no eta"
    return (
        f"{case.data}, {case.servers} x {case.records}, eps {case.epsilon:g}, a "
        f"{case.regularization:g}, {noise}, V {case.noise_scale:g}"
    )
