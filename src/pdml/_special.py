"""What we use of scipy.special, loaded when one of these is first called.

Devices know plans and budgets by their names and never compute with them: `pip install pdml` leaves
scipy out, and a device starts without it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from pdml import extras


def _late(name: str) -> Callable[..., Any]:
    @cache
    def loaded() -> Any:
        with extras.needed():
            from scipy import special
        return getattr(special, name)

    def call(*values: Any, **options: Any) -> Any:
        return loaded()(*values, **options)

    return call


betainc, expit = _late("betainc"), _late("expit")
log_ndtr, ndtr, ndtri = _late("log_ndtr"), _late("ndtr"), _late("ndtri")
logsumexp, softmax = _late("logsumexp"), _late("softmax")
