"""What the tests of the collection service share: a study, reports, and the service in this process
or its own.
"""

import asyncio
import base64
import contextlib
import json
import resource
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from example_study import ASKING, STUDY
from reporting import make_report

from pdml.clock import SystemClock
from pdml.collector.intake.report_rules import Rules
from pdml.collector.storage.records import Entry
from pdml.collector.storage.report_keys import PAGE, SLOT
from pdml.study import Study
from pdml.study.messages import encode_report
from pdml.study.schema.template import render

TRIAL = replace(
    STUDY,
    classes=("no", "yes", "unsure"),
    opens=datetime(2026, 1, 1, tzinfo=UTC),
    closes=datetime(2100, 1, 1, tzinfo=UTC),
    min_records=3,
)
# The same, by which people may be asked.
AGREED = replace(
    TRIAL,
    closes=datetime(2035, 1, 1, tzinfo=UTC),
    organiser=ASKING.organiser,
    notice=ASKING.notice,
    consent=ASKING.consent,
)
NOW = 1_780_000_000.0  # within the study's time, 2026-05-28T20:26:40Z


def packed(values) -> str:
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


def report(contract: Study = TRIAL, /, **changes) -> bytes:
    """A valid report with a new id, but for the changes."""
    if contract in (TRIAL, AGREED):
        changes = {"features": packed(contract.encode({"age": 40, "sex": "male"}))} | changes
    return encode_report(make_report(contract, secrets.token_hex(16), **changes))


def entry(
    line: bytes | None = None, *, now: float = NOW, contract: Study = TRIAL, **changes
) -> Entry:
    """The entry of a report, as the rules make it."""
    lines = [line or report(contract)]
    (read,) = Rules.of(contract, require_tokens=False).read(lines, now)
    assert isinstance(read, Entry), read
    return read._replace(**changes)


def alter(known: Entry, **changes) -> Entry:
    """Another report under the same id: its MAC is another, whatever else is."""
    return known._replace(mac=secrets.token_bytes(32), **changes)


def marked(number: int) -> str:
    """Features that carry a number which no other report has, so that a report counted twice shows
    as such.
    """
    high, low = divmod(number, 1 << 12)
    return packed([(high + 1) / (1 << 13), (low + 1) / (1 << 13), 0.0, 0.0, 0.5])


def mark_of(features: np.ndarray) -> int:
    return int(round(float(features[0]) * (1 << 13)) - 1) * (1 << 12) + int(
        round(float(features[1]) * (1 << 13)) - 1
    )


def slots(folder: Path) -> list[bytes]:
    """Every key in a folder of keys, read raw; destroyed ones are zeros."""
    found = [path.read_bytes()[PAGE:] for path in sorted(folder.glob("*.keys"))]
    return [each[i : i + SLOT] for each in found for i in range(0, len(each), SLOT)]


def opens(keys: list[bytes], id: bytes, sealed: bytes) -> int:
    """How many of the keys open a sealed report."""
    count = 0
    for key in keys:
        with contextlib.suppress(InvalidTag):
            AESGCM(key).decrypt(bytes(12), sealed, id)
            count += 1
    return count


class Clock(SystemClock):
    """Dates stand still until somebody moves them."""

    def __init__(self, time: float = NOW) -> None:
        self.time = time

    def now(self) -> float:
        return self.time


class Slept(Clock):
    """Stands still altogether; whoever waits does not, and it is noted."""

    def __init__(self, time: float = NOW) -> None:
        super().__init__(time)
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.time

    async def sleep_async(self, seconds: float) -> None:
        self.slept.append(seconds)


class InProcess:
    """An application with its lifespan, called without sockets."""

    def __init__(self, app, address: str = "127.0.0.1") -> None:
        self.app = app
        self.address = address

    async def __aenter__(self) -> httpx.AsyncClient:
        self._receive: asyncio.Queue = asyncio.Queue()
        self._sent: asyncio.Queue = asyncio.Queue()
        self._life = asyncio.create_task(
            self.app({"type": "lifespan"}, self._receive.get, self._sent.put)
        )
        await self._receive.put({"type": "lifespan.startup"})
        assert (await self._sent.get())["type"] == "lifespan.startup.complete"
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app, client=(self.address, 4711)),
            base_url="http://test",
        )
        return self.client

    async def __aexit__(self, *_) -> None:
        await self.client.aclose()
        await self._receive.put({"type": "lifespan.shutdown"})
        assert (await self._sent.get())["type"] == "lifespan.shutdown.complete"
        await self._life


@contextlib.contextmanager
def on_a_thread(app) -> Iterator[str]:
    """The application behind a real socket; yields its address."""
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(
            app, host="127.0.0.1", port=0, log_config=None, access_log=False, lifespan="on"
        )
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


SERVE = [sys.executable, "-c", "from pdml.cli import main; main()", "collect", "serve", "--test"]


class Process:
    """`pdml collect serve` as a process of its own, which can be killed."""

    def __init__(self, folder: Path, *arguments: str, database: str = "", files: int = 0) -> None:
        """``files``: how many it may have open at once."""
        study = folder / "study.toml"
        if not study.exists():
            study.write_text(render(TRIAL))
        self.database = database or str(folder / "reports.db")
        command = [
            *SERVE,
            str(study),
            "--server",
            "alice",
            "--db",
            self.database,
            "--port",
            "0",
            "--json",
        ]
        command += [
            "--operator-token",
            str(folder / "operator-token"),
            "--keys",
            str(folder / "reports.keys"),
            *arguments,
        ]
        self._errors = (folder / "stderr").open("ab")
        limit = (
            (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) if files else None
        )
        self.child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._errors, cwd=folder, preexec_fn=limit
        )
        text = b""
        assert self.child.stdout is not None
        while b"}" not in text:
            line = self.child.stdout.readline()
            assert line, (folder / "stderr").read_text()
            text += line
        self.told = json.loads(text)
        self.url = self.told["url"]

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_) -> None:
        if self.child.poll() is None:
            self.kill()

    def kill(self) -> None:
        self.child.send_signal(signal.SIGKILL)
        self._end()

    def stop(self) -> int:
        self.child.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self) -> int:
        code = self.child.wait(30)
        assert self.child.stdout is not None
        self.child.stdout.close()
        self._errors.close()
        return code
