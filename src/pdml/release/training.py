"""A study trained in one trust domain: every server's frozen data set in, one model out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pdml._types import Array
from pdml.accounting import Budget, Ledger
from pdml.errors import InvalidInput
from pdml.frozen import open_frozen
from pdml.mechanisms.randomness import Source, source_named
from pdml.node import holdings
from pdml.node.contract import Contract
from pdml.node.party import Holdings
from pdml.release.consortium import Outcome, Part
from pdml.release.history import History
from pdml.release.model import Model
from pdml.study import Study
from pdml.train.engines import local
from pdml.train.node import Server, compiles
from pdml.train.plan import TrainingPlan

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class TrainedStudy:
    """What `train_study` gives: nothing in it but noisy releases and public settings."""

    study: Study
    outcome: Outcome

    @cached_property
    def model(self) -> Model:
        """The average of the servers' last releases; ``model.save(path)`` writes model.json."""
        return self.outcome.model(self.study)

    @property
    def ledger(self) -> Ledger:
        """Who can learn what from this job."""
        return self.outcome.ledger

    @property
    def history(self) -> History:
        """Round by round, from what was sent."""
        return self.outcome.history()


def train_study(
    study: Study,
    data: Mapping[str, str | PathLike[str]],
    *,
    engine: str = "local",
    plan: TrainingPlan | None = None,
    job: str = "",
    random_state: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> TrainedStudy:
    """Train under a study where one trust domain holds every server's records.

    Parameters
    ----------
    study : Study
        The contract, `Study.load("study.toml")`.
    data : mapping of str to path
        For every server of the study the folder of its frozen data set, as `pdml collect export`
        and `pdml node data` write it.
    engine : str
        "local" is this process; "ray" one actor for each server, which reads its records where it
        runs.
    plan : TrainingPlan, optional
        For a study without a plan of its own; refused for one that has one.
    job : str
        The training's name, by default the study's with the time.
    random_state : int, optional
        A seed: simulated noise, which protects nobody. By default the noise is the operating
        system's.
    progress : callable
        Hears (rounds done, of how many).

    Returns
    -------
    TrainedStudy
        With ``model``, ``ledger`` and ``history``.

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
    >>> trained = train_study(Study.load("study.toml"), {"alice": "frozen/alice"})  # doctest: +SKIP
    >>> trained.model.save("model.json")  # doctest: +SKIP
    """
    if engine not in ENGINES:
        raise InvalidInput(
            f"engine must be one of {', '.join(ENGINES)}, got {engine!r}", setting="engine"
        )
    contract = holdings.agreed(study, settled_plan(study, plan), job or job_name(study))
    folders = _folders(contract, data)
    held = [
        holdings.hold(study, name, open_frozen(folders[name], study_hash=study.hash))
        for name in contract.servers
    ]
    source = source_named("secure" if random_state is None else "simulated", random_state)
    parts = tuple(_planned(contract, each) for each in held)
    planned = Outcome(contract=contract, parts=parts, source=source.name)
    planned.ledger.check(study.budget or Budget())
    released, apart = _run(study, contract, held, source, engine, folders, progress)
    done = (
        replace(part, released=released[i], apart=[distances[i] for distances in apart[:-1]])
        for i, part in enumerate(parts)
    )
    return TrainedStudy(study, replace(planned, parts=tuple(done)))


def settled_plan(study: Study, plan: TrainingPlan | None) -> TrainingPlan:
    """The study's own plan, or the one that is given for a study without one."""
    if study.plan and plan is not None:
        raise InvalidInput(
            f"plan must be left out: the study {study.id} settles it", setting="plan"
        )
    return plan or TrainingPlan.from_dict(dict(study.plan or {}))


def job_name(study: Study) -> str:
    """A name for a training that nobody named."""
    return f"{study.id.replace('.', '-')[:40]}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _folders(contract: Contract, data: Mapping[str, str | PathLike[str]]) -> dict[str, Path]:
    names = ", ".join(contract.servers)
    if strangers := [name for name in data if name not in contract.servers]:
        raise InvalidInput(
            f"data must be for servers of the study ({names}), got one for {strangers[0]!r}",
            setting="data",
        )
    if missing := [name for name in contract.servers if name not in data]:
        raise InvalidInput(
            f"data must name a data set for every server, got none for {', '.join(missing)}",
            setting="data",
        )
    return {name: Path(folder) for name, folder in data.items()}


def _planned(contract: Contract, held: Holdings) -> Part:
    """A server's part before the first round: nothing released, and what all rounds will spend."""
    server, name = held.server, contract.servers[held.server.index]
    return Part(
        server=name,
        records=server.records,
        released=np.zeros(contract.shape),
        apart=(),
        label_epsilon=held.label_epsilon,
        randomised_by=held.randomised_by,
        events=contract.events(name, records=server.records, epsilon=server.epsilon),
    )


def _run(
    study: Study,
    contract: Contract,
    held: list[Holdings],
    source: Source,
    engine: str,
    folders: Mapping[str, Path],
    progress: Callable[[int, int], None],
) -> tuple[Array, list[list[float]]]:
    """The last releases, and how far every server's lay from its farthest neighbour's, by round."""
    apart: list[list[float]] = []

    def observe(t: int, released: Any, _: Any) -> None:
        sent = released[0]
        near = [
            [float(np.linalg.norm(sent[i] - sent[k])) for k in contract.graph.neighbours(i)]
            for i in range(len(sent))
        ]
        apart.append([max(distances) for distances in near])
        progress(t, contract.plan.rounds)

    flags = [compiles(each.server, contract.plan) for each in held]
    if engine == "local":
        run = local.Run(contract.plan, [each.server for each in held], source)
        trained = local.train(contract.graph, run, observe=observe, use_numba=flags)
        return trained.released, apart
    from pdml.train.engines import ray

    loaders = [
        _Loader(study.canonical(), name, folders[name].absolute()) for name in contract.servers
    ]
    with ray.connected():
        shards = [ray.Shard((i,), load) for i, load in enumerate(loaders)]
        on_cluster = ray.train(
            contract.graph, contract.plan, source, shards, observe=observe, use_numba=flags
        )
    return on_cluster.released, apart


@dataclass(frozen=True)
class _Loader:
    """One server's records, read where an actor runs."""

    study: bytes
    server: str
    folder: Path

    def __call__(self) -> list[Server]:
        study = Study.from_canonical(self.study)
        frozen = open_frozen(self.folder, study_hash=study.hash)
        return [holdings.hold(study, self.server, frozen).server]
