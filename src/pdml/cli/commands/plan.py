"""`pdml plan`: a privacy budget in, the plan that loses the least under it out, and what was
traded."""

from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pdml.cli import options, outputs
from pdml.cli.options import argument, option
from pdml.cli.render import console
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.accounting import Budget
    from pdml.numerics.interval import Range
    from pdml.planning.forecast.people_needed import PeopleForecast
    from pdml.planning.search.planner import Proposal
    from pdml.planning.training_plan import TrainingPlan

_TARGET = "Find the smallest epsilon, of labels and budget alike, that reaches this on --like."
_TARGET_AUC = "Say how many people are needed for this AUC, by one exchange of sums."
_PAGE = "With --target-auc: write a page with sliders for a board."
_METHOD = "rounds or sums.  [default: whichever is expected to be worth more]"
_STUDY = "A study.toml: questions, menus, servers, links and budget are its own."
_PREVALENCE = "How many have the second of two classes, or between which shares."
_YARDSTICK = (
    "What a model is judged by: accuracy, agreement, auc, 'top fifth' (share of the class in it) "
    "or sensitivity (at a specificity of 90%).  [default: accuracy; auc with --prevalence]"
)
_STUDY_SETTINGS = ["epsilon", "servers", "features", "classes", "norm_bound", "topology", "links"]
_STUDY_SETTINGS += ["seed", "target_accuracy"]
_NOT_FOR_PEOPLE = ["study", "records", "labels_epsilon", "labels_delta", "norm_bound", "topology"]
_NOT_FOR_PEOPLE += ["links", "method", "rounds", "yardstick", "like", "label", "seed", "out"]
_NOT_FOR_PEOPLE += ["classes", "target_accuracy"]
_CONSORTIA = (3, 5, 10, 20)
_HEADS = ("epsilon", "servers", "colluding", "people")
_LIMITS = ["features_epsilon", "features_delta", "labels_epsilon", "labels_delta", "colluding"]


