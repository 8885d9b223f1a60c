"""Where randomness comes from: two sources behind one seam. Models and reports carry ``name``.

``Simulated`` is a seeded NumPy source for experiments: reproducible to the bit, and no protection
for anybody, because floating-point noise leaks through its low bits and a seed can be guessed. Its
streams are named, so that every party and engine draws its own and the same numbers.

``Secure`` is for deployments: the operating system's entropy, integer comparisons, and noise on a
grid. It cannot be repeated, by design: whoever could repeat the noise could remove it. A server
that restarts must re-send what it sent, never draw again.
"""

import os
import secrets
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pdml import _validate
from pdml._types import Array
from pdml.errors import InvalidInput
from pdml.mechanisms import exact_gaussian
from pdml.mechanisms.exact_gaussian import BITS, GRID, LIMIT, Entropy, Words

LABELS, OBJECTIVE, ITERATES, PARTITION, TOPOLOGY, SUMS, COUNTS = range(7)  # one stream per purpose


def os_words(count: int) -> Words:
    """Uniform 64-bit words from the operating system."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class SecureStream:
    """Draws from ``entropy``: integers without bias, noise that is exact on the grid 2^-40."""

    def __init__(self, entropy: Entropy = os_words) -> None:
        self._entropy = entropy

    def integers(
        self, low: int, high: int, size: int, dtype: Any = np.int64, endpoint: bool = False
    ) -> NDArray[Any]:
        """Whole numbers from [low, high), each equally likely: a word at or above the largest
        multiple of the range is drawn again."""
        span = high - low + endpoint
        if not 1 <= span <= 1 << 64:
            raise InvalidInput(
                f"integers must have a range of 1 to 2^64 values, got [{low}, {high})"
            )
        if span == 1:
            return np.full(size, low, dtype=dtype)
        words = self._entropy(size)
        if (1 << 64) % span:
            last = np.uint64((1 << 64) - (1 << 64) % span - 1)
            while (over := words > last).any():
                words = words.copy()
                words[over] = self._entropy(int(over.sum()))
        if span < 1 << 64:
            words = words % np.uint64(span)
        numbers = words.astype(dtype, copy=False)
        return numbers + np.asarray(low, dtype=dtype) if low else numbers

    def gaussian(self, out: Array, stddev: Any) -> Array:
        """Noise of this standard deviation (a number, or broadcasting to ``out``), written into
        ``out``."""
        out[...] = exact_gaussian.gaussian(out.shape, stddev, self._entropy)
        return out

    def truncated_gaussian(self, shape: tuple[int, ...], stddev: float, bound: float) -> Array:
        return exact_gaussian.truncated_gaussian(shape, stddev, bound, self._entropy)

    def uniform_box(self, shape: tuple[int, ...], bound: float) -> Array:
        """Uniform on [-bound, bound], rounded to the grid: every grid point up to ±
        `exact_gaussian.cells` is equally likely."""
        farthest = exact_gaussian.cells(bound)
        return np.asarray(
            self.integers(-farthest, farthest, int(np.prod(shape)), endpoint=True) * GRID
        ).reshape(shape)


Stream = np.random.Generator | SecureStream


class Source(Protocol):
    """What a training needs: streams, and the two sums in which noise meets what it protects."""

    @property
    def name(self) -> str: ...

    def stream(self, purpose: int, server: int = 0) -> Stream:
        """Secret draws for one purpose at one server."""

    def public(self, purpose: int) -> np.random.Generator:
        """Draws that protect nobody, such as the partition of records in a simulation."""

    def settle(self, values: Array) -> Array:
        """``values`` as they must be before noise of this source is added to them."""

    def less_share(self, values: Array, noise: Array, n: int, reach: float) -> Array:
        """values - noise/n; ``reach`` is a public bound on every |value|."""


class Simulated:
    """Independent generators from one seed, keyed by purpose and server."""

    name = "simulated"

    def __init__(self, seed: int | None = None) -> None:
        self.seed = secrets.randbits(128) if seed is None else seed

    def stream(self, purpose: int, server: int = 0) -> np.random.Generator:
        """The generator for one purpose at one server; asking twice gives the same stream from its
        start."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(purpose, server)))

    def public(self, purpose: int) -> np.random.Generator:
        return self.stream(purpose)

    def settle(self, values: Array) -> Array:
        return values

    def less_share(self, values: Array, noise: Array, n: int, reach: float) -> Array:
        return values - noise / n


class Secure:
    """OS entropy. ``seed`` only fixes what is public: how records are assigned and servers joined.

    Guarantees
    ----------
    - A label is flipped with exactly the integer probability of `LabelFlip`, and another class
      chosen without bias.
    - A release is a function of a grid point plus a real Gaussian (`exact_gaussian`); what reaches
      others lies on the grid, so its low bits hold nothing else.
    - No state: nothing is drawn ahead, so a forked or copied process never repeats noise.
    """

    name = "secure"

    def __init__(self, seed: int | None = None) -> None:
        self._public = Simulated(seed)

    def stream(self, purpose: int, server: int = 0) -> SecureStream:
        """Fresh draws, whatever the purpose and the server."""
        return SecureStream()

    def public(self, purpose: int) -> np.random.Generator:
        return self._public.stream(purpose)

    def settle(self, values: Array) -> Array:
        return exact_gaussian.round_to_grid(values)

    def less_share(self, values: Array, noise: Array, n: int, reach: float) -> Array:
        """(round(n·values) - noise)/n: the difference is exact on the grid, and the division is
        post-processing."""
        if not n * reach <= LIMIT:
            raise InvalidInput(
                f"n_servers · (bound on the label mean) must be at most {LIMIT:g} with "
                f"secure noise on the grid of 2^-{BITS}, "
                f"got {n} · {reach:g}: use fewer servers, a larger epsilon or a smaller norm_bound"
            )
        return np.asarray((exact_gaussian.round_to_grid(n * values) - noise) / n)


SOURCES = ("simulated", "secure")


def source_named(name: str, seed: int | None = None) -> Simulated | Secure:
    """The source of this name."""
    _validate.choice("randomness", name, SOURCES)
    return Secure(seed) if name == "secure" else Simulated(seed)
