"""Randomised answers under attack: one of them, and all with the label, from the report itself and
from what its server releases.

The device is the real one: `device.answers` reads what a person says, `device.memo` randomises it
by the operating system, and the study's encoder makes codes of the levels. That randomness has no
seed, so that findings differ a little from run to run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

import numpy as np

from pdml._types import Array, IntArray
from pdml.accounting import Ledger
from pdml.accounting.events import Event, SumsReleased
from pdml.accounting.kinds import Adversary, Method
from pdml.accounting.randomized_attributes import TOGETHER
from pdml.audit import sums_attacks
from pdml.audit.confidence import DELTAS, FALSE_ALARM, Finding, compare, epsilon_bound
from pdml.audit.sums_attacks import SHARE, WorldPair, noisy
from pdml.audit.victim import Effort, response
from pdml.device import memo
from pdml.device.answers import to_draw
from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.mechanisms.randomness import Simulated
from pdml.numerics.admm import labels
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.study.schema.servers import ServerEntry
from pdml.training.server import Server

DEVICES = 20  # labels of an effort for each device: it randomises several answers, one at a time
RECORDS, CLASSES = 4, 2
LABEL = 1.0  # ε
YEARS = Number(name="years", low=0, high=6)  # an answer in the clear
LONGEST = 6.0
STATUS, HABIT = ("status", 3, 1.5), ("habit", 2, 0.8)  # name, levels, ε
ALONE = ("status", 2, 2.0)


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who answers a study's questions, beside others whose reports are known: record 0 of the
    study's first server. ``levels`` are the true ones, of each sensitive question; ``years`` fill
    what codes leave of a row, and the longest move S by most."""

    study: Study
    plan: TrainingPlan
    label: int
    levels: tuple[int, ...]
    years: float = LONGEST
    trainings: int = 1

    @property
    def sensitive_answers(self) -> list[tuple[int, int, int]]:
        """Of each sensitive answer, as the device reads it: level, ε in millionths, levels."""
        pairs = zip(self.study.encoder.sensitive, self.levels, strict=True)
        answers = {question.name: question.choices[level] for question, level in pairs}
        return to_draw(self.study, {YEARS.name: self.years, **answers}, {})

    def reports(self) -> list[tuple[int, ...]]:
        """All that the device may say: a label, and a level for each answer."""
        many = (len(question.choices) for question in self.study.encoder.sensitive)
        return list(product(range(CLASSES), *map(range, many)))

    def reported(self, count: int, source: Simulated) -> IntArray:
        """What ``count`` devices say, by index; they have another source."""
        index, answers = (
            {report: k for k, report in enumerate(self.reports())},
            self.sensitive_answers,
        )
        indices = []
        for _ in range(count):
            label, levels = memo.randomise(
                self.label, self.study.epsilon_micro[0], CLASSES, answers
            )
            indices.append(index[label, *(level for level, _ in levels)])
        return np.repeat(np.array(indices)[:, None], self.trainings, axis=1)

    def chances(self) -> Array:
        """Of every report, by the ε on the menus: answers are randomised independently."""
        answers = [(self.label, CLASSES, self.study.menu[0])]
        for question, level in zip(self.study.encoder.sensitive, self.levels, strict=True):
            assert question.epsilon is not None
            answers.append((level, len(question.choices), question.epsilon.default))
        laws = [response(np.eye(many)[level], epsilon) for level, many, epsilon in answers]
        return np.asarray(reduce(np.multiply.outer, laws)).ravel()

    def by_report(self) -> list[Server]:
        """The server for every report, with codes as the device makes them."""
        spread = [(level % CLASSES, *[level % 2] * len(self.levels)) for level in range(1, RECORDS)]
        servers = []
        for report in self.reports():
            rows = [self._row(answers[1:]) for answers in (report, *spread)]
            reported_labels = np.array([answers[0] for answers in (report, *spread)])
            codes = labels.codes(reported_labels, self.study.menu[0], CLASSES)
            servers.append(Server(self.spec, np.array(rows), codes))
        return servers

    def _row(self, levels: Sequence[int]) -> Array:
        choices = [
            (level, micro)
            for level, (_, micro, _) in zip(levels, self.sensitive_answers, strict=True)
        ]
        return np.asarray(self.study.encode({YEARS.name: self.years}, choices), dtype=float)

    @property
    def spec(self) -> ServerSpec:
        """Of the server that receives the report."""
        return self.study.terms.server_spec(0, records=RECORDS, epsilons=self.study.menu)

    def events(self) -> tuple[Event, ...]:
        """What the plan says that one training releases."""
        return self.plan.events(self.spec)

    def charged(self) -> int:
        """The releases the ledger has a row for."""
        return self.trainings * sum(isinstance(event, SumsReleased) for event in self.events())

    def claim(self, data: str, adversary: str, delta: float = 1e-6) -> float:
        """The ledger's ε at δ."""
        events = (self.spec.flip(), *(self.trainings * self.events()))
        return Ledger((events,), delta=delta).row(data, adversary, 0).epsilon


