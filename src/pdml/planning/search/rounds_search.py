"""The grid of shapes (β, a, T, ρ) of a plan of rounds, and what each costs under a budget.

The budget fixes a shape's noise, found by asking the `Ledger` about one release: T Gaussian
releases of sensitivity D are one with Σ D²/σ_t². The rest is computed once. Of a population the
search needs how well the mean release points where the unprotected model does and how loud each
noise is beside it (`rounds_model`): the angle says how many records change class.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf, isinf, sqrt

import numpy as np

from pdml._types import Array, IntArray
from pdml.accounting import Budget
from pdml.accounting.events import IterateReleased, ObjectiveNoised
from pdml.accounting.kinds import Method
from pdml.accounting.profiles import gaussian_mu
from pdml.errors import BudgetExceeded
from pdml.mechanisms.iterate_noise import LARGEST
from pdml.mechanisms.objective_noise import SIGMAS
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.planning.forecast import utility
from pdml.planning.forecast.rounds_model import RoundsForecast, forecast_rounds, mean_curvature
from pdml.planning.forecast.synthetic import Population, choices
from pdml.planning.forecast.yardstick import Yardstick
from pdml.planning.search.calibration import excess, hidden, least
from pdml.planning.search.sums_search import WIDEST
from pdml.planning.server_spec import ServerSpec
from pdml.planning.sizes import Sizes, ledger
from pdml.planning.training_plan import TrainingPlan

ROUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100)
PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # β
RIDGES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # a/n
_MUCH = 1e9  # noise that hides everything
# how far η lets a label move, as a share of the farthest that randomised response hides
_LABEL_SHARES = (0.55, 0.75, 0.87)
_NODES = 24  # values of λ between which the responses are interpolated
_TINY = 1e-200  # of margins where there is nothing to learn
_TANGENTS = np.geomspace(0.01, 100.0, 41)
_AS_GOOD = 0.004  # of agreement: so little is not worth more rounds

FIXABLE_SETTINGS = ("rounds", "penalty", "regularization", "noise_decay")
"""Settings of rounds that a search can be told."""


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """What a planner may choose from."""

    graph: Graph
    method: str | None = None
    loss: str = "logistic"
    most_rounds: int = 100
    fixed_settings: tuple[tuple[str, float], ...] = ()  # of `FIXABLE_SETTINGS`
    yardstick: Yardstick = Yardstick.ACCURACY  # by which candidates are compared

    def tries_sums(self, sizes: Sizes) -> bool:
        """Whether sums are tried for these sizes."""
        return self.method != Method.ROUNDS and sizes.width <= WIDEST


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One point of the grid with the noise its budget asks for."""

    shape: int
    rounds: int
    decay: float
    rule_decay: float  # √C
    unit: float  # 1/μ: the noise of all rounds together, in sensitivities
    objective_bound: float
    agreement: float  # mean over populations, by the linear model
    noise: float  # share of the released margins' power that is noise, likewise

    def louder(self, by: float) -> "Choice":
        """The same with so much more of all noise, as a share of it."""
        unit, bound = self.unit * (1 + by), self.objective_bound * (1 + by)
        return replace(self, unit=unit, objective_bound=bound)


