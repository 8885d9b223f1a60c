"""Disks of simulated machines: SQLite's writes are logged, fail on request, and a power cut leaves
what was synced and any part of the rest.
"""

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

from disk import (
    _DELETE,
    _METHODS,
    _OPEN,
    _POINTER,
    _SYNC,
    _TRUNCATE,
    _WRITE,
    FULL,
    IOERR,
    _File,
    _library,
    _Methods,
    _name,
    _Vfs,
)

from pdml.collector.storage.report_keys import KeyDisk

READ_FAILS, SYNC_FAILS = IOERR | 1 << 8, IOERR | 4 << 8
SECTOR = 512  # bytes that a torn write keeps whole
_READ = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, ctypes.c_int, ctypes.c_int64)
_LOGGED = ("journal.db", "control.db", "reports.db")


class Disk:
    """The databases directly in one folder, and the keys of reports beside them. Other files are on
    disk at once, and whole.
    """

    def __init__(self, folder: Path, random: Random) -> None:
        self.folder, self.random = folder, random
        self.full = False
        self.failing_reads = self.failing_syncs = 0  # so many of the next ones
        # after so many writes, syncs and deletions: the power is cut, or the process is killed
        self.cut_after: int | None = None
        self.kill_after: int | None = None
        self.faults = 0
        self._is_reliable = self.dead = False
        self._mount()

    def start(self) -> None:
        """A process begins where the last one ended: what that one had not synced still is not."""
        self.dead = False

    def _mount(self) -> None:
        """What is there now is on disk; from now on every write is logged."""
        self._base = self._files()
        self._log: list[tuple] = []
        self._lost: set[int] = set()  # entries of the log that a sync failed to bring to the disk
        self.unsynced: set[str] = set()
        self._power_failed = False

    def _files(self) -> dict[str, bytes]:
        names = [name + end for name in _LOGGED for end in ("", "-wal")]
        names += [f"{path.parent.name}/{path.name}" for path in self.folder.glob("*.keys/*.keys")]
        paths = ((name, self.folder / name) for name in sorted(names))
        return {name: path.read_bytes() for name, path in paths if path.exists()}

    def kill(self) -> None:
        """The process ends; what it has written stays."""
        if not self.dead:
            self.dead, self._image = True, self._files()

    def cut_power(self) -> None:
        """What was not synced survives or not, each write by itself; the last one may be torn."""
        if not self.dead:
            self.dead, self._image = True, self._after_power_cut()
            self._power_failed = True

    def restore(self, files: dict[str, bytes] | None = None) -> None:
        """The files as they are after the end of the process, or an old copy of them."""
        for path in (*self.folder.iterdir(), *self.folder.glob("*.keys/*.keys")):
            if path.name.startswith(_LOGGED) or path.parent != self.folder:
                path.unlink()
        for name, content in (self._image if files is None else files).items():
            (self.folder / name).write_bytes(content)
            (self.folder / name).chmod(0o600)
        if self._power_failed or files is not None:
            self._mount()

    def calm(self) -> None:
        """Nothing fails from now on."""
        self.full, self.cut_after, self.kill_after = False, None, None
        self.failing_reads = self.failing_syncs = 0

    @contextlib.contextmanager
    def reliable(self) -> Iterator[None]:
        """While somebody outside of the simulation looks."""
        before, self._is_reliable = self._is_reliable, True
        try:
            yield
        finally:
            self._is_reliable = before

    def copy(self) -> dict[str, bytes]:
        """A copy that an operator makes while no process runs."""
        return self._files()

    def _after_power_cut(self) -> dict[str, bytes]:
        log, chance = self._log, self.random.random
        synced = {entry[1]: i for i, entry in enumerate(log) if entry[0] == "sync"}
        folders = {entry[1]: i for i, entry in enumerate(log) if entry[0] == "folder"}
        named = folders.get("", -1)
        keep = chance()  # of all that was not synced: nothing, some, or nearly everything
        files = {name: bytearray(content) for name, content in self._base.items()}
        for i, (operation, name, *details) in enumerate(log):
            if operation == "delete":
                if details[0] or i < named or chance() < keep:
                    files.pop(name, None)
                continue
            is_synced = i <= synced.get(name, -1) and i not in self._lost
            if operation in ("sync", "folder") or not (is_synced or chance() < keep):
                continue
            content = files.setdefault(name, bytearray())
            if operation == "truncate":
                del content[details[0] :]
                continue
            offset, data = details
            if not is_synced and chance() < 0.3:  # torn
                data = data[: SECTOR * int(chance() * len(data) / SECTOR)]
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
        first = {name: i for i, (_, name, *_) in reversed([*enumerate(log)])}
        for name in [name for name in files if "/" in name and name not in self._base]:
            if first[name] > folders.get(name.partition("/")[0], -1) and chance() >= keep:
                del files[name]  # whose name was not on the disk yet
        return {name: bytes(content) for name, content in files.items()}

    def before(self, operation: str, name: str) -> int:
        """A result code to fail with, before something is done."""
        if self.dead:
            return IOERR
        if self._is_reliable:
            return 0
        if operation == "read":
            if self.failing_reads:
                self.failing_reads -= 1
                self.faults += 1
                return READ_FAILS
            return 0
        for what, end in (("cut_after", self.cut_power), ("kill_after", self.kill)):
            if (left := getattr(self, what)) is not None:
                setattr(self, what, left - 1 if left else None)
                if not left:
                    self.faults += 1
                    end()
                    return IOERR
        if operation == "write" and self.full:
            self.faults += 1
            return FULL
        if operation == "sync" and self.failing_syncs:
            self.failing_syncs -= 1
            self.faults += 1
            first = max((i for i, e in enumerate(self._log) if e[:2] == ("sync", name)), default=-1)
            self._lost |= {i for i, e in enumerate(self._log) if i > first and e[1] == name}
            return SYNC_FAILS
        return 0

    def log(self, operation: str, name: str, *details: object) -> None:
        self._log.append((operation, name, *details))
        if operation == "write":  # a log that was cut short is old news if it comes back
            self.unsynced.add(name)
        elif operation == "sync":
            self.unsynced.discard(name)


