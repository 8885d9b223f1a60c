"""Speed and memory, measured: `make bench` (all) or `python -m benchmarks adult sweep` (some).

Every figure is a ratio of medians measured in one run, the two sides interleaved, because machines
are shared and noisy. The reference is scikit-learn's LogisticRegression(lbfgs, tol 1e-8) on the
pooled data in the same storage, BLAS at one thread.

`python -m benchmarks forecast strangers` measures something else: what forecasts of a model's worth
are worth (docs/evaluation/forecasts.md).
"""
