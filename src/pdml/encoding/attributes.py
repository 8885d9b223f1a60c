"""One question to a person: a number in a declared range, or one of several declared levels.

What a question makes of an answer (`pdml.encoding.scaling`): how many spreads a number lies from
its average, centred levels, and, where people may leave the question out, an entry of its own
that says so.

A *sensitive* question has a menu of ε: devices report a randomised level, never the
answer (`pdml.numerics.coded_rows`). A sensitive number is asked for as it is, and reported as one
of its bins.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml import _validate
from pdml._types import Array, IntArray
from pdml.encoding import scaling
from pdml.errors import DataError, InvalidInput, MissingValueError
from pdml.tables import MISSING, Table, quote
from pdml.tables.columns import positions

NO_ANSWER = "prefer not to say"  # how the missing answer is called, on the page and in features
NO_ANSWER_MASS = 0.1  # the expected square of a number's entry for it: most people answer
_CLOSE = 1e-5  # what float32 entries may be off after they were divided by one another
_FAR = 1e-6  # what is so close to three spreads may be farther away


def exact_text(value: float) -> str:
    """The fewest digits that read back as the same number: 90, not 90.0."""
    return repr(float(value)).removesuffix(".0")


@dataclass(frozen=True, kw_only=True)
class Menu:
    """The ε from which people choose how private one answer is."""

    menu: tuple[float, ...]  # Ascending, of at most six decimals; the first is the floor
    default: float  # The one that is suggested
    accept_weak: bool = False  # Needed where one of them hardly protects

    def __post_init__(self) -> None:
        epsilons = tuple(self.menu) if isinstance(self.menu, (tuple, list)) else ()
        good = all(isinstance(epsilon, (int, float)) and epsilon > 0 for epsilon in epsilons)
        if (
            not epsilons
            or not good
            or list(epsilons) != sorted(set(epsilons))
            or self.default not in epsilons
        ):
            raise InvalidInput(
                "epsilon must have a menu of ascending positive numbers and a default that stands "
                f"on it, got {quote(self.menu)} and {quote(self.default)}",
                setting="epsilon",
            )
        object.__setattr__(self, "menu", tuple(map(float, epsilons)))
        object.__setattr__(self, "default", float(self.default))

    @property
    def millionths(self) -> tuple[int, ...]:
        """The menu in millionths, exactly."""
        return tuple(round(epsilon * 1e6) for epsilon in self.menu)

    def to_dict(self) -> dict[str, Any]:
        weak = self.accept_weak or None
        return spell(menu=list(self.menu), default=self.default, accept_weak=weak)


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number declared to lie in [low, high]; what lies outside is clamped.

    Parameters
    ----------
    name : str
        The question's name, and the column's in tables.
    low, high : float
        What is accepted; without limits (infinite) only beside average and spread.
    whole : bool
        Fractions are refused, not rounded, for whoever gave one has misread the question.
    average, spread : float, optional
        Most people lie within average ± spread; by default the middle of the range and a sixth of
        its width.
    missing : str
        "average": who gives no answer counts as average, and an entry says so. "level", of bins: no
        answer is one more of them. "": everybody answers.
    bins : tuple of float
        Where a sensitive number's bins meet, ascending and inside the range; a value on an edge
        belongs to the upper one.
    epsilon : Menu, optional
        How private the answer may be; by default it is sent as it is.
    """

    name: str
    low: float
    high: float
    whole: bool = False
    average: float | None = None
    spread: float | None = None
    missing: str = ""
    bins: tuple[float, ...] = ()
    epsilon: Menu | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if (self.low, self.high) == (-math.inf, math.inf) and self.average is not None:
            self._check_unbounded()
            return
        for end in ("low", "high"):
            value = _validate.real(
                f"{end} of {self.name!r}", getattr(self, end), open_low=True, open_high=True
            )
            object.__setattr__(self, end, value)
        if not self.low < self.high:
            raise InvalidInput(
                f"high of {self.name!r} must exceed its low {self.low:g}, got "
                f"{self.high:g}: one value is no range"
            )
        if not math.isfinite(self.high - self.low):
            raise InvalidInput(
                f"the range of {self.name!r} must have a finite width, got [{self.low:g}, "
                f"{self.high:g}]"
            )
        if not isinstance(self.whole, bool):
            raise InvalidInput(f"whole of {self.name!r} must be True or False, got {self.whole!r}")
        if self.whole and not (self.low.is_integer() and self.high.is_integer()):
            must = f"the range of {self.name!r} must begin and end with whole numbers"
            raise InvalidInput(f"{must}, got [{self.low:g}, {self.high:g}]: it is declared whole")
        self._check_scale()
        self._check_bins()
        option, kind = ("level", "sensitive number") if self.bins else ("average", "number")
        _check_missing(self.name, self.missing, option, kind)

    def _check_unbounded(self) -> None:
        """Without a range there is a scale, and nothing that needs ends."""
        average, spread = scaling.checked(self.name, self.average, self.spread)
        if self.whole or self.bins or self.epsilon is not None:
            raise InvalidInput(
                f"the range of {self.name!r} must be declared beside whole, bins or epsilon, got "
                "none",
                setting="range",
            )
        _check_missing(self.name, self.missing, "average", "number")
        object.__setattr__(self, "average", average + 0.0)
        object.__setattr__(self, "spread", spread)

    def _check_bins(self) -> None:
        if not isinstance(self.bins, (list, tuple)):
            raise InvalidInput(
                f"bins of {self.name!r} must be a list of numbers, got {quote(self.bins)}",
                setting="bins",
            )
        if bool(self.bins) != (self.epsilon is not None):
            raise InvalidInput(
                f"bins and epsilon of {self.name!r} must be declared together, got one of them: a "
                "number that chance changes is reported as one of its bins",
                setting="bins" if self.bins else "epsilon",
            )
        edges = tuple(_validate.real(f"bins of {self.name!r}", edge) for edge in self.bins)
        inside = all(self.low < edge < self.high for edge in edges)
        if not inside or list(edges) != sorted(set(edges)):
            raise InvalidInput(
                f"bins of {self.name!r} must meet at ascending numbers inside the range "
                f"({self.low:g}, {self.high:g}), got {quote(list(self.bins))}",
                setting="bins",
            )
        if edges and self.average is not None:
            raise InvalidInput(
                f"average and spread of {self.name!r} must be left out beside bins",
                setting="average",
            )
        object.__setattr__(self, "bins", edges)

    def _check_scale(self) -> None:
        if (self.average is None) != (self.spread is None):
            alone = "average" if self.spread is None else "spread"
            raise InvalidInput(
                f"average and spread of {self.name!r} must be declared together, got {alone} alone",
                setting=alone,
            )
        if self.average is None:
            return
        average, spread = scaling.checked(self.name, self.average, self.spread)
        if not self.low <= average <= self.high:
            raise InvalidInput(
                f"average of {self.name!r} must lie in its range [{self.low:g}, {self.high:g}], "
                f"got {average:g}",
                setting="average",
            )
        if not 1e-300 < spread <= self.high - self.low:
            raise InvalidInput(
                f"spread of {self.name!r} must be positive and at most the width of its range "
                f"({self.high - self.low:g}), got {spread:g}: most people lie within average ± "
                "spread",
                setting="spread",
            )
        object.__setattr__(self, "average", average + 0.0)
        object.__setattr__(self, "spread", spread)

    @property
    def scale(self) -> tuple[float, float]:
        """(average, spread), declared or by the range."""
        if self.average is None or self.spread is None:
            return scaling.of_range(self.low, self.high)
        return self.average, self.spread

    @property
    def visible_range(self) -> tuple[float, float]:
        """What a report tells of a number: smaller and larger ones look like these."""
        if self.average is None:
            return self.low, self.high  # three of its spreads are its width, but for rounding
        average, spread = self.scale
        far = scaling.LIMIT * spread
        return max(self.low, average - far), min(self.high, average + far)

    @property
    def choices(self) -> tuple[str, ...]:
        """Of a sensitive number: its bins in words, and that of no answer."""
        ends = [exact_text(end) for end in (self.low, *self.bins, self.high)]
        between = [f"{a} to below {b}" for a, b in pairwise(ends[:-1])]
        last = f"{ends[-2]} to {ends[-1]}"
        return (*between, last, NO_ANSWER) if self.missing else (*between, last)

    def position(self, answers: NDArray[Any]) -> IntArray:
        """Of a sensitive number: in which of `choices` an answer lies."""
        indices = np.searchsorted(self.bins, np.nan_to_num(answers), side="right")
        return np.where(np.isnan(answers), len(self.bins) + 1, indices).astype(np.int64)

    @property
    def feature_names(self) -> tuple[str, ...]:
        if self.epsilon is not None:
            return tuple(f"{self.name}={choice}" for choice in self.choices)
        return (self.name, f"{self.name}={NO_ANSWER}") if self.missing else (self.name,)

    @property
    def masses(self) -> tuple[float, ...]:
        """The expected square of each entry."""
        if self.epsilon is not None:
            return (scaling.level_mass(len(self.choices)),) * len(self.choices)
        return (scaling.NUMBER_MASS, NO_ANSWER_MASS) if self.missing else (scaling.NUMBER_MASS,)

    def cells(self, table: Table, spellings: Collection[str] = ()) -> Array:
        """The column's numbers as they are; NaN where there is no answer."""
        with _suggesting(self):
            return table.numeric(self.name, absent=_absent(self, table, spellings))

    def read(self, table: Table, spellings: Collection[str] = ()) -> Array:
        """The column's values, within the range; NaN where there is no answer.

        Raises
        ------
        DataError
            If a cell is no answer to the question.
        """
        values = self.cells(table, spellings)
        if self.whole and (broken := values != np.floor(values)).any():
            broken &= ~np.isnan(values)
            if broken.any():
                row = int(np.argmax(broken))
                got = f"{values[row]:g} in {table.where(row)}"
                raise DataError(f"column {self.name!r} must hold whole numbers, got {got}")
        return np.clip(values, self.low, self.high)

    def decode(self, entries: Array) -> float | str | None:
        """The value behind float32 entries, to 6 digits of its `visible_range`; a text
        such as "90 or more" where that is all that can be; None where there was no answer."""
        off, silent = float(entries[0]), float(entries[1]) if self.missing else 0.0
        if not abs(off) <= scaling.LIMIT + _CLOSE or min(abs(silent), abs(silent - 1)) > _CLOSE:
            raise InvalidInput(
                f"the features of {self.name!r} must be those of an answer, got "
                f"{quote(entries.tolist())}"
            )
        if silent > 0.5:
            return None
        low, high = self.visible_range
        digits = 5 - math.floor(math.log10(high - low))
        digits = min(digits, 0) if self.whole else digits
        if off >= scaling.LIMIT - _FAR and high < self.high:
            end = math.ceil(high - _FAR) if self.whole else round(high, digits)
            return f"{exact_text(end)} or more"
        if off <= _FAR - scaling.LIMIT and low > self.low:
            end = math.floor(low + _FAR) if self.whole else round(low, digits)
            return f"{exact_text(end)} or less"
        value = float(scaling.original(np.array(off), *self.scale))
        return min(max(round(value, digits), low), high) + 0.0

    def to_dict(self) -> dict[str, Any]:
        return spell(
            kind="number",
            name=self.name,
            range=[self.low, self.high] if math.isfinite(self.low) else None,
            whole=self.whole or None,
            average=self.average,
            spread=self.spread,
            missing=self.missing or None,
            bins=list(self.bins) or None,
            epsilon=self.epsilon and self.epsilon.to_dict(),
        )


