"""Figures for Prometheus, on this machine only and only if asked for: round, releases, spending,
connection.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from pdml.errors import InvalidInput
from pdml.node.operator.node_status import NodeStatus, read_status
from pdml.node.storage.node_dir import NodeDirectory

if TYPE_CHECKING:
    from pdml.node.daemon.daemon import NodeDaemon

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Metrics:
    """A page of figures at ``address``, which must be of this machine."""

    def __init__(self, office: "NodeDaemon", address: str) -> None:
        host, _, port = address.rpartition(":")
        if host.strip("[]") not in _LOOPBACK or not port.isdecimal() or not 0 <= int(port) < 65536:
            raise InvalidInput(
                f"metrics must be 127.0.0.1:PORT, got {address!r}: figures are for this machine"
            )
        folder = office.home.folder

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                content = text(read_status(NodeDirectory.open(folder))).encode()
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.end_headers()
                self.wfile.write(content if self.path == "/metrics" else b"")

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        try:
            self._server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
        except OSError as error:
            raise InvalidInput(
                f"metrics cannot be shown at {address}: {(error.strerror or str(error)).lower()}"
            ) from None
        self.port = self._server.server_address[1]

    def start(self) -> None:
        threading.Thread(
            target=self._server.serve_forever, daemon=True, name="pdml-metrics"
        ).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def text(account: NodeStatus) -> str:
    """The account in Prometheus' format."""
    current = next((dataset for dataset in account.datasets if dataset.current), None)
    figures: dict[str, float | None] = {
        "pdml_node_connected": float(account.connected),
        "pdml_node_connection_since_seconds": account.connection.get("since"),
        "pdml_node_certificate_ends_seconds": account.connection.get("ends"),
        "pdml_node_round": float(account.jobs[-1].round) if account.jobs else 0.0,
        "pdml_node_released_total": float(current.releases) if current else 0.0,
        "pdml_node_last_safe_round": None
        if current is None or current.next_job is None
        else float(current.next_job),
    }
    lines = [f"{name} {value:g}" for name, value in figures.items() if value is not None]
    for line in current.ledger.lines() if current else ():
        labels = f'adversary="{line.adversary}",data="{line.data}"'
        lines.append(
            f"pdml_node_spent_epsilon{{{labels}}} "
            f"{'+Inf' if line.epsilon == float('inf') else f'{line.epsilon:.6g}'}"
        )
    return "\n".join(lines) + "\n"
