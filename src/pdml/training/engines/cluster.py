"""A connection to a Ray cluster, which may be one of this machine alone."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pdml import extras
from pdml.errors import EngineError
from pdml.training.engines.local_engine import workers

KNOCK = 10.0  # seconds in which the head of a cluster answers


@contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """A connection to the cluster at ``address`` (or RAY_ADDRESS), else to a new one on this
    machine; an existing one is kept.
    """
    ray = library()
    if ray.is_initialized():
        yield
        return
    if address in (None, "auto"):
        address = os.environ.get("RAY_ADDRESS") or address
    with _preserve_signals():
        _join(address)
    try:
        yield
    finally:
        ray.shutdown()


def _join(address: str | None) -> None:
    ray = library()
    try:
        if address is None:
            ray.init(
                num_cpus=workers(None),
                include_dashboard=False,
                log_to_driver=False,
                _node_ip_address="127.0.0.1",
            )
            return
        if address not in ("auto", "local"):
            _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    except (OSError, RuntimeError, ValueError, OverflowError, ray.exceptions.RayError) as error:
        reason = (
            "this machine belongs to none"
            if address == "auto"
            else " ".join((getattr(error, "strerror", None) or str(error)).split())
        )
        raise EngineError(f"there is no Ray cluster at {address!r}: {reason}") from None


def _knock(address: str) -> None:
    """An error at once if nobody listens there: Ray would try for minutes, and may end the
    process.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdecimal()):
        raise ValueError("an address is HOST:PORT")
    if host in ("localhost", "127.0.0.1"):
        host = library().util.get_node_ip_address()  # which is where Ray will look
    socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()


@contextmanager
def _preserve_signals() -> Iterator[None]:
    """Ray replaces the handler of SIGTERM; put back whose there was."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(before):
            signal.signal(signal.SIGTERM, before)


def library() -> Any:
    """Ray itself, or one sentence saying that it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with extras.needed():
        import ray
    return ray
