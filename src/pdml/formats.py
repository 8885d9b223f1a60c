"""What is written today must be read tomorrow: a version for everything that outlives a process or
leaves it.

Each module that writes such a format has its `Format` beside it; docs/concepts/compatibility.md
lists them, with what is promised. What carries no version is version 1.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from pdml._version import __version__
from pdml.errors import DataError

_T = TypeVar("_T")

_MOST_LEVELS = 100  # of nesting: far more than any format has, far fewer than Python can walk


def decode(data: bytes | str, kind: Any = Any, by: Callable[..., Any] = msgspec.json.decode) -> Any:
    """Parse somebody else's bytes: whatever is wrong with them is one kind of error."""
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


def canonical_json(values: Any) -> bytes:
    """The one spelling of plain values that is hashed: sorted keys, no spaces, UTF-8."""
    text = json.dumps(
        values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8")


class _Head(msgspec.Struct):
    """All that is read of something that may be newer."""

    version: int = 1


@dataclass(frozen=True, kw_only=True)
class Format:
    """The versions of one format that this pdml knows."""

    name: str  # As people hear it, and as docs/concepts/compatibility.md has it
    version: int  # The one that is written
    oldest: int = 0  # The oldest that is read: ``version`` unless it says otherwise

    def __post_init__(self) -> None:
        object.__setattr__(self, "oldest", self.oldest or self.version)

    def refusal(self, version: int, what: str) -> str:
        """Why a version cannot be read."""
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
        """The same for a table that could not be read: it may be of another version."""
        try:
            return self.refusal(decode(data, _Head, by).version, what)
        except msgspec.DecodeError:
            return ""

    def read(self, data: bytes, kind: type[_T], what: str, otherwise: str) -> _T:
        """Parse a table of this format; `DataError` of its version, or else ``otherwise``."""
        try:
            value: Any = decode(data, kind)
        except msgspec.DecodeError:
            raise DataError(self.refusal_of(data, what) or otherwise) from None
        if why := self.refusal(value.version, what):
            raise DataError(why)
        return value  # type: ignore[no-any-return]

    def refusal_by_mark(self, data: bytes, what: str) -> str:
        """The same for bytes that begin with a mark, such as ``pdml statement 1``."""
        mark = re.match(rb"pdml %s ([0-9]{1,9})[\0\n]" % self.name.encode(), data)
        return self.refusal(int(mark[1]), what) if mark else ""
