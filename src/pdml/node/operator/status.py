"""What a node has released, spent and left, by its journal; and every member, by the statements at
this node: what was released since a member's last one is not in it."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from pdml.accounting import Ledger, last_safe_round
from pdml.accounting.events import (
    CountsReleased,
    Event,
    IterateReleased,
    LabelFlipped,
    SumsReleased,
)
from pdml.accounting.kinds import UNSAID
from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.errors import PDMLError
from pdml.node.job.statements import plan_of
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol.signed_statement import DIGEST, Statement, signed_by
from pdml.node.storage.control_db import (
    CONTROL,
    ENDED,
    Attempt,
    ControlDatabase,
    OfferState,
    StatusName,
    current_attempt,
)
from pdml.node.storage.journal import Job, JobState, Journal
from pdml.node.storage.node_dir import JOURNAL, NodeDirectory
from pdml.planning.server_spec import ServerSpec
from pdml.study import Study

_SENT = IterateReleased | SumsReleased | CountsReleased
STOPPED = "stopped"  # of a job that has no result and can be resumed
WARN_DAYS = 30  # before the relay's certificate ends


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set's account."""

    digest: str
    current: bool
    releases: int
    ledger: Ledger
    next_job: int | None  # the last safe round of another job (`next_job`)


@dataclass(frozen=True, kw_only=True)
class NodeStatus:
    """Everything there is to say about a node on this machine."""

    home: NodeDirectory
    study: Study | None
    pid: int | None  # of the process that holds the journal
    connection: dict[str, Any]  # up, why, since, ends
    attempt: Attempt | None  # the job that is going on, or was last
    waiting: tuple[Attempt, ...]  # offers that the operator is asked about
    unfinished: dict[str, list[str]]  # jobs that spent budget and have no result, by offerer
    progress: dict[str, Any]  # of the offerer's display; what counts is ``jobs``
    records: int
    labels: str  # where they were randomised
    problem: str  # with the study or the data, if any
    jobs: tuple[Job, ...]
    datasets: tuple[DataSet, ...]
    read_at: float  # seconds since 1970

    def state_of(self, job: Job) -> str:
        """The journal's word; what it has not finished runs only if the node is in it."""
        last = self.attempt
        here = last is not None and last.job == job.job and last.state not in ENDED
        return job.state if here or job.state == JobState.FINISHED else STOPPED

    @property
    def running(self) -> bool:
        return self.pid is not None

    @property
    def connected(self) -> bool:
        """By the process that runs now: one that was killed left its last word behind."""
        return (
            self.running
            and bool(self.connection.get("up"))
            and self.connection.get("pid") == self.pid
        )

    @property
    def warning(self) -> str:
        """What the operator should do soon."""
        ends = self.connection.get("ends")
        days = (ends - self.read_at) / 86_400 if ends else WARN_DAYS
        if days >= WARN_DAYS:
            return ""
        when = f"ends in {days:.0f} days" if days > 0 else "has ended"
        return f"the relay's certificate {when}: `pdml relay config` renews one that was made there"

    def to_dict(self) -> dict[str, Any]:
        last = self.attempt
        going = last if last is not None and last.state not in ENDED else None
        return {
            "name": self.home.name,
            "study": self.study.id if self.study else None,
            "study_hash": self.study.hash if self.study else None,
            "accept": self.home.config.accept,
            "running": self.running,
            "pid": self.pid,
            "connected": self.connected,
            "connection": self.connection,
            "warning": self.warning,
            "job": {"job": going.job, "state": going.state, "offered_by": going.offerer}
            if going
            else None,
            "last": {"job": last.job, "state": last.state, "sentence": last.sentence}
            if last
            else None,
            "waiting": [attempt.to_dict() for attempt in self.waiting],
            "unfinished": self.unfinished,
            "progress": self.progress,
            "records": self.records,
            "labels_randomised_by": self.labels,
            "problem": self.problem,
            "jobs": [
                {
                    "job": job.job,
                    "state": self.state_of(job),
                    "released": job.round,
                    "dataset": job.dataset,
                }
                for job in self.jobs
            ],
            "datasets": [
                {
                    "dataset": dataset.digest,
                    "current": dataset.current,
                    "releases": dataset.releases,
                    "last_safe_round_of_next_job": dataset.next_job,
                    "privacy": dataset.ledger.to_dict(),
                }
                for dataset in self.datasets
            ],
        }


