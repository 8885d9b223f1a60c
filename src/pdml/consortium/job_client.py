"""A study trained between organisations: a job offered by this organisation's node, followed to its
end, and the result that every member assembles alike.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from pdml import _validate
from pdml.consortium.result_folder import DrawPage, SignedResult, assemble, write_result
from pdml.errors import EngineError, InvalidInput, PDMLError
from pdml.model.model import Model
from pdml.node.job import statements, sums_participant
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol import equivocation
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import LONGEST_START
from pdml.node.storage.control_db import ENDED, CommandKind, ControlDatabase, OfferState, Status
from pdml.node.storage.journal import JobState, Journal
from pdml.node.storage.node_dir import JOURNAL, NodeDirectory
from pdml.planning.training_plan import TrainingPlan
from pdml.simulation.study_training import job_name, resolve_study_plan
from pdml.study import Study
from pdml.training import sums_release

_POLL = 0.2
_START_TIMEOUT = 15.0  # seconds that this organisation's own node may take to start
_EVIDENCE_TIMEOUT = 10.0  # seconds in which a member that heard another word shows it

Progress = Callable[[Mapping[str, int]], None]
"""Hears the round of every node, by name."""


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """The end of a job between organisations: everybody's statements, and proofs against whoever
    said two things.
    """

    result: SignedResult
    proofs: Mapping[str, bytes]  # by member
    home: NodeDirectory  # this organisation's node
    dataset: str  # the digest of what it trained on
    training_data: TrainingData | None = (
        None  # what it trains on now, if that has been read already
    )

    @property
    def problem(self) -> str:
        """Why there is no model; "" if there is one."""
        if self.result.problems:
            return self.result.problems[0].sentence
        return f"there is evidence against {', '.join(self.proofs)}" if self.proofs else ""

    @cached_property
    def model(self) -> Model:
        """What all releases together tell; `EngineError` if there is no model."""
        if self.problem:
            raise EngineError(f"job {self.result.contract.job} has no model: {self.problem}")
        return self.result.outcome.model(self.result.study)

    def save(self, folder: str | PathLike[str], page: DrawPage) -> None:
        """Write the result as a folder of its own, the same bytes at every member.

        After an exchange of sums the organisation's own model, `local_model`, is written too: into
        its node's folder (`NodeDirectory.local_model_path`), for itself alone.

        Parameters
        ----------
        folder : path
            It must not exist yet.
        page : callable
            Draws the page: `pdml.pages.result_page.result_page`.
        """
        write_result(Path(folder), self.result, page, self.proofs)
        self.save_local_model()

    def save_local_model(self) -> Path | None:
        """Write `local_model` into the node's folder, for its owner alone, as a node does by
        itself when a job ends.

        Returns
        -------
        Path or None
            None if there is no local model.
        """
        if self.problem or self.local_model is None:
            return None
        path = self.home.local_model_path(self.result.contract.job)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.local_model.save(path)
        return path

    @cached_property
    def local_model(self) -> Model | None:
        """After an exchange of sums, the model for this organisation's own use: from its exact sums
        and the others' noisy ones, never to be shared. None after rounds, or if the node has
        another data set or other keys by now: only they tell its own sums, and its own row.
        """
        contract = self.result.contract
        if not contract.sums:
            return None
        try:
            data, name = self.training_data or self.home.load_training_data(), self.home.name
            shared = self.home.shared(self.result.study) if contract.masked else {}
        except PDMLError:
            return None
        if data.dataset != self.dataset:
            return None
        server, outcome = data.server, self.result.outcome
        row = outcome.parts[server.spec.server].released
        if contract.masked:
            row = sums_participant.remove_masks(row, contract, name, shared)
        sums = sums_release.exact(server, contract.plan)
        return outcome.local_model(self.result.study, server.spec, sums, row)


def train_nodes(
    study: Study,
    node: str | PathLike[str],
    *,
    plan: TrainingPlan | None = None,
    job: str = "",
    resume: bool = False,
    start_timeout: float = 300.0,
    round_timeout: float = 120.0,
    progress: Progress = lambda rounds: None,
    stopping: Callable[[str], None] = lambda job: None,
) -> JobResult:
    """Train under a study between organisations, each of which runs its own node.

    Parameters
    ----------
    study : Study
        The contract, which the node has joined.
    node : path
        The folder of this organisation's node, which must be running.
    plan : TrainingPlan, optional
        For a study without a plan of its own; refused for one that has one.
    job : str
        The training's name, by default the study's with the time.
    resume : bool
        Go on with the job of that name, where its members stand.
    start_timeout : float
        Seconds in which all members must have accepted, 1 to 3,600.
    round_timeout : float
        Seconds that a round may take.
    progress : callable
        Hears the round of every node, by name, a few times a second.
    stopping : callable
        Hears the job's name when an interrupt stops it at every member.

    Returns
    -------
    JobResult
        With ``model``, or the ``problem`` for which there is none.

    Raises
    ------
    InvalidInput
        If no node of this study runs in the folder, or the plan is not to be chosen.
    EngineError
        If the job ends without a result; it names who refused or failed.

    Guarantees
    ----------
    - Whatever interrupts this call stops the job at every member; it can be resumed.

    Examples
    --------
    >>> ended = train_nodes(Study.load("study.toml"), "alice", job="first")  # doctest: +SKIP
    >>> ended.model.save("model.json")  # doctest: +SKIP
    """
    if resume and not job:
        raise InvalidInput("resume needs job: which job is to go on?", setting="resume")
    why = "a node that has accepted a job does no other until it begins"
    _validate.real("start_timeout", start_timeout, low=1, high=LONGEST_START, why=why)
    name = job or job_name(study)
    contract = JobTerms.for_study(study, resolve_study_plan(study, plan), name)
    home = NodeDirectory.open(Path(node))
    if home.study().hash != contract.study:
        raise InvalidInput(
            f"the node in {node} is in another study than this file: compare the hashes"
        )
    _wait_for_node(home, Path(node), min(_START_TIMEOUT, start_timeout))
    control_db, attempt = ControlDatabase(home.folder), secrets.token_hex(16)
    try:
        control_db.push_command(
            CommandKind.OFFER,
            attempt,
            job=name,
            plan=contract.plan.to_dict(),
            resume=resume,
            start_timeout=start_timeout,
            round_timeout=round_timeout,
        )
        try:
            _follow(control_db, attempt, contract, progress, home)
        except EngineError:
            raise
        except BaseException:
            control_db.push_command(CommandKind.STOP, attempt)
            stopping(name)
            raise
    finally:
        control_db.close()
    return load_job_result(home, name)


def write_local_model(
    home: NodeDirectory, job: str, data: TrainingData | None = None
) -> Path | None:
    """Write the model for an organisation's own use: what a running node keeps of an exchange of
    sums.

    Parameters
    ----------
    home : Home
        This organisation's node.
    job : str
        A job that is done.
    data : Holdings, optional
        What the node trains on, if that has been read already.

    Returns
    -------
    Path or None
        Where `NodeDirectory.local_model_path` has it, mode 0600; None after rounds, where the
        result has a problem, or if the node has another data set or other keys by now.

    Raises
    ------
    InvalidInput
        If the job is not known here, or not finished.
    """
    return load_job_result(home, job, data).save_local_model()


def load_job_result(home: NodeDirectory, job: str, data: TrainingData | None = None) -> JobResult:
    """The result of a job that is done, from the statements in this node's journal.

    Parameters
    ----------
    home : Home
        This organisation's node; it need not be running.
    job : str
        The job's name.
    data : Holdings, optional
        What the node trains on, if that has been read already.

    Returns
    -------
    JobResult
        Whose ``result`` is the same at every member.

    Raises
    ------
    InvalidInput
        If the job is not known here, or not finished.
    """
    study, contract, signed, dataset = _statements(home, job)
    result = assemble(study, contract, signed)
    proofs = _proofs(home, job, wait=bool(result.mismatches))
    return JobResult(result=result, proofs=proofs, home=home, dataset=dataset, training_data=data)


def _wait_for_node(home: NodeDirectory, node: Path, patience: float) -> None:
    """Wait for a node that may have been started a moment ago."""
    deadline = time.monotonic() + patience
    while not _is_running(home):
        if time.monotonic() >= deadline:
            raise InvalidInput(f"no node runs in {node}: start it with `pdml node run {node}`")
        time.sleep(_POLL)


def _is_running(home: NodeDirectory) -> bool:
    return Journal.holder(home.path(JOURNAL)) is not None


def _follow(
    control_db: ControlDatabase,
    attempt: str,
    contract: JobTerms,
    progress: Progress,
    home: NodeDirectory,
) -> None:
    while True:
        entry, last_progress = (
            control_db.attempt(attempt),
            control_db.read_status(Status.PROGRESS) or {},
        )
        if last_progress.get("job") == contract.job:
            progress(last_progress["rounds"])
        if entry is not None and entry.state == OfferState.DONE:
            return
        if entry is not None and entry.state in ENDED:
            raise EngineError(entry.sentence or f"job {contract.job} ended without a result")
        if not _is_running(home):
            raise EngineError(
                "the node's process has ended: start it again, and the job goes on; then "
                f"--job {contract.job} --resume"
            )
        time.sleep(_POLL)


def _statements(home: NodeDirectory, job: str) -> tuple[Study, JobTerms, dict[str, bytes], str]:
    """Everybody's, with the revision of the study under which the job was done, and this node's
    data set.
    """
    journal = home.committed()
    if journal is None:
        raise InvalidInput(f"{home.name} has done no job yet")
    try:
        entry = journal.job(job)
        if entry is None or entry.state != JobState.FINISHED:
            where = (
                "is not known"
                if entry is None
                else f"stands at round {entry.round} and is not finished"
            )
            raise InvalidInput(f"job {job!r} {where} at {home.name}: there is no result yet")
        plan, under = statements.plan_of(entry)
        study = home.revision(under)
        contract = JobTerms.for_study(study, plan, job)
        return study, contract, journal.statements(job), entry.dataset
    finally:
        journal.close()


def _proofs(home: NodeDirectory, job: str, *, wait: bool) -> dict[str, bytes]:
    """Evidence that members have shown; if statements contradict each other, whoever heard the
    other word shows it soon.
    """
    deadline = time.monotonic() + (_EVIDENCE_TIMEOUT if wait else 0.0)
    while True:
        proofs = {
            path.stem: equivocation.read_stored(path)
            for path in sorted(home.evidence(job).glob("*.evidence"))
        }
        if proofs or time.monotonic() >= deadline:
            return proofs
        time.sleep(_POLL)
