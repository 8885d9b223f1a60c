"""`pdml train study.toml` in one trust domain: all frozen data sets in this process, or in the
actors of one cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml.cli.train_study import Choices
    from pdml.node.contract import Contract
    from pdml.node.party import Holdings
    from pdml.release.consortium import Outcome, Part
    from pdml.study import Study
    from pdml.train.node import Server


@dataclass(frozen=True)
class Loader:
    """One server's records, read where an actor runs."""

    study: bytes
    server: str
    folder: Path

    def __call__(self) -> "list[Server]":
        from pdml.frozen import open_frozen
        from pdml.node import holdings
        from pdml.study import Study

        study = Study.from_canonical(self.study)
        return [
            holdings.hold(
                study, self.server, open_frozen(self.folder, study_hash=study.hash)
            ).server
        ]


def train(study: "Study", contract: "Contract", choices: "Choices") -> "Outcome":
    """The budget is checked for the whole job before the first round, and for this job alone."""
    import numpy as np

    from pdml.accounting import Budget
    from pdml.cli.screen import progress
    from pdml.frozen import open_frozen
    from pdml.mechanisms.randomness import source_named
    from pdml.node import holdings
    from pdml.release.consortium import Outcome
    from pdml.train.engines import local
    from pdml.train.node import compiles

    for name, given in (("--node", choices.node), ("--resume", choices.resume)):
        if given:
            raise InvalidInput(f"{name} belongs to --engine nodes")
    folders = _folders(contract, choices.folders)
    held = [
        holdings.hold(study, name, open_frozen(folders[name], study_hash=study.hash))
        for name in contract.servers
    ]
    source = source_named("secure" if choices.seed is None else "simulated", choices.seed)
    planned = Outcome(
        contract=contract,
        parts=tuple(_planned(contract, each) for each in held),
        source=source.name,
    )
    planned.ledger.check(study.budget or Budget())
    apart: list[list[float]] = []

    with progress("Training") as on_round:

        def observe(t: int, released: Any, _: Any) -> None:
            sent = released[0]
            near = [
                [float(np.linalg.norm(sent[i] - sent[k])) for k in contract.graph.neighbours(i)]
                for i in range(len(sent))
            ]
            apart.append([max(distances) for distances in near])
            on_round(t, contract.plan.rounds)

        flags = [compiles(each.server, contract.plan) for each in held]
        if choices.engine == "local":
            run = local.Run(contract.plan, [each.server for each in held], source)
            trained = local.train(contract.graph, run, observe=observe, use_numba=flags)
        else:
            from pdml.train.engines import ray

            loaders = [
                Loader(study.canonical(), name, folders[name].absolute())
                for name in contract.servers
            ]
            with ray.connected():
                shards = [ray.Shard((i,), load) for i, load in enumerate(loaders)]
                trained = ray.train(
                    contract.graph, contract.plan, source, shards, observe=observe, use_numba=flags
                )

    parts = tuple(
        replace(
            part, released=trained.released[i], apart=[distances[i] for distances in apart[:-1]]
        )
        for i, part in enumerate(planned.parts)
    )
    return replace(planned, parts=parts)


def _planned(contract: "Contract", held: "Holdings") -> "Part":
    """A server's part before the first round: nothing released, and what all rounds will spend."""
    import numpy as np

    from pdml.release.consortium import Part

    server = held.server
    return Part(
        server=contract.servers[server.index],
        records=server.records,
        released=np.zeros(contract.shape),
        apart=(),
        label_epsilon=held.label_epsilon,
        randomised_by=held.randomised_by,
        events=contract.events(
            contract.servers[server.index], records=server.records, epsilon=server.epsilon
        ),
    )


def _folders(contract: "Contract", given: Sequence[str]) -> dict[str, Path]:
    """NAME=FOLDER for every server of the study."""
    found = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals or name not in contract.servers:
            raise InvalidInput(
                f"--data must be NAME=FOLDER with one of {', '.join(contract.servers)}, got "
                f"{text!r}"
            )
        found[name] = Path(folder)
    if missing := [name for name in contract.servers if name not in found]:
        raise InvalidInput(
            f"--data must name a data set for every server, got none for {', '.join(missing)}"
        )
    return found
