"""Do the statements of one job agree with each other and with the study?

Each by itself was checked before (`open_statement`). What one says it sent another says it heard,
in every round and on every link. What nobody can contradict (how many records a node has, where its
labels and its noise come from) is its own word.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import isclose

from pdml.accounting import Budget, Ledger
from pdml.accounting.event_codec import CLOSE
from pdml.errors import PDMLError
from pdml.mechanisms import masks
from pdml.node.job import sums_participant
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.signed_statement import (
    DIGEST,
    NeighbourReleases,
    Statement,
    digest_of,
    spec_of,
)
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
    """``receiver`` says it heard something else in ``round`` than ``sender`` says it sent."""

    sender: str
    receiver: str
    round: int
    sent_digest: str  # digests
    received_digest: str

    @property
    def problem(self) -> Flaw:
        """As long as nobody has shown a signature."""
        claim = f"{self.sender} says it sent {self.sent_digest[:16]} in round {self.round}"
        counterclaim = f"{self.receiver} says it heard {self.received_digest[:16]} from it"
        duty = f"who hears holds the sender's signature, and {self.receiver} has not shown it"
        return Flaw(
            kind="mismatch",
            sentence=f"{claim}, but {counterclaim}: {duty}",
            servers=(self.receiver, self.sender),
            round=self.round,
        )


def mismatches(terms: JobTerms, statements: Mapping[str, Statement]) -> list[Mismatch]:
    """Where two servers differ about what passed between them: the first round of each link."""
    differences = []
    for hearer in terms.servers:
        for neighbour in statements[hearer].heard if hearer in statements else ():
            if (
                neighbour.sender not in statements
                or statements[neighbour.sender].sent == neighbour.digests
            ):
                continue
            sent = statements[neighbour.sender].sent
            rounds = range(1, 1 + len(sent) // DIGEST)
            t = next(t for t in rounds if digest_of(sent, t) != digest_of(neighbour.digests, t))
            differences.append(
                Mismatch(
                    sender=neighbour.sender,
                    receiver=hearer,
                    round=t,
                    sent_digest=digest_of(sent, t),
                    received_digest=digest_of(neighbour.digests, t),
                )
            )
    return differences


def disagreements(study: Study, terms: JobTerms, statements: Mapping[str, Statement]) -> list[Flaw]:
    """What else is wrong between opened statements, and between them and the study."""
    flaws = [
        *_study_flaws(study, statements),
        *_sources(statements),
        *_links(terms, statements),
        *_jobs(statements),
    ]
    return flaws + list(_total(terms, statements))


def budget_flaws(study: Study, ledger: Ledger) -> list[Flaw]:
    """Whether some data set has spent more than the study allows, all its jobs counted.

    A plan may meet a budget to the last digit, and another machine compute that digit differently:
    a billionth more is not held against anybody.
    """
    budget = study.budget or Budget()
    allowed = replace(
        budget,
        features_epsilon=budget.features_epsilon * (1 + CLOSE),
        labels_epsilon=budget.labels_epsilon * (1 + CLOSE),
    )
    try:
        ledger.check(allowed)
    except PDMLError as error:
        return [Flaw(kind="budget", sentence=f"the budget is exceeded: {error}")]
    return []


def _study_flaws(study: Study, statements: Mapping[str, Statement]) -> Iterator[Flaw]:
    study_plan = study.plan
    for name, statement in statements.items():
        faults = []
        if statement.records < study.min_records:
            least = f"the study asks for {study.min_records:,}"
            faults.append(f"trained on {statement.records:,} records, but {least}")
        for epsilon in {statement.epsilon, statement.label_epsilon} - set(study.menu):
            faults.append(f"tells of labels with epsilon {epsilon:g}, which is not on the menu")
        for job in statement.earlier:
            if study_plan not in (None, TrainingPlan.from_dict(dict(job.plan))):
                faults.append(
                    f"tells of another plan than the study's in the earlier job {job.job}"
                )
        for words in faults:
            yield Flaw(kind="statement", sentence=f"{name} {words}", servers=(name,))


def _sources(statements: Mapping[str, Statement]) -> Iterator[Flaw]:
    """One page says of everybody's noise where it came from: so it must be one source."""
    named: dict[str, list[str]] = {}
    for name, statement in statements.items():
        named.setdefault(statement.source, []).append(name)
    if len(named) > 1:
        words = "; ".join(f"{', '.join(names)}: {source}" for source, names in named.items())
        few = min(named.values(), key=len)
        sentence = f"the servers say that their noise came from different sources ({words})"
        yield Flaw(kind="statement", sentence=sentence, servers=tuple(few))


