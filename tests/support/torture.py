"""kill -9 under load, again and again: `python tests/support/torture.py --kills 1000`; a test runs
a short form.

Every report carries a number of its own (and every second one an invitation), so that a report
counted twice shows as such. Devices behave as real ones: what was not acknowledged is sent again,
with the same bytes, to the service that came back. Meanwhile another process withdraws reports,
which must be gone for good, and nothing else with them.
"""

import argparse
import asyncio
import contextlib
import json
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from collecting import TRIAL, Process, mark_of, marked, report

from pdml.collector.intake.report_rules import collection_id, hash_id, hash_token
from pdml.collector.storage import open_store
from pdml.collector.storage.store import Store

CONNECTIONS = 12
BATCH = 25
FAULTS = ("lost", "doubled", "missing", "kept", "miscounted", "strange")


@dataclass
class Crowd:
    """All devices: what they have sent, and what they were promised."""

    rng: random.Random
    tokens: list[str] = field(default_factory=list)
    waiting: list[tuple[int, bytes]] = field(default_factory=list)  # sent and not acknowledged
    promised: set[int] = field(default_factory=set)
    ids: list[bytes] = field(default_factory=list)  # by number
    withdrawn: set[int] = field(default_factory=set)  # by somebody who was told so
    made: int = 0
    strange: Counter = field(
        default_factory=Counter
    )  # answers that are neither receipts nor "later"

    def take(self, count: int) -> list[tuple[int, bytes]]:
        """Old reports first, then new ones."""
        old, self.waiting = self.waiting[:count], self.waiting[count:]
        while len(old) < count:
            token = self.tokens.pop() if self.made % 2 and self.tokens else ""
            line = report(features=marked(self.made), label=self.made % 3, token=token)
            old.append((self.made, line))
            self.ids.append(hash_id(json.loads(line)["id"]))
            self.made += 1
        return old

    def heard(self, reports: list[tuple[int, bytes]], answers: list[bytes]) -> None:
        for (number, line), answer in zip(reports, answers, strict=True):
            if b'"digest"' in answer:
                self.promised.add(number)
            else:
                if b'"storage_unavailable"' not in answer:
                    self.strange[answer] += 1
                self.waiting.append((number, line))


async def device(crowd: Crowd, port: int) -> None:
    """One connection that sends until the service dies under it."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while True:
                many = crowd.rng.random() < 0.5
                reports = crowd.take(BATCH if many else 1)
                answers: list[bytes] = []
                try:
                    answers = await exchange(
                        reader, writer, b"\n".join(line for _, line in reports), many
                    )
                finally:  # whatever was not answered is sent again
                    crowd.heard(reports[: len(answers)], answers)
                    crowd.waiting += reports[len(answers) :]
        finally:
            writer.close()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes, many: bool
) -> list[bytes]:
    path, kind = (
        (b"/v1/batches", b"application/x-ndjson") if many else (b"/v1/reports", b"application/json")
    )
    writer.write(
        b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s"
        % (path, kind, len(body), body)
    )
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return (await reader.readexactly(length)).splitlines()


async def load(
    crowd: Crowd, service: Process, seconds: float, withdraw: Callable[[], None]
) -> None:
    """Load the service for a while, withdraw something, then kill it in the middle of its work."""
    devices = [asyncio.create_task(device(crowd, service.port)) for _ in range(CONNECTIONS)]
    withdrawing = asyncio.create_task(asyncio.to_thread(withdraw))
    await asyncio.sleep(seconds)
    await asyncio.to_thread(service.kill)
    await asyncio.gather(withdrawing, *devices)


async def settle(crowd: Crowd, service: Process) -> None:
    """Send again everything that was never acknowledged."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    while crowd.waiting:
        reports, crowd.waiting = crowd.waiting[:500], crowd.waiting[500:]
        crowd.heard(
            reports, await exchange(reader, writer, b"\n".join(line for _, line in reports), True)
        )
    writer.close()


def marks(store: Store) -> Counter:
    """How often each report's number is stored."""
    return Counter(
        mark_of(np.frombuffer(row[0], dtype="<f4")) for chunk in store.rows(10_000) for row in chunk
    )


def torture(
    folder: Path, *, kills: int, seed: int, database: str = "", say=lambda text: None
) -> dict[str, int]:
    """Kill the service so many times; count acknowledged reports that are lost and reports that are
    there twice.
    """
    rng = random.Random(seed)
    crowd = Crowd(rng)
    database = database or str(folder / "reports.db")
    who = collection_id(TRIAL, "alice")
    lost = 0

    def opened() -> contextlib.closing[Store]:
        return contextlib.closing(
            open_store(database, who, create=True, keys=folder / "reports.keys")
        )

    def withdraw() -> None:
        """One report that is promised, also while the service is taking others."""
        if left := sorted(crowd.promised - crowd.withdrawn):
            number = rng.choice(left)
            with opened() as store:
                assert store.withdraw(crowd.ids[number])
            crowd.withdrawn.add(number)

    for kill in range(kills):
        with opened() as store:
            fresh = [secrets.token_hex(16) for _ in range(max(0, 2_000 - len(crowd.tokens)))]
            store.invite(map(hash_token, fresh))
            crowd.tokens += fresh
        with Process(folder, "--open", database=database) as service:
            asyncio.run(load(crowd, service, rng.uniform(0.02, 0.4), withdraw))
        if (kill + 1) % 50 == 0 or kill + 1 == kills:
            with opened() as store:
                held = marks(store)
            lost = max(lost, len(crowd.promised - crowd.withdrawn - set(held)))
            say(
                f"{kill + 1} kills: {len(crowd.promised):,} acknowledged, {lost} lost, "
                f"{sum(n > 1 for n in held.values())} doubled"
            )
    with Process(folder, "--open", database=database) as service:
        asyncio.run(settle(crowd, service))
        assert service.stop() == 0
    with opened() as store:
        held, totals = marks(store), store.totals()
    return {
        "kills": kills,
        "sent": crowd.made,
        "acknowledged": len(crowd.promised),
        "withdrawn": len(crowd.withdrawn),
        "lost": max(lost, len(crowd.promised - crowd.withdrawn - set(held))),
        "doubled": sum(n > 1 for n in held.values()),
        "missing": crowd.made - len(crowd.withdrawn) - len(held),
        "kept": len(crowd.withdrawn & set(held)),
        "miscounted": abs(totals.reports - sum(held.values()))
        + abs(totals.withdrawn - len(crowd.withdrawn)),
        "strange": sum(crowd.strange.values()),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--database", default="", help="postgresql://... instead of an SQLite file")
    given = parser.parse_args()
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as name:
        result = torture(
            Path(name),
            kills=given.kills,
            seed=given.seed,
            database=given.database,
            say=lambda text: print(text, flush=True),
        )
    print(", ".join(f"{count:,} {what}" for what, count in result.items()))
    sys.exit(any(result[what] for what in FAULTS))
