"""What is public about a training beside its plan: `TrainingTerms`, and each `ServerSpec`."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np

from pdml import _validate
from pdml.accounting.events import AnswerFlipped, LabelFlipped
from pdml.accounting.kinds import DEVICES
from pdml.errors import InvalidInput
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import Loss
from pdml.numerics.coded_rows import Block

WORDS = "words"  # of a field: what an operator calls it


@dataclass(frozen=True, kw_only=True)
class RowSpec:
    """What a row of a training is at every server alike. A new field is added here, and where rows
    are described: `Study.terms`, a simulation, and a planner's `Sizes`.
    """

    # d, the features with the constant one
    width: int = field(metadata={WORDS: "number of columns"})
    classes: int = field(default=2, metadata={WORDS: "number of classes"})  # K
    # B, the longest a record may be
    norm_bound: float = field(default=1.0, metadata={WORDS: "norm bound"})
    # Columns of answers that were randomised, as the label was
    blocks: tuple[Block, ...] = field(default=(), metadata={WORDS: "randomised answers"})
    # Whether the server has other answers as they are
    in_clear: bool = field(default=True, metadata={WORDS: "answers that are not randomised"})
    # The constant entry of a typical record, in units of B, where an encoder knows it; else 0
    constant: float = field(default=0.0, metadata={WORDS: "encoder"})
    # The label ε that people may choose, where a study fixes them
    menu: tuple[float, ...] = field(default=(), metadata={WORDS: "menu of epsilons"})
    # A digest of how answers become a row, where an encoder fixes it; else "": then no two
    # trainings are taken to move by the same row
    encoding: str = field(default="", metadata={WORDS: "encoder"})

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
    """What one server's events depend on beside the plan; `TrainingTerms.server_spec` makes it."""

    server: int = field(metadata={WORDS: "position among the servers"})  # i
    n_servers: int = field(metadata={WORDS: "number of servers"})  # n
    degree: float = field(metadata={WORDS: "number of links"})  # N_i
    records: int = field(metadata={WORDS: "number of records"})  # m_i
    # The distinct label ε in use, in any order; kept ascending
    epsilons: tuple[float, ...] = field(metadata={WORDS: "label epsilons"})

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

    @property
    def epsilon(self) -> float:
        """The smallest label ε: it has the largest κ, which fixes the sensitivity."""
        return self.epsilons[0]

    def differences(self, other: "ServerSpec") -> list[str]:
        """What differs between two specs, as an operator calls it."""
        return list(
            dict.fromkeys(
                spec_field.metadata[WORDS]
                for spec_field in fields(self)
                if getattr(self, spec_field.name) != getattr(other, spec_field.name)
            )
        )

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


@dataclass(frozen=True, kw_only=True)
class TrainingTerms:
    """What all parties know beside the plan: how many servers, their links, and what a row is."""

    rows: RowSpec
    n_servers: int  # n
    links: Graph | None = None  # None where a forecast has no graph

    @classmethod
    def over(cls, links: Graph, rows: RowSpec) -> Self:
        """The terms of a training along these links."""
        return cls(rows=rows, n_servers=links.n, links=links)

    def server_spec(
        self, server: int, *, records: int, epsilons: Sequence[float], degree: float = 0.0
    ) -> ServerSpec:
        """The spec of a server with so many records; ``degree`` where there is no graph.

        Guarantees
        ----------
        - Every level of the menu from the smallest to the largest of ``epsilons`` counts as in use:
          that is all that others are told, and everybody's ledger must say the same.
        """
        low, high = min(epsilons), max(epsilons)
        return ServerSpec(
            server=server,
            n_servers=self.n_servers,
            degree=degree if self.links is None else int(self.links.degrees[server]),
            records=records,
            epsilons=(*epsilons, *(level for level in self.rows.menu if low <= level <= high)),
            **{field.name: getattr(self.rows, field.name) for field in fields(RowSpec)},
        )


def answers_of(blocks: Sequence[Block]) -> tuple[AnswerFlipped, ...]:
    """What answers in these columns went through."""
    return tuple(AnswerFlipped(block.name, block.levels, block.epsilon) for block in blocks)
