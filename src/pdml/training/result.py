"""`TrainingResult`: one type for a simulation, a study of one trust domain, and a job between
organisations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, reduce
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml import _validate
from pdml._types import Array, IntArray
from pdml._version import __version__
from pdml.accounting import Ledger, PersonRows, Reports
from pdml.accounting.events import Event, IterateReleased, LabelFlipped
from pdml.accounting.kinds import UNSAID, Data, Method
from pdml.encoding.encoder import Encoder
from pdml.errors import InvalidInput
from pdml.mechanisms.integer_gaussian import Units
from pdml.model.evaluation import REFERENCE, Evaluation, evaluate, reference_accuracy
from pdml.model.history import NO_ROUNDS, History, noise_level
from pdml.model.model import THIS_TRAINING, Model
from pdml.numerics.admm.graph import Graph
from pdml.numerics.interval import Range
from pdml.numerics.sums.expected_accuracy import Expectation
from pdml.planning.proposal import Proposal
from pdml.planning.resolve_plan import utility_warnings
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.training import additive_effects, intervals, sums_fit
from pdml.training.additive_effects import AdditiveEffect
from pdml.training.intervals import Intervals
from pdml.training.local_engine import diameters

INSIDE = "computed from records without noise, so that no file holds it: do not publish"
PAGE_LEAK = "the page shows figures computed from records without noise: do not publish"
# What of `TrainingResult.summary` is computed from records without noise.
INSIDE_ONLY = (
    *("accuracy", "majority_accuracy", "reference_accuracy", "evaluation"),
    *("servers.accuracy", "mean_server_accuracy", "clipped"),
)


@dataclass(frozen=True, kw_only=True)
class ServerPart:
    """What one server hands over at the end: noisy or public values only."""

    name: str
    spec: ServerSpec
    released: NDArray[Any]  # (C, d): w̃_i(T); of sums the row that it sent, words if masked
    events: tuple[Event, ...]  # of this training, without the flip
    earlier: tuple[Event, ...] = ()  # of other jobs on the same data set, if a journal tells
    released_before: int = 0  # vectors, in those jobs
    randomised_by: str = UNSAID  # who randomised the labels (`accounting.kinds`)

    def flip(self) -> LabelFlipped:
        """What its labels, and other answers, went through."""
        return self.spec.flip(self.randomised_by)


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """What came out of a training: functions of noisy releases and public settings, unless a field
    says otherwise.

    Attributes
    ----------
    plan : TrainingPlan
    graph : Graph
        Who is linked to whom.
    parts : tuple of ServerPart
        What each server handed over, in order.
    ledger : Ledger
        Who can learn what.
    history : History
        Round by round; without any after an exchange of sums.
    inputs : mapping
        The fields of `Model` that say what its rows and classes are.
    origin, producer : mapping
        The head of the model's provenance, and what made its file where others make the same.
    date, data : str
        The day of the training, and the id of the study or session whose people it is about.
    leaks : tuple of str
        Every release that no noise protects.
    local_weights : mapping of str to array
        Of each server's local model: made of exact sums, not to be shared.
    counted : str
        Which trainings the ledger counts.
    intercept : bool
        Whether every row has a constant.
    reports : Reports, optional
        Each record's own ε, for `person_rows`: do not publish.
    proposal : Proposal, optional
        The planner's.
    unscaled : bool
        Whether most rows were clipped because nothing was declared about them.
    clipped : int
        How many records were longer than the norm bound: do not publish.
    diagnostics : bool
        Whether figures without noise were asked for.
    declared : bool
        Whether rows follow from declared inputs.
    evaluation : Evaluation, optional
        Of the released model, on records that were not trained on: do not publish.
    server_accuracies : tuple of float, optional
        Of each server's last release, on them; none after sums. Do not publish.
    reference_accuracy : float, optional
        What the training records would have given without any protection: do not publish.
    label_epsilon : float, optional
        That of all labels, where people did not choose.
    source, epsilon_column : str
        The table's name and the column of people's own ε, if there was one.
    line : float
        By how much the released model's intercept was lowered (`at`).
    """

    plan: TrainingPlan
    graph: Graph
    parts: tuple[ServerPart, ...]
    ledger: Ledger
    history: History
    inputs: Mapping[str, Any]
    origin: Mapping[str, Any]
    leaks: tuple[str, ...] = ()
    local_weights: Mapping[str, Array] = field(default_factory=dict)
    counted: str = THIS_TRAINING
    producer: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    data: str = ""
    intercept: bool = True
    reports: Reports | None = None
    proposal: Proposal | None = None
    unscaled: bool = False
    clipped: int = 0
    diagnostics: bool = False
    declared: bool = True
    evaluation: Evaluation | None = None
    server_accuracies: tuple[float, ...] | None = None
    reference_accuracy: float | None = None
    label_epsilon: float | None = None
    source: str = ""
    epsilon_column: str = ""
    line: float = 0.0

    # What was released

    @property
    def servers(self) -> tuple[str, ...]:
        """By name."""
        return tuple(part.name for part in self.parts)

    @property
    def records(self) -> int:
        return sum(part.spec.records for part in self.parts)

    @property
    def rounds(self) -> int:
        """How many were done; 0 of an exchange of sums."""
        return 0 if self._sums else self.plan.rounds

    @property
    def _sums(self) -> bool:
        return self.plan.method == Method.SUMS

    @property
    def releases(self) -> NDArray[Any]:
        """Of every server."""
        return np.array([part.released for part in self.parts])

    @property
    def total(self) -> Units:
        """Of sums: of all rows, exactly, whether they are masked or not."""
        if len(self.parts) != self.parts[0].spec.n_servers:
            names = ", ".join(self.servers)
            raise InvalidInput(f"a total needs the sums of every server, and has those of {names}")
        return np.asarray(reduce(np.add, self.releases.view(np.uint64))).view(np.int64)

    @cached_property
    def weights(self) -> Array:
        """(C, d): the average of the last releases, or the fit of the total of sums."""
        return self._fit[0]

    @property
    def gain(self) -> Range | None:
        """Over the majority-class baseline, where a total of sums tells it."""
        return self._fit[1]

    @cached_property
    def _fit(self) -> tuple[Array, Range | None]:
        if self._sums:
            return sums_fit.fit_with_gain(
                self.total, self.plan, self.parts[0].spec, intercept=self.intercept
            )
        return np.asarray(reduce(np.add, self.releases) / len(self.parts)), None

    @property
    def consensus(self) -> float | None:
        """The largest distance between two servers' last releases; sums have none."""
        return None if self._sums else float(self.history.consensus[-1])

    def replaced(self, **changes: Any) -> "TrainingResult":
        """`dataclasses.replace` that keeps what was computed from the releases."""
        other = replace(self, **changes)
        computed = ("_fit", "weights", "expected", "intervals")
        other.__dict__.update({name: vars(self)[name] for name in computed if name in vars(self)})
        return other

    # What follows from it

    @cached_property
    def doubts(self) -> list[str]:
        """Why the model may be of no use, and what would make it: whole sentences."""
        return utility_warnings(self.proposal, self.gain, unscaled=self.unscaled)

    @cached_property
    def expected(self) -> Expectation | None:
        """How good the model of an exchange of sums is by its total; None of rounds, without a
        constant, and for more than 50 classes.
        """
        if not (self._sums and self.intercept) or self.line:
            return None
        return sums_fit.expected(self.total, self.plan, self.parts[0].spec)

    @cached_property
    def intervals(self) -> Intervals:
        """What noise does to each coefficient; ``covers`` says which noise is in it."""
        if self._sums:
            return intervals.of_sums(
                self.total, self.plan, self.parts[0].spec, self.weights, intercept=self.intercept
            )
        coefficients = self.released_model.coefficients
        return intervals.of_rounds(self.plan, len(self.parts), coefficients)

    @cached_property
    def additive_effects(self) -> tuple[AdditiveEffect, ...]:
        """What each number alone does, where a map bends it: of two classes, after one exchange of
        sums."""
        encoder = self.released_model.pipeline.encoder
        if encoder is None or not self._sums:
            return ()
        return additive_effects.of_sums(
            self.total,
            self.plan,
            self.parts[0].spec,
            encoder,
            self.weights,
            intercept=self.intercept,
        )

    @cached_property
    def released_model(self) -> Model:
        """The model without what is computed for its file alone."""
        weights = self.weights
        if self.line:
            weights = weights - self.line * (np.arange(weights.shape[1]) == weights.shape[1] - 1)
        return self._model(weights, provenance=self.provenance)

    def at(
        self, *, sensitivity: float | None = None, specificity: float | None = None
    ) -> "TrainingResult":
        """The same with the line between two classes moved.

        Parameters
        ----------
        sensitivity, specificity : float
            One of them: the share of the second class, or of the first, that the model is to get
            right, as estimated from what was released.

        Returns
        -------
        TrainingResult
            With another intercept in its models. What `predict_proba` says is then no chance, and
            nothing is said of the accuracy to expect.

        Raises
        ------
        InvalidInput
            If the training told no line: after rounds, of more than two classes, or without a
            constant.

        Guarantees
        ----------
        - A function of what was released: nothing more is spent, and no record is read.
        """
        shares = {"sensitivity": sensitivity, "specificity": specificity}
        wanted = {name: share for name, share in shares.items() if share is not None}
        if len(wanted) != 1:
            raise InvalidInput("at needs a sensitivity or a specificity, and not both")
        ((name, share),) = wanted.items()
        _validate.real(name, share, low=0, high=1, open_low=True, open_high=True)
        if not self._sums or not self.intercept or self.parts[0].spec.classes > 2:
            raise InvalidInput(
                "a line can be placed after an exchange of sums, for two classes and with a "
                "constant: otherwise choose one on labelled public records, with scikit-learn's "
                "FixedThresholdClassifier"
            )
        fall = sums_fit.line(self.total, self.plan, self.parts[0].spec, wanted)
        if fall is None:
            raise InvalidInput("no line can be placed: what was released says nothing of labels")
        placed = {"line": f"placed for a {name} of {share:g}, as estimated from what was released"}
        return self.replaced(line=fall, origin={**self.origin, **placed})

    @cached_property
    def model(self) -> Model:
        """The released model with all that its file says: ``model.save("model.json")``."""
        return replace(self.released_model, privacy=self._privacy(), expected=self.expected)

    @cached_property
    def server_models(self) -> list[Model]:
        """Each server's own last release; none after an exchange of sums, where all have one."""
        if self._sums:
            return []
        return [self._model(part.released, provenance=self.provenance) for part in self.parts]

    @cached_property
    def local_models(self) -> dict[str, Model]:
        """By server, if they were asked for: not to be shared."""
        return {name: self.local_model(name, w) for name, w in self.local_weights.items()}

    def local_model(self, server: str, weights: Array) -> Model:
        """A model made of the exact sums of one server."""
        provenance = {**self.provenance, "do_not_publish": sums_fit.LOCAL_USE}
        return self._model(weights, local=server, privacy=self._privacy(), provenance=provenance)

    def _model(self, weights: Array, **changes: Any) -> Model:
        bias = self.intercept
        return Model(
            coefficients=weights[:, :-1].copy() if bias else weights.copy(),
            intercepts=weights[:, -1].copy() if bias else np.zeros(len(weights)),
            norm_bound=self.parts[0].spec.norm_bound,
            fit_intercept=bias,
            plan=self.plan.to_dict(),
            **{**self.inputs, **changes},
        )

    @property
    def provenance(self) -> dict[str, Any]:
        """Where the model comes from, as its file says it."""
        transport: dict[str, Any] = {"links": [list(edge) for edge in self.graph.edges]}
        if self._sums:  # which have no use for links
            note = sums_fit.transport_note(self.plan, separate_nodes=self.separate_nodes)
            transport = {"sums": note}
        return {
            **self.origin,
            "records_per_server": [part.spec.records for part in self.parts],
            **transport,
            "noise_source": self.ledger.source,
            "leaks": list(self.leaks),
            **(self.producer or self._producer),
        }

    @property
    def _producer(self) -> dict[str, str]:
        """Which program, when, by which declaration, and whose data; "" where there is none."""
        encoder = self.inputs.get("encoder")
        return {
            "pdml_version": __version__,
            "date": self.date,
            "declaration": Encoder.from_dict(encoder).digest if encoder else "",
            "data": self.data,
        }

    @property
    def separate_nodes(self) -> bool:
        """Whether each organisation ran its own node."""
        return self.origin.get("parties") == SEPARATE_NODES

    def _privacy(self) -> dict[str, Any]:
        """The ledger in numbers that are the same on every machine: of certainties the last digits
        are not, and they are rounded up to nine.
        """
        privacy: dict[str, Any] = self.ledger.to_dict()
        for row in (*privacy["rows"], *privacy.get("coalitions", ())):
            row["certainty"] = min(1.0, ceil(row["certainty"] * 1e9) / 1e9)
        return {**privacy, "counted": self.counted}

    def person_rows(self) -> PersonRows:
        """Each record's own ε against everybody, by what its owner chose; servers in order, records
        in the order of their data.
        """
        return replace(self.ledger, reports=self.reports or self.ledger.reports).person_rows()

    # What was measured, where records are at hand

    @property
    def test_records(self) -> int:
        """How many records were kept to measure on."""
        return 0 if self.evaluation is None else self.evaluation.records

    @property
    def accuracy(self) -> float | None:
        """Of the released model on them: do not publish."""
        return None if self.evaluation is None else self.evaluation.accuracy

    @property
    def majority(self) -> float | None:
        """Of the majority-class baseline on them: do not publish."""
        return None if self.evaluation is None else self.evaluation.majority

    @property
    def page_leaks(self) -> list[str]:
        """What the page holds that no noise protects: nothing unless it was asked for."""
        return [PAGE_LEAK] if self.diagnostics else []

    @property
    def rows(self) -> list[tuple[str, int, int, float | None]]:
        """For each server its name, records, links, and accuracy if it was measured."""
        accuracies = self.server_accuracies or (None,) * len(self.parts)
        links = self.graph.degrees.tolist()
        return [
            (part.name, part.spec.records, n, accuracy)
            for part, n, accuracy in zip(self.parts, links, accuracies, strict=True)
        ]

    def summary(self) -> dict[str, Any]:
        """The whole result as plain values; ``inside_only`` names those not to be published."""
        shared = {
            "classes": list(self.model.classes),
            "consensus_distance": self.consensus,
            "plan": self.model.plan,
            "privacy": self.model.privacy,
            "noise_source": self.ledger.source,
        }
        if "job" in self.origin:
            servers = [
                {"name": name, "records": m, "links": links, "labels_randomised_by": by}
                for (name, m, links, _), by in zip(
                    self.rows, (part.randomised_by for part in self.parts), strict=True
                )
            ]
            job = {"study": self.origin["study"], "job": self.origin["job"]}
            return {**job, "servers": servers, **shared}
        accuracies, reference = self.server_accuracies, self.reference_accuracy
        return {
            "label": self.model.label,
            "records": self.records,
            "test_records": self.test_records,
            "accuracy": self.accuracy,
            "majority_accuracy": self.majority,
            "reference_accuracy": reference,
            "reference": None if reference is None else REFERENCE,
            "evaluation": None if self.evaluation is None else self.evaluation.to_dict(),
            "servers": [
                {"name": name, "records": m, "links": links, "accuracy": accuracy}
                for name, m, links, accuracy in self.rows
            ],
            "expected": None if self.expected is None else asdict(self.expected),
            "mean_server_accuracy": None if accuracies is None else float(np.mean(accuracies)),
            "clipped": self.clipped,
            "inside_only": list(INSIDE_ONLY),
            "doubts": self.doubts,
            "leaks": [*self.leaks, *self.page_leaks],
            **shared,
        }


