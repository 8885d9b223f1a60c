"""What a job under a study gives: a `TrainingResult` of what every server released, and between
organisations the `JobResult`: everybody's statement, and whatever is wrong between them. What
nobody can contradict (how many records, whose labels and noise) is a server's own claim."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isclose
from pathlib import Path
from typing import Any

from pdml._types import Array
from pdml.accounting import Budget, Reports
from pdml.accounting.events import CLOSE
from pdml.errors import EngineError, InvalidInput, PDMLError
from pdml.formats import Format
from pdml.mechanisms import masks
from pdml.model.model import Model
from pdml.node.job import statements as job_statements
from pdml.node.job import sums_participant
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol import equivocation
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.signed_statement import (
    DIGEST,
    NeighbourReleases,
    Statement,
    digest_of,
    open_statement,
    spec_of,
)
from pdml.node.storage.journal import JobState
from pdml.node.storage.node_dir import NodeDirectory
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.training import sums_release
from pdml.training.result import (
    ALL_JOBS,
    SEPARATE_NODES,
    SINGLE_DOMAIN,
    THIS_JOB,
    ServerPart,
    TrainingResult,
    ledger_of,
    linked_history,
)

# Of model and page: another version where the same statements give others.
FORMAT = Format(name="result", version=1)
RESULT = f"pdml-result/{FORMAT.version}"

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


def study_result(
    study: Study,
    terms: JobTerms,
    parts: Sequence[ServerPart],
    *,
    source: str,
    distances: Sequence[float],
    statements: Mapping[str, str] | None = None,
    local_weights: Mapping[str, Array] | None = None,
    reports: Reports | None = None,
    date: str = "",
) -> TrainingResult:
    """The result of a job: of separate nodes, with the sha256 of their statements, or of one
    domain, with its ``date``."""
    # Members of all versions make the same of the same statements, on any day.
    by_statements = {"result": RESULT, "statements": dict(statements or {})}
    return TrainingResult(
        plan=terms.plan,
        graph=terms.graph,
        parts=tuple(parts),
        ledger=ledger_of(parts, source),
        history=linked_history(terms.plan, parts, distances),
        inputs={
            "classes": study.classes,
            "feature_names": study.encoder.feature_names,
            "encoder": study.encoder.to_dict(),
        },
        origin={
            "parties": SEPARATE_NODES if statements else SINGLE_DOMAIN,
            "study": study.id,
            "study_hash": terms.study,
            "job": terms.job,
            "terms": terms.digest,
            "servers": [part.name for part in parts],
            "labels_randomised_by": [part.randomised_by for part in parts],
            "earlier_releases": [part.released_before for part in parts],
        },
        counted=ALL_JOBS if statements else THIS_JOB,
        local_weights=local_weights or {},
        reports=reports,
        producer=by_statements if statements else {},
        date=date,
        data=terms.study,
    )


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """One reason to refuse a result."""

    kind: str  # one of `KINDS`
    sentence: str
    servers: tuple[str, ...] = ()  # whom it concerns; of a mismatch receiver and sender
    round: int = 0  # 0: none


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """The end of a job between organisations, as all have signed it: `load` reads one from a node,
    `assemble` makes one of statements.

    Attributes
    ----------
    study : Study
        The revision under which the job was done.
    terms : JobTerms
        What all agreed on.
    signed : mapping of str to bytes
        Statements by server, in the study's order.
    statements : mapping of str to Statement
        The same, opened.
    evidence : mapping of str to bytes
        Proofs against servers that said two things.
    home : NodeDirectory, optional
        The node it was read at; what only this node knows makes its local model.
    """

    study: Study
    terms: JobTerms
    signed: Mapping[str, bytes]
    statements: Mapping[str, Statement]
    evidence: Mapping[str, bytes] = field(default_factory=dict)
    home: NodeDirectory | None = None
    dataset: str = ""  # the digest of what this node trained on
    training_data: TrainingData | None = None  # what it trains on now, if that has been read

    @classmethod
    def load(
        cls, home: NodeDirectory, name: str, training_data: TrainingData | None = None
    ) -> "JobResult":
        """A finished job from the journal, with the evidence that is at the node by now."""
        journal = home.committed()
        if journal is None:
            raise InvalidInput(f"{home.name} has done no job yet")
        with closing(journal):
            entry = journal.job(name)
            if entry is None or entry.state != JobState.FINISHED:
                where = (
                    "is not known"
                    if entry is None
                    else f"stands at round {entry.round} and is not finished"
                )
                raise InvalidInput(f"job {name!r} {where} at {home.name}: there is no result yet")
            plan, study_hash = job_statements.plan_of(entry)
            study = home.revision(study_hash)
            signed = journal.statements(name)
        files = sorted(home.evidence(name).glob("*.evidence"))
        return assemble(
            study,
            JobTerms.for_study(study, plan, name),
            signed,
            evidence={file.stem: equivocation.read_stored(file) for file in files},
            home=home,
            dataset=entry.dataset,
            training_data=training_data,
        )

    @cached_property
    def mismatches(self) -> list[Flaw]:
        """Where two differ about what was sent, as long as nobody has shown a signature."""
        return mismatches(self.terms, self.statements)

    @cached_property
    def problems(self) -> list[Flaw]:
        """What is wrong between the statements."""
        flaws = self.mismatches + disagreements(self.study, self.terms, self.statements)
        return flaws + self.budget_flaws

    @cached_property
    def budget_flaws(self) -> list[Flaw]:
        """Whether some data set has overspent, all its jobs counted. A billionth more is no flaw:
        another machine computes other last digits."""
        budget = self.study.budget or Budget()
        limit = replace(
            budget,
            features_epsilon=budget.features_epsilon * (1 + CLOSE),
            labels_epsilon=budget.labels_epsilon * (1 + CLOSE),
        )
        try:
            self.stated_result.ledger.check(limit)
        except PDMLError as error:
            return [Flaw(kind="budget", sentence=f"the budget is exceeded: {error}")]
        return []

    @property
    def problem(self) -> str:
        """Why there is no model; "" if there is one."""
        if self.problems:
            return self.problems[0].sentence
        return f"there is evidence against {', '.join(self.evidence)}" if self.evidence else ""

    @cached_property
    def stated_result(self) -> TrainingResult:
        """What the statements say together, be they right or wrong."""
        sources = {statement.source for statement in self.statements.values()}
        by_round = zip(*map(_distances, self.statements.values()), strict=True)
        return study_result(
            self.study,
            self.terms,
            [self._part(statement) for statement in self.statements.values()],
            source=sources.pop() if len(sources) == 1 else "simulated",  # one that protects nobody
            distances=[max(map(max, distances)) for distances in by_round][:-1],
            statements={
                name: hashlib.sha256(data).hexdigest() for name, data in self.signed.items()
            },
        )

    @property
    def result(self) -> TrainingResult:
        """What all releases together tell; `EngineError` if there is no model."""
        if self.problem:
            raise EngineError(f"job {self.terms.job} has no model: {self.problem}")
        return self.stated_result

    @property
    def model(self) -> Model:
        """The model of `result`."""
        return self.result.model

    @cached_property
    def local_model(self) -> Model | None:
        """After an exchange of sums, the model for this organisation's own use, never to be shared:
        from its exact sums and the others' noisy ones. None after rounds, or if the node has
        another data set or other keys by now: only they tell its own sums, and its own row."""
        terms, home = self.terms, self.home
        if home is None or not terms.sums:
            return None
        try:
            data = self.training_data or home.load_training_data()
            shared = home.shared(self.study) if terms.masked else {}
        except PDMLError:
            return None
        if data.dataset != self.dataset:
            return None
        result, server = self.stated_result, data.server
        row = result.parts[server.spec.server].released
        if terms.masked:
            row = sums_participant.remove_masks(row, terms, home.name, shared)
        weights = sums_release.local_weights(server, row, result.total, terms.plan)
        return result.local_model(home.name, weights)

    def save_local_model(self) -> Path | None:
        """Into the node's folder, for its owner alone; None if there is none, or no result."""
        if self.home is None or self.problem or self.local_model is None:
            return None
        path = self.home.local_model_path(self.terms.job)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.local_model.save(path)
        return path

    def _part(self, statement: Statement) -> ServerPart:
        vector = statement.vector(self.terms)
        return ServerPart(
            name=statement.server,
            spec=spec_of(statement, self.terms),
            released=vector[0] if self.terms.sums else vector,
            events=statement.spent,
            earlier=statement.earlier_spending,
            released_before=statement.earlier_releases,
            randomised_by=statement.randomised_by,
        )