@options.spread_options
def plan(
    context: typer.Context,
    study: Path | None = argument(None, _STUDY, "STUDY"),
    features_epsilon: float = options.FEATURES_EPSILON,
    features_delta: float = options.DELTA,
    labels_epsilon: float | None = option(None, "The same for labels.  [default: --epsilon]"),
    labels_delta: float = option(1e-6, "But for this chance."),
    epsilon: float = option(1.0, "Privacy of each label on its device."),
    consortium: options.ConsortiumOptions = options.NO_CONSORTIUM,
    classes: int = option(2, "Classes of the label."),
    colluding: int | None = options.COLLUDING,
    method: str | None = option(None, _METHOD),
    rounds: int = option(100, "The most rounds to plan for."),
    prevalence: str = option("", _PREVALENCE, "P or LOW:HIGH"),
    yardstick: str | None = option(None, _YARDSTICK),
    target_accuracy: float | None = option(None, _TARGET),
    target_auc: float | None = option(None, _TARGET_AUC),
    page: Path | None = option(None, _PAGE, "FILE"),
    out: Path | None = option(None, "Write the plan's settings as JSON.", "FILE"),
    force: bool = options.FORCE,
    as_json: bool = options.TABLES_JSON,
) -> None:
    """Find the training that loses the least accuracy within a privacy budget.

    --prevalence says how many are guessed to have what is asked for: then AUC, not the share of
    right answers, tells models apart.

    No record is needed: the plan follows from sizes, and from simulated data sets or public records
    like yours. Whether joining is expected to pay at all is said before anybody releases anything.

    For a study everybody is expected to choose what its menus suggest, and randomised answers are
    forecast as they will be reported. Noise is planned for the whole menu of the label.

    \b
    Example, how many people are needed where one in ten has it:
      pdml plan --target-auc 0.7 --prevalence 0.1 --questions 8 --page plan.html
    Example:
      pdml plan --features-epsilon 1 --labels-epsilon 0.5 --records 4500 \\
          --servers 10 --features 104
    Example, for a study:
      pdml plan study.toml --records 4500
    Example, for something that one in ten to one in five has:
      pdml plan study.toml --records 4500 --prevalence 0.1:0.2
    Example, the smallest epsilon for an accuracy on public records:
      pdml plan --target-accuracy 0.9 --like public.csv --label diagnosis
    """
    if target_auc is not None:
        unfit = options.pick_explicit(context, _NOT_FOR_PEOPLE)
        options.refuse_options(unfit, " with --target-auc, which is of one exchange of sums")
        chosen = options.pick_explicit(context, ["epsilon", "servers"])
        _plan_people(
            target_auc,
            {
                "width": consortium.features + 1,
                "prevalence": _read_shares(prevalence),
                "features_epsilon": features_epsilon,
                "delta": features_delta,
            },
            epsilon=chosen.get("epsilon"),
            servers=chosen.get("servers"),
            colluding=colluding,
            page=page,
            force=force,
            as_json=as_json,
        )
        return
    if page is not None:
        raise InvalidInput("--page needs --target-auc: it says how many people that takes")
    if out is not None:
        outputs.check([out], force=force)
    if target_accuracy is not None and consortium.like is None:
        raise InvalidInput(
            "--target-accuracy needs --like FILE: accuracy is measured on public records of the "
            "same shape"
        )
    from pdml import _validate
    from pdml.planning.search.planner import Budget, propose

    if prevalence and consortium.like is not None:
        raise InvalidInput("--prevalence must be left out with --like, whose labels say it")
    shares = _read_shares(prevalence)
    by = yardstick or ("auc" if prevalence else "accuracy")
    _validate.real("--epsilon", epsilon, low=0, open_low=True, why="0 would report pure noise")
    if study is None and labels_epsilon is not None and epsilon < labels_epsilon < inf:
        raise InvalidInput(
            f"--labels-epsilon must be at most --epsilon, {epsilon:g}, or inf, got "
            f"{labels_epsilon:g}: the device keeps to --epsilon whatever is trained"
        )
    label_limit = epsilon if study is None else inf  # of a label, which alone keeps to it
    budget = Budget(
        features_epsilon=features_epsilon,
        features_delta=features_delta,
        labels_epsilon=label_limit if labels_epsilon is None else labels_epsilon,
        labels_delta=labels_delta,
        colluding=colluding,
    )
    target_result: dict[str, float] = {}
    lines = ""
    if study is not None:
        settled = options.pick_explicit(context, _STUDY_SETTINGS)
        options.refuse_options(settled, " with a study, which settles it")
        limits = options.pick_explicit(context, _LIMITS)
        how = {"method": method, "most_rounds": rounds, "yardstick": by, "prevalence": shares}
        proposal, lines = _for_study(study, consortium, budget, limits, how)
    elif target_accuracy is not None:
        setup = consortium.read(epsilon, classes, shares)
        proposal, target_result = _for_target(consortium, setup, target_accuracy)
    else:
        setup = consortium.read(epsilon, classes, shares)
        with console.progress("Forecasting", "step") as progress:
            proposal = propose(
                budget,
                setup.sizes,
                setup.graph,
                like=setup.public,
                method=method,
                most_rounds=rounds,
                yardstick=by,
                progress=progress,
            )
    if out is not None:
        outputs.commit({out: proposal.save})
    summary = target_result | proposal.to_dict() | ({"lines": lines} if lines else {})
    console.print_result(as_json, summary, lambda: _show(proposal, target_result, out, lines))


