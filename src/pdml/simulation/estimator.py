"""`PDMLClassifier`: a simulation of all parties in one process, behind scikit-learn's interface."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pdml import _validate
from pdml._types import Array, Matrix
from pdml.accounting import Budget
from pdml.encoding.encoding import Encoding, read_inputs
from pdml.errors import InvalidInput
from pdml.model.model import Features
from pdml.planning.resolve_plan import AUTO, SETTINGS
from pdml.planning.training_plan import TrainingPlan
from pdml.simulation.privacy_session import CloneOrigin
from pdml.simulation.simulation import (
    RISK_LEAK,
    FitContext,
    OnRound,
    SimulatedTraining,
    SimulationSettings,
    Topology,
    simulate,
)
from pdml.training.result import TrainingResult

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")


_WEIGHTS = (
    "noise is made for a record that counts in full, so that a smaller weight loses accuracy and "
    "wins no privacy"
)
_UNSUPPORTED = {
    "sample_weight": f": {_WEIGHTS}; fit(epsilons=) weighs reports by what they tell",
    "class_weight": (
        ": it would need true labels, which no server knows; after fit, at(sensitivity=0.9) places "
        "the line between the classes"
    ),
}


def _explain_unknown(init: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """An unknown keyword names the class, and where it belongs."""
    parameters = tuple(inspect.signature(init).parameters)

    @wraps(init)
    def checked(*args: Parameters.args, **settings: Parameters.kwargs) -> None:
        for name in settings:
            if name not in parameters:
                hint = _hint(name, parameters[1:])
                raise TypeError(f"PDMLClassifier has no parameter {name!r}{hint}")
        init(*args, **settings)

    return checked


def _explain_weights(fit: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
    """Weights of records are refused with what there is instead; the signature has none."""

    @wraps(fit)
    def checked(*args: Parameters.args, **settings: Parameters.kwargs) -> Value:
        if settings.pop("sample_weight", None) is not None:
            raise InvalidInput(
                f"sample_weight must be left out{_UNSUPPORTED['sample_weight']}",
                setting="sample_weight",
            )
        return fit(*args, **settings)

    return checked


def _hint(name: str, parameters: Sequence[str]) -> str:
    if name in _UNSUPPORTED:
        return _UNSUPPORTED[name]
    if name in (field.name for field in fields(Encoding)):
        return f": {name} is a field of encoding=Encoding({name}=...)"
    if name in SETTINGS:
        return (
            f": {name} is a setting of plan=TrainingPlan({name}=...), or of "
            f"plan={{{name!r}: ...}} to leave the others to the planner"
        )
    if name in inspect.signature(PDMLClassifier.fit).parameters:
        return f": {name} is an argument of fit"
    close = get_close_matches(name, parameters, n=1)
    return f": did you mean {close[0]!r}?" if close else ""


class _Outcome(Generic[Value]):
    """A part of a training's result as an attribute of the estimator, known after fit."""

    def __init__(self, read: Callable[[TrainingResult], Value]) -> None:
        self._read = read

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, estimator: "PDMLClassifier | None", owner: type) -> Value:
        if estimator is None or "_training" not in vars(estimator):
            raise AttributeError(f"{self._name} is known after fit")
        return self._read(estimator._training.result)


