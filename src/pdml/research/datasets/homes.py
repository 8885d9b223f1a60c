"""Where the real data sets live in public, what each address gives, and the digests that decide
whether it is the right thing.
"""

import io
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pdml.errors import DataError
from pdml.research.datasets import adult, benchmarks_mat, raetsch

Unpack = Callable[[bytes], Mapping[str, bytes]]


@dataclass(frozen=True, kw_only=True)
class Address:
    """``unpack`` turns what ``url`` gives into files. ``sha256`` is checked before anything is
    unpacked; None for an archive that may be packed again: there the digests of its files decide.
    """

    url: str
    unpack: Unpack
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Home:
    """A set: its files with their sha256, and ways to get all of them, the best first. Each way is
    the addresses to visit.
    """

    files: Mapping[str, str]
    ways: tuple[tuple[Address, ...], ...]


def plain(url: str, file: str, sha256: str) -> Address:
    """An address that gives the file itself."""
    return Address(url=url, sha256=sha256, unpack=lambda content: {file: content})


def zipped(url: str, files: Collection[str]) -> Address:
    """An address that gives a ZIP archive with these files."""

    def unpack(content: bytes) -> Mapping[str, bytes]:
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                return {file: archive.read(file) for file in files}
        except Exception as error:  # zipfile raises whatever its parsers stumble over
            raise DataError(f"not a ZIP archive with {' and '.join(files)}") from error

    return Address(url=url, unpack=unpack)


def matlab(content: bytes) -> Mapping[str, bytes]:
    """A CSV per set of Rätsch's benchmarks.mat."""
    tables = benchmarks_mat.tables(content, raetsch.NAMES)
    return {_csv(name): table for name, table in tables.items()}


def _csv(name: str) -> str:
    return f"raetsch/{name}.csv"


_UCI = "https://archive.ics.uci.edu"
_RAETSCH = "tdiethe/gunnar_raetsch_benchmark_datasets"
_MATLAB = "47c19e4bc4716edc4077cfa5ea61edf4d02af4ec51a0ecfe035626ae8b561c75"

HOMES: Mapping[str, Home] = MappingProxyType(
    {
        "adult": Home(
            files=adult.FILES,
            ways=(
                (zipped(f"{_UCI}/static/public/2/adult.zip", adult.FILES),),
                tuple(
                    plain(f"{_UCI}/ml/machine-learning-databases/adult/{file}", file, sha256)
                    for file, sha256 in adult.FILES.items()
                ),
            ),
        ),
        "raetsch": Home(
            files={_csv(name): facts.sha256 for name, facts in raetsch.FACTS.items()},
            ways=tuple(
                (Address(url=url, sha256=_MATLAB, unpack=matlab),)
                for url in (
                    f"https://github.com/{_RAETSCH}/raw/master/benchmarks.mat",
                    f"https://raw.githubusercontent.com/{_RAETSCH}/master/benchmarks.mat",
                )
            ),
        ),
    }
)
