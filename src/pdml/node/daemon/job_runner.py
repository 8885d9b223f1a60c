"""This node's part in a job that has begun, and what the job leaves to this organisation."""

import logging
import threading
from collections.abc import Callable

from threadpoolctl import threadpool_limits

from pdml._threads import single_thread
from pdml.errors import Equivocation, JournalError, PDMLError
from pdml.mechanisms.randomness import Source
from pdml.node.job import statements
from pdml.node.job.activity import Runtime, Steps
from pdml.node.job.admission import AdmissionRule, JobAdmission, Member, Work
from pdml.node.job.coordinator import tell_stop
from pdml.node.job.equivocation_reporter import EquivocationReporter
from pdml.node.job.job_result import write_local_model
from pdml.node.job.participant import Participant
from pdml.node.job.round_exchange import Exchange, Stopped
from pdml.node.job.statements import fetch_statements
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.redaction import public_message
from pdml.node.storage.control_db import OfferState, ProgressReport
from pdml.node.storage.journal import Job, JobState, Journal
from pdml.node.storage.node_dir import NodeDirectory

WriteLocalModel = Callable[[NodeDirectory, str, TrainingData], object]
"""`write_local_model`, or what a test has instead: (directory, job, training data)."""

log = logging.getLogger("pdml.node")


class JobRunner:
    """Does a begun job; however it ends, it is written down and the others hear of it."""

    def __init__(
        self,
        member: Member,
        directory: NodeDirectory,
        *,
        admission: JobAdmission,
        rule: AdmissionRule,
        journal: Journal,
        source: Source,
        reporter: EquivocationReporter,
        progress: ProgressReport,
        local_models: "LocalModels",
        runtime: Runtime,
    ) -> None:
        """``journal``: for the one activity that does the job, and for its exchange."""
        self._member, self._directory, self._admission = member, directory, admission
        self._rule, self._journal, self._source = rule, journal, source
        self._reporter, self._progress, self._local_models = reporter, progress, local_models
        self._runtime = runtime

    def start(self, work: Work) -> None:
        self._runtime.tasks.spawn(self.run(work))

    def run(self, work: Work) -> Steps[None]:
        terms, name = work.terms, self._member.name
        try:
            entry = self._journal.job(terms.job)
            if entry is None or entry.state != JobState.FINISHED:
                exchange = self._enter(work)
                yield from exchange.run()
                yield from self._conclude(work, exchange)
            self._admission.end(work, OfferState.DONE)
            log.info("job %s is done", terms.job)
            self._local_models.write()
        except Exception as failure:
            error = work.equivocation or failure
            sentence = public_message(error, name)
            trace = None if isinstance(error, PDMLError) else error
            log.error("job %s: %s", terms.job, error, exc_info=trace)
            self._admission.end(work, OfferState.FAILED, sentence)
            if isinstance(error, Equivocation):
                self._reporter.report(terms.job, error)
            if not work.stop_reason and not self._runtime.is_leaving:
                attempt = work.offer.attempt
                yield from tell_stop(self._member, attempt, sentence, self._runtime)

    def _enter(self, work: Work) -> Exchange:
        terms, study = work.terms, self._member.study
        with threadpool_limits(1):
            participant = Participant(
                terms,
                self._member.name,
                self._rule.load_training_data(),
                journal=self._journal,
                identity=self._member.identity,
                keys=study.signing_keys,
                source=self._source,
                budget=study.budget,
                shared=self._directory.shared(study) if terms.masked else None,
            )
        exchange = Exchange(
            participant,
            clock=self._runtime.clock,
            start_timeout=work.offer.start_timeout,
            round_timeout=work.offer.round_timeout,
            after_round=lambda t: self._report_progress(terms, t),
        )
        self._admission.enter_exchange(work, exchange)
        return exchange

    def _conclude(self, work: Work, exchange: Exchange) -> Steps[None]:
        """Everybody's statement; then nobody needs this node's inner state any more."""
        self._report_progress(work.terms, exchange.participant.round)
        exchange.statement()
        yield from fetch_statements(
            work.terms,
            self._member.others,
            exchange,
            name=self._member.name,
            limit=work.offer.round_timeout,
            check=lambda: self._check(work),
            clock=self._runtime.clock,
        )
        self._reporter.compare(work.terms)
        exchange.finish()

    def _report_progress(self, terms: JobTerms, t: int) -> None:
        self._progress.report(terms.job, self._member.name, t, terms.plan.rounds)

    def _check(self, work: Work) -> None:
        if work.equivocation is not None:
            raise work.equivocation
        if work.stop_reason:
            raise Stopped(work.stop_reason)
        if self._runtime.is_leaving:
            raise Stopped(f"{self._member.name}'s node was stopped")


class LocalModels:
    """What jobs of sums leave to this organisation alone: written when a job ends, or at the next
    start.

    Guarantees
    ----------
    - Nothing here reaches another member, and no failure ends the node.
    """

    def __init__(
        self,
        directory: NodeDirectory,
        committed: Journal,
        load_training_data: Callable[[], TrainingData],
        write_local_model: WriteLocalModel = write_local_model,
    ) -> None:
        self._directory, self._committed = directory, committed
        self._load_training_data = load_training_data
        self._write_local_model, self._lock = write_local_model, threading.Lock()

    def write(self) -> None:
        with self._lock, single_thread():
            try:
                for job in filter(self._missing, self._committed.jobs()):
                    data = self._load_training_data()
                    if job.dataset == data.dataset:  # of another, exact sums are not known
                        self._write_local_model(self._directory, job.job, data)
            except Exception as error:
                log.error("a local model was not written: %s", error)

    def write_as_step(self) -> Steps[None]:
        self.write()
        yield from ()

    def _missing(self, job: Job) -> bool:
        if job.state != JobState.FINISHED or self._directory.local_model_path(job.job).exists():
            return False
        try:
            return statements.plan_of(job)[0].method == "sums"
        except JournalError:  # a released evaluation is a job without a plan
            return False
