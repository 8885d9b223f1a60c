"""Populations that the planner does not know, to check it on."""

from typing import Any

import numpy as np

from pdml.numerics.admm import rows


def known_shapes() -> list[tuple[str, dict[str, Any]]]:
    """Eight: Gaussian columns or two clusters, clear or hazy, few columns or many."""
    return [
        (f"{kind}, margin {margin}, width {width}", {"kind": kind, "margin": margin, "wide": width})
        for kind in ("line", "clusters")
        for margin in (1.0, 4.0)
        for width in (5, 20)
    ]


def shape(
    records: int, *, kind: str, margin: float, wide: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Prepared records with their constant column, and class indices."""
    rng = np.random.default_rng([seed, wide, 99])
    x = rng.normal(size=(records, wide)) * (0.3 + rng.random(wide))
    direction = rng.normal(size=wide)
    if kind == "line":
        z = x @ direction
        z *= margin / z.std()
        y = (rng.random(records) < 1 / (1 + np.exp(-z - 0.4))).astype(np.int64)
    else:
        y = rng.integers(0, 2, records)
        x += np.outer(2 * y - 1, margin / 2 * direction / np.linalg.norm(direction))
    prepared, _ = rows.clip(rows.append_bias(x), 1.0)
    return np.asarray(prepared), y