def answer_inference(effort: Effort, seed: int) -> tuple[Finding, ...]:
    """One randomised answer, and all with the label: from the report, and from Q and S."""
    runs = effort.transcripts // SHARE
    return (
        *(from_report(pair, max(1, effort.labels // DEVICES)) for pair in report_pairs()),
        *(from_sums(pair, runs, seed + k, effort.jobs) for k, pair in enumerate(sums_pairs())),
    )


def report_pairs() -> tuple[WorldPair[Person], ...]:
    """Two answers whose ε differ: either of them, and both with the label."""
    person = respondent(STATUS, HABIT)
    return (
        WorldPair(
            name="status", worlds=(person, replace(person, levels=(1, 0))), data="answer: status"
        ),
        WorldPair(
            name="habit", worlds=(person, replace(person, levels=(0, 1))), data="answer: habit"
        ),
        together(person),
    )


def sums_pairs() -> tuple[WorldPair[Person], ...]:
    """Noise such that the rows lie between randomised responses alone and noise alone."""
    alone, both = respondent(ALONE), respondent(STATUS, HABIT)
    return (
        WorldPair(
            name="one answer", worlds=_answered(with_sums_noise(alone, 1, 2)), data="answer: status"
        ),
        WorldPair(
            name="one of two", worlds=_answered(with_sums_noise(both, 2, 4)), data="answer: status"
        ),
        together(with_sums_noise(alone, 4, 4)),
    )


def respondent(*attributes: tuple[str, int, float]) -> Person:
    """Who is asked these sensitive questions."""
    questions = [
        Category(
            name=name,
            levels=tuple(f"{name} {k + 1}" for k in range(many)),
            epsilon=Menu(menu=(epsilon,), default=epsilon),
        )
        for name, many, epsilon in attributes
    ]
    servers = ("victim", "other")
    study = Study(
        id="audit",
        title="Attacked",
        question="Is it so?",
        classes=("no", "yes"),
        menu=(LABEL,),
        default_epsilon=LABEL,
        encoder=Encoder(attributes=(YEARS, *questions)),
        servers=tuple(
            ServerEntry(name=server, url=f"https://{server}.example") for server in servers
        ),
        edges=(servers,),
    )
    plan = TrainingPlan(method=Method.SUMS)
    return Person(study=study, plan=plan, label=0, levels=(0,) * len(attributes))


def together(person: Person) -> WorldPair[Person]:
    """Another label, and another level of every answer."""
    other = replace(person, label=1, levels=(1,) * len(person.levels))
    return WorldPair(name="label and answers", worlds=(person, other), data=TOGETHER)


def _answered(person: Person) -> tuple[Person, Person]:
    return person, replace(person, levels=(1, *person.levels[1:]))


def with_sums_noise(person: Person, label_mu: float, square_mu: float) -> Person:
    return replace(person, plan=noisy(person.plan, person.events(), label_mu, square_mu))


def from_report(pair: WorldPair[Person], devices: int) -> Finding:
    """Whoever receives the report sees label and answers together: every report, and all that are
    likelier in one world, against the row of ε alone.
    """
    laws = np.array([victim.chances() for victim in pair.worlds])
    many = laws.shape[1]
    frequencies = [
        np.bincount(victim.reported(devices, Simulated(0))[:, 0], minlength=many)
        for victim in pair.worlds
    ]
    alpha = FALSE_ALARM / (2 * (many + 1))  # each of these events, in either order
    measured = 0.0
    for first, second in ((0, 1), (1, 0)):
        likelier = laws[first] > laws[second]
        hits, false_hits = (
            [*counts, counts[likelier].sum()]
            for counts in (frequencies[first], frequencies[second])
        )
        bounds = epsilon_bound(np.array(hits), devices, np.array(false_hits), devices, 0.0, alpha)
        measured = max(measured, float(bounds.max()))
    return compare(
        f"answer_inference: report, {pair.name}",
        pair.worlds[0].claim(pair.data, Adversary.OWN),
        measured,
        f"from one report, with {devices:,} devices per world",
    )


def from_sums(pair: WorldPair[Person], runs: int, seed: int, jobs: int) -> Finding:
    """Other servers see what one exchange of sums releases."""
    releases = [
        sums_attacks.releases(victim, runs, seed, world, jobs)
        for world, victim in enumerate(pair.worlds)
    ]
    person = pair.worlds[0]
    claims = {delta: person.claim(pair.data, Adversary.OTHERS, delta) for delta in DELTAS}
    return sums_attacks.distinguish("answer_inference", pair, releases, claims)
