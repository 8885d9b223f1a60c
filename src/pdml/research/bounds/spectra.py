"""The paper's matrices of a graph, and the eigenvalues by which its bounds are spelt.

With one row per arc (s_i, s_l), 2E of them, A₁ picks w_i and A₂ picks w_l (Section admm_alg). Each
link appears as two arcs, which the ½ in the paper's L₊ := ½(A₁+A₂)ᵀ(A₁+A₂) and L₋ :=
½(A₁-A₂)ᵀ(A₁-A₂) cancels, so that per server, and ⊗ I_d for vectors,

    (L₊ w)_i = Σ_{l ∈ N_i} (w_i + w_l)    (L₋ w)_i = Σ_{l ∈ N_i} (w_i - w_l)    L₊ + L₋ = 2 Deg.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from pdml._types import Array
from pdml.numerics.admm.graph import Graph, components


def plus(graph: Graph) -> Array:
    """L₊ = Deg + Adj (signless Laplacian), n x n."""
    return np.asarray(np.diag(graph.degrees) + graph.adjacency.toarray())


def minus(graph: Graph) -> Array:
    """L₋ = Deg - Adj (Laplacian), n x n."""
    return np.asarray(np.diag(graph.degrees) - graph.adjacency.toarray())


@dataclass(frozen=True, kw_only=True)
class Spectra:
    """σ_min (smallest non-zero) and σ_max of L₊ and L₋ (classifier_converge): both are PSD, so
    singular values are eigenvalues."""

    plus_min: float
    plus_max: float
    minus_min: float  # the algebraic connectivity
    minus_max: float
    bipartite: bool  # then, and only then, L₊ is singular

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """The zero eigenvalues are known, not guessed by a threshold: on a connected graph L₋ has
        exactly one, L₊ one if bipartite, else none."""
        # Two copies of every server, each link from one to the other: two components if bipartite.
        across = np.array([0, graph.n])
        covered = np.concatenate([graph.edges + across, graph.edges + across[::-1]])
        bipartite = bool(components(2 * graph.n, covered).any())
        above, below = np.linalg.eigvalsh(plus(graph)), np.linalg.eigvalsh(minus(graph))
        return cls(
            plus_min=float(above[1 if bipartite else 0]),
            plus_max=float(above[-1]),
            minus_min=float(below[1]),
            minus_max=float(below[-1]),
            bipartite=bipartite,
        )
