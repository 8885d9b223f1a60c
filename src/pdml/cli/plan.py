"""`pdml plan`: a privacy budget in, the plan that loses the least under it out, and what was
traded.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml._types import IntArray, Matrix
    from pdml.core.graph import Graph
    from pdml.train.planner import Budget, Proposal, Sizes


def plan(
    features_epsilon: Annotated[
        float,
        typer.Option(
            help="The most other servers may learn of features; inf: no limit.  [default: 1]",
            show_default=False,
        ),
    ] = 1.0,
    features_delta: Annotated[float, typer.Option(help="But for this chance.")] = 1e-6,
    labels_epsilon: Annotated[
        float | None,
        typer.Option(help="The same for labels.  [default: --epsilon]", show_default=False),
    ] = None,
    labels_delta: Annotated[float, typer.Option(help="But for this chance.")] = 1e-6,
    epsilon: Annotated[float, typer.Option(help="Privacy of each label on its device.")] = 1.0,
    records: Annotated[
        str,
        typer.Option(
            metavar="M or M,M,...", help="Records per server: one number for all, or one each."
        ),
    ] = "",
    servers: Annotated[int, typer.Option(help="How many servers train together.")] = 10,
    features: Annotated[
        int,
        typer.Option(
            help="Columns after encoding, without the constant one.  [required without --like]"
        ),
    ] = 0,
    classes: Annotated[int, typer.Option(help="Classes of the label.")] = 2,
    norm_bound: Annotated[
        float, typer.Option(help="Longer records are shrunk to this length.")
    ] = 1.0,
    topology: Annotated[
        str, typer.Option(help="random, ring, complete, star, grid or small_world.")
    ] = "random",
    links: Annotated[
        int | None, typer.Option(help="Links of a random topology.  [default: 1.3 per server]")
    ] = None,
    rounds: Annotated[int, typer.Option(help="The most rounds to plan for.")] = 100,
    acceptable: Annotated[
        float, typer.Option(help="Refuse a budget whose predicted error is above this share.")
    ] = 0.75,
    like: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Public records of the same shape to plan with."),
    ] = None,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Their column to predict.")] = "",
    target_accuracy: Annotated[
        float | None,
        typer.Option(
            help="Find the smallest epsilon, of labels and budget alike, that reaches this "
            "on --like."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan's settings as JSON.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Draws the random topology.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
) -> None:
    """Find the training that loses the least accuracy within a privacy budget.

    No record is needed: the plan follows from sizes, and from a synthetic population or public
    records like yours. A budget that cannot be met is refused, with the nearest one that can.

    \b
    Example:
      pdml plan --features-epsilon 1 --labels-epsilon 0.5 --records 4500 \\
          --servers 10 --features 104
    Example, the smallest epsilon for an accuracy on public records:
      pdml plan --target-accuracy 0.9 --like public.csv --label diagnosis
    """
    from pdml.cli import described, outputs, planfile, screen

    if out is not None:
        outputs.check([out], force=force)
    if target_accuracy is not None and like is None:
        raise InvalidInput(
            "--target-accuracy needs --like FILE: accuracy is measured on public records "
            "of the same shape"
        )
    from pdml.train.planner import Budget, propose

    public = None if like is None else described.public_records(like, label, norm_bound)
    if public is not None:
        classes = public[2]
    graph = described.graph_of(topology, servers, links, seed)
    per_server = described.records_of(records, servers, None if public is None else len(public[1]))
    sizes = _sizes(per_server, features, public, epsilon, classes, norm_bound)
    found: dict[str, Any] = {}
    if target_accuracy is not None and public is not None:
        from pdml.train.target import smallest_epsilon

        with screen.working("Training on public records"):
            reached = smallest_epsilon(
                target_accuracy,
                public[0],
                public[1],
                graph,
                records=per_server if records else None,
                classes=classes,
                norm_bound=norm_bound,
            )
        proposal, sizes = reached.proposal, replace(sizes, epsilon=reached.epsilon)
        budget = Budget(features_epsilon=reached.epsilon, labels_epsilon=reached.epsilon)
        found = {
            "epsilon": reached.epsilon,
            "accuracy": reached.accuracy,
            "target_accuracy": target_accuracy,
        }
    else:
        allowed = epsilon if labels_epsilon is None else labels_epsilon
        budget = Budget(
            features_epsilon=features_epsilon,
            features_delta=features_delta,
            labels_epsilon=allowed,
            labels_delta=labels_delta,
        )
        same = None if public is None else public[:2]
        proposal = propose(
            budget, sizes, graph, like=same, acceptable=acceptable, most_rounds=rounds
        )
    if out is not None:
        text = planfile.text(proposal.plan, graph, budget)
        outputs.commit({out: lambda path: _write(path, text)})
    if as_json:
        from pdml.train.planner import ledger

        whole = ledger(proposal.plan, sizes, graph, budget.features_delta)
        links_ = [list(edge) for edge in graph.edges]
        screen.print_json(
            {**found, **proposal.to_dict(), "ledger": whole.to_dict(), "links": links_}
        )
    else:
        _show(proposal, sizes, graph, budget, found, out)


def _write(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")


def _sizes(
    records: tuple[int, ...],
    features: int,
    public: "tuple[Matrix, IntArray, int] | None",
    epsilon: float,
    classes: int,
    norm_bound: float,
) -> "Sizes":
    from pdml.train.planner import Sizes

    width = features + 1 if public is None else int(public[0].shape[1])
    if width < 2:
        raise InvalidInput(
            f"--features must be the number of columns after encoding, at least 1, got {features}"
        )
    if public is not None and features and features + 1 != width:
        raise InvalidInput(
            f"--features must be {width - 1}, as many as --like has after encoding, got {features}"
        )
    return Sizes(
        records=records, width=width, epsilon=epsilon, classes=classes, norm_bound=norm_bound
    )


def _show(
    proposal: "Proposal",
    sizes: "Sizes",
    graph: "Graph",
    budget: "Budget",
    found: dict[str, Any],
    out: Path | None,
) -> None:
    from pdml.cli import screen
    from pdml.report import numbers
    from pdml.train.planner import ledger

    console = screen.console()
    chosen = proposal.plan
    if found:
        console.print(
            f"\nThe smallest epsilon that reaches {found['target_accuracy']:.1%} is "
            f"{found['epsilon']:.3g} ({found['accuracy']:.1%})."
        )

    scales = chosen.noise_scale if isinstance(chosen.noise_scale, tuple) else (chosen.noise_scale,)
    shown = (
        f"{min(scales):.4g}"
        if min(scales) == max(scales)
        else f"{min(scales):.4g} to {max(scales):.4g}, by server"
    )
    settings = screen.new_table("setting", "value")
    for name, value in (
        ("rounds (T)", str(chosen.rounds)),
        ("penalty (beta)", f"{chosen.penalty:g}"),
        ("regularization (a)", f"{chosen.regularization:g}"),
        ("noise scale (V)", shown),
        ("noise decay (rho)", f"{chosen.noise_decay:.4g}"),
        ("objective bound (R)", f"{chosen.objective_bound:.4g}"),
    ):
        settings.add_row(name, value)
    total = (
        f"{sum(sizes.records):,} records, {sizes.width - 1} features, label epsilon "
        f"{sizes.epsilon:.3g}"
    )
    joined = f"{numbers.count(graph.n, 'server')}, {numbers.count(graph.n_edges, 'link')}"
    screen.show(console, "The plan", settings, f"{joined}, {total}.")
    rows = screen.new_table("against other servers", "allowed", "spent", "delta")
    for row in proposal.rows:
        rows.add_row(
            row.data,
            numbers.significant(row.allowed),
            numbers.significant(row.spent),
            f"{row.delta:g}",
        )
    screen.show(console, "The budget", rows)
    lines = ledger(chosen, sizes, graph, budget.features_delta).lines()
    screen.show(console, screen.PEOPLE, screen.privacy_table(lines), screen.even_odds(lines))
    terms = screen.new_table("predicted error from", "share")
    for name, share in (
        ("unfinished optimisation, and the ridge", proposal.forecast.optimisation),
        ("randomised labels, and finitely many records", proposal.forecast.labels),
        ("noise in the objective", proposal.forecast.objective),
        ("noise on what servers send", proposal.forecast.iterates),
        ("all together", proposal.forecast.error),
    ):
        terms.add_row(name, f"{share:.2%}")
    agreement = (
        "the model is predicted to agree with the noiseless one on "
        f"{proposal.forecast.agreement:.1%} of records"
    )
    screen.show(console, "What it costs", terms, f"Of the wanted margins' power; {agreement}.")
    console.print()
    for reason in proposal.reasons:
        console.print(f"- {reason}.")
    if out is not None:
        screen.list_files(console, {"plan": out})
