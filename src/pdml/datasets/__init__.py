"""Data for experiments: artificial problems to draw from, and real sets found through PDML_DATA_DIR. Nothing of this is for deployment."""

from pdml.datasets import adult, local, raetsch
from pdml.datasets.generators import ringnorm, twonorm, waveform

__all__ = ["adult", "local", "raetsch", "ringnorm", "twonorm", "waveform"]
