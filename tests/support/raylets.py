"""A real Ray cluster on loopback. Import this before Ray."""

import os
import shutil
import tempfile
from contextlib import contextmanager

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = (
    "0"  # Ray's switch for "stay on loopback", read when it is imported
)
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


@contextmanager
def raylets():
    """Two raylets of two CPUs, in a folder of their own; each has a resource that names it."""
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray-")  # short: the paths of Unix sockets may have 107 bytes
    os.environ["RAY_TMPDIR"] = folder
    made = Cluster()
    try:
        for name in ("north", "south"):
            made.add_node(
                num_cpus=2,
                resources={name: 10},
                node_ip_address="127.0.0.1",
                object_store_memory=100 * 2**20,
                include_dashboard=False,
            )
        yield made
    finally:
        made.shutdown()
        del os.environ["RAY_TMPDIR"]
        shutil.rmtree(folder, ignore_errors=True)
