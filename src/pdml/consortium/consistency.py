"""Do the statements of one job agree with each other and with the study?

Each by itself was checked before (`open_statement`). What one says it sent another says it heard,
in every round and on every link. What nobody can contradict (how many records a node has, where its
labels and its noise come from) is its own word.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import isclose

from pdml.accounting import Budget
from pdml.accounting.event_codec import CLOSE
from pdml.consortium.outcome import Outcome
from pdml.errors import PDMLError
from pdml.mechanisms import masks
from pdml.node.job import sums_participant
from pdml.node.protocol.job_terms import Contract
from pdml.node.protocol.signed_statement import DIGEST, Heard, Statement, digest_of, place_of
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study

KINDS = {
    "file": "a file is missing, unknown or unreadable",
    "study": "the study is not the one that was signed, or not whole",
    "statement": "a statement is not signed, impossible, or contradicts another",
    "mismatch": "two servers differ about what one sent to the other, and neither has proved it",
    "equivocation": "a server is proved to have said two different things",
    "evidence": "what is shown as evidence proves nothing",
    "budget": "a data set has spent more than the study allows",
    "total": "the total of masked sums cannot be, and the masks hide whose are wrong",
    "model": "the model is not what the statements give",
    "page": "the page is not what the statements give",
}


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """One reason to refuse a result."""

    kind: str  # one of `KINDS`
    sentence: str
    servers: tuple[str, ...] = ()  # whom it concerns
    round: int = 0  # 0: none


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """``hearer`` says it heard something else in ``round`` than ``sender`` says it sent."""

    sender: str
    hearer: str
    round: int
    sent: str  # digests
    heard: str

    @property
    def problem(self) -> Flaw:
        """As long as nobody has shown a signature."""
        said = f"{self.sender} says it sent {self.sent[:16]} in round {self.round}"
        told = f"{self.hearer} says it heard {self.heard[:16]} from it"
        duty = f"who hears holds the sender's signature, and {self.hearer} has not shown it"
        return Flaw(
            kind="mismatch",
            sentence=f"{said}, but {told}: {duty}",
            servers=(self.hearer, self.sender),
            round=self.round,
        )


def mismatches(contract: Contract, said: Mapping[str, Statement]) -> list[Mismatch]:
    """Where two servers differ about what passed between them: the first round of each link.

    Parameters
    ----------
    contract : Contract
        The job.
    said : mapping of str to Statement
        Opened statements, by server; whoever is missing is not compared.

    Returns
    -------
    list of Mismatch
        In the order of the contract's servers. For each, `pdml.node.protocol.equivocation.kept` at
        the hearer is the proof that the sender said two things; a hearer without it cannot prove
        its claim.
    """
    found = []
    for hearer in contract.servers:
        for heard in said[hearer].heard if hearer in said else ():
            if heard.sender not in said or said[heard.sender].sent == heard.digests:
                continue
            sent = said[heard.sender].sent
            rounds = range(1, 1 + len(sent) // DIGEST)
            t = next(t for t in rounds if digest_of(sent, t) != digest_of(heard.digests, t))
            found.append(
                Mismatch(
                    sender=heard.sender,
                    hearer=hearer,
                    round=t,
                    sent=digest_of(sent, t),
                    heard=digest_of(heard.digests, t),
                )
            )
    return found


def disagreements(study: Study, contract: Contract, said: Mapping[str, Statement]) -> list[Flaw]:
    """What else is wrong between opened statements, and between them and the study.

    Parameters
    ----------
    study : Study
        The contract of all.
    contract : Contract
        The job.
    said : mapping of str to Statement
        Opened statements, by server.

    Returns
    -------
    list of Flaw
        Empty if all agree.
    """
    found = [*_with_study(study, said), *_sources(said), *_links(contract, said), *_jobs(said)]
    return found + list(_total(contract, said))


def overspent(study: Study, outcome: Outcome) -> list[Flaw]:
    """Whether some data set has spent more than the study allows, all its jobs counted.

    A plan may meet a budget to the last digit, and another machine compute that digit differently:
    a billionth more is not held against anybody.

    Parameters
    ----------
    study : Study
        With its budget.
    outcome : Outcome
        What all have released.

    Returns
    -------
    list of Flaw
        One at most.
    """
    budget = study.budget or Budget()
    allowed = replace(
        budget,
        features_epsilon=budget.features_epsilon * (1 + CLOSE),
        labels_epsilon=budget.labels_epsilon * (1 + CLOSE),
    )
    try:
        outcome.ledger.check(allowed)
    except PDMLError as error:
        return [Flaw(kind="budget", sentence=f"the budget is exceeded: {error}")]
    return []


def _with_study(study: Study, said: Mapping[str, Statement]) -> Iterator[Flaw]:
    settled = study.plan
    for name, statement in said.items():
        told = []
        if statement.records < study.min_records:
            least = f"the study asks for {study.min_records:,}"
            told.append(f"trained on {statement.records:,} records, but {least}")
        for epsilon in {statement.epsilon, statement.label_epsilon} - set(study.menu):
            told.append(f"tells of labels with epsilon {epsilon:g}, which is not on the menu")
        for job in statement.earlier:
            if settled not in (None, TrainingPlan.from_dict(dict(job.plan))):
                told.append(f"tells of another plan than the study's in the earlier job {job.job}")
        for words in told:
            yield Flaw(kind="statement", sentence=f"{name} {words}", servers=(name,))


def _sources(said: Mapping[str, Statement]) -> Iterator[Flaw]:
    """One page says of everybody's noise where it came from: so it must be one source."""
    named: dict[str, list[str]] = {}
    for name, statement in said.items():
        named.setdefault(statement.source, []).append(name)
    if len(named) > 1:
        words = "; ".join(f"{', '.join(names)}: {source}" for source, names in named.items())
        few = min(named.values(), key=len)
        sentence = f"the servers say that their noise came from different sources ({words})"
        yield Flaw(kind="statement", sentence=sentence, servers=tuple(few))


