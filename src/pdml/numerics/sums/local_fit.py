"""A local model: one server's own exact sums together with the others' noisy ones.

Nothing is released by using it inside. Both are unbiased measurements of the same moments; each is
weighted by its precision, Q and S apart: where the others' noise is large they hardly count, and
the model is the one from the server's own records.
"""

from dataclasses import replace
from math import hypot

import numpy as np

from pdml.numerics.admm.losses import Loss
from pdml.numerics.sums.fit import Noise, NoisyMoments, SumsModel, fit_moments, normalise_totals
from pdml.numerics.sums.statistics import Sums


def fit_local_model(
    local: Sums,
    others: Sums,
    noise: Noise,
    *,
    loss: Loss,
    norm_bound: float = 1.0,
    intercept: bool = True,
    constant: float = 0.0,
) -> SumsModel:
    """The model of a server that keeps its own sums exact.

    Guarantees
    ----------
    - As the others' noise grows, the result tends to the model from ``local`` alone.
    """
    exact = Noise(label=0.0, square=0.0, coded=noise.coded)  # but for randomised answers
    local_moments = normalise_totals(local, exact, loss=loss, norm_bound=norm_bound)
    theirs = normalise_totals(others, noise, loss=loss, norm_bound=norm_bound)
    features = np.diag(local_moments.s)[: local.width - intercept]
    typical = float(features.mean()) if features.size else 1.0  # of x_i x_k
    label = _share(local_moments.report * typical, theirs.report * typical + theirs.label**2)
    here, there = typical**2 + noise.coded / 2, theirs.square**2 / 2
    square = _share(here / local.size, typical**2 / others.size + there)
    both = NoisyMoments(
        q=(1 - label) * local_moments.q + label * theirs.q,
        s=(1 - square) * local_moments.s + square * theirs.s,
        label=label * theirs.label,
        square=hypot((1 - square) * local_moments.square, square * theirs.square),
        report=(1 - label) ** 2 * local_moments.report + label**2 * theirs.report,
        intercept=intercept,
        constant=constant,
    )
    model = fit_moments(both, loss)
    return replace(model, weights=model.weights / norm_bound)


def _share(local: float, theirs: float) -> float:
    """The weight of theirs in the mean with the least variance."""
    return local / (local + theirs) if local + theirs else 0.5