class PDMLClassifier(ClassifierMixin, BaseEstimator):
    """Linear classifier trained by servers that do not trust each other, on randomised labels.

    Parameters
    ----------
    epsilon : float or None, default 1.0
        Of each label: it is flipped with probability 1/(1 + e^ε). None or infinity: no flipping.
    features_epsilon : float or None, default 1.0
        Where the planner chooses, the most that all other servers together, or ``colluding`` of
        them, may learn of one person's features. None sets no limit, and the ledger says so.
    delta : float, default 1e-6
        The ledger tells every ε at it.
    colluding : int or None
        Where the planner chooses, how many other servers may collude: a plan of sums then shows
        their total only. None: all of them.
    plan : TrainingPlan, "auto" or mapping
        "auto" takes what `pdml.planning.search.planner.propose` finds best for public sizes within
        ``features_epsilon``, ``delta`` and ``colluding``, and a training that would spend more is
        refused. A mapping, ``{"penalty": 2.0}``, holds settings that the planner must keep. A
        `TrainingPlan` is taken as it is, and nothing but ``budget`` limits what it spends. A search
        reaches every setting: ``plan__penalty``.
    budget : Budget or None
        The most that other servers may learn: a training that would spend more is refused before
        it starts. Where the planner chooses, it takes the place of ``features_epsilon``, ``delta``
        and ``colluding``.
    encoding : Encoding or None
        What is declared about the columns of X; None: nothing. A search reaches every field:
        ``encoding__norm_bound``.
    n_servers : int, default 10
        How many train together.
    topology : str, (str, int), list of edges or Graph
        How they are joined: "random" (1.3 links per server; ``("random", 20)`` has 20), "ring",
        "complete", "star", "grid", "small_world", a list of edges, or a `Graph`.
    classes : sequence or None
        Declared, in the order of ``classes_``; a class may have no record. None takes them from
        the labels, which is a leak and is reported as one.
    engine : {"local", "ray"}
        In this process, or as actors on a Ray cluster (RAY_ADDRESS, else a new one on this
        machine). The result is the same to the bit.
    randomness : {"simulated", "secure"}
        A seeded generator, or the operating system's entropy with noise exact on a grid.
    random_state : int, RandomState or None
        Makes everything reproducible to the bit; with secure randomness only the partition of
        records and the graph. Without one these two are the same in every fit, and flips and noise
        are drawn afresh.
    open_ended : bool
        Stop at the last round that ``budget`` allows, and refuse only if that is none.
    local_models : bool
        Also a model for each server's own use, after an exchange of sums. They are made of exact
        sums, and so is whatever the fitted classifier is saved in.
    diagnostics : bool
        Record the empirical risk per round: one more pass over the data, and a leak that
        ``leaks_`` names. An exchange of sums has no rounds, and nothing is recorded.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_
        As in scikit-learn; they act on scaled and clipped rows.
    history_ : History
        Per round; without any after an exchange of sums.
    privacy_ : Ledger
        Who can learn what of the rows as given to `fit`: what was fitted to the data before is not
        counted. `privacy_.person_rows()` for each record, in the order of the input.
    rounds_ : int
        How many were done.
    n_clipped_ : int
        Training records clipped to the norm bound. Do not publish.
    leaks_ : list of str
        Every release that no noise protects, as far as `fit` can see it: transformers before it in
        a pipeline that is being fitted, but nothing that was fitted by hand.
    server_models_ : list of Model
        Each server's own last release; none after an exchange of sums, where all have one.
    model_ : Model
        With what it spent and, after an exchange of sums, what to expect of it.
    intervals_, coef_interval_ : Intervals, array (C, d, 2)
        Which coefficients are more than noise, from what was released alone.
    additive_effects_ : tuple of AdditiveEffect
        What each number alone does, where a map bends it, and how far noise moves that.
    local_models_ : list of Model
        For each server's own use, if asked for: not to be shared.
    graph_ : Graph
        Who is linked to whom.
    proposal_ : Proposal
        Where the planner chose.
    doubts_ : list of str
        Why the model may be of no use, and what would make it. `fit` warns of them
        (`PrivacyUtilityWarning`).
    result_ : TrainingResult
        All of it, and what every server handed over.
    """

    _origin = CloneOrigin(0, session=False)  # of what is no clone

    @_explain_unknown
    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        features_epsilon: float | None = 1.0,
        delta: float = 1e-6,
        colluding: int | None = None,
        plan: TrainingPlan | str | Mapping[str, Any] = AUTO,
        budget: Budget | None = None,
        encoding: Encoding | None = None,
        n_servers: int = 10,
        topology: Topology = "random",
        classes: Sequence[Any] | NDArray[Any] | None = None,
        engine: str = "local",
        randomness: str = "simulated",
        random_state: Any = None,
        open_ended: bool = False,
        local_models: bool = False,
        diagnostics: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.features_epsilon = features_epsilon
        self.delta = delta
        self.colluding = colluding
        self.plan = plan
        self.budget = budget
        self.encoding = encoding
        self.n_servers = n_servers
        self.topology = topology
        self.classes = classes
        self.engine = engine
        self.randomness = randomness
        self.random_state = random_state
        self.open_ended = open_ended
        self.local_models = local_models
        self.diagnostics = diagnostics

    # Settings, for searches

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every parameter, with ``deep`` also ``plan__*`` and ``encoding__*``: None where the
        planner chooses.

        Parameters
        ----------
        deep : bool
            Whether to name the settings of plan and encoding.

        Returns
        -------
        dict of str to value
        """
        params: dict[str, Any] = super().get_params(deep=False)
        if not deep:
            return params
        plan = self.plan.to_dict() if isinstance(self.plan, TrainingPlan) else self.plan
        planned = plan if isinstance(plan, Mapping) else {}
        params |= {f"plan__{name}": planned.get(name) for name in SETTINGS}
        return params | {
            f"encoding__{name}": value for name, value in self._encoding.get_params().items()
        }

    def set_params(self, **params: Any) -> "PDMLClassifier":
        """Set parameters, and settings of plan and encoding by ``plan__*`` and ``encoding__*``.

        Parameters
        ----------
        **params : value
            By name. A setting of a plan that the planner chooses is one that it must keep; None
            leaves it to the planner.

        Returns
        -------
        PDMLClassifier
            Itself.
        """
        nested: dict[str, dict[str, Any]] = {"plan": {}, "encoding": {}}
        own = {}
        for name, value in params.items():
            owner, _, setting = name.partition("__")
            if setting and owner in nested:
                nested[owner][setting] = value
            else:
                own[name] = value
        super().set_params(**own)
        if nested["encoding"]:
            for name in nested["encoding"]:
                _validate.choice("a field of encoding", name, tuple(self._encoding.get_params()))
            self.encoding = replace(self._encoding, **nested["encoding"])
        if nested["plan"]:
            for name in nested["plan"]:
                _validate.choice("a setting of plan", name, SETTINGS)
            if isinstance(self.plan, TrainingPlan):
                self.plan = replace(self.plan, **nested["plan"])
            else:
                kept = {**(self.plan if isinstance(self.plan, Mapping) else {}), **nested["plan"]}
                self.plan = {k: v for k, v in kept.items() if v is not None} or AUTO
        return self

    @property
    def _encoding(self) -> Encoding:
        return self.encoding if isinstance(self.encoding, Encoding) else Encoding()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._encoding.allows_gaps
        tags.classifier_tags.poor_score = True  # from few people little is learnt: it must not be
        return tags

    def __sklearn_clone__(self) -> "PDMLClassifier":
        twin: PDMLClassifier = super().__sklearn_clone__()
        twin._origin = CloneOrigin.here()
        return twin

    @_explain_weights
    def fit(
        self,
        X: Matrix,
        y: Any,
        epsilons: Any = None,
        servers: Any = None,
        people: Any = None,
        on_round: OnRound | None = None,
    ) -> "PDMLClassifier":
        """Train on simulated users.

        Parameters
        ----------
        X, y
            Records and their labels.
        epsilons : array, optional
            Each record's ε; by default ``epsilon`` for all.
        servers : array, optional
            The index of each record's server; by default they are assigned at random.
        people : array, optional
            A name for each record, by which a `PrivacyLedgerSession` recognises it in other fits;
            by default its values before the first step of a pipeline.
        on_round : callable, optional
            Hears (rounds done, of how many) after each round, for progress bars.

        Returns
        -------
        self
        """
        self._origin.check()
        if not isinstance(self.encoding, (Encoding, type(None))):
            raise InvalidInput(
                f"encoding must be an Encoding or None, got {self.encoding!r}", setting="encoding"
            )
        encoding, params = self._encoding, self.get_params(deep=False)
        del params["encoding"]
        settings = SimulationSettings(**params)
        self._pipeline, x, y = encoding.resolve(self, X, y)
        check_classification_targets(y)
        self._training: SimulatedTraining = simulate(
            settings,
            self._pipeline,
            x,
            y,
            epsilons=epsilons,
            servers=servers,
            people=people,
            on_round=on_round,
            context=FitContext(
                origin=self._origin,
                notes=(PREPROCESSING_NOTE,),
                leaks=tuple(fitted_before()),
                pipeline_input=pipeline_input(self),
            ),
        )
        self._pipeline = self._training.pipeline
        own = self._training.own
        self.classes_ = self._training.classes
        self.graph_, self.rounds_ = own.graph, own.plan.rounds
        self._take_weights()
        self.n_clipped_ = own.clipped
        unprotected = [RISK_LEAK] if self.diagnostics and own.rounds else []
        self.leaks_: list[str] = [*unprotected, *own.leaks]
        if own.proposal is not None:
            self.proposal_ = own.proposal
        return self

    def _take_weights(self) -> None:
        released = self._training.own.released_model
        self.coef_, self.intercept_ = released.coefficients, released.intercepts

    def at(
        self, *, sensitivity: float | None = None, specificity: float | None = None
    ) -> "PDMLClassifier":
        """A copy of the fitted classifier with the line between its two classes moved.

        Parameters
        ----------
        sensitivity, specificity : float
            One of them: the share of ``classes_[1]``, or of ``classes_[0]``, that `predict` is to
            get right, as estimated from what was released (`TrainingResult.at`).

        Returns
        -------
        PDMLClassifier
            With another ``intercept_``; ``model_`` is saved and exported like any other.

        Raises
        ------
        InvalidInput
            After rounds, of more than two classes, and without a constant.

        Guarantees
        ----------
        - Nothing more is spent, and no record is read.
        """
        check_is_fitted(self, "coef_")
        twin, training = copy(self), self._training
        own = training.own.at(sensitivity=sensitivity, specificity=specificity)
        twin._training = replace(training, own=own)
        twin._take_weights()
        return twin

    # What came out; the ledger counts all fits of an open session

    result_ = _Outcome(lambda result: result)
    privacy_ = _Outcome(lambda result: result.ledger)
    model_ = _Outcome(lambda result: result.model)
    history_ = _Outcome(lambda result: result.history)
    server_models_ = _Outcome(lambda result: result.server_models)
    local_models_ = _Outcome(lambda result: list(result.local_models.values()))
    intervals_ = _Outcome(lambda result: result.intervals)
    coef_interval_ = _Outcome(
        lambda result: np.stack([result.intervals.low, result.intervals.high], axis=-1)
    )
    additive_effects_ = _Outcome(lambda result: result.additive_effects)
    doubts_ = _Outcome(lambda result: result.doubts)

    def __getstate__(self) -> dict[str, Any]:
        """Without the session, which knows other people too. A copy that leaves an open session for
        another process must not be fitted there, uncounted.
        """
        state = dict(super().__getstate__())
        if (origin := CloneOrigin.here()).session:
            state["_origin"] = origin
        if (training := state.get("_training")) is not None:
            state["_training"] = training.detached()
        return state

    def _features(self, X: Matrix) -> Features:
        check_is_fitted(self, "coef_")
        return Features(read_inputs(self._pipeline, self, X))

    def decision_function(self, X: Matrix) -> Array:
        """Margins of the released model on scaled and clipped rows."""
        x = self._features(X)
        return self._training.own.released_model.decision_function(x)

    def predict_proba(self, X: Matrix) -> Array:
        """Class probabilities of the released model."""
        x = self._features(X)
        return self._training.own.released_model.predict_proba(x)

    def predict(self, X: Matrix) -> NDArray[Any]:
        """The most likely class of each row."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])


