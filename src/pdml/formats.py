"""What is written today must be read tomorrow: a version for everything that outlives a process or
leaves it.

Each module that writes such a format has its `Format` beside it; docs/concepts/compatibility.md
lists them, with what is promised. What carries no version is version 1.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from pdml._version import __version__

_MOST_LEVELS = 100  # of nesting: far more than any format has, far fewer than Python can walk


def decode(data: bytes | str, kind: Any = Any, by: Callable[..., Any] = msgspec.json.decode) -> Any:
    """Parse somebody else's bytes: whatever is wrong with them is one kind of error.

    Parameters
    ----------
    data : bytes or str
        From a file, a message or a database.
    kind : type, optional
        What they must be, for a parser of msgspec.
    by : callable, optional
        The parser: of JSON unless another is named, `msgspec.msgpack.decode`, `tomllib.loads`.

    Returns
    -------
    object
        Of at most a hundred levels, so that whoever walks it cannot run out of stack.

    Raises
    ------
    msgspec.DecodeError
        A ValueError whose text ends a sentence.
    """
    try:
        value = by(data) if kind is Any else by(data, type=kind)
    except msgspec.DecodeError:
        raise
    except UnicodeDecodeError:
        raise msgspec.DecodeError("it is not UTF-8 text") from None
    except RecursionError:
        raise msgspec.DecodeError(_TOO_DEEP) from None
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    level = [value]
    for _ in range(_MOST_LEVELS):
        level = [inner for outer in level for inner in _containers(outer)]
        if not level:
            return value
    raise msgspec.DecodeError(_TOO_DEEP)


_TOO_DEEP = f"it is nested more than {_MOST_LEVELS} levels deep"
_CONTAINERS = (dict, list, tuple, msgspec.Struct)


def _containers(outer: Any) -> list[Any]:
    """What lies one level deeper and may hold more."""
    inside: Iterable[Any] = ()
    if isinstance(outer, dict):
        inside = outer.values()
    elif isinstance(outer, msgspec.Struct):
        inside = [getattr(outer, name) for name in outer.__struct_fields__]
    elif isinstance(outer, (list, tuple)):
        inside = outer
    return [value for value in inside if isinstance(value, _CONTAINERS)]


class _Head(msgspec.Struct):
    """All that is read of something that may be newer."""

    version: int = 1


@dataclass(frozen=True, kw_only=True)
class Format:
    """The versions of one format that this pdml knows.

    Parameters
    ----------
    name : str
        As people hear it, and as docs/concepts/compatibility.md has it.
    version : int
        The one that is written.
    oldest : int, optional
        The oldest that is read: ``version`` unless it says otherwise.
    """

    name: str
    version: int
    oldest: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "oldest", self.oldest or self.version)

    def refusal(self, version: int, what: str) -> str:
        """Why a version cannot be read.

        Parameters
        ----------
        version : int
            The version.
        what : str
            What has it: the beginning of the sentence.

        Returns
        -------
        str
            A sentence that says which pdml is needed; "" if this one reads it.
        """
        if self.oldest <= version <= self.version:
            return ""
        readable = (
            f"{self.oldest} to {self.version}" if self.oldest < self.version else self.version
        )
        which = "newer" if version > self.version else "older"
        number = version if abs(version) < 1 << 63 else "beyond all counting"
        return (
            f"{what} has version {number} of the format {self.name!r}, and pdml {__version__} "
            f"reads {readable}: a pdml {which} than {__version__} is needed"
        )

    def refusal_of(
        self, data: bytes, what: str, by: Callable[..., Any] = msgspec.json.decode
    ) -> str:
        """The same for a table that could not be read: it may be of another version.

        Parameters
        ----------
        data : bytes
            The table, whose ``version`` is looked at and nothing else.
        what : str
            As in `refusal`.
        by : callable, optional
            As in `decode`.

        Returns
        -------
        str
            "" also for what is no table.
        """
        try:
            return self.refusal(decode(data, _Head, by).version, what)
        except msgspec.DecodeError:
            return ""

    def refusal_by_mark(self, data: bytes, what: str) -> str:
        """The same for bytes that begin with a mark, such as ``pdml statement 1``.

        Parameters
        ----------
        data : bytes
            Of which the mark is looked at.
        what : str
            As in `refusal`.

        Returns
        -------
        str
            "" also for bytes without such a mark.
        """
        mark = re.match(rb"pdml %s ([0-9]{1,9})[\0\n]" % self.name.encode(), data)
        return self.refusal(int(mark[1]), what) if mark else ""
