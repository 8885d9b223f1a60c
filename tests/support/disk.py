"""A disk that remembers what was synced and what was not, and that fails on request: a VFS in the
SQLite that Python uses.

Killing a process does not test fsync, because the kernel's page cache survives. This VFS writes
through to the real one and keeps a log; `after_power_cut` builds the files as a disk would hold
them if the power failed at a moment of the log: what was synced, and of the rest nothing or any
part.
"""

import ctypes
import os
import random
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

from pdml.collector.storage.report_keys import KeyDisk

FULL, IOERR, READONLY = 13, 10, 8  # SQLite's result codes

_POINTER = ctypes.c_void_p
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, _POINTER, ctypes.c_int, _POINTER)
_DELETE = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, ctypes.c_int)
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, ctypes.c_int, ctypes.c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_int64)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_int)
_KEPT: list["Disk"] = []  # for ever: a connection that a failed test left open still points here
# pointers after the version in sqlite3_io_methods, version 3: xClose, xRead, xWrite, xTruncate,
# xSync, ...
_METHODS = 19


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("longest_path", ctypes.c_int),
        ("next", _POINTER),
        ("name", ctypes.c_char_p),
        ("data", _POINTER),
        ("open", _POINTER),
        ("delete", _POINTER),
        ("others", _POINTER * 12),
    )


class _Methods(ctypes.Structure):
    _fields_ = (("version", ctypes.c_int), ("calls", _POINTER * (_METHODS - 1)))


class _File(ctypes.Structure):
    _fields_ = (("methods", ctypes.POINTER(_Methods)),)


def _library() -> ctypes.CDLL:
    """The very SQLite that the module sqlite3 has loaded."""
    assert sqlite3.sqlite_version
    maps = Path("/proc/self/maps").read_text()
    found = re.search(r"(/\S*libsqlite3\.so\S*)", maps) or re.search(
        r"(/\S*/_sqlite3\S*\.so)", maps
    )
    assert found, "the SQLite in use cannot be found"
    return ctypes.CDLL(found[1])


class LoggedKeyDisk(KeyDisk):
    """Logs what is done to files of keys too, which SQLite knows nothing of; without ``synced``
    they never are.
    """

    def __init__(self, log: list[tuple], *, synced: bool = True) -> None:
        self._log, self._synced = log, synced

    def write(self, handle: int, data: bytes, offset: int) -> None:
        super().write(handle, data, offset)
        self._log.append(("write", _name(handle), offset, bytes(data)))

    def sync(self, handle: int) -> None:
        super().sync(handle)
        if self._synced:
            self._log.append(("sync", _name(handle)))

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self._log.append(("named", folder.name))


def _name(handle: int) -> str:
    path = Path(os.readlink(f"/proc/self/fd/{handle}"))
    return f"{path.parent.name}/{path.name}"


