"""What `pdml train study.toml` does: the organisations' data sets in, one model out, on one machine
or between organisations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
    from pdml.cli import outputs, screen, train_nodes, train_together
    from pdml.cli import train_study_words as words
    from pdml.node import holdings
    from pdml.study import Study

    if choices.engine not in ENGINES:
        raise InvalidInput(f"engine must be one of {', '.join(ENGINES)}, got {choices.engine!r}")
    between = choices.engine == "nodes"
    if not between:
        outputs.check(list(files.values()), force=force)
    study = Study.load(file)
    job = choices.job or _job_name(study, choices.resume)
    contract = holdings.agreed(study, _plan(study, choices.settings), job)
    engine = choices.engine
    if between:
        out = choices.out or Path(f"result-{job}")
        if out.exists():
            raise InvalidInput(
                f"{out} exists already: a result is a folder of its own, give another one "
                "with --out"
            )
        train_nodes.write(train_nodes.train(contract, choices), job, out, as_json=as_json)
        return
    outcome = train_together.train(study, contract, choices)
    model = outcome.model(study)
    page = partial(words.write_page, study=study, outcome=outcome)
    outputs.commit({files["report"]: page, files["model"]: model.save})
    if as_json:
        screen.print_json(words.summary(outcome, model, engine, files))
    else:
        words.show(study, outcome, files)


def _job_name(study: "Study", resume: bool) -> str:
    if resume:
        raise InvalidInput("--resume needs --job: which job is to go on?")
    return f"{study.id.replace('.', '-')[:40]}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _plan(study: "Study", given: Mapping[str, Any]) -> "TrainingPlan":
    from pdml.train.plan import TrainingPlan

    if study.plan and given:
        raise InvalidInput(
            f"--{next(iter(given)).replace('_', '-')} must be left out: the study "
            f"{study.id} settles the plan"
        )
    return TrainingPlan.from_dict(dict(study.plan or given))
