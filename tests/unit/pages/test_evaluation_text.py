"""How well a model predicts, on its page: every figure, with noise and without."""

from dataclasses import replace

import numpy as np
import pytest
from test_training_page import PAGE, Tree, cards, inert

from pdml.mechanisms.count_release import Counting
from pdml.model.evaluation import Bin, Evaluation
from pdml.model.model import Model
from pdml.model.private_evaluation import CountedEvaluation, privacy_charge
from pdml.pages.charts.training_charts import MOST_COEFFICIENTS, coefficient_figure
from pdml.pages.evaluation_text import Assessment
from pdml.pages.table_pages import KEEP, evaluation_page
from pdml.pages.training_page import render
from pdml.training.intervals import Intervals

EXACT = Evaluation(
    classes=("no", "yes <b>"),
    confusion=np.array([[50, 10], [5, 35]]),
    auc=0.912,
    log_loss=0.345,
    calibration_error=0.0321,
    reliability=(
        Bin(records=40, confidence=0.62, accuracy=0.6),
        Bin(records=60, confidence=0.9, accuracy=0.95),
    ),
)
NOISY = CountedEvaluation(
    classes=("no", "yes"),
    records=1000,
    counts=np.array([[[300.5, 200.0], [30.2, 20.0]], [[40.0, 15.0], [150.0, 245.0]]]),
    counting=Counting(stddev=3.0, classes=2, bins=2),
)
MODEL = Model(
    classes=("no", "yes"),
    coefficients=np.zeros((1, 1)),
    intercepts=np.zeros(1),
    norm_bound=1.0,
    fit_intercept=True,
    label="tired",
)


def shown(evaluation, **more) -> str:
    page = replace(PAGE, assessment=Assessment(evaluation=evaluation, **more))
    text = render(page)
    inert(text)
    return text


def test_the_page_shows_every_figure_beside_the_accuracy():
    text = shown(EXACT)
    assert cards(text)["Majority-class baseline"][0] == "60.0%"
    bigs = [e[2] for e in Tree(text).classed("big")]
    assert {"0.912", "3.2%", "0.345"} <= set(bigs)
    rows = [cell[2] for cell in Tree(text).all("td", "th")]
    assert {"predicted no", "predicted yes <b>", "50", "35", "83.3%", "87.5%"} <= set(rows)
    assert "Does it know how sure it may be?" in text
    desc = next(e for e in Tree(text).elements if e[1].get("id") == "reliability-desc")
    assert "where it is about 62.0% sure, 60.0% are right" in desc[2]


def test_noisy_figures_come_with_their_intervals_and_their_noise():
    text = shown(NOISY)
    assert "the noise of each count has the standard deviation 4.24" in text
    assert "Noise moves every dot" in text and "about 55.0%" in text
    recall = NOISY.recall[0]
    assert f"<small>{100 * recall.low:.1f}% to {100 * recall.high:.1f}%</small>" in text


def test_a_model_that_guesses_is_called_one():
    poor = replace(EXACT, confusion=np.array([[60, 0], [40, 0]]))
    view = Assessment(evaluation=poor)
    assert "majority-class baseline: predicting no for everybody is right in 60.0%" in view.verdict
    assert Assessment(evaluation=EXACT).verdict == "" == Assessment(evaluation=NOISY).verdict
    text = render(replace(PAGE, doubts=(view.verdict,)))
    assert (
        "The model may be of no use." in text
        and "no better than the majority-class baseline" in text
    )


def test_many_classes_are_listed_by_their_recall():
    names = tuple(f"c{k}" for k in range(20))
    many = replace(EXACT, classes=names, confusion=np.eye(20, dtype=int))
    view = Assessment(evaluation=many)
    assert [name for name, _ in view.columns] == ["True class", "Recall"]
    assert all(cells == [] and recall == "100.0%" for _, cells, recall, _ in view.rows())
    inert(shown(many))
    empty = replace(EXACT, confusion=np.array([[50, 10], [0, 0]]))
    assert [row[2] for row in Assessment(evaluation=empty).rows()][1] == "no records"


def test_the_reference_is_marked_as_a_simulation():
    facts = {f.name: f for f in Assessment(evaluation=EXACT, reference=0.9).facts()}
    assert facts["without any protection (simulation)"].value == "90.0%"
    assert "no deployment could run" in facts["without any protection (simulation)"].words


def test_an_evaluation_has_a_page_of_its_own():
    exact = render(evaluation_page(MODEL, EXACT, source="others.csv"))
    inert(exact)
    assert (
        f"Do not publish this page.</strong> {KEEP}" in exact
        and "assume that everybody can learn everything" in exact
    )
    lines = privacy_charge(MODEL, NOISY, same_people=False)
    noisy = render(evaluation_page(MODEL, NOISY, source="others.csv", privacy=lines))
    inert(noisy)
    assert KEEP not in noisy and "Source of the noise: secure." in noisy
    assert "has the true label" in noisy and "this evaluation alone" in noisy


def intervals(codes: int, width: int, *, whole: bool = True) -> Intervals:
    values = np.linspace(-1, 1, codes * width).reshape(codes, width)
    return Intervals(
        coefficients=values, deviations=np.full(values.shape, 0.2), covers="noise", whole=whole
    )


def test_coefficients_are_drawn_largest_first_and_hollow_where_they_may_be_noise():
    found = intervals(1, 30)
    figure = coefficient_figure(found, [f"f{k}" for k in range(30)], ("no", "yes"))
    names = [m.words for m in figure.marks if m.tag == "text" and m.words.startswith("f")]
    assert len(names) == MOST_COEFFICIENTS and names[:2] == ["f0", "f29"]
    dots = [dict(m.attributes)["class"] for m in figure.marks if m.tag == "circle"]
    result = int(found.more_than_noise.sum())
    assert dots.count("dot") == min(result, MOST_COEFFICIENTS) and dots[0] == "dot"
    assert f"Of all 30 intervals {result} do not hold zero" in figure.caption
    assert "Above zero speaks for yes" in figure.caption
    inert(render(replace(PAGE, coefficients=figure)))
    small = coefficient_figure(replace(found, deviations=np.full((1, 30), 5.0)), [], ("no", "yes"))
    dots = [dict(m.attributes)["class"] for m in small.marks if m.tag == "circle"]
    assert set(dots) == {"dot quiet"} and "column 1" in [m.words for m in small.marks]


def test_of_rounds_nothing_is_called_more_than_noise():
    figure = coefficient_figure(intervals(1, 4, whole=False), list("abcd"), (0, 1))
    assert figure.heading == "What the last round’s noise did" and "zero." not in figure.caption
    assert {dict(m.attributes)["class"] for m in figure.marks if m.tag == "circle"} == {"dot"}


@pytest.mark.parametrize("classes", [3])
def test_with_several_classes_each_coefficient_says_whose_it_is(classes):
    figure = coefficient_figure(intervals(classes, 2), ["a", "b"], ("x", "y", "z"))
    names = [m.words for m in figure.marks if m.tag == "text"]
    assert "x: a" in names and "z: b" in names and "speaks for" not in figure.caption
