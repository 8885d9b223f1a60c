"""Label inference and record membership by real releases of `training.sums_release`.

The adversary knows all but record 0 of one server, so it knows what that server would send without
noise for each report that the device may have made, and how wide the noise is said to be. What it
sees is one of two known mixtures of Gaussians, and their likelihood ratio is the best test there
is. Fisher's is learnt beside it: it sees noise that is used twice, and numbers without any.

Pairs attain what the ledger counts on: a label moves Q by its whole shift; a record and its
opposite move Q alone, records across move S by all they can. With randomised labels the worst pair
of records lies in between: `ANGLE`, by a scan at this ε and these noises.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Generic, Protocol, TypeVar

import numpy as np
from scipy.special import gammaincinv, logsumexp

from pdml._types import Array, IntArray
from pdml.accounting.events import Event, SumsReleased
from pdml.accounting.kinds import Data, Method
from pdml.audit.confidence import (
    FALSE_ALARM,
    Finding,
    compare,
    require_ledger_rows,
    strongest_separation,
)
from pdml.audit.rounds_attacks import MU, flip_first, label_victim, three_classes
from pdml.audit.victim import CHUNK, Effort, Victim
from pdml.mechanisms.integer_gaussian import dequantize
from pdml.mechanisms.randomness import Simulated
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.research.processes import run_parallel
from pdml.training import sums_release
from pdml.training.server import Server

TINY = 1e-300  # stands for no noise at all
KINDS = ("Q", "the diagonal of S", "S beside it")


class World(Protocol):
    """What the adversary knows of a server, but for what one device has reported."""

    @property
    def plan(self) -> TrainingPlan: ...

    @property
    def spec(self) -> ServerSpec: ...

    @property
    def trainings(self) -> int:
        """How often the same report is trained on."""

    def by_report(self) -> list[Server]:
        """The server for everything that may have been reported."""

    def chances(self) -> Array:
        """Of each of these reports, as is claimed."""

    def reported(self, count: int, source: Simulated) -> IntArray:
        """Which of them ``count`` devices make in each training."""

    def events(self) -> tuple[Event, ...]:
        """What the plan says that one training releases."""

    def charged(self) -> int:
        """The releases the ledger has a row for."""


_World = TypeVar("_World", bound=World)


@dataclass(frozen=True, kw_only=True, eq=False)
class WorldPair(Generic[_World]):
    """Two neighbouring worlds."""

    name: str
    worlds: tuple[_World, _World]
    data: str  # a row of the ledger


def releases(victim: World, count: int, seed: int, world: int, jobs: int) -> Array:
    """Independent releases, (count, trainings, numbers)."""
    size = (count, victim.trainings)
    seeds = np.random.SeedSequence(seed, spawn_key=(world,)).generate_state(count * size[1], "u8")
    chunks = np.array_split(seeds.reshape(size), max(1, count // CHUNK))
    return np.concatenate(run_parallel(_releases, [(victim, chunk) for chunk in chunks], jobs))


def _releases(victim: World, seeds: IntArray) -> Array:
    servers = victim.by_report()
    exact = [sums_release.exact(server, victim.plan) for server in servers]
    reports = victim.reported(len(seeds), Simulated(int(seeds[0, 0])))
    sent = [
        sums_release.release_sums(exact[report], servers[report], victim.plan, Simulated(int(seed)))
        for report, seed in zip(reports.ravel(), seeds.ravel(), strict=True)
    ]
    return dequantize(np.array(sent)).reshape(*seeds.shape, -1)


def exact_row(server: Server, plan: TrainingPlan) -> Array:
    """What would be sent without noise."""
    quiet = replace(plan, label_noise=0.0, square_noise=0.0)
    return dequantize(
        sums_release.release_sums(sums_release.exact(server, quiet), server, quiet, Simulated(0))
    )


def exact_rows(victim: World) -> Array:
    """The same for everything that may have been reported, (reports, numbers)."""
    return np.array([exact_row(server, victim.plan) for server in victim.by_report()])


def kinds(victim: World) -> IntArray:
    """Of every number of a release, its index in `KINDS`; -1 for V, which has no noise."""
    width = victim.spec.width
    rows, columns = np.triu_indices(width)
    labels = np.zeros(victim.spec.codes * width, dtype=np.int64)
    return np.concatenate([labels, np.where(rows == columns, 1, 2), [-1]])


def deviations(victim: World, label: float, square: float) -> Array:
    """Of every number of a release, if those of Q and of S's diagonal are these."""
    return np.array([label, square, square / sqrt(2), 0.0])[kinds(victim)]


