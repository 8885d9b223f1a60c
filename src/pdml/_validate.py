"""Checks of single values; each error names the parameter, the value, the domain and the reason."""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

from pdml.errors import InvalidInput

_T = TypeVar("_T")


def _refuse(name: str, value: object, domain: str, why: str) -> InvalidInput:
    reason = f": {why}" if why else ""
    return InvalidInput(f"{name} must {domain}, got {value!r}{reason}", setting=name)


def real(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    why: str = "",
) -> float:
    """Return ``value`` as a float inside [low, high] (ends excluded where open)."""
    left, right = "(" if open_low else "[", ")" if open_high else "]"
    domain = f"be a number in {left}{low:g}, {high:g}{right}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _refuse(name, value, domain, why)
    number = float(value)
    inside = (number > low if open_low else number >= low) and (
        number < high if open_high else number <= high
    )
    if math.isnan(number) or not inside:
        raise _refuse(name, value, domain, why)
    return number


def integer(name: str, value: Any, *, low: int = 0, high: int | None = None, why: str = "") -> int:
    """Return ``value`` as an int of at least ``low`` (and at most ``high``)."""
    domain = f"be a whole number >= {low}" + ("" if high is None else f" and <= {high}")
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _refuse(name, value, domain, why)
    number = int(value)
    if number < low or (high is not None and number > high):
        raise _refuse(name, value, domain, why)
    return number


def choice(name: str, value: Any, options: tuple[str, ...], *, why: str = "") -> str:
    """Return ``value`` if it is one of ``options``."""
    if value not in options:
        raise _refuse(
            name, value, "be one of " + ", ".join(repr(option) for option in options), why
        )
    return str(value)


def by_server(name: str, values: Sequence[_T], n_servers: int) -> tuple[_T, ...]:
    """Return one value for each server, where one for all will do as well."""
    if len(values) not in (1, n_servers):
        domain = f"be one number or one per server ({n_servers} of them)"
        raise InvalidInput(f"{name} must {domain}, got {len(values)}", setting=name)
    return tuple(values) * (n_servers // len(values))
