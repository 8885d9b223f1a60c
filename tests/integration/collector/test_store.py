"""What every store promises, held by SQLite and by a real PostgreSQL alike."""

import os
import secrets
import sqlite3
import threading
from dataclasses import replace

import pytest
from collecting import TRIAL, alter, entry, mark_of, marked, report
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdml.collector.intake.report_rules import collection_id, hash_token
from pdml.collector.storage.records import STORED, CollectionState, Decision
from pdml.collector.storage.sqlite import SqliteStore
from pdml.errors import InvalidInput, StorageUnavailable
from pdml.study.messages import decode_report, features_of


def codes(outcomes):
    return [outcome.code for outcome in outcomes]


def invited(store, count=1):
    tokens = [secrets.token_hex(16) for _ in range(count)]
    store.invite(map(hash_token, tokens))
    return tokens


def test_an_entry_is_stored_once_and_its_repetition_gets_the_first_hour(store):
    first = entry()
    assert store.commit([first]) == [STORED]
    assert store.commit([first._replace(hour=first.hour + 5)]) == [Decision("replayed", first.hour)]
    for other in ({}, {"label": 1}, {"features": bytes(4 * TRIAL.width)}):
        assert store.commit([alter(first, **other)]) == [Decision("id_conflict")]
    totals = store.totals()
    assert (totals.reports, totals.conflicts) == (1, 3)


def test_one_group_may_hold_anything(store):
    known, new, twice = entry(), entry(label=1), entry(epsilon=1_000_000)
    store.commit([known])
    group = [
        known,
        new,
        twice,
        twice,
        alter(twice, label=2),
        entry(closed_reason="too_early"),
        known._replace(closed_reason="closed"),
    ]
    assert codes(store.commit(group)) == [
        "replayed",
        "stored",
        "stored",
        "replayed",
        "id_conflict",
        "too_early",
        "replayed",
    ]
    totals = store.totals()
    assert (
        totals.tallies == {(400_000, 0): 1, (400_000, 1): 1, (1_000_000, 0): 1}
        and totals.reports == 3
    )


@pytest.mark.parametrize("size", [1, 3, 4, 5, 255, 256, 257, 700])
def test_groups_of_any_size_come_back_row_for_row(store, size):
    entries = [entry(report(features=marked(i), label=i % 3)) for i in range(size)]
    assert store.commit(entries) == [STORED] * size
    rows = [row for chunk in store.rows(100) for row in chunk]
    by_id = sorted(entries, key=lambda each: each.id)
    assert [tuple(row) for row in rows] == [
        (each.features, each.label, each.epsilon) for each in by_id
    ]


def test_a_token_is_used_once_in_the_report_s_own_transaction(store):
    (token,) = invited(store)
    first, second, stranger = (
        entry(report(token=each)) for each in (token, token, secrets.token_hex(16))
    )
    assert codes(store.commit([stranger])) == ["token_unknown"]
    assert codes(store.commit([first])) == ["stored"]
    assert codes(store.commit([second, stranger, first])) == [
        "token_used",
        "token_unknown",
        "replayed",
    ]
    totals = store.totals()
    assert (totals.reports, totals.invitations, totals.invitations_used) == (1, 1, 1)


def test_two_in_one_group_cannot_share_a_token(store):
    (token,) = invited(store)
    assert codes(store.commit([entry(report(token=token)) for _ in range(3)])) == [
        "stored",
        "token_used",
        "token_used",
    ]


def test_a_refused_report_leaves_its_token_fresh(store):
    known = entry()
    (token,) = invited(store)
    store.commit([known])
    clash = entry(report(token=token, label=1))._replace(id=known.id)
    assert codes(store.commit([clash, entry(report(token=token), closed_reason="closed")])) == [
        "id_conflict",
        "closed",
    ]
    assert codes(store.commit([entry(report(token=token))])) == ["stored"]


