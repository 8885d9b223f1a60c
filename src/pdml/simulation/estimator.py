"""`PDMLClassifier`: private decentralised training behind scikit-learn's interface: a `Simulation`
of all parties in one process, with X and y as scikit-learn takes them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pdml._types import Array, Matrix
from pdml.encoding.encoding import Encoding, read_inputs
from pdml.encoding.pipeline import Pipeline
from pdml.model.model import Features
from pdml.simulation.privacy_session import Origin
from pdml.simulation.simulation import Simulation
from pdml.simulation.transformers import PREPROCESSING_NOTE, fitted_before, rows_before


class PDMLClassifier(ClassifierMixin, BaseEstimator, Simulation):
    """Linear classifier trained by servers that do not trust each other, on labels that nobody has
    seen.

    Parameters
    ----------
    epsilon : float or None, default 1.0
        Label privacy in Phase 1: each label is flipped with probability 1/(1 + e^ε). None or
        infinity: no flipping.
    features_epsilon : float or None, default 1.0
        With ``plan="auto"``, the most that all other servers together, or ``colluding`` of
        them, may learn of one person's features, but for a chance of ``delta``. None sets no limit,
        and the ledger says so.
    delta : float, default 1e-6
        That chance; the ledger tells every ε at it.
    colluding : int or None
        With ``plan="auto"``, how many other servers may put together what they see: a plan of sums
        then shows their total only. None: all of them.
    plan : TrainingPlan or "auto"
        "auto" takes what `pdml.planning.search.planner.propose` finds best for public sizes within
        ``features_epsilon``, ``delta`` and ``colluding``, and a training that would spend more is
        refused. Or every letter of the paper, or one exchange: ``TrainingPlan(method="sums")``;
        then nothing but ``budget`` limits what is spent.
    method, loss, rounds, penalty, regularization, objective_bound, objective_noise, noise_scale, \
