"""What becomes of a row's entries before its scale: those that stay, and what maps add."""

from dataclasses import dataclass

import numpy as np

from pdml._types import Array, IntArray
from pdml.encoding.maps import FeatureMap, Inputs
from pdml.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """Entries and the maps that act on them: what becomes of a row before its scale.

    The entries come first, in order, without those that a map with ``keep=False`` takes the place
    of; then the columns of each map in turn.
    """

    inputs: Inputs  # The entries
    maps: tuple[FeatureMap, ...] = ()  # In order

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
