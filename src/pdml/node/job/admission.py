"""Whether this node takes part in a job that was offered: its terms, its records, its budget, and
its operator's rule.
"""

from collections.abc import Sequence

from pdml.accounting import Budget
from pdml.errors import JournalError
from pdml.mechanisms.randomness import Source
from pdml.node.job.participant import Holdings, check_job
from pdml.node.protocol.job_offer import Offer
from pdml.node.protocol.job_terms import Contract
from pdml.node.storage.journal import FINISHED, Journal
from pdml.node.storage.node_dir import BY_STUDY, Config, Home
from pdml.study import Study


class Judge:
    """Reads what is committed; decides nothing that an operator should."""

    def __init__(self, home: Home, study: Study, source: Source, committed: Journal) -> None:
        self._folder, self._name, self._study, self._source = home.folder, home.name, study, source
        self._committed = committed
        self._held: tuple[Config, Holdings] | None = None

    def holdings(self) -> Holdings:
        """The records; read once for each data set."""
        home = Home.open(self._folder)
        if self._held is None or self._held[0] != home.config:
            self._held = home.config, home.holdings()
        return self._held[1]

    def allows(self, offer: Offer, *, unfinished: Sequence[str]) -> bool:
        """Whether nobody needs to be asked: own offers, jobs that were accepted before, and the
        study's plan by the rule.

        ``unfinished``: jobs of the offerer that have released something and have no result. Each
        spends budget for nothing, and a member could begin and end one after the other: while there
        is one, the rule is not enough, nor is a job that began and has released nothing yet.
        """
        known = self._committed.job(offer.job)
        again = known is not None and known.contract == offer.contract
        spent = known is not None and known.round > 0
        rule = Home.open(self._folder).config.accept
        return (
            offer.offerer == self._name
            or (again and (spent or not unfinished))
            or (rule == BY_STUDY and self._study.plan is not None and not unfinished)
        )

    def check(self, offer: Offer) -> Contract:
        """The contract, if this node can do the job: refused before anybody releases anything."""
        contract, known = offer.agreed(self._study), self._committed.job(offer.job)
        if known is not None and known.contract != offer.contract:
            raise JournalError(
                f"job {offer.job} is in {self._name}'s journal with another contract: give "
                "the job another name"
            ).for_others()
        if known is not None and not offer.resume:
            raise JournalError(
                f"{self._name} knows job {offer.job} already: resume it, or give the job "
                "another name"
            ).for_others()
        if known is not None and known.state == FINISHED:
            return contract
        held = self.holdings()
        check_job(
            contract,
            self._name,
            held,
            keys=self._study.signing_keys,
            journal=self._committed,
            source=self._source.name,
            budget=self._study.budget or Budget(),
        )
        return contract
