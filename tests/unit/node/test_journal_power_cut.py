"""A power cut at any moment takes back no release that was sent, nor its debit."""

import random
from contextlib import closing

import pytest
from disk import Disk

from pdml.accounting.events import IterateReleased
from pdml.node.storage.journal import Journal

ROUNDS = 12
TERMS = {"terms": "c", "server": "alice", "dataset": "data", "source": "secure", "plan": "{}"}


@pytest.fixture
def disk():
    made = Disk("journal", default=True)
    yield made
    made.close()


def payload(t):
    return bytes([t]) * 40  # unique, so that a doubled or mixed-up one shows


def event(t):
    return IterateReleased(t=t, stddev=0.1, label_sensitivity=0.1, record_sensitivity=0.2)


def released(disk, folder, *, weaken=""):
    """A journal's life on ``disk``; what is promised to the outside world is marked in its log."""
    with closing(Journal(folder / "node.db")) as journal:
        if weaken:
            journal._db.change(f"PRAGMA {weaken}")
        journal.begin("job", **TERMS, sealed=b"sealed")
        disk.mark(0)
        for t in range(1, ROUNDS + 1):
            journal.commit("job", t, payload=payload(t), events=[event(t)])
            disk.mark(t)
            journal.receive("job", t, "bob", digest="d", payload=payload(100 + t), signature=b"s")
            journal.sync()
            disk.mark(-t)


def remembered(disk, folder, moment, rng=None):
    """What a journal that starts after the power cut knows: rounds, debits, and what was heard."""
    folder.mkdir()
    for name, content in disk.after_power_cut(moment, rng).items():
        (folder / name).write_bytes(content)
    with closing(Journal(folder / "node.db")) as journal:
        known = journal.job("job")
        last = known.round if known else 0
        rounds = range(1, last + 1)
        assert [journal.outgoing("job", t) for t in rounds] == [payload(t) for t in rounds]
        assert journal.spent("data") == tuple(event(t) for t in rounds)  # each once, and no other
        return last, journal.latest_round("job", "bob")


def test_what_was_sent_is_remembered_with_its_debit(disk, tmp_path):
    released(disk, tmp_path)
    rng = random.Random(5)
    first = next(i for i, entry in enumerate(disk.log) if entry == ("mark", 0))
    marks = [i + 1 for i, entry in enumerate(disk.log) if entry[0] == "mark"]
    anywhere = [rng.randrange(first + 1, len(disk.log)) for _ in range(20)]
    for i, moment in enumerate([len(disk.log), *marks, *anywhere]):
        promised = [entry[1] for entry in disk.log[:moment] if entry[0] == "mark"]
        for torn in (False, True):
            last, heard = remembered(disk, tmp_path / f"{i}-{torn}", moment, rng if torn else None)
            assert last >= max(promised) and heard >= -min(promised)


def test_the_same_test_fails_without_a_sync_for_every_commit(disk, tmp_path):
    released(disk, tmp_path, weaken="synchronous=NORMAL")
    middle = next(i for i, entry in enumerate(disk.log) if entry == ("mark", ROUNDS // 2))
    last, _ = remembered(disk, tmp_path / "after", middle + 1)
    assert last < ROUNDS // 2
