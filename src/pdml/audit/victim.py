"""One server under attack, run by the real code: `Node.step`, its solver, its noises and the label
flip.

The adversary is all the other servers together. What they send is fixed beforehand (`messages`),
they know every record and every other label, and they see every message; so one server's transcript
is all that matters, and no federation is run. That the engines release the same numbers as `Node`
is tested to the bit in tests/unit/training and tests/unit/node.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf, sqrt

import numpy as np

from pdml._types import Array, IntArray
from pdml.accounting import Budget, Ledger
from pdml.accounting.events import Event, IterateReleased, ObjectiveNoised, SumsReleased
from pdml.accounting.kinds import Adversary, Data
from pdml.audit.confidence import DELTAS
from pdml.encoding.encoder import Encoder, Number
from pdml.mechanisms.label_flip import LabelFlip, flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated, Source
from pdml.node.protocol.job_terms import JobTerms
from pdml.numerics.admm import labels
from pdml.planning.server_spec import RowSpec, ServerSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.research.processes import run_parallel
from pdml.study import Study
from pdml.study.schema.servers import ServerEntry
from pdml.training.server import Node, Server

CHUNK = 500  # transcripts per task


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How hard to try: more samples bring the measured bounds closer to the truth."""

    transcripts: int  # per world
    labels: int  # randomised per world
    pairs: int  # of neighbours whose solutions are compared
    jobs: int = 1  # processes; 1 stays in this one, 0 is one per core


