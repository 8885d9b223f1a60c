"""A study trained in one trust domain: every server's frozen data set in, one model out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pdml._types import Array
from pdml.accounting import Budget, Ledger, PersonRows, Reports
from pdml.accounting.kinds import Method
from pdml.consortium.outcome import ConsortiumResult, Part
from pdml.encoding import device_encoding
from pdml.errors import InvalidInput
from pdml.mechanisms.integer_gaussian import Units
from pdml.mechanisms.label_flip import MILLION
from pdml.mechanisms.randomness import source_named
from pdml.model.history import History
from pdml.model.model import Model
from pdml.node.job import training_data
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol.job_terms import JobTerms
from pdml.numerics.admm import labels
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.study.frozen_dataset import open_frozen
from pdml.training import sums_release
from pdml.training.engines import local_engine
from pdml.training.server import Server, compiles

ENGINES = ("local", "ray")
Loader = Callable[[], Sequence[Server]]


@dataclass(frozen=True)
class TrainedStudy:
    """What `train_study` gives: nothing in it but noisy releases and public settings, and where the
    data are, which only `house` and `person_rows` read again.
    """

    study: Study
    outcome: ConsortiumResult
    data: Mapping[str, Path] = field(default_factory=dict)

    @cached_property
    def model(self) -> Model:
        """The average of the servers' last releases, or what the total of their sums tells;
        ``model.save(path)`` writes model.json.
        """
        return self.outcome.model(self.study)

    @cached_property
    def house(self) -> dict[str, Model]:
        """After an exchange of sums, each server's model for its own house, by name: made of its
        exact sums, which are added up again, and of the others' noisy ones. Not to be shared:
        ``house["alice"].save("house.json")`` writes a file for its owner alone.
        """
        return {name: self._house(name) for name in self.outcome.contract.servers}

    def _house(self, name: str) -> Model:
        contract = self.outcome.contract
        if contract.plan.method != Method.SUMS:
            raise InvalidInput(
                f"house is for jobs with method 'sums', got {contract.plan.method!r}: a model for "
                "the house needs the others' sums",
                setting="method",
            )
        server = _load_training_data(self.study, name, self.data[name]).server
        row = self.outcome.parts[server.spec.server].released
        return self.outcome.local_model(
            self.study, server.spec, sums_release.exact(server, contract.plan), row
        )

    @property
    def ledger(self) -> Ledger:
        """Who can learn what from this job."""
        return self.outcome.ledger

    def person_rows(self) -> PersonRows:
        """Each record's own ε against everybody, by what its owner chose for the label and for
        every randomised answer, which is read from the data sets again.

        Returns
        -------
        PersonRows
            Servers in the study's order, records in the order of their data set.
        """
        servers, epsilons, weights, chosen = [], [], [], []
        for i, name in enumerate(self.outcome.contract.servers):
            frozen = open_frozen(self.data[name], study_hash=self.study.hash)
            label_epsilons = np.asarray(frozen.epsilons) / MILLION
            loud = labels.keep_weight(label_epsilons, len(self.study.classes))
            servers.append(np.full(len(label_epsilons), i))
            epsilons.append(label_epsilons)
            weights.append(loud / loud.max())
            chosen.append(
                device_encoding.read_epsilons(self.study.encoder, np.asarray(frozen.features))
                / MILLION
            )
        names = [attribute.name for attribute in self.study.encoder.sensitive]
        reports = Reports(
            np.concatenate(servers),
            np.concatenate(epsilons),
            np.concatenate(weights),
            dict(zip(names, np.concatenate(chosen).T, strict=True)),
        )
        return replace(self.ledger, reports=reports).person_rows()

    @property
    def history(self) -> History:
        """Round by round, from what was sent; without any after an exchange of sums."""
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
        With ``model``, ``ledger`` and ``history``; after an exchange of sums also ``house``.

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
    contract = JobTerms.for_study(study, resolve_study_plan(study, plan), job or job_name(study))
    folders = _folders(contract, data)
    datasets = [_load_training_data(study, name, folders[name]) for name in contract.servers]
    source = source_named("secure" if random_state is None else "simulated", random_state)
    parts = tuple(_planned(contract, dataset) for dataset in datasets)
    planned = ConsortiumResult(contract=contract, parts=parts, source=source.name)
    planned.ledger.check(study.budget or Budget())
    run = local_engine.Run(contract.plan, [dataset.server for dataset in datasets], source)
    loaders = [_Loader(study.canonical(), name, folders[name]) for name in contract.servers]
    if contract.plan.method == Method.SUMS:
        rows = _exchange(run, loaders, engine)
        progress(1, 1)
        done = [replace(part, released=rows[i]) for i, part in enumerate(parts)]
    else:
        released, apart = _rounds(contract, run, loaders, engine, progress)
        done = [
            replace(part, released=released[i], apart=[distances[i] for distances in apart[:-1]])
            for i, part in enumerate(parts)
        ]
    return TrainedStudy(study, replace(planned, parts=tuple(done)), folders)


def resolve_study_plan(study: Study, plan: TrainingPlan | None) -> TrainingPlan:
    """The study's own plan, or the one that is given for a study without one."""
    if study.plan is not None and plan is not None:
        raise InvalidInput(
            f"plan must be left out: the study {study.id} settles it", setting="plan"
        )
    return plan or study.plan or TrainingPlan()


def job_name(study: Study) -> str:
    """A name for a training that nobody named."""
    return f"{study.id.replace('.', '-')[:40]}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _folders(contract: JobTerms, data: Mapping[str, str | PathLike[str]]) -> dict[str, Path]:
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
    return {name: Path(folder).absolute() for name, folder in data.items()}


def _planned(contract: JobTerms, dataset: TrainingData) -> Part:
    """A server's part before the first round: nothing released, and what all rounds will spend."""
    spec = dataset.server.spec
    return Part(
        server=contract.servers[spec.server],
        records=spec.records,
        released=np.zeros(contract.shape),
        apart=(),
        label_epsilon=spec.label_epsilon,
        epsilons=spec.epsilons,
        randomised_by=dataset.randomised_by,
        events=contract.plan.events(spec),
    )


def _load_training_data(study: Study, name: str, folder: Path) -> TrainingData:
    return training_data.load_training_data(study, name, open_frozen(folder, study_hash=study.hash))


def _exchange(run: local_engine.Run, loaders: Sequence[Loader], engine: str) -> Units:
    """The row of every server."""
    if engine == "local":
        return local_engine.exchange(run).released
    from pdml.training.engines import cluster, ray_engine

    with cluster.connected():
        shards = [ray_engine.Shard((i,), load) for i, load in enumerate(loaders)]
        return ray_engine.exchange(run.plan, run.source, shards).released


def _rounds(
    contract: JobTerms,
    run: local_engine.Run,
    loaders: Sequence[Loader],
    engine: str,
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

    flags = [compiles(server, contract.plan) for server in run.servers]
    if engine == "local":
        trained = local_engine.train(contract.graph, run, observe=observe, use_numba=flags)
        return trained.released, apart
    from pdml.training.engines import cluster, ray_engine

    with cluster.connected():
        shards = [ray_engine.Shard((i,), load) for i, load in enumerate(loaders)]
        on_cluster = ray_engine.train(
            contract.graph, contract.plan, run.source, shards, observe=observe, use_numba=flags
        )
    return on_cluster.released, apart


@dataclass(frozen=True)
class _Loader:
    """One server's records, read where an actor runs."""

    study: bytes
    server: str
    folder: Path

    def __call__(self) -> list[Server]:
        return [
            _load_training_data(Study.from_canonical(self.study), self.server, self.folder).server
        ]
