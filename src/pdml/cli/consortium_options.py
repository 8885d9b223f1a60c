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
class Described:
    """What options say, checked."""

    graph: "Graph"
    sizes: "Sizes"
    public: "tuple[Matrix, IntArray] | None"


def described(
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
) -> Described:
    """The public records say how many features and classes there are, and, unless ``records`` does,
    how many records: three quarters, as one quarter is held out.
    """
    from pdml.mechanisms.randomness import TOPOLOGY, Simulated
    from pdml.numerics.admm.graph import build
    from pdml.planning.sizes import Sizes

    graph = build(topology, servers, Simulated(seed).stream(TOPOLOGY), links)
    public, width, each = None, features + 1, ""
    need_label(like, label)
    if like is not None:
        from pdml.simulation.table_records import public_records

        *found, classes = public_records(like, label, norm_bound=norm_bound)
        public, width = (found[0], found[1]), int(found[0].shape[1])
        each = str(max(1, (len(found[1]) - len(found[1]) // 4) // servers))
    if width < 2:
        raise InvalidInput(
            f"--features must be the number of columns after encoding, at least 1, got {features}"
        )
    if features and features + 1 != width:
        raise InvalidInput(
            f"--features must be {width - 1}, as many as --like has after encoding, got {features}"
        )
    sizes = Sizes(
        records=counts(records or each, servers),
        width=width,
        epsilon=epsilon,
        classes=classes,
        norm_bound=norm_bound,
    )
    return Described(graph, sizes, public)


def need_label(like: Path | None, label: str) -> None:
    """Refuse public records without a word on what to predict."""
    if like is not None and not label:
        raise InvalidInput(
            "--like needs --label COLUMN: the column that public records are to predict"
        )


def counts(text: str, servers: int) -> tuple[int, ...]:
    """Records of each server, as --records says it."""
    if not text:
        raise InvalidInput(
            "--records must say how many records each server has, got nothing (or --like, to "
            "count public ones)"
        )
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(
            f"--records must be whole numbers separated by commas, got {text!r}"
        ) from None
    if len(found) not in (1, servers):
        raise InvalidInput(
            f"--records must be one number or one per server ({servers} of them), got {len(found)}"
        )
    return found * servers if len(found) == 1 else found
