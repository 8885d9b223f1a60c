"""What a device remembers of a study, so that chance decides once: asking again repeats the answer,
and nobody can average it away.

One file per study and record. It holds, one after the other:

    study, id, epsilon, label     drawn: what chance has made of the answer, and every report says
    ..., sent                     a report left, no clear answer came: only these bytes may leave
    ..., sent, receipt            stored by the service

Every field but the receipt, which is the service's, stands in the report itself: whoever reads
this file learns what whoever receives the report learns, and no more. What the true answer was is
written nowhere, so it cannot be corrected after the draw.
"""

import contextlib
import hashlib
import os
import secrets
from pathlib import Path

import msgspec
import numpy as np

from pdml.errors import DataError, InvalidInput
from pdml.files import sync_folder
from pdml.mechanisms.label_flip import MILLION, flip_labels
from pdml.mechanisms.randomness import SecureStream, Stream
from pdml.messages import Receipt


class Memo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One device's memory of one record in one study."""

    study: str
    id: str
    epsilon: int  # millionths
    label: int  # as reported: after chance
    sent: str = ""  # the report's bytes, which are ASCII
    receipt: Receipt | None = None


def draw(label: int, micro_epsilon: int, classes: int, stream: Stream | None = None) -> int:
    """What is reported in place of ``label`` (`mechanisms.label_flip`), from OS entropy."""
    epsilons = np.array([micro_epsilon / MILLION])
    source = SecureStream() if stream is None else stream
    return int(flip_labels(np.array([label]), epsilons, classes, source)[0])


class Memory:
    """The folder of memos, readable by its owner alone.

    Guarantees
    ----------
    - A draw is on the disk before anybody sees it, and the first one on the disk is the one that
      counts.
    - What is on the disk says no more about the true label than the report: it is a function of it.
    - A file that cannot be read is an error, never a reason to draw again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def recall(self, study: str, record: str) -> Memo | None:
        path = self._path(study, record)
        try:
            memo = msgspec.json.decode(path.read_bytes(), type=Memo)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(
                f"cannot read {path}: {(error.strerror or str(error)).lower()}"
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise DataError(
                f"{path} must be what this device remembers of the study, got something "
                "else: restore it from a copy"
            ) from None
        if memo.study != study:
            raise DataError(
                f"{path} must be about the study {study[:12]}..., got one about "
                f"{memo.study[:12]}...: restore it from a copy"
            )
        return memo

    def settle(self, study: str, record: str, label: int, micro_epsilon: int, classes: int) -> Memo:
        """The memo of this record; drawn now if there is none. Of two at the same time the first
        wins.
        """
        while (known := self.recall(study, record)) is None:
            if not self._adopt(study, record):
                drawn, id = draw(label, micro_epsilon, classes), secrets.token_hex(16)
                memo = Memo(study=study, id=id, epsilon=micro_epsilon, label=drawn)
                self._write(record, memo, first=True)
        return known

    def keep(self, record: str, memo: Memo) -> Memo:
        """Replace a memo, on the disk before this returns."""
        self._write(record, memo, first=False)
        return memo

    def _adopt(self, study: str, record: str) -> bool:
        """Take over a draw whose writer was killed: two on a disk would say more than a report."""
        path = self._path(study, record)
        for left in sorted(self._folder.glob(f".{path.name}-*")):
            with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
                msgspec.json.decode(left.read_bytes(), type=Memo)
                os.link(left, path)
            with contextlib.suppress(OSError):
                left.unlink()
        return path.exists()

    def _path(self, study: str, record: str) -> Path:
        return self._folder / (
            hashlib.sha256(f"{study}\n{record}".encode()).hexdigest()[:32] + ".json"
        )

    def _write(self, record: str, memo: Memo, *, first: bool) -> None:
        path = self._path(memo.study, record)
        temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb") as file:
                file.write(msgspec.json.encode(memo))
                file.flush()
                os.fsync(file.fileno())
            if first:
                # Another process was first, or took this draw over.
                with contextlib.suppress(FileExistsError, FileNotFoundError):
                    os.link(temporary, path)
            else:
                os.replace(temporary, path)
            sync_folder(self._folder)
        except OSError as error:
            raise InvalidInput(
                f"cannot remember the draw in {self._folder}: "
                f"{(error.strerror or str(error)).lower()}"
            ) from None
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
