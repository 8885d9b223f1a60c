"""What happened round by round, drawn."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from pdml.errors import InvalidInput
from pdml.model.history import NO_ROUNDS, History


def history(risk=np.nan, rounds=5):
    t = np.arange(1.0, rounds + 1)
    return History(risk=np.full(rounds, risk), consensus=1 / t, noise=0.9**t, spent=t / 10)


@pytest.mark.parametrize(("risk", "many"), [(np.nan, 3), (0.4, 4)])
def test_each_known_figure_is_drawn_over_the_rounds(risk, many):
    axes = history(risk).plot()
    assert len(axes) == many
    for each, name in zip(axes, ("noise", "consensus", "spent", "risk"), strict=False):
        (line,) = each.lines
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 6))
        np.testing.assert_array_equal(line.get_ydata(), getattr(history(risk), name))
    assert [each.get_yscale() for each in axes[:3]] == ["log", "log", "linear"]
    if many == 4:
        assert "do not publish" in axes[3].get_title()
    plt.close("all")


def test_it_draws_into_axes_that_are_given():
    _, own = plt.subplots(1, 3)
    assert (history().plot(own) == own).all()
    with pytest.raises(InvalidInput, match="axes must be 3, for noise, consensus, spent, got 2"):
        history().plot(own[:2])
    plt.close("all")


def test_one_exchange_has_nothing_to_draw():
    with pytest.raises(InvalidInput, match="one exchange of sums has none"):
        NO_ROUNDS.plot()
