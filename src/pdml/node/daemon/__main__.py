"""`pdml node run` as a function: one node's process, until a signal ends it."""

import logging
import queue
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from pdml.mechanisms.randomness import Secure, Simulated
from pdml.node.daemon.daemon import NodeDaemon
from pdml.node.daemon.local_model import Keep
from pdml.node.storage.node_dir import NodeDirectory

if TYPE_CHECKING:
    from pdml.node.daemon.metrics import Metrics


def run(
    folder: Path,
    *,
    relay: str = "",
    metrics: str = "",
    simulated_noise: int | None = None,
    verbose: bool = False,
    keep: Keep | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Parameters
    ----------
    folder : Path
        As `Home.create` made it, with a study.
    relay : str
        HOST:PORT of another way to the relay than the study's address, a leaf node inside a
        firewall, say.
    metrics : str
        127.0.0.1:PORT for figures in Prometheus' format; "" for none.
    simulated_noise : int or None
        The seed of repeatable noise, for tests; None takes the operating system's entropy.
    verbose : bool
        Log what is dropped, too.
    keep : callable, optional
        Writes the model for the organisation's own use after each exchange of sums, or at the next
        start if the process ended before it could: `pdml.consortium.job_client.write_local_model`.
    """
    _log(verbose)
    source = Secure() if simulated_noise is None else Simulated(simulated_noise)
    office = NodeDaemon(NodeDirectory.open(folder), source, relay=relay, keep=keep)
    metrics_server = _metrics(office, metrics) if metrics else None

    if threading.current_thread() is threading.main_thread():
        _obey_signals(office)
    try:
        if metrics_server is not None:
            metrics_server.start()
        office.run()
    finally:
        if metrics_server is not None:
            metrics_server.close()


def _obey_signals(office: NodeDaemon) -> None:
    """A handler interrupts the main thread anywhere, also where it holds a lock: it may only put
    into a queue made for that.
    """
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    def handler(number: int, frame: FrameType | None) -> None:
        signals.put(number)

    def wait() -> None:
        signals.get()
        office.leave()

    threading.Thread(target=wait, daemon=True, name="pdml-signals").start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _metrics(office: NodeDaemon, address: str) -> "Metrics":
    from pdml.node.daemon.metrics import Metrics  # here, because few nodes show figures

    return Metrics(office, address)


def _log(verbose: bool) -> None:
    """Sentences on stderr, where service managers look; no payload is ever logged."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("pdml.node")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False
    for library in ("nats", "asyncio"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
