"""What a withdrawal leaves: every file of both databases is read raw, logs and free pages included,
and every key is tried.
"""

import contextlib
import hmac
import json
import secrets
import sqlite3
import struct
import threading
from pathlib import Path

import psycopg
import pytest
from collecting import TRIAL, entry, marked, opens, report, slots
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pdml.collector.intake.report_rules import collection_id, hash_token
from pdml.collector.storage.records import STORED
from pdml.errors import DataError, InvalidInput, StorageUnavailable

ALICE = collection_id(TRIAL, "alice")


class Raw:
    """Everything on disk, as a thief would read it."""

    def __init__(self, open_store, tmp_path):
        self.address, self.keys = open_store.address, tmp_path / "reports.keys"
        self.kind = open_store.kind
        self.folder = (
            Path(self.address.partition("host=")[2], "data")
            if self.kind == "postgres"
            else tmp_path
        )

    def files(self):
        if self.kind == "postgres":
            with psycopg.connect(self.address, autocommit=True) as db:
                db.execute("CHECKPOINT")  # else the tables' files may not hold anything yet
        paths = (path for place in {self.folder, self.keys} for path in place.rglob("*"))
        return [path.read_bytes() for path in paths if path.is_file()]

    def slots(self):
        """Every key there is."""
        return slots(self.keys)

    def rows(self):
        """{id: (number of its key, sealed bytes)}, and the number of the totals' key."""
        if self.kind == "postgres":
            with psycopg.connect(self.address) as db:
                rows = db.execute("SELECT id, key, sealed FROM pdml_reports").fetchall()
                ((totals,),) = db.execute("SELECT tallies_key FROM pdml_collection").fetchall()
        else:
            with contextlib.closing(sqlite3.connect(self.address)) as db:
                rows = db.execute(
                    "SELECT id, key, sealed FROM pdml_ids JOIN pdml_reports USING (key)"
                ).fetchall()
                ((totals,),) = db.execute("SELECT tallies_key FROM pdml_collection").fetchall()
        return {id: (key, sealed) for id, key, sealed in rows}, totals

    def sealed_totals(self):
        if self.kind == "postgres":
            with psycopg.connect(self.address) as db:
                ((sealed,),) = db.execute("SELECT tallies FROM pdml_collection").fetchall()
        else:
            with contextlib.closing(sqlite3.connect(self.address)) as db:
                ((sealed,),) = db.execute("SELECT tallies FROM pdml_collection").fetchall()
        return sealed


@pytest.fixture
def raw(open_store, tmp_path):
    return Raw(open_store, tmp_path)


def wide(number):
    """A report of a wide study, which PostgreSQL keeps in pieces beside its table; the label and ε
    vary too.
    """
    features = secrets.token_bytes(4000) if number % 2 else secrets.token_bytes(200)
    return entry(label=number % 3, epsilon=TRIAL.epsilon_micro[number % 2])._replace(
        id=secrets.token_bytes(16), features=features
    )


def test_the_length_of_the_totals_tells_no_answer(open_store, raw):
    """Whoever copies the database before and after a report must not see that it is the first with
    its ε and class, nor that the last of them was withdrawn.
    """
    store, lengths = open_store(), set()
    every = [
        entry(epsilon=epsilon, label=label)._replace(id=secrets.token_bytes(16))
        for epsilon in TRIAL.epsilon_micro
        for label in range(3)
    ]
    for one in every:
        store.commit([one])
        lengths.add(len(raw.sealed_totals()))
    held = open_store().totals()  # read by a process that did not write them
    assert held.tallies == {(one.epsilon, one.label): 1 for one in every}
    for change in (lambda: store.withdraw(every[0].id), lambda: store.erase(1)):
        change()
        lengths.add(len(raw.sealed_totals()))
    assert lengths == {12 + 16 + 20 * 9}  # nonce, tag, and every cell there can be


