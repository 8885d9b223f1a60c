"""Independent jobs (seeds, grids, audits) through joblib: in this process, or in several. Whoever
has a cluster gives joblib another backend (`joblib.parallel_config`)."""

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pdml.training.engines.local_engine import workers

Result = TypeVar("Result")


def run_parallel(
    work: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """work(*task) for every task, in order, at most ``jobs`` at once (0: one per core); a single
    one stays in this process.

    Results do not depend on where they are computed. ``work`` is a module's function; ``progress``
    hears (done, of how many).
    """
    from joblib import Parallel, delayed

    class ProgressParallel(Parallel):  # type: ignore[misc]
        """Says how far it is; generators would too, but not every backend has them."""

        def print_progress(self) -> None:
            if progress is not None:
                progress(self.n_completed_tasks, len(tasks))

    if progress is not None:
        progress(0, len(tasks))
    at_once = max(1, min(jobs or workers(None), len(tasks)))
    if at_once > 1:
        _start_workers(at_once)
    return list(
        ProgressParallel(n_jobs=at_once, batch_size=1)(
            delayed(_single)(work, task) for task in tasks
        )
    )


def _start_workers(jobs: int) -> None:
    """Start the processes so that Ctrl-C, which a terminal sends to all of them, is heard here
    alone.

    A process inherits what is blocked where it is started. The trackers of shared resources lift
    that when they start, so they go first. joblib ends the processes when this one is interrupted.
    """
    from multiprocessing import resource_tracker

    from joblib import Parallel, delayed
    from joblib.externals.loky.backend import resource_tracker as joblib_tracker
    from joblib.parallel import get_active_backend

    here = get_active_backend()[0].supports_return_generator
    if not here or threading.current_thread() is not threading.main_thread():
        return
    for tracker in (resource_tracker, joblib_tracker):
        tracker.ensure_running()
    signals: list[
        int
        # other threads of this process hear it all the same: remembered until the processes stand
    ] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: signals.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        Parallel(n_jobs=jobs, batch_size=1)(delayed(int)() for _ in range(jobs))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    for number in signals:
        signal.raise_signal(number)


def _single(work: Callable[..., Result], task: tuple[Any, ...]) -> Result:
    """With one thread: sums in another order have other last digits."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return work(*task)
