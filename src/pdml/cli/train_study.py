"""What `pdml train study.toml` does: the organisations' data sets in, one model out, on one machine or between organisations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.release.consortium import Outcome
    from pdml.study import Study
    from pdml.train.contract import Contract
    from pdml.train.node import Server
    from pdml.train.plan import TrainingPlan

ENGINES = ("local", "ray", "flare")
ONE_PROCESS = "One process held every organisation's records: the ledger says what the parties would have learnt."


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The command's options, as far as a study leaves something to choose."""

    engine: str
    job: str = ""
    resume: bool = False
    admin: Path | None = None
    folders: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the plan
    seed: int | None = None
    start_timeout: float = 300.0
    round_timeout: float = 120.0


def run(file: Path, choices: Choices, files: dict[str, Path], *, force: bool, as_json: bool) -> None:
    from pdml.cli import outputs, screen
    from pdml.study import Study
    from pdml.train import holdings

    if choices.engine not in ENGINES:
        raise InvalidInput(f"engine must be one of {', '.join(ENGINES)}, got {choices.engine!r}")
    outputs.check(list(files.values()), force=force)
    study = Study.load(file)
    job = choices.job or _job_name(study, choices.resume)
    contract = holdings.agreed(study, _plan(study, choices.settings), job)
    outcome = (_flare if choices.engine == "flare" else _together)(study, contract, choices)
    model = outcome.model(study)
    outputs.commit({files["report"]: lambda path: _write_page(path, study, outcome, choices), files["model"]: model.save})
    if as_json:
        screen.print_json(_summary(outcome, model, choices, files))
    else:
        _show(study, outcome, choices, files)


def _job_name(study: "Study", resume: bool) -> str:
    if resume:
        raise InvalidInput("--resume needs --job: which job is to go on?")
    return f"{study.id.replace('.', '-')[:40]}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _plan(study: "Study", given: Mapping[str, Any]) -> "TrainingPlan":
    from pdml.train.plan import TrainingPlan

    if study.plan and given:
        raise InvalidInput(f"--{next(iter(given)).replace('_', '-')} must be left out: the study {study.id} settles the plan")
    return TrainingPlan.from_dict(dict(study.plan or given))


# In one trust domain


@dataclass(frozen=True)
class Loader:
    """One server's records, read where an actor runs."""

    study: bytes
    server: str
    folder: Path

    def __call__(self) -> "list[Server]":
        from pdml.frozen import open_frozen
        from pdml.study import Study
        from pdml.train import holdings

        study = Study.from_canonical(self.study)
        return [holdings.hold(study, self.server, open_frozen(self.folder, study_hash=study.hash)).server]


def _together(study: "Study", contract: "Contract", choices: Choices) -> "Outcome":
    """All servers in this process, or as actors of one cluster, from frozen data sets."""
    import numpy as np

    from pdml.accounting import Budget
    from pdml.cli.screen import progress
    from pdml.frozen import open_frozen
    from pdml.mechanisms.randomness import source_named
    from pdml.release.consortium import Outcome, Part
    from pdml.train import holdings
    from pdml.train.engines import local

    for name, given in (("--admin", choices.admin), ("--resume", choices.resume)):
        if given:
            raise InvalidInput(f"{name} belongs to --engine flare")
    folders = _folders(contract, choices.folders)
    held = [holdings.hold(study, name, open_frozen(folders[name], study_hash=study.hash)) for name in contract.servers]
    source = source_named("secure" if choices.seed is None else "simulated", choices.seed)
    apart: list[list[float]] = []

    with progress("Training") as on_round:

        def observe(t: int, released: Any, _: Any) -> None:
            sent = released[0]
            near = [[float(np.linalg.norm(sent[i] - sent[k])) for k in contract.graph.neighbours(i)] for i in range(len(sent))]
            apart.append([max(distances) for distances in near])
            on_round(t, contract.plan.rounds)

        def planned(i: int) -> Part:
            server = held[i].server
            return Part(
                server=contract.servers[i],
                records=server.records,
                released=np.zeros(contract.shape),
                apart=(),
                label_epsilon=held[i].label_epsilon,
                events=contract.plan.events(
                    server=i,
                    n_servers=server.n_servers,
                    degree=server.degree,
                    records=server.records,
                    epsilon=server.epsilon,
                    norm_bound=server.norm_bound,
                    width=contract.width,
                    classes=contract.classes,
                ),
            )

        parts = [planned(i) for i in range(len(held))]
        Outcome(contract=contract, parts=tuple(parts), source=source.name).ledger.check(study.budget or Budget())
        if choices.engine == "local":
            trained = local.train(contract.graph, local.Run(contract.plan, [part.server for part in held], source), observe=observe)
        else:
            from pdml.train.engines import ray

            loaders = [Loader(study.canonical(), name, folders[name].absolute()) for name in contract.servers]
            with ray.connected():
                shards = [ray.Shard((i,), load) for i, load in enumerate(loaders)]
                trained = ray.train(contract.graph, contract.plan, source, shards, observe=observe)

    done = tuple(
        replace(part, released=trained.released[i], apart=[distances[i] for distances in apart[:-1]]) for i, part in enumerate(parts)
    )
    return Outcome(contract=contract, parts=done, source=source.name)


