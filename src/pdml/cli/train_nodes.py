"""`pdml train study.toml --engine nodes`: a job between organisations, offered from this node's
folder and followed here.
"""

import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pdml.errors import EngineError, InvalidInput

if TYPE_CHECKING:
    from pdml.cli.train_study import Choices
    from pdml.node.contract import Contract
    from pdml.node.desk import Desk
    from pdml.node.home import Home
    from pdml.study import Study

_POLL = 0.2
_STARTING = 15.0  # seconds that this organisation's own node may take to start


def run(study: "Study", choices: "Choices", *, as_json: bool) -> None:
    """The whole command."""
    from pdml.cli.train_study import plan_of
    from pdml.node import holdings
    from pdml.release.training import job_name, settled_plan

    if choices.resume and not choices.job:
        raise InvalidInput("--resume needs --job: which job is to go on?")
    job = choices.job or job_name(study)
    out = choices.out or Path(f"result-{job}")
    if out.exists():
        raise InvalidInput(
            f"{out} exists already: a result is a folder of its own, give another one with --out"
        )
    contract = holdings.agreed(study, settled_plan(study, plan_of(study, choices.settings)), job)
    write(train(contract, choices), job, out, as_json=as_json)


def train(contract: "Contract", choices: "Choices") -> "Home":
    """Offer the job, follow it to its end; an interrupt stops it at every member. The folder that
    holds its statements.
    """
    from pdml.cli.node import needs_node

    with needs_node():
        from pdml.node import desk as states
        from pdml.node.home import JOURNAL, Home
        from pdml.node.journal import Journal
        from pdml.node.questions import OFFER, STOP

    if choices.node is None:
        raise InvalidInput(
            "--node must be given: the folder of this organisation's node, which must be running"
        )
    if choices.folders or choices.seed is not None:
        raise InvalidInput(
            "--data and --seed belong to --engine local: nodes have their own data and "
            "draw their own noise"
        )
    home = Home.open(choices.node)
    if home.study().hash != contract.study:
        raise InvalidInput(
            f"the node in {choices.node} is in another study than this file: compare the hashes"
        )
    deadline = time.monotonic() + min(_STARTING, choices.start_timeout)
    while Journal.holder(home.path(JOURNAL)) is None and time.monotonic() < deadline:
        time.sleep(_POLL)  # it may have been started a moment ago
    if Journal.holder(home.path(JOURNAL)) is None:
        raise InvalidInput(
            f"no node runs in {choices.node}: start it with `pdml node run {choices.node}`"
        )
    desk, attempt = states.Desk(home.folder), secrets.token_hex(16)
    terms = {"job": contract.job, "plan": contract.plan.to_dict(), "resume": choices.resume}
    try:
        with _bars(contract) as show:
            desk.wish(
                OFFER,
                attempt,
                **terms,
                start_timeout=choices.start_timeout,
                round_timeout=choices.round_timeout,
            )
            try:
                _follow(
                    desk,
                    attempt,
                    contract,
                    show,
                    lambda: Journal.holder(home.path(JOURNAL)) is not None,
                )
            except EngineError:
                raise
            except BaseException:
                desk.wish(STOP, attempt)
                print(
                    f"pdml: job {contract.job} is being stopped at every member; to go on: "
                    f"--job {contract.job} --resume",
                    file=sys.stderr,
                )
                raise
    finally:
        desk.close()
    return home


def _follow(
    desk: "Desk",
    attempt: str,
    contract: "Contract",
    show: Callable[[Mapping[str, int]], None],
    alive: Callable[[], bool],
) -> None:
    from pdml.node import desk as states

    while True:
        known, told = desk.attempt(attempt), desk.told("progress") or {}
        if told.get("job") == contract.job:
            show(told["rounds"])
        if known is not None and known.state == states.DONE:
            return
        if known is not None and known.state in states.ENDED:
            raise EngineError(known.sentence or f"job {contract.job} ended without a result")
        if not alive():
            raise EngineError(
                "the node's process has ended: start it again, and the job goes on; then "
                f"--job {contract.job} --resume"
            )
        time.sleep(_POLL)


def _say(sentence: str) -> None:
    print(f"pdml: {sentence}", file=sys.stderr)


@contextmanager
def _bars(contract: "Contract") -> Iterator[Callable[[Mapping[str, int]], None]]:
    """Every node's round: a bar each on a terminal, a line now and then elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    rounds = contract.plan.rounds
    err = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if err.is_terminal and not err.is_dumb_terminal:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rounds"),
        )
        with Progress(*columns, console=err, transient=True) as bars:
            tasks = {name: bars.add_task(name, total=rounds) for name in contract.servers}

            def draw(told: Mapping[str, int]) -> None:
                for name in tasks.keys() & told.keys():
                    bars.update(tasks[name], completed=told[name])

            yield draw
        return
    spoken = 0.0

    def log(told: Mapping[str, int]) -> None:
        nonlocal spoken
        if time.monotonic() - spoken > 5:
            spoken = time.monotonic()
            print(
                ", ".join(f"{name}: round {t} of {rounds}" for name, t in told.items()),
                file=sys.stderr,
                flush=True,
            )

    yield log


def write(home: "Home", job: str, out: Path, *, as_json: bool) -> None:
    """The result of a job that is done, from the statements in the journal: the same bytes at every
    member.
    """
    from pdml.cli import screen
    from pdml.cli import train_study_words as words
    from pdml.release.result import MODEL, PAGE, assemble, write_result
    from pdml.report.result import result_page

    study, contract, signed = _statements(home, job)
    result = assemble(study, contract, signed)
    proofs = _proofs(home, job, wait=bool(result.mismatches))
    write_result(out, result, result_page, proofs)
    if result.problems or proofs:
        reason = (
            result.problems[0].sentence
            if result.problems
            else f"there is evidence against {', '.join(proofs)}"
        )
        raise EngineError(f"job {job} has no model: {reason}; what proves it is in {out}")
    files = {"report": out / PAGE, "model": out / MODEL, "result": out}
    if as_json:
        screen.print_json(
            words.summary(result.outcome, result.outcome.model(study), "nodes", files)
        )
    else:
        words.show(study, result.outcome, files)


def _statements(home: "Home", job: str) -> "tuple[Study, Contract, dict[str, bytes]]":
    """Everybody's, with the revision of the study under which the job was done."""
    from pdml.node import ending, holdings
    from pdml.node.journal import FINISHED

    journal = home.committed()
    if journal is None:
        raise InvalidInput(f"{home.name} has done no job yet")
    try:
        known = journal.job(job)
        if known is None or known.state != FINISHED:
            where = (
                "is not known"
                if known is None
                else f"stands at round {known.round} and is not finished"
            )
            raise InvalidInput(f"job {job!r} {where} at {home.name}: there is no result yet")
        plan, under = ending.plan_of(known)
        study = home.revision(under)
        return study, holdings.agreed(study, plan, job), journal.statements(job)
    finally:
        journal.close()


def _proofs(home: "Home", job: str, *, wait: bool) -> dict[str, bytes]:
    """Evidence that members have shown; if statements contradict each other, whoever heard the
    other word shows it soon.
    """
    deadline = time.monotonic() + (10.0 if wait else 0.0)
    while True:
        found = {
            path.stem: path.read_bytes() for path in sorted(home.evidence(job).glob("*.evidence"))
        }
        if found or time.monotonic() >= deadline:
            return found
        time.sleep(_POLL)
