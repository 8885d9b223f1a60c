"""One line of a ledger's table, and which lines of coalitions stand in it for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf

from pdml.accounting.kinds import Adversary


@dataclass(frozen=True)
class LedgerRow:
    """One row of the ledger: (ε, δ) of a piece of data against an adversary, and why.

    ``certainty`` is how sure the adversary can be of the truth, from even odds, but for a chance of
    δ (`accounting.certainty`). ``colluding`` is how many other servers put together what they see;
    None: all.
    """

    data: str  # of `Data`, or the name of a randomised answer
    adversary: Adversary
    epsilon: float
    delta: float
    reason: str
    certainty: float
    colluding: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON; infinity as the string "inf"."""
        fields: dict[str, object] = {
            "data": self.data,
            "adversary": self.adversary,
            "epsilon": "inf" if isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "certainty": self.certainty,
            "reason": self.reason,
        }
        return fields if self.colluding is None else {**fields, "colluding": self.colluding}


def representative_coalition_sizes(others: int, also: int | None = None) -> list[int]:
    """Numbers of colluding servers that are worth a line for people."""
    sizes = {1, max(1, others // 2), others}
    return sorted(sizes | ({also} if also is not None and 1 <= also <= others else set()))


def merge_rows(table: Sequence[LedgerRow], coalitions: Sequence[LedgerRow]) -> list[LedgerRow]:
    """A table with coalitions in the place of all other servers together, if there are any."""
    rows: list[LedgerRow] = []
    for line in table:
        some = [coalition for coalition in coalitions if coalition.data == line.data]
        rows += some if some and line.adversary == Adversary.OTHERS else [line]
    return rows
