"""What a training of several organisations releases: one model from their last releases, whichever engine carried them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import pdml
from pdml._types import Array
from pdml.accounting import Ledger
from pdml.accounting.events import Event, IterateReleased, LabelFlipped
from pdml.node.contract import Contract
from pdml.release.estimator import History, noise_level
from pdml.release.model import Model
from pdml.study import Study
from pdml.train.engines.local import diameters


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


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a job, in the order of the contract's servers."""

    contract: Contract
    parts: tuple[Part, ...]
    source: str  # of the noise

    @property
    def releases(self) -> Array:
        return np.array([part.released for part in self.parts])

    @property
    def ledger(self) -> Ledger:
        """What every data set has spent over all its jobs."""
        events = tuple((LabelFlipped(epsilon=part.label_epsilon), *part.earlier, *part.events) for part in self.parts)
        return Ledger(events, source=self.source, classes=self.contract.classes)

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
            (*(replace(event, t=1) for event in part.earlier if isinstance(event, IterateReleased)), *part.events) for part in self.parts
        )
        return History(
            risk=np.full(rounds, np.nan),
            consensus=np.array([*apart, self.consensus]),
            noise=noise_level(plan, len(self.parts)),
            spent=np.array(Ledger(spent, classes=self.contract.classes).feature_epsilons()),
        )

    def model(self, study: Study) -> Model:
        """The average of the last releases, with what a reader needs to judge it."""
        weights = self.releases.mean(axis=0)
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
                "earlier_releases": [sum(isinstance(event, IterateReleased) for event in part.earlier) for part in self.parts],
                "links": [list(edge) for edge in self.contract.graph.edges],
                "noise_source": self.source,
                "leaks": [],
                "pdml_version": pdml.__version__,
            },
        )
