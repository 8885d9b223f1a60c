"""A deployed node under attack: labels and features through both noises at once.

`Participant`, signed messages, a journal in a file, noise from the operating system, which cannot
be repeated: both worlds are lived through again and again, and after the first round the node dies
and starts again. The adversary, its only neighbour, knows everything but which world it is: where
the iterate would lie in either world after the same past, and how wide the noise is said to be. So
the best linear test is known beforehand.

    Σ_k d_kᵀ Σ⁻¹ r_k     over coordinates k; d leads from one world's iterate to the other's in
                         every round, r from their middle to what was sent
    Σ_ts = σ_t² [t = s] + (σ_η/(n μ_i))²     θ is fresh in every round, η the same in all

It also learns Fisher's test from the messages, which sees noise that is used twice.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.special import gammaincinv
from threadpoolctl import threadpool_limits

from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.events import Event, IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.accounting.kinds import Adversary, Data
from pdml.audit.confidence import DELTAS, FALSE_ALARM, Finding, compare, strongest_separation
from pdml.audit.rounds_attacks import MU, flip_first, record_victims, three_classes, with_both
from pdml.audit.victim import Effort, Victim, deploy
from pdml.mechanisms.label_flip import LabelFlip
from pdml.mechanisms.randomness import Secure, Simulated
from pdml.node.crypto.signing import Identity
from pdml.node.job.participant import Participant
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol import wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.journal import Journal
from pdml.research.processes import run_parallel
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
    rows = sum(isinstance(event, IterateReleased) for event in ledger.events[0])
    if messages == rows:
        return ""
    return f"{messages} different messages were sent, but the journal has rows for {rows}"


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


WEAK = 8.0  # μ of the noise that is not the main one
SHARE, FEWEST = 20, 200  # a life takes many times longer than a transcript of `Node`


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Two neighbouring worlds; ``exact`` where w_i answers η by 1/μ_i, so that Σ is the noise's."""

    name: str
    worlds: tuple[Victim, Victim]
    data: str
    exact: bool = True


def deployed_node(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """Three pairs of worlds, and the width of the noise, which has no seed: it changes nothing."""
    runs = max(FEWEST, effort.transcripts // SHARE)
    transcripts = {case: lives(case, runs, effort.jobs) for case in cases()}
    exact = {case: both for case, both in transcripts.items() if case.exact}
    return (*(distinguish(case, both) for case, both in transcripts.items()), width(exact))


def lives(case: Case, runs: int, jobs: int = 1) -> list[RoundsTranscript]:
    """``runs`` lives in either world."""
    return [live(case.worlds, world, runs, jobs) for world in (0, 1)]


def cases() -> tuple[Case, ...]:
    """A reported label of three classes, mostly behind θ or mostly behind η; and a whole record."""
    theta, eta = with_both(three_classes(), MU, WEAK), with_both(three_classes(), WEAK, MU)
    first, second = (with_both(victim, MU, WEAK, Data.FEATURES) for victim in record_victims())
    return (
        Case(name="label, mostly theta", worlds=(theta, flip_first(theta)), data=Data.LABEL),
        Case(name="label, mostly eta", worlds=(eta, flip_first(eta)), data=Data.LABEL),
        Case(name="features", worlds=(first, second), data=Data.FEATURES, exact=False),
    )


def distinguish(case: Case, transcripts: list[RoundsTranscript]) -> Finding:
    """The better of two tests, each at half the false-alarm rate, against the journal's ledger."""
    ledger = _of_reports(transcripts[0].ledger)
    claims = {delta: _claim(ledger, case.data, delta) for delta in DELTAS}
    scores = [_scores(case, transcript)[:, None] for transcript in transcripts]
    flat = [transcript.sent.reshape(len(transcript.sent), -1) for transcript in transcripts]
    best = strongest_separation([(scores[0], scores[1]), (flat[0], flat[1])], claims)
    runs, rounds = transcripts[0].sent.shape[:2]
    finding = compare(
        f"deployed_node: {case.name}",
        claims[best.delta],
        best.epsilon,
        f"from {rounds} releases with a restart after the first, at delta {best.delta:g}, with "
        f"{runs:,} runs per world; a guess at even odds is right {best.accuracy:.1%} of the time",
    )
    uncounted = max(transcript.uncounted for transcript in transcripts)
    return replace(finding, passed=False, sentence=uncounted) if uncounted else finding


def _of_reports(ledger: Ledger) -> Ledger:
    """What the journal says the releases tell of what was reported: the worlds differ in that, so
    that no randomised response protects, and a person's ε has set the length of the code alone.
    """
    flip = LabelFlip(inf).event()
    events = tuple(
        tuple(flip if isinstance(event, LabelFlipped) else event for event in server)
        for server in ledger.events
    )
    return replace(ledger, events=events)


def _claim(ledger: Ledger, data: str, delta: float) -> float:
    return replace(ledger, delta=delta).row(data, Adversary.OTHERS, 0).epsilon


def _scores(case: Case, transcript: RoundsTranscript) -> Array:
    """The log likelihood ratio of every run, but for a constant."""
    weights = np.linalg.inv(_covariance(case.worlds[0]))
    apart = transcript.iterates[1] - transcript.iterates[0]
    off = transcript.sent - transcript.iterates.mean(axis=0)
    return np.asarray(np.einsum("rtk,ts,rsk->r", apart, weights, off))


def _covariance(victim: Victim) -> Array:
    """Σ of one coordinate over the rounds, as the plan's events claim it."""
    events = claimed_events(victim)
    theta = [event.stddev for event in events if isinstance(event, IterateReleased)]
    eta = [event.stddev / event.n_servers for event in events if isinstance(event, ObjectiveNoised)]
    ridge = victim.plan.ridge(victim.degree, victim.n_servers)
    return np.asarray(np.diag(np.square(theta)) + sum(eta) ** 2 / ridge**2)


def width(transcripts: Mapping[Case, list[RoundsTranscript]]) -> Finding:
    """Of each round's noise, given the rounds before: Σz² is a χ² if it is what the events claim.

    The records' own curvature makes w_i answer η a little less than 1/μ_i, which is allowed for.
    """
    tests = sum(case.worlds[0].plan.rounds for case in transcripts)
    ratios = []
    for case, both in transcripts.items():
        victim = case.worlds[0]
        whiten = np.linalg.inv(np.linalg.cholesky(_covariance(victim)))
        off = [
            transcript.sent - transcript.iterates[world] for world, transcript in enumerate(both)
        ]
        curvature = victim.plan.loss_for(victim.classes).curvature_bound * victim.norm_bound**2
        most = 1 + 2 * curvature / victim.plan.ridge(victim.degree, victim.n_servers)
        for z in np.einsum("ts,rsk->trk", whiten, np.concatenate(off)):
            least = 2 * float(gammaincinv(z.size / 2, FALSE_ALARM / tests))
            ratios.append(least / (most * float(np.vdot(z, z))))
    return compare(
        "deployed_node: noise",
        1.0,
        max(ratios),
        "how precisely a release shows the iterate, in the worst round, over what is claimed",
        quantity="ratio",
    )
