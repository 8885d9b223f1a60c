"""The templates of pages, and how numbers and rows of the ledger are written in them."""

from math import isfinite, isinf
from typing import Any

from pdml.accounting import LedgerRow
from pdml.accounting.ledger_row import ADVERSARY_NAMES
from pdml.formatting import markup, numbers

HARDLY = 0.999  # whoever can be so sure is practically not kept from knowing


def sure(row: LedgerRow) -> str:
    """What somebody at even odds can come to believe, in words that hold for every row."""
    if isinf(row.epsilon):
        return certainty_note(row)
    most = numbers.certainty(row.certainty)
    if row.certainty >= HARDLY:
        return f"at even odds before, {most} sure after: {certainty_note(row)}"
    return f"at even odds before, {certainty_note(row, f' {most} sure after')}"


def certainty_note(row: LedgerRow, share: str = "") -> str:
    """What the share of `sure` is worth, where it stands beside."""
    if isinf(row.epsilon):
        return "nothing keeps them from being certain"
    if row.certainty >= HARDLY:
        return "practically no protection"
    but = f", but for a chance of {numbers.delta(row.delta)}" if row.delta else ""
    return f"at most{share}{but}"


_TEMPLATES = markup.templates("pdml.pages")
_TEMPLATES.globals |= {"numbers": numbers, "ADVERSARY_NAMES": ADVERSARY_NAMES}
_TEMPLATES.globals |= {"certainty_note": certainty_note, "HARDLY": HARDLY}
_TEMPLATES.tests["infinite"] = isinf
_TEMPLATES.tests["known"] = lambda value: value is not None and isfinite(value)


def document(template: str, page: Any) -> str:
    """A whole document."""
    return _TEMPLATES.get_template(template).render(page=page)
