"""What people are told about chance is true at every ε and for any number of classes, and the page
says the same words."""

import math
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from browsing import Visitor
from form_study import ABOUT
from hypothesis import given
from hypothesis import strategies as st
from recording import Recorder
from selenium.webdriver import Chrome

from pdml.device.page import render
from pdml.mechanisms.label_flip import WEAK_ABOVE, WORD, is_weak, threshold
from pdml.study import Study, study_summary

MICROS = (
    10_000,
    400_000,
    1_000_000,
    2_000_000,
    2_944_438,
    2_944_439,
    5_000_000,
    8_000_000,
    20_000_000,
)
CLASSES = {
    2: ("no", "yes"),
    3: ("no", "yes", "unsure"),
    7: tuple("abcdefg"),
    100: tuple(f"c{i}" for i in range(100)),
}
micros = st.integers(10_000, 20_000_000)
sizes = st.integers(2, 100)


def channel(micro: int, classes: int) -> tuple[Fraction, Fraction]:
    """The exact probabilities with which a device sends the true answer, and each other one."""
    flip = Fraction(threshold(micro, classes), WORD)
    return 1 - flip, flip / (classes - 1)


def posterior(micro: int, prior: list[Fraction], sent: int) -> list[Fraction]:
    """By Bayes' rule, what somebody with this prior believes who sees what was sent."""
    same, other = channel(micro, len(prior))
    joint = [belief * (same if answer == sent else other) for answer, belief in enumerate(prior)]
    return [part / sum(joint) for part in joint]


def percentages(sentence: str) -> list[str]:
    return re.findall(r"(?:over |under )?\d+\.\d%", sentence)


@given(micros, sizes)
def test_the_figures_are_those_of_bayes_rule(micro: int, classes: int) -> None:
    """Whoever held all classes, or two of them, equally likely: exactly, not by sampling."""
    same, other = channel(micro, classes)
    uniform = posterior(micro, [Fraction(1, classes)] * classes, 1)[1]
    half = [Fraction(1, 2), Fraction(1, 2)]
    between_two = posterior(micro, half + [Fraction(0)] * (classes - 2), 1)[1]
    assert uniform == same
    said = percentages(study_summary.meaning(micro, [f"c{i}" for i in range(classes)]))
    if classes == 2:
        assert said == [
            study_summary.share(same),
            study_summary.share(other),
            study_summary.share(uniform),
        ]
    else:
        assert said == [
            study_summary.share(same),
            study_summary.share(other),
            study_summary.share(uniform),
            study_summary.share(study_summary.certainty(micro)),
        ]
    off = abs(between_two - study_summary.certainty(micro))
    assert off < Fraction(1, 1 << 55)  # the rounding of a word


@given(micros, sizes, st.lists(st.integers(0, 1000), min_size=100, max_size=100), st.data())
def test_no_belief_moves_further_than_the_factor_that_is_told(
    micro: int,
    classes: int,
    weights: list[int],
    data: st.DataObject,
) -> None:
    """ "What is sent multiplies the odds between two answers by at most e^ε", whatever was believed
    before."""
    prior = [Fraction(weight + 1) for weight in weights[:classes]]
    prior = [belief / sum(prior) for belief in prior]
    sent = data.draw(st.integers(0, classes - 1))
    after = posterior(micro, prior, sent)
    changes = [new / old for new, old in zip(after, prior, strict=True)]
    assert float(max(changes) / min(changes)) <= math.exp(micro / 1e6) * (1 + 1e-12)


@given(st.fractions(0, 1))
def test_a_share_is_neither_nothing_nor_everything(part: Fraction) -> None:
    said = study_summary.share(part)
    if said == "under 0.1%":
        assert part < Fraction(1, 1000)
    elif said == "over 99.9%":
        assert part > Fraction(999, 1000)
    else:
        assert abs(Fraction(said.rstrip("%")) / 100 - part) <= Fraction(1, 2000) and said not in (
            "0.0%",
            "100.0%",
        )


