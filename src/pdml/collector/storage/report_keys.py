"""A key for each report, in files of their own, and what is sealed with it: without its key a
report is lost, wherever its sealed bytes have got to.

Databases forget slowly. PostgreSQL keeps an erased row in its tables' files and in its log, SQLite
in its log and its free pages, and a backup of either keeps it for good. So the database holds
reports sealed, and what opens them lies here, in slots of 32 bytes that are overwritten in place.
docs/guide/collect.md says what that can and cannot do.

    FOLDER/ring       whose keys these are
    FOLDER/0.keys     a page that says how far its slots are committed, then the slots;
                      1.keys and on for others who write too

AES-256-GCM. A report's key seals nothing else, ever, so that its nonce can stay the same. The
totals are sealed again in every transaction, with a random nonce; a withdrawal moves them to a new
key and destroys the old one, because a total that goes down by one tells what was withdrawn, and
the database's log would keep both.
"""

import fcntl
import os
import stat
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pdml.collector.storage.records import Content, Entry, Tallies
from pdml.errors import DataError, InvalidInput, StorageUnavailable, because
from pdml.files import check_ours, open_ours, read_ours, sync_folder, write_private

SLOT = 32  # bytes of a key
PAGE = 4096  # bytes before the first slot, so that no slot lies across two sectors
_MAGIC = b"pdml keys 1\n"
_COMMITTED_OFFSET = 64  # where the page says how many slots are committed
_BITS = 40  # of a key's number that are its place in the file; those above are the file's
# slots made at once: few at first, because what is left over at the end is lost
_FIRST, _MOST = 256, 8192
_NONE = bytes(SLOT)
_FOLDER, _FILE = "the folder of keys", "the file of keys"

# under which numbers in [first, last] the database holds something
Used = Callable[[int, int], Iterable[int]]


class KeyDisk:
    """How keys reach the disk; a test or a simulation hands in another one."""

    def write(self, handle: int, data: bytes, offset: int) -> None:
        """All of it: a nearly full disk takes a part."""
        done = 0
        while done < len(data):
            done += os.pwrite(handle, data[done:], offset + done)

    def sync(self, handle: int) -> None:
        getattr(os, "fdatasync", os.fsync)(handle)  # which also makes a new length durable

    def sync_folder(self, folder: Path) -> None:
        sync_folder(folder)


class KeyDestroyed(DataError):
    """What was sealed with this key is gone for good, as somebody wanted."""


