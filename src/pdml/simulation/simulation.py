"""All parties in one process: users flip their labels, servers train over a graph or exchange sums
once.

The ledger says what the parties would have learnt; by default the noise is drawn from a seeded
generator, so a simulation itself protects nobody. `PDMLClassifier` is a simulation behind
scikit-learn's interface. What has no need of that interface does not load scikit-learn, which
takes a second: a third of what it takes to train on a table of 45,000 people.
"""

import warnings
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pdml import _validate
from pdml._types import Array, IntArray, Matrix
from pdml.accounting import Budget, Ledger, Reports
from pdml.accounting.kinds import Method
from pdml.accounting.provenance import SIMULATION
from pdml.encoding.pipeline import Pipeline, clipping_warning
from pdml.errors import (
    ClippingWarning,
    InvalidInput,
    PrivacyUtilityWarning,
    UncountedTrainingWarning,
)
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, TOPOLOGY, Simulated, Source, source_named
from pdml.model import intervals
from pdml.model.history import NO_ROUNDS, History, noise_level
from pdml.model.intervals import Intervals
from pdml.model.model import THIS_TRAINING, Model
from pdml.numerics.admm import labels, rows
from pdml.numerics.admm.graph import Graph, build
from pdml.numerics.interval import Range
from pdml.planning.server_spec import RowSpec, ServerSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.simulation import partition
from pdml.simulation.privacy_session import (
    STRANGERS,
    Fit,
    Origin,
    PrivacyLedgerSession,
    many_fits,
    sessions_of_a_fit,
    strangers,
)
from pdml.simulation.record_ids import IN_THIS_PROCESS, fingerprints, label_prints, prints_of_names
from pdml.simulation.resolve_plan import (
    AUTO,
    OVERRIDES,
    ResolvedPlan,
    resolve_plan,
    utility_warnings,
)
from pdml.training import sums_fit
from pdml.training.engines import local_engine

RISK_LEAK = "history_.risk is computed from the records without noise: do not publish it"
CLASSES_LEAK = (
    "classes_ was taken from true labels, also a class that one person alone has, which no noise "
    "protects: classes= declares it"
)


_warning = Lock()


