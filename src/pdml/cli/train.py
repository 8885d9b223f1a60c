"""`pdml train`: a table of people's records in, a model and a report out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdml.cli import settings
from pdml.cli.seconds import finite
from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.cli.card import Training
    from pdml.cli.records import Records

SERVERS = 10


def train(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Records (.csv, .csv.gz or .parquet), or a study.toml.",
            show_default=False,
        ),
    ],
    label: Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict.")] = "",
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range", metavar="COLUMN=LOW:HIGH[:whole]", help="Range of a number; repeat."
        ),
    ] = None,
    levels: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=A,B,...", help="Levels of a category; repeat."),
    ] = None,
    encoder: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ranges and levels as JSON, as in a model's encoder."),
    ] = None,
    from_data: Annotated[
        bool, typer.Option("--from-data", help="Take the undeclared ones from the data: a leak.")
    ] = False,
    classes: Annotated[
        str, typer.Option(metavar="A,B,...", help="Classes of the label, in order.")
    ] = "",
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column that is no feature; repeat."),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="Privacy of each label: smaller is more private, inf is none.")
    ] = 1.0,
    epsilon_column: Annotated[
        str, typer.Option(metavar="COLUMN", help="Each person's own epsilon.")
    ] = "",
    servers: Annotated[
        int | None,
        typer.Option(help=f"How many servers the records are dealt to.  [default: {SERVERS}]"),
    ] = None,
    server_column: Annotated[
        str, typer.Option(metavar="COLUMN", help="Which server each record belongs to.")
    ] = "",
    topology: Annotated[
        str, typer.Option(help="random, ring, complete, star, grid or small_world.")
    ] = "random",
    links: Annotated[
        int | None, typer.Option(help="Links of a random topology.  [default: 1.3 per server]")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Plan, links and budget that `pdml plan --out` wrote."),
    ] = None,
    rounds: settings.Rounds = None,
    penalty: settings.Penalty = None,
    regularization: settings.Regularization = None,
    objective_bound: settings.ObjectiveBound = None,
    objective_noise: settings.ObjectiveNoise = None,
    noise_scale: settings.NoiseScale = None,
    noise_decay: settings.NoiseDecay = None,
    norm_bound: Annotated[
        float, typer.Option(help="Longer records are shrunk to this length.")
    ] = 1.0,
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Records to measure the accuracy on.")
    ] = None,
    test_fraction: Annotated[
        float, typer.Option(help="Or hold back this share of DATA for it.")
    ] = 0.0,
    diagnostics: settings.Diagnostics = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write to.")] = Path("."),
    model: Annotated[Path, typer.Option(metavar="FILE", help="The model's name in it.")] = Path(
        "model.json"
    ),
    report: Annotated[Path, typer.Option(metavar="FILE", help="The report's name in it.")] = Path(
        "report.html"
    ),
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Makes the run repeatable: who knows it can subtract the noise."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="local (one process), ray (a cluster); for a study also nodes (between "
            "organisations)."
        ),
    ] = "local",
    folders: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="NAME=FOLDER", help="A server's frozen data set; repeat."),
    ] = None,
    node: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="This organisation's node, which offers the job."),
    ] = None,
    job: Annotated[
        str, typer.Option(metavar="NAME", help="The job's name.  [default: study and time]")
    ] = "",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a job that was stopped.")
    ] = False,
    start_timeout: Annotated[
        float,
        typer.Option(min=1, callback=finite, help="Seconds in which all nodes must be there."),
    ] = 300.0,
    round_timeout: Annotated[
        float,
        typer.Option(min=1, callback=finite, help="Seconds that a node waits for a neighbour."),
    ] = 120.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False,
) -> None:
    """Train a model from a table, with simulated people and servers, or for a study.

    Every label is randomised before the training sees it; the servers then train together and add
    noise to what they send. Writes model.json and report.html, which hold nothing but noisy
    releases and public settings; accuracies on records are shown here only, unless --diagnostics
    asks for them on the page.

    Ranges, levels and classes are declared, not looked up: a maximum or a rare level in the data
    is somebody's.

    \b
    Example:
      pdml train people.csv --label diagnosis --range age=18:100 \\
          --levels sex=female,male --test-fraction 0.2
    Example, for data that needs no protection:
      pdml train people.csv --label diagnosis --from-data
    Example, between organisations:
      pdml train study.toml --engine nodes --node alice --job first
    """
    files = {"report": out / report, "model": out / model}
    given = _given(
        rounds=rounds,
        penalty=penalty,
        regularization=regularization,
        objective_bound=objective_bound,
        objective_noise=objective_noise,
        noise_scale=noise_scale,
        noise_decay=noise_decay,
    )
    if data.suffix == ".toml":
        from pdml.cli import train_study

        if diagnostics:
            raise InvalidInput("--diagnostics belongs to a table: nothing is measured for a study")
        asked = train_study.Choices(
            engine=engine,
            job=job,
            resume=resume,
            node=node,
            out=None if out == Path(".") else out,
            folders=tuple(folders or ()),
            settings=given,
            seed=seed,
            start_timeout=start_timeout,
            round_timeout=round_timeout,
        )
        train_study.run(data, asked, files, force=force, as_json=as_json)
        return
    if not label:
        raise typer.BadParameter("it names the column to predict", param_hint="--label")
    from pdml.cli import outputs

    outputs.check(list(files.values()), force=force)
    from pdml.cli import card, declared, planfile, records
    from pdml.cli.screen import working
    from pdml.mechanisms.label_flip import LabelFlip
    from pdml.report.page import write
    from pdml.train.plan import TrainingPlan

    _ = LabelFlip(epsilon).threshold  # refuses a bad epsilon before the data are read
    if engine == "nodes":
        raise InvalidInput(
            "--engine nodes trains a study, whose records are at the organisations; for a "
            "table: local or ray"
        )
    choices: dict[str, Any] = {"epsilon": epsilon, "norm_bound": norm_bound, "engine": engine}
    if plan is None:
        choices |= {"topology": topology, "links": links, "plan": TrainingPlan(**given)}
    else:
        choices |= planfile.read(plan, given | _given(links=links, servers=servers))
        servers = choices.pop("n_servers")
    roles = records.Roles(
        label=label, epsilon=epsilon_column, server=server_column, ignored=tuple(ignore or ())
    )
    attributes = declared.declarations(ranges or (), levels or (), encoder)
    names = tuple(name.strip() for name in classes.split(",")) if classes else ()
    with working(f"Reading {data}"):
        people = records.read(
            data, roles, attributes=attributes, from_data=from_data, classes=names
        )
        taught, tested = records.split(
            people, test=test, label=label, fraction=test_fraction, seed=seed
        )
    choices |= {"random_state": seed, "diagnostics": diagnostics}
    choices["classes"] = range(len(people.classes))
    training = _fit(taught, tested, servers, choices)

    released = card.released(
        training.fitted,
        leaks=people.leaks,
        classes=people.classes,
        encoder=people.encoder.to_dict(),
        feature_names=people.encoder.feature_names,
        label=label,
    )
    randomised = (
        f"each person's own epsilon (column {epsilon_column})"
        if epsilon_column
        else f"epsilon {epsilon:g}"
    )
    lead = _lead(training, people, randomised)
    measured = "no records were kept to measure it on"
    if tested is not None:
        measured = f"on {len(tested):,} records that were not trained on"
    kept_inside = tested is not None and not diagnostics
    page = card.page(
        training,
        accuracies=diagnostics,
        title=f"{label}, learnt from {data.name}",
        lead=lead,
        reference_accuracy=None,
        accuracy_note=card.INSIDE if kept_inside else measured,
        settings=card.settings(
            training,
            **{"label epsilon": f"column {epsilon_column}" if epsilon_column else f"{epsilon:g}"},
        ),
        notes=people.leaks,
    )
    outputs.commit({files["report"]: lambda path: write(path, page), files["model"]: released.save})
    if as_json:
        from pdml.cli.screen import print_json

        counts = {"records": len(taught), "test_records": 0 if tested is None else len(tested)}
        paths = {name: str(path) for name, path in files.items()}
        print_json(card.summary(training, released, **counts, label=label, files=paths))
    else:
        _show(training, lead, measured, (*people.leaks, *card.page_leaks(training)), files)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _fit(
    taught: "Records", tested: "Records | None", servers: int | None, settings: dict[str, Any]
) -> "Training":
    from pdml.cli.card import measure
    from pdml.cli.screen import progress
    from pdml.release.estimator import PDMLClassifier

    n = len(taught.names) or (SERVERS if servers is None else servers)
    if servers not in (None, n):
        raise InvalidInput(
            f"--servers must be left out or be {n}, as many as the server column names, got "
            f"{servers}"
        )
    names = taught.names or tuple(f"server {i + 1}" for i in range(n))
    with progress("Training") as on_round:
        fitted = PDMLClassifier(n_servers=n, on_round=on_round, **settings)
        fitted.fit(taught.x, taught.codes, epsilons=taught.epsilons, servers=taught.owners)
    return (
        measure(fitted, names, None, None)
        if tested is None
        else measure(fitted, names, tested.x, tested.codes)
    )


def _lead(training: "Training", people: "Records", randomised: str) -> str:
    from pdml.report import numbers

    fitted, total = training.fitted, sum(row[1] for row in training.rows)
    sizes = {
        "server": fitted.graph_.n,
        "link": fitted.graph_.n_edges,
        "round": fitted.model_.plan["rounds"],
    }
    known = [str(name) for name in people.classes]
    classes = ", ".join(known[:5]) + (f" and {len(known) - 5} more" if len(known) > 5 else "")
    return (
        f"{total:,} records with {people.encoder.n_features} features, classes {classes}; "
        f"labels randomised with {randomised}; "
        f"{', '.join(numbers.count(size, noun) for noun, size in sizes.items())}."
    )


def _show(
    training: "Training", lead: str, measured: str, leaks: tuple[str, ...], files: dict[str, Path]
) -> None:
    from pdml.cli import card, screen

    out = screen.console()
    totals = () if training.accuracy is None else (("released model", training.accuracy),)
    hint = f"; {card.INSIDE}" if totals else " (--test FILE or --test-fraction 0.2)"
    if training.fitted.diagnostics:
        hint = ""  # the leak is named below
    table = screen.accuracy_table(training.rows, totals)
    screen.show(out, "How accurate is it?", table, lead, f"Accuracy: {measured}{hint}.")
    out.print()
    out.print(training.disagreement)
    card.show_privacy(out, training, *(f"Leak: {sentence}." for sentence in leaks))
    screen.list_files(out, files)
