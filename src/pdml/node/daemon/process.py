"""`pdml node run` as a function, and its figures for Prometheus, on this machine only."""

import logging
import queue
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isinf
from pathlib import Path
from types import FrameType

from pdml.clock import SYSTEM_CLOCK
from pdml.errors import InvalidInput, because
from pdml.mechanisms.randomness import Secure, Simulated
from pdml.node.daemon.daemon import NodeDaemon
from pdml.node.daemon.job_runner import WriteLocalModel
from pdml.node.daemon.nats_transport import NatsTransport
from pdml.node.job.job_result import write_local_model
from pdml.node.operator.status import NodeStatus, read_status
from pdml.node.storage.node_dir import NodeDirectory

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def run(
    folder: Path,
    *,
    relay: str = "",
    metrics: str = "",
    simulated_noise: int | None = None,
    verbose: bool = False,
    write_local_model: WriteLocalModel = write_local_model,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Parameters
    ----------
    folder : Path
        As `NodeDirectory.create` made it, with a study.
    relay : str
        HOST:PORT of another way to the relay than the study's address, a leaf node, say.
    metrics : str
        127.0.0.1:PORT for figures in Prometheus' format; "" for none.
    simulated_noise : int or None
        The seed of repeatable noise, for tests; None takes the operating system's entropy.
    verbose : bool
        Log what is dropped, too.
    write_local_model : callable, optional
        Another way to write the organisation's own model, for tests.
    """
    _log(verbose)
    source = Secure() if simulated_noise is None else Simulated(simulated_noise)
    directory = NodeDirectory.open(folder)
    transport = NatsTransport.of_node(directory, SYSTEM_CLOCK, relay=relay)
    daemon = NodeDaemon(
        directory, source, transport, clock=SYSTEM_CLOCK, write_local_model=write_local_model
    )
    metrics_server = MetricsServer(folder, metrics) if metrics else None

    if threading.current_thread() is threading.main_thread():
        leave_on_signal(daemon)
    try:
        if metrics_server is not None:
            metrics_server.start()
        daemon.run()
    finally:
        if metrics_server is not None:
            metrics_server.close()


def leave_on_signal(daemon: NodeDaemon) -> None:
    """A handler interrupts the main thread, also where it holds a lock: it may only queue."""
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    def handler(number: int, frame: FrameType | None) -> None:
        signals.put(number)

    def wait() -> None:
        signals.get()
        daemon.leave()

    threading.Thread(target=wait, daemon=True, name="pdml-signals").start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


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


class MetricsServer:
    """A page of figures about the node in ``folder``, at an address of this machine."""

    def __init__(self, folder: Path, address: str) -> None:
        host, _, port = address.rpartition(":")
        if host.strip("[]") not in _LOOPBACK or not port.isdecimal() or not 0 <= int(port) < 65536:
            raise InvalidInput(
                f"metrics must be 127.0.0.1:PORT, got {address!r}: figures are for this machine"
            )

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                content = metrics_text(read_status(NodeDirectory.open(folder))).encode()
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.end_headers()
                self.wfile.write(content if self.path == "/metrics" else b"")

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        try:
            self._server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
        except OSError as error:
            raise InvalidInput(f"metrics cannot be shown at {address}: {because(error)}") from None
        self.port = self._server.server_address[1]

    def start(self) -> None:
        threading.Thread(
            target=self._server.serve_forever, daemon=True, name="pdml-metrics"
        ).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def metrics_text(status: NodeStatus) -> str:
    current = next((dataset for dataset in status.datasets if dataset.current), None)
    next_job = current.next_job if current else None
    figures: dict[str, float | None] = {
        "pdml_node_connected": float(status.connected),
        "pdml_node_connection_since_seconds": status.connection.get("since"),
        "pdml_node_certificate_ends_seconds": status.connection.get("ends"),
        "pdml_node_round": float(status.jobs[-1].round) if status.jobs else 0.0,
        "pdml_node_released_total": float(current.releases) if current else 0.0,
        "pdml_node_last_safe_round": None if next_job is None else float(next_job),
    }
    lines = [f"{name} {value:g}" for name, value in figures.items() if value is not None]
    for row in current.ledger.rows() if current else ():
        labels = f'adversary="{row.adversary}",data="{row.data}"'
        epsilon = "+Inf" if isinf(row.epsilon) else f"{row.epsilon:.6g}"
        lines.append(f"pdml_node_spent_epsilon{{{labels}}} {epsilon}")
    return "\n".join(lines) + "\n"
