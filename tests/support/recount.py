"""The ledger counted again, from events to what somebody sees (theory, sections 2, 3, 7 to 12).

Nothing here is a formula of the product. Every event is a channel that moves by as much as its
event allows, in two worlds that differ in one person's data; reports are enumerated with the
chances of randomised response; all of it is a mixture of Gaussians of deviation 1, integrated by sampling.
A guarantee must lie above that. Where these worlds are the worst there are, `View.exact`, it must
not lie far above either.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import exp, expm1, hypot, inf, log, prod, sqrt

import numpy as np
from scipy.special import logsumexp

from pdml.accounting.events import (
    CountsReleased,
    Event,
    IterateReleased,
    LabelFlipped,
    ObjectiveNoised,
    SumsReleased,
)

DRAWS = 20_000
ERRORS = 4  # standard errors: a false alarm in 30,000 comparisons, and seeds are fixed
COSINES = tuple(np.cos(np.linspace(0.2, 1, 6) * np.pi))  # between the two records of a pair


def kappa(epsilon: float, classes: int) -> float:
    """How loud a report is: 1/(chance of the truth less that of any other class)."""
    return (exp(epsilon) + classes - 1) / expm1(epsilon)


def chance(truth: int, said: int, epsilon: float, levels: int) -> float:
    """Of a report, by randomised response; infinity: it is the truth."""
    if epsilon == inf:
        return float(truth == said)
    return (exp(epsilon) if truth == said else 1.0) / (exp(epsilon) + levels - 1)


def worlds(
    every: Sequence[tuple[int, ...]], coins: Sequence[tuple[float, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """The chance of each report where the truth is 0 throughout, and where it is 1."""
    first, second = (
        [
            prod(chance(truth, r, *coin) for r, coin in zip(said, coins, strict=True))
            for said in every
        ]
        for truth in (0, 1)
    )
    return np.array(first), np.array(second)


@dataclass(frozen=True)
class View:
    """What somebody sees in two worlds: centres by row, and the chance of each."""

    first: np.ndarray
    second: np.ndarray
    chances: tuple[np.ndarray, np.ndarray]
    exact: bool = False  # no two worlds that the events allow tell more

    @cached_property
    def losses(self) -> np.ndarray:
        """ln(p/q) where chance leads in the first world."""
        rng, (p, q) = np.random.default_rng(5), self.chances
        drawn = self.first[rng.choice(len(p), DRAWS, p=p / p.sum())]
        at = drawn + rng.normal(size=drawn.shape)

        def density(centres: np.ndarray, weights: np.ndarray) -> np.ndarray:
            used = weights > 0
            far = (((at - one) ** 2).sum(axis=1) / 2 for one in centres[used])
            return logsumexp(np.log(weights[used])[:, None] - np.array(list(far)), axis=0)

        return density(self.first, p) - density(self.second, q)

    def told(self, epsilon: float, errors: float = -ERRORS) -> float:
        """δ(ε) of this pair of worlds, less its error, or above it."""
        gained = np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - self.losses)))
        return float(gained.mean() + errors * gained.std() / sqrt(DRAWS))

    def epsilon(self, delta: float) -> float:
        """The largest ε at which more than δ is told, for certain."""
        low, high = 0.0, 20.0
        if self.told(low) <= delta:
            return 0.0
        for _ in range(16):
            middle = (low + high) / 2
            low, high = (middle, high) if self.told(middle) > delta else (low, middle)
        return low

    def log_odds(self, delta: float) -> float:
        """ln(δ/β): of the event of chance δ that is rarest in the second world, a little larger and
        rarer than it is, by the sampling error."""
        often = int((delta + ERRORS * sqrt(delta / DRAWS)) * DRAWS)
        rare = np.exp(-np.sort(self.losses)[::-1][:often])
        beta = (rare.sum() + ERRORS * sqrt((rare**2).sum())) / DRAWS
        return log(delta / beta) if beta > 0 else inf


@dataclass(frozen=True)
class Training:
    """One by rounds: its objective noise, and what it released."""

    noise: ObjectiveNoised
    sent: tuple[IterateReleased, ...]


@dataclass(frozen=True, kw_only=True)
class Recount:
    """One server's events, for people with one ε, against so many others."""

    events: Sequence[Event]
    classes: int = 2
    epsilon: float | None = None  # of the person's label; by default the largest
    colluding: int | None = None

    @cached_property
    def flips(self) -> list[LabelFlipped]:
        return [each for each in self.events if isinstance(each, LabelFlipped)]

    @cached_property
    def reports(self) -> tuple[float, ...]:
        """ε of each of the person's reports; without one the label is seen as it is."""
        if self.epsilon is not None:
            return (self.epsilon,)
        return tuple(each.epsilon for each in self.flips) or (inf,)

    @property
    def answers(self):
        return self.flips[0].answers if self.flips else ()

    @property
    def all_randomised(self) -> bool:
        return bool(self.flips) and not self.flips[0].in_clear

    @property
    def seen(self) -> bool:
        """Whether the own server had the truth."""
        by = {each.by for each in self.flips}
        return bool(by & {"operator", ""}) or any(
            isinstance(each, CountsReleased) for each in self.events
        )

    @cached_property
    def trainings(self) -> list[Training]:
        found: list[Training] = []
        for event in self.events:
            if isinstance(event, ObjectiveNoised):
                found.append(Training(event, ()))
            if isinstance(event, IterateReleased):
                found[-1] = Training(found[-1].noise, (*found[-1].sent, event))
        return found

    @cached_property
    def loud(self) -> float:
        """In rounds, against the loudest person of the server."""
        menu = self.flips[0].epsilons if len(self.flips) == 1 else ()
        if self.epsilon is None or not menu:
            return 1.0
        return kappa(self.epsilon, self.classes) / kappa(min(menu), self.classes)

    def _weight(self, event: SumsReleased) -> float:
        """In sums, against those with the largest ε."""
        if self.epsilon is None:
            return 1.0
        return kappa(event.epsilon, self.classes) / kappa(self.epsilon, self.classes)

    def _exchange(self, event: SumsReleased) -> tuple[float, float, float]:
        """How far a label moves Q, a record Q, and a record S, in units of noise."""
        alone = 1 if self.colluding is None else max(1, event.hidden_among - self.colluding)
        weight, fixed = self._weight(event), event.fixed_shift
        moves = (event.label_shift, event.record_shift, event.square_shift)
        noise = (event.label_stddev, event.label_stddev, event.square_stddev)
        weights = (weight, weight, weight**2)
        return tuple(
            (w * (move - min(fixed, move)) + min(fixed, move)) / (sqrt(alone) * each)
            for w, move, each in zip(weights, moves, noise, strict=True)
        )

    @cached_property
    def sums(self) -> list[SumsReleased]:
        return [each for each in self.events if isinstance(each, SumsReleased)]

    @cached_property
    def counted(self) -> float:
        """μ of all counts: they tell of the truth, which no coin hides."""
        each = [e.shift / e.stddev for e in self.events if isinstance(e, CountsReleased)]
        return hypot(*each)

    def _through_eta(self, training: Training) -> float:
        """μ of a label: the linear term with its noise once, then θ in every round."""
        noise = training.noise
        fixed = min(noise.fixed_shift or 0.0, noise.label_shift)
        moved = noise.n_servers * (self.loud * (noise.label_shift - fixed) + fixed)
        late = hypot(*(self._moved_label(event) for event in training.sent))
        if noise.kind == "none" or late == 0:
            return late
        early = moved / noise.stddev
        return 1 / hypot(1 / early, 1 / late) if early > 0 else 0.0

    def _moved_label(self, event: IterateReleased) -> float:
        slack = min(event.solver_slack or 0.0, event.label_sensitivity)
        return (self.loud * (event.label_sensitivity - slack) + slack) / event.stddev

    def _moved_record(self, event: IterateReleased) -> float:
        """For two classes what hangs on the label and what does not add up."""
        slack = min(event.solver_slack or 0.0, event.label_sensitivity)
        label = event.label_sensitivity - slack
        return (self.loud * label + event.record_sensitivity - label) / event.stddev

    @property
    def mixed(self) -> bool:
        """Whether some trainings have objective noise and others none: of these the ledger knows
        no bound that counts each with its own."""
        return len({each.noise.kind for each in self.trainings if each.sent}) > 1

    def label(self) -> Iterator[View]:
        """Another label; each report goes to every other training or exchange."""
        steps = [self._through_eta(each) for each in self.trainings]
        steps += [self._exchange(event)[0] for event in self.sums]
        shares = [hypot(*steps[k :: len(self.reports)], 0.0) for k in range(len(self.reports))]
        every = list(product(range(self.classes), repeat=len(self.reports)))
        centres = []
        for said in every:
            each = np.zeros((len(shares), self.classes))
            for k, (share, one) in enumerate(zip(shares, said, strict=True)):
                each[k, one] = share / sqrt(2)  # any two are one share apart
            centres.append(each.ravel())
        chances = worlds(every, [(e, self.classes) for e in self.reports])
        exact = self.classes == 2 and len(self.reports) == 1 and not self.mixed
        yield self._beside(np.array(centres), np.array(centres), chances, exact)

    def _beside(self, first, second, chances, exact=False) -> View:
        """And what counts tell of the truth."""
        away = np.full((len(first), 1), self.counted)
        return View(np.hstack([first, away]), np.hstack([second, 0 * away]), chances, exact)

    @cached_property
    def plain(self) -> list[float]:
        """μ of what a record moves where no coin stands before it: iterates without η."""
        return [
            self._moved_record(event)
            for training in self.trainings
            if training.noise.kind == "none"
            for event in training.sent
        ]

    def features(self) -> Iterator[View]:
        """Another record, at any angle to the first in each encoding; where all is randomised,
        another one of everything."""
        if self.all_randomised:
            yield from self.together()
            return
        moves = [(event.encoding or k, *self._exchange(event)) for k, event in enumerate(self.sums)]
        pairs = [(name, record, square) for name, _, record, square in moves]
        pairs += [
            (each.noise.encoding or f"training {k}", self._through_eta(each), 0.0)
            for k, each in enumerate(self.trainings)
            if each.noise.kind != "none" and each.sent
        ]
        if self.classes > 2 or len(self.reports) > 1:  # what the label hides is not counted here
            pairs = [(name, 0.0, square) for name, _, square in pairs]
        names = list(dict.fromkeys(name for name, _, _ in pairs))
        whole = hypot(*(label for _, label, _ in pairs), 0.0)
        angles: list[Mapping] = [dict.fromkeys(names, c) for c in (COSINES if pairs else (1.0,))]
        if len(names) > 1:
            angles += [dict.fromkeys(names, 0.0) | {name: -1.0} for name in names]
        keep = chance(0, 0, self.reports[0], 2)
        rounding = any(event.fixed_shift for event in self.sums)  # of which the ledger's is rough
        rounding |= any(each.noise.fixed_shift for each in self.trainings)
        no_coin = not pairs and self.epsilon is None
        for cosines in angles:
            apart = [square**2 * (1 - cosines[name] ** 2) for name, _, square in pairs]
            rest = sqrt(sum(apart) + hypot(*self.plain, 0.0) ** 2)
            shares = [label**2 * cosines[name] for name, label, _ in pairs]
            cosine = max(-1.0, min(1.0, sum(shares) / whole**2)) if whole else 1.0
            along, across = (whole / 2 * sqrt((1 + s * cosine) / 2) for s in (1, -1))
            signs = np.array([[1.0], [-1.0]])
            first = np.hstack([signs * [along, across], [[0.0]] * 2])
            second = np.hstack([signs * [along, -across], [[rest]] * 2])
            chances = (np.array([keep, 1 - keep]),) * 2
            one = len(names) == 1 and not self.plain and not rounding and keep < 1
            exact = no_coin or (one and self.classes == 2 and len(self.reports) == 1)
            yield self._beside(first, second, chances, exact)

    def answer(self, levels: int, epsilon: float) -> Iterator[View]:
        """Another level of one answer, all of whose rows are as far apart as records can be, but
        for what hangs on the label."""
        squares = [self._exchange(event)[2] for event in self.sums]
        centres = np.eye(levels) * hypot(*self.plain, *squares, 0.0) / sqrt(2)
        chances = worlds([(said,) for said in range(levels)], [(epsilon, levels)])
        exact = levels == 2 and not self.sums and not self.counted and not self.trainings_with_eta
        yield self._beside(centres, centres, chances, exact)

    @property
    def trainings_with_eta(self) -> bool:
        return any(each.noise.kind != "none" for each in self.trainings)

    def together(self, chosen: Mapping[str, float] | None = None) -> Iterator[View]:
        """Another label and other answers: iterates tell whether a report is likelier in the first
        world, S which answers were reported, Q and η which with which label."""
        coins = [(e, self.classes) for e in self.reports]
        coins += [((chosen or {}).get(a.name, a.epsilon), a.levels) for a in self.answers]
        every = list(product(*(range(n) for _, n in coins)))
        chances = worlds(every, coins)
        rows = list(dict.fromkeys(said[len(self.reports) :] for said in every))
        squares = [self._exchange(event)[2] for event in self.sums]
        labels = [self._exchange(event)[1] for event in self.sums]
        labels += [self._through_eta(t) for t in self.trainings if t.noise.kind != "none"]
        simple = self.classes == 2 and len(self.reports) == 1
        q = hypot(*labels, 0.0) if simple else 0.0
        with np.errstate(divide="ignore"):
            ratio = chances[0] / chances[1]
        for threshold in (ratio.max(), 1.0):
            centres = []
            for said, odds in zip(every, ratio, strict=True):
                at = rows.index(said[len(self.reports) :])
                square = np.eye(len(rows))[at] * hypot(*squares, 0.0) / sqrt(2)
                linear = np.eye(len(rows))[at] * (q / 2 if said[0] == 0 else -q / 2)
                group = hypot(*self.plain, 0.0) * (odds >= threshold * (1 - 1e-12))
                centres.append([*square, *linear, group])
            yield self._beside(np.array(centres), np.array(centres), chances)

    @cached_property
    def rows(self) -> dict[str, list[View]]:
        """Against the other servers, by the names of the ledger."""
        found = {"label": list(self.label()), "features": list(self.features())}
        for each in self.answers:
            found[f"answer: {each.name}"] = list(self.answer(each.levels, each.epsilon))
        if self.answers:
            found["label and randomised answers"] = list(self.together())
        return found

    def coins(self, data: str) -> float:
        """ε that nobody exceeds who sees nothing but reports; infinite without a coin."""
        return replace(self, events=self.flips_by_devices).pure()[data]

    @property
    def flips_by_devices(self) -> list[LabelFlipped]:
        return [replace(each, by="devices") for each in self.flips]

    def pure(self) -> dict[str, float]:
        """ε against the own server: the largest ln of a report's chances, by all reports."""
        coins = {f"answer: {a.name}": a.epsilon for a in self.answers}
        ratios = (chance(0, 0, e, 2) / chance(0, 1, e, 2) if e < inf else inf for e in self.reports)
        label = sum(log(ratio) for ratio in ratios)
        together = label + sum(coins.values())
        found = {"label": label, "features": together if self.all_randomised else inf, **coins}
        if coins:
            found["label and randomised answers"] = together
        return dict.fromkeys(found, inf) if self.seen else found
