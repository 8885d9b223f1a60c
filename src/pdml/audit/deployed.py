"""A deployed node under attack: labels and features through both noises at once.

Noise from the operating system cannot be repeated, so nobody can simulate this node with a seed:
both worlds are lived through, again and again (`deployment`). The adversary has read the source
and knows everything but which world it is. So it knows where the iterate would lie in either world
after the same past, and how wide the noise is said to be: the best linear test is known beforehand.

    Σ_k d_kᵀ Σ⁻¹ r_k     over coordinates k; d leads from one world's iterate to the other's in
                         every round, r from their middle to what was sent
    Σ_ts = σ_t² [t = s] + (σ_η/(n μ_i))²     θ is fresh in every round, η the same in all

It also learns Fisher's test from the messages, which sees noise that is used twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from scipy.special import gammaincinv

from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.events import IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.accounting.kinds import Adversary
from pdml.audit.confidence import DELTAS, strongest_separation
from pdml.audit.deployment import RoundsTranscript, claimed_events, live
from pdml.audit.finding import FALSE_ALARM, Finding, compare
from pdml.audit.inference import MU, flip_first, record_victims, three_classes, with_both
from pdml.audit.victim import Effort, Victim
from pdml.mechanisms.label_flip import LabelFlip

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
    first, second = (with_both(victim, MU, WEAK, "record") for victim in record_victims())
    return (
        Case(name="label, mostly theta", worlds=(theta, flip_first(theta)), data="label"),
        Case(name="label, mostly eta", worlds=(eta, flip_first(eta)), data="label"),
        Case(name="features", worlds=(first, second), data="features", exact=False),
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