@dataclass(frozen=True, kw_only=True)
class Category:
    """One of several declared levels; any other value is refused, for a new level has no feature.

    Parameters
    ----------
    name : str
        The question's name, and the column's in tables.
    levels : tuple of str
        The possible answers.
    missing : str
        "level": no answer is one more level. "": everybody answers.
    epsilon : Menu, optional
        How private the answer may be; by default it is sent as it is.
    """

    name: str
    levels: tuple[str, ...]
    missing: str = ""
    epsilon: Menu | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name)
        what = f"levels of {self.name!r}"
        if not isinstance(self.levels, (tuple, list)) or not self.levels:
            raise InvalidInput(f"{what} must be one or more texts, got {self.levels!r}")
        _check_missing(self.name, self.missing, "level", "category")
        for position, level in enumerate(self.levels):
            check_name(what, level)
            if level in MISSING:
                raise InvalidInput(
                    f"{what} must not include {level!r}: in a table it stands for a missing value"
                )
            if self.missing and level == NO_ANSWER:
                raise InvalidInput(
                    f"{what} must not include {level!r}: that is what missing = 'level' adds"
                )
            if self.levels.index(level) < position:
                raise InvalidInput(f"{what} must differ from one another, got {level!r} twice")
        object.__setattr__(self, "levels", tuple(self.levels))
        if self.epsilon is not None and len(self.choices) < 2:
            raise InvalidInput(f"{what} must be two or more to be randomised, got one")

    def position(self, answers: NDArray[Any]) -> IntArray:
        """Of a sensitive category: the answer's place among `choices`."""
        return np.asarray(answers, dtype=np.int64)

    @property
    def choices(self) -> tuple[str, ...]:
        """The levels, and that of no answer."""
        return (*self.levels, NO_ANSWER) if self.missing else self.levels

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={level}" for level in self.choices)

    @property
    def masses(self) -> tuple[float, ...]:
        """The expected square of each entry."""
        return (scaling.level_mass(len(self.choices)),) * len(self.choices)

    def read(self, table: Table, spellings: Collection[str] = ()) -> IntArray:
        """The position of each row's level; that of no answer is the last.

        Raises
        ------
        DataError
            If a cell is no answer to the question.
        """
        levels = (*self.levels, "") if self.missing else self.levels  # `text` has "" in the gaps
        absent, what = _absent(self, table, spellings), "the declared levels"
        with _suggesting(self):
            return positions(table, self.name, levels, what=what, absent=absent)

    def decode(self, entries: Array) -> str | None:
        """The level behind float32 entries; None where there was no answer."""
        chosen = int(np.argmax(entries))
        if np.abs(entries - scaling.centred(np.array([chosen]), len(self.choices))).max() > _CLOSE:
            raise InvalidInput(
                f"the features of {self.name!r} must be those of a single level, got "
                f"{quote(entries.tolist())}"
            )
        return self.levels[chosen] if chosen < len(self.levels) else None

    def to_dict(self) -> dict[str, Any]:
        return spell(
            kind="category",
            name=self.name,
            levels=list(self.levels),
            missing=self.missing or None,
            epsilon=self.epsilon and self.epsilon.to_dict(),
        )


