"""The paper: its experiments, bounds, baselines and data sets."""