def test_hardly_any_protection_begins_where_95_percent_are_exceeded() -> None:
    """Two answers at even odds before; exactly, at the last millionth on either side."""
    assert (
        study_summary.certainty(WEAK_ABOVE)
        <= Fraction(95, 100)
        < study_summary.certainty(WEAK_ABOVE + 1)
    )
    assert not is_weak(WEAK_ABOVE) and is_weak(WEAK_ABOVE + 1)
    assert math.floor(1e6 * math.log(19)) == WEAK_ABOVE
    for micro in MICROS:
        assert (study_summary.WEAK in study_summary.meaning(micro, ("a", "b", "c"))) == is_weak(
            micro
        )


def test_the_page_says_the_same_words(visitor: Visitor) -> None:
    asked = [(micro, list(classes)) for micro in MICROS for classes in CLASSES.values()]
    run = visitor.browser.execute_script
    said = run(
        "const weak = (micro) => (isWeak(micro) ? ` ${words('chance.weak')}` : '');"
        "return arguments[0].map((one) => chanceInWords(...one) + weak(one[0]))",
        asked,
    )
    assert said == [study_summary.meaning(micro, classes) for micro, classes in asked]
    assert run("return arguments[0].map(isWeak)", MICROS) == list(map(is_weak, MICROS))
    parts = [Fraction(part, 20_000) for part in range(0, 20_001, 7)]
    shown = visitor.browser.execute_script(
        "return arguments[0].map((part) => percent(BigInt(part), 20000n))",
        list(range(0, 20_001, 7)),
    )
    assert shown == [study_summary.share(part) for part in parts]
    for micro in (400_000, 1_000_000, 2_000_000):  # the study's menu
        assert study_summary.meaning(micro, ("no", "yes")) in visitor.text("#menu")


def test_a_page_with_a_level_that_hardly_protects_says_so(browser: Chrome, study: Study) -> None:
    weak = replace(study, menu=(1.0, 5.0), accept_weak=True)
    with Recorder(render(weak), weak.canonical()) as recorder:
        visitor = Visitor(browser, recorder.url).opens(fresh=True)
        strong = browser.find_elements("css selector", "#menu strong")
        assert [one.get_property("textContent") for one in strong] == [study_summary.WEAK]
        assert study_summary.WEAK in visitor.text("#menu label:last-child")
        visitor.fills(ABOUT, label=1, epsilon=5_000_000)
        assert study_summary.WEAK in visitor.text("#chance") and "99.3%" in visitor.text("#chance")


FALSE = (  # at some ε, or whenever chance lets the truth stand
    "never be sure",
    "sees your true answer",
    "neither sent nor stored",
    "stays on this device",
    "is not among them",
    "never leaves",
    "says nothing about your answer",
)


def test_nothing_is_said_that_some_epsilon_would_make_false(study: Study) -> None:
    page = " ".join(render(study).html.decode().split())
    for sentence in FALSE:
        assert sentence not in page
    assert "what is sent may or may not be your true answer" in page


@pytest.mark.parametrize("label", [0, 1])
def test_preview_and_receipt_are_true_whatever_was_drawn(visitor: Visitor, label: int) -> None:
    """Also when chance has let the true answer stand: a word at or above the threshold."""
    drawn = "array.fill(array instanceof BigUint64Array ? WORD - 1n : 7)"
    visitor.browser.execute_script(f"crypto.getRandomValues = (array) => {drawn}")
    visitor.fills(ABOUT, label, 2_000_000)
    answer = ("no", "yes")[label]
    sentence = f"“{answer}” is your randomised answer. It may or may not be the true one"
    assert sentence in visitor.text("#chance")
    assert "a true answer is kept with a probability of 88.1%" in visitor.text("#chance")
    visitor.sends()
    assert "it may or may not be the true one" in " ".join(visitor.text("#done-text").split())
