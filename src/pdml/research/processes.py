"""Independent jobs (seeds, grids, audits) through joblib, in this process or in several; a cluster
is another backend (`joblib.parallel_config`)."""

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pdml.training.local_engine import workers

Result = TypeVar("Result")


def run_parallel(
    work: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """work(*task) for every task, in order, at most ``jobs`` at once (0: one per core); ``work`` is
    a module's function, ``progress`` hears (done, of how many).
    """
    from joblib import Parallel, delayed

    class ProgressParallel(Parallel):  # type: ignore[misc]
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
    alone: they inherit what is blocked. Trackers of shared resources lift that and go first.
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
    signals: list[int] = []  # other threads hear it all the same: raised again at the end
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
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # sums in another order have other last digits
        return work(*task)
