"""What makes a row of a record, step by step (docs/concepts/encoding.md): one list for devices,
studies and estimators, which NumPy takes here and scikit-learn, ONNX and JavaScript are made from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array, IntArray
from pdml.encoding import maps as mapped
from pdml.encoding import scaling
from pdml.errors import InvalidInput
from pdml.numerics.coded_rows import Block


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """Entries and the maps that act on them: what becomes of a row before its scale.

    The entries come first, in order, without those that a map with ``keep=False`` takes the place
    of; then the columns of each map in turn.
    """

    inputs: mapped.Inputs  # The entries
    maps: tuple[mapped.FeatureMap, ...] = ()  # In order

    def __post_init__(self) -> None:
        earlier: set[str] = set()
        for name in self.names:
            if name in earlier:
                raise InvalidInput(
                    f"columns of a row must have different names, got {name!r} twice",
                    setting="maps",
                )
            earlier.add(name)

    @property
    def kept(self) -> IntArray:
        """Positions of the entries that stay."""
        gone = {
            k
            for feature_map in self.maps
            if not feature_map.keep
            for k in feature_map.uses(self.inputs)
        }
        stay = [k for k in range(len(self.inputs.names)) if k not in gone]
        return np.array(stay, dtype=np.int64)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all columns."""
        stay = tuple(self.inputs.names[k] for k in self.kept)
        return stay + tuple(
            name for feature_map in self.maps for name in feature_map.names(self.inputs)
        )

    @property
    def width(self) -> int:
        """How many columns, without the constant."""
        return len(self.names)

    @property
    def mass(self) -> float:
        """The expected square of a row, summed from left to right."""
        total = 0.0
        for k in self.kept:
            total += self.inputs.masses[k]
        for feature_map in self.maps:
            for mass in feature_map.masses(self.inputs):
                total += mass
        return total

    def apply(self, entries: Array) -> Array:
        """All columns of entries (m, d), in the order of ``names``."""
        if not self.maps:
            return entries
        columns = [feature_map.apply(entries, self.inputs) for feature_map in self.maps]
        return np.hstack([entries[:, self.kept], *columns])


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table, and the numbers that its cells become.

    Without levels: the number itself, or ``fill`` in a gap. With levels: a one for the level of the
    cell among zeros. Where there may be gaps, one more number is 1 in a gap and else 0.
    """

    name: str
    levels: tuple[str, ...] = ()
    gaps: bool = False
    fill: float = 0.0

    @property
    def width(self) -> int:
        """How many numbers a cell becomes."""
        return (len(self.levels) or 1) + self.gaps

    def apply(self, answers: NDArray[Any]) -> Array:
        """The numbers of answers: values, NaN in a gap, or positions of levels, the last in a
        gap."""
        if self.levels:
            levels = np.asarray(answers)[:, None] == np.arange(self.width)
            return np.asarray(levels, dtype=float)
        silent = np.isnan(answers)
        values = np.where(silent, self.fill, answers)
        return np.column_stack([values, silent.astype(float)] if self.gaps else [values])


@dataclass(frozen=True, kw_only=True)
class ReadColumns:
    """Cells of named columns become numbers, one column after the other."""

    columns: tuple[Column, ...]


@dataclass(frozen=True, kw_only=True)
class ReadNumbers:
    """Numbers are taken as they are; ``names`` where they are known."""

    width: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaleNumbers:
    """Numbers become clip((x - origin)/unit, low, high), one by one."""

    origin: Array
    unit: Array
    low: Array
    high: Array

    def take(self, columns: IntArray) -> "ScaleNumbers":
        """The same for these columns, once for each number."""
        return ScaleNumbers(
            **{field.name: getattr(self, field.name)[columns] for field in fields(self)}
        )

    def apply(self, rows: Array) -> Array:
        with np.errstate(over="ignore"):  # what is too large for a double is clipped like the rest
            far = (np.asarray(rows, dtype=np.float64) - self.origin) / self.unit
        clipped = np.minimum(np.maximum(far, self.low), self.high)
        return np.asarray(clipped + 0.0)  # + 0 turns -0 into 0


@dataclass(frozen=True, kw_only=True)
class ExpandMaps:
    """Some entries stay, and maps add more."""

    expansion: Expansion

    def apply(self, rows: Array) -> Array:
        return self.expansion.apply(rows)


@dataclass(frozen=True, kw_only=True)
class Multiply:
    """Everything is multiplied by one number."""

    factor: float

    def apply(self, rows: Array) -> Array:
        return rows if self.factor == 1.0 else rows * self.factor


@dataclass(frozen=True, kw_only=True)
class AppendCodes:
    """Codes of randomised answers follow, each on a scale of its own; no step clips them."""

    blocks: tuple[Block, ...]

    def apply(self, rows: Array, codes: Array) -> Array:
        scales = np.repeat(
            [block.scale for block in self.blocks], [block.levels for block in self.blocks]
        )
        return np.hstack([rows, codes * scales])


@dataclass(frozen=True, kw_only=True)
class AppendConstant:
    """A last entry that is the same in all rows."""

    value: float

    def apply(self, rows: Array) -> Array:
        return np.column_stack([rows, np.full(len(rows), self.value)])


@dataclass(frozen=True, kw_only=True)
class ClipRows:
    """Rows longer than the bound are scaled down to it, one by one; codes neither count in a row's
    length nor change."""

    bound: float
    blocks: tuple[Block, ...] = ()  # of codes

    def lengths(self, rows: Array) -> Array:
        """The norm of each row without codes."""
        total = np.zeros(len(rows))
        for k in np.flatnonzero(self._clear(rows)).tolist():
            total += rows[:, k] * rows[:, k]  # numpy's own sums reorder; this does not
        return np.sqrt(total)

    def apply(self, rows: Array, lengths: Array) -> Array:
        factor = (self.bound / np.maximum(lengths, self.bound))[:, None]
        return np.where(self._clear(rows), rows * factor, rows) if self.blocks else rows * factor

    def _clear(self, rows: Array) -> NDArray[np.bool_]:
        clear = np.ones(rows.shape[1], dtype=bool)
        for block in self.blocks:
            clear[block.columns] = False
        return clear


Step = (
    ReadColumns
    | ReadNumbers
    | ScaleNumbers
    | ExpandMaps
    | Multiply
    | AppendCodes
    | AppendConstant
    | ClipRows
)


def finish(
    mass: float, blocks: tuple[Block, ...], *, constant: bool = True, bound: float = 1.0
) -> tuple[Step, ...]:
    """From entries to rows.

    Guarantees
    ----------
    - Every norm is at most ``bound``, also after each entry was rounded to float32.
    - A row depends on its own entries and on public settings alone, to the bit.
    """
    return (
        Multiply(factor=scaling.row_factor(mass)),
        *([AppendCodes(blocks=blocks)] if blocks else []),
        *([AppendConstant(value=scaling.CONSTANT)] if constant else []),
        ClipRows(bound=scaling.room(blocks), blocks=blocks),
        Multiply(factor=bound),
    )


def take(steps: Sequence[Step], entries: Array, codes: Array | None = None) -> tuple[Array, Array]:
    """What becomes of entries, and the lengths of rows before they were clipped."""
    rows, lengths = entries, np.zeros(len(entries))
    for step in steps:
        match step:
            case AppendCodes() if codes is not None:
                rows = step.apply(rows, codes)
            case ClipRows():
                lengths = step.lengths(rows)
                rows = step.apply(rows, lengths)
            case ScaleNumbers() | ExpandMaps() | Multiply() | AppendConstant():
                rows = step.apply(rows)
            case _:
                raise TypeError(f"entries cannot take the step {step!r}")
    return rows, lengths