def distinguish(
    name: str,
    pair: WorldPair[_World],
    samples: Sequence[Array],
    claims: Mapping[float, float],
    *,
    hidden: int = 1,
) -> Finding:
    """Which world is it? ``samples`` of either, (runs, releases, numbers), against a claimed
    profile.

    ``hidden``: among how many servers' noises, each like the victim's own.
    """
    scores = [_scores(pair.worlds, sample, hidden)[:, None] for sample in samples]
    flat = [sample.reshape(len(sample), -1) for sample in samples]
    separation = strongest_separation(((scores[0], scores[1]), (flat[0], flat[1])), claims)
    runs, sent = samples[0].shape[:2]
    finding = compare(
        f"{name}: {pair.name}",
        claims[separation.delta],
        separation.epsilon,
        f"from {sent} release{'s' * (sent > 1)}, at delta {separation.delta:g}, with {runs:,} "
        "runs per "
        f"world; a guess at even odds is right {separation.accuracy:.1%} of the time",
    )
    return require_ledger_rows(finding, sent, pair.worlds[0].charged())


def _scores(worlds: Sequence[World], samples: Array, hidden: int) -> Array:
    """The log likelihood ratio of every run."""
    first, second = (_log_likelihood(victim, samples, hidden) for victim in worlds)
    return np.asarray(second - first)


def _log_likelihood(victim: World, samples: Array, hidden: int) -> Array:
    """But for a constant, by the noise that the plan's event claims."""
    (event,) = (release for release in victim.events() if isinstance(release, SumsReleased))
    scale = sqrt(hidden) * deviations(victim, event.label_stddev, event.square_stddev)
    return log_mixture(samples, exact_rows(victim), victim.chances(), scale)


def log_mixture(samples: Array, means: Array, chances: Array, scale: Array) -> Array:
    """The log likelihood, but for a constant, of ``samples``, (runs, releases, numbers), that have
    one of ``means``, with noise of these deviations where it is not 0."""
    noisy = scale > 0
    off = (samples[:, None, :, noisy] - means[:, None, noisy]) / scale[noisy]
    far = np.square(off).sum(axis=(2, 3)) / 2  # (runs, reports)
    return np.asarray(logsumexp(-far, axis=1, b=chances))


def width(name: str, samples: Sequence[tuple[Victim, Array, float]]) -> Finding:
    """Of the noise in Q, in S's diagonal and beside it: Σz² is a χ² if it is what the plan says.

    ``samples``: of victims whose report is known, what was seen, and the share of the plan's
    variance that must be in it.
    """
    ratios: list[tuple[float, str]] = []
    for victim, rows, share in samples:
        off = (rows - exact_rows(victim)[victim.labels[0]]).reshape(-1, rows.shape[-1])
        for kind, description in enumerate(KINDS):
            plan, those = victim.plan, kinds(victim) == kind
            scale = sqrt(share) * deviations(victim, plan.label_noise, plan.square_noise)[those]
            z = off[:, those] / scale
            least = 2 * float(gammaincinv(z.size / 2, FALSE_ALARM / (len(samples) * len(KINDS))))
            ratios.append((least / (float(np.vdot(z, z)) or TINY), description))
    ratio, worst = max(ratios)
    return compare(
        name,
        1.0,
        ratio,
        f"how precisely it shows the exact sums, over what the plan says; worst in {worst}",
        quantity="ratio",
    )


RESPONSE_MU = 2.5  # of a report that is randomised, too
FAINT = 0.1  # μ of the sum that is not in question
ANGLE = 0.56 * np.pi
SHARE = 4  # there are more pairs than of transcripts


