"""Data for experiments, none of it for deployment: artificial problems to draw from, and real sets
that `pdml data fetch` brings.
"""

from pdml.research.datasets import adult, local, raetsch
from pdml.simulation.generators import ringnorm, twonorm, waveform

__all__ = ["adult", "local", "raetsch", "ringnorm", "twonorm", "waveform"]
