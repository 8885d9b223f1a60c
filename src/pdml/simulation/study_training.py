"""A study trained in one trust domain: every server's frozen data set in, one model out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array
from pdml.accounting import Budget, Reports
from pdml.clock import SYSTEM_CLOCK, Clock, today
from pdml.encoding import device_encoding
from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import MILLION
from pdml.mechanisms.randomness import source_named
from pdml.node.job import training_data
from pdml.node.job.job_result import study_result
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol.job_terms import JobTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.study.frozen_dataset import open_frozen
from pdml.training.local_engine import ENGINES, Run, exchange_by, train_by
from pdml.training.result import ServerPart, TrainingResult, ledger_of
from pdml.training.server import Server, compiles


def train_study(
    study: Study,
    data: Mapping[str, str | PathLike[str]],
    *,
    engine: str = "local",
    plan: TrainingPlan | None = None,
    job: str = "",
    random_state: int | None = None,
    local_models: bool = False,
    progress: Callable[[int, int], None] = lambda done, of: None,
    clock: Clock = SYSTEM_CLOCK,
) -> TrainingResult:
    """Train under a study where one trust domain holds every server's records.

    Parameters
    ----------
    study : Study
        The terms, `Study.load("study.toml")`.
    data : mapping of str to path
        For every server the folder of its frozen data set, as `pdml collect export` and
        `pdml node data` write it.
    engine : str
        "local" is this process; "ray" one actor for each server, which reads its records there.
    plan : TrainingPlan, optional
        For a study without a plan of its own; refused for one that has one.
    job : str
        The training's name, by default the study's with the time.
    random_state : int, optional
        A seed: simulated noise, which protects nobody. By default the noise is the operating
        system's.
    local_models : bool
        Also a model for each server's own use, after an exchange of sums: made of its exact sums,
        not to be shared.
    progress : callable
        Hears (rounds done, of how many).
    clock : Clock
        Says the day that the model names, and the time in the training's default name.

    Returns
    -------
    TrainingResult
        With ``model``, ``ledger``, ``history`` and ``person_rows``.

    Raises
    ------
    InvalidInput
        If a data set is missing or is none of this study's, or the plan is not to be chosen.
    BudgetExceeded
        If the whole job exceeds the study's budget: before the first round.

    Guarantees
    ----------
    - Released is what the study's nodes would release, to the bit where the noise is the same.
    - The ledger and the budget count this job alone: no journal is kept here, and whoever trains
      twice on the same records must add the two ledgers up.

    Examples
    --------
    >>> data = {name: f"frozen/{name}" for name in ("alice", "bob", "carol")}
    >>> trained = train_study(Study.load("study.toml"), data)
    >>> trained.model.save("study-model.json")
    """
    if engine not in ENGINES:
        raise InvalidInput(
            f"engine must be one of {', '.join(ENGINES)}, got {engine!r}", setting="engine"
        )
    terms = JobTerms.for_study(
        study, resolve_study_plan(study, plan), job or job_name(study, clock)
    )
    if local_models and not terms.sums:
        raise InvalidInput(
            f"local_models are for jobs with method 'sums', got {terms.plan.method!r}: a local "
            "model needs the others' sums",
            setting="method",
        )
    folders = _folders(terms, data)
    datasets = [_load_training_data(study, name, folders[name]) for name in terms.servers]
    source = source_named("secure" if random_state is None else "simulated", random_state)
    planned = [_planned(terms, dataset) for dataset in datasets]
    ledger_of(planned, source.name).check(study.budget or Budget())
    run = Run(terms.plan, [dataset.server for dataset in datasets], source)
    loaders = [
        partial(_load_server, study.canonical(), name, folders[name]) for name in terms.servers
    ]
    released: NDArray[Any]
    local_weights: Sequence[Array] = ()
    distances: list[float] = []
    if terms.sums:
        done = exchange_by(engine, run, loaders=loaders, local_models=local_models)
        released, local_weights = done.released, done.local_models
        progress(1, 1)
    else:

        def observe(t: int, released: Any, _: Any) -> None:
            sent = released[0]
            distances.append(
                max(float(np.linalg.norm(sent[i] - sent[k])) for i, k in terms.graph.edges)
            )
            progress(t, terms.plan.rounds)

        flags = [compiles(server, terms.plan) for server in run.servers]
        released = train_by(
            engine, terms.graph, run, observe, loaders=loaders, use_numba=flags
        ).released
    return study_result(
        study,
        terms,
        [replace(part, released=sent) for part, sent in zip(planned, released, strict=True)],
        source=source.name,
        distances=distances[:-1],  # the last is measured between all servers
        local_weights=dict(zip(terms.servers, local_weights, strict=False)),
        reports=_reports(study, [folders[name] for name in terms.servers]),
        date=today(clock),
    )


def resolve_study_plan(study: Study, plan: TrainingPlan | None) -> TrainingPlan:
    """The study's own plan, or the one that is given for a study without one."""
    if study.plan is not None and plan is not None:
        raise InvalidInput(
            f"plan must be left out: the study {study.id} settles it", setting="plan"
        )
    return plan or study.plan or TrainingPlan()


def job_name(study: Study, clock: Clock = SYSTEM_CLOCK) -> str:
    """A name for a training that nobody named."""
    now = datetime.fromtimestamp(clock.now(), UTC)
    return f"{study.id.replace('.', '-')[:40]}-{now:%Y%m%d-%H%M%S}"


def _folders(terms: JobTerms, data: Mapping[str, str | PathLike[str]]) -> dict[str, Path]:
    names = ", ".join(terms.servers)
    if strangers := [name for name in data if name not in terms.servers]:
        raise InvalidInput(
            f"data must be for servers of the study ({names}), got one for {strangers[0]!r}",
            setting="data",
        )
    if missing := [name for name in terms.servers if name not in data]:
        raise InvalidInput(
            f"data must name a data set for every server, got none for {', '.join(missing)}",
            setting="data",
        )
    return {name: Path(folder).absolute() for name, folder in data.items()}


def _planned(terms: JobTerms, dataset: TrainingData) -> ServerPart:
    """A server's part before the first round, and what all rounds will spend."""
    spec = dataset.server.spec
    return ServerPart(
        name=terms.servers[spec.server],
        spec=spec,
        released=np.zeros(terms.shape),
        randomised_by=dataset.randomised_by,
        events=terms.plan.events(spec),
    )


def _reports(study: Study, folders: Sequence[Path]) -> Reports:
    """The server of each record, and its owner's ε of the label and of other randomised answers."""
    servers, epsilons, chosen = [], [], []
    for i, folder in enumerate(folders):
        frozen = open_frozen(folder, study_hash=study.hash)
        epsilons.append(np.asarray(frozen.epsilons) / MILLION)
        servers.append(np.full(len(epsilons[-1]), i))
        answers = device_encoding.read_epsilons(study.encoder, np.asarray(frozen.features))
        chosen.append(answers / MILLION)
    names = [attribute.name for attribute in study.encoder.sensitive]
    return Reports.of(
        np.concatenate(servers),
        np.concatenate(epsilons),
        len(study.classes),
        dict(zip(names, np.concatenate(chosen).T, strict=True)),
    )


def _load_training_data(study: Study, name: str, folder: Path) -> TrainingData:
    return training_data.load_training_data(study, name, open_frozen(folder, study_hash=study.hash))


def _load_server(study: bytes, name: str, folder: Path) -> list[Server]:
    """One server's records, read where an actor runs."""
    return [_load_training_data(Study.from_canonical(study), name, folder).server]