def read_status(home: NodeDirectory, clock: Clock = SYSTEM_CLOCK) -> NodeStatus:
    """What a node does and has given away, as it stands on disk now.

    Parameters
    ----------
    home : NodeDirectory
        `NodeDirectory.open("alice")`; its process may be running.
    clock : Clock
        Tells when a certificate is about to end.

    Returns
    -------
    NodeStatus
        With a problem of the study or the data, which is not raised.

    Raises
    ------
    JournalError
        If there was a journal and it is gone.
    """
    study, training_data, problem = None, None, ""
    try:
        study = home.checked_study()
        training_data = home.load_training_data()
    except PDMLError as error:
        problem = str(error)
    jobs: tuple[Job, ...] = ()
    datasets: list[DataSet] = []
    journal = home.committed()
    if journal is not None and study is not None:
        with closing(journal):
            jobs = tuple(journal.jobs())
            current = training_data.dataset if training_data else ""
            for name in dict.fromkeys([*journal.datasets(), *([current] if current else [])]):
                datasets.append(
                    _account(study, journal, name, training_data if name == current else None)
                )
    connection, attempts, unfinished, progress = _control(home)
    return NodeStatus(
        home=home,
        study=study,
        pid=Journal.holder(home.path(JOURNAL)),
        connection=connection,
        attempt=current_attempt(attempts),
        waiting=tuple(attempt for attempt in attempts if attempt.state == OfferState.PENDING),
        unfinished=unfinished,
        progress=progress,
        records=training_data.server.spec.records if training_data else 0,
        labels=training_data.randomised_by if training_data else UNSAID,
        problem=problem,
        jobs=jobs,
        datasets=tuple(datasets),
        read_at=clock.now(),
    )


def _control(
    home: NodeDirectory,
) -> tuple[dict[str, Any], list[Attempt], dict[str, list[str]], dict[str, Any]]:
    if not home.path(CONTROL).exists():
        return {}, [], {}, {}
    with closing(ControlDatabase(home.folder)) as control_db:
        connection = control_db.read_status(StatusName.CONNECTION) or {}
        progress = control_db.read_status(StatusName.PROGRESS) or {}
        return connection, control_db.attempts(), control_db.unfinished(), progress


def _account(
    study: Study, journal: Journal, name: str, training_data: TrainingData | None
) -> DataSet:
    """The ledger of a data set; of one that is gone the labels had the menu's largest ε."""
    unknown = study.terms.server_spec(0, records=1, epsilons=study.menu[-1:])
    flip = training_data.flip() if training_data else unknown.flip(UNSAID)
    spent, classes = journal.spent(name), len(study.classes)
    further = None
    if training_data is not None:
        further = next_job(study, training_data.server.spec, flip, spent)
    return DataSet(
        digest=name,
        current=training_data is not None,
        releases=sum(isinstance(event, _SENT) for event in spent),
        ledger=Ledger(
            ((flip, *spent),),
            source="simulated" if "simulated" in journal.sources(name) else "secure",
            classes=classes,
        ),
        next_job=further,
    )


def next_job(
    study: Study, spec: ServerSpec, flip: LabelFlipped, spent: Sequence[Event]
) -> int | None:
    """The last safe round of another job by the study's plan; None without plan or budget."""
    if study.plan is None or study.budget is None:
        return None
    planned = [(flip, *study.plan.events(spec))]
    return last_safe_round(
        planned, budget=study.budget, classes=len(study.classes), already=[spent]
    )


