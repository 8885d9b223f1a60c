"""One node as an organisation runs it, lived through many times, its only neighbour looking on.

`Participant`, signed messages, a journal in a file, noise from the operating system; and after the
first round the node dies and starts again. What leaves it is opened as a neighbour would open it.
"""

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from threadpoolctl import threadpool_limits

from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.events import Event, IterateReleased
from pdml.audit.victim import Victim, deploy
from pdml.mechanisms.randomness import Secure, Simulated
from pdml.node.crypto.signing import Identity
from pdml.node.job.participant import Participant
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol import wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.journal import Journal
from pdml.training.processes import run_parallel
from pdml.training.server import Node, Server

NEIGHBOUR, VICTIM = "neighbour", "victim"
INDEX = 1  # of the victim
CHUNK = 100  # runs per task, in one journal
MEMORY = Path("/dev/shm")  # syncing a disk takes most of the time, and is not what is attacked


@dataclass(frozen=True)
class RoundsTranscript:
    """What the neighbour saw in many runs of one world, and what the journal says was spent."""

    sent: Array  # (runs, T, numbers)
    iterates: Array  # (2, runs, T, numbers): without noise, in either world, after the same past
    uncounted: str  # what a run sent without a row of the ledger, in words; "" if nothing
    ledger: Ledger  # of the last run: the same in all


def live(worlds: tuple[Victim, Victim], world: int, runs: int, jobs: int) -> RoundsTranscript:
    """``runs`` lives of the victim of one world, each with a data set and a job of its own."""
    tasks = [(worlds, world, min(CHUNK, runs - start)) for start in range(0, runs, CHUNK)]
    parts = run_parallel(_chunk, tasks, jobs)
    sent = np.concatenate([part.sent for part in parts])
    iterates = np.concatenate([part.iterates for part in parts], axis=1)
    return RoundsTranscript(sent, iterates, max(part.uncounted for part in parts), parts[-1].ledger)


def claimed_events(victim: Victim) -> tuple[Event, ...]:
    """What the plan says that a life releases."""
    return _job_terms(victim).plan.events(_server(victim, Simulated(0)).spec)


def _chunk(worlds: tuple[Victim, Victim], world: int, runs: int) -> RoundsTranscript:
    victim = worlds[world]
    twins = [_Twin(world_victim) for world_victim in worlds]
    sent, iterates, uncounted = [], [], ""
    parent = MEMORY if MEMORY.is_dir() else None
    with (
        threadpool_limits(1),
        TemporaryDirectory(prefix="pdml-audit-", dir=parent) as folder,
        closing(Journal(Path(folder) / "journal.db")) as journal,
    ):
        home = _Home(Path(folder), journal, victim)
        for run in range(runs):
            messages, ledger = home.life(run)
            first = dict(reversed(messages))  # of each round, should there be several
            sent.append([first[t] for t in sorted(first)])
            iterates.append([twin.iterates(sent[-1]) for twin in twins])
            uncounted = _uncounted(len(messages), ledger) or uncounted
    flat = np.array(sent).reshape(runs, len(victim.messages), -1)
    both = np.array(iterates).swapaxes(0, 1).reshape(2, *flat.shape)
    return RoundsTranscript(flat, both, uncounted, ledger)


def _uncounted(messages: int, ledger: Ledger) -> str:
    lines = sum(isinstance(event, IterateReleased) for event in ledger.events[0])
    if messages == lines:
        return ""
    return f"{messages} different messages were sent, but the journal has lines for {lines}"


class _Home:
    """The organisation's machine, its key and its journal; the attack has the neighbour's key."""

    def __init__(self, folder: Path, journal: Journal, victim: Victim) -> None:
        self.journal, self.victim = journal, victim
        self.keys = {name: Identity.create(folder / f"{name}.key") for name in (NEIGHBOUR, VICTIM)}
        self.public = {name: key.public for name, key in self.keys.items()}

    def life(self, run: int) -> tuple[list[tuple[int, Array]], Ledger]:
        """Every different message with its round, as they came, and the ledger at the end."""
        victim, source = self.victim, Secure()
        terms = _job_terms(victim, f"run-{run}")
        data = TrainingData(
            server=_server(victim, source),
            dataset=f"of run {run}",
            apart_from=frozenset(self.journal.released_datasets()),
        )
        participant = self._started(terms, data, source)
        participant.advance()
        messages = {participant.message(NEIGHBOUR, 1): 1}
        participant = self._started(terms, data, source)  # it had died
        for t, vector in enumerate(victim.messages[1:], start=2):
            participant.accept(NEIGHBOUR, self._sign_vector(terms, t - 1, vector))
            participant.advance()
            for round_number in (
                1,
                t,
            ):  # the first one once more: the same bytes, or one message too many
                messages.setdefault(participant.message(NEIGHBOUR, round_number), round_number)
        return [
            (t, self._opened(terms, message)) for message, t in messages.items()
        ], participant.ledger

    def _started(self, terms: JobTerms, data: TrainingData, source: Secure) -> Participant:
        return Participant(
            terms,
            VICTIM,
            data,
            journal=self.journal,
            identity=self.keys[VICTIM],
            keys=self.public,
            source=source,
        )

    def _sign_vector(self, terms: JobTerms, t: int, values: Array) -> bytes:
        """The neighbour's own release of round t."""
        return wire_messages.vector(
            terms,
            self.keys[NEIGHBOUR],
            sender=NEIGHBOUR,
            recipient=VICTIM,
            t=t,
            payload=wire_messages.encode_vector(values),
        )

    def _opened(self, terms: JobTerms, message: bytes) -> Array:
        return wire_messages.open_vector(
            message, terms, peer=VICTIM, me=NEIGHBOUR, keys=self.public
        )[1]


class _Twin:
    """The victim of one world without noise: where its iterates would lie after what was sent."""

    def __init__(self, victim: Victim) -> None:
        self.victim, source = replace(victim, randomise=False), Simulated(0)
        server = _server(self.victim, source)
        sharp = victim.plan.tolerance_for(server.spec) / 1000
        quiet = replace(victim.plan, noise_scale=0.0, objective_noise="none", tolerance=sharp)
        self.node = Node(server, quiet, source)

    def iterates(self, sent: list[Array]) -> Array:
        state, points = self.node.start(), []
        for message, released in zip(self.victim.messages, sent, strict=True):
            after, point = self.node.step(state, [message])
            points.append(point)
            state = replace(after, sent=released)
        return np.array(points)


def _server(victim: Victim, source: Simulated | Secure) -> Server:
    """Beside the neighbour."""
    return deploy(victim.server(source), _job_terms(victim), VICTIM)


def _job_terms(victim: Victim, job: str = "run") -> JobTerms:
    """The neighbour's θ is half as wide, so that a mix-up shows."""
    scale = victim.plan.iterates(0, 1).scale
    plan = replace(victim.plan, noise_scale=(scale / 2, scale))
    return JobTerms.for_study(victim.study((NEIGHBOUR, VICTIM)), plan, job)
