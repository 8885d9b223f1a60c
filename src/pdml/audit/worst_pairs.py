"""The worst neighbouring pair, by search: nobody says beforehand which records, labels, answers and
messages tell most.

A pair is a point of a space of numbers. Its score is how well its worlds are told apart at the
noise that the plan claims, by what the real code would send without noise. Random points come
first, then walks from the best of them; the best end on *held-out* draws is attacked by fresh
releases of the real code, so that a bound is sound whatever the search has chosen.

Records go through the device's own clipping. Hence a search may ask for records of any length, and
what clipping lets through counts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Generic, TypeVar

import numpy as np
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from pdml._types import Array, IntArray
from pdml.accounting.events import IterateReleased, SumsReleased
from pdml.accounting.kinds import Adversary, Data
from pdml.accounting.randomized_attributes import TOGETHER
from pdml.audit import evaluation_attacks, rounds_attacks, sums_attacks
from pdml.audit.answer_attacks import (
    CLASSES,
    DEVICES,
    HABIT,
    LONGEST,
    STATUS,
    Person,
    from_report,
    from_sums,
    respondent,
    with_sums_noise,
)
from pdml.audit.confidence import DELTAS, FALSE_ALARM, Finding, epsilon_bound
from pdml.audit.evaluation_attacks import Evaluated, evaluated
from pdml.audit.rounds_attacks import DELTA, FAR, MU, label_victim, record_victims, three_classes
from pdml.audit.sums_attacks import SHARE, World, WorldPair, sums_victim, with_noise
from pdml.audit.victim import Effort, Victim
from pdml.encoding.row_steps import ClipRows
from pdml.errors import NotCertified
from pdml.mechanisms.randomness import Simulated
from pdml.training.server import Node

WALKS = 3  # from the best random points
DRAWS = 600  # of noise, for one score
MOST = 2_000  # pairs that are scored in one space

_World = TypeVar("_World", bound=World)
_Pair = TypeVar("_Pair")


@dataclass(frozen=True)
class Space(Generic[_Pair]):
    """All pairs of one kind: each is made of ``size`` numbers, about as large as normal ones."""

    name: str
    size: int
    pair: Callable[[Array], _Pair]
    score: Callable[[_Pair, int], float]  # with draws from a seed


def worst_pair(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """Sums, rounds, tables of counts and randomised answers: the pair that a search finds, in each
    of their settings.
    """
    runs = effort.transcripts // SHARE
    findings = [_by_rounds(space, effort, seed) for space in rounds_spaces()]
    for space in sums_spaces():
        pair = search(space, effort.pairs, seed)
        samples = [
            sums_attacks.releases(victim, runs, seed, world, effort.jobs)
            for world, victim in enumerate(pair.worlds)
        ]
        claims = pair.worlds[0].claims(pair.data)
        findings.append(sums_attacks.distinguish("worst_pair", pair, samples, claims))
    for answers in answer_spaces():
        people = search(answers, effort.pairs, seed)
        findings.append(replace(from_sums(people, runs, seed, effort.jobs), name=answers.name))
    return (*findings, by_counts(effort, seed), *_by_reports(effort))


def search(space: Space[_Pair], candidates: int, seed: int) -> _Pair:
    """The pair with the best score on draws that did not choose it."""
    rng = np.random.default_rng(seed)
    count = min(candidates, MOST)
    points = rng.normal(size=(max(WALKS, count // 3), space.size))
    with threadpool_limits(1):
        scores = np.array([space.score(space.pair(point), seed) for point in points])
        steps = (count - len(points)) // WALKS
        ends = [
            _walk(space, points[k], float(scores[k]), steps, rng, seed)
            for k in np.argsort(scores)[-WALKS:]
        ]
        return max(map(space.pair, ends), key=lambda pair: space.score(pair, seed + 1))


def _walk(
    space: Space[_Pair],
    point: Array,
    score: float,
    steps: int,
    rng: np.random.Generator,
    seed: int,
) -> Array:
    """To better points near by, in steps that grow with success."""
    reach = 0.5
    for _ in range(steps):
        near = point + reach * rng.normal(size=len(point))
        near_score = space.score(space.pair(near), seed)
        if near_score > score:
            point, score, reach = near, near_score, 1.5 * reach
        else:
            reach = max(0.9 * reach, 1e-3)
    return point


def clipped(record: Array) -> Array:
    """A row as a device would clip it."""
    step = ClipRows(bound=1.0)
    return np.asarray(step.apply(record[None], step.lengths(record[None]))[0])


def _with_record(victim: Victim, numbers: Array) -> Victim:
    """The same with another record 0, and another label of it: the largest of as many numbers as
    there are classes.
    """
    width = victim.matrix.shape[1]
    matrix, labels = victim.matrix.copy(), victim.labels.copy()
    matrix[0], labels[0] = clipped(2 * numbers[:width]), np.argmax(numbers[width:])
    return replace(victim, matrix=matrix, labels=labels)


# Sums and randomised answers: two known mixtures of Gaussians


def sums_spaces() -> tuple[Space[WorldPair[Victim]], ...]:
    """Records and labels, for two classes and three, as reported and with the randomised response;
    noise such that Q and S tell alike.
    """
    two, three = sums_victim(label_victim()), sums_victim(three_classes())
    victims = {
        "sums, 2 classes": with_noise(two, 1.2, 1.2),
        "sums, 3 classes": with_noise(three, 1.2, 1.2),
        "sums, 2 classes, jointly": replace(with_noise(two, 2.5, 1.2), randomise=True),
        "sums, 3 classes, jointly": replace(with_noise(three, 2.5, 1.2), randomise=True),
    }
    return tuple(_records(name, victim) for name, victim in victims.items())


def _records(name: str, victim: Victim) -> Space[WorldPair[Victim]]:
    size = victim.matrix.shape[1] + victim.classes
    claims = victim.claims(Data.FEATURES)

    def pair(numbers: Array) -> WorldPair[Victim]:
        worlds = [_with_record(victim, part) for part in (numbers[:size], numbers[size:])]
        return WorldPair(name=name, worlds=(worlds[0], worlds[1]), data=Data.FEATURES)

    return Space(name, 2 * size, pair, lambda pair, seed: excess(pair, claims, seed))


def answer_spaces() -> tuple[Space[WorldPair[Person]], ...]:
    """Labels, levels and the answer in the clear, which decides how long the rest of a row is."""
    person = with_sums_noise(respondent(STATUS, HABIT), 2, 4)
    return (_answers(person, "answer: status"), _answers(person, TOGETHER))


def _answers(person: Person, data: str) -> Space[WorldPair[Person]]:
    claims = {delta: person.claim(data, Adversary.OTHERS, delta) for delta in DELTAS}
    many = [CLASSES, *(len(question.choices) for question in person.study.encoder.sensitive)]

    def pair(numbers: Array) -> WorldPair[Person]:
        chances = ndtr(numbers)
        first, second = (
            [int(chance * levels) for chance, levels in zip(part, many, strict=True)]
            for part in (chances[: len(many)], chances[len(many) : -1])
        )
        if data != TOGETHER:  # all but that answer is alike
            second = [first[0], second[1], *first[2:]]
        worlds = [
            replace(person, label=label, levels=tuple(levels), years=LONGEST * chances[-1])
            for label, *levels in (first, second)
        ]
        return WorldPair(name=data, worlds=(worlds[0], worlds[1]), data=data)

    return Space(
        f"worst_pair: sums, {data}",
        2 * len(many) + 1,
        pair,
        lambda pair, seed: excess(pair, claims, seed),
    )


def excess(pair: WorldPair[_World], claims: dict[float, float], seed: int) -> float:
    """The largest ratio of the δ that a pair attains to the one that is claimed at the same ε."""
    rng = np.random.default_rng(seed)
    first = pair.worlds[0]
    (event,) = (release for release in first.events() if isinstance(release, SumsReleased))
    scale = sums_attacks.deviations(first, event.label_stddev, event.square_stddev)
    rows = [sums_attacks.exact_rows(world) for world in pair.worlds]
    ratios = []
    for world, means in zip(pair.worlds, rows, strict=True):
        reports = rng.choice(len(means), size=DRAWS, p=world.chances())
        samples = means[reports] + scale * rng.normal(size=(DRAWS, len(scale)))
        likelihoods = [
            sums_attacks.log_mixture(samples[:, None], each, of.chances(), scale)
            for each, of in zip(rows, pair.worlds, strict=True)
        ]
        ratios.append(likelihoods[1] - likelihoods[0])
    losses = (ratios[1], -ratios[0])
    return max(
        float(-np.expm1(np.minimum(epsilon - loss, 0.0)).mean()) / delta
        for delta, epsilon in claims.items()
        for loss in losses
    )


# Rounds: what a record moves, given the same past


def rounds_spaces() -> tuple[Space[WorldPair[Victim]], ...]:
    """A record with its label, or a label alone; and what the neighbours send."""
    label, (record, _) = label_victim(), record_victims()
    return (_iterates(label, Data.LABEL), _iterates(record, Data.FEATURES))


def _iterates(victim: Victim, data: Data) -> Space[WorldPair[Victim]]:
    width = victim.matrix.shape[1]
    size = width + victim.classes
    loud = victim.with_noise(MU, data)

    def pair(numbers: Array) -> WorldPair[Victim]:
        message = np.tile(FAR / 2 * numbers[-width:], (1, 1))
        messages = np.array([np.zeros_like(message), *[message] * (len(loud.messages) - 1)])
        first = _with_record(replace(loud, messages=messages), numbers[:size])
        if data == Data.LABEL:
            return WorldPair(name=data, worlds=(first, rounds_attacks.flip_first(first)), data=data)
        second = _with_record(first, numbers[size : 2 * size])
        return WorldPair(name=data, worlds=(first, second), data=data)

    return Space(f"worst_pair: rounds, {data}", 2 * size + width, pair, lambda pair, _: moved(pair))


def moved(pair: WorldPair[Victim]) -> float:
    """μ² of all rounds: how far the two next iterates of one past lie apart, in deviations."""
    noise = {e.t: e.stddev for e in pair.worlds[0].events() if isinstance(e, IterateReleased)}
    nodes = [
        Node(
            world.server(Simulated(0)),
            replace(world.plan, noise_scale=0.0),
            Simulated(0),
        )
        for world in pair.worlds
    ]
    total, state = 0.0, nodes[0].start()
    try:
        for t, message in enumerate(pair.worlds[0].messages, 1):
            steps = [node.step(state, [message] * pair.worlds[0].degree) for node in nodes]
            apart = steps[0][1] - steps[1][1]
            total += float(np.vdot(apart, apart)) / noise[t] ** 2
            state = steps[0][0]
    except NotCertified:  # floats are too coarse so far out: nothing is released
        return 0.0
    return total


def _by_rounds(space: Space[WorldPair[Victim]], effort: Effort, seed: int) -> Finding:
    pair = search(space, effort.pairs, seed)
    return rounds_attacks.attack(space.name, *pair.worlds, pair.data, DELTA, effort, seed)


# Tables of counts: what a record moves


def counts_space() -> Space[tuple[Evaluated, Evaluated]]:
    """A record with its label, wherever the model puts it."""
    world = evaluated()
    size = evaluation_attacks.COLUMNS + evaluation_attacks.CLASSES

    def pair(numbers: Array) -> tuple[Evaluated, Evaluated]:
        return world.with_record(numbers[:size]), world.with_record(numbers[size:])

    name = "worst_pair: table of an evaluation"
    return Space(name, 2 * size, pair, lambda pair, _: evaluation_attacks.apart(pair))


def by_counts(effort: Effort, seed: int) -> Finding:
    space = counts_space()
    pair = search(space, effort.pairs, seed)
    return evaluation_attacks.distinguish(
        space.name, pair, effort.transcripts // SHARE, seed, effort.jobs
    )


# Reports: few enough to try all


def _by_reports(effort: Effort) -> tuple[Finding, ...]:
    """Of all pairs of true answers, the one whose reports differ most; then other devices."""
    devices = max(1, effort.labels // DEVICES)
    person = respondent(STATUS, HABIT)
    everybody = [
        replace(person, label=label, levels=(status, habit))
        for label, status, habit in product(range(CLASSES), range(STATUS[1]), range(HABIT[1]))
    ]
    many = len(person.reports())
    counts = [
        np.bincount(one.reported(devices // 4 + 1, Simulated(0))[:, 0], minlength=many)
        for one in everybody
    ]
    findings = []
    for data in ("answer: status", TOGETHER):
        pairs = [(i, k) for i, k in product(range(len(everybody)), repeat=2) if i != k]
        if data != TOGETHER:
            pairs = [(i, k) for i, k in pairs if _status_alone(everybody[i], everybody[k])]
        first, second = max(pairs, key=lambda pair: _likeliest(counts[pair[0]], counts[pair[1]]))
        pair = WorldPair(name=data, worlds=(everybody[first], everybody[second]), data=data)
        findings.append(replace(from_report(pair, devices), name=f"worst_pair: report, {data}"))
    return tuple(findings)


def _status_alone(one: Person, other: Person) -> bool:
    return (one.label, one.levels[1:]) == (other.label, other.levels[1:])


def _likeliest(hits: IntArray, false_hits: IntArray) -> float:
    trials = int(hits.sum())
    bounds = epsilon_bound(
        hits.astype(float), trials, false_hits.astype(float), trials, 0.0, FALSE_ALARM
    )
    return float(bounds.max())
