"""What the tests of the collection service share: a study, reports, stores, and the service in this process or its own."""

import asyncio
import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np

from pdml.collect.rules import Rules
from pdml.collect.store import Entry
from pdml.messages import Report, encode_report
from pdml.study import Study

STUDY = """
[study]
id = "trial"
title = "A trial"
min_records = 3
opens = 2026-01-01T00:00:00Z
closes = 2100-01-01T00:00:00Z
[label]
question = "Well?"
classes = ["no", "yes", "unsure"]
epsilon = { menu = [0.5, 1.0], default = 1.0 }
[[attributes]]
name = "age"
kind = "number"
range = [0, 100]
[[attributes]]
name = "sex"
kind = "category"
levels = ["female", "male"]
[[servers]]
name = "alice"
url = "https://alice.example"
[[servers]]
name = "bob"
url = "https://bob.example"
[topology]
edges = [["alice", "bob"]]
"""
NOW = 1_780_000_000.0  # within the study's time, 2026-05-28T20:26:40Z
TRIAL = Study.from_text(STUDY)


def packed(values) -> str:
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


def report(contract: Study = TRIAL, /, **changes) -> bytes:
    """A valid report with a new id, but for the changes."""
    fields = {
        "version": 1,
        "study": contract.hash,
        "id": secrets.token_hex(16),
        "epsilon": contract.epsilon_micro[0],
        "label": 0,
        "features": packed(contract.encode({"age": 40, "sex": "male"})) if contract is TRIAL else packed([0.1] * contract.width),
        "token": "",
    }
    return encode_report(Report(**(fields | changes)))


def entry(line: bytes | None = None, *, now: float = NOW, **changes) -> Entry:
    """The entry of a report, as the rules make it."""
    (read,) = Rules.of(TRIAL, require_tokens=False).read([line or report()], now)
    assert isinstance(read, Entry), read
    return read._replace(**changes)


def marked(number: int) -> str:
    """Features that carry a number which no other report has, so that a report counted twice shows as such."""
    high, low = divmod(number, 1 << 12)
    return packed([(high + 1) / (1 << 13), (low + 1) / (1 << 13), 0.0, 0.5])


def mark_of(features: np.ndarray) -> int:
    return int(round(float(features[0]) * (1 << 13)) - 1) * (1 << 12) + int(round(float(features[1]) * (1 << 13)) - 1)


class InProcess:
    """An application with its lifespan, called without sockets."""

    def __init__(self, app) -> None:
        self.app = app

    async def __aenter__(self) -> httpx.AsyncClient:
        self._receive: asyncio.Queue = asyncio.Queue()
        self._sent: asyncio.Queue = asyncio.Queue()
        self._life = asyncio.create_task(self.app({"type": "lifespan"}, self._receive.get, self._sent.put))
        await self._receive.put({"type": "lifespan.startup"})
        assert (await self._sent.get())["type"] == "lifespan.startup.complete"
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://test")
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

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, lifespan="on"))
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


SERVE = [sys.executable, "-c", "from pdml.cli import main; main()", "collect", "serve"]


class Process:
    """`pdml collect serve` as a process of its own, which can be killed."""

    def __init__(self, folder: Path, *arguments: str, database: str = "", env: dict[str, str] | None = None) -> None:
        study = folder / "study.toml"
        if not study.exists():
            study.write_text(STUDY)
        self.database = database or str(folder / "reports.db")
        command = [*SERVE, str(study), "--server", "alice", "--db", self.database, "--port", "0", "--json"]
        command += ["--operator-token", str(folder / "operator-token"), *arguments]
        self._errors = (folder / "stderr").open("ab")
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, cwd=folder, env={**os.environ, **(env or {})})
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


# PostgreSQL


def postgres_binaries() -> Path | None:
    """The folder of initdb and pg_ctl, which Debian does not put on PATH."""
    found = shutil.which("pg_ctl")
    if found:
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    return folders[-1].parent if folders else None


@contextlib.contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """A real PostgreSQL with its data in ``folder``, reached by a socket there; yields the start of an address.

    PostgreSQL refuses to run as root, so that root runs it as the user postgres or, without one, as nobody.
    """
    binaries = postgres_binaries()
    assert binaries is not None
    prefix: list[str] = []
    if os.geteuid() == 0:
        import pwd

        user = "postgres" if any(each.pw_name == "postgres" for each in pwd.getpwall()) else "nobody"
        for parent in (folder, *folder.parents[:-1]):
            if parent == Path("/tmp"):
                break
            parent.chmod(parent.stat().st_mode | 0o011)
        shutil.chown(folder, user)
        prefix = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups", "--"]
    data = folder / "data"

    def run(*command: str) -> None:
        done = subprocess.run([*prefix, *command], capture_output=True, cwd=folder, text=True)
        assert done.returncode == 0, done.stderr + done.stdout

    run(str(binaries / "initdb"), "-D", str(data), "-U", "pdml", "--auth=trust", "--no-sync", "-E", "UTF8")
    options = f"-k {folder} -c listen_addresses= -c max_connections=30 -c shared_buffers=64MB -c log_min_duration_statement=-1"
    # Not through a pipe, which the server would inherit and keep open.
    done = subprocess.run(
        [*prefix, str(binaries / "pg_ctl"), "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    )
    try:
        assert done.returncode == 0, (folder / "log").read_text()
        yield f"postgresql://pdml@/{{}}?host={folder}"
    finally:
        run(str(binaries / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
