"""`pdml privacy`: who can learn what, from a model's file or, before any run, from settings
alone.
"""

from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdml.cli import settings
from pdml.errors import DataError, InvalidInput

if TYPE_CHECKING:
    from pdml.accounting import Budget, Ledger, Line


def privacy(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="A model.json: tell what it has spent.")
    ] = None,
    records: Annotated[
        int | None, typer.Option(help="Records of the server that has fewest.")
    ] = None,
    servers: Annotated[int | None, typer.Option(help="How many servers.  [default: 10]")] = None,
    degree: Annotated[
        int | None, typer.Option(help="Links of the server that has fewest.  [default: 1]")
    ] = None,
    features: Annotated[
        int | None, typer.Option(help="Numbers per record, with the constant 1.  [default: 10]")
    ] = None,
    classes: Annotated[int | None, typer.Option(help="Classes of the label.  [default: 2]")] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy of each label on its device; inf is none.  [default: 1]"),
    ] = None,
    smallest_epsilon: Annotated[
        float | None, typer.Option(help="Smallest epsilon anybody chose.  [default: --epsilon]")
    ] = None,
    rounds: settings.Rounds = None,
    penalty: settings.Penalty = None,
    regularization: settings.Regularization = None,
    objective_bound: settings.ObjectiveBound = None,
    objective_noise: settings.ObjectiveNoise = None,
    noise_scale: settings.NoiseScale = None,
    noise_decay: settings.NoiseDecay = None,
    norm_bound: Annotated[
        float | None, typer.Option(help="Longest a record may be.  [default: 1]")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Chance for which nothing is promised.  [default: 1e-06]")
    ] = None,
    features_epsilon: Annotated[
        float | None, typer.Option(help="Budget: epsilon of features against other servers.")
    ] = None,
    features_delta: Annotated[
        float | None, typer.Option(help="Its delta.  [default: --delta]")
    ] = None,
    labels_epsilon: Annotated[
        float | None, typer.Option(help="Budget: epsilon of labels against other servers.")
    ] = None,
    labels_delta: Annotated[
        float | None, typer.Option(help="Its delta.  [default: --delta]")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
) -> None:
    """Tell who can learn what: from a model, or from settings before any training.

    The table says how sure each party can become of one person's label or features, starting from
    50%: against other servers but for a chance of delta. With a budget, also the last round that
    stays within it.

    \b
    Example, before a training:
      pdml privacy --records 4500 --servers 10 --degree 2 --epsilon 1 --rounds 60 \\
          --features-epsilon 1 --features-delta 1e-6
    Example, after it:
      pdml privacy model.json
    """
    given = {
        name: value
        for name, value in locals().items()
        if name not in ("model", "as_json") and value is not None
    }
    if model is not None:
        if given:
            option = "--" + next(iter(given)).replace("_", "-")
            raise InvalidInput(
                f"{option} must be left out with a model, which says itself what was spent"
            )
        _stored(model, as_json)
        return
    if records is None:
        raise InvalidInput(
            "give either a model or the settings of a training, which need at least --records"
        )
    _planned(given, as_json)


# A model's file


def _stored(path: Path, as_json: bool) -> None:
    from pdml.cli import screen
    from pdml.release.model import load_model

    told = load_model(path).privacy
    lines = _lines(told, path)
    if as_json:
        screen.print_json({"model": str(path), **told, "lines": [_line(line) for line in lines]})
        return
    out = screen.console()
    screen.show(out, screen.PEOPLE, screen.privacy_table(lines), screen.even_odds(lines))
    out.print()
    out.print(f"Noise: {told.get('source', 'not said')}.")
    out.print(f"Counted: {told.get('counted', 'not said')}.")


def _lines(told: dict[str, Any], path: Path) -> "list[Line]":
    from pdml.accounting import Line

    try:
        return [
            Line(
                data=str(row["data"]),
                adversary=str(row["adversary"]),
                epsilon=float(row["epsilon"]),
                delta=float(row["delta"]),
                reason=str(row["reason"]),
                certainty=float(row["certainty"]),
            )
            for row in told["lines"]
        ]
    except (KeyError, TypeError, ValueError):
        raise DataError(
            f"{path} does not say what its training spent: it has no ledger that this "
            "version can read"
        ) from None


# Settings, before any run

_SERVER = {
    "servers": 10,
    "degree": 1,
    "features": 10,
    "classes": 2,
    "epsilon": 1.0,
    "norm_bound": 1.0,
    "delta": 1e-6,
}
_BUDGET = ("features_epsilon", "features_delta", "labels_epsilon", "labels_delta")


