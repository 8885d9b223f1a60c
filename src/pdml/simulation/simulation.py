"""All parties in one process. The ledger says what they would have learnt; by default the noise is
seeded, and a simulation itself protects nobody. Nothing here loads scikit-learn, which takes a
second.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml import _validate
from pdml._types import Array, IntArray, Matrix
from pdml.accounting import Budget, Ledger, Reports
from pdml.accounting.kinds import SIMULATION, Data, Method
from pdml.clock import SYSTEM_CLOCK, Clock, today
from pdml.encoding.pipeline import Pipeline, loses_by_clipping
from pdml.errors import (
    ClippingWarning,
    DataError,
    InvalidInput,
    PrivacyUtilityWarning,
    UncountedTrainingWarning,
    warn,
)
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, PARTITION, TOPOLOGY, Simulated, Source, source_named
from pdml.model.history import NO_ROUNDS, History, noise_level
from pdml.model.model import THIS_TRAINING
from pdml.numerics.admm import labels, rows, steps
from pdml.numerics.admm.graph import Graph, build
from pdml.planning.resolve_plan import AUTO, ResolvedPlan, resolve_plan
from pdml.planning.search.map_choice import choose_maps
from pdml.planning.server_spec import RowSpec, ServerSpec, TrainingTerms
from pdml.planning.sizes import Sizes
from pdml.planning.training_plan import TrainingPlan
from pdml.simulation.privacy_session import (
    STRANGERS,
    CloneOrigin,
    Fit,
    PrivacyLedgerSession,
    many_fits,
    sessions_of_a_fit,
    strangers,
)
from pdml.simulation.record_ids import (
    REFITS,
    UNCOUNTED,
    fingerprints,
    label_prints,
    prints_of_names,
)
from pdml.training import local_engine
from pdml.training.result import ServerPart, TrainingResult
from pdml.training.server import Server

RISK_LEAK = "history_.risk is computed from the records without noise: do not publish it"
CLASSES_LEAK = (
    "classes_ was taken from true labels, also a class that one person alone has, which no noise "
    "protects: classes= declares it"
)
CLIPPED = (
    "Many rows are far longer than norm_bound and were clipped to it. Declare scales or ranges: "
    "encoding=Encoding(scales=...)."
)
DOUBTFUL = (
    "The model may be no better than a server alone, or than the majority class. Its doubts_ say "
    "why, and what would help."
)
_PARTIES = "one process held all records and true labels and played every party"

OnRound = Callable[[int, int], None]
"""Hears (rounds done, of how many), for progress bars."""

Topology = str | Graph | Sequence[tuple[int, int]] | tuple[str, int]

_NO_CLONE = CloneOrigin(0, session=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulationSettings:
    """What is simulated; `PDMLClassifier` says what each setting means."""

    epsilon: float | None = 1.0
    features_epsilon: float | None = 1.0
    delta: float = 1e-6
    colluding: int | None = None
    plan: TrainingPlan | str | Mapping[str, Any] = AUTO
    budget: Budget | None = None
    n_servers: int = 10
    topology: Topology = "random"
    classes: Any = None
    engine: str = "local"
    randomness: str = "simulated"
    random_state: Any = None
    open_ended: bool = False
    local_models: bool = False
    diagnostics: bool = False

    def __post_init__(self) -> None:
        _validate.integer(
            "n_servers", self.n_servers, low=2, why="one server alone has nobody to hide from"
        )
        _validate.choice("engine", self.engine, local_engine.ENGINES)
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise InvalidInput(f"budget must be a Budget or None, got {self.budget!r}")
        if self.open_ended and self.budget is None:
            raise InvalidInput(
                "open_ended must be False without a budget, got True: nothing would "
                "ever stop the training"
            )

    def graph(self, source: Source) -> Graph:
        topology, links = self.topology, None
        if isinstance(topology, tuple) and len(topology) == 2 and isinstance(topology[0], str):
            topology, links = topology
        return build(topology, self.n_servers, source.public(TOPOLOGY), links)

    @property
    def allowed(self) -> Budget:
        """The budget, or the default one."""
        limit = np.inf if self.features_epsilon is None else self.features_epsilon
        return self.budget or Budget(
            features_epsilon=limit, features_delta=self.delta, colluding=self.colluding
        )

    def resolve_plan(
        self, specs: Sequence[ServerSpec], epsilons: Array, graph: Graph
    ) -> ResolvedPlan:
        """The plan and its budget, from public settings and sizes alone."""
        resolved = resolve_plan(
            self.plan,
            self.budget,
            self.allowed,
            local_models=self.local_models,
            specs=specs,
            epsilons=epsilons,
            graph=graph,
        )
        if self.local_models and resolved.plan.method != Method.SUMS:
            raise InvalidInput(
                f"local_models must be False with method {resolved.plan.method!r}, got True: a "
                "local model needs the others' sums",
                setting="local_models",
            )
        return resolved


@dataclass(frozen=True, kw_only=True, eq=False)
class FitContext:
    """What happened around a fit, as far as its ledger and its warnings depend on it."""

    origin: CloneOrigin = _NO_CLONE
    notes: tuple[str, ...] = ()  # what the reader of any ledger of it must know
    leaks: tuple[str, ...] = ()  # what was done to the records before
    pipeline_input: Any = None  # records before the first step of a pipeline
    clock: Clock = SYSTEM_CLOCK


@dataclass(eq=False)
class SimulatedTraining:
    """A training that was simulated, and the session that counts it among other fits."""

    own: TrainingResult  # the ledger counts this training alone
    classes: NDArray[Any]  # in the type of the labels
    session: PrivacyLedgerSession | None
    people: IntArray
    pipeline: Pipeline  # with the maps that sizes decided on
    _fits: int = field(default=0, init=False)
    _counted: TrainingResult | None = field(default=None, init=False)

    @property
    def result(self) -> TrainingResult:
        """What came out; its ledger and its model count all fits of the session so far."""
        if self.session is None:
            return self.own
        if self._counted is None or self._fits != len(self.session):
            self._fits = len(self.session)
            self._counted = self.own.replaced(
                ledger=self.session.ledger_of(self.people),
                counted=f"{many_fits(self._fits)} of a session",
            )
        return self._counted

    def detached(self) -> "SimulatedTraining":
        """Without the session, which knows other people too: what it has counted so far stays."""
        return SimulatedTraining(self.result, self.classes, None, self.people, self.pipeline)


def simulate(
    settings: SimulationSettings,
    pipeline: Pipeline,
    x: Matrix,
    y: NDArray[Any],
    *,
    epsilons: Any = None,
    servers: Any = None,
    people: Any = None,
    on_round: OnRound | None = None,
    names: Sequence[str] = (),
    inputs: Mapping[str, Any] | None = None,
    context: FitContext = FitContext(),  # noqa: B008, frozen
) -> SimulatedTraining:
    """Train on simulated users. ``names`` are the servers', and ``inputs`` fields of the model."""
    context.origin.check()
    sessions = sessions_of_a_fit()
    classes, index = classes_of(settings.classes, y)
    source = source_named(settings.randomness, _seed(settings.random_state))
    unscaled = False
    if pipeline.encoder is None:
        lengths = rows.norms(x) / pipeline.norm_bound
        if loses_by_clipping(lengths):
            warn(CLIPPED, ClippingWarning)
        unscaled = bool(2 * np.count_nonzero(lengths > 1) > len(lengths))
    chosen = settings.epsilon if epsilons is None else epsilons
    label_epsilons = labels.check_epsilons(np.inf if chosen is None else chosen, len(index))
    before = context.pipeline_input
    whole = before is not None and np.shape(before)[0] == len(index)
    whose = _recognise(sessions, context.origin, people, before if whole else x, y)
    if context.leaks and people is None and not whole and strangers(sessions, whose):
        warn(STRANGERS, UncountedTrainingWarning)
    if sessions and servers is None:
        servers = sessions[0].memory.servers(whose, settings.n_servers)
    # what decides on the plan must not depend on luck: without a seed only noise differs
    public = source if settings.random_state is not None else Simulated(0)
    order, cuts = groups_of(servers, len(index), settings.n_servers, public)
    graph = settings.graph(public)

    def specs_for(width: int) -> tuple[ServerSpec, ...]:
        row_spec = RowSpec(
            width=width,
            classes=len(classes),
            norm_bound=float(pipeline.norm_bound),
            constant=pipeline.constant,
        )
        return specs_of(TrainingTerms.over(graph, row_spec), label_epsilons[order], cuts)

    if pipeline.auto_maps and pipeline.encoder is not None and not sp.issparse(x):
        sizes = Sizes.of(
            specs_for(pipeline.encoder.n_features + pipeline.intercept), label_epsilons
        )
        maps = choose_maps(pipeline.encoder, settings.allowed, sizes)
        pipeline = replace(pipeline, encoder=replace(pipeline.encoder, maps=maps), auto_maps=False)
    prepared, clipped = pipeline.rows(x)
    specs = specs_for(prepared.shape[1])
    resolved = settings.resolve_plan(specs, label_epsilons, graph)
    planned = resolved.plan
    owners = np.empty_like(order)
    owners[order] = np.repeat(np.arange(graph.n), np.diff(cuts))
    reports = Reports.of(owners, label_epsilons, len(classes))
    ledger = Ledger(
        tuple((spec.flip(SIMULATION), *planned.events(spec)) for spec in specs),
        source=source.name,
        delta=settings.delta,
        classes=len(classes),
        reports=reports,
        notes=(*resolved.notes, *context.notes),
    )
    plan, ledger = _within_budget(settings, resolved, ledger)
    flips = (index[order], label_epsilons[order], len(classes))
    if not sessions:
        reported = flip_labels(*flips, source.stream(LABELS))
    else:
        sessions[0].memory.add(sessions, Fit(whose, reports, ledger))
        reported = sessions[0].memory.randomise_labels(whose[order], *flips)
    members = servers_of(specs, prepared[order], cuts, reported, label_epsilons[order])
    run = local_engine.Run(plan, members, source)
    released, history, local_weights = _train(
        settings, run, graph, ledger, on_round or (lambda done, of: None), bool(pipeline.intercept)
    )
    names = names or [f"server {i + 1}" for i in range(graph.n)]
    result = TrainingResult(
        plan=plan,
        graph=graph,
        parts=tuple(
            ServerPart(
                name=name, spec=spec, released=row, events=events[1:], randomised_by=SIMULATION
            )
            for name, spec, row, events in zip(names, specs, released, ledger.events, strict=True)
        ),
        ledger=ledger,
        history=history,
        inputs={
            "classes": _plain(classes),
            "encoder": None if pipeline.encoder is None else pipeline.encoder.to_dict(),
            "feature_names": pipeline.feature_names,
            **(inputs or {}),
        },
        origin={
            "parties": _PARTIES,
            **({"declared_from": pipeline.source} if pipeline.source else {}),
            **({"rounds_asked": planned.rounds} if plan.rounds < planned.rounds else {}),
        },
        leaks=(
            *([CLASSES_LEAK] if settings.classes is None else []),
            *pipeline.leaks,
            *context.leaks,
        ),
        local_weights=dict(zip(names, local_weights, strict=False)),
        counted=THIS_TRAINING,
        intercept=bool(pipeline.intercept),
        proposal=resolved.proposal,
        unscaled=unscaled,
        clipped=clipped,
        diagnostics=settings.diagnostics,
        declared=pipeline.encoder is not None,
        date=today(context.clock),
        data=sessions[0].id if sessions else "",
    )
    if result.doubts:
        warn(DOUBTFUL, PrivacyUtilityWarning)
    return SimulatedTraining(result, classes, sessions[0] if sessions else None, whose, pipeline)


