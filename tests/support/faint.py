"""A training whose releases hold zeros that were rounded from either side."""

import numpy as np
from consortium import Consortium

from pdml.mechanisms.randomness import Secure
from pdml.planning.training_plan import TrainingPlan

# Noise below the grid is drawn as 0 or -0, each with probability 1/2.
SILENT = TrainingPlan(rounds=12, objective_bound=0.0, noise_scale=2.0**-46)


def faint(folder):
    """Four servers; their last two features are so small that the weights are rounded to zero."""
    made = Consortium(folder, plan=SILENT, source=Secure())
    for server in made.servers:
        server.matrix[:, 2:] *= 1e-14
    return made


def without_sign(values):
    """No zero is negative. Of 20 and more rounded from below each would be with chance 1/2."""
    zeros = np.asarray(values)[np.asarray(values) == 0]
    assert len(zeros) >= 50
    return not np.signbit(zeros).any()
