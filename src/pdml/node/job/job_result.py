"""What a job under a study gives: a `TrainingResult` from what every server handed over, whichever
engine carried it; and from the statements of all, with whatever is wrong between them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pdml._types import Array
from pdml._version import __version__
from pdml.accounting import Reports
from pdml.errors import InvalidInput, PDMLError
from pdml.formats import Format
from pdml.model.model import Model
from pdml.node.job import consistency, sums_participant
from pdml.node.job import statements as job_statements
from pdml.node.job.consistency import Flaw, Mismatch
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.signed_statement import Statement, open_statement, spec_of
from pdml.node.storage.journal import JobState
from pdml.node.storage.node_dir import NodeDirectory
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
) -> TrainingResult:
    """The result of a job: of separate nodes, with the sha256 of each one's statement, or of one
    trust domain, where nobody kept a journal.
    """
    # Members of all versions make the same of the same statements.
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
        producer=by_statements if statements else {"pdml_version": __version__},
    )


@dataclass(frozen=True, kw_only=True)
class SignedJob:
    """The end of a job between organisations, as its statements tell it. `assemble` makes one."""

    study: Study
    terms: JobTerms
    signed: Mapping[str, bytes]  # statements by server, in the study's order
    statements: Mapping[str, Statement]  # the same, opened

    @cached_property
    def mismatches(self) -> list[Mismatch]:
        """Who differs about what was sent: ask each ``receiver`` for its voucher, which proves
        it.
        """
        return consistency.mismatches(self.terms, self.statements)

    @cached_property
    def problems(self) -> list[Flaw]:
        """Why there is no model; empty if there is one."""
        flaws = [mismatch.problem for mismatch in self.mismatches]
        flaws += consistency.disagreements(self.study, self.terms, self.statements)
        return flaws + consistency.budget_flaws(self.study, self.result.ledger)

    @cached_property
    def result(self) -> TrainingResult:
        """What the servers have released and spent."""
        sources = {statement.source for statement in self.statements.values()}
        rounds = [
            max(max(distances) for distances in at_all)
            for at_all in zip(*map(_distances, self.statements.values()), strict=True)
        ]
        return study_result(
            self.study,
            self.terms,
            [self._part(statement) for statement in self.statements.values()],
            source=sources.pop() if len(sources) == 1 else "simulated",  # one that protects nobody
            distances=rounds[:-1],
            statements={
                name: hashlib.sha256(data).hexdigest() for name, data in self.signed.items()
            },
        )

    def _part(self, statement: Statement) -> ServerPart:
        vector = statement.vector(self.terms)
        return ServerPart(
            name=statement.server,
            spec=spec_of(statement, self.terms),
            released=vector[0] if self.terms.sums else vector,
            events=statement.spent,
            earlier=statement.spent_before,
            released_before=statement.before,
            randomised_by=statement.randomised_by,
        )


def _distances(statement: Statement) -> list[tuple[float, ...]]:
    """Of every round, how far the neighbours' releases lay from its own."""
    return list(zip(*(neighbour.apart for neighbour in statement.heard), strict=True))


def assemble(study: Study, terms: JobTerms, signed: Mapping[str, bytes]) -> SignedJob:
    """What the statements of all servers say together."""
    if missing := [name for name in terms.servers if name not in signed]:
        raise InvalidInput(f"a result needs every server's statement, got none of {missing[0]}")
    ordered = {name: signed[name] for name in terms.servers}
    keys = study.signing_keys
    statements = {name: open_statement(data, terms, name, keys) for name, data in ordered.items()}
    return SignedJob(study=study, terms=terms, signed=ordered, statements=statements)


@dataclass(frozen=True, kw_only=True)
class NodeJob:
    """A job that is done, at one node: everybody's statements, and what only this node knows."""

    job: SignedJob
    home: NodeDirectory
    dataset: str  # the digest of what it trained on
    training_data: TrainingData | None = None  # what it trains on now, if that has been read

    @classmethod
    def load(
        cls, home: NodeDirectory, name: str, training_data: TrainingData | None = None
    ) -> "NodeJob":
        """From the journal, with the revision of the study under which the job was done."""
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
            plan, under = job_statements.plan_of(entry)
            study = home.revision(under)
            terms = JobTerms.for_study(study, plan, name)
            job = assemble(study, terms, journal.statements(name))
        return cls(job=job, home=home, dataset=entry.dataset, training_data=training_data)

    @cached_property
    def local_model(self) -> Model | None:
        """After an exchange of sums, the model for this organisation's own use: from its exact sums
        and the others' noisy ones, never to be shared. None after rounds, or if the node has
        another data set or other keys by now: only they tell its own sums, and its own row.
        """
        terms, name = self.job.terms, self.home.name
        if not terms.sums:
            return None
        try:
            data = self.training_data or self.home.load_training_data()
            shared = self.home.shared(self.job.study) if terms.masked else {}
        except PDMLError:
            return None
        if data.dataset != self.dataset:
            return None
        result, server = self.job.result, data.server
        row = result.parts[server.spec.server].released
        if terms.masked:
            row = sums_participant.remove_masks(row, terms, name, shared)
        sums = sums_release.exact(server, terms.plan)
        weights = sums_release.local_weights(sums, row, result.total, terms.plan, server.spec)
        return result.local_model(name, weights)

    def save_local_model(self) -> Path | None:
        """Write it into the node's folder, for its owner alone; None if there is none, or the
        job has no result.
        """
        name = self.job.terms.job
        accused = any(self.home.evidence(name).glob("*.evidence"))
        if self.job.problems or accused or self.local_model is None:
            return None
        path = self.home.local_model_path(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.local_model.save(path)
        return path


def write_local_model(home: NodeDirectory, job: str, data: TrainingData) -> Path | None:
    """Write the local model of a job that is done, as a node does by itself when a job ends."""
    return NodeJob.load(home, job, data).save_local_model()