Attribute = Number | Category


def spell(**fields: Any) -> dict[str, Any]:
    """A declaration without what is None."""
    return {name: value for name, value in fields.items() if value is not None}


def from_dict(where: str, item: Any) -> Attribute:
    """An attribute as `to_dict` spells it; whatever it would not write is refused, for a misspelt
    key must not pass unnoticed."""
    if not isinstance(item, Mapping) or "kind" not in item:
        raise InvalidInput(f"{where} must be a table with a kind, got {quote(item)}")
    kind = _validate.choice(f"kind of {where}", item["kind"], ("number", "category"))
    if kind == "category":
        check_keys(where, item, {"kind", "name", "levels"}, {"missing", "epsilon"})
    else:
        range_or_scale = "average" if "average" in item else "range"
        optional = {"range", "whole", "average", "spread", "missing", "bins", "epsilon"}
        check_keys(where, item, {"kind", "name", range_or_scale}, optional)
    fields = {key: value for key, value in item.items() if key not in ("kind", "range")}
    if "epsilon" in item:
        check_keys(f"epsilon of {where}", item["epsilon"], {"menu", "default"}, {"accept_weak"})
        fields["epsilon"] = Menu(**item["epsilon"])
    if kind == "category":
        return Category(**fields)
    ends = item.get("range", (-math.inf, math.inf))
    if not isinstance(ends, (list, tuple)) or len(ends) != 2:
        raise InvalidInput(f"range of {where} must be [low, high], got {quote(ends)}")
    return Number(low=ends[0], high=ends[1], **fields)


