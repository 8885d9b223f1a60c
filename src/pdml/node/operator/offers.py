"""What an operator decides about: the offers of members, their terms and what they cost."""

from contextlib import closing
from dataclasses import dataclass, replace
from math import isinf
from typing import Any

from pdml.accounting import Budget, Ledger
from pdml.accounting.kinds import Adversary
from pdml.accounting.ledger_row import LedgerRow
from pdml.errors import InvalidInput, plain
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import Offer
from pdml.node.storage.control_db import (
    ENDED,
    Attempt,
    CommandKind,
    ControlDatabase,
    OfferState,
    current_attempt,
)
from pdml.node.storage.node_dir import NodeDirectory
from pdml.study import Study

_OTHERS = Adversary.OTHERS
_LONGEST = 300  # letters of a reason
_LEAST = 8  # digits of a digest that may stand for it


def offers(home: NodeDirectory) -> list[Attempt]:
    """The jobs that members have offered, oldest first, and what became of them here.

    Parameters
    ----------
    home : NodeDirectory
        `NodeDirectory.open("alice")`.

    Returns
    -------
    list of Attempt
    """
    with closing(ControlDatabase(home.folder)) as control_db:
        return control_db.attempts()


def find(home: NodeDirectory, offer: str) -> Attempt:
    """The one offer that waits for an answer under this name.

    Parameters
    ----------
    home : NodeDirectory
    offer : str
        The offer's digest, at least its first 8 digits, or its job's name.

    Returns
    -------
    Attempt

    Raises
    ------
    InvalidInput
        If no such offer waits, or several do: a name is whatever members give it.
    """
    pending = [attempt for attempt in offers(home) if attempt.state == OfferState.PENDING]
    digits = offer.lower() if len(offer) >= _LEAST else "none"
    exact = [attempt for attempt in pending if attempt.digest == offer]
    matches = exact or [
        attempt for attempt in pending if attempt.job == offer or attempt.digest.startswith(digits)
    ]
    if not matches:
        raise InvalidInput(
            f"no offer of a job {offer!r} waits for an answer in {home.folder}, and none with "
            "such a digest"
        )
    if len(matches) > 1:
        several = "; ".join(
            f"{attempt.digest} is {attempt.offerer}'s offer of {attempt.job}" for attempt in matches
        )
        raise InvalidInput(
            f"{len(matches)} offers that wait are called {offer!r}: {several}: name one by its "
            "digest"
        )
    return matches[0]


def accept(home: NodeDirectory, offer: str) -> Attempt:
    """Accept an offer that waits for an answer: that one, and no other of the same name.

    Parameters
    ----------
    home : NodeDirectory
    offer : str
        As for `find`, which raises; the digest of the terms that were read accepts exactly these.

    Returns
    -------
    Attempt
    """
    return _decide(home, offer, OfferState.ALLOWED, "")


def refuse(home: NodeDirectory, offer: str, why: str = "") -> Attempt:
    """Refuse an offer that waits for an answer: no node then releases anything (more) for it.

    Parameters
    ----------
    home : NodeDirectory
    offer : str
        As for `find`, which raises.
    why : str
        The reason for the other members.

    Returns
    -------
    Attempt
    """
    return _decide(home, offer, OfferState.REFUSED, plain(why, _LONGEST) or "its operator refused")


def stop(home: NodeDirectory) -> str:
    """Stop the job that this node is in, at every member; the journals let it go on later.

    Parameters
    ----------
    home : NodeDirectory

    Returns
    -------
    str
        The job's name; `InvalidInput` without a job.
    """
    with closing(ControlDatabase(home.folder)) as control_db:
        current = current_attempt(
            [attempt for attempt in control_db.attempts() if attempt.state not in ENDED]
        )
        if current is None:
            raise InvalidInput(f"the node in {home.folder} is in no job")
        control_db.push_command(CommandKind.STOP, current.attempt)
        return current.job


