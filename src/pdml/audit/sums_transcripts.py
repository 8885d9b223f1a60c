"""One exchange of sums under attack: real releases of `training.sums_release`, and the best test
for them.

The adversary knows all but record 0 of one server, so it knows what that server would send without
noise for each report that the device may have made, and how wide the noise is said to be. What it
sees is then one of two known mixtures of Gaussians, and their likelihood ratio is the best test
there is. Fisher's is learnt beside it: it sees noise that is used twice, and numbers without any.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Generic, Protocol, TypeVar

import numpy as np
from scipy.special import gammaincinv, logsumexp

from pdml._types import Array, IntArray
from pdml.accounting.events import Event, SumsReleased
from pdml.audit.confidence import strongest_separation
from pdml.audit.finding import FALSE_ALARM, Finding, compare, require_ledger_rows
from pdml.audit.victim import CHUNK, Victim
from pdml.mechanisms.integer_gaussian import dequantize
from pdml.mechanisms.randomness import Simulated
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.training import sums_release
from pdml.training.processes import run_parallel
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
        """The releases the ledger has a line for."""


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
    noisy = scale > 0
    means = exact_rows(victim)[:, None, noisy]
    off = (samples[:, None, :, noisy] - means) / scale[noisy]  # (runs, reports, releases, numbers)
    far = np.square(off).sum(axis=(2, 3)) / 2
    return np.asarray(logsumexp(-far, axis=1, b=victim.chances()))


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
