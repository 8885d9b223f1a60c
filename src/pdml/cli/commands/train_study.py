"""`pdml train study.toml`: the organisations' data sets in, one model out, here or between them."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml.cli import options, outputs
from pdml.cli.options import argument, flag, option, seconds
from pdml.cli.render import console
from pdml.errors import EngineError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pdml.node.job.job_result import JobResult
    from pdml.planning.training_plan import TrainingPlan
    from pdml.study import Study
    from pdml.training.result import TrainingResult

ENGINES = ("local", "ray", "nodes")
_ENGINE = "local (one process), ray (a cluster) or nodes (between organisations)."
_SEED = "Makes the run repeatable: who knows it can subtract the noise."
_BETWEEN = "Between organisations (--engine nodes)"
_NODE = "This organisation's node, which offers the job."
_START = "Seconds in which all nodes must be there, at most 3600."
_ROUND = "Seconds that a node waits for a neighbour."


@options.spread_options
def train_study(
    file: Path = argument(..., "A study.toml.", "STUDY"),
    engine: str = option("local", _ENGINE),
    folders: list[str] | None = option(
        None, "A server's frozen data set; repeat.", "NAME=FOLDER", "--data"
    ),
    job: str = option("", "The job's name.  [default: study and time]", "NAME"),
    seed: int | None = option(None, _SEED, min=0),
    node: Path | None = option(None, _NODE, "FOLDER", panel=_BETWEEN),
    resume: bool = flag("--resume", "Go on with a job that was stopped.", _BETWEEN),
    start_timeout: float = seconds(300.0, _START, least=1, panel=_BETWEEN),
    round_timeout: float = seconds(120.0, _ROUND, least=1, panel=_BETWEEN),
    plan: options.PlanOptions = options.NO_PLAN,
    out: Path = options.OUT,
    model: Path = options.MODEL_NAME,
    report: Path = options.REPORT_NAME,
    force: bool = options.FORCE_ALL,
    as_json: bool = options.TABLES_JSON,
) -> None:
    """Train for a study: on one machine, on a cluster, or between organisations.

    The study settles the budget, and the plan if it has one; the options of a
    plan are for a study without. On one machine or a cluster, one trust domain holds every server's
    frozen data set (--data). Writes model.json and report.html.

    \b
    Example:
      pdml train study.toml --data alice=frozen/alice --data bob=frozen/bob
    Example, between organisations:
      pdml train study.toml --engine nodes --node alice --job first
    """
    plan_options = plan.settings()
    if engine not in ENGINES:
        raise InvalidInput(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    if engine == "nodes":
        if resume and not job:
            raise InvalidInput("--resume needs --job: which job is to go on?")
        if node is None:
            raise InvalidInput(
                "--node must be given: the folder of this organisation's node, which must be "
                "running"
            )
        if folders or seed is not None:
            raise InvalidInput(
                "--data and --seed belong to --engine local: nodes have their own data and "
                "draw their own noise"
            )
        times = {"start_timeout": start_timeout, "round_timeout": round_timeout}
        folder = None if out == Path(".") else out
        _train_between_nodes(file, node, plan_options, job, folder, as_json, resume=resume, **times)
        return
    if node or resume:
        raise InvalidInput(f"{'--node' if node else '--resume'} belongs to --engine nodes")
    from pdml.pages.result_page import training_page
    from pdml.pages.training_page import write
    from pdml.simulation import study_training
    from pdml.study import Study

    files = {"report": out / report, "model": out / model}
    outputs.check(list(files.values()), force=force)
    study = Study.load(file)
    with console.progress("Training") as progress:
        result = study_training.train_study(
            study,
            dict(_named(text) for text in folders or ()),
            engine=engine,
            plan=_plan(study, plan_options),
            job=job,
            random_state=seed,
            progress=progress,
        )
    page = partial(write, page=training_page(study, result))
    outputs.commit({files["report"]: page, files["model"]: result.model.save})
    _print_result(study, result, engine, files, as_json)


def _train_between_nodes(
    file: Path,
    node: Path,
    plan_options: dict[str, Any],
    job: str,
    out: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    from pdml.consortium.job_client import train_nodes
    from pdml.simulation.study_training import job_name, resolve_study_plan
    from pdml.study import Study

    study = Study.load(file)
    plan, name = _plan(study, plan_options), job or job_name(study)
    folder = out or Path(f"result-{name}")
    if folder.exists():
        raise InvalidInput(
            f"{folder} exists already: a result is a folder of its own, give another one with --out"
        )
    rounds = resolve_study_plan(study, plan).rounds

    def stopping(job: str) -> None:
        message = f"job {job} is being stopped at every member; to go on: --job {job} --resume"
        print(f"pdml: {message}", file=sys.stderr)

    with console.bars("round") as tell:

        def progress(counts: "Mapping[str, int]") -> None:
            tell({name: (t, rounds) for name, t in counts.items()})

        progress({server.name: 0 for server in study.servers})
        ended = train_nodes(
            study, node, plan=plan, job=name, progress=progress, stopping=stopping, **how
        )
    write_job_result(ended, folder, as_json=as_json)


def write_job_result(job: "JobResult", out: Path, *, as_json: bool) -> None:
    """The folder of a job between organisations, and what is told about it."""
    from pdml.consortium.result_folder import MODEL, PAGE, write_result

    write_result(out, job)
    if job.problem:
        raise EngineError(
            f"job {job.terms.job} has no model: {job.problem}; what was signed is in {out}"
        )
    files = {"report": out / PAGE, "model": out / MODEL, "result": out}
    if job.home and (local_model := job.home.local_model_path(job.terms.job)).exists():
        files["local model"] = local_model
    _print_result(job.study, job.result, "nodes", files, as_json)


def _plan(study: "Study", plan_options: dict[str, Any]) -> "TrainingPlan | None":
    """The plan that options describe; None without any."""
    from pdml.planning.training_plan import TrainingPlan

    if study.plan is not None:
        options.refuse_options(plan_options, f": the study {study.id} settles the plan")
    return TrainingPlan(**plan_options) if plan_options else None


def _named(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not equals:
        raise InvalidInput(f"--data must be NAME=FOLDER, got {text!r}")
    return name, Path(folder)


def _print_result(
    study: "Study", result: "TrainingResult", engine: str, files: dict[str, Path], as_json: bool
) -> None:
    from pdml.pages.result_page import lead, notes_of

    def show() -> None:
        table = console.accuracy_table(result.rows, (), linked=bool(result.rounds))
        console.print_table(study.title, table, lead(study, result))
        console.print_privacy(result.ledger.overview(result.plan.colluding))
        console.print_text("", *notes_of(result))
        console.print_files(files)
        if "local model" in files:
            console.print_text(
                "", "The local model is made of your exact sums: it is not to be shared."
            )

    where = {"engine": engine, "files": files}
    console.print_result(as_json, result.summary() | where, show)