class SimulatedKeyDisk(KeyDisk):
    """The way of reports' keys to the disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def write(self, handle: int, data: bytes, offset: int) -> None:
        name = _name(handle)
        code = self._disk.before("write", name)
        written = data[: len(data) // 2] if code == FULL else b"" if code else data
        if written:
            super().write(handle, written, offset)
            self._disk.log("write", name, offset, written)
        _raise(code)

    def sync(self, handle: int) -> None:
        name = _name(handle)
        _raise(self._disk.before("sync", name))
        self._disk.log("sync", name)

    def sync_folder(self, folder: Path) -> None:
        _raise(self._disk.before("sync", folder.name))
        self._disk.log("folder", folder.name)


def _raise(code: int) -> None:
    if code:
        number = errno.ENOSPC if code == FULL else errno.EIO
        raise OSError(number, os.strerror(number))


class Disks:
    """SQLite's way to the disks: a VFS for whoever opens a database below a folder of theirs."""

    def __init__(self) -> None:
        self.by_folder: dict[str, Disk] = {}
        self._sqlite = _library()
        self._sqlite.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        self._real = self._sqlite.sqlite3_vfs_find(None).contents
        self._files: dict[int, tuple[Disk, str]] = {}
        self._fresh: set[int] = set()
        self._tables: dict[int, _Methods] = {}
        self._vfs = _Vfs()
        ctypes.memmove(ctypes.byref(self._vfs), ctypes.byref(self._real), ctypes.sizeof(_Vfs))
        self._vfs.name, self._vfs.next = b"simulated", None
        self._real_open, self._real_delete = _OPEN(self._real.open), _DELETE(self._real.delete)
        self._callbacks = [_OPEN(self._open), _DELETE(self._delete)]
        self._vfs.open, self._vfs.delete = (
            ctypes.cast(callback, _POINTER) for callback in self._callbacks
        )

    @contextlib.contextmanager
    def in_use(self) -> Iterator["Disks"]:
        """By default, for all of this process."""
        assert self._sqlite.sqlite3_vfs_register(ctypes.byref(self._vfs), 1) == 0
        try:
            yield self
        finally:
            self.by_folder.clear()
            self._files.clear()
            self._sqlite.sqlite3_vfs_unregister(ctypes.byref(self._vfs))
            self._sqlite.sqlite3_vfs_register(ctypes.byref(self._real), 1)

    def _disk(self, path: str) -> tuple[Disk | None, str]:
        folder, _, name = path.rpartition("/")
        disk = self.by_folder.get(folder) if name.startswith(_LOGGED) else None
        return disk, name

    def _open(self, vfs, name, file, flags, out):
        code = self._real_open(vfs, name, file, flags, out)
        handle = _File.from_address(file)
        if code == 0 and handle.methods and name:
            disk, base = self._disk(ctypes.string_at(name).decode())
            if disk is not None:
                # As the real one does (UNIXFILE_DIRSYNC): the first sync of a new log or journal
                # also syncs the folder.
                self._fresh.discard(file)
                if flags & 0x4 and flags & 0x84800:
                    self._fresh.add(file)
                self._files[file] = disk, base
                handle.methods = ctypes.pointer(self._table(handle.methods))
        return code

    def _delete(self, vfs, name, sync_folder):
        disk, base = self._disk(ctypes.string_at(name).decode())
        if disk is not None and (code := disk.before("delete", base)):
            return code
        code = self._real_delete(vfs, name, sync_folder)
        if code == 0 and disk is not None:
            disk.log("delete", base, bool(sync_folder))
        return code

    def _table(self, real) -> _Methods:
        address = ctypes.addressof(real.contents)
        if address in self._tables:
            return self._tables[address]
        table = _Methods()
        ctypes.memmove(ctypes.byref(table), real, ctypes.sizeof(_Methods))
        calls = real.contents.calls
        read, write, truncate, sync = (
            kind(calls[i]) for kind, i in ((_READ, 1), (_WRITE, 2), (_TRUNCATE, 3), (_SYNC, 4))
        )
        files = self._files

        def on_read(file, data, size, offset):
            known = files.get(file)
            if known and known[0].failing_reads and (code := known[0].before("read", known[1])):
                return code
            return read(file, data, size, offset)

        def on_write(file, data, size, offset):
            known = files.get(file)
            if known is None:
                return write(file, data, size, offset)
            disk, name = known
            code = disk.before("write", name) or write(file, data, size, offset)
            if code == 0:
                disk.log("write", name, offset, ctypes.string_at(data, size))
            return code

        def on_truncate(file, size):
            known = files.get(file)
            if known is None:
                return truncate(file, size)
            disk, name = known
            code = disk.before("truncate", name) or truncate(file, size)
            if code == 0:
                disk.log("truncate", name, size)
            return code

        def on_sync(file, flags):
            known = files.get(file)
            if known is None:
                return sync(file, flags)
            disk, name = known
            code = disk.before("sync", name) or sync(file, flags)
            if code == 0:
                disk.log("sync", name)
                if file in self._fresh:
                    self._fresh.remove(file)
                    disk.log("folder", "")
            return code

        hooks = ((1, _READ(on_read)), (2, _WRITE(on_write)))
        hooks += ((3, _TRUNCATE(on_truncate)), (4, _SYNC(on_sync)))
        for i, callback in hooks:
            self._callbacks.append(callback)
            table.calls[i] = ctypes.cast(callback, _POINTER)
        assert len(table.calls) == _METHODS - 1
        self._tables[address] = table
        return table
