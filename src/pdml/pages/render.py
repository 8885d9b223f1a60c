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
    """A whole document.

    Parameters
    ----------
    template : str
        Its file in ``templates``.
    page : dataclass
        All that it shows: a template has no other source.

    Returns
    -------
    str
        HTML, the same for the same page.
    """
    return _TEMPLATES.get_template(template).render(page=page)