def test_no_key_opens_a_withdrawn_report_and_no_file_holds_it_in_the_clear(open_store, raw):
    store = open_store()
    entries = [wide(i) for i in range(60)]
    for i in range(0, 60, 10):
        assert store.commit(entries[i : i + 10]) == [STORED] * 10
    rows, _ = raw.rows()
    gone, kept = entries[::3], [each for i, each in enumerate(entries) if i % 3]
    before = b"".join(raw.files())
    for each in entries:
        assert (
            each.id in before and rows[each.id][1][:100] in before
        )  # the search finds what is there
        assert each.features[:32] not in before and each.digest not in before
        assert opens(raw.slots(), each.id, rows[each.id][1]) == 1
    keys = []
    for each in gone:
        keys += [store._vault.keys.read(number) for number in (rows[each.id][0], raw.rows()[1])]
        assert store.withdraw(each.id) is True
    after = b"".join(raw.files())
    assert not any(key in after for key in keys)
    left = raw.slots()
    for each in gone:
        assert opens(left, each.id, rows[each.id][1]) == 0
        assert each.id in after and each.features[:32] not in after and each.digest not in after
    for each in kept:
        assert opens(left, each.id, rows[each.id][1]) == 1
    if raw.kind == "postgres":  # which is why the rows are sealed: PostgreSQL still has all of them
        assert all(rows[each.id][1][:100] in after for each in gone)
    held = sorted((each.features, each.label, each.epsilon) for each in kept)
    assert sorted(row for chunk in store.rows(7) for row in chunk) == held
    totals = store.totals()
    assert (totals.reports, totals.withdrawn) == (40, 20)
    assert sum(n for (epsilon, _), n in totals.tallies.items() if epsilon == 400_000) == sum(
        e.epsilon == 400_000 for e in kept
    )


def test_the_totals_under_a_destroyed_key_tell_nothing_of_what_was_withdrawn(open_store, raw):
    """A tally that goes down by one tells the answer: neither the one before nor any earlier one
    can be read afterwards.
    """
    store = open_store()
    mine = entry(label=2)
    store.commit([mine])
    olds = []
    for _ in range(3):
        store.commit([entry()])
        olds.append(raw.rows()[1])
    before = store._vault.keys.read(olds[0])
    assert len(set(olds)) == 1
    store.withdraw(mine.id)
    assert raw.rows()[1] != olds[0] and before not in b"".join(raw.files())
    again = open_store()
    assert again.totals().tallies == {(400_000, 0): 3}


def test_a_withdrawal_that_is_cut_short_is_finished_by_whoever_comes_next(
    open_store, raw, monkeypatch
):
    store = open_store()
    mine, others = entry(), [entry() for _ in range(3)]
    store.commit([mine, *others])
    rows, _ = raw.rows()
    ring = type(store._vault.keys)
    with monkeypatch.context() as patch:
        patch.setattr(
            ring,
            "destroy",
            lambda self, numbers: (_ for _ in ()).throw(StorageUnavailable("the power failed")),
        )
        with pytest.raises(StorageUnavailable):
            store.withdraw(mine.id)
    assert (
        opens(raw.slots(), mine.id, rows[mine.id][1]) == 1
    )  # not withdrawn yet, and nobody was told so
    again = open_store()
    assert opens(raw.slots(), mine.id, rows[mine.id][1]) == 0
    assert again.withdraw(mine.id) is False
    assert again.totals().withdrawn == 1 and sum(len(chunk) for chunk in again.rows(10)) == 3


def test_what_a_failed_transaction_sealed_cannot_be_opened_later(open_store, raw, monkeypatch):
    """The device sends it again and withdraws it: the first copy may lie in the log, and its key
    must be gone as well.
    """
    store = open_store()
    store.commit([entry()])
    mine = entry(report(features=marked(77)))
    sealed = []
    vault = store._vault

    def fails(tallies, held, used, *, anew=False):
        raise StorageUnavailable("the power failed")

    real = vault.seal

    def noting(entries, used):
        sealed.extend(real(entries, used))
        return sealed

    with monkeypatch.context() as patch:
        patch.setattr(vault, "seal", noting)
        patch.setattr(vault, "seal_tallies", fails)
        with pytest.raises(StorageUnavailable):
            store.commit([mine])
    ((number, _, bytes_),) = sealed
    assert opens(raw.slots(), mine.id, bytes_) == 1
    assert store.commit([mine]) == [STORED]
    assert opens(raw.slots(), mine.id, bytes_) == 0
    assert raw.rows()[0][mine.id][0] != number
    assert [row for chunk in store.rows(9) for row in chunk if row[0] == mine.features]