class Disk:
    """Registers itself as a VFS named ``name``; leaves SQLite's list of them when it is closed.

    ``default``: for whoever opens a database without naming one, until then.
    """

    def __init__(self, name: str, *, default: bool = False) -> None:
        self.name = name
        # ("write", file, offset, bytes), ("truncate", file, size), ("sync", file), ("delete", file,
        # at once), ("folder", "") when names are synced, ("named", folder) when those of a folder
        # of keys are, or ("mark", what)
        self.log: list[tuple] = []
        self.fails: Callable[[str, str], int] = lambda operation, file: (
            0
        )  # a result code to fail with
        self._sqlite = _library()
        self._sqlite.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        self._real = self._sqlite.sqlite3_vfs_find(None).contents
        self._names: dict[int, str] = {}
        self._fresh: set[int] = set()
        self._tables: dict[int, _Methods] = {}
        self._vfs = _Vfs()
        ctypes.memmove(ctypes.byref(self._vfs), ctypes.byref(self._real), ctypes.sizeof(_Vfs))
        self._vfs.name = name.encode()
        self._vfs.next = None
        self._keep = [
            _OPEN(self._open),
            _DELETE(self._delete),
        ]  # ctypes does not keep callbacks alive
        self._vfs.open, self._vfs.delete = (
            ctypes.cast(callback, _POINTER) for callback in self._keep
        )
        _KEPT.append(self)
        assert self._sqlite.sqlite3_vfs_register(ctypes.byref(self._vfs), int(default)) == 0

    def close(self) -> None:
        self._sqlite.sqlite3_vfs_unregister(ctypes.byref(self._vfs))

    def mark(self, what: object) -> None:
        """Note in the log that something has been promised to the outside world."""
        self.log.append(("mark", what))

    def _open(self, vfs, name, file, flags, out):
        code = _OPEN(self._real.open)(vfs, name, file, flags, out)
        handle = _File.from_address(file)
        if code == 0 and handle.methods:
            # As the real one does (UNIXFILE_DIRSYNC), a new journal's or log's first sync also
            # syncs the folder.
            self._fresh |= {file} if flags & 0x4 and flags & 0x84800 else set()
            self._names[file] = Path(ctypes.string_at(name).decode()).name if name else ""
            handle.methods = ctypes.pointer(self._table(handle.methods))
        return code

    def _delete(self, vfs, name, sync_folder):
        code = _DELETE(self._real.delete)(vfs, name, sync_folder)
        if code == 0:
            self.log.append(
                ("delete", Path(ctypes.string_at(name).decode()).name, bool(sync_folder))
            )
        return code

    def _table(self, real) -> _Methods:
        address = ctypes.addressof(real.contents)
        if address not in self._tables:
            table = _Methods()
            ctypes.memmove(ctypes.byref(table), real, ctypes.sizeof(_Methods))
            write, truncate, sync = (
                kind(real.contents.calls[i])
                for kind, i in ((_WRITE, 2), (_TRUNCATE, 3), (_SYNC, 4))
            )

            def on_write(file, data, size, offset):
                return self._do(
                    "write",
                    file,
                    lambda: write(file, data, size, offset),
                    offset,
                    ctypes.string_at(data, size),
                )

            def on_truncate(file, size):
                return self._do("truncate", file, lambda: truncate(file, size), size)

            def on_sync(file, flags):
                return self._do("sync", file, lambda: sync(file, flags))

            for i, callback in (
                (2, _WRITE(on_write)),
                (3, _TRUNCATE(on_truncate)),
                (4, _SYNC(on_sync)),
            ):
                self._keep.append(callback)
                table.calls[i] = ctypes.cast(callback, _POINTER)
            self._tables[address] = table
        return self._tables[address]

    def _do(self, operation, file, really, *details):
        name = self._names.get(file, "")
        code = self.fails(operation, name) or really()
        if code == 0:
            self.log.append((operation, name, *details))
            if operation == "sync" and file in self._fresh:
                self._fresh.remove(file)
                self.log.append(("folder", ""))
        return code

    def after_power_cut(self, moment: int, rng: random.Random | None = None) -> dict[str, bytes]:
        """The files' content if the power failed before entry ``moment`` of the log.

        Without ``rng`` everything not synced is lost; with it, each unsynced write survives or not
        by itself, as disks do.
        """
        synced = {entry[1]: i for i, entry in enumerate(self.log[:moment]) if entry[0] == "sync"}
        folder = max(
            (i for i, entry in enumerate(self.log[:moment]) if entry[0] == "folder"), default=-1
        )
        named = {entry[1]: i for i, entry in enumerate(self.log[:moment]) if entry[0] == "named"}
        files: dict[str, bytearray] = {}
        for i, entry in enumerate(self.log[:moment]):
            operation, name = entry[0], entry[1]
            if operation == "delete":
                if entry[2] or i < folder or (rng and rng.random() < 0.5):
                    files.pop(name, None)
                continue
            if operation in ("sync", "folder", "named", "mark") or (
                i > synced.get(name, -1) and not (rng and rng.random() < 0.5)
            ):
                continue
            if name not in files and "/" in name and i > named.get(name.partition("/")[0], -1):
                continue  # a file of keys whose name is not on the disk yet
            content = files.setdefault(name, bytearray())
            if operation == "truncate":
                del content[entry[2] :]
            else:
                offset, data = entry[2], entry[3]
                content.extend(bytes(max(0, offset - len(content))))
                content[offset : offset + len(data)] = data
        return {name: bytes(content) for name, content in files.items() if name}
