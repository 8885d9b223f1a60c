"""One row of a ledger's table, which rows of coalitions stand in it for people, and the table as
people read it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any

from pdml.accounting.kinds import Adversary
from pdml.formatting.notebook import Sheet


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


COLUMNS = ("data", "against", "epsilon", "delta", "how sure they can be")
ADVERSARY_NAMES = {
    Adversary.OWN: "the collecting organisation",
    Adversary.OTHERS: "all other servers together",
    Adversary.TOGETHER: "all servers together",
}
_CERTAIN = 0.9995  # never rounded up to certainty


def sheet(lines: Iterable[LedgerRow], *, reasons: bool = False) -> Sheet:
    """The table of a ledger."""
    rows = (_cells(line) + ((line.reason,) if reasons else ()) for line in lines)
    return Sheet(columns=COLUMNS + (("why",) if reasons else ()), rows=tuple(rows))


def frame(lines: Iterable[LedgerRow]) -> Any:
    """The table as a pandas DataFrame, numbers as they are."""
    from pdml.extras import needed

    with needed():
        import pandas as pd
    names = ("data", "adversary", "colluding", "epsilon", "delta", "certainty", "reason")
    table = pd.DataFrame([[getattr(line, name) for name in names] for line in lines], columns=names)
    return table.astype({"colluding": "Int64"})


def _cells(line: LedgerRow) -> tuple[str, ...]:
    k = line.colluding
    whom = ADVERSARY_NAMES[line.adversary]
    if k is not None:
        whom = f"any {k} other server{'' if k == 1 else 's'}" + (" together" if k > 1 else "")
    if isinf(line.epsilon):
        return line.data, whom, "no protection", "", "certain"
    sure = "over 99.9%" if line.certainty >= _CERTAIN else f"at most {line.certainty:.1%}"
    return line.data, whom, f"{line.epsilon:.3g}", f"{line.delta:.3g}", sure