def test_what_a_dead_process_sealed_cannot_be_opened_by_the_next(open_store, raw):
    store = open_store()
    kept, lost = entry(), entry()
    store.commit([kept])
    store._vault.keys.begin()
    ((_, _, sealed),) = store._vault.seal([lost], lambda first, last: ())  # and then it dies
    store.close()
    assert opens(raw.slots(), lost.id, sealed) == 1
    again = open_store()
    again.commit([entry()])
    assert opens(raw.slots(), lost.id, sealed) == 0
    assert sum(len(chunk) for chunk in again.rows(10)) == 2


def test_two_who_write_at_once_have_keys_of_their_own(open_store, raw):
    """Neither settles what the other has under way."""
    one, two = open_store(), open_store()
    entries = [entry() for _ in range(6)]
    one.commit(entries[:1])
    two.commit(entries[1:2])
    one._vault.keys.begin()
    ((_, _, under_way),) = one._vault.seal([entries[2]], lambda first, last: ())
    two.commit(entries[3:5])
    three = open_store()
    three.commit(entries[5:])
    assert opens(raw.slots(), entries[2].id, under_way) == 1
    assert sum(len(chunk) for chunk in three.rows(10)) == 5
    assert sorted(path.name for path in raw.keys.glob("*.keys")) == ["0.keys", "1.keys", "2.keys"]
    assert three.withdraw(entries[0].id)  # and the totals have a key of the last one's
    one.close()
    four = open_store()  # which takes up the first one's file
    assert four.commit(entries[2:3]) == [STORED]
    assert opens(raw.slots(), entries[2].id, under_way) == 0
    assert sum(len(chunk) for chunk in four.rows(10)) == 5


def test_a_lost_key_is_a_report_without_a_receipt_and_harms_no_other(open_store, raw):
    store = open_store()
    mine, other = entry(), entry()
    store.commit([mine, other])
    store._vault.keys.destroy([raw.rows()[0][mine.id][0]])
    assert [each.code for each in store.commit([mine, other, entry()])] == [
        "storage_unavailable",
        "replayed",
        "stored",
    ]
    with pytest.raises(DataError, match="was destroyed"):
        list(store.rows(10))


def test_nothing_that_is_kept_finds_the_invitation(open_store, raw):
    """Whoever holds the tokens, the database and the keys must not find whose report it is by
    trying which token fits.
    """
    store = open_store()
    tokens = [secrets.token_hex(16) for _ in range(2)]
    store.invite(map(hash_token, tokens))
    line = report(token=tokens[0])
    first, again = entry(line), entry(line.replace(tokens[0].encode(), tokens[1].encode()))
    assert store.commit([first]) == [STORED]
    number, sealed = raw.rows()[0][first.id]
    plain = AESGCM(store._vault.keys.read(number)).decrypt(bytes(12), sealed, first.id)
    head = struct.pack("<qii", first.epsilon, first.label, first.hour)
    assert plain == head + first.mac + first.features
    # The one thing that depends on it is a MAC, whose key is the device's and is kept nowhere.
    nonce = bytes.fromhex(json.loads(line)["nonce"])
    assert first.mac == hmac.digest(nonce, line, "sha256")
    assert not any(nonce in each or nonce.hex().encode() in each for each in raw.files())
    # The same report by another invitation is another report, and uses none up.
    assert [outcome.code for outcome in store.commit([again])] == ["id_conflict"]
    assert store.totals().invitations_used == 1


def test_without_its_keys_a_collection_is_refused(open_store, tmp_path):
    store = open_store()
    store.commit([entry()])
    store.close()
    (tmp_path / "reports.keys").rename(tmp_path / "away")
    with pytest.raises(InvalidInput, match="keys of this collection are not in"):
        open_store()
    assert not (tmp_path / "reports.keys").exists()
    with pytest.raises(InvalidInput, match="each needs a folder of its own"):
        (tmp_path / "reports.keys").mkdir()
        (tmp_path / "reports.keys" / "ring").write_text("0" * 32)
        open_store()


def test_keys_that_are_older_than_the_database_are_noticed_before_they_are_used(
    open_store, tmp_path
):
    """Else two reports would have one key, and the withdrawal of one would take the other."""
    store = open_store()
    store.commit([entry()])
    store.close()
    old = (tmp_path / "reports.keys" / "0.keys").read_bytes()
    store = open_store()
    store.commit([entry() for _ in range(700)])
    store.close()
    (tmp_path / "reports.keys" / "0.keys").write_bytes(old)
    store = open_store()
    for attempt in (lambda: store.commit([entry()]), store.probe):
        with pytest.raises(StorageUnavailable, match="is an old copy"):
            attempt()


