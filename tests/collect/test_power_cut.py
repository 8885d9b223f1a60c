"""A power cut at any moment takes back no acknowledgement; and this test would notice if it did."""

import asyncio
import random
from pathlib import Path

import numpy as np
from collecting import NOW, TRIAL, InProcess, mark_of, marked, report
from disk import Disk

from pdml.collect import app as application
from pdml.collect.rules import identity
from pdml.collect.sqlite import SqliteStore

ALICE = identity(TRIAL, "alice")


def collect_through(disk: Disk, folder: Path, synchronous: str) -> None:
    """Send reports one by one, together and in batches, marking each acknowledgement where it stands in the disk's log."""
    store = SqliteStore(folder / "reports.db", ALICE, synchronous=synchronous, vfs=disk.name)
    app = application.create(TRIAL, "alice", store, page=b"", page_headers={}, clock=lambda: NOW, require_tokens=False)
    numbers = iter(range(10_000))

    async def one(client):
        number = next(numbers)
        answer = await client.post("/v1/reports", content=report(features=marked(number)), headers={"content-type": "application/json"})
        assert answer.status_code == 201
        disk.mark(number)

    async def batch(client):
        mine = [next(numbers) for _ in range(30)]
        body = b"\n".join(report(features=marked(number)) for number in mine)
        answer = await client.post("/v1/batches", content=body, headers={"content-type": "application/x-ndjson"})
        assert answer.content.count(b'"digest"') == 30
        for number in mine:
            disk.mark(number)

    async def main():
        async with InProcess(app) as client:
            for _ in range(12):
                await one(client)
                await asyncio.gather(*(one(client) for _ in range(5)), batch(client))

    asyncio.run(main())


def lost_and_doubled(disk: Disk, folder: Path, moment: int, rng: random.Random | None) -> tuple[int, int]:
    """How many acknowledged reports are missing, and how many are there twice, after a power cut at ``moment``."""
    promised = [entry[1] for entry in disk.log[:moment] if entry[0] == "mark"]
    folder.mkdir()
    for name, content in disk.after_power_cut(moment, rng).items():
        (folder / name).write_bytes(content)
    store = SqliteStore(folder / "reports.db", ALICE)
    found = [mark_of(np.frombuffer(row[0], dtype="<f4")) for chunk in store.rows(1000) for row in chunk]
    totals = store.totals()
    store.close()
    assert totals.reports == len(found)
    return len(set(promised) - set(found)), len(found) - len(set(found))


def moments(disk: Disk, rng: random.Random) -> list[int]:
    """The end, right after acknowledgements, and anywhere once there is a collection at all."""
    marks = [i + 1 for i, entry in enumerate(disk.log) if entry[0] == "mark"]
    return [len(disk.log), *rng.sample(marks, 12), *(rng.randrange(marks[0], len(disk.log)) for _ in range(12))]


def test_nothing_acknowledged_is_lost_with_full_sync(disk, tmp_path):
    collect_through(disk, tmp_path, "FULL")
    rng = random.Random(5)
    for i, moment in enumerate(moments(disk, rng)):
        for torn in (False, True):
            assert lost_and_doubled(disk, tmp_path / f"{i}-{torn}", moment, rng if torn else None) == (0, 0)


def test_the_same_test_fails_with_normal_sync(disk, tmp_path):
    """Proves that the test above bites."""
    collect_through(disk, tmp_path, "NORMAL")
    marks = [i + 1 for i, entry in enumerate(disk.log) if entry[0] == "mark"]
    lost, _ = lost_and_doubled(disk, tmp_path / "after", marks[len(marks) // 2], None)
    assert lost > 0