def _links(contract: Contract, said: Mapping[str, Statement]) -> Iterator[Flaw]:
    """What both ends of a link know: data sets, their earlier releases, and distances."""
    heard = {(who, other.sender): other for who in said for other in said[who].heard}
    for i, k in contract.graph.edges:
        one, other = contract.servers[i], contract.servers[k]
        for sender, hearer in ((one, other), (other, one)):
            if sender in said and hearer in said:
                yield from _standing(said[sender], heard[hearer, sender], hearer)
        if one in said and other in said and _agree(said, heard, one, other):
            yield from _distances(heard[one, other], heard[other, one])


def _standing(sender: Statement, heard: Heard, hearer: str) -> Iterator[Flaw]:
    if (heard.dataset, heard.before) != (sender.dataset, sender.before):
        name = sender.server
        told = f"{name} states a data set with {sender.before} releases before this job"
        before = f"{hearer} says it was told of {heard.before}, or of another data set"
        sentence = f"{told}, but {before}"
        yield Flaw(kind="statement", sentence=sentence, servers=(name, hearer))


def _agree(
    said: Mapping[str, Statement],
    heard: Mapping[tuple[str, str], Heard],
    one: str,
    other: str,
) -> bool:
    """Whether both have the same vectors; else their distances differ for that reason."""
    there = heard[one, other].digests == said[other].sent
    return there and heard[other, one].digests == said[one].sent


def _distances(one: Heard, other: Heard) -> Iterator[Flaw]:
    """Both ends computed them from the same two vectors."""
    for t, (mine, yours) in enumerate(zip(one.apart, other.apart, strict=True), start=1):
        if not isclose(mine, yours, rel_tol=CLOSE, abs_tol=1e-300):
            names = (other.sender, one.sender)
            sentence = f"{' and '.join(names)} differ about how far apart they were in round {t}"
            yield Flaw(kind="statement", sentence=sentence, servers=names, round=t)
            return


def _jobs(said: Mapping[str, Statement]) -> Iterator[Flaw]:
    """An earlier job had one contract, whoever tells of it."""
    first: dict[str, tuple[str, str]] = {}
    for name, statement in said.items():
        for job in statement.earlier:
            other, terms = first.setdefault(job.job, (name, job.terms))
            if terms != job.terms:
                sentence = f"{other} and {name} tell of different terms of job {job.job}"
                yield Flaw(kind="statement", sentence=sentence, servers=(other, name))


def _total(contract: Contract, said: Mapping[str, Statement]) -> Iterator[Flaw]:
    """Of masked rows nothing but the total can be checked; of others each was."""
    if not contract.masked or len(said) < len(contract.servers):
        return
    rows = {name: statement.vector(contract)[0] for name, statement in said.items()}
    places = [place_of(statement, contract) for statement in said.values()]
    if sums_participant.impossible(masks.total(rows, contract.servers), contract, places):
        wrong = "the total of the masked sums is none that so many records can have"
        sentence = f"{wrong}: some server sent another row than its own, and masks hide which"
        yield Flaw(kind="total", sentence=sentence)