def sums_inference(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """One label, from Q and S: as it was reported, and jointly with the randomised response."""
    return _attack("sums_inference", label_pairs(), effort, seed)


def sums_membership(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """One whole record, from Q and S, as reported and jointly with the randomised response."""
    return _attack("sums_membership", record_pairs(), effort, seed)


def _attack(
    name: str, pairs: tuple[WorldPair[Victim], ...], effort: Effort, seed: int
) -> tuple[Finding, ...]:
    findings, plain = [], []
    runs = effort.transcripts // SHARE
    for k, pair in enumerate(pairs):
        samples = [
            releases(victim, runs, seed + k, world, effort.jobs)
            for world, victim in enumerate(pair.worlds)
        ]
        claims = pair.worlds[0].claims(pair.data)
        findings.append(distinguish(name, pair, samples, claims))
        if not pair.worlds[0].randomise:
            plain += [
                (target, rows, 1.0) for target, rows in zip(pair.worlds, samples, strict=True)
            ]
    return (*findings, width(f"{name}: noise", plain))


def label_pairs() -> tuple[WorldPair[Victim], ...]:
    """Two classes and three."""
    two, three = sums_victim(label_victim()), sums_victim(three_classes())
    hidden = [
        replace(with_noise(victim, RESPONSE_MU, MU), randomise=True) for victim in (two, three)
    ]
    return (
        flipped("2 classes", with_noise(two, MU, MU)),
        flipped("2 classes, jointly", hidden[0]),
        flipped("3 classes, jointly", hidden[1]),
    )


def record_pairs() -> tuple[WorldPair[Victim], ...]:
    """Through Q, through S, and through both with randomised labels. At a large ε the worst record
    is the opposite one.
    """
    two, three = sums_victim(label_victim()), sums_victim(three_classes())
    randomised = replace(with_noise(two, RESPONSE_MU, 0.8), randomise=True)
    weak = replace(two, epsilon=2.0, randomise=True, trainings=4)
    return (
        records("opposite, 2 classes", with_noise(two, MU, FAINT), np.pi),
        records("opposite, 3 classes", with_noise(three, MU, FAINT), np.pi),
        records("across", with_noise(two, FAINT, MU), np.pi / 2),
        records("randomised response", randomised, ANGLE, start=np.pi / 8),
        records("randomised response, four trainings", with_noise(weak, 1.0, FAINT), np.pi),
    )


def sums_victim(victim: Victim) -> Victim:
    """The same records, trained by one exchange of sums."""
    return replace(victim, plan=TrainingPlan(method=Method.SUMS), messages=victim.messages[:0])


def with_noise(victim: Victim, label_mu: float, square_mu: float) -> Victim:
    """The same with `noisy` of its plan."""
    return replace(victim, plan=noisy(victim.plan, victim.events(), label_mu, square_mu))


def noisy(
    plan: TrainingPlan, events: Sequence[Event], label_mu: float, square_mu: float
) -> TrainingPlan:
    """The same with σ_Q and σ_S such that a record moves either by so many deviations, and where
    that is more than a reported label does, a label by fewer.
    """
    (event,) = (release for release in events if isinstance(release, SumsReleased))
    return replace(
        plan,
        label_noise=event.record_shift / label_mu,
        square_noise=event.square_shift / square_mu,
    )


def flipped(name: str, victim: Victim) -> WorldPair[Victim]:
    """Two labels of one record."""
    return WorldPair(name=name, worlds=(victim, flip_first(victim)), data=Data.LABEL)


def records(name: str, victim: Victim, angle: float, start: float = 0.0) -> WorldPair[Victim]:
    """Two records of full length at an ``angle``, with the same label."""
    worlds = tuple(
        replace(victim, matrix=np.vstack([_at(turned), victim.matrix[1:]]))
        for turned in (start, start + angle)
    )
    return WorldPair(name=name, worlds=(worlds[0], worlds[1]), data=Data.FEATURES)


def _at(angle: float) -> Array:
    return np.array([np.cos(angle), np.sin(angle)])