def _planned(given: dict[str, Any], as_json: bool) -> None:
    from pdml import _validate
    from pdml.accounting import Budget, Ledger
    from pdml.accounting.events import LabelFlipped
    from pdml.cli import screen
    from pdml.train.plan import TrainingPlan

    asked = _SERVER | given
    budgeted = {name: asked.pop(name) for name in _BUDGET if name in asked}
    at = {name: asked.pop(name) for name in (*_SERVER, "records")}
    smallest = asked.pop("smallest_epsilon", at["epsilon"])
    plan = TrainingPlan(**asked)
    _validate.integer("records", at["records"], low=1, high=10**12)
    _validate.integer(
        "servers", at["servers"], low=2, high=10**6, why="one server alone has nobody to hide from"
    )
    _validate.integer(
        "degree",
        at["degree"],
        low=1,
        high=at["servers"] - 1,
        why="every server needs a link, and no more than there are others",
    )
    _validate.integer("features", at["features"], low=1, high=10**9)
    _validate.integer("classes", at["classes"], low=2, high=10**6)
    _validate.real("epsilon", at["epsilon"], low=0, open_low=True, why="0 would report pure noise")
    _validate.real(
        "smallest_epsilon",
        smallest,
        low=0,
        high=at["epsilon"],
        open_low=True,
        why="it is the smallest anybody chose",
    )
    _validate.real("norm_bound", at["norm_bound"], low=0, high=1e12, open_low=True)
    _validate.real("delta", at["delta"], low=0, high=1, open_low=True, open_high=True)
    budget = None
    if "features_epsilon" in budgeted or "labels_epsilon" in budgeted:
        budget = Budget(**({"features_delta": at["delta"], "labels_delta": at["delta"]} | budgeted))
    elif budgeted:
        raise InvalidInput(
            "a budget needs --features-epsilon or --labels-epsilon, got only a delta"
        )
    place: dict[str, Any] = {
        "server": 0,
        "n_servers": at["servers"],
        "degree": at["degree"],
        "records": at["records"],
        "epsilon": smallest,
        "norm_bound": at["norm_bound"],
        "width": at["features"],
        "classes": at["classes"],
    }
    flip = LabelFlipped(epsilon=at["epsilon"])
    ledger = Ledger(
        ((flip, *plan.events(**place)),), source="planned", delta=at["delta"], classes=at["classes"]
    )
    spent = list(zip(ledger.epsilons("features"), ledger.epsilons("label"), strict=True))
    safe = (
        None
        if budget is None
        else plan.last_safe_round(budget=budget, label_epsilon=at["epsilon"], **place)
    )
    if as_json:
        public = {
            name: _plain(value) for name, value in {**at, "smallest_epsilon": smallest}.items()
        }
        answer: dict[str, Any] = {"settings": {**public, "plan": plan.to_dict()}}
        answer |= {
            "source": "planned",
            "delta": ledger.delta,
            "lines": [_line(line) for line in ledger.lines()],
        }
        answer["rounds"] = [
            {"round": t, "features_epsilon": _plain(f), "labels_epsilon": _plain(y)}
            for t, (f, y) in enumerate(spent, 1)
        ]
        if budget is not None:
            limits = {name: _plain(getattr(budget, name)) for name in _BUDGET}
            answer["budget"] = {
                **limits,
                "last_safe_round": safe,
                "within": plan.rounds <= (safe or 0),
            }
        screen.print_json(answer)
    else:
        _show(ledger, spent, plan.rounds, budget, safe)


def _show(
    ledger: "Ledger",
    spent: list[tuple[float, float]],
    rounds: int,
    budget: "Budget | None",
    safe: int | None,
) -> None:
    from pdml.cli import screen
    from pdml.report import numbers

    out = screen.console()
    lines = ledger.lines()
    told = (screen.even_odds(lines), f"After all {rounds} rounds.")
    screen.show(out, screen.PEOPLE, screen.privacy_table(lines), *told)
    table = screen.new_table("round", "epsilon of features", "epsilon of labels", words=0)
    for t in _milestones(rounds, safe):
        table.add_row(str(t), *(numbers.epsilon(value) for value in spent[t - 1]))
    screen.show(out, "What is spent against other servers, round by round?", table)
    out.print()
    if budget is not None:
        rows = (("features", *budget.limit("features")), ("labels", *budget.limit("label")))
        limits = " and ".join(
            f"epsilon {eps:g} (delta {d:g}) for {what}" for what, eps, d in rows if not isinf(eps)
        )
        verdict = _verdict(rounds, safe or 0)
        out.print(f"Budget {limits}: {verdict}")
    out.print(
        "For the server with the fewest records and links, and the person protected least; "
        "nothing was trained."
    )


def _verdict(rounds: int, safe: int) -> str:
    from pdml.accounting.budget import MOST_ROUNDS

    if safe == 0:
        return "not even the first round is safe, and a training would be refused."
    if rounds > safe:
        return f"the last safe round is {safe}, and a training of {rounds} rounds would be refused."
    return (
        f"the last safe round is {safe:,}{' or later' if safe >= MOST_ROUNDS else ''}, "
        f"so {rounds} rounds are within it."
    )


def _milestones(rounds: int, safe: int | None) -> list[int]:
    """1, 2, 5, 10, 20, ... and the rounds that matter."""
    steps = {lead * 10**power for power in range(7) for lead in (1, 2, 5)}
    return sorted(t for t in steps | {rounds, safe or 0, (safe or 0) + 1} if 1 <= t <= rounds)


def _line(line: "Line") -> dict[str, Any]:
    return {
        "data": line.data,
        "adversary": line.adversary,
        "epsilon": _plain(line.epsilon),
        "delta": line.delta,
        "certainty": line.certainty,
        "reason": line.reason,
    }


def _plain(value: float) -> float | str:
    return "inf" if isinf(value) else value