@dataclass(frozen=True, kw_only=True)
class DatasetSpending:
    """One data set of one member, by its last statement."""

    server: str
    dataset: str  # its alias
    job: str  # whose end the statement tells of
    records: int
    releases: int
    ledger: Ledger
    next_job: int | None  # the last safe round of another job (`next_job`)
    former_keys: bool = False  # its last statement is signed by keys that the study pinned before

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "server": self.server,
            "dataset": self.dataset,
            "job": self.job,
            "records": self.records,
            "releases": self.releases,
            "last_safe_round_of_next_job": self.next_job,
            "signed_by_former_keys": self.former_keys,
            "privacy": self.ledger.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class ConsortiumStatus:
    """The members of a study, and what their statements tell."""

    study: Study
    released: tuple[DatasetSpending, ...]  # by server in the study's order
    unread: tuple[str, ...] = ()  # statements that no keys of the study vouch for

    @property
    def silent(self) -> tuple[str, ...]:
        """Members of whom no statement is here: they have finished no job with this node."""
        names = {dataset.server for dataset in self.released}
        return tuple(server.name for server in self.study.servers if server.name not in names)

    @property
    def several(self) -> dict[str, tuple[DatasetSpending, ...]]:
        """The data sets of members that have several, each with a budget by its operator's word."""
        names = [server.name for server in self.study.servers]
        by_server = {
            name: tuple(dataset for dataset in self.released if dataset.server == name)
            for name in names
        }
        return {name: accounts for name, accounts in by_server.items() if len(accounts) > 1}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "study": self.study.id,
            "study_hash": self.study.hash,
            "members": [dataset.to_dict() for dataset in self.released],
            "several_data_sets": {
                name: sum(account.releases for account in accounts)
                for name, accounts in self.several.items()
            },
            "silent": list(self.silent),
            "unread": list(self.unread),
        }


def read_consortium_status(home: NodeDirectory) -> ConsortiumStatus:
    """What each member has released and has left, by the statements in a node's journal.

    Parameters
    ----------
    home : NodeDirectory
        Any member's, which has joined a study; its process may be running.

    Returns
    -------
    ConsortiumStatus
    """
    study = home.checked_study()
    statements: list[Statement] = []
    unread: list[str] = []
    former: set[tuple[str, str]] = set()  # member and job
    journal = home.committed()
    if journal is not None:
        with closing(journal):
            for job in journal.jobs():
                for server, data in journal.statements(job.job).items():
                    try:
                        keys = home.revision(plan_of(job)[1]).signing_keys
                        statement = signed_by(data, server, keys)
                    except PDMLError:  # a revision that is not here, or another's signature
                        unread.append(f"{server} on job {job.job}")
                        continue
                    statements.append(statement)
                    if keys[server] != study.signing_keys[server]:
                        former.add((server, statement.job))
    released = tuple(
        replace(dataset, former_keys=(dataset.server, dataset.job) in former)
        for dataset in latest_statements(study, statements)
    )
    return ConsortiumStatus(study=study, released=released, unread=tuple(unread))


def latest_statements(study: Study, statements: Iterable[Statement]) -> tuple[DatasetSpending, ...]:
    last: dict[tuple[str, str], Statement] = {}
    for statement in statements:
        previous = last.get((statement.server, statement.dataset))
        if previous is None or _releases(statement) > _releases(previous):
            last[statement.server, statement.dataset] = statement
    order = [server.name for server in study.servers]
    kept = sorted(
        last.values(), key=lambda statement: (order.index(statement.server), statement.dataset)
    )
    return tuple(_released(study, statement) for statement in kept)


def _releases(statement: Statement) -> int:
    return statement.earlier_releases + len(statement.sent) // DIGEST


def _released(study: Study, statement: Statement) -> DatasetSpending:
    epsilons = (statement.epsilon, statement.label_epsilon)
    index, records = study.index(statement.server), statement.records
    spec = study.terms.server_spec(index, records=records, epsilons=epsilons)
    flip = spec.flip(statement.randomised_by)
    spent = (*statement.earlier_spending, *statement.spent)
    try:
        further = next_job(study, spec, flip, spent)
    except PDMLError:  # a plan that does not fit its records
        further = None
    return DatasetSpending(
        server=statement.server,
        dataset=statement.dataset,
        job=statement.job,
        records=statement.records,
        releases=_releases(statement),
        ledger=Ledger(((flip, *spent),), source=statement.source, classes=len(study.classes)),
        next_job=further,
    )