def assemble(
    study: Study, terms: JobTerms, signed: Mapping[str, bytes], **at_node: Any
) -> JobResult:
    """What the statements of all servers say together; ``at_node``: further fields."""
    if missing := [name for name in terms.servers if name not in signed]:
        raise InvalidInput(f"a result needs every server's statement, got none of {missing[0]}")
    ordered = {name: signed[name] for name in terms.servers}
    keys = study.signing_keys
    statements = {name: open_statement(data, terms, name, keys) for name, data in ordered.items()}
    return JobResult(study=study, terms=terms, signed=ordered, statements=statements, **at_node)


def write_local_model(home: NodeDirectory, job: str, data: TrainingData) -> Path | None:
    """Write the local model of a job that is done, as a node does by itself when a job ends."""
    return JobResult.load(home, job, data).save_local_model()


def _distances(statement: Statement) -> list[tuple[float, ...]]:
    """Of every round, how far the neighbours' releases lay from its own."""
    return list(zip(*(neighbour.distances for neighbour in statement.received), strict=True))


# Do statements agree? Each by itself was checked before (`open_statement`).


def mismatches(terms: JobTerms, statements: Mapping[str, Statement]) -> list[Flaw]:
    """Where two servers differ about what passed between them: the first round of each link."""
    flaws = []
    for receiver in terms.servers:
        for neighbour in statements[receiver].received if receiver in statements else ():
            sender, digests = neighbour.sender, neighbour.digests
            if sender not in statements or statements[sender].sent == digests:
                continue
            sent = statements[sender].sent
            rounds = range(1, 1 + len(sent) // DIGEST)
            t = next(t for t in rounds if digest_of(sent, t) != digest_of(digests, t))
            claim = f"{sender} says it sent {digest_of(sent, t)[:16]} in round {t}"
            counterclaim = f"{receiver} says it heard {digest_of(digests, t)[:16]} from it"
            duty = f"who hears holds the sender's signature, and {receiver} has not shown it"
            sentence = f"{claim}, but {counterclaim}: {duty}"
            servers = (receiver, sender)
            flaws.append(Flaw(kind="mismatch", sentence=sentence, servers=servers, round=t))
    return flaws


def disagreements(study: Study, terms: JobTerms, statements: Mapping[str, Statement]) -> list[Flaw]:
    """What else is wrong between opened statements, and between them and the study."""
    return [
        *_study_flaws(study, statements),
        *_sources(statements),
        *_links(terms, statements),
        *_jobs(statements),
        *_total(terms, statements),
    ]


def _study_flaws(study: Study, statements: Mapping[str, Statement]) -> Iterator[Flaw]:
    for name, statement in statements.items():
        faults = []
        if statement.records < study.min_records:
            least = f"the study asks for {study.min_records:,}"
            faults.append(f"trained on {statement.records:,} records, but {least}")
        for epsilon in {statement.epsilon, statement.label_epsilon} - set(study.menu):
            faults.append(f"tells of labels with epsilon {epsilon:g}, which is not on the menu")
        for job in statement.earlier_jobs:
            if study.plan not in (None, TrainingPlan.from_dict(dict(job.plan))):
                faults.append(
                    f"tells of another plan than the study's in the earlier job {job.job}"
                )
        for words in faults:
            yield Flaw(kind="statement", sentence=f"{name} {words}", servers=(name,))


def _sources(statements: Mapping[str, Statement]) -> Iterator[Flaw]:
    """One page says of everybody's noise where it came from: so it must be one source."""
    by_source: dict[str, list[str]] = {}
    for name, statement in statements.items():
        by_source.setdefault(statement.source, []).append(name)
    if len(by_source) > 1:
        words = "; ".join(f"{', '.join(names)}: {source}" for source, names in by_source.items())
        few = min(by_source.values(), key=len)
        sentence = f"the servers say that their noise came from different sources ({words})"
        yield Flaw(kind="statement", sentence=sentence, servers=tuple(few))


def _links(terms: JobTerms, statements: Mapping[str, Statement]) -> Iterator[Flaw]:
    """What both ends of a link know: data sets, their earlier releases, and distances."""
    received = {(name, of.sender): of for name in statements for of in statements[name].received}
    for i, k in terms.graph.edges:
        first, other = terms.servers[i], terms.servers[k]
        if first not in statements or other not in statements:
            continue
        ways = ((first, other), (other, first))
        for sender, receiver in ways:
            releases = received[receiver, sender]
            yield from _dataset_flaws(statements[sender], releases, receiver)
        # With different vectors their distances differ for that reason.
        if all(received[name, peer].digests == statements[peer].sent for name, peer in ways):
            yield from _distance_flaws(*(received[way] for way in ways))


def _dataset_flaws(sender: Statement, releases: NeighbourReleases, receiver: str) -> Iterator[Flaw]:
    """Whoever states fewer releases than it told of hides spending. More are no lie: a job that is
    resumed after others states these, too."""
    earlier = releases.earlier_releases
    if releases.dataset != sender.dataset or earlier > sender.earlier_releases:
        name = sender.server
        claim = f"{name} states a data set with {sender.earlier_releases} releases before this job"
        sentence = f"{claim}, but {receiver} says it was told of {earlier}, or of another data set"
        yield Flaw(kind="statement", sentence=sentence, servers=(name, receiver))


def _distance_flaws(first: NeighbourReleases, other: NeighbourReleases) -> Iterator[Flaw]:
    """Both ends computed them from the same two vectors."""
    pairs = zip(first.distances, other.distances, strict=True)
    for t, (distance, other_distance) in enumerate(pairs, start=1):
        if not isclose(distance, other_distance, rel_tol=CLOSE, abs_tol=1e-300):
            names = (other.sender, first.sender)
            sentence = f"{' and '.join(names)} differ about how far apart they were in round {t}"
            yield Flaw(kind="statement", sentence=sentence, servers=names, round=t)
            return


def _jobs(statements: Mapping[str, Statement]) -> Iterator[Flaw]:
    """Everybody tells the same terms of an earlier job."""
    first: dict[str, tuple[str, str]] = {}
    for name, statement in statements.items():
        for job in statement.earlier_jobs:
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
    total = masks.total(rows, terms.servers)
    if sums_participant.inconsistent_with_record_counts(total, terms, specs):
        wrong = "the total of the masked sums is none that so many records can have"
        sentence = f"{wrong}: some server sent another row than its own, and masks hide which"
        yield Flaw(kind="total", sentence=sentence)
