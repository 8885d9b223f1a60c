"""Independent jobs on all cores, through joblib: another of its backends (a cluster) takes them by configuration."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from pdml.experiments.outcome import Progress

Job = TypeVar("Job")
Result = TypeVar("Result")


def each(work: Callable[[Job], Result], jobs: Sequence[Job], *, processes: int, progress: Progress) -> list[Result]:
    """work(job) for every job, in the order of the jobs; ``work`` is a module's function and its results do not depend on ``processes``."""
    from joblib import Parallel, delayed

    class Told(Parallel):  # type: ignore[misc]
        """Says how far it is; generators would too, but not every backend has them."""

        def print_progress(self) -> None:
            progress(self.n_completed_tasks, len(jobs))

    progress(0, len(jobs))
    results: list[Result] = Told(n_jobs=processes, batch_size=1)(delayed(work)(job) for job in jobs)
    return results