def check_keys(
    where: str, item: Any, needed: Collection[str], optional: Collection[str] = ()
) -> None:
    """Refuse a table that lacks a key, or has one more."""
    present = set(item) if isinstance(item, Mapping) else set()
    keys = {*needed, *present.intersection(optional)}
    if present != keys:
        got = ", ".join(sorted(map(repr, item))) if isinstance(item, Mapping) else quote(item)
        raise InvalidInput(
            f"{where} must have exactly the keys {', '.join(sorted(map(repr, keys)))}, got {got}"
        )


def check_name(what: str, name: object) -> None:
    """Refuse what is no name."""
    if not isinstance(name, str) or not name or name != name.strip():
        raise InvalidInput(
            f"{what} must be text that neither is empty nor begins or ends with spaces, got "
            f"{name!r}"
        )


def _check_missing(name: str, missing: object, option: str, kind: str) -> None:
    if missing not in ("", option):
        raise InvalidInput(
            f"missing of {name!r} must be {option!r}, or left out where everybody answers, got "
            f"{missing!r}: it is a {kind}",
            setting="missing",
        )


def _absent(
    attribute: Attribute, table: Table, spellings: Collection[str]
) -> NDArray[np.bool_] | None:
    """Where a table has no answer to a question; None where everybody must answer it."""
    return table.absent(attribute.name, spellings) if attribute.missing else None


@contextmanager
def _suggesting(attribute: Attribute) -> Iterator[None]:
    """A refusal of a cell without a value says what could be declared."""
    try:
        yield
    except MissingValueError as error:
        way = "average" if isinstance(attribute, Number) else "level"
        hints = [] if attribute.missing else [f"missing = {way!r} says what that means"]
        hints += [f"missing_values says that {error.cell!r} stands for it"] if error.cell else []
        message = f"{error}: {' and '.join(hints)}"
        raise MissingValueError(message, column=error.column, cell=error.cell) from None
