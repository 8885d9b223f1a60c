"""The templates of this room, and how numbers are written in them."""

from math import isfinite, isinf
from typing import Any

from pdml.formatting import markup, numbers
from pdml.pages import ledger_table

_TEMPLATES = markup.templates("pdml.pages")
_TEMPLATES.globals |= {"numbers": numbers, "lines": ledger_table}
_TEMPLATES.tests["infinite"] = isinf
_TEMPLATES.tests["known"] = lambda value: value is not None and isfinite(value)


def document(template: str, page: Any) -> str:
    """A whole document."""
    return _TEMPLATES.get_template(template).render(page=page)
