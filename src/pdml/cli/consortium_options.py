"""A consortium that does not exist yet, as the options of `pdml plan` and `pdml bound` describe it:
its graph, its sizes, and public records like its own.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pdml.errors import InvalidInput

if TYPE_CHECKING:
    from pdml._types import IntArray, Matrix
    from pdml.numerics.admm.graph import Graph
    from pdml.planning.sizes import Sizes


@dataclass(frozen=True)
class ConsortiumSetup:
    """What options say, checked."""

    graph: "Graph"
    sizes: "Sizes"
    public: "tuple[Matrix, IntArray] | None"


def read_consortium(
    *,
    records: str,
    servers: int,
    features: int,
    epsilon: float,
    norm_bound: float,
    topology: str,
    links: int | None,
    seed: int,
    like: Path | None,
    label: str,
    classes: int = 2,
) -> ConsortiumSetup:
    """The public records say how many features and classes there are, and, unless ``records`` does,
    how many records: three quarters, as one quarter is held out.
    """
    from pdml.mechanisms.randomness import TOPOLOGY, Simulated
    from pdml.numerics.admm.graph import build
    from pdml.planning.sizes import Sizes

    graph = build(topology, servers, Simulated(seed).stream(TOPOLOGY), links)
    public, width, default_records = None, features + 1, ""
    need_label(like, label)
    if like is not None:
        from pdml.simulation.table_records import public_records

        *arrays, classes = public_records(like, label, norm_bound=norm_bound)
        public, width = (arrays[0], arrays[1]), int(arrays[0].shape[1])
        default_records = str(max(1, (len(arrays[1]) - len(arrays[1]) // 4) // servers))
    if width < 2:
        raise InvalidInput(
            f"--features must be the number of columns after encoding, at least 1, got {features}"
        )
    if features and features + 1 != width:
        raise InvalidInput(
            f"--features must be {width - 1}, as many as --like has after encoding, got {features}"
        )
    sizes = Sizes(
        records=parse_record_counts(records or default_records, servers),
        width=width,
        epsilon=epsilon,
        classes=classes,
        norm_bound=norm_bound,
    )
    return ConsortiumSetup(graph, sizes, public)


def need_label(like: Path | None, label: str) -> None:
    """Refuse public records without a word on what to predict."""
    if like is not None and not label:
        raise InvalidInput(
            "--like needs --label COLUMN: the column that public records are to predict"
        )


def parse_record_counts(text: str, servers: int) -> tuple[int, ...]:
    """Records of each server, as --records says it."""
    if not text:
        raise InvalidInput(
            "--records must say how many records each server has, got nothing (or --like, to "
            "count public ones)"
        )
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(
            f"--records must be whole numbers separated by commas, got {text!r}"
        ) from None
    if len(values) not in (1, servers):
        raise InvalidInput(
            f"--records must be one number or one per server ({servers} of them), got {len(values)}"
        )
    return values * servers if len(values) == 1 else values