def _decide(home: NodeDirectory, offer: str, state: OfferState, sentence: str) -> Attempt:
    attempt = find(home, offer)
    with closing(ControlDatabase(home.folder)) as control_db:
        if not control_db.decide(attempt, state, sentence):
            raise InvalidInput(
                f"{attempt.offerer}'s offer of job {attempt.job} waits no more: "
                f"`pdml node offers {home.folder}` says what became of it"
            )
    return attempt


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One row of the ledger against other servers, before and after the whole job; ``limit`` is the
    budget's ε for it, if it has one."""

    before: LedgerRow
    after: LedgerRow
    limit: float | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON; infinity as the string "inf"."""
        limit = "inf" if self.limit is not None and isinf(self.limit) else self.limit
        after = self.after.to_dict()
        return {
            "data": after["data"],
            "adversary": after["adversary"],
            "colluding": self.after.colluding,
            "delta": after["delta"],
            "epsilon_before": self.before.to_dict()["epsilon"],
            "epsilon_after": after["epsilon"],
            "budget": limit,
        }


@dataclass(frozen=True, kw_only=True)
class OfferTerms:
    """An offer as this node understands it, by its own study and its own journal."""

    attempt: Attempt
    offer: Offer
    job_terms: JobTerms
    study: Study
    server: str  # this node
    dataset: str
    records: int
    costs: tuple[Cost, ...]

    @property
    def digest(self) -> str:
        """Of the offer: what an operator accepts."""
        return self.attempt.digest

    @property
    def budget(self) -> Budget:
        return self.study.budget or Budget()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        offer = self.offer
        return self.attempt.to_dict() | {
            "study": self.study.id,
            "study_hash": self.study.hash,
            "terms": self.job_terms.digest,
            "plan": self.job_terms.plan.to_dict(),
            "members": list(self.job_terms.servers),
            "resume": offer.resume,
            "start_timeout": offer.start_timeout,
            "round_timeout": offer.round_timeout,
            "dataset": self.dataset,
            "records": self.records,
            "costs": [cost.to_dict() for cost in self.costs],
        }


def read_terms(home: NodeDirectory, attempt: Attempt) -> OfferTerms:
    """The terms of an offer, by this node's own study, records and journal.

    Parameters
    ----------
    home : NodeDirectory
    attempt : Attempt
        As `find` has it.

    Returns
    -------
    OfferTerms

    Raises
    ------
    PeerError, InvalidInput
        If the offer is not signed, or is for another study than this node's.
    DataError
        If the node has no data set that can be read.
    """
    study, training_data = home.checked_study(), home.load_training_data()
    key = study.signing_keys[attempt.offerer]
    offer = Offer.read(attempt.offer, attempt.offerer, key)
    job_terms = offer.make_job_terms(study)
    spent, others = _spent(home, training_data.dataset, job_terms.job)
    flip = training_data.flip()
    before = Ledger(((flip, *spent),), classes=job_terms.classes)
    planned = job_terms.plan.events(training_data.server.spec)
    after = replace(before, events=((flip, *others, *planned),))
    return OfferTerms(
        attempt=attempt,
        offer=offer,
        job_terms=job_terms,
        study=study,
        server=home.name,
        dataset=training_data.dataset,
        records=training_data.server.spec.records,
        costs=_costs(before, after, study.budget or Budget()),
    )


def _spent(home: NodeDirectory, dataset: str, job: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Events of the data set: all, and those of other jobs than this one."""
    journal = home.committed()
    if journal is None:
        return (), ()
    with closing(journal):
        return journal.spent(dataset), journal.spent(dataset, but=job)


def _costs(before: Ledger, after: Ledger, budget: Budget) -> tuple[Cost, ...]:
    """At the budget's own δ, so that the figures are those that the limit is for."""
    overview = [row for row in after.overview(budget.colluding) if row.adversary == _OTHERS]
    most = max((row.colluding or 0 for row in overview), default=0)
    limited = {None, budget.colluding or most}
    costs = []
    for data, k in ((row.data, row.colluding) for row in overview):
        whole = data in ("features", "label")
        limit, delta = budget.limit(data) if whole else (None, after.delta)
        rows = [
            replace(ledger, delta=delta).row(data, _OTHERS, colluding=k)
            for ledger in (before, after)
        ]
        costs.append(Cost(before=rows[0], after=rows[1], limit=limit if k in limited else None))
    return tuple(costs)
