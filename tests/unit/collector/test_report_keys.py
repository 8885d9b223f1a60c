"""The ring of keys by itself, against a simple model of what a database would hold."""

import os
import random
import secrets
import shutil
import stat

import pytest
from collecting import slots
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdml.collector.storage.report_keys import (
    PAGE,
    SLOT,
    KeyDestroyed,
    KeyRing,
    SealedTallies,
    Vault,
)
from pdml.errors import DataError, InvalidInput, StorageUnavailable

RING = "ab" * 16


def nothing(first, last):
    """The database of a test that stores nothing."""
    return ()


def test_no_two_rings_have_a_key_in_common(tmp_path):
    """Keys come from the operating system: of one name, at one place, two rings still differ."""
    taken = []
    for name in ("one", "two"):
        ring = KeyRing(tmp_path / name, RING, fresh=True)
        ring.begin()
        taken += [key for _, key in ring.take(50, nothing)]
        ring.close()
    assert len(set(taken)) == 100


def test_totals_are_sealed_with_a_fresh_nonce_each_time(tmp_path):
    """One key serves many totals: under one nonce two of them tell their difference, which is one
    person's answer. AES-GCM's nonce stands first, in 12 bytes.
    """
    vault = Vault(KeyRing(tmp_path / "keys", RING, fresh=True), cells=6)
    vault.keys.begin()
    held, nonces = SealedTallies(None, None), set()
    for count in range(1, 21):
        held = vault.seal_tallies({(1_000_000, 0): count}, held, nothing)
        nonces.add(held.sealed[:12])
    vault.keys.close()
    assert len(nonces) == 20 and held.key is not None


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["commit", "fail", "doubt", "die", "destroy"]), st.integers(1, 400)
        ),
        max_size=14,
    )
)
def test_stored_things_keep_their_keys_and_all_else_loses_them(tmp_path, steps):
    """Transactions that succeed, fail, fail but were stored all the same, processes that die,
    withdrawals: in any order.

    Afterwards every stored thing has its key, every other key that was ever given out is gone from
    the files, and none was given out twice.
    """
    folder = tmp_path / secrets.token_hex(8)
    ring = KeyRing(folder, RING, fresh=True)
    stored: dict[int, bytes] = {}
    given: list[bytes] = []

    def used(first, last):
        assert first <= last
        return [number for number in stored if first <= number <= last]

    for what, count in steps:
        if what == "destroy":
            gone = random.Random(count).sample(sorted(stored), min(count, len(stored)))
            ring.destroy(gone)
            for number in gone:
                del stored[number]
            continue
        ring.begin()
        taken = ring.take(count, used) + ring.take(1, used)
        given += [key for _, key in taken]
        if what in ("commit", "doubt"):
            stored |= dict(taken)
        if what == "commit":
            ring.commit()
        if what == "die":
            ring.close()
            ring = KeyRing(folder, RING, fresh=False)
    ring.begin()
    (last,) = ring.take(1, used)
    given.append(last[1])
    stored |= {last[0]: last[1]}
    assert len(set(given)) == len(given) and bytes(SLOT) not in given
    assert {number: ring.read(number) for number in stored} == stored
    assert set(slots(folder)) & set(given) == set(stored.values())
    ring.close()


def test_a_transaction_that_takes_nothing_commits_nothing(tmp_path):
    ring = KeyRing(tmp_path / "keys", RING, fresh=True)
    ring.begin()
    ((_, lost),) = ring.take(1, nothing)
    ring.begin()
    ring.commit()
    ring.begin()
    ring.take(1, nothing)
    assert lost not in slots(tmp_path / "keys")
    ring.close()


@pytest.mark.parametrize("torn", [0, 1, PAGE - 1, PAGE + 1, PAGE + 31])
def test_a_file_that_the_power_cut_short_is_taken_up_again(tmp_path, torn):
    KeyRing(tmp_path / "keys", RING, fresh=True).close()
    ring = KeyRing(tmp_path / "keys", RING, fresh=True)
    ring.begin()
    ring.take(1, nothing)
    ring.close()
    os.truncate(tmp_path / "keys" / "0.keys", torn)
    ring = KeyRing(tmp_path / "keys", RING, fresh=True)
    ring.begin()
    ((number, key),) = ring.take(1, nothing)
    assert ring.read(number) == key and any(key)
    ring.close()


