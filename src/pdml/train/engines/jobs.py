"""Independent jobs (seeds, grids, audits) through joblib: in this process, in several, or on a Ray cluster.

with ray.connected("auto"), on_cluster() as cpus:
    results = spread(work, tasks, cpus)
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from pdml import _validate
from pdml.errors import EngineError

PACKAGES = ("pdml", "numpy", "scipy", "numba")  # that results depend on
PATIENCE = 60.0  # seconds in which every machine says what it has
ROOM = 60.0  # seconds in which enough CPUs come free
GOODBYE = 5.0  # seconds in which a thread learns that its job was stopped

Result = TypeVar("Result")


def spread(
    work: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], jobs: int, progress: Callable[[int, int], None] | None = None
) -> list[Result]:
    """work(*task) for every task, in order, at most ``jobs`` at once; a single one stays in this process.

    Results do not depend on where they are computed. ``work`` is a module's function; ``progress`` hears (done, of how many).
    """
    from joblib import Parallel, delayed

    class Told(Parallel):  # type: ignore[misc]
        """Says how far it is; generators would too, but not every backend has them."""

        def print_progress(self) -> None:
            if progress is not None:
                progress(self.n_completed_tasks, len(tasks))

    if progress is not None:
        progress(0, len(tasks))
    at_once = max(1, min(jobs, len(tasks)))
    if at_once > 1:
        _start_deaf(at_once)
    return list(Told(n_jobs=at_once, batch_size=1)(delayed(_single)(work, task) for task in tasks))


def _start_deaf(jobs: int) -> None:
    """Start the processes so that Ctrl-C, which a terminal sends to all of them, is heard here alone.

    A process inherits what is blocked where it is started. The trackers of shared resources lift that when they start, so they
    go first. joblib ends the processes when this one is interrupted. On a cluster no terminal reaches them.
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
    heard: list[int] = []  # other threads of this process hear it all the same: remembered until the processes stand
    handler = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        Parallel(n_jobs=jobs, batch_size=1)(delayed(int)() for _ in range(jobs))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    for number in heard:
        signal.raise_signal(number)


def _single(work: Callable[..., Result], task: tuple[Any, ...]) -> Result:
    """With one thread: sums in another order have other last digits."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return work(*task)


@contextmanager
def on_cluster(jobs: int | None = None) -> Iterator[int]:
    """Within it, whatever goes through joblib runs on the cluster that `ray.connected` has joined.

    Yields how many run at once, one per CPU by default. So many CPUs are taken together or not at all: two commands that each
    hold half of what they need would wait for ever.
    """
    from pdml.train.engines.ray import library

    ray = library()
    from joblib import parallel_config
    from ray.util.joblib import register_ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    cpus = int(ray.cluster_resources().get("CPU", 0))
    if cpus < 2:
        raise EngineError(f"a Ray cluster must have 2 CPUs or more to run jobs side by side, got {cpus}")
    jobs = cpus if jobs is None else _validate.integer("jobs", jobs, low=2, high=cpus, why="they share the CPUs of the Ray cluster")
    group = None
    try:
        _alike(ray)
        group = placement_group([{"CPU": 1}] * jobs)
        if not group.wait(ROOM):
            raise EngineError(f"the Ray cluster had no {jobs} CPUs free within {ROOM:g} s: wait for others, or take fewer (--jobs)")
        register_ray()  # type: ignore[no-untyped-call]
        logging.getLogger("ray.util.multiprocessing.pool").setLevel(logging.ERROR)  # it warns of how joblib calls it
        places = {"num_cpus": 1, "scheduling_strategy": PlacementGroupSchedulingStrategy(group)}
        with parallel_config(backend="ray", ray_remote_args=places):
            yield jobs
    except ray.exceptions.RayError as error:
        raise EngineError(f"the Ray cluster lost a job ({type(error).__name__}): start the command again") from None
    finally:
        _quiet()
        if group is not None:
            remove_placement_group(group)


def _quiet() -> None:
    """Wait for the threads of an interrupted pool: after the connection has ended they would make Ray start a cluster here."""
    from ray.util.multiprocessing.pool import ResultThread

    for thread in threading.enumerate():
        if isinstance(thread, ResultThread):
            thread.join(GOODBYE)


def _alike(ray: Any) -> None:
    """Refuse a machine with other packages than this one."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def installed() -> dict[str, str]:  # a function inside: it travels by value, to where pdml may be missing
        from importlib import metadata

        return {name: next((found.version for found in metadata.distributions(name=name)), "missing") for name in PACKAGES}

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
    ask = ray.remote(num_cpus=0)(installed)
    answers = ray.get([ask.options(scheduling_strategy=place).remote() for place in places], timeout=PATIENCE)
    here = installed()
    for node, there in zip(nodes, answers, strict=True):
        for name in PACKAGES:
            if there[name] != here[name]:
                machine = f"{node['NodeManagerAddress']} of the Ray cluster"
                raise EngineError(
                    f"{name} is {there[name]} on {machine} and {here[name]} here: results would depend on where they are computed"
                )
