"""What a training of several organisations releases: one model from their last releases, whichever engine carried them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

import pdml
from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.events import Event, IterateReleased, LabelFlipped
from pdml.node.contract import Contract
from pdml.node.statement import OPERATOR, UNSAID
from pdml.release.estimator import History
from pdml.release.model import Model
from pdml.study import Study
from pdml.train.engines.local import diameters

RESULT = "pdml-result/1"  # of model and page; another number where the same statements give others


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one organisation hands over at the end: noisy or public things only."""

    server: str
    records: int
    released: Array  # (C, d): w̃_i(T)
    apart: Sequence[float]  # rounds 1 to T-1: distance to the farthest neighbour's release
    label_epsilon: float  # the largest of its labels
    events: tuple[Event, ...]  # of this job
    earlier: tuple[Event, ...] = ()  # of other jobs on the same data set
    released_before: int = 0  # vectors, in those jobs
    labels: str = UNSAID  # where they were randomised, as the organisation says


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a job, in the order of the contract's servers."""

    contract: Contract
    parts: tuple[Part, ...]
    source: str  # of the noise
    statements: Mapping[str, str] = field(default_factory=dict)  # of each, its sha256; if there are

    @property
    def releases(self) -> Array:
        return np.array([part.released for part in self.parts])

    @property
    def ledger(self) -> Ledger:
        """What every data set has spent over all its jobs."""
        events = tuple((LabelFlipped(epsilon=part.label_epsilon), *part.earlier, *part.events) for part in self.parts)
        seen = frozenset(i for i, part in enumerate(self.parts) if part.labels == OPERATOR)
        return Ledger(events, source=self.source, classes=self.contract.classes, labels_seen=seen)

    @property
    def consensus(self) -> float:
        """The largest distance between two servers' last releases."""
        return float(diameters(self.releases))

    def history(self) -> History:
        """Round by round, from what was sent and public settings.

        Nobody sees all releases of a round, so the distances are those between linked servers, except after the last round. The
        noise is its standard deviation, not what was drawn; earlier jobs count as spent from the first round on.
        """
        plan, rounds = self.contract.plan, self.contract.plan.rounds
        size, n = self.contract.shape[0] * self.contract.shape[1], len(self.parts)
        apart = [max(part.apart[t] for part in self.parts) for t in range(rounds - 1)]
        noise = [np.sqrt(size * np.mean([plan.iterates(i, n).stddev(t) ** 2 for i in range(n)])) for t in range(1, rounds + 1)]
        spent = tuple(
            (*(replace(event, t=1) for event in part.earlier if isinstance(event, IterateReleased)), *part.events) for part in self.parts
        )
        return History(
            risk=np.full(rounds, np.nan),
            consensus=np.array([*apart, self.consensus]),
            noise=np.array(noise),
            spent=np.array(Ledger(spent, classes=self.contract.classes).feature_epsilons()),
        )

    def _made_by(self) -> dict[str, Any]:
        """What made the file. Members of all versions make the same of the same statements."""
        if not self.statements:
            return {"pdml_version": pdml.__version__}
        return {"result": RESULT, "statements": dict(self.statements)}

    def model(self, study: Study) -> Model:
        """The average of the last releases, with what a reader needs to judge it."""
        weights = reduce(np.add, self.releases) / len(self.parts)  # one order on every machine
        return Model(
            classes=study.classes,
            coefficients=weights[:, :-1].copy(),
            intercepts=weights[:, -1].copy(),
            norm_bound=self.contract.norm_bound,
            fit_intercept=True,
            feature_names=study.encoder.feature_names,
            encoder=study.encoder.to_dict(),
            plan=self.contract.plan.to_dict(),
            privacy=self.ledger.to_dict(),
            provenance={
                "study": study.id,
                "study_hash": self.contract.study,
                "job": self.contract.job,
                "contract": self.contract.digest,
                "servers": [part.server for part in self.parts],
                "records_per_server": [part.records for part in self.parts],
                "earlier_releases": [part.released_before for part in self.parts],
                "labels_randomised": [part.labels for part in self.parts],
                "links": [list(edge) for edge in self.contract.graph.edges],
                "clipped": 0,  # devices send records within the bound
                "noise_source": self.source,
                "leaks": [],
                **self._made_by(),
            },
        )
