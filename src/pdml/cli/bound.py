"""`pdml bound`: what theory promises of a training before it starts, term by term, and where it
promises nothing.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdml import _validate
from pdml.cli import settings
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.bounds import Bound, Setting
    from pdml.bounds.rademacher import Sampled

MOST_SERVERS = 2000


def bound(
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
    epsilon: Annotated[
        float,
        typer.Option(
            help="Privacy of each label on its device, the smallest if they differ; inf is none."
        ),
    ] = 1.0,
    norm_bound: Annotated[float, typer.Option(help="Longest a record may be.")] = 1.0,
    radius: Annotated[
        float | None,
        typer.Option(help="Classifiers up to this length (W).  [default: the longest best one]"),
    ] = None,
    delta: Annotated[float, typer.Option(help="Chance for which nothing is promised.")] = 0.05,
    topology: Annotated[
        str, typer.Option(help="random, ring, complete, star, grid or small_world.")
    ] = "random",
    links: Annotated[
        int | None, typer.Option(help="Links of a random topology.  [default: 1.3 per server]")
    ] = None,
    rounds: settings.Rounds = None,
    penalty: settings.Penalty = None,
    regularization: settings.Regularization = None,
    objective_bound: settings.ObjectiveBound = None,
    objective_noise: settings.ObjectiveNoise = None,
    noise_scale: settings.NoiseScale = None,
    noise_decay: settings.NoiseDecay = None,
    like: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Public records: their number, width and complexity."),
    ] = None,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Their column to predict.")] = "",
    suggest_topology: Annotated[
        bool, typer.Option("--suggest-topology", help="Compare graphs for so many servers instead.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Train on Twonorm and Waveform and hold the bounds against it."
        ),
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw Corollary 1 as .png or .svg.")
    ] = None,
    against: Annotated[
        str, typer.Option(help="What to draw it against: records or bound (R).")
    ] = "records",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Draws random graphs, signs and the trainings of --check.")
    ] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="Processes of --check; 0: one per core.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
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
    given: dict[str, Any] = {
        name: value
        for name, value in (
            ("rounds", rounds),
            ("penalty", penalty),
            ("regularization", regularization),
            ("objective_bound", objective_bound),
            ("objective_noise", objective_noise),
            ("noise_scale", noise_scale),
            ("noise_decay", noise_decay),
        )
        if value is not None
    }
    from pdml.cli import bound_studies as studies
    from pdml.train.plan import TrainingPlan

    training = TrainingPlan(**given)
    if check:
        studies.check(seed, jobs, as_json)
        return
    if jobs:
        raise InvalidInput("--jobs belongs to --check: nothing else here takes long")
    if suggest_topology:
        studies.suggest(servers, training.regularization, norm_bound, seed, as_json)
        return
    _validate.integer(
        "servers", servers, low=2, high=MOST_SERVERS, why="the graph is judged by its eigenvalues"
    )
    kind = _kind(plot, against, force)
    from pdml.bounds import longest_best
    from pdml.bounds.setting import Setting
    from pdml.cli import described

    public = None if like is None else described.public_records(like, label, norm_bound)
    width = features + 1 if public is None else int(public[0].shape[1])
    if width < 2:
        raise InvalidInput(
            f"--features must be the number of columns after encoding, at least 1, got {features}"
        )
    if public is not None and public[2] != 2:
        raise InvalidInput(
            f"--label must have two classes, got {public[2]}: the theorems are about two"
        )
    per_server = described.records_of(records, servers, None if public is None else len(public[1]))
    sizes: dict[str, Any] = {
        "epsilon": epsilon,
        "norm_bound": norm_bound,
        "delta": delta,
        "width": width,
    }
    setting = Setting(
        graph=described.graph_of(topology, servers, links, seed),
        records=per_server,
        radius=longest_best(servers, training.regularization, norm_bound)
        if radius is None
        else radius,
        rounds=training.rounds,
        regularization=training.regularization,
        penalty=training.penalty,
        objective_noise=training.objective_noise,
        objective_bound=training.objective_bound,
        noise_scale=training.noise_scale
        if isinstance(training.noise_scale, tuple)
        else (training.noise_scale,),
        noise_decay=training.noise_decay,
        tolerance=max(
            training.tolerance_for(i, servers, m, epsilon, norm_bound, 2)
            for i, m in enumerate(per_server)
        ),
        **sizes,
    )
    measured = None if public is None else _complexity(public[0], setting, seed)
    if plot is not None:
        from pdml.bounds.plot import draw
        from pdml.cli import outputs

        outputs.commit({plot: lambda path: draw(setting, against, path, kind)})
    _bounds(setting, measured, as_json, plot)


def _kind(plot: Path | None, against: str, force: bool) -> str:
    from pdml.cli import outputs

    _validate.choice("against", against, ("records", "bound"))
    if plot is None:
        return ""
    kind = plot.suffix.lower().lstrip(".")
    if kind not in ("png", "svg"):
        raise InvalidInput(f"--plot must end in .png or .svg, got {plot.name!r}")
    outputs.check([plot], force=force)
    return kind


# The bounds of one setting


@dataclass(frozen=True)
class Complexity:
    """Rademacher complexity of all public records together; a server with m_i like them has
    sqrt(records/m_i) times as much.
    """

    records: int
    closed_form: float
    sampled: "Sampled"

    def to_dict(self) -> dict[str, float]:
        return {"records": self.records, "closed_form": self.closed_form, **asdict(self.sampled)}


def _complexity(x: Any, setting: "Setting", seed: int) -> Complexity:
    import numpy as np

    from pdml.bounds import rademacher

    drawn = rademacher.sampled(x, setting.radius, np.random.default_rng([seed, 9]))
    return Complexity(int(x.shape[0]), rademacher.closed_form(x, setting.radius), drawn)


def _bounds(
    setting: "Setting", measured: "Complexity | None", as_json: bool, plot: Path | None
) -> None:
    from math import sqrt

    from pdml.bounds import corrected, longest_best, printed, sharper
    from pdml.bounds.convergence import Curvature, condition
    from pdml.cli import screen

    lengths = (
        None
        if measured is None
        else [measured.closed_form * sqrt(measured.records / m) for m in setting.records]
    )
    first = printed.theorem1(setting, lengths)
    found: list[Bound] = [
        printed.corollary2(setting, lengths),
        printed.corollary1(setting, lengths),
        printed.theorem2(setting, lengths),
    ]
    found += [] if isinstance(first, str) else [first[0]]
    for room in (corrected, sharper):
        found += [
            room.corollary2(setting),
            room.corollary1(setting),
            room.theorem2(setting),
            room.theorem1(setting),
        ]
    kept = longest_best(setting.n, setting.regularization, setting.norm_bound)
    conditions: list[tuple[str, bool | None, str]] = [
        (
            "Lemma 5, constants as printed",
            *_met(condition(setting.graph, Curvature.printed(setting))),
        ),
        (
            "Lemma 5, constants corrected",
            *_met(condition(setting.graph, Curvature.stacked(setting))),
        ),
        (
            "|w*| <= W",
            setting.radius >= kept,
            f"the best classifier is no longer than {kept:.4g}, and W = {setting.radius:.4g}",
        ),
    ]
    conditions.append(
        (
            "one population",
            None,
            "cannot be checked here: all servers' records are independent draws from the same P",
        )
    )
    if not isinstance(first, str):
        why = (
            f"a choice of b and lambda_1 has C = {first[1].contraction:.4g}, for beta = "
            f"{first[1].penalty:.4g} and no other"
        )
        conditions.append(("noise decay < C", True, why))
    elif "noise_decay" in first:
        conditions.append(("noise decay < C", False, first))
    if as_json:
        screen.print_json(
            {
                "risk_of_zero": setting.zero_loss,
                "radius": setting.radius,
                "bounds": [_plain(each, setting) for each in found],
                "conditions": [
                    {"condition": name, "holds": holds, "reason": why}
                    for name, holds, why in conditions
                ],
                **({} if measured is None else {"rademacher": measured.to_dict()}),
            }
        )
        return
    out = screen.console()
    table = screen.new_table(
        "statement", "variant", "labels", "objective", "iterates", "optimisation", "total", words=2
    )
    for each in sorted(found, key=lambda b: b.statement):
        terms = (f"{value / each.classifiers:.3g}" for value in each.terms.values())
        mark = "*" if each.per_classifier >= setting.zero_loss else " "
        short = each.statement.replace("Corollary", "Cor.").replace("Theorem", "Thm.")
        if short == "Thm. 1" and each.variant == "corrected" and isinstance(first, str):
            table.add_row(short, "as printed", *("-" * 4), "- ")
        table.add_row(short, each.variant, *terms, f"{each.per_classifier:.3g}{mark}")
    screen.show(
        out,
        "How much worse than the best classifier?",
        table,
        f"Excess risk per classifier, at most this but for a chance of {setting.delta:g}.",
        f"* This bound says nothing here: the loss at w = 0 is {setting.zero_loss:.2f}, and "
        "its excess no more.",
    )
    rows = screen.new_table("precondition", "met", "why", words=3)
    for name, holds, why in conditions:
        rows.add_row(name, "?" if holds is None else "yes" if holds else "no", why)
    screen.show(out, "What must hold", rows)
    out.print()
    if isinstance(first, str):
        out.print(
            "- Theorem 1 as printed says nothing here: its condition is not met. The "
            "corrected ones need no condition on the graph."
        )
    out.print(
        "- Lemma 5 is false as printed, met or not (docs/errata.md); corrected and sharper "
        "bounds do not use it."
    )
    out.print(
        "- Corrected bounds are for classifiers no longer than W, which noise cannot "
        "promise; the sharper ones need no such class."
    )
    out.print(
        "- Theorems 1 and 2 bound the mean of a server's iterates before noise, which "
        "stays inside it; of what it sends they prove nothing."
    )
    for each in (
        b for b in found if b.variant == "sharper" and b.statement in ("Corollary 1", "Theorem 1")
    ):
        says = (
            "says nothing"
            if each.per_classifier >= setting.zero_loss
            else f"promises {each.per_classifier:.3g}"
        )
        out.print(f"- {each.statement}, sharper, {says}; its largest term is {each.dominant}.")
    if measured is not None:
        drawn = measured.sampled
        seen = f"{drawn.value:.4g} by {drawn.draws} draws ({drawn.low:.4g} to {drawn.high:.4g})"
        out.print(
            f"- Rademacher complexity of the public records: {seen}, at most "
            f"{measured.closed_form:.4g}."
        )
    if plot is not None:
        screen.list_files(out, {"plot": plot})


def _met(condition: Any) -> tuple[bool, str]:
    return condition.holds, condition.reason


def _plain(each: "Bound", setting: "Setting") -> dict[str, Any]:
    return {
        "statement": each.statement,
        "variant": each.variant,
        "classifiers": each.classifiers,
        **each.terms,
        "total": each.total,
        "per_classifier": each.per_classifier,
        "largest": each.dominant,
        "says_something": each.per_classifier < setting.zero_loss,
    }