def _plan_people(
    target: float,
    question: dict[str, Any],
    *,
    epsilon: float | None,
    servers: int | None,
    colluding: int | None,
    page: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """How many people an AUC takes: a table, and a page where one is asked for."""
    from pdml import _validate
    from pdml.planning.forecast.people_needed import EPSILONS, forecast_people

    why = "0.5 is pure chance"
    _validate.real("--target-auc", target, low=0.5, high=1, open_low=True, open_high=True, why=why)
    if question["width"] < 2:
        raise InvalidInput("--questions must be the number of columns after encoding, at least 1")
    if page is not None:
        outputs.check([page], force=force)
    epsilons = EPSILONS if epsilon is None else (*EPSILONS, epsilon)
    with console.progress("Forecasting", "forecast") as progress:
        forecast = forecast_people(**question, epsilons=epsilons, progress=progress)
    rows = [
        dict(zip(_HEADS, (level, n, k, forecast.needed(target, level, n, k)), strict=True))
        for level in forecast.epsilons
        for n in (_CONSORTIA if servers is None else (servers,))
        for k in ((None, max(1, n // 2), 1) if colluding is None else (colluding,))
    ]
    if page is not None:
        from pdml.files import atomic_write
        from pdml.pages.planning_page import planning_page

        outputs.commit({page: partial(atomic_write, data=planning_page(forecast, target))})
    summary = {"target": target, "needed": rows, "forecast": forecast.to_dict()}
    console.print_result(as_json, summary, lambda: _show_people(target, forecast, rows, page))


def _show_people(
    target: float, forecast: "PeopleForecast", rows: list[dict[str, Any]], page: Path | None
) -> None:
    by_consortium: dict[tuple[float, int], list[str]] = {}
    for row in rows:
        people = "not reached" if row["people"] is None else f"{row['people']:,}"
        by_consortium.setdefault((row["epsilon"], row["servers"]), []).append(people)
    cells = [(f"{e:g}", str(n), *people) for (e, n), people in by_consortium.items()]
    colluding = rows[0]["colluding"]
    whom = ("all others", "half", "one") if len(cells[0]) == 5 else (str(colluding),)
    heads = ("label epsilon", "organisations", *whom)
    caption = (
        f"People in all for an AUC of {target:g} in the mean of {forecast.scores.shape[-1]} "
        "simulated data sets, by how many of the other organisations may collude; without privacy "
        f"the AUC is {forecast.without_privacy:.3f}."
    )
    console.print_table("How many people are needed", console.Grid(heads, cells), caption)
    if page is not None:
        console.print_files({"page": page})


def _read_shares(text: str) -> tuple[float, float] | None:
    """--prevalence, one share or two."""
    if not text:
        return None
    try:
        low, _, high = text.partition(":")
        return float(low), float(high or low)
    except ValueError:
        raise InvalidInput(
            f"--prevalence must be a share such as 0.1, or two such as 0.05:0.2, got {text!r}"
        ) from None


def _for_target(
    consortium: options.ConsortiumOptions, setup: options.ConsortiumSetup, target: float
) -> "tuple[Proposal, dict[str, float]]":
    """The proposal with the smallest epsilon that reaches an accuracy, and what it reaches."""
    from pdml.simulation.target_accuracy import smallest_epsilon

    assert setup.public is not None  # --target-accuracy needs --like
    with console.working("Training on public records"):
        reached = smallest_epsilon(
            target,
            *setup.public,
            setup.graph,
            records=setup.sizes.records if consortium.records else None,
            classes=setup.sizes.classes,
            norm_bound=consortium.norm_bound,
        )
    measured = {"epsilon": reached.epsilon, "accuracy": reached.accuracy, "target_accuracy": target}
    return reached.proposal, measured


def _for_study(
    file: Path,
    consortium: options.ConsortiumOptions,
    budget: "Budget",
    limits: dict[str, Any],
    how: dict[str, Any],
) -> tuple["Proposal", str]:
    """A proposal, and the lines of the study's file that would settle it."""
    from pdml.study import Study
    from pdml.study.schema.template import plan_table
    from pdml.study.study_plan import propose_for
    from pdml.tables import read_table

    study, like = Study.load(file), consortium.like
    if study.budget is not None:
        options.refuse_options(limits, ": the study has a budget of its own")
    options.need_label(like, consortium.label)
    with console.progress("Forecasting", "step") as progress:
        proposal = propose_for(
            study,
            options.parse_record_counts(consortium.records),
            budget=budget if study.budget is None else None,
            public=None if like is None else read_table(like),
            label=consortium.label,
            progress=progress,
            **how,
        )
    return proposal, plan_table(study, proposal.plan)


def _show(
    proposal: "Proposal", target_result: dict[str, float], out: Path | None, lines: str
) -> None:
    from pdml.accounting.kinds import Method
    from pdml.formatting.numbers import count, significant
    from pdml.planning.forecast.yardstick import Yardstick

    sizes, graph, chosen = proposal.sizes, proposal.graph, proposal.plan
    if target_result:
        wanted, least = f"{target_result['target_accuracy']:.1%}", f"{target_result['epsilon']:.3g}"
        reached = f"is {least} ({target_result['accuracy']:.1%})"
        console.print_text("", f"The smallest epsilon that reaches {wanted} {reached}.")
    settings = _of_sums(proposal) if chosen.method == Method.SUMS else _of_rounds(chosen)
    joined = f"{count(graph.n, 'server')}, {count(graph.n_edges, 'link')}"
    people = f"{sum(sizes.records):,} records, {sizes.width - 1} features"
    chosen_labels = " to ".join(f"{epsilon:.3g}" for epsilon in sizes.epsilon_range)
    caption = f"{joined}, {people}, label epsilon {chosen_labels}."
    console.print_table("The plan", console.Grid(("setting", "value"), settings), caption)
    rows = [
        (row.data, significant(row.allowed), significant(row.spent), f"{row.delta:g}")
        for row in proposal.rows
    ]
    columns = (f"against {proposal.budget.whom}", "allowed", "spent", "delta")
    console.print_table("The budget", console.Grid(columns, rows))
    console.print_privacy(proposal.ledger.overview(proposal.budget.colluding))
    worth = [
        (text, *(_range(proposal.candidates[name].ranges[Yardstick(by)]) for by in _MEASURES))
        for name, text in _CANDIDATES.items()
        if name in proposal.candidates
    ]
    heads = ("who predicts", *_MEASURES.values())
    caption = (
        f"{_capital(proposal.verdict)}. In brackets 80% intervals; an AUC of 50% and 20% in the "
        "top fifth are pure chance."
    )
    console.print_table("What it is worth", console.Grid(heads, worth), caption)
    console.print_text("", *(f"- {reason}." for reason in proposal.reasons))
    if lines:
        console.print_text(
            "", "These lines of the study's file settle it:", "", *lines.splitlines()
        )
    if out is not None:
        console.print_files({"plan": out})


_MEASURES = {
    "accuracy": "right",
    "auc": "AUC",
    "top fifth": "in the top fifth",
    "agreement": "as an unprotected model",
}
_CANDIDATES = {
    "sums": "all servers, by one exchange of sums",
    "rounds": "all servers, in rounds",
    "local": "a server's local model, which it keeps",
    "alone": "a server with its own reports",
    "majority": "the majority-class baseline",
}


def _range(interval: "Range") -> str:
    return f"{interval.middle:.1%} ({interval.low:.0%} to {interval.high:.0%})"


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _of_sums(proposal: "Proposal") -> list[tuple[str, str]]:
    from pdml.formatting.numbers import count

    label, square = proposal.plan.sum_stddevs(proposal.graph.n)
    k, cap = proposal.plan.colluding, proposal.plan.epsilon_cap
    return [
        ("method", "sums, one exchange"),
        ("noise of each server in Q", f"{label:.4g}"),
        ("noise of each server in S", f"{square:.4g}"),
        ("may collude", "all other servers" if k is None else count(k, "other server")),
        *([] if cap is None else [("reports counted up to", f"epsilon {cap:g}")]),
    ]


def _of_rounds(chosen: "TrainingPlan") -> list[tuple[str, str]]:
    scales = chosen.noise_scale if isinstance(chosen.noise_scale, tuple) else (chosen.noise_scale,)
    by_server = f"{min(scales):.4g} to {max(scales):.4g}, by server"
    return [
        ("method", "rounds"),
        ("rounds (T)", str(chosen.rounds)),
        ("penalty (beta)", f"{chosen.penalty:g}"),
        ("regularization (a)", f"{chosen.regularization:g}"),
        ("noise scale (V)", f"{scales[0]:.4g}" if min(scales) == max(scales) else by_server),
        ("noise decay (rho)", f"{chosen.noise_decay:.4g}"),
        ("objective bound (R)", f"{chosen.objective_bound:.4g}"),
    ]