class Search:
    """The grid of shapes with everything that does not depend on the budget."""

    def __init__(
        self, sizes: Sizes, space: SearchSpace, populations: Sequence[Population] = ()
    ) -> None:
        self.sizes, self.graph, self.populations = sizes, space.graph, populations
        base = TrainingPlan(rounds=1, noise_scale=1.0, objective_bound=1.0, loss=space.loss)
        self.loss = base.loss_for(sizes.classes)
        fixed, most = dict(space.fixed_settings), space.most_rounds
        rounds = sorted({min(t, most) for t in ROUNDS} | ({most} if most > 100 else set()))
        self.rounds = [int(fixed["rounds"])] if "rounds" in fixed else rounds
        penalties = [fixed["penalty"]] if "penalty" in fixed else PENALTIES
        strengths = [r * self.graph.n for r in RIDGES]
        if "regularization" in fixed:
            strengths = [fixed["regularization"]]
        self.plans = [
            replace(base, penalty=b, regularization=a) for b in penalties for a in strengths
        ]
        self._decay = fixed.get("noise_decay")
        self.curvature = mean_curvature(self.loss, sizes.classes)  # h

    @cached_property
    def nodes(self) -> Array:
        """Values of λ."""
        largest = max(float(p.spectrum[0][-1]) for p in self.populations)
        largest *= self.sizes.norm_bound**2
        return self.curvature * np.geomspace(1e-6 * largest, largest, _NODES)

    @cached_property
    def reached(self) -> RoundsForecast:
        """What each shape makes of every λ."""
        common = (self.margin_terms.noise / self.margin_terms.noise.sum(axis=0)).mean(axis=1)
        return forecast_rounds(
            self.plans,
            self._sensitivities(self.plans, self.sizes),
            self.graph,
            self.nodes,
            np.asarray(self.sizes.records, dtype=float),
            self.rounds,
            common,
            self._decay,
        )

    @cached_property
    def costs(self) -> "_Costs":
        """What each shape makes of every population."""
        return self.margin_terms.costs(self.reached, self.flips)

    @cached_property
    def margin_terms(self) -> "_MarginTerms":
        """The populations as the linear model sees them."""
        return _MarginTerms.of([self._view(population) for population in self.populations])

    @property
    def flips(self) -> float:
        """The variance that flips add to m·q along a direction with E x² = 1."""
        return utility.flip_variance(self.sizes, self.loss) * sum(self.sizes.records)

    @property
    def attribute_noise(self) -> float:
        """The variance of m·q along a direction in which answers' noise makes E x² larger by 1."""
        return labels.code_variance(inf, self.loss, self.sizes.classes)

    def _view(self, population: Population) -> dict[str, Array]:
        values, vectors = population.spectrum
        values = values * self.sizes.norm_bound**2
        powers = population.powers * self.sizes.norm_bound**2
        q = self._label_moment(population) @ vectors
        wanted = population.unprotected @ vectors / self.sizes.norm_bound
        left, share = self._between(values)

        def spread(weights: Array) -> Array:
            totals = np.zeros(_NODES)
            np.add.at(totals, left, (1 - share) * weights)
            np.add.at(totals, left + 1, share * weights)
            return totals

        contrasts = max(1, self.sizes.classes - 1)  # in which alone noise counts
        return {
            "wanted": spread(powers * np.sum(q * wanted, axis=0)),
            "signal": spread(powers * np.sum(q**2, axis=0)),
            "labels": spread(powers * values) * len(q),
            "noise": spread(powers) * contrasts,
            "power": np.maximum(powers @ np.sum(wanted**2, axis=0), _TINY),
            "shares": _shares(population),
        }

    def _label_moment(self, population: Population) -> Array:
        """q (C, d) of records as long as the norm bound."""
        weight = self.loss.label_weight / population.loss.label_weight
        return population.label_moment * (weight * self.sizes.norm_bound)

    def _between(self, values: Array) -> tuple[IntArray, Array]:
        """Which node lies below λ = h·s, and how far on the way to the next it is, in logs."""
        logs = np.log(np.maximum(self.curvature * values, 1e-300))
        at = np.interp(logs, np.log(self.nodes), np.arange(_NODES))
        left = np.minimum(at.astype(np.int64), _NODES - 2)
        return left, at - left

    def _sensitivities(self, plans: Sequence[TrainingPlan], sizes: Sizes) -> Array:
        """D_i of each plan, (H, n), from the plans' own events: they are A/μ_i + B, so two plans
        tell A and B of all that differ in β and a alone. Servers in the same place have the same.
        """
        kinds = list(zip(sizes.records, self.graph.degrees.tolist(), strict=True))
        sensitivities = np.empty((len(plans), len(kinds)))
        for kind, i in {kind: i for i, kind in enumerate(kinds)}.items():
            spec = sizes.server_spec(i, self.graph)
            inverse = [1 / plan.ridge(spec.degree, spec.n_servers) for plan in plans]
            ends = [int(np.argmin(inverse)), int(np.argmax(inverse))]
            anchors = [_first_events(plans[k], spec)[1].record_sensitivity for k in ends]
            column = np.interp(inverse, [inverse[k] for k in ends], anchors)
            sensitivities[:, [kind == other for other in kinds]] = column[:, None]
        return sensitivities

    def best(self, budget: Budget) -> Choice | None:
        """The best shape under ``budget``; None if no noise of rounds can meet it."""
        if isinf(budget.labels_epsilon) and not isinf(budget.features_epsilon):
            return self._best_for_features(budget)
        return self._best(self._noises(budget))

    def _best_for_features(self, budget: Budget) -> Choice | None:
        """Where features alone are limited θ for each size of η is nearly known, and only the best
        pair is looked for exactly.
        """
        mu = _gaussian(budget)
        if mu <= 0:
            return None
        _, sent = self._events(self.sizes)
        others = sent.record_sensitivity - sent.label_sensitivity + (sent.solver_slack or 0.0)
        farthest, loud = hidden(budget, self._spec) * mu, self._loud(self.sizes)
        guessed = [(1 / mu, 0.0)]
        for share in _LABEL_SHARES:
            unit = others / (sent.record_sensitivity * mu * sqrt(1 - share**2))
            guessed.append((unit, loud / (share * farthest)))
        chosen = self._best(guessed)
        assert chosen is not None
        bound = chosen.objective_bound
        needed = self._least_theta(budget, bound, chosen.unit)
        if needed is None and bound:  # so little η is no use, whatever θ
            needed, bound = self._least_theta(budget, 0.0, 1 / mu), 0.0
        return None if needed is None else self._best([(needed, bound)])

    def _least_theta(self, budget: Budget, bound: float, guess: float) -> float | None:
        """The least θ, in sensitivities, beside η of this bound."""
        over = partial(self._over, budget, bound=bound)
        if bound and over(guess) > 0 and over(_MUCH) > 0:
            return None
        return least(over, guess)

    def _over(self, budget: Budget, noise: float, bound: float) -> float:
        """How far a release with this noise is beyond the budget."""
        noised, sent = self._events(self.sizes)
        release = replace(sent, stddev=noise * sent.record_sensitivity)
        eta = replace(noised, bound=bound, stddev=bound / SIGMAS)
        return excess((self.sizes.flip(), eta, release), budget, self.sizes.classes)

    def at_most(self, budget: Budget) -> Choice | None:
        """What would be best if neither noise had to make up for the other: a quick upper bound."""
        mu = _gaussian(budget)
        if mu <= 0 or isinf(mu):
            return None
        _, sent = self._events(self.sizes)
        others = sent.record_sensitivity - sent.label_sensitivity + (sent.solver_slack or 0.0)
        farthest = 1.1 * hidden(budget, self._spec) * mu
        unit = others / (sent.record_sensitivity * mu)
        return self._best([(unit, self._loud(self.sizes) / farthest), (1 / mu, 0.0)])

    def _best(self, noises: Sequence[tuple[float, float]]) -> Choice | None:
        """Of all shapes; with fewer rounds where more are hardly better: each is a message."""
        if not noises:
            return None
        powers = (self.costs.size(unit, bound / SIGMAS) for unit, bound in noises)
        cosines = (self.costs.wanted[:, :, None] / power for power in powers)
        agreement = np.array([*map(self.margin_terms.agreement, cosines)])  # (noises, H, T, R)
        enough = agreement.max(axis=(0, 1, 3)) >= agreement.max() - _AS_GOOD
        t = int(np.argmax(enough))
        best = int(np.argmax(agreement[:, :, t]))
        which, shape, k = map(int, np.unravel_index(best, agreement[:, :, t].shape))
        unit, bound = noises[which]
        size = self.costs.size(unit, bound / SIGMAS)[shape, t, k]
        return Choice(
            shape=int(shape),
            rounds=self.rounds[t],
            decay=float(self.reached.decays[shape, t, k]),
            rule_decay=float(self.reached.rule[shape, t]),
            unit=unit,
            objective_bound=bound,
            agreement=float(agreement[which, shape, t, k]),
            noise=float(np.mean(1 - self.costs.signal[shape, t] / size)),
        )

    def score(self, choice: Choice, times: int) -> list[list[tuple[float, ...]]]:
        """Utility forecast of a choice on each population, as the linear model draws releases."""
        responses, h = self.reached, choice.shape
        t = self.rounds.index(choice.rounds)
        k = int(np.argmin(np.abs(responses.decays[h, t] - choice.decay)))
        eta = choice.objective_bound / SIGMAS
        constant = eta**2 * responses.objective[h, t] + choice.unit**2 * responses.iterates[h, t, k]
        scores = []
        for number, population in enumerate(self.populations):
            values, vectors = population.spectrum
            values = values * self.sizes.norm_bound**2
            left, share = self._between(values)
            flips = self.flips * responses.labels[h, t]
            of_nodes = np.array([responses.gain[h, t], flips, constant])
            gain, flips, noise = (1 - share) * of_nodes[:, left] + share * of_nodes[:, left + 1]
            mean, noise = self._label_moment(population) @ vectors * gain, noise + flips * values
            if population.answers:
                of_labels = responses.labels[h, t]
                label_gain = (1 - share) * of_labels[left] + share * of_labels[left + 1]
                more = np.maximum(values - population.powers, 0.0)
                noise = noise + self.attribute_noise * label_gain * more
            rng = np.random.default_rng([3, number])
            samples = (mean + np.sqrt(noise) * rng.normal(size=mean.shape) for _ in range(times))
            scores.append([population.score(w @ vectors.T) for w in samples])
        return scores

    def _events(self, sizes: Sizes) -> tuple[ObjectiveNoised, IterateReleased]:
        """What the smallest server would send."""
        least = int(np.argmin(sizes.records))
        return _first_events(self.plans[0], sizes.server_spec(least, self.graph))

    def _loud(self, sizes: Sizes) -> float:
        """R at which a label moves by one deviation of η."""
        noised, _ = self._events(sizes)
        return noised.n_servers * noised.label_shift * SIGMAS

    @property
    def _spec(self) -> ServerSpec:
        return self.sizes.server_spec(int(np.argmin(self.sizes.records)), self.graph)

    def _noises(self, budget: Budget) -> list[tuple[float, float]]:
        """(1/μ, R): for several sizes of η, the least θ beside it that keeps to both rows."""
        mu, loud = _gaussian(budget), self._loud(self.sizes)
        if mu <= 0:
            return []
        guess = 1.0 if isinf(mu) else 1 / mu
        by_theta = self._least_theta(budget, 0.0, guess)
        features = self._least_theta(replace(budget, labels_epsilon=inf), 0.0, guess)
        noises = [] if by_theta is None else [(by_theta, 0.0)]
        farthest = hidden(budget, self._spec) * mu
        bounds = [loud / (share * farthest) for share in _LABEL_SHARES if not isinf(mu)]
        if features is not None and features != by_theta:  # labels by η, beside what features need
            bounds.append(least(lambda bound: self._over(budget, features, bound), loud) or 0.0)
        for bound in filter(None, bounds):
            needed = self._least_theta(budget, bound, guess)
            noises += [] if needed is None else [(needed, bound)]
        return noises

    def plan(
        self, choice: Choice, budget: Budget, sizes: Sizes | None = None
    ) -> tuple[TrainingPlan, float]:
        """The plan of a choice for ``sizes`` (the search's own, or near them), with noise per
        server, raised until the ledger itself agrees; and by how much it was raised.
        """
        real = self.sizes if sizes is None else sizes
        bound = choice.objective_bound * self._loud(real) / self._loud(self.sizes)
        base = replace(
            self.plans[choice.shape],
            rounds=choice.rounds,
            noise_decay=choice.decay,
            objective_bound=bound,
        )
        with np.errstate(over="ignore"):
            total = sqrt(float(np.sum(choice.decay ** -np.arange(choice.rounds, dtype=float))))
        scales = choice.unit * total * self._sensitivities([base], real)[0]
        if scales.max() > LARGEST:
            raise BudgetExceeded(
                f"noise that fades by {choice.decay:g} over {choice.rounds} rounds would have to "
                "begin beyond what can be drawn: train fewer rounds, or with a decay nearer to 1"
            )
        for more in (1e-9, 1e-8, 1e-7, 1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3):
            grown = tuple(float(v) for v in scales * (1 + more))
            plan = replace(base, noise_scale=grown, objective_bound=bound * (1 + more))
            if ledger(plan, real, self.graph).keeps(budget):
                return plan, more
        raise BudgetExceeded(
            "the plan found does not meet the budget by its own ledger, so none is proposed"
        )


