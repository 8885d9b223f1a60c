"""What a training of several organisations releases: one model from their last releases, whichever
engine carried them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import ceil
from typing import Any

import numpy as np

import pdml
from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.events import Event, IterateReleased, LabelFlipped
from pdml.accounting.provenance import UNSAID
from pdml.node.contract import Contract
from pdml.release.history import History, noise_level
from pdml.release.model import Model
from pdml.study import Study
from pdml.train.engines.local import diameters

RESULT = "pdml-result/1"  # of model and page; another number where the same statements give others
ALL_JOBS = "all jobs on each data set, as the journals of the organisations' nodes have them"
THIS_JOB = (
    "this job alone, for which alone the budget was checked: no journal is kept where one trust "
    "domain holds all records, and other trainings on them must be added up"
)
OWN_NODES = "each organisation's node held its own records"
ONE_DOMAIN = "one trust domain held every organisation's records"


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one organisation hands over at the end: noisy or public things only."""

    server: str
    records: int
    released: Array  # (C, d): w̃_i(T)
    apart: Sequence[float]  # rounds 1 to T-1: distance to the farthest neighbour's release
    label_epsilon: float  # the largest of its labels
    events: tuple[Event, ...]  # of this job
    earlier: tuple[Event, ...] = ()  # of other jobs on the same data set, if a journal tells
    released_before: int = 0  # vectors, in those jobs
    randomised_by: str = UNSAID  # who randomised the labels (`accounting.provenance`)

    def flip(self) -> LabelFlipped:
        """What its labels went through."""
        return LabelFlipped(epsilon=self.label_epsilon, by=self.randomised_by)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a job, in the order of the contract's servers.

    ``own_nodes``: each organisation ran its own node, whose journal holds all its jobs. Otherwise
    one trust domain held all records, and nobody kept a journal.
    """

    contract: Contract
    parts: tuple[Part, ...]
    source: str  # of the noise
    own_nodes: bool = False
    statements: Mapping[str, str] = field(default_factory=dict)  # of each, its sha256; if there are

    @property
    def releases(self) -> Array:
        return np.array([part.released for part in self.parts])

    @property
    def ledger(self) -> Ledger:
        """What every data set has spent: `counted` says in which jobs."""
        events = tuple((part.flip(), *part.earlier, *part.events) for part in self.parts)
        return Ledger(events, source=self.source, classes=self.contract.classes)

    @property
    def counted(self) -> str:
        """Which jobs the ledger counts: only a journal knows of more than this one."""
        return ALL_JOBS if self.own_nodes else THIS_JOB

    @property
    def consensus(self) -> float:
        """The largest distance between two servers' last releases."""
        return float(diameters(self.releases))

    def history(self) -> History:
        """Round by round, from what was sent and public settings.

        Nobody sees all releases of a round, so the distances are those between linked servers,
        except after the last round. Earlier jobs count as spent from the first round on.
        """
        plan, rounds = self.contract.plan, self.contract.plan.rounds
        apart = [max(part.apart[t] for part in self.parts) for t in range(rounds - 1)]
        spent = tuple(
            (
                *(
                    replace(event, t=1)
                    for event in part.earlier
                    if isinstance(event, IterateReleased)
                ),
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
        told: dict[str, Any] = self.ledger.to_dict()
        for line in told["lines"]:
            line["certainty"] = min(1.0, ceil(line["certainty"] * 1e9) / 1e9)
        return {**told, "counted": self.counted}

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
            privacy=self._privacy(),
            provenance={
                "parties": OWN_NODES if self.own_nodes else ONE_DOMAIN,
                "study": study.id,
                "study_hash": self.contract.study,
                "job": self.contract.job,
                "contract": self.contract.digest,
                "servers": [part.server for part in self.parts],
                "records_per_server": [part.records for part in self.parts],
                "labels_randomised_by": [part.randomised_by for part in self.parts],
                "earlier_releases": [part.released_before for part in self.parts],
                "links": [list(edge) for edge in self.contract.graph.edges],
                "noise_source": self.source,
                "leaks": [],
                **self._made_by(),
            },
        )