def _within_budget(
    settings: SimulationSettings, resolved: ResolvedPlan, ledger: Ledger
) -> tuple[TrainingPlan, Ledger]:
    """The plan as far as the budget carries it."""
    plan, budget = resolved.plan, resolved.budget
    if budget is None:
        return plan, ledger
    safe = ledger.last_safe_round(budget) if settings.open_ended else 0
    if safe == 0:
        ledger.check(budget)
        return plan, ledger
    return replace(plan, rounds=safe), ledger.up_to(safe)


def _train(
    settings: SimulationSettings,
    run: local_engine.Run,
    graph: Graph,
    ledger: Ledger,
    on_round: OnRound,
    intercept: bool,
) -> tuple[NDArray[Any], History, Sequence[Array]]:
    """What each server released, round by round what is known of it, and the local models."""
    plan, means = run.plan, []
    if plan.method == Method.SUMS:
        done = local_engine.exchange_by(
            settings.engine, run, local_models=settings.local_models, intercept=intercept
        )
        on_round(1, 1)
        return done.released, NO_ROUNDS, done.local_models

    def observe(t: int, released: Array, _: Array) -> None:
        if settings.diagnostics:
            means.append(released[0].mean(axis=0))
        on_round(t, plan.rounds)

    trained = local_engine.train_by(settings.engine, graph, run, observe)
    risk = risks(plan, run.servers, np.array(means)) if means else np.full(plan.rounds, np.nan)
    history = History(
        risk=risk,
        consensus=trained.consensus,
        noise=noise_level(plan, graph.n),
        spent=np.array(ledger.epsilons(Data.FEATURES)),
    )
    return trained.released, history, ()