@dataclass(frozen=True, kw_only=True)
class _MarginTerms:
    """Populations as the linear model sees them: what their margins are made of, at each node."""

    wanted: Array  # (K, P): of q's margins, along those of the unprotected model
    signal: Array  # (K, P): of q's margins
    labels: Array  # (K, P): of flips
    noise: Array  # (K, P): of noise that is the same in all directions
    power: Array  # (P,): of the unprotected model's margins
    shares: Array  # (tangents, P): agreement at `_TANGENTS`

    @classmethod
    def of(cls, views: Sequence[dict[str, Array]]) -> "_MarginTerms":
        return cls(**{name: np.array([view[name] for view in views]).T for name in views[0]})

    def costs(self, responses: RoundsForecast, flips: float) -> "_Costs":
        return _Costs(
            wanted=np.square(responses.gain @ self.wanted) / self.power,  # each (H, T, P)
            signal=responses.gain**2 @ self.signal,
            labels=flips * (responses.labels @ self.labels),
            objective=responses.objective @ self.noise,
            iterates=responses.iterates @ self.noise,
        )

    def agreement(self, cosine: Array) -> Array:
        """Means over populations, from squared cosines (..., P) with the unprotected margins."""
        tangent = np.sqrt(1 / np.clip(cosine, 1e-12, 1.0) - 1)
        step = np.log(_TANGENTS[1] / _TANGENTS[0])
        at = np.log(np.maximum(tangent / _TANGENTS[0], 1.0)) / step
        left = np.minimum(at.astype(np.int64), len(_TANGENTS) - 2)
        share, index = np.minimum(at - left, 1.0), np.arange(cosine.shape[-1])
        agreements = (1 - share) * self.shares[left, index] + share * self.shares[left + 1, index]
        return np.asarray(agreements.mean(axis=-1))


