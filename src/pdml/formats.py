"""What is written today must be read tomorrow: a version for everything that outlives a process or
leaves it.

Each module that writes such a format has its `Format` beside it; docs/compatibility.md lists them,
with what is promised. What carries no version is version 1.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from pdml._version import __version__


class _Head(msgspec.Struct):
    """All that is read of something that may be newer."""

    version: int = 1


@dataclass(frozen=True, kw_only=True)
class Format:
    """The versions of one format that this pdml knows.

    Parameters
    ----------
    name : str
        As people hear it, and as docs/compatibility.md has it.
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

    def refusal(self, found: int, what: str) -> str:
        """Why a version cannot be read.

        Parameters
        ----------
        found : int
            The version.
        what : str
            What has it: the beginning of the sentence.

        Returns
        -------
        str
            A sentence that says which pdml is needed; "" if this one reads it.
        """
        if self.oldest <= found <= self.version:
            return ""
        known = f"{self.oldest} to {self.version}" if self.oldest < self.version else self.version
        which = "newer" if found > self.version else "older"
        number = found if abs(found) < 1 << 63 else "beyond all counting"
        return (
            f"{what} has version {number} of the format {self.name!r}, and pdml {__version__} "
            f"reads {known}: a pdml {which} than {__version__} is needed"
        )

    def refusal_of(
        self, data: bytes, what: str, decode: Callable[..., Any] = msgspec.json.decode
    ) -> str:
        """The same for a table that could not be read: it may be of another version.

        Parameters
        ----------
        data : bytes
            The table, whose ``version`` is looked at and nothing else.
        what : str
            As in `refusal`.
        decode : callable, optional
            `msgspec.json.decode`, or `msgspec.msgpack.decode`.

        Returns
        -------
        str
            "" also for what is no table.
        """
        try:
            return self.refusal(decode(data, type=_Head).version, what)
        except (ValueError, RecursionError):
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
