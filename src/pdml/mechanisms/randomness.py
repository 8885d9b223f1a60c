"""Where randomness comes from. Streams are named, so that every party and engine draws its own and the same numbers.

``Simulated`` is a seeded NumPy source for experiments: reproducible to the bit, and no protection for anybody, because
floating-point noise leaks through its low bits and a seed can be guessed. Models and reports carry ``name``.
"""

import secrets

import numpy as np

LABELS, OBJECTIVE, ITERATES, DEAL, TOPOLOGY = range(5)  # one stream per purpose


class Simulated:
    """Independent generators from one seed, keyed by purpose and server."""

    name = "simulated"

    def __init__(self, seed: int | None = None) -> None:
        self.seed = secrets.randbits(128) if seed is None else seed

    def stream(self, purpose: int, server: int = 0) -> np.random.Generator:
        """The generator for one purpose at one server; asking twice gives the same stream from its start."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(purpose, server)))
