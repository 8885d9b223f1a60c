"""The collection service under load: `python -m benchmarks.collect [sqlite] [postgres] [--seconds
6] [--repeats 3]`.

The service is a real `pdml collect serve` process; the devices are one other process with
keep-alive connections that send reports of 105 features, all different, made beforehand. Every run
starts with an empty database, every answer is checked, and the database is counted afterwards.
Beside it stand what the machine gives without us: starlette that only echoes, and the number of
synced writes per second.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import uvloop

# The tests have a study, and know how to start PostgreSQL.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from example_study import STUDY

from pdml.collector.intake.report_rules import collection_id
from pdml.collector.storage import open_store
from pdml.encoding.encoder import Category, Encoder
from pdml.study.messages import FORMAT, Report, encode_report, pack_features
from pdml.study.schema.template import render

WIDTH = 105
SINGLE, BATCH = 96, 10  # connections
LINES = 100  # reports in a batch
GOALS = {
    ("sqlite", "single"): 10_000,
    ("sqlite", "batched"): 40_000,
    ("postgres", "single"): 5_000,
    ("postgres", "batched"): 25_000,
}
LEVELS = Category(name="level", levels=tuple(map(str, range(WIDTH - 1))))
BENCH = replace(STUDY, encoder=Encoder(attributes=(LEVELS,)), wording={})

ECHO = """
import sys
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from pdml.collector.http.serving import Settings, serve
async def echo(request):
    await request.body()
    return Response(b"x" * 250, status_code=201, media_type="application/json")
serve(Starlette(routes=[Route("/v1/reports", echo, methods=["POST"])]), Settings(port=0),
      on_ready=lambda url: print('{"url": "' + url + '"}', flush=True))
