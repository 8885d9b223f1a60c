"""What `pdml train study.toml` does: the organisations' data sets in, one model out, on one machine
or between organisations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.study import Study
    from pdml.train.plan import TrainingPlan

ENGINES = ("local", "ray", "nodes")


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The command's options, as far as a study leaves something to choose."""

    engine: str
    job: str = ""
    resume: bool = False
    node: Path | None = None
    out: Path | None = None  # of --engine nodes
    folders: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the plan
    seed: int | None = None
    start_timeout: float = 300.0
    round_timeout: float = 120.0


def run(
    file: Path, choices: Choices, files: dict[str, Path], *, force: bool, as_json: bool
) -> None:
    from pdml.cli import outputs, screen, train_nodes
    from pdml.cli import train_study_words as words
    from pdml.release.training import train_study
    from pdml.report.page import write
    from pdml.report.result import training_page
    from pdml.study import Study

    if choices.engine not in ENGINES:
        raise InvalidInput(f"engine must be one of {', '.join(ENGINES)}, got {choices.engine!r}")
    if choices.engine == "nodes":
        train_nodes.run(Study.load(file), choices, as_json=as_json)
        return
    for name, given in (("--node", choices.node), ("--resume", choices.resume)):
        if given:
            raise InvalidInput(f"{name} belongs to --engine nodes")
    outputs.check(list(files.values()), force=force)
    study = Study.load(file)
    with screen.progress("Training") as progress:
        trained = train_study(
            study,
            dict(_named(text) for text in choices.folders),
            engine=choices.engine,
            plan=plan_of(study, choices.settings),
            job=choices.job,
            random_state=choices.seed,
            progress=progress,
        )
    page = partial(write, page=training_page(trained))
    outputs.commit({files["report"]: page, files["model"]: trained.model.save})
    if as_json:
        screen.print_json(words.summary(trained.outcome, trained.model, choices.engine, files))
    else:
        words.show(study, trained.outcome, files)


def plan_of(study: "Study", settings: Mapping[str, Any]) -> "TrainingPlan | None":
    """The plan that options describe; None without any."""
    from pdml.train.plan import TrainingPlan

    if study.plan and settings:
        option = "--" + next(iter(settings)).replace("_", "-")
        raise InvalidInput(f"{option} must be left out: the study {study.id} settles the plan")
    return TrainingPlan.from_dict(dict(settings)) if settings else None


def _named(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not equals:
        raise InvalidInput(f"--data must be NAME=FOLDER, got {text!r}")
    return name, Path(folder)
