"""A result's folder: equal to the byte whoever writes it, and checked from itself alone.

    study.toml  statements/NAME.statement  model.json  report.html  evidence/NAME.evidence

Nothing in it depends on who assembled it, when, where, or with which libraries. Where statements
contradict each other there is no model: the folder holds them and what proves who is to blame.
"""

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pdml.errors import InvalidInput, NotVerified, PDMLError, PeerError, because, plain
from pdml.files import atomic_write, sync_folder
from pdml.node.job import job_result
from pdml.node.job.job_result import FORMAT, Flaw, JobResult
from pdml.node.protocol import equivocation, signed_statement
from pdml.node.protocol.equivocation import EquivocationProof
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.signed_statement import Statement
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.study.schema import template
from pdml.study.schema.toml_lines import MOST_BYTES
from pdml.training import sums_fit

STUDY, MODEL, PAGE = "study.toml", "model.json", "report.html"
STATEMENTS, STATEMENT = "statements", ".statement"
EVIDENCE, PROOF = "evidence", ".evidence"

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


def files_of(job: JobResult) -> dict[str, bytes]:
    from pdml.pages.result_page import result_page  # not before there is a result to draw

    files = {STUDY: template.plain(job.study).encode()}
    files |= {f"{STATEMENTS}/{name}{STATEMENT}": data for name, data in job.signed.items()}
    files |= {f"{EVIDENCE}/{name}{PROOF}": data for name, data in job.evidence.items()}
    if not job.problem:
        files[MODEL] = job.model.to_bytes()
        files[PAGE] = result_page(job).encode()
    return files


def write_result(folder: str | os.PathLike[str], job: JobResult) -> None:
    """Write the result of a job as a folder of its own, the same bytes at every member.

    After an exchange of sums the organisation's own model, `JobResult.local_model`, is written too:
    into its node's folder (`NodeDirectory.local_model_path`), for itself alone.

    Parameters
    ----------
    folder : path
        It must not exist yet, and appears whole or not at all.
    job : JobResult
        Of `train_nodes` or `load_job_result`.

    Raises
    ------
    InvalidInput
        If the folder exists or cannot be written.
    """
    target = Path(folder)
    if os.path.lexists(target):
        raise InvalidInput(f"cannot write the result to {folder}: it exists already")
    stage = target.absolute().parent / f".pdml-{secrets.token_hex(8)}"
    try:
        for name, data in files_of(job).items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            atomic_write(stage / name, data)
        os.rename(stage, target)
        sync_folder(target.absolute().parent)
    except OSError as error:
        raise InvalidInput(f"cannot write the result to {folder}: {because(error)}") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    job.save_local_model()


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What `verify_result` says of a folder: without problems all is proved, or a signed claim."""

    problems: tuple[Flaw, ...]
    unchecked: tuple[str, ...] = ()  # files that may differ: a model by last digits, a page wholly
    study: str = ""  # its hash
    agreed: bool = False  # whether it was compared with that of the study you agreed on
    study_id: str = ""
    job: str = ""
    rounds: int = 0
    servers: tuple[str, ...] = ()
    equivocated: tuple[EquivocationProof, ...] = ()  # proved

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def checked(self) -> tuple[str, ...]:
        """What was checked and is right, in sentences; nothing where there are problems."""
        if not self.ok:
            return ()
        digits = " but for last digits" if MODEL in self.unchecked else " to the byte"
        return (
            f"{STUDY} is one study, in the one spelling that a result has"
            + (", and the one that you agreed on." if self.agreed else "."),
            f"{STATEMENTS}/ holds a statement of every server, signed by the key that the study "
            "pins for it.",
            "What each server says it sent is what the others say they heard.",
            "What each server says it spent is the plan's for the records it states, over all "
            "jobs it states, within the study's budget.",
            f"{MODEL} is what the statements give, compared{digits}: weights, expected accuracy, "
            "privacy figures, all of it.",
            *([] if PAGE in self.unchecked else [f"{PAGE} is what they give, to the byte."]),
            f"There is no other file, and no {EVIDENCE}/ against anybody.",
        )

    @property
    def not_checked(self) -> tuple[str, ...]:
        """What nothing in the folder vouches for, in sentences."""
        sentences = []
        if not self.agreed:
            sentences.append(f"whether {STUDY} is the study you agreed on: compare its hash.")
        if MODEL in self.unchecked:
            sentences.append(
                f"the last digits of {MODEL}: weights differ by one step of their grid (2^-24 of "
                "the largest), or expected figures by 0.0001, from what this machine computes."
            )
        if PAGE in self.unchecked:
            sentences.append(
                f"{PAGE}: it is not the page that this machine draws. Do not rely on it."
            )
        sentences.append(
            "what each server claims of itself: how many records it has and whose, who randomised "
            "them, that it drew its noise, and that it left out no job."
        )
        return tuple(sentences)

    def check(self) -> None:
        """Raise `NotVerified` if there are problems.

        Raises
        ------
        NotVerified
            With the first problem in its sentence, and all of them in ``problems``.
        """
        if self.problems:
            more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
            sentence = f"the result is refused: {self.problems[0].sentence}{more}"
            raise NotVerified(sentence, self.problems)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "ok": self.ok,
            "study": self.study_id,
            "study_hash": self.study,
            "job": self.job,
            "rounds": self.rounds,
            "servers": list(self.servers),
            "unchecked": list(self.unchecked),
            "checked": list(self.checked),
            "not_checked": list(self.not_checked) if self.ok else [],
            "equivocated": [proof.sender for proof in self.equivocated],
            "problems": [asdict(problem) for problem in self.problems],
        }


def verify_result(
    folder: str | os.PathLike[str], *, study: str = "", allow_unchecked: bool = False
) -> Verification:
    """Check every byte of a result's folder.

    Parameters
    ----------
    folder : path
        As `write_result` wrote it.
    study : str, optional
        The hash of the study that you agreed on; "" takes the folder's.
    allow_unchecked : bool, optional
        Accept a model of sums whose last digits are not those that this machine computes, and the
        page beside it; they are named in ``unchecked``.

    Returns
    -------
    Verification
        With every problem.

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
    return _FolderCheck(root, allow_unchecked).verify(study)


