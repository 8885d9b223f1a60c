"""A database that many threads use at once and one of them closes: no crash, no half of a
transaction.
"""

import contextlib
import sqlite3
import subprocess
import sys
import threading

from pdml.node.storage.sqlite_store import SharedDatabase

CLOSING = """
import sqlite3, sys, threading
from pathlib import Path
from pdml.node.storage.sqlite_store import SharedDatabase

for i in range(60):
    store = SharedDatabase(Path(sys.argv[1]), timeout=5)
    store.change("CREATE TABLE IF NOT EXISTS numbers (x INTEGER)")
    began = threading.Barrier(5)

    def work():
        began.wait()
        try:
            while True:
                store.rows("SELECT a.x, b.x FROM numbers a, numbers b LIMIT 200")
                with store.transaction():
                    store.change("INSERT INTO numbers VALUES (1)")
        except sqlite3.ProgrammingError:
            pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    began.wait()
    store.close()
    for thread in threads:
        thread.join()
"""


def test_closing_it_under_other_threads_does_not_crash(tmp_path):
    """Once it did (a fault in SQLite's own memory), within a second of this."""
    ended = subprocess.run(
        [sys.executable, "-c", CLOSING, str(tmp_path / "a.db")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]


def test_a_transaction_is_one_threads_alone(tmp_path):
    """Eight threads add two rows each time, and every other time fail after the first: rows come in
    pairs.
    """
    store, errors = (
        SharedDatabase(
            tmp_path / "a.db", pragmas=("journal_mode=WAL", "synchronous=OFF"), timeout=5
        ),
        [],
    )
    store.change("CREATE TABLE pairs (thread INTEGER, i INTEGER)")

    def work(thread):
        for i in range(50):
            try:
                with contextlib.suppress(InterruptedError), store.transaction():
                    store.change("INSERT INTO pairs VALUES (?, ?)", (thread, i))
                    if i % 2:
                        raise InterruptedError
                    store.change("INSERT INTO pairs VALUES (?, ?)", (thread, i))
            except sqlite3.Error as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    counts = store.rows("SELECT thread, i, count(*) FROM pairs GROUP BY thread, i")
    assert sorted(counts) == [(k, i, 2) for k in range(8) for i in range(0, 50, 2)]
    store.close()
