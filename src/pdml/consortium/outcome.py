"""What a training of several organisations releases: one model from their last releases, or from
the total of their sums, whichever engine carried them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pdml
from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.events import Event, IterateReleased, LabelFlipped
from pdml.accounting.kinds import Method
from pdml.accounting.provenance import UNSAID
from pdml.formats import Format
from pdml.mechanisms import masks
from pdml.mechanisms.integer_gaussian import Units
from pdml.model import intervals
from pdml.model.history import NO_ROUNDS, History, noise_level
from pdml.model.intervals import Intervals
from pdml.model.model import Model
from pdml.node.protocol.job_terms import JobTerms
from pdml.numerics.sums.expected_accuracy import Expectation
from pdml.numerics.sums.statistics import Sums
from pdml.planning.server_spec import ServerSpec, answers_of
from pdml.study import Study
from pdml.training import sums_fit, sums_release
from pdml.training.engines.local_engine import diameters

# Of model and page: another version where the same statements give others.
FORMAT = Format(name="result", version=1)
RESULT = f"pdml-result/{FORMAT.version}"
ALL_JOBS = "all jobs on each data set, as the journals of the organisations' nodes have them"
THIS_JOB = (
    "this job alone, for which alone the budget was checked: no journal is kept where one trust "
    "domain holds all records, and other trainings on them must be added up"
)
SEPARATE_NODES = "each organisation's node held its own records"
SINGLE_DOMAIN = "one trust domain held every organisation's records"


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one organisation hands over at the end: noisy or public things only."""

    server: str
    records: int
    released: NDArray[Any]  # (C, d): w̃_i(T); of sums the row that it sent, words if masked
    apart: Sequence[float]  # rounds 1 to T-1: distance to the farthest neighbour's release
    label_epsilon: float  # the largest of its labels
    epsilons: tuple[float, ...]  # all that may be in use
    events: tuple[Event, ...]  # of this job
    earlier: tuple[Event, ...] = ()  # of other jobs on the same data set, if a journal tells
    released_before: int = 0  # vectors, in those jobs
    randomised_by: str = UNSAID  # who randomised the labels (`accounting.provenance`)

    def flip(self, contract: JobTerms) -> LabelFlipped:
        """What its labels, and other answers, went through."""
        return LabelFlipped(
            epsilon=self.label_epsilon,
            by=self.randomised_by,
            epsilons=self.epsilons,
            answers=answers_of(contract.rows.blocks),
            in_clear=contract.rows.in_clear,
        )


