"""`pdml demo`: the whole method on the paper's Twonorm benchmark, with simulated people."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pdml.cli import options, outputs
from pdml.cli.options import TABLES_JSON, flag, option
from pdml.cli.render import console

if TYPE_CHECKING:
    from pdml.simulation.demo_training import Demo

_ROUNDS = "Train in so many rounds.  [default: as the planner finds best]"
_EPSILON = "How private each label is on the device; smaller is more private."


def demo(
    out: Path = option(Path("pdml-demo"), "Folder for report.html and model.json."),
    seed: int = option(1, "Another seed: other people, another graph, other noise.", min=0),
    epsilon: float = option(1.0, _EPSILON),
    features_epsilon: float = options.FEATURES_EPSILON,
    rounds: int | None = option(None, _ROUNDS),
    diagnostics: bool = flag("--diagnostics", "Show unprotected figures too."),
    as_json: bool = TABLES_JSON,
) -> None:
    """See the method work, offline, in a few seconds.

    7,000 simulated people of the Twonorm benchmark flip their label on their own device; ten
    servers that do not trust each other train one model together, with noise on all that they
    send. Shows how accurate it is beside the same training without privacy, and how much anybody
    could learn about a person.

    \b
    Example:
      pdml demo --epsilon 0.5 --out gentle
    """
    from pdml.pages.training_page import write
    from pdml.simulation.demo_training import demo_page, is_demo_model, run_demo

    files = {"report": out / "report.html", "model": out / "model.json"}
    way_out = "the demo replaces only its own files; choose --out"
    outputs.check(list(files.values()), force=is_demo_model(files["model"]), way_out=way_out)
    done = run_demo(
        epsilon=epsilon,
        features_epsilon=features_epsilon,
        rounds=rounds,
        seed=seed,
        diagnostics=diagnostics,
        progress=console.progress,
    )
    page = partial(write, page=demo_page(done))
    outputs.commit({files["report"]: page, files["model"]: done.private.model.save})
    beside = {"accuracy_without_privacy": done.unprotected.accuracy, "files": files}
    console.print_result(as_json, done.private.summary() | beside, lambda: _show(done, files))


def _show(done: "Demo", files: dict[str, Path]) -> None:
    from pdml.cli.render import training_tables
    from pdml.formatting.numbers import sizes

    trained, graph = done.private, done.private.graph
    totals = [
        *training_tables.comparison_rows(trained),
        ("without privacy", done.unprotected.accuracy),
    ]
    console.print_table(
        "How accurate is it?",
        console.accuracy_table(trained.rows, totals, linked=bool(trained.rounds)),
        f"{trained.records:,} simulated people, each with the label flipped with probability "
        f"{done.flip_probability:.0%}; {sizes('server', graph.n, graph.n_edges, trained.rounds)}; "
        f"measured on {trained.test_records:,} fresh records.",
    )
    training_tables.show_training(trained)
    console.print_files(files)