class KeyRing:
    """The keys of one collection. Its store calls it in its own transactions, one call at a time.

    Guarantees
    ----------
    - A key has reached the disk before anything is sealed with it, and is given out once.
    - A key of something that never came to be stored is wiped: its sealed bytes may lie about too.
    - When `destroy` has returned, zeros have reached the disk in the keys' place.
    """

    def __init__(
        self,
        folder: Path,
        ring: str,
        *,
        fresh: bool,
        entropy: Callable[[int], bytes] = os.urandom,
        disk: KeyDisk | None = None,
    ) -> None:
        """Open the keys of the ring with this name; only a ``fresh`` one gets a folder."""
        self.folder = folder
        self.ring = ring
        self.entropy = entropy
        self.disk = disk or KeyDisk()
        self._files: dict[int, int] = {}  # number: handle
        self._key_file: _LockedKeyFile | None = None
        self._is_recovered = False  # whether what earlier transactions left open was wiped
        _prepare(folder, ring, fresh, self.disk)

    def path(self, number: int) -> Path:
        return self.folder / f"{number}.keys"

    def head(self, number: int) -> bytes:
        """What a file of keys begins with."""
        head = _MAGIC + bytes.fromhex(self.ring) + number.to_bytes(8, "little")
        return head.ljust(_COMMITTED_OFFSET, b"\0")

    def check_head(self, number: int, handle: int) -> None:
        """Refuse a file that is not this collection's."""
        if os.pread(handle, _COMMITTED_OFFSET, 0) != self.head(number):
            other = f"{self.path(number)} holds no keys of this collection"
            raise DataError(f"{other}: it was damaged or put there from elsewhere")

    def begin(self) -> None:
        """If it never comes to `commit`, what was taken is open until a later transaction asks."""
        self._is_recovered = False

    def next(self, count: int, used: Used) -> int:
        """The number of the first of so many keys that would be taken now, one after the other."""
        return self._ready(used, count).next

    def take(self, count: int, used: Used) -> list[tuple[int, bytes]]:
        """So many new keys with their numbers, for the transaction that has begun."""
        return self._ready(used, count).give(count)

    def commit(self) -> None:
        """The transaction was committed: everything sealed with its keys is stored."""
        if self._key_file is not None and self._is_recovered:
            self._key_file.committed_slots = self._key_file.issued_slots

    def read(self, number: int) -> bytes:
        """The key. Raises `KeyDestroyed`, or `DataError` if it never was."""
        place, spot = number >> _BITS, number & ((1 << _BITS) - 1)
        try:
            key = os.pread(self._file(place), SLOT, PAGE + SLOT * spot)
        except OSError as error:
            raise StorageUnavailable(_trouble(error)) from error
        if len(key) != SLOT:
            raise DataError(f"key {number} is not in {self.folder}: the folder is an old copy")
        if key == _NONE:
            raise KeyDestroyed(f"key {number} was destroyed")
        return key

    def destroy(self, numbers: Iterable[int]) -> None:
        """Overwrite keys; again does no harm."""
        try:
            touched = set()
            for number in numbers:
                place, spot = number >> _BITS, number & ((1 << _BITS) - 1)
                handle = self._file(place)
                if PAGE + SLOT * spot < os.fstat(handle).st_size:
                    self.disk.write(handle, _NONE, PAGE + SLOT * spot)
                    touched.add(handle)
            for handle in touched:
                self.disk.sync(handle)
        except OSError as error:
            raise StorageUnavailable(_trouble(error)) from error

    def probe(self, used: Used) -> None:
        """Show that there are keys for the next reports, or room to make some."""
        self._ready(used, _FIRST)

    def close(self) -> None:
        self._disown()
        for handle in self._files.values():
            os.close(handle)
        self._files.clear()

    def _ready(self, used: Used, count: int) -> "_LockedKeyFile":
        """This process's file, with so many keys, and nothing open from earlier transactions."""
        try:
            key_file = self._owned()
            if not self._is_recovered:
                key_file.wipe_unless(used)
                self._is_recovered = True
            key_file.stock(count)
            return key_file
        except OSError as error:
            self._disown()
            raise StorageUnavailable(_trouble(error)) from error

    def _owned(self) -> "_LockedKeyFile":
        """The file that only this process adds to: the first that nobody else has locked."""
        if self._key_file is not None and self._key_file.is_there():
            return self._key_file
        self._disown()
        self._is_recovered = False
        number = 0
        while self._key_file is None:
            self._key_file = _LockedKeyFile.open(self, number)
            number += 1
        return self._key_file

    def _disown(self) -> None:
        if self._key_file is not None:
            os.close(self._key_file.handle)
            self._key_file = None

    def _file(self, number: int) -> int:
        """A handle for reading and wiping, by whoever."""
        if number not in self._files:
            handle = open_ours(self.path(number), _FILE, os.O_RDWR)
            try:
                self.check_head(number, handle)
            except BaseException:
                os.close(handle)
                raise
            self._files[number] = handle
        return self._files[number]


