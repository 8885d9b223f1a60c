"""`pdml verify`: is a result what it says it is? From its folder alone; nobody is trusted.

What a folder cannot prove is that its study is the one you agreed on: compare its hash, which
`Verification` tells, or hand in your own.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pdml.consortium import consistency
from pdml.consortium.consistency import Flaw
from pdml.consortium.outcome import FORMAT
from pdml.consortium.result_folder import (
    EVIDENCE,
    MODEL,
    PAGE,
    PROOF,
    STATEMENT,
    STATEMENTS,
    STUDY,
    DrawPage,
    SignedResult,
    files_of,
)
from pdml.consortium.verdict import Verification
from pdml.errors import InvalidInput, PDMLError, PeerError, plain
from pdml.node.protocol import equivocation, signed_statement
from pdml.node.protocol.equivocation import EquivocationProof
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.signed_statement import Statement
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.study.schema import template
from pdml.study.schema.toml_lines import MOST_BYTES
from pdml.training import sums_fit

_MOST_WORDS = 1 << 10  # bytes by which another version's model may be longer: it is named
_MOST_EVIDENCE = 1 << 20  # bytes, beyond two statements
_MOST_PAGE = 1 << 24  # bytes of a page that another machine has drawn
_LISTED = 20  # unknown files that are told
_CHANGED = "is not what the statements give: it was changed"
_ELSEWHERE = (
    "Verify on the machine where the result was made, or accept {what} with --allow-unchecked "
    "(allow_unchecked=True)"
)
_LAST_DIGITS = (
    "is not what the statements give here: numbers in it differ in their last digit. Another "
    "machine computed it, or somebody changed it. " + _ELSEWHERE.format(what="these digits")
)
_CANNOT_CHECK = (
    "cannot be checked: it is not the page that this machine draws, and the last digits of "
    f"{MODEL} are not this machine's. " + _ELSEWHERE.format(what="everything but the page")
)


def verify_result(
    folder: str | os.PathLike[str],
    *,
    page: DrawPage,
    study: str = "",
    allow_unchecked: bool = False,
) -> Verification:
    """Check every byte of a result's folder.

    Parameters
    ----------
    folder : path
        As `pdml.consortium.result_folder.write_result` wrote it.
    page : callable
        `pdml.pages.result_page.result_page`: the page is drawn again and compared.
    study : str, optional
        The hash of the study that you agreed on; "" takes the folder's.
    allow_unchecked : bool, optional
        Accept a model of sums whose last digits are not those that this machine computes, and the
        page beside it; they are named in ``unchecked``.

    Returns
    -------
    Verification
        With every problem that was found.

    Raises
    ------
    InvalidInput
        If there is no such folder.

    Guarantees
    ----------
    - Sizes are bounded by the study before anything is read, and signatures checked before anything
      of a statement is parsed.
    - Without problems: every statement is signed by the key that the study pins; what each says it
      sent, its neighbours say they heard; model and page are what the statements give; everybody's
      spending is the plan's for the records it states, over all jobs it states, within the budget.
    - A changed, missing or additional byte or file is a problem.
    - A model of sums is rounded to a grid, computed again and compared to the byte. Machines may
      still disagree by one step of the grid (`totals.near`): that is a problem, or with
      ``allow_unchecked`` a name in ``unchecked``, and so is a page that differs beside it.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InvalidInput(f"{folder} must be the folder of a result, got no folder")
    return _FolderCheck(root, page, allow_unchecked).verify(study)