noise_decay, tolerance, label_noise, square_noise
        Settings of `TrainingPlan`, which take the place of the plan's; None takes the plan's. With
        "auto" the planner chooses the others: a setting that one method alone has asks for it.
    n_servers, topology, links
        The servers and how they are joined: "random" (``links`` links, default 1.3 per server),
        "ring", "complete", "star", "grid", "small_world", a list of edges, or a `Graph`.
    fit_intercept : bool
        Append a constant 1 to every record. It counts inside ``norm_bound`` and is regularised like
        any feature.
    norm_bound : float
        Records longer than this are shrunk to it, one by one; every guarantee rests on it.
    feature_scales : sequence of (typical, spread), mapping by name, "from_data" or None
        What is known of each column beforehand: most records lie within typical ± spread. Rows are
        then made by `pdml.encoding.scaling`, in units of ``norm_bound``. "from_data" takes medians
        and deviations from the records, rounded to two digits of the deviation, which is a leak and
        is reported as one.
    feature_ranges : array of shape (n_features, 2), "from_data" or None
        Declared ranges: what lies outside is moved to the nearer end. Without ``feature_scales``
        the middle of a range is typical and a sixth of its width the spread. "from_data" takes
        minima and maxima from the records, rounded outwards to two digits of their distance, which
        is a leak and is reported as one.
    feature_levels : mapping of str to levels, or None
        The levels of columns of text in a DataFrame. A column of pandas' categories has those that
        its type declares.
    feature_map : map, list of maps, or None
        Further columns made of the scaled ones: `pdml.encoding.maps`, each as an object or as a
        dict,
        ``{"map": "squares"}``.
    missing : {"refuse", "typical", "level"}, tuple of them, or mapping by name
        What NaN and None mean: "typical", of numbers, takes the typical value and says so in a
        column of its own; "level", of categories, is one more level. What is not named is refused.
    classes : sequence or None
        The declared classes, in the order that ``classes_`` will have; a class may have no record.
        None takes them from the labels, which is a leak and is reported as one.
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
        and the graph. Without one these two, and with them the plan, are the same in every fit, and
        flips and noise are drawn afresh.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_ : as in scikit-learn; they act on scaled and clipped
    rows. history_ : `History`, per round; without any after an exchange of sums.
    privacy_ : `Ledger`: who can learn what, for the rows as given to `fit`: what was fitted to the
    data before is not counted. `privacy_.person_rows()` for each record, in the order of the input.
    rounds_ : how many rounds were done.
    n_clipped_ : how many training records were shrunk to ``norm_bound``. To be kept inside.
    leaks_ : sentences naming every release that no noise protects, as far as `fit` can see it:
    transformers before it in a pipeline that is being fitted, but nothing that was fitted by hand.
    server_models_ : each server's own last release as a `Model`; none after an exchange of sums,
    where there is one model and all have it.
    model_ : the released `Model` (`model_.save(path)`), with what it spent and, after an exchange
    of sums, what to expect of it: both are computed at first use.
    intervals_, coef_interval_ : `Intervals`, and their ends as an array (C, d, 2): which
    coefficients are more than noise, from what was released alone; computed at first use.
    house_ : one `Model` for the house of each server, if asked for: not to be shared.
    graph_ : the `Graph` that was used.
    proposal_ : with ``plan="auto"`` the `Proposal` whose plan was used.
    doubts_ : sentences that say why the model may be of no use, and what would make it: no plan
    within the budget is expected to do better than a server alone, or than the
    majority-class baseline; or what was released cannot tell the model from the latter. `fit` warns
    of them (`PrivacyUtilityWarning`).
    """

    _notes = (PREPROCESSING_NOTE,)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "refuse"
        tags.classifier_tags.poor_score = True  # from few people little is learnt: it must not be
        return tags

    def __sklearn_clone__(self) -> "PDMLClassifier":
        twin: PDMLClassifier = super().__sklearn_clone__()
        twin._origin = Origin.here()
        twin._warned = self._family()
        return twin

    def _family(self) -> set[type[UserWarning]]:
        """Of what clones have warned: one set for all clones of the same estimator."""
        if self._origin.process and isinstance(self._warned, set):
            return self._warned
        kinds: set[type[UserWarning]] = self.__dict__.setdefault("_clones_warned", set())
        return kinds

    def fit(
        self,
        X: Matrix,
        y: Any,
        epsilons: Any = None,
        servers: Any = None,
        people: Any = None,
    ) -> "PDMLClassifier":
        """Train on simulated users.

        Parameters
        ----------
        X, y
            Records and their labels.
        epsilons : array, optional
            Each record's ε; by default ``epsilon`` for all.
        servers : array, optional
            The index of each record's server; by default they are dealt out.
        people : array, optional
            A name for each record, by which a `PrivacyLedgerSession` recognises it in other fits;
            by default its values, those before the first step of a pipeline.

        Returns
        -------
        self
        """
        self.check()
        form, x, y = self._read(X, y)
        check_classification_targets(y)
        return self.simulate(
            form,
            x,
            y,
            epsilons=epsilons,
            servers=servers,
            people=people,
            leaks=fitted_before(),
            before=rows_before(self),
        )

    def _read(self, X: Any, y: Any) -> tuple[Pipeline, Matrix, NDArray[Any]]:
        """The form of X that is kept for predictions, and X and y as they can be used."""
        encoding = Encoding(
            scales=self.feature_scales,
            ranges=self.feature_ranges,
            levels=self.feature_levels,
            maps=self.feature_map,
            missing=self.missing,
            norm_bound=self.norm_bound,
            intercept=bool(self.fit_intercept),
        )
        return encoding.resolve(self, X, y)

    def __getstate__(self) -> dict[str, Any]:
        """Without the session, which knows other people too: what it has counted so far stays.

        What leaves an open session for another process must not be fitted there, uncounted.
        """
        state = dict(super().__getstate__())
        if (origin := Origin.here()).session:
            state["_origin"] = origin
        if state.get("_session") is not None:
            state |= {"_spent": self.privacy_, "_session": None}
        return state

    def _checked(self, X: Matrix) -> Features:
        check_is_fitted(self, "coef_")
        return Features(read_inputs(self._form, self, X))

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