def _recognise(
    sessions: Sequence[PrivacyLedgerSession], origin: CloneOrigin, people: Any, x: Any, y: Any
) -> IntArray:
    """Each record's person in a session; without one, a clone's records are noticed alone."""
    if not sessions and origin.process == 0:
        return np.zeros(0, dtype=np.int64)
    prints = fingerprints(x, y) if people is None else prints_of_names(people, len(y))
    if sessions:
        keys = fingerprints(x, np.zeros(len(y))) if people is None else prints
        return sessions[0].memory.recognise(
            prints, keys, label_prints(y), by_name=people is not None
        )
    if REFITS.notice(prints):
        warn(UNCOUNTED, UncountedTrainingWarning)
    return prints


def _plain(classes: NDArray[Any]) -> tuple[Any, ...]:
    return tuple(name.item() if isinstance(name, np.generic) else name for name in classes)


def _seed(random_state: Any) -> int | None:
    if random_state is None or (isinstance(random_state, (int, np.integer)) and random_state >= 0):
        return None if random_state is None else int(random_state)
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))


# Records assigned to servers


def classes_of(declared: Any, y: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    """The classes, declared or found (None), and each record's index among them."""
    if declared is None:
        distinct, index = np.unique(y, return_inverse=True)
        if len(distinct) < 2:
            raise DataError("y holds only one class; a classifier needs at least two")
        return distinct, index
    classes = np.asarray(declared)
    names = classes.tolist() if classes.ndim == 1 else []
    index_of = {name: k for k, name in enumerate(names)}
    if len(index_of) < max(2, len(names)):
        raise InvalidInput(f"classes must be two or more different names, got {declared!r}")
    index = np.fromiter((index_of.get(value, -1) for value in y.tolist()), np.int64, len(y))
    if (index < 0).any():  # the record's number, never its label
        row = int(np.argmin(index)) + 1
        raise DataError(f"y must hold one of the declared classes, got another at record {row}")
    return classes, index


def groups_of(
    servers: Any, total: int, n_servers: int, source: Source
) -> tuple[IntArray, IntArray]:
    """An order of the records by server, and the cuts between servers; None assigns at random."""
    if servers is None:
        if total < n_servers:
            raise DataError(
                f"n_samples={total} records cannot be assigned to n_servers={n_servers}: every "
                "server needs at least one"
            )
        return rows.partition_records(total, n_servers, source.public(PARTITION))
    owner = np.asarray(servers)
    if owner.shape != (total,) or not np.issubdtype(owner.dtype, np.integer):
        raise InvalidInput(f"servers must hold one server index per record ({total} of them)")
    sizes = np.bincount(owner, minlength=n_servers) if (owner >= 0).all() else np.zeros(0)
    if len(sizes) != n_servers or (sizes == 0).any():
        raise InvalidInput(f"servers must use every index from 0 to {n_servers - 1} and no other")
    return np.argsort(owner, kind="stable"), np.cumsum([0, *sizes]).astype(np.int64)


def specs_of(terms: TrainingTerms, epsilons: Array, cuts: IntArray) -> tuple[ServerSpec, ...]:
    return tuple(
        terms.server_spec(i, records=b - a, epsilons=_used(epsilons[a:b]))
        for i, (a, b) in enumerate(pairwise(cuts.tolist()))
    )


def _used(epsilons: Array) -> list[float]:
    """Mostly there is one, and no need to sort."""
    if (epsilons == epsilons[0]).all():
        return [float(epsilons[0])]
    return list(np.unique(epsilons).tolist())


def servers_of(
    specs: Sequence[ServerSpec],
    pooled: Matrix,
    cuts: IntArray,
    reported: IntArray,
    epsilons: Array,
) -> list[Server]:
    """Prepared records and reported labels, each at its server."""
    codes = labels.codes(reported, epsilons, specs[0].classes)
    return [
        Server(spec, rows.take(pooled, a, b), codes[a:b], pooled)
        for spec, (a, b) in zip(specs, pairwise(cuts.tolist()), strict=True)
    ]


def risks(plan: TrainingPlan, members: Sequence[Server], points: Array) -> Array:
    """(1/n) Σ_i Ĵ_i at the average release of each round: computed from records, without noise."""
    loss = plan.loss_for(members[0].spec.classes)
    weight = plan.regularization / len(members)
    terms = (
        steps.risk(s.matrix, loss, labels.label_mean(s.matrix, s.codes, loss), weight, points)
        for s in members
    )
    return np.asarray(sum(terms) / len(members))
