"""Where the real data sets live in public, what each address gives, and the digests that decide
whether it is the right thing.
"""

import hashlib
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pdml.datasets import adult, benchmarks_mat, raetsch
from pdml.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Address:
    """``unpack`` turns what ``url`` gives into files, and refuses anything else by a
    `DataError`.
    """

    url: str
    most: int  # bytes
    unpack: Callable[[bytes], Mapping[str, bytes]]


@dataclass(frozen=True, kw_only=True)
class Home:
    """A set: its files with their sha256, and ways to get all of them, the best first. Each way is
    the addresses to visit.
    """

    files: Mapping[str, str]
    ways: tuple[tuple[Address, ...], ...]


def whole(file: str, sha256: str) -> Callable[[bytes], Mapping[str, bytes]]:
    """The content is the file."""
    return lambda content: {file: checked(file, content, sha256)}


def zipped(files: Mapping[str, str]) -> Callable[[bytes], Mapping[str, bytes]]:
    """The content is a ZIP archive that holds the files. Their digests count, not the archive's: it
    may be packed again.
    """

    def unpack(content: bytes) -> Mapping[str, bytes]:
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                return {
                    file: checked(file, _member(archive, file), sha256)
                    for file, sha256 in files.items()
                }
        except DataError:
            raise  # says more, and is a ValueError
        except _DAMAGED as error:
            raise DataError(f"not a ZIP archive with {' and '.join(files)}") from error

    return unpack


def matlab(sets: Mapping[str, str], sha256: str) -> Callable[[bytes], Mapping[str, bytes]]:
    """The content is benchmarks.mat; it gives a CSV per set. Nothing is parsed before its digest is
    right.
    """

    def unpack(content: bytes) -> Mapping[str, bytes]:
        tables = benchmarks_mat.tables(checked("benchmarks.mat", content, sha256), list(sets))
        return {
            _csv(name): checked(_csv(name), tables[name], digest) for name, digest in sets.items()
        }

    return unpack


def checked(file: str, content: bytes, sha256: str) -> bytes:
    """``content``, if it has the digest."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DataError(f"{file} must have the sha256 {sha256}, got {found}")
    return content


_LARGEST_MEMBER = 1 << 24  # unpacked; Adult's larger file has 3,974,305 bytes
_BOUNDED = (
    zipfile.ZIP_STORED,
    zipfile.ZIP_DEFLATED,
)  # the only ways for which `read(n)` unpacks about n bytes and not all there are
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    KeyError,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)  # whatever `zipfile` raises for bytes that nobody packed


def _member(archive: zipfile.ZipFile, file: str) -> bytes:
    """A small archive cannot fill the memory, whatever its directory says of sizes."""
    info = archive.getinfo(file)
    if info.compress_type not in _BOUNDED or info.file_size > _LARGEST_MEMBER:
        raise DataError(f"{file} is packed in a way, or to a size, that it never had")
    with archive.open(info) as member:
        return member.read(_LARGEST_MEMBER)


def _csv(name: str) -> str:
    return f"raetsch/{name}.csv"


_UCI = "https://archive.ics.uci.edu"
_RAETSCH = {name: facts.sha256 for name, facts in raetsch.FACTS.items()}
_MATLAB = matlab(_RAETSCH, "47c19e4bc4716edc4077cfa5ea61edf4d02af4ec51a0ecfe035626ae8b561c75")

HOMES: Mapping[str, Home] = MappingProxyType(
    {
        "adult": Home(
            files=adult.FILES,
            ways=(
                (
                    Address(
                        url=f"{_UCI}/static/public/2/adult.zip",
                        most=1 << 24,
                        unpack=zipped(adult.FILES),
                    ),
                ),
                tuple(
                    Address(
                        url=f"{_UCI}/ml/machine-learning-databases/adult/{file}",
                        most=1 << 23,
                        unpack=whole(file, sha256),
                    )
                    for file, sha256 in adult.FILES.items()
                ),
            ),
        ),
        "raetsch": Home(
            files={_csv(name): digest for name, digest in _RAETSCH.items()},
            ways=tuple(
                (Address(url=url, most=8_912_086, unpack=_MATLAB),)
                for url in (
                    "https://github.com/tdiethe/gunnar_raetsch_benchmark_datasets/raw/master/benchmarks.mat",
                    "https://raw.githubusercontent.com/tdiethe/gunnar_raetsch_benchmark_datasets/master/benchmarks.mat",
                )
            ),
        ),
    }
)
