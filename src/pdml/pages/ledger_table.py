"""What a line of the ledger says, in words that hold for every line."""

from math import isinf

from pdml.accounting import LedgerRow
from pdml.accounting.ledger_display import ADVERSARY_NAMES
from pdml.formatting import numbers

__all__ = ["ADVERSARY_NAMES", "HARDLY", "sure"]

HARDLY = 0.999  # whoever can be so sure is practically not kept from knowing


def sure(line: LedgerRow) -> str:
    """What somebody at even odds can come to believe."""
    if isinf(line.epsilon):
        return "nothing keeps them from being certain"
    most = numbers.certainty(line.certainty)
    if line.certainty >= HARDLY:
        return f"at even odds before, {most} sure after: practically no protection"
    but = f", but for a chance of {numbers.delta(line.delta)}" if line.delta else ""
    return f"at even odds before, at most {most} sure after{but}"