def test_racing_writers_agree_on_one_winner_for_every_id_and_token(open_store):
    """Several connections commit overlapping groups at once: each id and each token has exactly one
    winner.
    """
    tokens = invited(open_store(), 30)
    shared = [report() for _ in range(30)]
    results, barrier = [], threading.Barrier(4)

    def work(number):
        store = open_store()
        groups = [[entry(shared[i]), entry(report(token=tokens[i]))] for i in range(30)]
        barrier.wait()
        results.append(
            [store.commit(group) for group in (groups if number % 2 else groups[::-1])][
                :: 1 if number % 2 else -1
            ]
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(30):
        assert sorted(result[i][0].code for result in results) == ["replayed"] * 3 + ["stored"]
        assert sorted(result[i][1].code for result in results) == ["stored"] + ["token_used"] * 3
    assert open_store().totals().reports == 60


def test_a_withdrawn_report_is_gone_but_its_id_stays_taken(store):
    mine, other = entry(report(features=marked(7), label=2)), entry()
    store.commit([mine, other])
    assert store.withdraw(mine.id) is True
    assert store.withdraw(mine.id) is False
    assert codes(store.commit([mine, alter(mine, label=1)])) == ["id_conflict", "id_conflict"]
    totals = store.totals()
    assert totals.tallies == {(400_000, 0): 1} and totals.withdrawn == 1
    assert [row[0] for chunk in store.rows(10) for row in chunk] == [other.features]
    with pytest.raises(InvalidInput, match="no report"):
        store.withdraw(bytes(16))


def test_closing_and_opening(store):
    known = entry()
    store.commit([known])
    store.set_open(False)
    assert codes(store.commit([entry(), known])) == ["closed", "replayed"]
    store.set_open(True)
    assert codes(store.commit([entry()])) == ["stored"]


def test_frozen_is_for_good(store):
    known = entry()
    store.commit([known])
    assert store.freeze(7) == 7 and store.freeze(9) == 7
    assert codes(store.commit([entry(), known, entry(closed_reason="closed")])) == [
        "frozen",
        "replayed",
        "frozen",
    ]
    for change in (
        lambda: store.withdraw(known.id),
        lambda: store.set_open(True),
        lambda: store.invite([bytes(32)]),
    ):
        with pytest.raises(InvalidInput, match="frozen"):
            change()
    totals = store.totals()
    assert (totals.state, totals.reports, totals.frozen_hour) == (CollectionState.FROZEN, 1, 7)


def test_a_new_process_finds_everything(open_store):
    first = open_store()
    (token,) = invited(first)
    known = entry(report(token=token))
    first.commit([known])
    first.set_digest("d")
    before = first.totals()
    first.close()
    again = open_store()
    assert again.totals() == before
    assert codes(again.commit([known, entry(report(token=token))])) == ["replayed", "token_used"]


def test_another_contract_or_server_is_refused(open_store):
    open_store()
    mine = collection_id(TRIAL, "alice")
    with pytest.raises(InvalidInput, match="a changed study needs its own database"):
        open_store(replace(mine, study_hash="0" * 64))
    with pytest.raises(InvalidInput, match="server 'alice', not of 'bob'"):
        open_store(replace(mine, server="bob"))


def test_a_server_that_the_study_does_not_name_is_refused():
    with pytest.raises(InvalidInput, match="no server 'mallory'"):
        collection_id(TRIAL, "mallory")


def test_the_probe_commits_and_changes_nothing(store):
    before = store.totals()
    store.probe()
    assert store.totals() == before


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(0, 1), st.sampled_from(["", "closed"]), st.integers(0, 4)
        ),
        max_size=12,
    ),
    st.data(),
)
def test_groups_never_matter(open_store, sent, data):
    """However a sequence of reports is cut into groups, each gets the answer of a simple model that
    takes one at a time.
    """
    store = open_store()
    salt = secrets.token_bytes(8)
    tokens = [secrets.token_hex(16) for _ in range(3)]
    store.invite(map(hash_token, tokens))
    hashes = [hash_token(token) for token in tokens] + [b"", b"s" * 24 + salt]
    base = entry()
    entries = [
        base._replace(
            id=salt + bytes([n] * 8),
            label=body,
            closed_reason=barred,
            token=hashes[token],
            mac=bytes([body] * 32),
        )
        for n, body, barred, token in sent
    ]
    expected, stored, used = [], {}, set()
    for each in entries:
        if each.id in stored:
            expected.append("replayed" if stored[each.id] == each.label else "id_conflict")
        elif each.closed_reason:
            expected.append(each.closed_reason)
        elif each.token and each.token not in hashes[:3]:
            expected.append("token_unknown")
        elif each.token in used:
            expected.append("token_used")
        else:
            expected.append("stored")
            stored[each.id] = each.label
            used |= {each.token} - {b""}
    got = []
    while entries:
        size = data.draw(st.integers(1, len(entries)))
        got += codes(store.commit(entries[:size]))
        entries = entries[size:]
    assert got == expected


