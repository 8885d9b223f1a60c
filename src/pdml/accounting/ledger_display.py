"""A ledger as people read it: the table, line by line."""

from collections.abc import Iterable
from math import isinf
from typing import Any

from pdml.accounting.kinds import Adversary
from pdml.accounting.ledger_row import LedgerRow
from pdml.formatting.notebook import Sheet

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
