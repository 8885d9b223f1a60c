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
from pdml.node.storage.node_dir import Home
from pdml.study import Study


@dataclass(frozen=True, kw_only=True)
class Released:
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
class Everybody:
    """The members of a study, and what their statements tell."""

    study: Study
    released: tuple[Released, ...]  # by server in the study's order; several data sets of one
    unread: tuple[str, ...] = ()  # statements that no keys of the study vouch for

    @property
    def silent(self) -> tuple[str, ...]:
        """Members of whom no statement is here: they have finished no job with this node."""
        told = {each.server for each in self.released}
        return tuple(server.name for server in self.study.servers if server.name not in told)

    @property
    def several(self) -> dict[str, tuple[Released, ...]]:
        """The data sets of each member that has more than one, each with a budget of its own: by
        the word of its operator, without which neither its node nor its neighbours begin one."""
        names = [server.name for server in self.study.servers]
        found = {name: tuple(one for one in self.released if one.server == name) for name in names}
        return {name: accounts for name, accounts in found.items() if len(accounts) > 1}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "study": self.study.id,
            "study_hash": self.study.hash,
            "members": [each.to_dict() for each in self.released],
            "several_data_sets": {
                name: sum(one.releases for one in accounts)
                for name, accounts in self.several.items()
            },
            "silent": list(self.silent),
            "unread": list(self.unread),
        }


def everybody(home: Home) -> Everybody:
    """What each member has released and has left, by the statements in a node's journal.

    Parameters
    ----------
    home : Home
        Any member's folder, `Home.open("alice")`; its process may be running.

    Returns
    -------
    Everybody

    Raises
    ------
    InvalidInput
        If the node has joined no study.

    Examples
    --------
    >>> everybody(Home.open("alice")).released[0].ledger.lines()  # doctest: +SKIP
    """
    study = home.checked_study()
    said: list[Statement] = []
    unread: list[str] = []
    former: set[tuple[str, str]] = set()  # member and job
    journal = home.committed()
    if journal is not None:
        try:
            for job in journal.jobs():
                for server, data in journal.statements(job.job).items():
                    try:
                        keys = home.revision(plan_of(job)[1]).signing_keys
                        one = signed_by(data, server, keys)
                    except PDMLError:  # a revision that is not here, or another's signature
                        unread.append(f"{server} on job {job.job}")
                        continue
                    said.append(one)
                    if keys[server] != study.signing_keys[server]:
                        former.add((server, one.job))
        finally:
            journal.close()
    released = tuple(
        replace(one, former_keys=(one.server, one.job) in former) for one in told_by(study, said)
    )
    return Everybody(study=study, released=released, unread=tuple(unread))


def told_by(study: Study, said: Iterable[Statement]) -> tuple[Released, ...]:
    """The last word on every data set.

    Parameters
    ----------
    study : Study
    said : iterable of Statement
        In any order: what a data set has released only grows.

    Returns
    -------
    tuple of Released
    """
    last: dict[tuple[str, str], Statement] = {}
    for each in said:
        known = last.get((each.server, each.dataset))
        if known is None or _releases(each) > _releases(known):
            last[each.server, each.dataset] = each
    order = [server.name for server in study.servers]
    kept = sorted(last.values(), key=lambda each: (order.index(each.server), each.dataset))
    return tuple(_released(study, each) for each in kept)


def _releases(said: Statement) -> int:
    return said.before + len(said.sent) // DIGEST


def _released(study: Study, said: Statement) -> Released:
    place = study.place(
        said.server, records=said.records, epsilons=(said.epsilon, said.label_epsilon)
    )
    flip, spent = place.flip(said.randomised_by), (*said.spent_before, *said.spent)
    try:
        further = next_job(study, place, flip, spent)
    except PDMLError:  # a plan that does not fit its records
        further = None
    return Released(
        server=said.server,
        dataset=said.dataset,
        job=said.job,
        records=said.records,
        releases=_releases(said),
        ledger=Ledger(((flip, *spent),), source=said.source, classes=len(study.classes)),
        next_job=further,
    )