def test_marks_are_read_back():
    for number in (0, 1, 4095, 4096, 1_000_000):
        assert mark_of(features_of(decode_report(report(features=marked(number))))) == number


def test_a_report_that_was_stored_without_an_invitation_keeps_its_receipt_when_they_are_asked_for(
    store,
):
    known, new = entry(), entry(closed_reason="token_missing")
    store.commit([known])
    assert codes(store.commit([known._replace(closed_reason="token_missing"), new])) == [
        "replayed",
        "token_missing",
    ]


def test_sqlite_commits_at_once_or_not_at_all(sqlite):
    """While another process writes, nobody who must not wait does; whoever may wait gets through
    when it has ended.
    """
    first, second, third = entry(), entry(), entry()
    assert sqlite.commit_at_once([first]) == [STORED]
    assert sqlite.commit_at_once([first]) is None  # needs a closer look
    other = sqlite3.connect(sqlite.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert sqlite.commit_at_once([second]) is None
    other_thread = sqlite3.connect(sqlite.path, isolation_level=None, check_same_thread=False)
    other.execute("COMMIT")
    other.close()
    other_thread.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, other_thread.execute, ["COMMIT"])
    timer.start()
    assert sqlite.commit([second]) == [STORED]
    timer.join()
    other_thread.close()
    with sqlite.lock:
        found = []
        asking = threading.Thread(target=lambda: found.append(sqlite.commit_at_once([third])))
        asking.start()
        asking.join()
    assert found == [None]
    assert sqlite.totals().reports == 2


def test_another_collection_in_the_place_of_an_open_one_gets_nothing(sqlite, tmp_path):
    sqlite.commit([entry()])
    other = SqliteStore(
        tmp_path / "other.db", replace(collection_id(TRIAL, "alice"), study_hash="0" * 64)
    )
    other.close()
    for end in ("-wal", "-shm"):  # else they would bring the old content back
        sqlite.path.with_name(sqlite.path.name + end).unlink(missing_ok=True)
    os.replace(tmp_path / "other.db", sqlite.path)
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="another database stands in the place"):
            sqlite.commit([entry()])


def test_a_link_that_leads_nowhere_is_a_sentence(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "nowhere" / "x.db")
    with pytest.raises(InvalidInput, match="is a symbolic link"):
        SqliteStore(tmp_path / "link.db", collection_id(TRIAL, "alice"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_collection_that_another_user_prepared_is_refused(tmp_path):
    """The whole attack: a database and its keys, complete, in a folder where all may write."""
    store = SqliteStore(tmp_path / "reports.db", collection_id(TRIAL, "alice"))
    store.close()
    for path in (tmp_path / "reports.keys", *(tmp_path / "reports.keys").iterdir()):
        os.chown(path, 65533, -1)
    with pytest.raises(InvalidInput, match=r"the folder of keys .* belongs to another user"):
        SqliteStore(tmp_path / "reports.db", collection_id(TRIAL, "alice"))
    os.chown(tmp_path / "reports.db", 65533, -1)
    with pytest.raises(InvalidInput, match=r"the database .* belongs to another user"):
        SqliteStore(tmp_path / "reports.db", collection_id(TRIAL, "alice"))
