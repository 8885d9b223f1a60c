"""`PDMLClassifier`: private decentralised training behind scikit-learn's interface.

It simulates all parties in one process: users flip their labels, servers train over a graph or
exchange sums once. The ledger says what the parties would have learnt; by default the noise is
drawn from a seeded generator, so a simulation itself protects nobody.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pdml import _validate
from pdml._types import Array, IntArray, Matrix
from pdml.accounting import Budget, Ledger, Reports
from pdml.accounting.provenance import SIMULATION
from pdml.core import labels
from pdml.core.graph import Graph, build
from pdml.errors import InvalidInput, PrivacyUtilityWarning
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, TOPOLOGY, Source, source_named
from pdml.plan.place import Place
from pdml.plan.training_plan import TrainingPlan
from pdml.release import dealing, totals
from pdml.release.form import Form
from pdml.release.frames import Declared
from pdml.release.history import NO_ROUNDS, History, noise_level
from pdml.release.model import THIS_TRAINING, Model
from pdml.train.engines import local

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
    features_epsilon : float or None, default 1.0
        With ``plan="auto"``, the most that other servers may learn of one person's features, but
        for a chance of ``delta``. None sets no limit.
    delta : float, default 1e-6
        That chance.
    colluding : int or None
        With ``plan="auto"``, how many other servers may put together what they see: a plan of sums
        then shows their total only. None: all of them.
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
    feature_scales : sequence of (typical, spread), mapping by name, "from_data" or None
        What is known of each column beforehand: most records lie within typical ± spread. Rows are
        then made by `pdml.core.scaling`, in units of ``norm_bound``. "from_data" takes medians and
        deviations from the records, which is a leak and is reported as one.
    feature_ranges : array of shape (n_features, 2), "from_data" or None
        Declared ranges: what lies outside is moved to the nearer end. Without ``feature_scales``
        the middle of a range is typical and a sixth of its width the spread. "from_data" takes
        minima and maxima from the records, which is a leak and is reported as one.
    feature_levels : mapping of str to levels, or None
        The levels of columns of text in a DataFrame. A column of pandas' categories has those that
        its type declares.
    feature_map : map, list of maps, or None
        Further columns made of the scaled ones: `pdml.core.maps`, each as an object or as a dict,
        ``{"map": "squares"}``.
    missing : {"refuse", "typical", "level"}, tuple of them, or mapping by name
        What NaN and None mean: "typical", of numbers, takes the typical value and says so in a
        column of its own; "level", of categories, is one more level. What is not named is refused.
    classes : sequence or None
        The declared classes, in the order that ``classes_`` will have; a class may have no record.
        None takes them from the labels, which is a leak and is reported as one.
    plan : TrainingPlan, "auto" or None
        Every letter of the paper, or one exchange: ``TrainingPlan(method="sums")``. "auto" takes
        what `pdml.plan.planner.propose` finds best for public sizes within ``features_epsilon``,
        ``delta`` and ``colluding``, and warns (`PrivacyUtilityWarning`) if joining is not expected
        to pay. Where people have different ε it plans for sums alone.
    budget : Budget or None
        The most that other servers may learn, all of them or ``colluding`` of them together. A
        training that would spend more is refused before it starts. With ``plan="auto"`` it takes
        the place of ``features_epsilon``, ``delta`` and ``colluding``.
    open_ended : bool
        Or it is stopped at the last round that ``budget`` allows, and refused only if that is none.
    diagnostics : bool
        Record the empirical risk per round: one more pass over the data per round, and a leak that
        ``leaks_`` names. An exchange of sums has no rounds, and nothing is recorded.
    house : bool
        Also each server's model for its own house, ``house_``; for an exchange of sums. They hang
        on exact sums, and so does whatever the fitted classifier is saved in.
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
    rows. history_ : `History`, per round; without any after an exchange of sums.
    privacy_ : `Ledger`: who can learn what; `privacy_.user_lines()` for each record, in the order
    of the input. rounds_ : how many rounds were done.
    n_clipped_ : how many training records were shrunk to ``norm_bound``. To be kept inside.
    leaks_ : sentences naming every release that no noise protects.
    server_models_ : each server's own last release as a `Model`; none after an exchange of sums,
    where there is one model and all have it.
    model_ : the released `Model` (`model_.save(path)`), with what it spent and, after an exchange
    of sums, what to expect of it: both are computed at first use.
    house_ : one `Model` for the house of each server, if asked for: not to be shared.
    graph_ : the `Graph` that was used.
    proposal_ : with ``plan="auto"`` the `Proposal` whose plan was used.
    """

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        features_epsilon: float | None = 1.0,
        delta: float = 1e-6,
        colluding: int | None = None,
        n_servers: int = 10,
        topology: str | Graph | Sequence[tuple[int, int]] = "random",
        links: int | None = None,
        rounds: int | None = None,
        fit_intercept: bool = True,
        norm_bound: float = 1.0,
        feature_scales: Any = None,
        feature_ranges: Any = None,
        feature_levels: Any = None,
        feature_map: Any = None,
        missing: Any = "refuse",
        classes: Any = None,
        plan: TrainingPlan | str | None = None,
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
        self.n_servers = n_servers
        self.topology = topology
        self.links = links
        self.rounds = rounds
        self.fit_intercept = fit_intercept
        self.norm_bound = norm_bound
        self.feature_scales = feature_scales
        self.feature_ranges = feature_ranges
        self.feature_levels = feature_levels
        self.feature_map = feature_map
        self.missing = missing
        self.classes = classes
        self.plan = plan
        self.budget = budget
        self.open_ended = open_ended
        self.diagnostics = diagnostics
        self.house = house
        self.on_round = on_round
        self.randomness = randomness
        self.engine = engine
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "refuse"
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
        x, y = self._read(X, y)
        check_classification_targets(y)
        self.leaks_: list[str] = [CLASSES_LEAK] if self.classes is None else []
        self.leaks_ += self._form.leaks
        self.classes_, index = dealing.classes_of(self.classes, y)
        source = source_named(self.randomness, _seed(self.random_state))
        prepared, self.n_clipped_ = self._form.rows(
            x, norm_bound=self.norm_bound, constant=bool(self.fit_intercept)
        )
        chosen = self.epsilon if epsilons is None else epsilons
        label_epsilons = labels.check_epsilons(np.inf if chosen is None else chosen, len(index))
        order, cuts = dealing.groups_of(servers, len(index), self.n_servers, source)
        self.graph_ = build(self.topology, self.n_servers, source.public(TOPOLOGY), self.links)
        places = dealing.places_of(
            self.graph_,
            label_epsilons[order],
            cuts,
            width=prepared.shape[1],
            classes=len(self.classes_),
            norm_bound=float(self.norm_bound),
        )
        plan = self._settled_plan(places)
        if self.diagnostics and plan.method == "rounds":
            self.leaks_.insert(0, RISK_LEAK)
        ledger = self._ledger(plan, places, label_epsilons, order, cuts, source)
        asked = plan.rounds
        plan, ledger = self._within_budget(plan, ledger)
        pooled = prepared[order]
        reported = flip_labels(
            index[order], label_epsilons[order], len(self.classes_), source.stream(LABELS)
        )
        members = dealing.servers_of(places, pooled, cuts, reported, label_epsilons[order])
        self.privacy_, self.rounds_ = ledger, plan.rounds
        run = local.Run(plan, members, source)
        train = self._exchange if plan.method == "sums" else self._train
        self._bare = replace(
            train(run),
            provenance={
                "parties": "one process held all records and true labels and played every party",
                "records_per_server": [place.records for place in places],
                **self._carried(plan),
                "noise_source": source.name,
                "leaks": [leak for leak in self.leaks_ if leak != RISK_LEAK],  # not in the file
                **({"rounds_asked": asked} if plan.rounds < asked else {}),
            },
        )
        self.__dict__.pop("model_", None)
        self.coef_, self.intercept_ = self._bare.coefficients, self._bare.intercepts
        return self

    def _read(self, X: Any, y: Any) -> tuple[Matrix, NDArray[Any]]:
        """X and y as they can be used, and the form of X that is kept for predictions."""
        said = Declared(
            feature_scales=self.feature_scales,
            feature_ranges=self.feature_ranges,
            feature_levels=self.feature_levels,
            feature_map=self.feature_map,
            missing=self.missing,
        )
        self._form, x, y = Form.settled(self, X, y, said)
        return x, y

    def _settled_plan(self, places: Sequence[Place]) -> TrainingPlan:
        if isinstance(self.plan, str):
            _validate.choice("plan", self.plan, ("auto",))
            plan = self._proposed(places)
        else:
            plan = self.plan or TrainingPlan()
        if self.rounds is not None:
            plan = replace(plan, rounds=self.rounds)
        if self.house and plan.method != "sums":
            raise InvalidInput(
                f"house must be False with method {plan.method!r}, got True: a model for the house "
                "needs the others' sums",
                setting="house",
            )
        return plan

    def _proposed(self, places: Sequence[Place]) -> TrainingPlan:
        """The planner's choice, from public sizes alone."""
        from pdml.plan.planner import Sizes, propose

        chosen = {epsilon for place in places for epsilon in place.epsilons}
        sizes = Sizes(
            records=tuple(place.records for place in places),
            width=places[0].width,
            epsilon=max(chosen),  # in sums, whoever asked for least is the loudest
            classes=places[0].classes,
            norm_bound=places[0].norm_bound,
        )
        limit = np.inf if self.features_epsilon is None else self.features_epsilon
        budget = self.budget or Budget(
            features_epsilon=limit, features_delta=self.delta, colluding=self.colluding
        )
        method = "sums" if len(chosen) > 1 else None
        self.proposal_ = propose(budget, sizes, self.graph_, method=method)
        if not self.proposal_.pays:
            warnings.warn(self.proposal_.verdict, PrivacyUtilityWarning, stacklevel=4)
        return self.proposal_.plan

    def _ledger(
        self,
        plan: TrainingPlan,
        places: Sequence[Place],
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
        for place in places:
            mine = order[cuts[place.server] : cuts[place.server + 1]]
            owners[mine] = place.server
            weights[mine] = np.minimum(
                1.0,
                labels.keep_weight(epsilons[mine], classes)
                / labels.keep_weight(place.epsilon, classes),
            )
            events.append((place.flip(SIMULATION), *plan.events(place)))
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

    def _train(self, run: local.Run) -> Model:
        """Rounds over the graph."""
        plan, means = run.plan, []

        def observe(t: int, released: Array, _: Array) -> None:
            if self.diagnostics:
                means.append(released[0].mean(axis=0))
            if self.on_round is not None:
                self.on_round(t, plan.rounds)

        if self.engine == "local":
            trained = local.train(self.graph_, run, observe=observe)
        else:
            from pdml.train.engines import cluster, ray

            with cluster.connected():
                shards = ray.shards_of(run)
                trained = ray.train(self.graph_, plan, run.source, shards, observe=observe)
        unknown = np.full(plan.rounds, np.nan)
        self.history_ = History(
            risk=dealing.risks(plan, run.servers, np.array(means)) if self.diagnostics else unknown,
            consensus=trained.consensus,
            noise=noise_level(plan, self.graph_.n),
            spent=np.array(self.privacy_.feature_epsilons()),
        )
        self.server_models_ = [self._model(release, plan) for release in trained.released]
        self.house_: list[Model] = []
        return self._model(trained.released.mean(axis=0), plan)

    def _exchange(self, run: local.Run) -> Model:
        """Sums, once."""
        plan, asked = run.plan, {"house": self.house, "intercept": bool(self.fit_intercept)}
        if self.engine == "local":
            done = local.exchange(run, **asked)
        else:
            from pdml.train.engines import cluster, ray

            with cluster.connected():
                done = ray.exchange(plan, run.source, ray.shards_of(run), **asked)
        if self.on_round is not None:
            self.on_round(1, 1)
        self.history_, self.server_models_ = NO_ROUNDS, []
        self._total, self._place = done.total, run.servers[0].place
        self.house_ = [
            replace(
                self._model(weights, plan),
                house=f"server {i + 1}",
                provenance={"keep": totals.HOUSE},
            )
            for i, weights in enumerate(done.house)
        ]
        weights = totals.weights(done.total, plan, self._place, intercept=asked["intercept"])
        return self._model(weights, plan)

    def _carried(self, plan: TrainingPlan) -> dict[str, Any]:
        """How releases met."""
        if plan.method == "sums":
            return {"sums": totals.carried(plan, own_nodes=False)}
        return {"links": [list(edge) for edge in self.graph_.edges]}

    @cached_property
    def model_(self) -> Model:
        """The released model with all that its file says."""
        check_is_fitted(self, "coef_")
        plan = TrainingPlan.from_dict(self._bare.plan)
        told = plan.method == "sums" and self.fit_intercept
        return replace(
            self._bare,
            privacy={**self.privacy_.to_dict(), "counted": THIS_TRAINING},
            expected=totals.expected(self._total, plan, self._place) if told else None,
        )

    def _model(self, weights: Array, plan: TrainingPlan) -> Model:
        bias = bool(self.fit_intercept)
        return Model(
            classes=tuple(c.item() if isinstance(c, np.generic) else c for c in self.classes_),
            coefficients=weights[:, :-1].copy() if bias else weights.copy(),
            intercepts=weights[:, -1].copy() if bias else np.zeros(len(weights)),
            norm_bound=float(self.norm_bound),
            fit_intercept=bias,
            plan=plan.to_dict(),
            **self._form.fields(),
        )

    def _checked(self, X: Matrix) -> Matrix:
        check_is_fitted(self, "coef_")
        return self._form.given(self, X)

    def decision_function(self, X: Matrix) -> Array:
        """Margins of the released model on scaled and clipped rows."""
        x = self._checked(X)
        return self._bare.decision_function(x)

    def predict_proba(self, X: Matrix) -> Array:
        """Class probabilities of the released model."""
        x = self._checked(X)
        return self._bare.predict_proba(x)

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