def _links(terms: JobTerms, statements: Mapping[str, Statement]) -> Iterator[Flaw]:
    """What both ends of a link know: data sets, their earlier releases, and distances."""
    releases = {(who, other.sender): other for who in statements for other in statements[who].heard}
    for i, k in terms.graph.edges:
        first, other = terms.servers[i], terms.servers[k]
        for sender, hearer in ((first, other), (other, first)):
            if sender in statements and hearer in statements:
                yield from _dataset_flaws(statements[sender], releases[hearer, sender], hearer)
        if (
            first in statements
            and other in statements
            and _same_vectors(statements, releases, first, other)
        ):
            yield from _distances(releases[first, other], releases[other, first])


def _dataset_flaws(sender: Statement, releases: NeighbourReleases, hearer: str) -> Iterator[Flaw]:
    if (releases.dataset, releases.before) != (sender.dataset, sender.before):
        name = sender.server
        claim = f"{name} states a data set with {sender.before} releases before this job"
        before = f"{hearer} says it was told of {releases.before}, or of another data set"
        sentence = f"{claim}, but {before}"
        yield Flaw(kind="statement", sentence=sentence, servers=(name, hearer))


def _same_vectors(
    statements: Mapping[str, Statement],
    releases: Mapping[tuple[str, str], NeighbourReleases],
    first: str,
    other: str,
) -> bool:
    """Whether both have the same vectors; else their distances differ for that reason."""
    there = releases[first, other].digests == statements[other].sent
    return there and releases[other, first].digests == statements[first].sent


def _distances(first: NeighbourReleases, other: NeighbourReleases) -> Iterator[Flaw]:
    """Both ends computed them from the same two vectors."""
    for t, (distance, other_distance) in enumerate(
        zip(first.apart, other.apart, strict=True), start=1
    ):
        if not isclose(distance, other_distance, rel_tol=CLOSE, abs_tol=1e-300):
            names = (other.sender, first.sender)
            sentence = f"{' and '.join(names)} differ about how far apart they were in round {t}"
            yield Flaw(kind="statement", sentence=sentence, servers=names, round=t)
            return


def _jobs(statements: Mapping[str, Statement]) -> Iterator[Flaw]:
    """An earlier job had one terms, whoever tells of it."""
    first: dict[str, tuple[str, str]] = {}
    for name, statement in statements.items():
        for job in statement.earlier:
            other, terms = first.setdefault(job.job, (name, job.terms))
            if terms != job.terms:
                sentence = f"{other} and {name} tell of different terms of job {job.job}"
                yield Flaw(kind="statement", sentence=sentence, servers=(other, name))


def _total(terms: JobTerms, statements: Mapping[str, Statement]) -> Iterator[Flaw]:
    """Of masked rows nothing but the total can be checked; of others each was."""
    if not terms.masked or len(statements) < len(terms.servers):
        return
    rows = {name: statement.vector(terms)[0] for name, statement in statements.items()}
    specs = [spec_of(statement, terms) for statement in statements.values()]
    if sums_participant.inconsistent_with_record_counts(
        masks.total(rows, terms.servers), terms, specs
    ):
        wrong = "the total of the masked sums is none that so many records can have"
        sentence = f"{wrong}: some server sent another row than its own, and masks hide which"
        yield Flaw(kind="total", sentence=sentence)