"""


def reports(count):
    """Canonical bytes of random reports with norm just below 1."""
    rng = np.random.default_rng(secrets.randbits(64))
    rows = rng.normal(size=(count, WIDTH))
    rows[:, -1] = np.abs(rows[:, -1]) + 0.01
    rows = (rows / (np.linalg.norm(rows, axis=1, keepdims=True) * 1.00001)).astype(np.float32)
    menu = BENCH.epsilon_micro
    return [
        encode_report(
            Report(
                version=FORMAT.version,
                study=BENCH.hash,
                id=secrets.token_hex(16),
                nonce=secrets.token_hex(16),
                epsilon=menu[i % len(menu)],
                label=i % 2,
                features=pack_features(row),
            )
        )
        for i, row in enumerate(rows)
    ]


def request(path, kind, body):
    return b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (
        path,
        kind,
        len(body),
        body,
    )


def requests(mode, count):
    lines = reports(count)
    if mode == "single":
        return [request(b"/v1/reports", b"application/json", line) for line in lines]
    groups = (lines[i : i + LINES] for i in range(0, count, LINES))
    return [request(b"/v1/batches", b"application/x-ndjson", b"\n".join(group)) for group in groups]


class Device(asyncio.Protocol):
    """One keep-alive connection: send, wait for the answer, send the next."""

    def __init__(self, run):
        self.run = run
        self.buffer = b""

    def connection_made(self, transport):
        self.transport = transport
        self.next()

    def next(self):
        body = next(self.run.requests, None)
        if body is None or time.perf_counter() > self.run.deadline:
            self.transport.close()
            self.run.left -= 1
            if not self.run.left:
                self.run.ended.set()
            return
        self.sent = time.perf_counter()
        self.transport.write(body)

    def data_received(self, data):
        self.buffer = self.buffer + data if self.buffer else data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self.buffer.find(b"content-length: ") + 16
        length = int(self.buffer[at : self.buffer.find(b"\r", at)])
        if len(self.buffer) < head + 4 + length:
            return
        self.run.latencies.append(time.perf_counter() - self.sent)
        self.run.stored += (
            1 if self.buffer.startswith(b"HTTP/1.1 201") else self.buffer.count(b'"digest"', head)
        )
        self.buffer = b""
        self.next()


class Run:
    """One measurement against one address."""

    def __init__(self, requests, seconds):
        self.requests = iter(requests)
        self.seconds = seconds
        self.latencies = []
        self.stored = 0

    async def against(self, port, connections):
        loop = asyncio.get_running_loop()
        self.left, self.ended = connections, asyncio.Event()
        start = time.perf_counter()
        self.deadline = start + self.seconds
        for _ in range(connections):
            await loop.create_connection(lambda: Device(self), "127.0.0.1", port)
        await self.ended.wait()
        return time.perf_counter() - start


@contextlib.contextmanager
def process(command, **options):
    child = subprocess.Popen(command, stdout=subprocess.PIPE, **options)
    try:
        text = b""
        while b"}" not in text:
            text += child.stdout.readline() or sys.exit("benchmarks: the service did not start")
        yield child, int(json.loads(text)["url"].rsplit(":", 1)[1])
    finally:
        child.terminate()
        child.wait()
        child.stdout.close()


def measure(folder, database, mode, seconds, expected):
    """(reports per second, p50 and p99 in ms, the service's µs per report), after counting what the
    database holds.
    """
    keys = folder / f"{secrets.token_hex(4)}.keys"
    command = [sys.executable, "-c", "from pdml.cli import main; main()", "collect", "serve"]
    command += ["study.toml", "--server", "alice", "--test", "--open", "--port", "0", "--json"]
    command += ["--db", database, "--keys", str(keys), "--operator-token", "operator-token"]
    run = Run(requests(mode, int(expected * seconds) // LINES * LINES), seconds)
    with process(command, cwd=folder) as (child, port):
        before = cpu_seconds(child.pid)
        took = uvloop.run(run.against(port, SINGLE if mode == "single" else BATCH))
        worked = cpu_seconds(child.pid) - before
    with contextlib.closing(
        open_store(database, collection_id(BENCH, "alice"), create=False, keys=keys)
    ) as store:
        held = sum(len(chunk) for chunk in store.rows(10_000))
        assert run.stored == held == store.totals().reports, (run.stored, held)
    return (
        run.stored / took,
        *(np.percentile(run.latencies, q) * 1e3 for q in (50, 99)),
        worked / run.stored * 1e6,
    )


def cpu_seconds(pid):
    """What a process has used of the processor: a figure that neighbours on the machine change
    little.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def echo(seconds):
    run = Run(requests("single", int(25_000 * seconds)), seconds)
    with process([sys.executable, "-c", ECHO]) as (_, port):
        took = uvloop.run(run.against(port, SINGLE))
    return run.stored / took


def syncs(folder, seconds=1.0):
    """Synced writes of a page per second, one after the other."""
    handle = os.open(folder / "syncs", os.O_CREAT | os.O_RDWR)
    try:
        count, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            os.pwrite(handle, bytes(4096), 4096 * count)
            os.fdatasync(handle)
            count += 1
    finally:
        os.close(handle)
    return count / seconds


@contextlib.contextmanager
def databases(kind, folder):
    """A function that names a new, empty database."""
    if kind == "sqlite":
        yield lambda: str(folder / f"{secrets.token_hex(4)}.db")
        return
    import psycopg
    from postgres_process import postgres_server

    with (
        tempfile.TemporaryDirectory(prefix="pdml-pg-", ignore_cleanup_errors=True) as place,
        postgres_server(Path(place)) as address,
    ):

        def new():
            name = f"bench_{secrets.token_hex(4)}"
            with psycopg.connect(address.format("postgres"), autocommit=True) as db:
                db.execute(f"CREATE DATABASE {name}")
            return address.format(name)

        yield new


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", default=["sqlite", "postgres"])
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    machine = f"{platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} cores"
    print(f"{machine}, Python {platform.python_version()}, {WIDTH} features")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "study.toml").write_text(render(BENCH))
        names = ("p50 ms", "p99 ms", "cpu µs", "goal")
        ratios = f"{'/echo':>6} {'/sync':>6} {'load':>5}"
        print(
            f"{'store':9} {'mode':8} {'reports/s':>10} "
            f"{' '.join(f'{name:>7}' for name in names)} {ratios}"
        )
        for kind in given.stores:
            with databases(kind, folder) as new:
                for mode in ("single", "batched"):
                    runs = []
                    for _ in range(given.repeats):
                        bare, synced = echo(2.0), syncs(folder)
                        rate, p50, p99, cpu = measure(
                            folder, new(), mode, given.seconds, 2 * GOALS[kind, mode]
                        )
                        runs.append((rate, p50, p99, cpu, rate / bare, rate / synced))
                    rate, p50, p99, cpu, by_echo, by_sync = (
                        statistics.median(column) for column in zip(*runs, strict=True)
                    )
                    spread = (
                        f"{min(runs)[0]:,.0f} to {max(runs)[0]:,.0f}; echo "
                        f"{bare:,.0f}/s, {synced:,.0f} syncs/s"
                    )
                    told = (
                        f"{kind:9} {mode:8} {rate:10,.0f} {p50:7.1f} {p99:7.1f} "
                        f"{cpu:7.1f} {GOALS[kind, mode]:7,}"
                    )
                    print(
                        f"{told} {by_echo:6.2f} {by_sync:6.2f} {os.getloadavg()[0]:5.2f}   "
                        f"({spread})",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