@dataclass(frozen=True, kw_only=True)
class _Costs:
    """What each (β, a) makes of every population after every number of rounds."""

    wanted: Array  # (H, T, P): power of the wanted part of the release
    signal: Array  # (H, T, P): of its mean
    labels: Array  # (H, T, P)
    objective: Array  # (H, T, P)
    iterates: Array  # (H, T, R, P)

    def size(self, unit: float, eta: float) -> Array:
        """Power of the release's margins, noise included, (H, T, R, P)."""
        fixed = self.signal + self.labels + eta**2 * self.objective
        return np.asarray(np.maximum(fixed[:, :, None] + unit**2 * self.iterates, _TINY))


def _shares(population: Population) -> Array:
    """The agreement when noise of so many times the margins' own size is added: never rising."""
    margins = population.test_x @ population.unprotected.T
    codes = max(1, margins.shape[1] - 1)
    size = sqrt(float(np.mean(np.sum(margins**2, axis=1))) / codes)
    noise = size * np.random.default_rng(0).normal(size=margins.shape)
    plain = choices(margins)
    agreements = [np.mean(choices(margins + t * noise) == plain) for t in _TANGENTS]
    return np.minimum.accumulate(agreements)


def _first_events(plan: TrainingPlan, spec: ServerSpec) -> tuple[ObjectiveNoised, IterateReleased]:
    events = plan.events(spec)
    noised = next(event for event in events if isinstance(event, ObjectiveNoised))
    return noised, next(event for event in events if isinstance(event, IterateReleased))


def _gaussian(budget: Budget) -> float:
    """The largest μ of features that the budget allows; 0 if none."""
    if isinf(budget.features_epsilon):
        return inf
    return gaussian_mu(budget.features_epsilon, budget.features_delta)
