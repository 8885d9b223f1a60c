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
    told = {"servers": servers, "regularization": regularization}
    graphs = {"graphs": [each.to_dict() for each in advice.graphs]}
    console.tell(as_json, told | graphs, lambda: _graphs(servers, advice))


def _graphs(servers: int, advice: "Advice") -> None:
    columns = ("graph", "links", "ratio", "gap", "condition", "best a", "beta", "rounds")
    rows = []
    for each in advice.graphs:
        cells = (each.spread, each.gap, each.ratio, each.best_ratio, each.penalty)
        shown = (f"{value:.3g}" for value in cells)
        rows.append((each.name, str(each.links), *shown, f"{each.rounds_per_digit:.0f}"))
    console.show(
        f"Which graph for {servers} servers?",
        console.Grid(columns, rows),
        "Fastest first: rounds until an error is a tenth, exact for quadratic risks, at "
        "the beta that is best for it.",
        "Ratio: sigma_max/sigma_min of L+. Gap: the second eigenvalue of L-. Condition: "
        "Lemma 5's, which must exceed 1, and at its best a.",
    )
    console.say("", *(f"- {sentence}" for sentence in _sentences(advice)))


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
    fast, cheap = (numbers.count(each.links, "link") for each in (fastest, cheapest))
    pace = [f"{each.rounds_per_digit:.0f} rounds per digit" for each in (fastest, cheapest)]
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
        found = bounds_check.check(seed=seed, processes=jobs, progress=progress)
    holds = all(each.holds for each in found)
    told = {"holds": holds, "comparisons": [each.to_dict() for each in found]}
    console.tell(as_json, told, lambda: _comparisons(found))
    if not holds:
        raise typer.Exit(1)


def _comparisons(found: "Sequence[Comparison]") -> None:
    columns = ("training", "statement", "measured", "as printed", "corrected", "sharper")
    rows = []
    for each in found:
        bounds = (each.corrected.per_classifier, each.sharper.per_classifier)
        told = "-" if isinstance(each.printed, str) else f"{each.printed.per_classifier:.3g}"
        cells = (f"{bounds[0]:.3g}{' ' if each.in_class else '*'}", f"{bounds[1]:.3g}")
        loose = f"{min(bounds) / each.excess:.0f}" if each.excess > 0 else "-"
        about = (_words(each.case), each.corrected.statement, f"{each.excess:.3g}")
        rows.append((*about, told, *cells, loose))
    mark = "* A classifier is longer than W: corrected bounds do not speak of it, sharper ones do."
    console.show(
        "Do the bounds hold?",
        console.Grid((*columns, "times the truth"), rows, words=2),
        "Excess risk per classifier, by integration over the known distribution; '-' where the "
        "paper's condition fails.",
        *([] if all(each.in_class for each in found) else [mark]),
    )
    console.say("", f"{sum(each.holds for each in found)} of {len(found)} comparisons hold.")


def _words(case: "Case") -> str:
    kind = case.objective_noise.replace("_", " ")
    noise = f"R {case.objective_bound:g} {kind}" if case.objective_bound else "no eta"
    return (
        f"{case.data}, {case.servers} x {case.records}, eps {case.epsilon:g}, a "
        f"{case.regularization:g}, {noise}, V {case.noise_scale:g}"
    )
