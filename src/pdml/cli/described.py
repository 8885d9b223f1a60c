"""A consortium that does not exist yet, as options describe it: its graph, its records, and public
records like them.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml._types import IntArray, Matrix
    from pdml.core.graph import Graph


def graph_of(topology: str, servers: int, links: int | None, seed: int) -> "Graph":
    from pdml.core.graph import build
    from pdml.mechanisms.randomness import TOPOLOGY, Simulated

    return build(topology, servers, Simulated(seed).stream(TOPOLOGY), links)


def records_of(text: str, servers: int, public: int | None) -> tuple[int, ...]:
    if not text:
        if public is None:
            raise InvalidInput(
                "--records must say how many records each server has, got nothing (or "
                "--like, to count public ones)"
            )
        return (max(1, (public - public // 4) // servers),) * servers
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(
            f"--records must be whole numbers separated by commas, got {text!r}"
        ) from None
    if len(counts) not in (1, servers):
        raise InvalidInput(
            f"--records must be one number or one per server ({servers} of them), got {len(counts)}"
        )
    return counts * servers if len(counts) == 1 else counts


def public_records(path: Path, label: str, norm_bound: float) -> "tuple[Matrix, IntArray, int]":
    """Public records as they would be trained on; ranges and levels may come from the data, which
    are public.
    """
    if not label:
        raise InvalidInput(
            "--like needs --label COLUMN: the column that public records are to predict"
        )
    from pdml.cli import records
    from pdml.release.model import prepare

    read = records.read(path, records.Roles(label=label), attributes={}, from_data=True)
    prepared, _ = prepare(read.x, norm_bound=norm_bound, fit_intercept=True, ranges=None)
    return prepared, read.codes, len(read.classes)