@dataclass(frozen=True, kw_only=True)
class ConsortiumResult:
    """The end of a job, in the order of the contract's servers.

    ``separate_nodes``: each organisation ran its own node, whose journal holds all its jobs.
    Otherwise one trust domain held all records, and nobody kept a journal.
    """

    contract: JobTerms
    parts: tuple[Part, ...]
    source: str  # of the noise
    separate_nodes: bool = False
    statements: Mapping[str, str] = field(default_factory=dict)  # of each, its sha256; if there are

    @property
    def releases(self) -> NDArray[Any]:
        return np.array([part.released for part in self.parts])

    @property
    def total(self) -> Units:
        """Of sums: what all rows add up to, exactly and whether they are masked or not."""
        sent = {part.server: part.released.view(np.uint64) for part in self.parts}
        return masks.total(sent, self.contract.servers)

    @cached_property
    def weights(self) -> Array:
        """(C, d): the average of the last releases, or what the total of sums tells."""
        if self.contract.plan.method == Method.SUMS:
            return sums_fit.weights(self.total, self.contract.plan, self._spec)
        return np.asarray(reduce(np.add, self.releases) / len(self.parts))  # one order everywhere

    @cached_property
    def expected(self) -> Expectation | None:
        """How good the model of an exchange of sums is by its total; None of rounds, which do not
        tell it, and for more than 50 classes.
        """
        if self.contract.plan.method != Method.SUMS:
            return None
        return sums_fit.expected(self.total, self.contract.plan, self._spec)

    @cached_property
    def intervals(self) -> Intervals:
        """What noise does to each coefficient: a function of what was released."""
        plan = self.contract.plan
        if plan.method == Method.SUMS:
            return intervals.of_sums(self.total, plan, self._spec, self.weights)
        return intervals.of_rounds(plan, len(self.parts), self.weights[:, :-1])

    @property
    def _spec(self) -> ServerSpec:
        """The first server's, for what all have in common."""
        first = self.parts[0]
        return self.contract.training.server_spec(
            0, records=first.records, epsilons=(first.label_epsilon,)
        )

    @property
    def ledger(self) -> Ledger:
        """What every data set has spent: `ledger_scope` says in which jobs."""
        events = tuple(
            (part.flip(self.contract), *part.earlier, *part.events) for part in self.parts
        )
        return Ledger(events, source=self.source, classes=self.contract.classes)

    @property
    def ledger_scope(self) -> str:
        """Which jobs the ledger counts: only a journal knows of more than this one."""
        return ALL_JOBS if self.separate_nodes else THIS_JOB

    @property
    def consensus(self) -> float | None:
        """The largest distance between two servers' last releases; sums have none."""
        return None if self.contract.plan.method == Method.SUMS else float(diameters(self.releases))

    @property
    def rows(self) -> list[tuple[str, int, int, None]]:
        """For each server its name, records and links; nothing is measured on anybody's records."""
        links = self.contract.graph.degrees.tolist()
        pairs = zip(self.parts, links, strict=True)
        return [(part.server, part.records, n, None) for part, n in pairs]

    def summary(self, model: Model) -> dict[str, Any]:
        """The whole outcome, with the model that was made of it, as plain values."""
        servers = [
            {"name": name, "records": m, "links": links, "labels_randomised_by": part.randomised_by}
            for (name, m, links, _), part in zip(self.rows, self.parts, strict=True)
        ]
        return {
            "study": model.provenance["study"],
            "job": self.contract.job,
            "classes": list(model.classes),
            "servers": servers,
            "consensus_distance": self.consensus,
            "plan": model.plan,
            "privacy": model.privacy,
            "noise_source": self.source,
        }

    def history(self) -> History:
        """Round by round, from what was sent and public settings: `NO_ROUNDS` of sums.

        Nobody sees all releases of a round, so the distances are those between linked servers,
        except after the last round. Earlier jobs count as spent from the first round on.
        """
        plan, rounds = self.contract.plan, self.contract.plan.rounds
        if plan.method == Method.SUMS:
            return NO_ROUNDS
        apart = [max(part.apart[t] for part in self.parts) for t in range(rounds - 1)]
        spent = tuple(
            (
                part.flip(self.contract),
                *(replace(e, t=1) if isinstance(e, IterateReleased) else e for e in part.earlier),
                *part.events,
            )
            for part in self.parts
        )
        return History(
            risk=np.full(rounds, np.nan),
            consensus=np.array([*apart, self.consensus]),
            noise=noise_level(plan, len(self.parts)),
            spent=np.array(Ledger(spent, classes=self.contract.classes).feature_epsilons()),
        )

    def _privacy(self) -> dict[str, Any]:
        """The ledger in numbers that are the same on every machine: certainties end in a minimum
        whose last digits are not, so that they are rounded up to nine."""
        privacy: dict[str, Any] = self.ledger.to_dict()
        for line in (*privacy["rows"], *privacy.get("coalitions", ())):
            line["certainty"] = min(1.0, ceil(line["certainty"] * 1e9) / 1e9)
        return {**privacy, "counted": self.ledger_scope}

    def _producer(self) -> dict[str, Any]:
        """What made the file. Members of all versions make the same of the same statements."""
        if not self.statements:
            return {"pdml_version": pdml.__version__}
        return {"result": RESULT, "statements": dict(self.statements)}

    def model(self, study: Study) -> Model:
        """`weights`, with what a reader needs to judge them."""
        weights = self.weights
        return Model(
            classes=study.classes,
            coefficients=weights[:, :-1].copy(),
            intercepts=weights[:, -1].copy(),
            norm_bound=self.contract.rows.norm_bound,
            fit_intercept=True,
            feature_names=study.encoder.feature_names,
            encoder=study.encoder.to_dict(),
            plan=self.contract.plan.to_dict(),
            privacy=self._privacy(),
            provenance={
                "parties": SEPARATE_NODES if self.separate_nodes else SINGLE_DOMAIN,
                "study": study.id,
                "study_hash": self.contract.study,
                "job": self.contract.job,
                "contract": self.contract.digest,
                "servers": [part.server for part in self.parts],
                "records_per_server": [part.records for part in self.parts],
                "labels_randomised_by": [part.randomised_by for part in self.parts],
                "earlier_releases": [part.released_before for part in self.parts],
                **self._transport(),
                "noise_source": self.source,
                "leaks": [],
                **self._producer(),
            },
            expected=self.expected,
        )

    def local_model(self, study: Study, spec: ServerSpec, sums: Sums, row: Units) -> Model:
        """The local model of one server, after an exchange of sums."""
        weights = sums_release.local_weights(sums, row, self.total, self.contract.plan, spec)
        public = self.model(study)
        return replace(
            public,
            coefficients=weights[:, :-1].copy(),
            intercepts=weights[:, -1].copy(),
            provenance={**public.provenance, "do_not_publish": sums_fit.LOCAL_USE},
            expected=None,
            local=self.contract.servers[spec.server],
        )

    def _transport(self) -> dict[str, Any]:
        """How releases met: along links, or in a total that has no use for them."""
        plan = self.contract.plan
        if plan.method != Method.SUMS:
            return {"links": [list(edge) for edge in self.contract.graph.edges]}
        return {"sums": sums_fit.transport_note(plan, separate_nodes=self.separate_nodes)}