SEPARATE_NODES = "each organisation's node held its own records"
SINGLE_DOMAIN = "one trust domain held every organisation's records"
ALL_JOBS = "all jobs on each data set, as the journals of the organisations' nodes have them"
THIS_JOB = (
    "this job alone, for which alone the budget was checked: no journal is kept where one trust "
    "domain holds all records, and other trainings on them must be added up"
)


def ledger_of(parts: Sequence[ServerPart], source: str) -> Ledger:
    """What the data sets of these servers have spent, in known earlier jobs too."""
    events = tuple((part.flip(), *part.earlier, *part.events) for part in parts)
    return Ledger(events, source=source, classes=parts[0].spec.classes)


def linked_history(
    plan: TrainingPlan, parts: Sequence[ServerPart], distances: Sequence[float]
) -> History:
    """Round by round; earlier jobs count as spent from the first on. Nobody sees all releases of a
    round: ``distances``, of rounds 1 to T-1, are between linked servers.
    """
    if plan.method == Method.SUMS:
        return NO_ROUNDS
    at_start = [
        replace(
            part,
            earlier=tuple(
                replace(event, t=1) if isinstance(event, IterateReleased) else event
                for event in part.earlier
            ),
        )
        for part in parts
    ]
    last = float(diameters(np.array([part.released for part in parts])))
    return History(
        risk=np.full(plan.rounds, np.nan),
        consensus=np.array([*distances, last]),
        noise=noise_level(plan, len(parts)),
        spent=np.array(ledger_of(at_start, "simulated").epsilons(Data.FEATURES)),
    )


def measure(
    result: TrainingResult,
    x: Any,
    truth: IntArray,
    *,
    training_records: tuple[Any, IntArray] | None = None,
) -> TrainingResult:
    """With what the models reach on records that were not trained on, and what the training records
    would have given without protection, if they are at hand.
    """
    accuracies = tuple(float(np.mean(model.choose(x) == truth)) for model in result.server_models)
    reference = None
    if training_records is not None:
        reference = reference_accuracy(result.released_model, *training_records, x, truth)
    return result.replaced(
        evaluation=evaluate(result.released_model, x, truth),
        server_accuracies=accuracies or None,
        reference_accuracy=reference,
    )
