"""What declared inputs are worth at labels ε = 1, features (1, 10⁻⁶), all others colluding: the
figures of docs/evaluation/choices.md, less a margin.

Noise is simulated from fixed seeds, so nothing here changes by itself. Whoever changes what is drawn
sees other noise: by the deviations in docs/evaluation/choices.md each test then fails for no reason with the
chance that it states.
"""

import numpy as np
import pandas as pd
import pytest
from estimators import make_classifier
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from pdml.encoding.maps import Fourier, Squares
from pdml.research.datasets import raetsch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pdml.errors.PrivacyUtilityWarning"),  # it knows no data
]


def split(x, y, tested, seed):
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = order[:tested], order[tested:]
    return x[train], y[train], x[test], y[test]


def fits(x, y, tested, seeds, read=lambda x: x, **settings):
    """A model of each seed, with records that it has not seen."""
    for seed in range(3000, 3000 + seeds):
        x1, y1, x2, y2 = split(x, y, tested, seed)
        model = make_classifier(plan="auto", topology="ring", random_state=seed, **settings)
        model.fit(read(x1), y1)
        assert model.privacy_.row("features", "other servers").epsilon <= 1.0
        yield model, read(x2), y2


def accuracy(*args, **settings):
    return np.mean([model.score(x, y) for model, x, y in fits(*args, **settings)])


def digit(value):
    return float(f"{value:.0e}")


def test_breast_cancer_by_what_a_doctor_would_write_down():
    """92.2 ± 4.0 of one training, 89.4 ± 5.7 on other splits; with the latter below 82 in the mean
    of five: once in 500 times.
    """
    x, y = load_breast_cancer(return_X_y=True)
    declared = [(digit(np.median(column)), digit(column.std())) for column in x.T]
    assert accuracy(x, y, 143, 5, n_servers=5, scales=declared) >= 0.82


@pytest.mark.usefixtures("data_dir")
def test_ringnorm_by_squares():
    """93.1 ± 1.4; below 90 in the mean of three: once in 4,000 times. A line reaches 76."""
    x, y = raetsch.load("ringnorm")
    result = {"scales": [(0, 1)] * 20, "maps": Squares()}
    assert accuracy(x, y, 3900, 3, **result) >= 0.90


@pytest.mark.usefixtures("data_dir")
def test_banana_by_waves():
    """77.7 ± 1.9; below 74 in the mean of three: once in 2,000 times. A line reaches 52."""
    x, y = raetsch.load("banana")
    result = {"scales": [(0, 1)] * 2, "maps": Fourier(count=20, scale=0.7)}
    assert accuracy(x, y, 1800, 3, **result) >= 0.74


@pytest.mark.usefixtures("data_dir")
def test_splice_by_its_categories():
    """73.3 ± 4.3, with long tails; below 62 in the mean of four: less than once in 10,000 times.
    The order of people is surer: an AUC of 0.83 ± 0.05, below 0.73 once in 10,000 times.
    """
    x, y = raetsch.load("splice")
    bases = pd.CategoricalDtype([1, 2, 3, 4])
    found = [
        (model.score(test, truth), roc_auc_score(truth, model.decision_function(test)))
        for model, test, truth in fits(
            x,
            y,
            901,
            4,
            read=lambda codes: (
                pd.DataFrame(codes.astype(int))
                .rename(columns=lambda k: f"base {k + 1}")
                .astype(bases)
            ),
        )
    ]
    accuracy, auc = np.mean(found, axis=0)
    assert accuracy >= 0.62 and auc >= 0.73