class Simulation:
    """Settings of a training, and what came of it; `PDMLClassifier` says what each means."""

    _origin = Origin(0, session=False)  # of what is no clone
    _warned: Set[type[UserWarning]] = frozenset()  # of what, by clones of the same estimator
    _notes: tuple[str, ...] = ()  # what the reader of any ledger of it must know

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        features_epsilon: float | None = 1.0,
        delta: float = 1e-6,
        colluding: int | None = None,
        plan: TrainingPlan | str = "auto",
        n_servers: int = 10,
        topology: str | Graph | Sequence[tuple[int, int]] = "random",
        links: int | None = None,
        fit_intercept: bool = True,
        norm_bound: float = 1.0,
        feature_scales: Any = None,
        feature_ranges: Any = None,
        feature_levels: Any = None,
        feature_map: Any = None,
        missing: Any = "refuse",
        classes: Any = None,
        method: str | None = None,
        loss: str | None = None,
        rounds: int | None = None,
        penalty: float | None = None,
        regularization: float | None = None,
        objective_bound: float | None = None,
        objective_noise: str | None = None,
        noise_scale: Any = None,
        noise_decay: float | None = None,
        tolerance: Any = None,
        label_noise: float | None = None,
        square_noise: float | None = None,
        budget: Budget | None = None,
        open_ended: bool = False,
        diagnostics: bool = False,
        house: bool = False,
        on_round: Callable[[int, int], None] | None = None,
        randomness: str = "simulated",
        engine: str = "local",
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.features_epsilon = features_epsilon
        self.delta = delta
        self.colluding = colluding
        self.plan = plan
        self.n_servers = n_servers
        self.topology = topology
        self.links = links
        self.fit_intercept = fit_intercept
        self.norm_bound = norm_bound
        self.feature_scales = feature_scales
        self.feature_ranges = feature_ranges
        self.feature_levels = feature_levels
        self.feature_map = feature_map
        self.missing = missing
        self.classes = classes
        self.method = method
        self.loss = loss
        self.rounds = rounds
        self.penalty = penalty
        self.regularization = regularization
        self.objective_bound = objective_bound
        self.objective_noise = objective_noise
        self.noise_scale = noise_scale
        self.noise_decay = noise_decay
        self.tolerance = tolerance
        self.label_noise = label_noise
        self.square_noise = square_noise
        self.budget = budget
        self.open_ended = open_ended
        self.diagnostics = diagnostics
        self.house = house
        self.on_round = on_round
        self.randomness = randomness
        self.engine = engine
        self.random_state = random_state

    def check(self) -> None:
        """Refuse what is wrong whatever the records are."""
        self._origin.check()
        _validate.integer(
            "n_servers", self.n_servers, low=2, why="one server alone has nobody to hide from"
        )
        _validate.real("norm_bound", self.norm_bound, low=0, high=1e12, open_low=True)
        _validate.choice("engine", self.engine, ("local", "ray"))

    def simulate(
        self,
        form: Pipeline,
        x: Matrix,
        y: NDArray[Any],
        *,
        epsilons: Any = None,
        servers: Any = None,
        people: Any = None,
        leaks: Sequence[str] = (),
        before: Any = None,
    ) -> Self:
        """Train on simulated users."""
        self.check()
        sessions = sessions_of_a_fit()
        self._form = form
        self.leaks_: list[str] = [CLASSES_LEAK] if self.classes is None else []
        self.leaks_ += [*self._form.leaks, *leaks]
        self.classes_, index = partition.classes_of(self.classes, y)
        source = source_named(self.randomness, _seed(self.random_state))
        prepared, self.n_clipped_ = self._form.rows(x)
        unscaled = False
        if not self.declared:
            lengths = rows.norms(x) / self.norm_bound
            if clipped := clipping_warning(lengths, self.norm_bound):
                self._warn(clipped, ClippingWarning)
            unscaled = bool(2 * np.count_nonzero(lengths > 1) > len(lengths))
        chosen = self.epsilon if epsilons is None else epsilons
        label_epsilons = labels.check_epsilons(np.inf if chosen is None else chosen, len(index))
        whole = before is not None and np.shape(before)[0] == len(index)
        whose = self._recognised(sessions, people, before if whole else x, y)
        if leaks and people is None and not whole and strangers(sessions, whose):
            self._warn(STRANGERS, UncountedTrainingWarning)
        if sessions and servers is None:
            servers = sessions[0].memory.servers(whose, self.n_servers)
        # what decides on the plan must not depend on luck: without a seed only noise differs
        public = source if self.random_state is not None else Simulated(0)
        order, cuts = partition.groups_of(servers, len(index), self.n_servers, public)
        self.graph_ = build(self.topology, self.n_servers, public.public(TOPOLOGY), self.links)
        row_spec = RowSpec(
            width=prepared.shape[1],
            classes=len(self.classes_),
            norm_bound=float(self.norm_bound),
            constant=self._form.constant,
        )
        terms = TrainingTerms.over(self.graph_, row_spec)
        specs = partition.specs_of(terms, label_epsilons[order], cuts)
        agreed = self._resolve_plan(specs, label_epsilons)
        plan = agreed.plan
        if self.diagnostics and plan.method == Method.ROUNDS:
            self.leaks_.insert(0, RISK_LEAK)
        ledger = self._ledger(agreed, specs, label_epsilons, order, cuts, source)
        plan_rounds = plan.rounds
        plan, ledger = self._within_budget(agreed, ledger)
        pooled = prepared[order]
        reports = (index[order], label_epsilons[order], len(self.classes_))
        if not sessions:
            reported = flip_labels(*reports, source.stream(LABELS))
        else:
            sessions[0].memory.add(sessions, Fit.of(whose, ledger))
            reported = sessions[0].memory.randomise_labels(whose[order], *reports)
        members = partition.servers_of(specs, pooled, cuts, reported, label_epsilons[order])
        self._spent, self.rounds_ = ledger, plan.rounds
        self._session = (sessions[0], whose) if sessions else None
        run = local_engine.Run(plan, members, source)
        self._gain: Range | None = None
        train = self._exchange if plan.method == Method.SUMS else self._train
        self._bare = replace(
            train(run),
            provenance={
                "parties": "one process held all records and true labels and played every party",
                "records_per_server": [spec.records for spec in specs],
                **self._carried(plan),
                "noise_source": source.name,
                "leaks": [leak for leak in self.leaks_ if leak != RISK_LEAK],  # not in the file
                **({"rounds_asked": plan_rounds} if plan.rounds < plan_rounds else {}),
            },
        )
        self.__dict__.pop("intervals_", None)
        self._model_cache: tuple[int, Model] | None = None
        self.coef_, self.intercept_ = self._bare.coefficients, self._bare.intercepts
        self.doubts_ = utility_warnings(agreed.proposal, self._gain, unscaled=unscaled)
        if self.doubts_:
            self._warn(" ".join(self.doubts_), PrivacyUtilityWarning)
        return self

    def _warn(self, sentence: str, kind: type[UserWarning]) -> None:
        """Warn; of each kind once for all clones of one estimator, of which a search fits many."""
        with _warning:
            if kind in self._warned:
                return
            if isinstance(self._warned, set):
                self._warned.add(kind)
        warnings.warn(sentence, kind, stacklevel=4)

    def _resolve_plan(self, specs: Sequence[ServerSpec], epsilons: Array) -> ResolvedPlan:
        """The plan and its budget, from public settings and sizes alone."""
        overrides = {name: getattr(self, name) for name in OVERRIDES}
        if self.house and self.plan == AUTO and self.method is None:
            overrides["method"] = "sums"  # a model for the house is made of nothing else
        limit = np.inf if self.features_epsilon is None else self.features_epsilon
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise InvalidInput(f"budget must be a Budget or None, got {self.budget!r}")
        resolved_plan = resolve_plan(
            self.plan,
            {name: value for name, value in overrides.items() if value is not None},
            self.budget,
            Budget(features_epsilon=limit, features_delta=self.delta, colluding=self.colluding),
            specs=specs,
            epsilons=epsilons,
            graph=self.graph_,
        )
        if resolved_plan.proposal is not None:
            self.proposal_ = resolved_plan.proposal
        if self.house and resolved_plan.plan.method != Method.SUMS:
            raise InvalidInput(
                f"house must be False with method {resolved_plan.plan.method!r}, got True: a "
                "model for the "
                "house needs the others' sums",
                setting="house",
            )
        return resolved_plan

    def _ledger(
        self,
        agreed: ResolvedPlan,
        specs: Sequence[ServerSpec],
        epsilons: Array,
        order: IntArray,
        cuts: IntArray,
        source: Source,
    ) -> Ledger:
        """What the whole plan will spend: public settings only, known before any label is
        flipped.
        """
        classes, events = len(self.classes_), []
        owners, weights = np.empty(len(order), dtype=np.int64), np.empty(len(order))
        for spec in specs:
            members = order[cuts[spec.server] : cuts[spec.server + 1]]
            owners[members] = spec.server
            weights[members] = np.minimum(
                1.0,
                labels.keep_weight(epsilons[members], classes)
                / labels.keep_weight(spec.epsilon, classes),
            )
            events.append((spec.flip(SIMULATION), *agreed.plan.events(spec)))
        return Ledger(
            tuple(events),
            source=source.name,
            delta=self.delta,
            classes=classes,
            reports=Reports(owners, epsilons, weights),
            notes=(*agreed.notes, *self._notes),
        )

    def _within_budget(self, agreed: ResolvedPlan, ledger: Ledger) -> tuple[TrainingPlan, Ledger]:
        """The plan as far as the budget carries it."""
        plan, budget = agreed.plan, agreed.budget
        if self.open_ended and self.budget is None:
            raise InvalidInput(
                "open_ended must be False without a budget, got True: nothing would "
                "ever stop the training"
            )
        if budget is None:
            return plan, ledger
        safe = ledger.last_safe_round(budget) if self.open_ended else 0
        if safe == 0:
            ledger.check(budget)
            return plan, ledger
        return replace(plan, rounds=safe), ledger.up_to(safe)

    def _train(self, run: local_engine.Run) -> Model:
        """Rounds over the graph."""
        plan, means = run.plan, []

        def observe(t: int, released: Array, _: Array) -> None:
            if self.diagnostics:
                means.append(released[0].mean(axis=0))
            if self.on_round is not None:
                self.on_round(t, plan.rounds)

        if self.engine == "local":
            trained = local_engine.train(self.graph_, run, observe=observe)
        else:
            from pdml.training.engines import cluster, ray_engine

            with cluster.connected():
                shards = ray_engine.shards_of(run)
                trained = ray_engine.train(self.graph_, plan, run.source, shards, observe=observe)
        unknown = np.full(plan.rounds, np.nan)
        self.history_ = History(
            risk=partition.risks(plan, run.servers, np.array(means))
            if self.diagnostics
            else unknown,
            consensus=trained.consensus,
            noise=noise_level(plan, self.graph_.n),
            spent=np.array(self._spent.feature_epsilons()),
        )
        self.server_models_ = [self._model(release, plan) for release in trained.released]
        self.house_: list[Model] = []
        return self._model(trained.released.mean(axis=0), plan)

    def _exchange(self, run: local_engine.Run) -> Model:
        """Sums, once."""
        plan, options = (
            run.plan,
            {"local_models": self.house, "intercept": bool(self.fit_intercept)},
        )
        if self.engine == "local":
            done = local_engine.exchange(run, **options)
        else:
            from pdml.training.engines import cluster, ray_engine

            with cluster.connected():
                done = ray_engine.exchange(plan, run.source, ray_engine.shards_of(run), **options)
        if self.on_round is not None:
            self.on_round(1, 1)
        self.history_, self.server_models_ = NO_ROUNDS, []
        self._total, self._spec = done.total, run.servers[0].spec
        self.house_ = [
            replace(
                self._model(weights, plan),
                local=f"server {i + 1}",
                provenance={"do_not_publish": sums_fit.LOCAL_USE},
            )
            for i, weights in enumerate(done.local_models)
        ]
        weights, self._gain = sums_fit.fit_with_gain(
            done.total, plan, self._spec, intercept=options["intercept"]
        )
        return self._model(weights, plan)

    def _carried(self, plan: TrainingPlan) -> dict[str, Any]:
        """How releases met."""
        if plan.method == Method.SUMS:
            return {"sums": sums_fit.transport_note(plan, separate_nodes=False)}
        return {"links": [list(edge) for edge in self.graph_.edges]}

    def _require_fit(self, what: str) -> None:
        if "_spent" not in self.__dict__:
            raise AttributeError(f"{what} is known after fit")

    @property
    def declared(self) -> bool:
        """Whether rows follow from declared inputs, which shrink typical ones to the norm bound."""
        return self._form.encoder is not None

    @property
    def privacy_(self) -> Ledger:
        """Who can learn what; in a `PrivacyLedgerSession`, from all its fits together."""
        self._require_fit("privacy_")
        return (
            self._spent if self._session is None else self._session[0].ledger_of(self._session[1])
        )

    @property
    def model_(self) -> Model:
        """The released model with all that its file says."""
        self._require_fit("model_")
        fits = 1 if self._session is None else len(self._session[0])
        if self._model_cache is None or self._model_cache[0] != fits:
            plan = TrainingPlan.from_dict(self._bare.plan)
            has_expectation = plan.method == Method.SUMS and self.fit_intercept
            counted = THIS_TRAINING if self._session is None else f"{many_fits(fits)} of a session"
            model = replace(
                self._bare,
                privacy={**self.privacy_.to_dict(), "counted": counted},
                expected=sums_fit.expected(self._total, plan, self._spec)
                if has_expectation
                else None,
            )
            self._model_cache = fits, model
        return self._model_cache[1]

    def _recognised(
        self, sessions: Sequence[PrivacyLedgerSession], people: Any, x: Any, y: Any
    ) -> IntArray:
        """Each record's person in a session; without one, a clone's records are only noticed."""
        if not sessions and self._origin.process == 0:
            return np.zeros(0, dtype=np.int64)
        prints = fingerprints(x, y) if people is None else prints_of_names(people, len(y))
        if sessions:
            keys = fingerprints(x, np.zeros(len(y))) if people is None else prints
            return sessions[0].memory.recognise(
                prints, keys, label_prints(y), by_name=people is not None
            )
        IN_THIS_PROCESS.notice(prints)
        return prints

    @cached_property
    def intervals_(self) -> Intervals:
        """What noise does to each coefficient; ``intervals_.covers`` says which noise is in it."""
        self._require_fit("intervals_")
        plan = TrainingPlan.from_dict(self._bare.plan)
        if plan.method != Method.SUMS:
            return intervals.of_rounds(plan, self.graph_.n, self.coef_)
        bias = bool(self.fit_intercept)
        weights = np.hstack([self.coef_, self.intercept_[:, None]]) if bias else self.coef_
        return intervals.of_sums(self._total, plan, self._spec, weights, intercept=bias)

    @property
    def coef_interval_(self) -> Array:
        """(C, d, 2): the ends of `intervals_`."""
        return np.stack([self.intervals_.low, self.intervals_.high], axis=-1)

    def _model(self, weights: Array, plan: TrainingPlan) -> Model:
        bias = bool(self.fit_intercept)
        return Model(
            classes=tuple(c.item() if isinstance(c, np.generic) else c for c in self.classes_),
            coefficients=weights[:, :-1].copy() if bias else weights.copy(),
            intercepts=weights[:, -1].copy() if bias else np.zeros(len(weights)),
            norm_bound=float(self.norm_bound),
            fit_intercept=bias,
            plan=plan.to_dict(),
            encoder=None if self._form.encoder is None else self._form.encoder.to_dict(),
            feature_names=self._form.feature_names,
        )


def _seed(random_state: Any) -> int | None:
    if random_state is None or (isinstance(random_state, (int, np.integer)) and random_state >= 0):
        return None if random_state is None else int(random_state)
    from sklearn.utils import check_random_state  # here: see above

    return int(check_random_state(random_state).randint(2**31 - 1))
