"""The figures of a training tell the numbers they are made of, in marks and in words."""

from math import inf, nan

import numpy as np
import pytest

from pdml.pages.charts.training_charts import (
    MOST_EFFECTS,
    accuracy_figure,
    agreement_figure,
    effects_figure,
    risk_figure,
    spent_figure,
)
from pdml.training.additive_effects import AdditiveEffect


def effect(name, largest):
    values = np.linspace(20, 60, 5)
    margins = np.linspace(0, largest, 5)
    return AdditiveEffect(name=name, values=values, margins=margins, deviations=np.full(5, 0.5))


def test_the_largest_effects_are_drawn_first():
    assert effects_figure((), ("no", "yes")) is None
    figure = effects_figure((effect("age", 1.0), effect("bmi", -3.0)), ("no", "yes"))
    assert [word for word in words(figure) if word in ("age", "bmi")] == ["bmi", "age"]
    assert figure.words == "bmi moves the log odds most, by 3.00 between 20.0 and 60.0."
    assert "log odds of yes" in words(figure) and "largest of" not in figure.caption
    many = effects_figure([effect(f"n{k}", k) for k in range(20)], (0, 1))
    assert many.caption.startswith(f"The {MOST_EFFECTS} largest of 20. ")


T = 40
FALLING = np.geomspace(2, 0.1, T).tolist()


def words(figure):
    return [each.words for each in figure.marks if each.words]


def heights(figure):
    """Of the labels of both vertical scales."""
    found = [(each.words, dict(each.attributes)) for each in figure.marks if each.tag == "text"]
    return {name: float(at["y"]) - 4 for name, at in found if at.get("class") in ("end", None)}


def test_descriptions_carry_the_numbers():
    risk = risk_figure(FALLING, 0.2)
    assert risk.words == (
        "The empirical risk goes from 2.00 to 0.100 in 40 rounds. "
        "Training without privacy ends at 0.200."
    )
    assert "without privacy" in words(risk) and "without privacy" not in words(
        risk_figure([1.0], nan)
    )
    accuracy = accuracy_figure([0.9, 0.8, None, nan], 0.91, None, "on 5 records")
    assert accuracy.words == "The servers’ own models reach 80.0% to 90.0%. Released model: 91.0%."
    assert accuracy.caption.startswith("Measured on 5 records. ")
    assert "released model: 91.0%" in words(accuracy)


def test_the_risk_is_marked_as_unprotected():
    assert risk_figure(FALLING, None).warning == "Covered by no guarantee:"


def test_rounds_without_a_guarantee_are_said_and_shown():
    figure = spent_figure([0.5, 1.0, inf, inf], 1e-6)
    assert "no guarantee" in words(figure)
    assert figure.words.endswith("From round 3 on there is no guarantee.")
    assert spent_figure([inf], 1e-6).words == "From round 1 on there is no guarantee."
    assert "no guarantee" not in words(spent_figure(FALLING, 1e-6))


@pytest.mark.parametrize(("first", "scale"), [(0.4, float), (0.1, np.log)])
def test_the_second_scale_translates_epsilon_into_certainty(first, scale):
    """90% are odds of 9 to 1: e^ε twice, which whatever keeps to (ε, δ) exceeds with at most 2δ."""
    ticks = heights(spent_figure([first, 3.0], 1e-6))
    share = (scale(np.log(9 / 2)) - scale(1.0)) / (scale(2.0) - scale(1.0))
    assert ticks["90%"] == pytest.approx(ticks["1"] + share * (ticks["2"] - ticks["1"]), abs=0.3)
    assert "90%" not in words(spent_figure([first, 3.0], None))


@pytest.mark.parametrize("epsilon", [0.0, 1e-7, 0.01, 12.0, 1e6])
def test_any_size_of_epsilon_has_readable_ticks(epsilon):
    assert len(words(spent_figure([epsilon / 2, epsilon], 0.01))) >= 4


def test_distances_that_are_known_along_links_only_are_called_so():
    result = [agreement_figure(FALLING, FALLING, linked=linked).caption for linked in (True, False)]
    assert "linked models" in result[0] and "linked" not in result[1]
    assert "goes from 2.00 to 0.100" in agreement_figure(FALLING, [0.0] * T, linked=False).words