class Backup:
    """A copy of the database without its keys, put back later."""

    def __init__(self, raw):
        self.raw = raw
        if raw.kind == "sqlite":
            with (
                contextlib.closing(sqlite3.connect(raw.address)) as db,
                contextlib.closing(sqlite3.connect(":memory:")) as copy,
            ):
                db.backup(copy)
                self.content = copy.serialize()
            return
        with psycopg.connect(raw.address) as db:
            self.content = {
                table: db.execute(f"SELECT * FROM {table}").fetchall()
                for table in ("pdml_reports", "pdml_collection", "pdml_doomed")
            }

    def restore(self):
        if self.raw.kind == "sqlite":
            for end in ("-wal", "-shm"):
                Path(self.raw.address + end).unlink(missing_ok=True)
            Path(self.raw.address).write_bytes(self.content)
            return
        with psycopg.connect(self.raw.address) as db:
            for table, rows in self.content.items():
                db.execute(f"DELETE FROM {table}")
                for row in rows:
                    db.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row)


@pytest.mark.parametrize("first", ["totals", "commit", "withdraw"])
def test_a_database_restored_from_before_a_withdrawal_does_not_bring_the_report_back(
    open_store, raw, first
):
    """Its keys are gone, and the totals' with them; the rest goes on, whatever is done first."""
    store = open_store()
    entries = [entry(label=i % 3) for i in range(9)]
    store.commit(entries)
    backup = Backup(raw)
    for each in entries[:4]:
        store.withdraw(each.id)
    store.close()
    backup.restore()
    again = open_store()
    if first == "commit":
        assert again.commit([entry(label=2)]) == [STORED]
    elif first == "withdraw":
        assert again.withdraw(entries[1].id) is False and again.withdraw(entries[8].id) is True
    extra = {"totals": 0, "commit": 1, "withdraw": -1}[first]
    totals = again.totals()
    assert totals.reports == 5 + extra == sum(len(chunk) for chunk in again.rows(10))
    assert totals.withdrawn == 4 + (first == "withdraw")
    assert totals.tallies[400_000, 2] == 2 + extra
    assert [outcome.code for outcome in again.commit([entries[0], entries[5]])] == [
        "id_conflict",
        "replayed",
    ]


def test_a_frozen_collection_without_some_of_its_keys_says_so(open_store, raw):
    store = open_store()
    mine = entry()
    store.commit([mine, entry()])
    store.freeze(1)
    backup = Backup(raw)
    number, totals = raw.rows()[0][mine.id][0], raw.rows()[1]
    store._vault.keys.destroy([number, totals])
    store.close()
    backup.restore()
    with pytest.raises(DataError, match="frozen, but the keys of 1 of its reports were destroyed"):
        open_store().totals()


def test_totals_are_read_while_somebody_withdraws(open_store):
    """The key they were sealed with may go between reading them and reading it."""
    store, other = open_store(), open_store()
    entries = [entry() for _ in range(40)]
    store.commit(entries)
    done = threading.Event()
    seen = []

    def look():
        while not done.is_set():
            seen.append(other.totals().reports)

    thread = threading.Thread(target=look)
    thread.start()
    for each in entries[:30]:
        store.withdraw(each.id)
    done.set()
    thread.join()
    assert seen == sorted(seen, reverse=True) and set(seen) <= set(range(10, 41))
    assert other.totals().reports == 10


def test_keys_that_disappear_under_a_running_service_acknowledge_nothing(open_store, tmp_path):
    store = open_store()
    kept, other = entry(), entry()
    store.commit([kept])
    (tmp_path / "reports.keys").rename(tmp_path / "away")
    with pytest.raises(StorageUnavailable, match="the keys cannot be used: no such file"):
        store.commit([other])
    with pytest.raises(StorageUnavailable, match="the keys cannot be used"):
        store.probe()
    (tmp_path / "away").rename(tmp_path / "reports.keys")
    assert [each.code for each in store.commit([kept, other])] == ["replayed", "stored"]
