"""Whether this node takes part in a job that was offered: its terms, its records, its budget, and
its operator's rule.
"""

from collections.abc import Sequence

from pdml.accounting import Budget
from pdml.errors import JournalError
from pdml.mechanisms.randomness import Source
from pdml.node.job.participant import TrainingData, check_job
from pdml.node.protocol.job_offer import Offer
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.journal import FINISHED, Journal
from pdml.node.storage.node_dir import BY_STUDY, Config, NodeDirectory
from pdml.study import Study


class JobAdmission:
    """Reads what is committed; decides nothing that an operator should."""

    def __init__(
        self, home: NodeDirectory, study: Study, source: Source, committed: Journal
    ) -> None:
        self._folder, self._name, self._study, self._source = home.folder, home.name, study, source
        self._committed = committed
        self._cache: tuple[Config, TrainingData] | None = None

    def load_training_data(self) -> TrainingData:
        """The records; read once for each data set."""
        home = NodeDirectory.open(self._folder)
        if self._cache is None or self._cache[0] != home.config:
            self._cache = home.config, home.load_training_data()
        return self._cache[1]

    def auto_accepts(self, offer: Offer, *, unfinished: Sequence[str]) -> bool:
        """Whether nobody needs to be asked: own offers, jobs that were accepted before, and the
        study's plan by the rule.

        ``unfinished``: jobs of the offerer that have released something and have no result. Each
        spends budget for nothing, and a member could begin and end one after the other: while there
        is one, the rule is not enough, nor is a job that began and has released nothing yet.
        """
        entry = self._committed.job(offer.job)
        again = entry is not None and entry.contract == offer.contract
        spent = entry is not None and entry.round > 0
        rule = NodeDirectory.open(self._folder).config.accept
        return (
            offer.offerer == self._name
            or (again and (spent or not unfinished))
            or (rule == BY_STUDY and self._study.plan is not None and not unfinished)
        )

    def check(self, offer: Offer) -> JobTerms:
        """The contract, if this node can do the job: refused before anybody releases anything."""
        contract, entry = offer.make_job_terms(self._study), self._committed.job(offer.job)
        if entry is not None and entry.contract != offer.contract:
            raise JournalError(
                f"job {offer.job} is in {self._name}'s journal with another contract: give "
                "the job another name"
            ).mark_public()
        if entry is not None and not offer.resume:
            raise JournalError(
                f"{self._name} knows job {offer.job} already: resume it, or give the job "
                "another name"
            ).mark_public()
        if entry is not None and entry.state == FINISHED:
            return contract
        training_data = self.load_training_data()
        check_job(
            contract,
            self._name,
            training_data,
            keys=self._study.signing_keys,
            journal=self._committed,
            source=self._source.name,
            budget=self._study.budget or Budget(),
        )
        return contract
