"""From all statements to the result: one folder, equal to the byte whoever makes it.

    study.toml  statements/NAME.statement  model.json  report.html  evidence/NAME.evidence

Nothing in it depends on who assembled it, when, where, or with which libraries. Where statements
contradict each other there is no model: the folder holds them and what proves who is to blame.
"""

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pdml.consortium import consistency
from pdml.consortium.consistency import Flaw, Mismatch
from pdml.consortium.outcome import ConsortiumResult, Part
from pdml.errors import InvalidInput
from pdml.files import atomic_write, sync_folder
from pdml.node.protocol import signed_statement
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.signed_statement import Statement, open_statement
from pdml.study import Study
from pdml.study.schema import template

STUDY, MODEL, PAGE = "study.toml", "model.json", "report.html"
STATEMENTS, STATEMENT = "statements", ".statement"
EVIDENCE, PROOF = "evidence", ".evidence"


@dataclass(frozen=True, kw_only=True)
class SignedResult:
    """The end of a job, as its statements tell it. `assemble` makes one."""

    study: Study
    contract: JobTerms
    signed: Mapping[str, bytes]  # statements by server, in the study's order
    statements: Mapping[str, Statement]  # the same, opened

    @cached_property
    def mismatches(self) -> list[Mismatch]:
        """Who differs about what was sent: ask each ``hearer`` for its voucher, which proves it."""
        return consistency.mismatches(self.contract, self.statements)

    @cached_property
    def problems(self) -> list[Flaw]:
        """Why there is no model; empty if there is one."""
        flaws = [mismatch.problem for mismatch in self.mismatches]
        flaws += consistency.disagreements(self.study, self.contract, self.statements)
        return flaws + consistency.budget_flaws(self.study, self.outcome)

    @cached_property
    def outcome(self) -> ConsortiumResult:
        """What the servers have released and spent."""
        sources = {statement.source for statement in self.statements.values()}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in self.signed.items()}
        return ConsortiumResult(
            contract=self.contract,
            parts=tuple(self._part(statement) for statement in self.statements.values()),
            source=sources.pop() if len(sources) == 1 else "simulated",  # one that protects nobody
            separate_nodes=True,
            statements=digests,
        )

    def _levels(self, statement: Statement) -> tuple[float, ...]:
        """Of the menu, those that may be in use: a statement tells the smallest and the largest."""
        return signed_statement.spec_of(statement, self.contract).epsilons

    def _part(self, statement: Statement) -> Part:
        gaps = zip(*(neighbour.apart for neighbour in statement.heard), strict=True)
        return Part(
            server=statement.server,
            records=statement.records,
            released=self._released(statement),
            apart=[max(distances) for distances in gaps][:-1],
            label_epsilon=statement.label_epsilon,
            epsilons=self._levels(statement),
            events=statement.spent,
            earlier=statement.spent_before,
            released_before=statement.before,
            randomised_by=statement.randomised_by,
        )

    def _released(self, statement: Statement) -> NDArray[Any]:
        """The last vector, or the row of sums."""
        sent = statement.vector(self.contract)
        return sent[0] if self.contract.sums else sent


DrawPage = Callable[[SignedResult], str]
"""The page of a result as HTML: `pdml.pages.result_page.result_page`."""


def assemble(study: Study, contract: JobTerms, signed: Mapping[str, bytes]) -> SignedResult:
    """What the statements of all servers say together."""
    if missing := [name for name in contract.servers if name not in signed]:
        raise InvalidInput(f"a result needs every server's statement, got none of {missing[0]}")
    ordered = {name: signed[name] for name in contract.servers}
    keys = study.signing_keys
    statements = {
        name: open_statement(data, contract, name, keys) for name, data in ordered.items()
    }
    return SignedResult(study=study, contract=contract, signed=ordered, statements=statements)


def files_of(
    result: SignedResult,
    page: DrawPage,
    evidence: Mapping[str, bytes] | None = None,
) -> dict[str, bytes]:
    """The files of a result's folder."""
    files = {STUDY: template.plain(result.study).encode()}
    files |= {f"{STATEMENTS}/{name}{STATEMENT}": data for name, data in result.signed.items()}
    files |= {f"{EVIDENCE}/{name}{PROOF}": data for name, data in (evidence or {}).items()}
    if not result.problems and not evidence:
        files[MODEL] = result.outcome.model(result.study).to_bytes()
        files[PAGE] = page(result).encode()
    return files


def write_result(
    folder: str | os.PathLike[str],
    result: SignedResult,
    page: DrawPage,
    evidence: Mapping[str, bytes] | None = None,
) -> None:
    """Write a result's folder, which appears whole or not at all."""
    target = Path(folder)
    if os.path.lexists(target):
        raise InvalidInput(f"cannot write the result to {folder}: it exists already")
    stage = target.absolute().parent / f".pdml-{secrets.token_hex(8)}"
    try:
        for name, data in files_of(result, page, evidence).items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            atomic_write(stage / name, data)
        os.rename(stage, target)
        sync_folder(target.absolute().parent)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidInput(f"cannot write the result to {folder}: {reason}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