def test_keys_of_others_damaged_files_and_links_are_refused(tmp_path):
    ring = KeyRing(tmp_path / "keys", RING, fresh=True)
    ring.begin()
    ((number, _),) = ring.take(1, nothing)
    ring.close()
    file = tmp_path / "keys" / "0.keys"
    whole = file.read_bytes()
    for content in (b"x" * len(whole), whole.replace(bytes.fromhex(RING), bytes(16), 1)):
        file.write_bytes(content)
        ring = KeyRing(tmp_path / "keys", RING, fresh=False)
        with pytest.raises(DataError, match="holds no keys of this collection"):
            ring.read(number)
        with pytest.raises(DataError, match="holds no keys of this collection"):
            ring.take(1, nothing)
        ring.close()
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="is a symbolic link"):
        KeyRing(tmp_path / "keys", RING, fresh=False)
    file.unlink()
    ring = KeyRing(tmp_path / "keys", RING, fresh=False)
    file.symlink_to(tmp_path / "elsewhere")  # put there later
    for use in (lambda: ring.read(number), lambda: ring.take(1, nothing)):
        with pytest.raises(DataError, match="is a symbolic link"):
            use()
    with pytest.raises(InvalidInput, match="is a symbolic link"):
        KeyRing(tmp_path / "keys", RING, fresh=False)
    file.unlink()
    with pytest.raises(InvalidInput, match="another collection"):
        KeyRing(tmp_path / "keys", "cd" * 16, fresh=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(InvalidInput, match="a folder of their own"):
        KeyRing(tmp_path / "full", RING, fresh=True)


def test_an_unknown_number_is_a_sentence(tmp_path):
    ring = KeyRing(tmp_path / "keys", RING, fresh=True)
    ring.begin()
    ((number, _),) = ring.take(1, nothing)
    with pytest.raises(DataError, match="is not in"):
        ring.read(number + 10_000_000)
    ring.destroy([number, number, number + 10_000_000])
    with pytest.raises(KeyDestroyed, match="was destroyed"):
        ring.read(number)
    ring.close()


@pytest.mark.parametrize("fresh", [True, False])
def test_a_folder_that_others_can_read_is_closed_to_them(tmp_path, fresh):
    folder = tmp_path / "keys"
    if not fresh:
        KeyRing(folder, RING, fresh=True).close()
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    KeyRing(folder, RING, fresh=fresh).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_two_who_write_at_once_share_no_number_and_no_key(tmp_path):
    rings = [KeyRing(tmp_path / "keys", RING, fresh=True) for _ in range(3)]
    taken = []
    for _ in range(2):
        for ring in rings:
            ring.begin()
            taken += ring.take(5, nothing)
            ring.commit()
    for part in zip(*taken, strict=True):
        assert len(set(part)) == len(taken)
    assert all(rings[0].read(number) == key for number, key in taken)
    for ring in rings:
        ring.close()


def test_no_key_comes_from_a_folder_that_was_moved_away(tmp_path):
    """Nor from one that a copy was restored over: what it seals could not be opened."""
    ring = KeyRing(tmp_path / "keys", RING, fresh=True)
    ring.begin()
    ((number, key),) = ring.take(1, nothing)
    ring.commit()
    (tmp_path / "keys").rename(tmp_path / "away")
    ring.begin()
    with pytest.raises(StorageUnavailable):
        ring.take(1, nothing)
    shutil.copytree(tmp_path / "away", tmp_path / "keys")
    ring.begin()
    ((later, another),) = ring.take(1, lambda first, last: {number})
    ring.close()
    again = KeyRing(tmp_path / "keys", RING, fresh=False)
    assert again.read(number) == key and again.read(later) == another
    again.close()
