"""`pdml demo`: the whole method on the paper's Twonorm benchmark, with simulated people."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdml.cli import settings

if TYPE_CHECKING:
    from pdml.cli.card import Training

USERS, TESTED = 7_000, 3_900
SERVERS, LINKS = 10, 13  # as in the paper's evaluation
ROUNDS = 30
PLAN = {
    "penalty": 0.3,
    "noise_scale": 0.2,
    "noise_decay": 0.95,
}  # features: epsilon about 1.4; released model: about 97 %
NO_NOISE = {"objective_bound": 0.0, "noise_scale": 0.0}
NAME = "pdml demo"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for report.html and model.json.")] = Path(
        "pdml-demo"
    ),
    seed: Annotated[
        int, typer.Option(min=0, help="Another seed: other people, another graph, other noise.")
    ] = 1,
    epsilon: Annotated[
        float,
        typer.Option(help="How private each label is on the device; smaller is more private."),
    ] = 1.0,
    rounds: Annotated[
        int, typer.Option(help="Rounds of training; more rounds give away more.")
    ] = ROUNDS,
    diagnostics: settings.Diagnostics = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
) -> None:
    """See the method work, offline, in a few seconds.

    7,000 simulated people of the Twonorm benchmark flip their label on their own device; ten
    servers that do not trust each other train one model over 13 links, adding noise of two kinds.
    Shows how accurate it is beside the same training without privacy, and how much anybody could
    learn about a person.

    \b
    Example:
      pdml demo --epsilon 0.5 --out gentle
    """
    from dataclasses import replace

    from pdml.cli import card, outputs
    from pdml.mechanisms.label_flip import LabelFlip
    from pdml.report.page import write

    flipped = LabelFlip(epsilon).flip_probability
    files = {"report": out / "report.html", "model": out / "model.json"}
    outputs.check(
        list(files.values()),
        force=_is_ours(files["model"]),
        way_out="the demo replaces only its own files; choose --out",
    )
    training, unprotected = _train(seed, epsilon, rounds, diagnostics)
    model = card.released(
        training.fitted, leaks=(), feature_names=tuple(f"x{k}" for k in range(1, 21)), label="y"
    )
    model = replace(model, provenance={**model.provenance, "made_by": NAME})
    page = card.page(
        training,
        title="PDML demo: Twonorm",
        lead=f"{USERS:,} simulated people flipped their labels with epsilon = {epsilon:g}; "
        f"{SERVERS} servers trained over {LINKS} links.",
        reference_accuracy=unprotected.accuracy,
        reference_risk=float(unprotected.fitted.history_.risk[-1]) if diagnostics else None,
        accuracies=True,  # on records that are nobody's
        accuracy_note=f"on {TESTED:,} fresh records of the same kind",
        settings=card.settings(training, **{"label epsilon": f"{epsilon:g}", "seed": str(seed)}),
        notes=(),
    )
    outputs.commit({files["report"]: lambda path: write(path, page), files["model"]: model.save})
    if as_json:
        from pdml.cli.screen import print_json

        paths = {name: str(path) for name, path in files.items()}
        print_json(
            card.summary(
                training, model, accuracy_without_privacy=unprotected.accuracy, files=paths
            )
        )
    else:
        _show(training, unprotected, flipped, files)


def _is_ours(model: Path) -> bool:
    """Whether an earlier demo wrote it."""
    from pdml.errors import PDMLError
    from pdml.release.model import load_model

    try:
        return load_model(model).provenance.get("made_by") == NAME
    except PDMLError:
        return False


def _train(seed: int, epsilon: float, rounds: int, leaky: bool) -> "tuple[Training, Training]":
    """With privacy, and the same people on the same graph without."""
    import numpy as np

    from pdml.cli import card
    from pdml.cli.screen import progress
    from pdml.datasets.generators import twonorm
    from pdml.release.estimator import PDMLClassifier
    from pdml.train.plan import TrainingPlan

    plan: dict[str, Any] = {**PLAN, "rounds": rounds}
    rng = np.random.default_rng(seed)
    x, y = twonorm(USERS, rng)
    tested, truth = twonorm(TESTED, rng)
    names = [f"server {i + 1}" for i in range(SERVERS)]
    trained = []
    for title, kept, off in (
        ("Training privately", epsilon, {}),
        ("The same without privacy", None, NO_NOISE),
    ):
        with progress(title) as on_round:
            model = PDMLClassifier(
                kept,
                n_servers=SERVERS,
                links=LINKS,
                plan=TrainingPlan(**{**plan, **off}),
                classes=(-1, 1),
                diagnostics=leaky,
                on_round=on_round,
                random_state=seed,
            )
            model.fit(x, y.astype(int))
        trained.append(card.measure(model, names, tested, truth))
    return trained[0], trained[1]


def _show(
    training: "Training", unprotected: "Training", flipped: float, files: dict[str, Path]
) -> None:
    from pdml.cli import card, screen

    out = screen.console()
    screen.show(
        out,
        "How accurate is it?",
        screen.accuracy_table(
            training.rows,
            (("released model", training.accuracy), ("without privacy", unprotected.accuracy)),
        ),
        f"{USERS:,} simulated people, each with the label flipped with probability {flipped:.0%}; "
        f"{SERVERS} servers, {LINKS} links, {training.fitted.model_.plan['rounds']} rounds; "
        f"measured on {TESTED:,} fresh records.",
    )
    out.print()
    out.print(training.disagreement)
    card.show_privacy(out, training)
    screen.list_files(out, files)
