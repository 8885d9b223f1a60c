"""A job of this organisation's node, followed to its end, and the result of it."""

import secrets
import time
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from pdml import _validate
from pdml.errors import EngineError, InvalidInput
from pdml.node.job.job_result import JobResult
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import LONGEST_START
from pdml.node.storage.control_db import ENDED, CommandKind, ControlDatabase, OfferState, StatusName
from pdml.node.storage.node_dir import NodeDirectory
from pdml.planning.training_plan import TrainingPlan
from pdml.simulation.study_training import job_name, resolve_study_plan
from pdml.study import Study

_POLL = 0.2
_START_TIMEOUT = 15.0  # seconds that this organisation's own node may take to start
_EVIDENCE_TIMEOUT = 10.0  # seconds for a member to show who signed two things

Progress = Callable[[Mapping[str, int]], None]
"""Hears the round of every node, by name."""


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
        The terms, which the node has joined.
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
    terms = JobTerms.for_study(study, resolve_study_plan(study, plan), name)
    home = NodeDirectory.open(Path(node))
    if home.study().hash != terms.study:
        raise InvalidInput(
            f"the node in {node} is in another study than this file: compare the hashes"
        )
    deadline = time.monotonic() + min(_START_TIMEOUT, start_timeout)
    while not home.is_running:  # it may have been started a moment ago
        if time.monotonic() >= deadline:
            raise InvalidInput(f"no node runs in {node}: start it with `pdml node run {node}`")
        time.sleep(_POLL)
    control_db, attempt = ControlDatabase(home.folder), secrets.token_hex(16)
    try:
        control_db.push_command(
            CommandKind.OFFER,
            attempt,
            job=name,
            plan=terms.plan.to_dict(),
            resume=resume,
            start_timeout=start_timeout,
            round_timeout=round_timeout,
        )
        try:
            _follow(control_db, attempt, terms, progress, home)
        except EngineError:
            raise
        except BaseException:
            control_db.push_command(CommandKind.STOP, attempt)
            stopping(name)
            raise
    finally:
        control_db.close()
    return load_job_result(home, name)


def load_job_result(home: NodeDirectory, job: str) -> JobResult:
    """The result of a job that is done, from the statements in this node's journal.

    Parameters
    ----------
    home : NodeDirectory
        This organisation's node; it need not be running.
    job : str
        The job's name.

    Returns
    -------
    JobResult
        The same at every member.

    Raises
    ------
    InvalidInput
        If the job is not known here, or not finished.
    """
    # If statements contradict each other, whoever has the other signature shows it soon.
    deadline = time.monotonic() + _EVIDENCE_TIMEOUT
    while True:
        result = JobResult.load(home, job)
        if not result.mismatches or result.evidence or time.monotonic() >= deadline:
            return result
        time.sleep(_POLL)


def _follow(
    control_db: ControlDatabase,
    attempt: str,
    terms: JobTerms,
    progress: Progress,
    home: NodeDirectory,
) -> None:
    while True:
        entry = control_db.attempt(attempt)
        last_progress = control_db.read_status(StatusName.PROGRESS) or {}
        if last_progress.get("job") == terms.job:
            progress(last_progress["rounds"])
        if entry is not None and entry.state == OfferState.DONE:
            return
        if entry is not None and entry.state in ENDED:
            raise EngineError(entry.sentence or f"job {terms.job} ended without a result")
        if not home.is_running:
            raise EngineError(
                "the node's process has ended: start it again, and the job goes on; then "
                f"--job {terms.job} --resume"
            )
        time.sleep(_POLL)
