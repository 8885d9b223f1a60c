"""`PDMLClassifier`: private decentralised training behind scikit-learn's interface.

It simulates all parties in one process: users flip their labels, servers train over a graph. The
ledger says what the parties would have learnt; by default the noise is drawn from a seeded
generator, so a simulation itself protects nobody.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pdml import _validate
from pdml._types import Array, IntArray, Matrix
from pdml.accounting import Budget, Ledger, Reports
from pdml.accounting.events import LabelFlipped
from pdml.accounting.provenance import SIMULATION
from pdml.core import labels, objective, rows
from pdml.core.graph import Graph, build
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import DEAL, LABELS, TOPOLOGY, Source, source_named
from pdml.release.history import History, noise_level
from pdml.release.model import THIS_TRAINING, Model, prepare
from pdml.train.engines import local
from pdml.train.node import Server
from pdml.train.plan import TrainingPlan

RANGES_LEAK = (
    "feature_ranges='from_data' took each column's minimum and maximum from the "
    "records: a release no noise protects"
)
RISK_LEAK = "history_.risk is computed from the records without noise: keep it inside the servers"
CLASSES_LEAK = "classes_ was taken from true labels, which no noise protects: classes= declares it"


class PDMLClassifier(ClassifierMixin, BaseEstimator):
    """Linear classifier trained by servers that do not trust each other, on labels that nobody has
    seen.

    Parameters
    ----------
    epsilon : float or None, default 1.0
        Label privacy in Phase 1: each label is flipped with probability 1/(1 + e^ε). None or
        infinity: no flipping.
    n_servers, topology, links
        The servers and how they are joined: "random" (``links`` links, default 1.3 per server),
        "ring", "complete", "star", "grid", "small_world", a list of edges, or a `Graph`.
    rounds : int or None
        Rounds of ADMM; None takes the plan's.
    fit_intercept : bool
        Append a constant 1 to every record. It counts inside ``norm_bound`` and is regularised like
        any feature.
    norm_bound : float
        Records longer than this are shrunk to it, one by one; every guarantee rests on it.
    feature_ranges : array of shape (n_features, 2), "from_data" or None
        Declared ranges, mapped to [0, 1]. "from_data" takes them from the records, which is a leak
        and is reported as one.
    classes : sequence or None
        The declared classes, in the order that ``classes_`` will have; a class may have no record.
        None takes them from the labels, which is a leak and is reported as one.
    plan : TrainingPlan or None
        Every letter of the paper.
    budget : Budget or None
        The most that other servers may learn. A training that would spend more is refused before it
        starts.
    open_ended : bool
        Or it is stopped at the last round that ``budget`` allows, and refused only if that is none.
    diagnostics : bool
        Record the empirical risk per round: one more pass over the data per round, and a leak that
        ``leaks_`` names.
    on_round : callable(t, rounds) or None
        Called after each round, for progress bars.
    randomness : {"simulated", "secure"}
        Where flips and noise come from: a seeded generator, or the operating system's entropy with
        noise exact on a grid.
    engine : {"local", "ray"}
        Where the servers run: in this process, or as actors on a Ray cluster (RAY_ADDRESS, else a
        new one on this machine). The result is the same to the bit.
    random_state
        Makes everything reproducible to the bit; with secure randomness only the dealing of records
        and the graph.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_ : as in scikit-learn; they act on scaled and clipped
    rows. history_ : `History`, per round.
    privacy_ : `Ledger`: who can learn what; `privacy_.user_lines()` for each record, in the order
    of the input. rounds_ : how many rounds were done.
    n_clipped_ : how many training records were shrunk to ``norm_bound``. To be kept inside.
    leaks_ : sentences naming every release that no noise protects.
    server_models_ : each server's own last release as a `Model`.
    model_ : the released `Model` (`model_.save(path)`).
    graph_ : the `Graph` that was used.
    """

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        n_servers: int = 10,
        topology: str | Graph | Sequence[tuple[int, int]] = "random",
        links: int | None = None,
        rounds: int | None = None,
        fit_intercept: bool = True,
        norm_bound: float = 1.0,
        feature_ranges: Any = None,
        classes: Any = None,
        plan: TrainingPlan | None = None,
        budget: Budget | None = None,
        open_ended: bool = False,
        diagnostics: bool = False,
        on_round: Callable[[int, int], None] | None = None,
        randomness: str = "simulated",
        engine: str = "local",
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_servers = n_servers
        self.topology = topology
        self.links = links
        self.rounds = rounds
        self.fit_intercept = fit_intercept
        self.norm_bound = norm_bound
        self.feature_ranges = feature_ranges
        self.classes = classes
        self.plan = plan
        self.budget = budget
        self.open_ended = open_ended
        self.diagnostics = diagnostics
        self.on_round = on_round
        self.randomness = randomness
        self.engine = engine
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Matrix, y: Any, epsilons: Any = None, servers: Any = None) -> "PDMLClassifier":
        """Train on simulated users. ``epsilons``: one ε per record; ``servers``: the index of each
        record's server.
        """
        _validate.integer(
            "n_servers", self.n_servers, low=2, why="one server alone has nobody to hide from"
        )
        _validate.real("norm_bound", self.norm_bound, low=0, high=1e12, open_low=True)
        _validate.choice("engine", self.engine, ("local", "ray"))
        x, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.leaks_: list[str] = [RISK_LEAK] if self.diagnostics else []
        self.classes_, index = self._classes(y)
        plan = self.plan or TrainingPlan()
        if self.rounds is not None:
            plan = replace(plan, rounds=self.rounds)
        source = source_named(self.randomness, _seed(self.random_state))
        ranges = self._ranges(x)
        if ranges is None:  # a declared low other than 0 would fill the zeros in again
            x = rows.compact(x)
        prepared, self.n_clipped_ = prepare(
            x, norm_bound=self.norm_bound, fit_intercept=self.fit_intercept, ranges=ranges
        )
        chosen = self.epsilon if epsilons is None else epsilons
        label_epsilons = labels.check_epsilons(np.inf if chosen is None else chosen, len(index))
        order, cuts = self._groups(servers, len(index), source)
        self.graph_ = build(self.topology, self.n_servers, source.public(TOPOLOGY), self.links)
        ledger = self._ledger(plan, label_epsilons, order, cuts, prepared.shape[1], source)
        asked = plan.rounds
        plan, ledger = self._within_budget(plan, ledger)
        pooled = prepared[order]
        reported = flip_labels(
            index[order], label_epsilons[order], len(self.classes_), source.stream(LABELS)
        )
        members = _servers(
            pooled,
            cuts,
            reported,
            label_epsilons[order],
            self.graph_,
            self.norm_bound,
            len(self.classes_),
        )
        trained, means = self._train(plan, members, source)
        self.privacy_, self.rounds_ = ledger, plan.rounds
        self._publish(plan, asked, members, ranges, trained, means, source)
        return self

    def _classes(self, y: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
        """The classes, declared or found, and each record's index among them."""
        if self.classes is None:
            self.leaks_.append(CLASSES_LEAK)
            found, index = np.unique(y, return_inverse=True)
            if len(found) < 2:
                raise DataError("y holds only one class; a classifier needs at least two")
            return found, index
        declared = np.asarray(self.classes)
        names = declared.tolist() if declared.ndim == 1 else []
        place = {name: k for k, name in enumerate(names)}
        if len(place) < max(2, len(names)):
            raise InvalidInput(f"classes must be two or more different names, got {self.classes!r}")
        index = np.fromiter((place.get(value, -1) for value in y.tolist()), np.int64, len(y))
        if (index < 0).any():  # the record's number, never its label
            row = int(np.argmin(index)) + 1
            raise DataError(f"y must hold one of the declared classes, got another at record {row}")
        return declared, index

    def _ledger(
        self,
        plan: TrainingPlan,
        epsilons: Array,
        order: IntArray,
        cuts: IntArray,
        width: int,
        source: Source,
    ) -> Ledger:
        """What the whole plan will spend: public settings only, known before any label is
        flipped.
        """
        classes, n = len(self.classes_), self.graph_.n
        events = []
        owners, weights = np.empty(len(order), dtype=np.int64), np.empty(len(order))
        for i in range(n):
            mine = order[cuts[i] : cuts[i + 1]]
            quietest = float(epsilons[mine].min())
            owners[mine] = i
            weights[mine] = np.minimum(
                1.0,
                labels.keep_weight(epsilons[mine], classes) / labels.keep_weight(quietest, classes),
            )
            planned = plan.events(
                server=i,
                n_servers=n,
                degree=int(self.graph_.degrees[i]),
                records=len(mine),
                epsilon=quietest,
                norm_bound=float(self.norm_bound),
                width=width,
                classes=classes,
            )
            flip = LabelFlipped(epsilon=float(epsilons[mine].max()), by=SIMULATION)
            events.append((flip, *planned))
        return Ledger(
            tuple(events),
            source=source.name,
            classes=classes,
            reports=Reports(owners, epsilons, weights),
        )

    def _within_budget(self, plan: TrainingPlan, ledger: Ledger) -> tuple[TrainingPlan, Ledger]:
        """The plan as far as the budget carries it."""
        if self.budget is None:
            if self.open_ended:
                raise InvalidInput(
                    "open_ended must be False without a budget, got True: nothing would "
                    "ever stop the training"
                )
            return plan, ledger
        if not isinstance(self.budget, Budget):
            raise InvalidInput(f"budget must be a Budget or None, got {self.budget!r}")
        safe = ledger.last_safe_round(self.budget) if self.open_ended else 0
        if safe == 0:
            ledger.check(self.budget)
            return plan, ledger
        return replace(plan, rounds=safe), ledger.up_to(safe)

    def _ranges(self, x: Matrix) -> Array | None:
        if self.feature_ranges is None:
            return None
        if isinstance(self.feature_ranges, str):
            _validate.choice("feature_ranges", self.feature_ranges, ("from_data",))
            self.leaks_.append(RANGES_LEAK)
            low, high = (
                np.asarray(side.toarray() if hasattr(side, "toarray") else side).ravel()
                for side in (x.min(axis=0), x.max(axis=0))
            )
            low = np.minimum(low, 0) if hasattr(x, "toarray") else low
            return np.column_stack([low, np.where(high > low, high, low + 1)]).astype(float)
        return np.asarray(self.feature_ranges, dtype=float)

    def _groups(self, servers: Any, total: int, source: Source) -> tuple[IntArray, IntArray]:
        """Which records belong to which server, as an order of the records and the cuts between
        servers.
        """
        if servers is None:
            if total < self.n_servers:
                raise DataError(
                    f"n_samples={total} records cannot be dealt to "
                    f"n_servers={self.n_servers}: every server needs at least one"
                )
            return rows.deal(total, self.n_servers, source.public(DEAL))
        owner = np.asarray(servers)
        if owner.shape != (total,) or not np.issubdtype(owner.dtype, np.integer):
            raise InvalidInput(f"servers must hold one server index per record ({total} of them)")
        sizes = np.bincount(owner, minlength=self.n_servers) if (owner >= 0).all() else np.zeros(0)
        if len(sizes) != self.n_servers or (sizes == 0).any():
            raise InvalidInput(
                f"servers must use every index from 0 to {self.n_servers - 1} and no other"
            )
        return np.argsort(owner, kind="stable"), np.cumsum([0, *sizes]).astype(np.int64)

    def _train(
        self, plan: TrainingPlan, members: list[Server], source: Source
    ) -> tuple[local.Trained, Array]:
        means: list[Array] = []

        def observe(t: int, released: Array, _: Array) -> None:
            if self.diagnostics:
                means.append(released[0].mean(axis=0))
            if self.on_round is not None:
                self.on_round(t, plan.rounds)

        run = local.Run(plan, members, source)
        if self.engine == "local":
            return local.train(self.graph_, run, observe=observe), np.array(means)
        from pdml.train.engines import ray

        with ray.connected():
            trained = ray.train(self.graph_, plan, source, ray.shards_of(run), observe=observe)
        return trained, np.array(means)

    def _publish(
        self,
        plan: TrainingPlan,
        asked: int,
        members: list[Server],
        ranges: Array | None,
        trained: local.Trained,
        means: Array,
        source: Source,
    ) -> None:
        self.history_ = History(
            risk=_risks(plan, members, means) if self.diagnostics else np.full(plan.rounds, np.nan),
            consensus=trained.consensus,
            noise=noise_level(plan, self.graph_.n),
            spent=np.array(self.privacy_.feature_epsilons()),
        )
        self.server_models_ = [self._model(release, plan, ranges) for release in trained.released]
        self.model_ = replace(
            self._model(trained.released.mean(axis=0), plan, ranges),
            privacy={**self.privacy_.to_dict(), "counted": THIS_TRAINING},
            provenance={
                "parties": "one process held all records and true labels and played every party",
                "records_per_server": [server.records for server in members],
                "links": [list(edge) for edge in self.graph_.edges],
                "noise_source": source.name,
                "leaks": [leak for leak in self.leaks_ if leak != RISK_LEAK],  # not in the file
                **({"rounds_asked": asked} if plan.rounds < asked else {}),
            },
        )
        self.coef_ = self.model_.coefficients
        self.intercept_ = self.model_.intercepts

    def _model(self, weights: Array, plan: TrainingPlan, ranges: Array | None) -> Model:
        names = getattr(self, "feature_names_in_", None)
        bias = bool(self.fit_intercept)
        return Model(
            classes=tuple(c.item() if isinstance(c, np.generic) else c for c in self.classes_),
            coefficients=weights[:, :-1].copy() if bias else weights.copy(),
            intercepts=weights[:, -1].copy() if bias else np.zeros(len(weights)),
            norm_bound=float(self.norm_bound),
            fit_intercept=bias,
            feature_names=tuple(str(name) for name in names) if names is not None else (),
            ranges=ranges,
            plan=plan.to_dict(),
        )

    def _checked(self, X: Matrix) -> Matrix:
        check_is_fitted(self, "model_")
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )

    def decision_function(self, X: Matrix) -> Array:
        """Margins of the released model on scaled and clipped rows."""
        x = self._checked(X)
        return self.model_.decision_function(x)

    def predict_proba(self, X: Matrix) -> Array:
        """Class probabilities of the released model."""
        x = self._checked(X)
        return self.model_.predict_proba(x)

    def predict(self, X: Matrix) -> NDArray[Any]:
        """The most likely class of each row."""
        scores = self.decision_function(X)
        return np.asarray(
            self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
        )


