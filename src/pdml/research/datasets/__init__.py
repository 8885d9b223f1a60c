"""Data for experiments, none of it for deployment: artificial problems to draw from, and real sets
that `pdml data fetch` brings.
"""

from pdml.research.datasets import adult, local, raetsch
from pdml.research.datasets.artificial import ringnorm, waveform
from pdml.simulation.generators import twonorm

__all__ = ["adult", "local", "raetsch", "ringnorm", "twonorm", "waveform"]