# What scikit-learn fitted to the records before `fit` saw them: no ledger counts it.

PREPROCESSING_NOTE = (
    "every number is for the rows as given to `fit`: what was fitted to the data before is not "
    "counted"
)


def fitted_before() -> list[str]:
    """A leak for each pipeline that is fitting this estimator after transformers of its own, looked
    for among the callers. What was fitted by hand cannot be seen.
    """
    leaks = []
    for pipeline, _ in _fitting():
        names = [
            type(step).__name__
            for _, step in pipeline.steps[:-1]
            if step not in (None, "passthrough") and get_tags(step).requires_fit
        ]
        if names:
            leaks.append(
                f"a pipeline fitted {', '.join(names)} to the records before `fit`, which no noise "
                "protects and privacy_ does not count"
            )
    return list(dict.fromkeys(leaks))


def pipeline_input(estimator: object) -> Any:
    """X before the outermost pipeline whose last step is this estimator: the same values in every
    fold. None without one, and behind anything else, which may choose rows (bagging).
    """
    rows, step = None, estimator
    for pipeline, x in _fitting():
        if pipeline is not step and pipeline.steps[-1][1] is step:
            rows, step = x, pipeline
    return rows


def _fitting() -> Iterator[tuple[Pipeline, Any]]:
    """The pipelines that are being fitted among the callers, and their X."""
    frame = sys._getframe(1)
    while frame := frame.f_back:  # type: ignore[assignment]
        caller = frame.f_locals.get("self")
        if isinstance(caller, Pipeline) and frame.f_code.co_name.startswith("fit"):
            yield caller, frame.f_locals.get("X")