@dataclass
class _FolderCheck:
    """One pass over a folder; problems gather on the way."""

    root: Path
    allow_unchecked: bool
    problems: list[Flaw] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    jobs: list[JobTerms] = field(default_factory=list)  # which the study allows at most

    def verify(self, wanted: str) -> Verification:
        study = self._study(wanted)
        if study is None:
            return Verification(problems=tuple(self.problems))
        names = tuple(server.name for server in study.servers)
        self.jobs = JobTerms.largest(study)
        self._check_listing(names)
        signed, terms = self._statements(study)
        statements = self._open_statements(study, terms, signed) if terms is not None else {}
        proofs = self._evidence(study, terms, statements)
        if terms is not None:
            self._compare(study, terms, signed, statements, proofs)
        return Verification(
            problems=tuple(self.problems),
            unchecked=tuple(self.unchecked),
            study=study.hash,
            agreed=bool(wanted),
            study_id=study.id,
            job="" if terms is None else terms.job,
            rounds=0 if terms is None else terms.plan.rounds,
            servers=names,
            equivocated=tuple(proofs),
        )

    def _statement_limit(self, server: str) -> int:
        """The most bytes that its statement can have under this study, whatever the job."""
        return max((signed_statement.most_bytes(job, server) for job in self.jobs), default=0)

    def _reject(self, kind: str, sentence: str, *servers: str, round: int = 0) -> None:
        self.problems.append(
            Flaw(kind=kind, sentence=plain(sentence), servers=servers, round=round)
        )

    def _read(self, name: str, most: int, kind: str = "file") -> bytes | None:
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
            self._reject(kind, f"{name} cannot be read: {because(error)}")
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
            data = self._read(file, self._statement_limit(server.name))
            if data is not None:
                signed[server.name] = data
        unreadable = []
        for name, data in signed.items():
            try:
                return signed, _job_terms(study, name, data)
            except (PDMLError, TypeError) as error:
                unreadable.append((str(error), name))
        for sentence, name in unreadable:
            self._reject("statement", sentence, name)
        return signed, None

    def _open_statements(
        self, study: Study, terms: JobTerms, signed: Mapping[str, bytes]
    ) -> dict[str, Statement]:
        statements, keys = {}, study.signing_keys
        for name, data in signed.items():
            try:
                statements[name] = signed_statement.open_statement(data, terms, name, keys)
            except PDMLError as error:
                self._reject("statement", str(error), name)
        return statements

    def _evidence(
        self, study: Study, terms: JobTerms | None, statements: Mapping[str, Statement]
    ) -> list[EquivocationProof]:
        """Each server against whom something is proved, be it in a job without statements."""
        proofs = []
        digest = "" if terms is None else terms.digest
        sent = {name: statement.sent for name, statement in statements.items()}
        for name in (server.name for server in study.servers):
            file = f"{EVIDENCE}/{name}{PROOF}"
            if not os.path.lexists(self.root / file):
                continue
            data = self._read(file, _MOST_EVIDENCE + 2 * self._statement_limit(name))
            try:
                proof = equivocation.verify_evidence(
                    data or b"", digest, study.signing_keys, sent_digests=sent
                )
                if proof.sender != name:
                    raise PeerError(f"it is about {proof.sender}")
                proofs.append(proof)
                # Whoever signs two things may have signed anything: `_reject` makes it plain.
                self._reject("equivocation", proof.sentence, proof.sender, round=proof.round)
            except PDMLError as error:
                self._reject("evidence", f"{file}: {error}", name)
        return proofs

    def _compare(
        self,
        study: Study,
        terms: JobTerms,
        signed: Mapping[str, bytes],
        statements: Mapping[str, Statement],
        proofs: list[EquivocationProof],
    ) -> None:
        guilty = {proof.sender for proof in proofs}
        mismatches = job_result.mismatches(terms, statements)
        self.problems += [flaw for flaw in mismatches if flaw.servers[1] not in guilty]
        self.problems += job_result.disagreements(study, terms, statements)
        if len(statements) < len(terms.servers):
            return
        job = JobResult(study=study, terms=terms, signed=signed, statements=statements)
        self.problems += job.budget_flaws
        if self.problems:  # no model should be there, and whatever is there is refused already
            return
        files = files_of(job)
        model = self._read(MODEL, len(files[MODEL]) * (1 + terms.sums) + _MOST_WORDS, "model")
        near = (
            model != files[MODEL]
            and terms.sums
            and sums_fit.equal_up_to_rounding(model or b"", files[MODEL])
        )
        if near and self.allow_unchecked:
            self.unchecked.append(MODEL)
        elif near:
            self._reject("model", f"{MODEL} {_LAST_DIGITS}")
        elif model is not None and model != files[MODEL]:
            match = re.search(rb'"result": "pdml-result/([0-9]{1,9})"', model)
            version = int(match[1]) if match else FORMAT.version
            why = FORMAT.refusal(version, "it") or "it was changed"
            self._reject("model", f"{MODEL} is not what the statements give: {why}")
        page = self._read(PAGE, _MOST_PAGE if near else len(files[PAGE]), "page")
        if page is None or page == files[PAGE]:
            return
        if near and self.allow_unchecked:
            self.unchecked.append(PAGE)
        else:
            self._reject("page", f"{PAGE} {_CANNOT_CHECK if near else _CHANGED}")


def _job_terms(study: Study, server: str, data: bytes) -> JobTerms:
    statement = signed_statement.signed_by(data, server, study.signing_keys)
    return JobTerms.for_study(study, TrainingPlan.from_dict(dict(statement.plan)), statement.job)


def _is_empty(folder: Path) -> bool:
    """Whether it is a folder, and no link, with nothing in it."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def _names(root: Path) -> Iterator[str]:
    for entry in os.scandir(root):
        yield entry.name
        if entry.name in (STATEMENTS, EVIDENCE) and entry.is_dir(follow_symlinks=False):
            yield from (f"{entry.name}/{inner.name}" for inner in os.scandir(entry))
