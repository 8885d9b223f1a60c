"""What an ε of a label may be."""

import numpy as np
import pytest

from pdml.errors import InvalidInput
from pdml.numerics.admm import labels


def test_one_for_all_or_one_for_each():
    assert labels.check_epsilons(2, 3).tolist() == [2.0, 2.0, 2.0]
    assert labels.check_epsilons([0.5, np.inf], 2).tolist() == [0.5, np.inf]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("1", "one number or one per record .3 of them., got '1'$"),
        ([1.0, 2.0], r"got shape \(2,\) of float64$"),
        (0.0, "must be > 0, got 0: 0 would report"),
        ([1.0, -2.0, 1.0], "must be > 0, got -2 at record 2:"),
        ([1.0, np.nan, 1.0], "must be > 0, got nan at record 2:"),
    ],
)
def test_anything_else_is_refused_before_a_label_is_weighed_by_it(given, said):
    with pytest.raises(InvalidInput, match=said) as caught:
        labels.codes(np.array([0, 1, 1]), given, 2)
    assert caught.value.setting == "epsilon"