def _seed(random_state: Any) -> int | None:
    if random_state is None or (isinstance(random_state, (int, np.integer)) and random_state >= 0):
        return None if random_state is None else int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _servers(
    pooled: Matrix,
    cuts: IntArray,
    reported: IntArray,
    epsilons: Array,
    graph: Graph,
    norm_bound: float,
    classes: int,
) -> list[Server]:
    """Deal prepared records and reported labels out to their servers."""
    codes = labels.codes(reported, epsilons, classes)
    return [
        Server(
            index=i,
            n_servers=graph.n,
            degree=int(graph.degrees[i]),
            matrix=rows.take(pooled, int(cuts[i]), int(cuts[i + 1])),
            codes=codes[cuts[i] : cuts[i + 1]],
            epsilon=float(epsilons[cuts[i] : cuts[i + 1]].min()),
            norm_bound=float(norm_bound),
            classes=classes,
            pooled=pooled,
        )
        for i in range(graph.n)
    ]


def _risks(plan: TrainingPlan, members: list[Server], points: Array) -> Array:
    """(1/n) Σ_i Ĵ_i at the average release of each round."""
    loss = plan.loss_for(members[0].classes)
    weight = plan.regularization / len(members)
    each = (
        objective.risk(s.matrix, loss, labels.label_mean(s.matrix, s.codes, loss), weight, points)
        for s in members
    )
    return np.asarray(sum(each) / len(members))
