"""What `pdml node status` shows: the process, the jobs, and the ledger of every data set."""

import json
from dataclasses import dataclass
from math import isinf
from typing import Any

from pdml.accounting import Budget, Ledger, last_safe_round
from pdml.accounting.events import IterateReleased, LabelFlipped
from pdml.accounting.provenance import UNSAID, note
from pdml.errors import JournalError, PDMLError
from pdml.node import holdings
from pdml.node.flare.site import NODE, Site
from pdml.node.journal import Job, Journal
from pdml.study import Study
from pdml.train.plan import TrainingPlan


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set's account."""

    digest: str
    current: bool
    releases: int
    ledger: Ledger
    next_job: int | None  # the last safe round of another job by the study's plan; None if there is no plan or no budget


@dataclass(frozen=True, kw_only=True)
class Status:
    """Everything there is to say about a kit on this machine."""

    site: Site
    study: Study
    pid: int | None
    busy: bool  # a job holds the journal
    progress: dict[str, Any]  # of the last job, as the node told it
    records: int
    labels: str  # where they were randomised
    problem: str  # with the data, if any
    jobs: tuple[Job, ...]
    datasets: tuple[DataSet, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.site.name,
            "role": self.site.config.role,
            "study": self.study.id,
            "study_hash": self.study.hash,
            "pid": self.pid,
            "running": self.pid is not None,
            "job_running": self.busy,
            "progress": self.progress,
            "records": self.records,
            "labels_randomised": self.labels,
            "problem": self.problem,
            "jobs": [{"job": job.job, "state": job.state, "round": job.round, "dataset": job.dataset} for job in self.jobs],
            "datasets": [
                {
                    "dataset": found.digest,
                    "current": found.current,
                    "releases": found.releases,
                    "last_safe_round_of_next_job": found.next_job,
                    "privacy": found.ledger.to_dict(),
                }
                for found in self.datasets
            ],
        }


def look(site: Site, pid: int | None) -> Status:
    study, digest, records, problem, epsilon, held = site.study(), "", 0, "", site.study().menu[-1], None
    if site.config.role == NODE:
        try:
            held = site.holdings()
            digest, records, epsilon = held.dataset, held.server.records, held.label_epsilon
        except PDMLError as error:
            problem = str(error)
    jobs: tuple[Job, ...] = ()
    found: list[DataSet] = []
    busy, progress = False, _progress(site)
    if site.config.begun or site.path(site.config.journal).exists():
        try:
            journal = site.journal()
        except JournalError as error:
            if "another process" not in str(error):
                raise
            busy = True
        else:
            jobs = tuple(journal.jobs())
            for name in dict.fromkeys([*journal.datasets(), *([digest] if digest else [])]):
                found.append(_account(study, journal, name, current=name == digest, epsilon=epsilon, held=held))
            journal.close()
    return Status(
        site=site,
        study=study,
        pid=pid,
        busy=busy,
        progress=progress if busy else {},
        records=records,
        labels=held.labels if held is not None else UNSAID,
        problem=problem,
        jobs=jobs,
        datasets=tuple(found),
    )


def _account(study: Study, journal: Journal, name: str, *, current: bool, epsilon: float, held: Any) -> DataSet:
    """The ledger of a data set. Of one that is gone nobody can say who randomised its labels; they
    are taken to have the largest ε of the menu."""
    by = held.labels if current and held is not None else UNSAID
    flip = LabelFlipped(epsilon=epsilon if current else study.menu[-1], by=by)
    spent = journal.spent(name)
    classes = len(study.classes)
    further = None
    if current and study.plan and study.budget is not None and held is not None:
        another = holdings.agreed(study, TrainingPlan.from_dict(dict(study.plan)), "another")
        planned = another.events(another.servers[held.server.index], records=held.server.records, epsilon=held.server.epsilon)
        further = last_safe_round([(flip, *planned)], budget=study.budget or Budget(), classes=classes, already=[spent])
    return DataSet(
        digest=name,
        current=current,
        releases=sum(isinstance(event, IterateReleased) for event in spent),
        ledger=Ledger(((flip, *spent),), source="simulated" if "simulated" in journal.sources(name) else "secure", classes=classes),
        next_job=further,
    )


def _progress(site: Site) -> dict[str, Any]:
    try:
        told = json.loads(site.path("progress.json").read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def tell(status: Status) -> None:
    from pdml.cli import screen

    out = screen.console()
    site, study = status.site, status.study
    runs = f"runs as process {status.pid}" if status.pid is not None else "does not run"
    out.print(f"{site.name} ({site.config.role}) {runs}")
    out.print(f"study {study.id}, hash {study.hash}", soft_wrap=True)
    if site.config.role != NODE:
        return
    out.print(status.problem or f"{status.records:,} records")
    if not status.problem and (said := note(site.name, status.labels)):
        out.print(said)
    if status.busy:
        told = status.progress
        out.print(f"job {told['job']}: round {told['round']} of {told['rounds']}" if told else "a job has just begun")
        out.print("The ledger is shown when no job holds the journal.")
        return
    for job in status.jobs:
        out.print(f"job {job.job}: {job.state}, round {job.round} (data set {job.dataset[:12]})")
    for found in status.datasets:
        what = "this node's data set" if found.current else "an earlier data set"
        heading = f"{found.digest[:12]}, {what}: {found.releases} vectors sent"
        screen.show(out, heading, screen.privacy_table(found.ledger.lines()))
        if found.next_job is not None and study.budget is not None:
            out.print()
            out.print(_next(found.next_job, TrainingPlan.from_dict(dict(study.plan)).rounds, study.budget))


def _next(safe: int, rounds: int, budget: Budget) -> str:
    limits = [f"epsilon {budget.limit(row)[0]:g} for {row}" for row in ("features", "label") if not isinf(budget.limit(row)[0])]
    allowed = f"allows another job of {rounds} rounds" if safe >= rounds else f"allows no other job: its last safe round would be {safe}"
    return f"The budget ({', '.join(limits)}) {allowed}."