@dataclass
class _FolderCheck:
    """One pass over a folder; problems gather on the way."""

    root: Path
    page: DrawPage
    allow_unchecked: bool
    problems: list[Flaw] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    statement_limit: Callable[[str], int] = field(
        default=lambda server: 0
    )  # bytes of its statement

    def verify(self, wanted: str) -> Verification:
        study = self._study(wanted)
        if study is None:
            return Verification(problems=tuple(self.problems))
        names = tuple(server.name for server in study.servers)
        self.statement_limit = _statement_limit(study)
        self._check_listing(names)
        signed, contract = self._statements(study)
        statements = self._open_statements(study, contract, signed) if contract is not None else {}
        proofs = self._evidence(study, contract, statements)
        if contract is not None:
            self._compare(study, contract, signed, statements, proofs)
        return Verification(
            problems=tuple(self.problems),
            unchecked=tuple(self.unchecked),
            study=study.hash,
            agreed=bool(wanted),
            study_id=study.id,
            job="" if contract is None else contract.job,
            rounds=0 if contract is None else contract.plan.rounds,
            servers=names,
            equivocated=tuple(proofs),
        )

    def _reject(self, kind: str, sentence: str, *servers: str) -> None:
        self.problems.append(Flaw(kind=kind, sentence=plain(sentence), servers=servers))

    def _read(self, name: str, most: int, kind: str = "file") -> bytes | None:
        """A regular file of at most so many bytes."""
        path = self.root / name
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                self._reject(kind, f"{name} must be an ordinary file")
            elif status.st_size > most:
                size = f"{status.st_size:,} bytes"
                self._reject(kind, f"{name} has {size}, more than the {most:,} it can have")
            else:
                with open(path, "rb") as file:
                    return file.read(most + 1)
        except OSError as error:
            self._reject(kind, f"{name} cannot be read: {(error.strerror or str(error)).lower()}")
        return None

    def _study(self, wanted: str) -> Study | None:
        data = self._read(STUDY, MOST_BYTES)
        if data is None:
            return None
        try:
            study = Study.from_text(data.decode(), STUDY)
        except (PDMLError, UnicodeDecodeError) as error:
            self._reject("study", f"{STUDY} cannot be read: {error}")
            return None
        if template.plain(study).encode() != data:
            self._reject("study", f"{STUDY} is not written as a result writes it: it was changed")
        if wanted and study.hash != wanted:
            self._reject("study", f"{STUDY} is the study {study.hash}, not {wanted}")
        for name in sorted({server.name for server in study.servers} - set(study.signing_keys)):
            self._reject("study", f"the study pins no key of {name}: nobody can check it", name)
        return study

    def _check_listing(self, names: tuple[str, ...]) -> None:
        for folder in (STATEMENTS, EVIDENCE):
            if (self.root / folder).is_symlink():
                self._reject("file", f"{folder} must be an ordinary folder, and is a link")
        if _is_empty(self.root / EVIDENCE):
            self._reject(
                "evidence",
                f"{EVIDENCE} is empty: a result has this folder only for what proves something "
                "against a server, which was taken out, or the folder was put there",
            )
        expected = {STUDY, MODEL, PAGE, STATEMENTS, EVIDENCE}
        expected |= {f"{STATEMENTS}/{name}{STATEMENT}" for name in names}
        expected |= {f"{EVIDENCE}/{name}{PROOF}" for name in names}
        paths = set(islice(_names(self.root), len(expected) + _LISTED))  # of a million, some
        for name in sorted(paths - expected)[:_LISTED]:
            self._reject("file", f"{name!r} is no part of a result: nothing vouches for it")

    def _statements(self, study: Study) -> tuple[dict[str, bytes], JobTerms | None]:
        """The signed bytes that are there, and the job that the first readable one is about."""
        signed: dict[str, bytes] = {}
        for server in study.servers:
            file = f"{STATEMENTS}/{server.name}{STATEMENT}"
            data = self._read(file, self.statement_limit(server.name))
            if data is not None:
                signed[server.name] = data
        unreadable = []
        for name, data in signed.items():
            try:
                return signed, _contract(study, name, data)
            except (PDMLError, TypeError) as error:
                unreadable.append((str(error), name))
        for sentence, name in unreadable:
            self._reject("statement", sentence, name)
        return signed, None

    def _open_statements(
        self,
        study: Study,
        contract: JobTerms,
        signed: Mapping[str, bytes],
    ) -> dict[str, Statement]:
        statements = {}
        for name, data in signed.items():
            try:
                keys = study.signing_keys
                statements[name] = signed_statement.open_statement(data, contract, name, keys)
            except PDMLError as error:
                self._reject("statement", str(error), name)
        return statements

    def _evidence(
        self,
        study: Study,
        contract: JobTerms | None,
        statements: Mapping[str, Statement],
    ) -> list[EquivocationProof]:
        """Each server against whom something is proved, be it in a job without statements."""
        proofs = []
        terms = "" if contract is None else contract.digest
        sent = {name: statement.sent for name, statement in statements.items()}
        for name in (server.name for server in study.servers):
            file = f"{EVIDENCE}/{name}{PROOF}"
            if not os.path.lexists(self.root / file):
                continue
            data = self._read(file, _MOST_EVIDENCE + 2 * self.statement_limit(name))
            try:
                proof = equivocation.verify_evidence(
                    data or b"", terms, study.signing_keys, sent_digests=sent
                )
                if proof.sender != name:
                    raise PeerError(f"it is about {proof.sender}")
                proofs.append(proof)
                self.problems.append(_equivocation_flaw(proof))
            except PDMLError as error:
                self._reject("evidence", f"{file}: {error}", name)
        return proofs

    def _compare(
        self,
        study: Study,
        contract: JobTerms,
        signed: Mapping[str, bytes],
        statements: Mapping[str, Statement],
        proofs: list[EquivocationProof],
    ) -> None:
        """Statements with each other, and the files with what they give."""
        guilty = {proof.sender for proof in proofs}
        for mismatch in consistency.mismatches(contract, statements):
            if mismatch.sender not in guilty:
                self.problems.append(mismatch.problem)
        self.problems += consistency.disagreements(study, contract, statements)
        if len(statements) < len(contract.servers):
            return
        result = SignedResult(study=study, contract=contract, signed=signed, statements=statements)
        self.problems += consistency.budget_flaws(study, result.outcome)
        if self.problems:  # no model should be there, and whatever is there is refused already
            return
        files = files_of(result, self.page)
        model = self._read(MODEL, len(files[MODEL]) * (1 + contract.sums) + _MOST_WORDS, "model")
        near = (
            model != files[MODEL]
            and contract.sums
            and sums_fit.equal_up_to_rounding(model or b"", files[MODEL])
        )
        if near and self.allow_unchecked:
            self.unchecked.append(MODEL)
        elif near:
            self._reject("model", f"{MODEL} {_LAST_DIGITS}")
        elif model is not None and model != files[MODEL]:
            why = FORMAT.refusal(_version(model), "it") or "it was changed"
            self._reject("model", f"{MODEL} is not what the statements give: {why}")
        page = self._read(PAGE, _MOST_PAGE if near else len(files[PAGE]), "page")
        if page is None or page == files[PAGE]:
            return
        if near and self.allow_unchecked:
            self.unchecked.append(PAGE)
        else:
            self._reject("page", f"{PAGE} {_CANNOT_CHECK if near else _CHANGED}")


