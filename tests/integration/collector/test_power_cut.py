"""A power cut at any moment takes back no acknowledgement and no withdrawal; and this test would
notice if it did.
"""

import asyncio
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
from collecting import TRIAL, InProcess, mark_of, marked, opens, report, slots
from conversation import create
from disk import Disk, LoggedKeyDisk

from pdml.collector.intake.report_rules import collection_id, hash_id
from pdml.collector.storage.sqlite import SqliteStore
from pdml.collector.storage.store import Machine
from pdml.errors import PDMLError
from pdml.study.messages import decode_report

ALICE = collection_id(TRIAL, "alice")


NOTHING = {"lost": 0, "doubled": 0, "kept": 0}


class Sent:
    """What the devices sent, by its number: the ids, and the sealed bytes of what was withdrawn
    again.
    """

    def __init__(self):
        self.ids: list[bytes] = []
        self.withdrawn: dict[int, bytes] = {}

    def next(self) -> tuple[int, bytes]:
        line = report(features=marked(len(self.ids)))
        self.ids.append(hash_id(decode_report(line).id))
        return len(self.ids) - 1, line


def collect_through(
    disk: Disk, folder: Path, synchronous: str, *, synced_keys: bool = True
) -> Sent:
    """Send reports one by one, together and in batches, and withdraw some, marking each promise
    where it stands in the disk's log.
    """
    machine = Machine(disk=LoggedKeyDisk(disk.log, synced=synced_keys))
    store = SqliteStore(
        folder / "reports.db", ALICE, machine=machine, synchronous=synchronous, vfs=disk.name
    )
    app = create(store)
    sent = Sent()

    async def one(client):
        number, line = sent.next()
        answer = await client.post(
            "/v1/reports", content=line, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 201
        disk.mark(number)

    async def batch(client):
        mine = [sent.next() for _ in range(30)]
        body = b"\n".join(line for _, line in mine)
        answer = await client.post(
            "/v1/batches", content=body, headers={"content-type": "application/x-ndjson"}
        )
        assert answer.content.count(b'"digest"') == 30
        for number, _ in mine:
            disk.mark(number)

    def withdraw(number):
        with closing(sqlite3.connect(folder / "reports.db")) as db:
            ((sealed,),) = db.execute(
                "SELECT sealed FROM pdml_ids JOIN pdml_reports USING (key) WHERE id = ?",
                (sent.ids[number],),
            )
        sent.withdrawn[number] = sealed
        assert store.withdraw(sent.ids[number])
        disk.mark(("withdrawn", number))

    async def main():
        async with InProcess(app) as client:
            for turn in range(12):
                await one(client)
                await asyncio.gather(*(one(client) for _ in range(5)), batch(client))
                withdraw(36 * turn + turn)

    asyncio.run(main())
    return sent


def broken(
    disk: Disk, sent: Sent, folder: Path, moment: int, rng: random.Random | None
) -> dict[str, int]:
    """How many promises a power cut at ``moment`` broke: reports lost, doubled, or still to be
    opened though withdrawn.
    """
    marks = [entry[1] for entry in disk.log[:moment] if entry[0] == "mark"]
    withdrawn = {mark[1] for mark in marks if isinstance(mark, tuple)}
    begun = set(sent.withdrawn)  # a withdrawal under way may have happened or not
    for name, content in disk.after_power_cut(moment, rng).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "reports.keys").mkdir(exist_ok=True)
    shutil.copy(folder.parent / "reports.keys" / "ring", folder / "reports.keys" / "ring")
    acknowledged = {mark for mark in marks if isinstance(mark, int)}
    try:
        with closing(SqliteStore(folder / "reports.db", ALICE)) as store:
            found = [
                mark_of(np.frombuffer(row[0], dtype="<f4"))
                for chunk in store.rows(1000)
                for row in chunk
            ]
            assert store.totals().reports == len(found)
    except PDMLError:  # it cannot be read at all
        return {**NOTHING, "lost": len(acknowledged)}
    keys = slots(folder / "reports.keys")
    return {
        "lost": len(acknowledged - set(found) - begun),
        "doubled": len(found) - len(set(found)),
        "kept": len(withdrawn & set(found))
        + sum(opens(keys, sent.ids[n], sent.withdrawn[n]) for n in withdrawn),
    }


def moments(disk: Disk, rng: random.Random) -> list[int]:
    """The end, right after promises, and anywhere once there is a collection at all."""
    marks = [i + 1 for i, entry in enumerate(disk.log) if entry[0] == "mark"]
    withdrawn = [
        i + 1
        for i, entry in enumerate(disk.log)
        if entry[0] == "mark" and isinstance(entry[1], tuple)
    ]
    anywhere = (rng.randrange(marks[0], len(disk.log)) for _ in range(12))
    return [len(disk.log), *rng.sample(marks, 8), *rng.sample(withdrawn, 6), *anywhere]


def test_no_promise_is_broken_with_full_sync(disk, tmp_path):
    sent = collect_through(disk, tmp_path, "FULL")
    rng = random.Random(5)
    for i, moment in enumerate(moments(disk, rng)):
        for torn in (False, True):
            assert (
                broken(disk, sent, tmp_path / f"{i}-{torn}", moment, rng if torn else None)
                == NOTHING
            )


def test_the_same_test_fails_with_normal_sync(disk, tmp_path):
    """Proves that the test above bites."""
    sent = collect_through(disk, tmp_path, "NORMAL")
    first = next(
        i for i, entry in enumerate(disk.log) if entry[0] == "mark" and isinstance(entry[1], tuple)
    )
    acknowledged = max(i + 1 for i, entry in enumerate(disk.log[:first]) if entry[0] == "mark")
    assert broken(disk, sent, tmp_path / "after", acknowledged, None)["lost"] > 0


def test_and_with_keys_that_are_not_synced(disk, tmp_path):
    """Reports without keys, and keys that were destroyed in the memory only."""
    sent = collect_through(disk, tmp_path, "FULL", synced_keys=False)
    assert broken(disk, sent, tmp_path / "none", len(disk.log), None)["lost"] > 0
    rng = random.Random(6)
    torn = [broken(disk, sent, tmp_path / f"{i}", len(disk.log), rng) for i in range(40)]
    assert any(each["lost"] for each in torn) and any(each["kept"] for each in torn)
