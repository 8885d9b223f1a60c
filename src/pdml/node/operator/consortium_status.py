"""What every member of a study has released, and has left: as each has signed it.

At the end of a job every node holds everybody's statement, which tells what the data set behind it
has spent, in that job and in all before. So any member sees the whole consortium, and nobody has to
be asked. What a member has released since its last statement (in a job that was stopped, say) is
not in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pdml.accounting import Ledger
from pdml.errors import PDMLError
from pdml.node.job.build_statement import plan_of
from pdml.node.operator.node_status import next_job
from pdml.node.protocol.signed_statement import DIGEST, Statement, signed_by
from pdml.node.storage.node_dir import NodeDirectory
from pdml.study import Study


@dataclass(frozen=True, kw_only=True)
class DatasetSpending:
    """One data set of one member, by its last statement."""

    server: str
    dataset: str  # its alias
    job: str  # whose end the statement tells of
    records: int
    releases: int
    ledger: Ledger
    # the last safe round of another job by the study's plan; None without plan or budget
    next_job: int | None
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
    released: tuple[
        DatasetSpending, ...
    ]  # by server in the study's order; several data sets of one
    unread: tuple[str, ...] = ()  # statements that no keys of the study vouch for

    @property
    def silent(self) -> tuple[str, ...]:
        """Members of whom no statement is here: they have finished no job with this node."""
        names = {dataset.server for dataset in self.released}
        return tuple(server.name for server in self.study.servers if server.name not in names)

    @property
    def several(self) -> dict[str, tuple[DatasetSpending, ...]]:
        """The data sets of each member that has more than one, each with a budget of its own: by
        the word of its operator, without which neither its node nor its neighbours begin one."""
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
        Any member's folder, `NodeDirectory.open("alice")`; its process may be running.

    Returns
    -------
    ConsortiumStatus

    Raises
    ------
    InvalidInput
        If the node has joined no study.

    Examples
    --------
    >>> read_consortium_status(NodeDirectory.open("alice"))  # doctest: +SKIP
    """
    study = home.checked_study()
    statements: list[Statement] = []
    unread: list[str] = []
    former: set[tuple[str, str]] = set()  # member and job
    journal = home.committed()
    if journal is not None:
        try:
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
        finally:
            journal.close()
    released = tuple(
        replace(dataset, former_keys=(dataset.server, dataset.job) in former)
        for dataset in latest_statements(study, statements)
    )
    return ConsortiumStatus(study=study, released=released, unread=tuple(unread))


def latest_statements(study: Study, statements: Iterable[Statement]) -> tuple[DatasetSpending, ...]:
    """The last word on every data set."""
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
    return statement.before + len(statement.sent) // DIGEST


def _released(study: Study, statement: Statement) -> DatasetSpending:
    spec = study.terms.server_spec(
        study.index(statement.server),
        records=statement.records,
        epsilons=(statement.epsilon, statement.label_epsilon),
    )
    flip, spent = spec.flip(statement.randomised_by), (*statement.spent_before, *statement.spent)
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