@dataclass(frozen=True, kw_only=True)
class Victim:
    """A server whose neighbours send ``messages``, (T, C, d); its record 0 is the one in question.

    ``randomise``: the label of record 0 is a true one and goes through the device's flip; else all
    labels are reports. ``trainings``: how often the same records are trained on, each time with
    fresh noise.
    """

    plan: TrainingPlan
    matrix: Array
    labels: IntArray
    epsilon: float
    messages: Array
    n_servers: int = 2
    degree: int = 1
    norm_bound: float = 1.0
    classes: int = 2
    randomise: bool = False
    trainings: int = 1

    def server(self, source: Source) -> Server:
        reported = self.labels.copy()
        if self.randomise:
            reported[:1] = flip_labels(
                reported[:1], np.array([self.epsilon]), self.classes, source.stream(LABELS)
            )
        codes = labels.codes(reported, self.epsilon, self.classes)
        return Server(self.spec, self.matrix, codes)

    def by_report(self) -> list[Server]:
        """The server for every label that record 0 may have been reported with."""
        servers = []
        for report in range(self.classes):
            reported_labels = np.concatenate([[report], self.labels[1:]])
            servers.append(
                replace(self, labels=reported_labels, randomise=False).server(Simulated(0))
            )
        return servers

    def chances(self) -> Array:
        """Of each of these labels."""
        truth = np.asarray(np.eye(self.classes)[self.labels[0]])
        return response(truth, self.epsilon) if self.randomise else truth

    def reported(self, count: int, source: Simulated) -> IntArray:
        """What ``count`` devices say about record 0 in each training: they repeat their answer."""
        reports = np.full(count, self.labels[0])
        if self.randomise:
            epsilons = np.full(count, self.epsilon)
            reports = flip_labels(reports, epsilons, self.classes, source.stream(LABELS))
        return np.repeat(reports[:, None], self.trainings, axis=1)

    @property
    def spec(self) -> ServerSpec:
        """Server 0 of ``n_servers``, all of whose labels have the same ε."""
        rows = RowSpec(
            width=self.matrix.shape[1],
            classes=self.classes,
            norm_bound=self.norm_bound,
            menu=(self.epsilon,),
        )
        return TrainingTerms(rows=rows, n_servers=self.n_servers).server_spec(
            0, records=len(self.matrix), epsilons=(self.epsilon,), degree=self.degree
        )

    def study(self, servers: Sequence[str]) -> Study:
        """A study under which it is deployed: everybody linked to everybody, rows as wide, labels
        with the same ε.
        """
        return Study(
            id="audit",
            title="Attacked",
            question="Which is it?",
            classes=tuple(f"class {k}" for k in range(self.classes)),
            menu=(self.epsilon,),
            default_epsilon=self.epsilon,
            encoder=Encoder(
                attributes=tuple(
                    Number(name=f"x{k}", low=0, high=1) for k in range(1, self.matrix.shape[1])
                )
            ),
            servers=tuple(
                ServerEntry(name=name, url=f"https://{name}.example") for name in servers
            ),
            edges=tuple(combinations(servers, 2)),
            budget=Budget(features_epsilon=1.0),
        )

    def events(self) -> tuple[Event, ...]:
        """What the plan says that one training releases."""
        return self.plan.events(self.spec)

    def claim(self, data: str, delta: float, colluding: int | None = None) -> float:
        """The ledger's ε at δ against the other servers, or so many of them: joint with the flip if
        there is one, else of the training alone.
        """
        flip = LabelFlip(self.epsilon if self.randomise else inf).event()
        ledger = Ledger(
            ((flip, *(self.trainings * self.events())),), delta=delta, classes=self.classes
        )
        return ledger.row(data, Adversary.OTHERS, 0, colluding=colluding).epsilon

    def claims(self, data: str, colluding: int | None = None) -> dict[float, float]:
        """The same at every δ of `DELTAS`."""
        return {delta: self.claim(data, delta, colluding) for delta in DELTAS}

    def charged(self) -> int:
        """The releases the ledger has a row for."""
        sent = (IterateReleased, SumsReleased)
        return self.trainings * sum(isinstance(event, sent) for event in self.events())

    def transcript(self, seeds: IntArray) -> Array:
        """Every number that left the server, (messages, numbers); one seed per training."""
        sent: list[Array] = []
        server = self.server(
            Simulated(int(seeds[0]))
        )  # the device reports once, however often is trained
        for seed in seeds:
            node = Node(server, self.plan, Simulated(int(seed)))
            state = node.start()
            for message in self.messages:
                state, released = node.step(state, [message] * self.degree)
                sent.append(np.ravel(released))
        return np.array(sent)

    def with_noise(self, mu: float, data: str) -> "Victim":
        """The same with V such that the whole training is μ-GDP by the plan's own sensitivity."""
        released = next(event for event in self.events() if isinstance(event, IterateReleased))
        moved = released.label_sensitivity if data == Data.LABEL else released.record_sensitivity
        total = sum(self.plan.noise_decay**-t for t in range(self.plan.rounds))
        return replace(self, plan=replace(self.plan, noise_scale=moved * sqrt(total) / mu))

    def with_objective_noise(self, mu: float) -> "Victim":
        """The same without iterate noise, and R such that η alone is μ-GDP for labels (truncation
        apart).
        """
        noised = next(event for event in self.events() if isinstance(event, ObjectiveNoised))
        bound = 6 * noised.n_servers * noised.label_shift / mu
        return replace(
            self,
            plan=replace(
                self.plan,
                noise_scale=0.0,
                objective_noise="truncated_gaussian",
                objective_bound=bound,
            ),
        )


def deploy(server: Server, terms: JobTerms, name: str) -> Server:
    """The server as the member ``name`` of a job."""
    spec = terms.training.server_spec(
        terms.index(name), records=server.spec.records, epsilons=server.spec.epsilons
    )
    return replace(server, spec=spec)


def response(truth: Array, epsilon: float) -> Array:
    """The chance of every report, if those of every truth are these."""
    flipped = LabelFlip(epsilon, len(truth)).flip_probability
    others = flipped / (len(truth) - 1)
    return np.asarray(truth * (1 - flipped - others) + others)


def transcripts(victim: Victim, count: int, seed: int, world: int, jobs: int) -> Array:
    """Independent transcripts, (count, messages · numbers)."""
    seeds = np.random.SeedSequence(seed, spawn_key=(world,)).generate_state(
        count * victim.trainings, np.uint64
    )
    tasks = [
        (victim, chunk)
        for chunk in np.array_split(seeds.reshape(count, -1), max(1, count // CHUNK))
    ]
    return np.concatenate(run_parallel(_transcripts, tasks, jobs))


def _transcripts(victim: Victim, seeds: IntArray) -> Array:
    return np.array([victim.transcript(training_seeds).reshape(-1) for training_seeds in seeds])