class _LockedKeyFile:
    """A file of keys to which this process alone adds slots; the lock dies with it."""

    def __init__(self, ring: KeyRing, number: int, handle: int) -> None:
        self.handle = handle
        self._disk, self._entropy = ring.disk, ring.entropy
        self._path = ring.path(number)
        self._base = number << _BITS  # the number of its first slot
        self._inode = _inode(os.fstat(handle))
        self._end = -(-max(0, os.fstat(handle).st_size - PAGE) // SLOT)  # slots; a torn one counts
        header_count = int.from_bytes(os.pread(handle, 8, _COMMITTED_OFFSET), "little")
        # below it: stored for certain, or wiped
        self.committed_slots = min(header_count, self._end)
        self.issued_slots = self._end  # nothing that an earlier process made is given out
        self._stock = b""  # the keys from `issued_slots` to the end
        self._chunk = _FIRST
        self._is_current = False  # whether the database holds nothing beyond the end of the file

    @classmethod
    def open(cls, ring: KeyRing, number: int) -> "_LockedKeyFile | None":
        """None if another process has it."""
        handle = open_ours(ring.path(number), _FILE, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_size <= PAGE:  # without keys
                ring.disk.write(handle, ring.head(number).ljust(PAGE, b"\0"), 0)
            ring.check_head(number, handle)
            # each time: whoever made it may have ended, or met an error, before it was on disk
            ring.disk.sync(handle)
            ring.disk.sync_folder(ring.folder)
            return cls(ring, number, handle)
        except BlockingIOError:
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise

    def is_there(self) -> bool:
        """Keys in a file that was moved away or restored over would be lost."""
        try:
            return _inode(os.stat(self._path, follow_symlinks=False)) == self._inode
        except OSError:
            return False

    def wipe_unless(self, used: Used) -> None:
        """Wipe what a failed transaction or a dead process left open."""
        if self._is_current and self.committed_slots == self.issued_slots:
            return
        first, last = self._base + self.committed_slots, self._base + (1 << _BITS) - 1
        used_numbers = sorted(number for number in used(first, last) if first <= number <= last)
        if used_numbers and used_numbers[-1] >= self.next:
            old = f"{self._path} is an old copy"
            raise StorageUnavailable(f"{old}: the database holds reports whose keys are not in it")
        self._is_current = True
        start = self.committed_slots
        for spot in (*(number - self._base for number in used_numbers), self.issued_slots):
            if spot > start:
                self._disk.write(self.handle, bytes(SLOT * (spot - start)), PAGE + SLOT * start)
            start = spot + 1
        self._write_committed_slots(self.issued_slots)
        self._disk.sync(self.handle)
        self.committed_slots = self.issued_slots

    @property
    def next(self) -> int:
        return self._base + self.issued_slots

    def give(self, count: int) -> list[tuple[int, bytes]]:
        number, keys = self.next, self._stock
        self.issued_slots += count
        self._stock = keys[SLOT * count :]
        return [(number + i, keys[SLOT * i : SLOT * (i + 1)]) for i in range(count)]

    def stock(self, count: int) -> None:
        """Make new keys if fewer are left, and sync them before anything is acknowledged."""
        missing = count - len(self._stock) // SLOT
        if missing <= 0:
            return
        keys = self._entropy(SLOT * max(missing, self._chunk))
        self._disk.write(self.handle, keys, PAGE + SLOT * self._end)
        self._write_committed_slots(self.committed_slots)
        self._disk.sync(self.handle)
        self._end += len(keys) // SLOT
        self._stock += keys
        self._chunk = min(2 * self._chunk, _MOST)

    def _write_committed_slots(self, slots: int) -> None:
        """For the next process; an old number only means more to ask about."""
        self._disk.write(self.handle, slots.to_bytes(8, "little"), _COMMITTED_OFFSET)


def _prepare(folder: Path, ring: str, fresh: bool, disk: KeyDisk) -> None:
    """Make the folder of a fresh collection, or see that an existing one is this collection's."""
    name = folder / "ring"
    try:
        present = check_ours(folder, _FOLDER, folder=True)
        if fresh and not check_ours(name, _FILE):
            if present and any(folder.iterdir()):
                raise InvalidInput(f"{folder} holds other things: keys need a folder of their own")
            folder.mkdir(mode=0o700, exist_ok=True)
            check_ours(folder, _FOLDER, folder=True)  # somebody else may have been faster
            write_private(name, ring, first=True)
            disk.sync_folder(folder.parent)
        for path in (name, *folder.glob("*.keys")):
            check_ours(path, _FILE)
        if read_ours(name, _FILE).decode("ascii") != ring:
            other = f"{folder} holds the keys of another collection"
            raise InvalidInput(f"{other}: each needs a folder of its own")
        if stat.S_IMODE(folder.stat().st_mode) & 0o077:
            with suppress(OSError):  # a read-only disk
                folder.chmod(0o700)
    except (OSError, UnicodeDecodeError) as error:
        where = f"the keys of this collection are not in {folder} ({because(error)})"
        raise InvalidInput(f"{where}: without them nobody can read it") from error


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _trouble(error: OSError) -> str:
    return f"the keys cannot be used: {because(error)}"


# ε in millionths, reported class, hour, MAC of the report; the features follow. A negative ε says
# that the consent comes before them.
_FIXED = struct.Struct("<qii32s")
_CONSENT = 48  # bytes of a consent
_CELL = struct.Struct("<qiq")  # ε in millionths, reported class, reports
_ONCE = bytes(12)
_TOTALS = b"totals"


class SealedTallies(NamedTuple):
    """As they stand in the database; key and bytes are None before the first report."""

    key: int | None
    sealed: bytes | None


class Vault:
    """Seals and opens with the keys of a ring, one call at a time. The totals are padded to
    ``cells``: their length tells of no report whether it was the first of its cell."""

    def __init__(self, keys: KeyRing, *, cells: int) -> None:
        self.keys = keys
        self._padded = _CELL.size * cells
        # of the totals: the number of its key, and the cipher
        self._cipher: tuple[int, AESGCM] | None = None
        self._last: tuple[SealedTallies, Tallies] | None = None  # what this process wrote last

    def seal(self, entries: Sequence[Entry], used: Used) -> list[tuple[int, bytes, bytes]]:
        """(number of its key, id, sealed content) of each."""
        keys = self.keys.take(len(entries), used)
        return [
            (number, entry[0], AESGCM(key).encrypt(_ONCE, _packed(entry), entry[0]))
            for (number, key), entry in zip(keys, entries, strict=True)
        ]

    def open(self, number: int, id: bytes, sealed: bytes) -> Content:
        """Raises `DataError` if its key is gone, or if the row is not as it was stored."""
        try:
            content = AESGCM(self.keys.read(number)).decrypt(_ONCE, sealed, id)
        except InvalidTag:
            raise DataError("a report does not fit its key: the database was altered") from None
        epsilon, label, hour, mac = _FIXED.unpack_from(content)
        start = _FIXED.size + (_CONSENT if epsilon < 0 else 0)
        consent = content[_FIXED.size : start]
        return Content(abs(epsilon), label, hour, content[start:], consent, mac)

    def tallies(self, sealed_tallies: SealedTallies) -> Tallies:
        """The totals; raises `DataError` as `open` does."""
        if sealed_tallies.key is None or sealed_tallies.sealed is None:
            return {}
        if self._last is not None and self._last[0] == sealed_tallies:
            return self._last[1]
        try:
            cipher, sealed = self._totals_cipher(sealed_tallies.key), sealed_tallies.sealed
            plain = cipher.decrypt(sealed[:12], sealed[12:], _TOTALS)
        except InvalidTag:
            raise DataError("the totals do not fit their key: the database was altered") from None
        return {(epsilon, label): n for epsilon, label, n in _CELL.iter_unpack(plain) if n}

    def recount(
        self, rows: Iterable[Sequence[Any]], *, frozen: bool
    ) -> tuple[Tallies, list[tuple[bytes]]]:
        """The totals of (key, id, sealed) rows, and the ids of those whose keys are destroyed: for
        a database that was restored from before a withdrawal."""
        counts: Counter[tuple[int, int]] = Counter()
        gone: list[tuple[bytes]] = []
        for key, id, sealed in rows:
            try:
                content = self.open(key, id, sealed)
            except KeyDestroyed:
                gone.append((id,))
            else:
                counts[content.epsilon, content.label] += 1
        if gone and frozen:
            destroyed = f"the keys of {len(gone):,} of its reports were destroyed"
            raise DataError(f"the collection is frozen, but {destroyed}")
        return counts, gone

    def seal_tallies(
        self, tallies: Tallies, previous: SealedTallies, used: Used, *, anew: bool = False
    ) -> SealedTallies:
        """Under the key they had; with a new one if they had none, or ``anew``."""
        number = previous.key
        if number is None or anew:
            ((number, key),) = self.keys.take(1, used)
            self._cipher = number, AESGCM(key)
        cells = b"".join([_CELL.pack(*cell, count) for cell, count in tallies.items() if count])
        plain = cells.ljust(self._padded, b"\0")
        nonce = self.keys.entropy(12)
        sealed = nonce + self._totals_cipher(number).encrypt(nonce, plain, _TOTALS)
        self._last = SealedTallies(number, sealed), tallies
        return self._last[0]

    def _totals_cipher(self, number: int) -> AESGCM:
        if self._cipher is None or self._cipher[0] != number:
            self._cipher = number, AESGCM(self.keys.read(number))
        return self._cipher[1]


def _packed(entry: Entry) -> bytes:
    _, _, epsilon, label, hour, features, _, _, consent, mac, _ = entry
    return _FIXED.pack(-epsilon if consent else epsilon, label, hour, mac) + consent + features
