"""One server's place in a training: everything public that its events depend on."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from pdml import _validate
from pdml.accounting.events import AnswerFlipped, LabelFlipped
from pdml.accounting.provenance import DEVICES
from pdml.errors import InvalidInput
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import Loss
from pdml.numerics.coded_rows import Block


@dataclass(frozen=True, kw_only=True)
class RowSpec:
    """What a row of a training is at every server alike: public, and made once for a study
    (`Study.rows`) or a simulation. Whatever a server's place or a job's contract needs of it, it
    asks here.
    """

    width: int  # d, the features with the constant one
    classes: int = 2  # K
    norm_bound: float = 1.0  # B, the longest a record may be
    blocks: tuple[Block, ...] = ()  # Columns of answers that went through a coin, as the label did
    in_clear: bool = True  # Whether the server has other answers as they are
    # The constant entry of a typical record, in units of B, where an encoder knows it; else 0
    constant: float = 0.0
    menu: tuple[float, ...] = ()  # The label ε that people may choose, where a study fixes them
    # A digest of how answers become a row, where an encoder fixes it; else "": then no two
    # trainings are taken to move by the same row
    encoding: str = ""

    def __post_init__(self) -> None:
        _validate.integer("width", self.width, low=1)
        _validate.integer("classes", self.classes, low=2)
        _validate.real("norm_bound", self.norm_bound, low=0, high=1e12, open_low=True)
        _validate.real("constant", self.constant, low=0, high=1)

    @property
    def codes(self) -> int:
        """C, the rows of the weights: 1 for two classes, K for more."""
        return 1 if self.classes == 2 else self.classes


@dataclass(frozen=True, kw_only=True)
class ServerSpec(RowSpec):
    """What the events of one server depend on, beside the plan: public sizes, and no record."""

    server: int  # i, its index
    n_servers: int  # n
    degree: float  # N_i, its links
    records: int  # m_i
    epsilons: tuple[float, ...]  # The distinct label ε in use, in any order; kept ascending

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.integer("n_servers", self.n_servers, low=1)
        _validate.integer("server", self.server, high=self.n_servers - 1)
        _validate.real("degree", self.degree, low=0)
        _validate.integer("records", self.records, low=1, why="every server needs a record")
        used = np.unique(np.asarray(self.epsilons, dtype=float))
        if not used.size:
            raise InvalidInput(
                "epsilons must hold the label ε in use, got none", setting="epsilons"
            )
        _validate.real("epsilons", used[0], low=0, open_low=True, why="0 would report pure noise")
        _validate.real("epsilons", used[-1], low=0)  # NaN is last
        object.__setattr__(self, "epsilons", tuple(used.tolist()))

    @classmethod
    def of(
        cls,
        graph: Graph,
        server: int,
        rows: RowSpec,
        *,
        records: int,
        epsilons: Sequence[float],
    ) -> Self:
        """The place of ``server`` in ``graph``, which knows n and N_i.

        Guarantees
        ----------
        - Every level of the menu from the smallest to the largest of ``epsilons`` counts as in use:
          that is all that others are told, and everybody's ledger must say the same.
        """
        low, high = min(epsilons), max(epsilons)
        return cls(
            server=server,
            n_servers=graph.n,
            degree=int(graph.degrees[server]),
            records=records,
            epsilons=(*epsilons, *(level for level in rows.menu if low <= level <= high)),
            **{field.name: getattr(rows, field.name) for field in fields(RowSpec)},
        )

    @property
    def epsilon(self) -> float:
        """The smallest label ε: it has the largest κ, which fixes the sensitivity."""
        return self.epsilons[0]

    @property
    def label_epsilon(self) -> float:
        """The largest label ε: the least that a label here is protected by."""
        return self.epsilons[-1]

    def flip(self, by: str = DEVICES) -> LabelFlipped:
        """What the labels here, and other answers, went through, by whom."""
        return LabelFlipped(
            epsilon=self.label_epsilon,
            by=by,
            epsilons=self.epsilons,
            answers=answers_of(self.blocks),
            in_clear=self.in_clear,
        )

    def label_shift(self, loss: Loss) -> float:
        """How far one label can move m_i · q_i."""
        return labels.label_shift(self.epsilon, self.norm_bound, loss, self.classes)

    def record_shift(self, loss: Loss) -> float:
        """How far one record can move m_i times the gradient; ∞ if the loss has steep ends."""
        return labels.record_shift(self.epsilon, self.norm_bound, loss, self.classes)


def answers_of(blocks: Sequence[Block]) -> tuple[AnswerFlipped, ...]:
    """What answers in these columns went through."""
    return tuple(AnswerFlipped(block.name, block.levels, block.epsilon) for block in blocks)
