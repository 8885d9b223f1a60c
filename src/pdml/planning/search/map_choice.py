"""Whether numbers should bend: decided from public sizes, by how loud noise would be."""

from dataclasses import replace
from math import sqrt

import numpy as np

from pdml.accounting import Budget
from pdml.encoding.encoder import Encoder
from pdml.encoding.maps import FeatureMap, Splines
from pdml.planning.search.sums_search import SHARES, WIDEST, calibrate
from pdml.planning.sizes import Sizes

LOUDEST = 0.01  # ν up to which splines tell more than their columns' noise costs


def choose_maps(encoder: Encoder, budget: Budget, sizes: Sizes) -> tuple[FeatureMap, ...]:
    """Splines of all numbers where ν = σ_Q √d/V would be small, else none; ``sizes`` are those
    without maps.

    Guarantees
    ----------
    - A function of public sizes: the choice tells nothing about the data.
    """
    splines = (Splines(),)
    if not encoder.expansion.inputs.numbers:
        return ()
    more = replace(encoder, maps=splines).n_features - encoder.n_features
    wide = replace(sizes, width=sizes.width + more)
    if wide.width > WIDEST:
        return ()
    spec = wide.server_spec(int(np.argmax(wide.records)))
    plan = calibrate(budget, spec, SHARES[1])
    if plan is None:
        return ()
    loudness = plan.noise_of_total(spec).label / (wide.counted_people(None) * sizes.norm_bound)
    return splines if loudness * sqrt(wide.width) < LOUDEST else ()
