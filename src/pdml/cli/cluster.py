"""Where independent jobs run: in processes here, or on a Ray cluster. Shared by every command that has some."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from pdml.errors import InvalidInput

Jobs = Annotated[int, typer.Option(min=0, help="Processes; 0: one per core.")]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run jobs on the Ray cluster at HOST:PORT; auto: the one this machine belongs to."),
]


@contextmanager
def processes(jobs: int, cluster: str | None) -> Iterator[int]:
    """How many jobs run at once; within it they run on the cluster, if there is one."""
    if cluster is None:
        from pdml.train.engines.local import workers

        yield jobs or workers(None)
        return
    if not cluster or "://" in cluster:
        raise InvalidInput(f"--cluster must be HOST:PORT or auto, got {cluster!r}")
    from pdml.train.engines import ray
    from pdml.train.engines.jobs import on_cluster

    with ray.connected(cluster), on_cluster(jobs or None) as at_once:
        yield at_once
