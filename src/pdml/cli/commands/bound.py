"""`pdml bound`: what theory promises of a training before it starts, term by term, and where it
promises nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdml import _validate
from pdml.cli import options, outputs
from pdml.cli.options import flag, option
from pdml.cli.render import console
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pdml.research.bounds import Promises
    from pdml.research.bounds.topology import Advice
    from pdml.research.paper.bounds_check import BoundsCase, Comparison


MOST_SERVERS = 2000
_EPSILON = "Privacy of each label on its device, the smallest if they differ; inf is none."
_RADIUS = "Classifiers up to this length (W).  [default: the longest best one]"
_MET = {None: "?", True: "yes", False: "no"}


@options.spread_options
def bound(
    consortium: options.ConsortiumOptions = options.NO_CONSORTIUM,
    epsilon: float = option(1.0, _EPSILON),
    radius: float | None = option(None, _RADIUS),
    delta: float = option(0.05, "Chance for which nothing is promised."),
    plan: options.PlanOptions = options.NO_PLAN,
    suggest_topology: bool = flag(
        "--suggest-topology", "Compare graphs for so many servers instead."
    ),
    check: bool = flag("--check", "Train on Twonorm and Waveform and hold the bounds against it."),
    plot: Path | None = option(None, "Draw Corollary 1 as .png or .svg.", "FILE"),
    against: str = option("records", "What to draw it against: records or bound (R)."),
    force: bool = options.FORCE,
    jobs: int = option(0, "Processes of --check; 0: one per core.", min=0),
    as_json: bool = options.TABLES_JSON,
) -> None:
    """Bound how much worse than the best classifier a training can end.

    The paper's Theorems 1 and 2 and Corollaries 1 and 2, as printed, corrected, and sharper than
    the paper, in terms of labels, noise in the objective, noise on what servers send, and
    unfinished optimisation; and the conditions they need.

    \b
    Example:
      pdml bound --records 20000 --servers 5 --features 19 --regularization 1
    Example, which graph helps:
      pdml bound --suggest-topology --servers 16
    """
    from pdml.planning.training_plan import TrainingPlan

    training = TrainingPlan(**plan.settings())
    if check:
        _check_bounds(consortium.seed, jobs, as_json)
        return
    if jobs:
        raise InvalidInput("--jobs belongs to --check: nothing else here takes long")
    if suggest_topology:
        _suggest_graphs(consortium, training.regularization, as_json)
        return
    why = "the graph is judged by its eigenvalues"
    _validate.integer("servers", consortium.servers, low=2, high=MOST_SERVERS, why=why)
    kind = _kind(plot, against, force)
    from pdml.research.bounds import Complexity, Setting, promises

    setup = consortium.read(epsilon)
    if setup.sizes.classes != 2:
        raise InvalidInput(
            f"--label must have two classes, got {setup.sizes.classes}: the theorems are about two"
        )
    setting = Setting.of(training, setup.graph, setup.sizes, radius=radius, delta=delta)
    complexity = None
    if setup.public is not None:
        complexity = Complexity.of(setup.public[0], setting.radius, consortium.seed)
    if plot is not None:
        from pdml.research.bounds.promised import draw

        outputs.commit({plot: lambda path: draw(setting, against, path, kind)})
    guarantees = promises(setting, complexity)
    console.print_result(as_json, guarantees.to_dict(), lambda: _show(guarantees, plot))


def _kind(plot: Path | None, against: str, force: bool) -> str:
    _validate.choice("against", against, ("records", "bound"))
    if plot is None:
        return ""
    kind = plot.suffix.lower().lstrip(".")
    if kind not in ("png", "svg"):
        raise InvalidInput(f"--plot must end in .png or .svg, got {plot.name!r}")
    outputs.check([plot], force=force)
    return kind


def _show(guarantees: "Promises", plot: Path | None) -> None:
    setting = guarantees.setting
    console.print_table(
        "How much worse than the best classifier?",
        _table(guarantees),
        f"Excess risk per classifier, at most this but for a chance of {setting.delta:g}.",
        f"* This bound says nothing here: the loss at w = 0 is {setting.zero_loss:.2f}, and "
        "its excess no more.",
    )
    rows = [
        (precondition.name, _MET[precondition.holds], precondition.reason)
        for precondition in guarantees.preconditions
    ]
    console.print_table(
        "What must hold", console.Grid(("precondition", "met", "why"), rows, words=3)
    )
    console.print_text("", *(f"- {sentence}" for sentence in _remarks(guarantees)))
    if plot is not None:
        console.print_files({"plot": plot})


def _table(guarantees: "Promises") -> console.Grid:
    columns = ("statement", "variant", "labels", "objective", "iterates", "optimisation", "total")
    rows: list[tuple[str, ...]] = []
    for bound in sorted(guarantees.bounds, key=lambda b: b.statement):
        terms = (f"{value / bound.classifiers:.3g}" for value in bound.terms.values())
        mark = " " if guarantees.speaks(bound) else "*"
        short = bound.statement.replace("Corollary", "Cor.").replace("Theorem", "Thm.")
        if short == "Thm. 1" and bound.variant == "corrected" and guarantees.silent:
            rows.append((short, "as printed", *("-" * 4), "- "))
        rows.append((short, bound.variant, *terms, f"{bound.per_classifier:.3g}{mark}"))
    return console.Grid(columns, rows, words=2)


def _remarks(guarantees: "Promises") -> Iterator[str]:
    if guarantees.silent:
        yield (
            "Theorem 1 as printed says nothing here: its condition is not met. The corrected ones "
            "need no condition on the graph."
        )
    yield (
        "Lemma 5 is false as printed, met or not (docs/proofs/errata.md); corrected and "
        "sharper bounds do not use it."
    )
    yield (
        "Corrected bounds are for classifiers no longer than W, which noise cannot promise; the "
        "sharper ones need no such class."
    )
    yield (
        "Theorems 1 and 2 bound the mean of a server's iterates before noise, which stays inside "
        "it; of what it sends they prove nothing."
    )
    for bound in guarantees.bounds:
        if bound.variant == "sharper" and bound.statement in ("Corollary 1", "Theorem 1"):
            promised = f"promises {bound.per_classifier:.3g}"
            says = promised if guarantees.speaks(bound) else "says nothing"
            yield f"{bound.statement}, sharper, {says}; its largest term is {bound.dominant}."
    if guarantees.complexity is not None:
        estimate = guarantees.complexity.sampled
        summary = (
            f"{estimate.value:.4g} by {estimate.draws} draws ({estimate.low:.4g} to "
            f"{estimate.high:.4g})"
        )
        yield (
            f"Rademacher complexity of the public records: {summary}, at most "
            f"{guarantees.complexity.closed_form:.4g}."
        )


def _suggest_graphs(
    consortium: options.ConsortiumOptions, regularization: float, as_json: bool
) -> None:
    """Graphs for so many servers, fastest first."""
    from pdml.research.bounds import topology

    servers, settings = consortium.servers, {"regularization": regularization}
    settings |= {"norm_bound": consortium.norm_bound}
    advice = topology.suggest(servers, **settings, seed=consortium.seed)
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


def _check_bounds(seed: int, jobs: int, as_json: bool) -> None:
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


def _words(case: "BoundsCase") -> str:
    kind = case.objective_noise.replace("_", " ")
    noise = f"R {case.objective_bound:g} {kind}" if case.objective_bound else "no eta"
    return (
        f"{case.data}, {case.servers} x {case.records}, eps {case.epsilon:g}, a "
        f"{case.regularization:g}, {noise}, V {case.noise_scale:g}"
    )