def _folders(contract: "Contract", given: Sequence[str]) -> dict[str, Path]:
    """NAME=FOLDER for every server of the study."""
    found = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals or name not in contract.servers:
            raise InvalidInput(f"--data must be NAME=FOLDER with one of {', '.join(contract.servers)}, got {text!r}")
        found[name] = Path(folder)
    if missing := [name for name in contract.servers if name not in found]:
        raise InvalidInput(f"--data must name a data set for every server, got none for {', '.join(missing)}")
    return found


# Between organisations


def _flare(study: "Study", contract: "Contract", choices: Choices) -> "Outcome":
    """Submit, follow, fetch; an interrupt stops the job at every node."""
    try:
        from pdml.train.engines.flare.session import connect, open_desk
    except ImportError:
        raise InvalidInput("--engine flare needs NVIDIA FLARE: pip install 'pdml[flare]'") from None
    from pdml.release.consortium import Outcome, Part

    if choices.admin is None:
        raise InvalidInput("--admin must be given: the folder `admin` that `pdml node provision` made")
    if choices.folders or choices.seed is not None:
        raise InvalidInput("--data and --seed belong to --engine local: nodes have their own data and draw their own noise")
    site = open_desk(choices.admin)
    if site.study().hash != contract.study:
        raise InvalidInput(f"the kit {choices.admin} was made for another study than this file: provision again, or use its own study")
    limits = {"start_timeout": choices.start_timeout, "round_timeout": choices.round_timeout}
    longest = choices.start_timeout * 2 + choices.round_timeout * contract.plan.rounds
    with connect(site, timeout=min(60.0, choices.start_timeout)) as desk:
        desk.wait_for(contract.servers, choices.start_timeout)
        with _nodes(contract) as follow:
            number = desk.submit(contract, resume=choices.resume, **limits)
            try:
                status = desk.follow(number, follow, timeout=longest)
            except BaseException:
                desk.abort(number)
                _say(f"job {contract.job} is stopped at every node; to go on: --job {contract.job} --resume")
                raise
        reports = desk.result(number, contract, status)
    sources = {report.source for report in reports.values()}
    return Outcome(
        contract=contract,
        source=sources.pop() if len(sources) == 1 else "simulated",  # one node that protects nobody is enough
        parts=tuple(
            Part(
                server=name,
                records=report.records,
                released=report.vector,
                apart=report.apart,
                label_epsilon=report.label_epsilon,
                events=report.spent,
                earlier=report.spent_before,
            )
            for name, report in reports.items()
        ),
    )


def _say(sentence: str) -> None:
    import sys

    print(f"pdml: {sentence}", file=sys.stderr)


