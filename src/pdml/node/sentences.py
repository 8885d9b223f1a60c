"""What other organisations are told when something goes wrong here: one sentence that tells nothing about a record."""

from pdml.errors import BudgetExceeded, DataError, InvalidInput, JournalError, PeerError
from pdml.node.exchange import Stopped


def told(error: Exception, name: str) -> str:
    """The sentence for an error at node ``name``.

    Guarantees
    ----------
    - Errors about data, and those that nobody foresaw, give their kind alone: their text may quote somebody's record, or
      say how far an un-noised gradient is from zero.
    """
    if isinstance(error, (PeerError, Stopped)):
        return str(error)
    if isinstance(error, (JournalError, BudgetExceeded)) or (isinstance(error, InvalidInput) and not isinstance(error, DataError)):
        return str(error) if name in str(error) else f"{name}: {error}"
    return f"{name} failed with {type(error).__name__}: see the log of its node"
