"""What a device remembers of a study, so that an answer is randomised once: asking again repeats
it, and nobody can average the randomness away.

One file per person: study, invitation and record (`Study.memory_key`). It holds, one after the
other:

    study, id, epsilon, label     drawn: the randomised answer, which every report says;
    and answers                   the same of every other answer that is randomised
    ..., sent                     a report left, no clear answer came: only these bytes may leave
    ..., sent, receipt            stored by the service
    study, withdrawn              the service has erased it again, and this device the rest

Every field but receipt and code stands in the report itself: whoever reads this file learns of the
person what the collecting organisation learns, and no more. What the true answer was is written
nowhere, so it cannot be corrected after the draw.

Of a report that was withdrawn only that stays: its reader may have kept it, so that a second draw
about the same answer would cost its epsilon again.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from pdml.errors import DataError, InvalidInput, because
from pdml.files import read_file, write_private
from pdml.formats import Format, decode
from pdml.mechanisms.label_flip import MILLION, flip_labels
from pdml.mechanisms.randomness import SecureStream, Stream
from pdml.study.messages import Receipt, report_id

FORMAT = Format(name="memo", version=1)


class Memo(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One device's memory of one record in one study."""

    study: str  # `Study.memory_key`
    version: int
    id: str = ""  # nothing from here on but `withdrawn` once the report is
    epsilon: int = 0  # millionths
    label: int = -1  # as reported: randomised
    answers: tuple[tuple[int, int], ...] = ()  # level and millionths of each sensitive one
    sent: str = ""  # the report's bytes, which are ASCII
    receipt: Receipt | None = None
    code: str = ""  # withdraws the report: its id is `report_id` of it
    withdrawn: bool = False


def draw(label: int, micro_epsilon: int, classes: int, stream: Stream | None = None) -> int:
    """What is reported in place of ``label`` (`mechanisms.label_flip`), from OS entropy."""
    epsilons = np.array([micro_epsilon / MILLION])
    source = SecureStream() if stream is None else stream
    return int(flip_labels(np.array([label]), epsilons, classes, source)[0])


def randomise(
    label: int,
    micro_epsilon: int,
    classes: int,
    answers: Sequence[tuple[int, int, int]] = (),
    stream: Stream | None = None,
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Randomised response for a label and, by draws of their own, for sensitive answers: the
    reported label, and level and millionths of each answer. From OS entropy."""
    others = tuple((draw(level, micro, many, stream), micro) for level, micro, many in answers)
    return draw(label, micro_epsilon, classes, stream), others


def stream_of(entropy: Callable[[int], bytes]) -> SecureStream:
    return SecureStream(lambda count: np.frombuffer(entropy(8 * count), dtype=np.uint64))


def default_folder() -> Path:
    """Where programs keep what must survive them, by the XDG rules."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "pdml"


class Memory:
    """The folder of memos, readable by its owner alone.

    Guarantees
    ----------
    - A draw is on the disk before anybody sees it, and the first one there is the one that counts.
    - What is on the disk says no more about the true label than the report: it is a function of it.
    - A file that cannot be read is an error, never a reason to draw again.
    """

    def __init__(self, folder: Path, *, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._folder = folder
        self._entropy = entropy

    def recall(self, study: str, record: str) -> Memo | None:
        path = self._path(study, record)
        try:
            content = read_file(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"cannot read {path}: {because(error)}") from None
        must = f"{path} must be what this device remembers of the study, got something else"
        memo = FORMAT.read(content, Memo, str(path), f"{must}: restore it from a copy")
        if not (memo.id or memo.withdrawn):
            raise DataError(f"{path} must hold a draw, got none: restore it from a copy")
        if memo.study != study:
            must = f"must be about the study {study[:12]}..., got one about {memo.study[:12]}..."
            raise DataError(f"{path} {must}: restore it from a copy")
        return memo

    def draw_once(
        self,
        study: str,
        record: str,
        label: int,
        micro_epsilon: int,
        classes: int,
        answers: Sequence[tuple[int, int, int]] = (),
    ) -> Memo:
        """The memo of this record, drawn now if there is none; of two at once the first wins.
        ``answers``: level, millionths and number of levels of each sensitive one."""
        while (stored := self.recall(study, record)) is None:
            if not self._adopt(study, record):
                code, stream = self._entropy(16).hex(), stream_of(self._entropy)
                reported, others = randomise(label, micro_epsilon, classes, answers, stream)
                memo = Memo(
                    study=study,
                    version=FORMAT.version,
                    id=report_id(code),
                    epsilon=micro_epsilon,
                    label=reported,
                    answers=others,
                    code=code,
                )
                self._write(record, memo, first=True)
        return stored

    def keep(self, record: str, memo: Memo) -> Memo:
        """Replace a memo, on the disk before this returns."""
        self._write(record, memo, first=False)
        return memo

    def remembers_invitations(self, study: str) -> bool:
        """Whether anybody has answered on this device with an invitation; by `unkeyed_hash`."""
        return any(memo.study.startswith(f"{study} ") for _, memo in self._memos())

    def forget_report(self, id: str) -> None:
        """Of a report that was withdrawn keep nothing but that, whoever's it was."""
        for path, memo in self._memos():
            if memo.id == id:
                left = Memo(study=memo.study, version=FORMAT.version, withdrawn=True)
                write_private(path, msgspec.json.encode(left))
                for half in self._folder.glob(f".{path.name}-*"):  # whose writer was killed
                    half.unlink(missing_ok=True)

    def _memos(self) -> Iterator[tuple[Path, Memo]]:
        """All that can be read; the rest is nobody's who is asked for here."""
        for path in sorted(self._folder.glob("*.json")):
            with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
                yield path, msgspec.json.decode(read_file(path), type=Memo)

    def _adopt(self, study: str, record: str) -> bool:
        """Take over a draw whose writer was killed: two on a disk would say more than a report."""
        path = self._path(study, record)
        for left in sorted(self._folder.glob(f".{path.name}-*")):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                decode(read_file(left), Memo)
                os.link(left, path)
            with contextlib.suppress(OSError):
                left.unlink()
        return path.exists()

    def _path(self, study: str, record: str) -> Path:
        name = hashlib.sha256(f"{study}\n{record}".encode()).hexdigest()[:32]
        return self._folder / f"{name}.json"

    def _write(self, record: str, memo: Memo, *, first: bool) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            why = f"cannot remember the draw in {self._folder}: {because(error)}"
            raise InvalidInput(why) from None
        write_private(self._path(memo.study, record), msgspec.json.encode(memo), first=first)