def _statement_limit(study: Study) -> Callable[[str], int]:
    """The most bytes that a server's statement can have under this study, whatever the job."""
    jobs = JobTerms.largest(study)
    return lambda server: max((signed_statement.most_bytes(job, server) for job in jobs), default=0)


def _contract(study: Study, server: str, data: bytes) -> JobTerms:
    """The job that ``server`` says it was."""
    statement = signed_statement.signed_by(data, server, study.signing_keys)
    return JobTerms.for_study(study, TrainingPlan.from_dict(dict(statement.plan)), statement.job)


def _version(model: bytes) -> int:
    """In which form it says that it was made of the statements."""
    match = re.search(rb'"result": "pdml-result/([0-9]{1,9})"', model)
    return int(match[1]) if match else FORMAT.version


def _equivocation_flaw(proof: EquivocationProof) -> Flaw:
    return Flaw(
        kind="equivocation",
        sentence=plain(proof.sentence),  # whoever signs two things may have signed anything
        servers=(proof.sender,),
        round=proof.round,
    )


def _is_empty(folder: Path) -> bool:
    """Whether it is a folder, and no link, with nothing in it."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def _names(root: Path) -> Iterator[str]:
    """Everything in a result's folder, two levels deep."""
    for entry in os.scandir(root):
        yield entry.name
        if entry.name in (STATEMENTS, EVIDENCE) and entry.is_dir(follow_symlinks=False):
            yield from (f"{entry.name}/{inner.name}" for inner in os.scandir(entry))