@contextmanager
def _nodes(contract: "Contract") -> Iterator[Callable[[Mapping[str, int]], None]]:
    """Every node's round: a bar each on a terminal, a line now and then elsewhere."""
    import sys
    import time

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    rounds = contract.plan.rounds
    err = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if err.is_terminal and not err.is_dumb_terminal:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn("rounds"))
        with Progress(*columns, console=err, transient=True) as bars:
            tasks = {name: bars.add_task(name, total=rounds) for name in contract.servers}

            def draw(told: Mapping[str, int]) -> None:
                for name in tasks.keys() & told.keys():
                    bars.update(tasks[name], completed=told[name])

            yield draw
        return
    spoken = 0.0

    def log(told: Mapping[str, int]) -> None:
        nonlocal spoken
        if time.monotonic() - spoken > 5:
            spoken = time.monotonic()
            print(", ".join(f"{name}: round {t} of {rounds}" for name, t in told.items()), file=sys.stderr, flush=True)

    yield log


# What people see


def _rows(outcome: "Outcome") -> list[tuple[str, int, int, None]]:
    degrees = outcome.contract.graph.degrees
    return [(part.server, part.records, int(degrees[i]), None) for i, part in enumerate(outcome.parts)]


def _notes(outcome: "Outcome", choices: Choices) -> list[str]:
    from pdml.cli.card import SIMULATED

    said = []
    for part in outcome.parts:
        if part.earlier:
            said.append(f"{part.server}'s data set was used before; its ledger holds the earlier jobs too.")
    if outcome.source == "simulated":
        said.append(SIMULATED)
    elif choices.engine == "local":
        said.append(ONE_PROCESS)
    return said


def _lead(study: "Study", outcome: "Outcome") -> str:
    total, contract = sum(part.records for part in outcome.parts), outcome.contract
    return (
        f"{total:,} reports with {study.encoder.n_features} features, classes {', '.join(study.classes)}; labels randomised on "
        f"people's devices; {len(contract.servers)} organisations, {contract.graph.n_edges} links, {contract.plan.rounds} rounds."
    )


def _write_page(path: Path, study: "Study", outcome: "Outcome", choices: Choices) -> None:
    import pdml
    from pdml.report.page import Page, ServerRow, write

    plan = outcome.contract.plan.to_dict()
    shown = {name.replace("_", " "): str(value) for name, value in plan.items() if value is not None}
    page = Page(
        title=study.title,
        lead=_lead(study, outcome),
        history=outcome.history(),
        n_servers=outcome.contract.graph.n,
        edges=outcome.contract.graph.edges,
        servers=tuple(ServerRow(name=name, records=m, links=links) for name, m, links, _ in _rows(outcome)),
        accuracy_note="no records were kept to measure it on",
        lines=tuple(outcome.ledger.lines()),
        source=outcome.source,
        settings={"study": study.id, "study hash": study.hash, "job": outcome.contract.job, **shown},
        notes=tuple(_notes(outcome, choices)),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by pdml {pdml.__version__}",
    )
    write(path, page)


def _summary(outcome: "Outcome", model: Any, choices: Choices, files: dict[str, Path]) -> dict[str, Any]:
    return {
        "study": model.provenance["study"],
        "job": outcome.contract.job,
        "engine": choices.engine,
        "classes": list(model.classes),
        "servers": [{"name": name, "records": m, "links": links} for name, m, links, _ in _rows(outcome)],
        "consensus_distance": outcome.consensus,
        "plan": model.plan,
        "privacy": model.privacy,
        "noise_source": outcome.source,
        "files": {name: str(path) for name, path in files.items()},
    }


def _show(study: "Study", outcome: "Outcome", choices: Choices, files: dict[str, Path]) -> None:
    from pdml.cli import screen

    out = screen.console()
    screen.show(out, study.title, screen.accuracy_table(_rows(outcome), ()), _lead(study, outcome))
    ledger = outcome.ledger
    sentence = f"Starting from 50%, for the person protected least; against other servers but for a chance of {ledger.delta:g} (delta)."
    screen.show(out, "If I said yes, how sure can they be?", screen.privacy_table(ledger.lines()), sentence)
    out.print()
    for note in _notes(outcome, choices):
        out.print(note)
    screen.list_files(out, files)
