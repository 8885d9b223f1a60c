"""The operator's page: figures that are the mathematics', words for every state, and nothing but
text from outside.
"""

import copy
import html
import re
from dataclasses import replace
from math import exp, inf, sqrt

import example_study
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pdml.accounting import Budget
from pdml.collector.intake.service import Summary
from pdml.collector.storage.records import CollectionState
from pdml.formatting import markup, numbers
from pdml.mechanisms.label_flip import WORD, threshold
from pdml.pages.operator_page import OperatorPage, estimates, render
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study

STUDY = replace(
    example_study.STUDY,
    title="A <b>small</b> study",
    question="Are you <i>ill</i>?",
    min_records=100,
)
PLANNED = replace(STUDY, plan=TrainingPlan(rounds=30, noise_scale=0.5), budget=None)


def summary(no: int, yes: int, **changes: object) -> Summary:
    base = Summary(
        study_id=STUDY.id,
        study_hash=STUDY.hash,
        server="alice",
        state=CollectionState.OPEN,
        in_window=True,
        reports=no + yes,
        withdrawn=2,
        conflicts=0,
        invitations=5000,
        invitations_used=no + yes,
        require_tokens=True,
        per_minute=(0,) * 58 + (7, 3),
        per_epsilon={400_000: 0, 1_000_000: no + yes, 2_000_000: 0},
        per_class=(no, yes),
        per_epsilon_and_class={400_000: (0, 0), 1_000_000: (no, yes), 2_000_000: (0, 0)},
        problems={"token_used": 12, "closed": 3},
        replayed=4,
        uptime=7300.0,
        taken_at=1_780_000_000.0,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def page_of(study: Study, found: Summary) -> OperatorPage:
    return OperatorPage(study=study, summary=found)


@given(
    truth=st.lists(st.integers(0, 300), min_size=2, max_size=5).filter(lambda n: sum(n) > 0),
    micros=st.lists(st.integers(100_000, 4_000_000), min_size=1, max_size=3, unique=True),
)
def test_the_estimate_is_unbiased_and_its_error_exact(truth: list[int], micros: list[int]) -> None:
    """With expected reports in place of counts the estimate is the truth, and the variance that of
    the randomised response.
    """
    classes = len(truth)
    counts, variance = {}, np.zeros(classes)
    for micro in micros:
        p = threshold(micro, classes) / WORD
        q = p / (classes - 1)
        counts[micro] = tuple(n * (1 - p) + (sum(truth) - n) * q for n in truth)
        variance += [
            (n * p * (1 - p) + (sum(truth) - n) * q * (1 - q)) / (1 - p - q) ** 2 for n in truth
        ]
    found = estimates(tuple(map(str, range(classes))), counts)  # type: ignore[arg-type]
    people = len(micros) * sum(truth)
    np.testing.assert_allclose(
        [one.share for one in found], np.array(truth) / sum(truth), atol=1e-9
    )
    np.testing.assert_allclose(
        [one.error for one in found], np.sqrt(variance) / people, rtol=1e-6, atol=1e-9
    )


def test_two_classes_in_closed_form() -> None:
    p = 1 / (1 + exp(1))
    _, yes = estimates(("no", "yes"), {1_000_000: (600, 400)})
    assert yes.share == pytest.approx((0.4 - p) / (1 - 2 * p))
    assert yes.error == pytest.approx(sqrt(p * (1 - p) / 1000) / (1 - 2 * p))


def test_what_can_be_trained_is_the_ledgers_own_answer() -> None:
    """The last safe round is where the planned spending meets the budget: a budget of what is
    planned allows just the plan.
    """
    held = page_of(PLANNED, summary(600, 400))
    assert held.plan == PLANNED.plan and held.last_safe_round is None  # no budget
    features, label = held.spending
    assert 0 < features.planned < inf and 0 < label.planned < inf and features.allowed == inf
    limits = Budget(
        features_epsilon=1.0001 * features.planned, labels_epsilon=1.0001 * label.planned
    )
    exact = page_of(replace(PLANNED, budget=limits), summary(600, 400))
    assert exact.last_safe_round == 30
    tight = page_of(
        replace(PLANNED, budget=replace(limits, features_epsilon=0.9 * features.planned)),
        summary(600, 400),
    )
    assert tight.last_safe_round is not None and tight.last_safe_round < 30
    more = page_of(PLANNED, summary(6000, 4000))
    assert more.spending[0].planned < features.planned  # more reports, less to learn about each


def test_a_budget_against_one_is_not_shown_as_one_against_all() -> None:
    """Masked sums: one other server learns less than all of them."""
    masked = TrainingPlan(method="sums", label_noise=12.0, square_noise=16.0, colluding=1)
    budget = Budget(features_epsilon=2.0, labels_epsilon=0.5)
    spent = {}
    for colluding, whom in (
        (1, "any one of the other servers"),
        (None, "all other servers together"),
    ):
        study = replace(PLANNED, plan=masked, budget=replace(budget, colluding=colluding))
        held = page_of(study, summary(600, 400))
        page = html.unescape(render(study, summary(600, 400)))
        assert (
            f"What {whom} could learn" in page and page.count(" could learn") == 2
        )  # its label, too
        spent[colluding] = held.spending[0].planned
        assert f">{numbers.epsilon(spent[colluding])}<" in page
    assert spent[1] < 0.9 * spent[None]


def test_weight_and_worth() -> None:
    held = page_of(STUDY, summary(600, 400))
    kappa = (exp(1) + 1) / (exp(1) - 1)
    assert held.weight == pytest.approx(kappa)
    assert held.worth == pytest.approx(1000 / kappa**2)
    assert page_of(STUDY, summary(0, 0)).weight == 0


def coverage(people: int, ill: int, micro: int, shrink: float = 1.0) -> float:
    """The exact chance that the interval holds the true share, over all that the devices' draws can
    make of the answers.
    """
    p = threshold(micro, 2) / WORD
    yes = np.convolve(
        binom.pmf(range(ill + 1), ill, 1 - p), binom.pmf(range(people - ill + 1), people - ill, p)
    )
    held = 0.0
    for count, chance in enumerate(yes):
        _, one = estimates(("no", "yes"), {micro: (people - count, count)})
        low, high = replace(one, error=shrink * one.error, grain=shrink * one.grain).interval
        assert 0 <= low <= one.likely <= high <= 1
        held += chance * (low - 1e-12 <= ill / people <= high + 1e-12)
    return held


@pytest.mark.parametrize("people", [20, 50, 200])
@pytest.mark.parametrize("micro", [200_000, 1_000_000, 3_000_000])
def test_the_range_holds_the_truth_in_about_95_of_100_collections(people: int, micro: int) -> None:
    shares = [
        coverage(people, ill, micro)
        for ill in {0, 1, people // 10, people // 3, people // 2, people}
    ]
    assert min(shares) > 0.94, shares
    if (people, micro) >= (
        200,
        1_000_000,
    ):  # of fewer, or with more noise, any range is nearly everything
        assert (
            min(coverage(people, ill, micro, shrink=0.5) for ill in (people // 3, people // 2))
            < 0.8
        )


@pytest.mark.parametrize(
    ("counts", "result"), [((10, 9), False), ((10, 10), True), ((0, 0), False)]
)
def test_nothing_is_estimated_from_fewer_than_twenty_reports(
    counts: tuple[int, int], result: bool
) -> None:
    page = render(STUDY, summary(*counts))
    assert ("In brackets stands the range" in page) is result and (
        "from 20 reports on" in page
    ) is not result
    assert page.count('<td class="number">–</td>') == (0 if result else 2)


@given(no=st.integers(0, 400), yes=st.integers(0, 400))
def test_no_share_is_told_that_cannot_be(no: int, yes: int) -> None:
    """However chance fell: no estimate below 0 or above 100%, each with its range, and no "710%" of
    anything.
    """
    page = render(STUDY, summary(no, yes))
    visible = re.sub("<[^>]*>", " ", page.partition("<body>")[2])
    shares = [float(each) for each in re.findall(r"([-−]?[0-9.]+)%", visible.replace("−", "-"))]
    assert all(0 <= share <= 100 for share in shares)
    if no + yes >= 20:
        assert len(re.findall(r"[0-9.]+% +\( *[0-9.]+% +to +[0-9.]+% *\)", visible)) == 2


@pytest.mark.parametrize(
    ("study", "counts", "words"),
    [
        (STUDY, (30, 20), "Not enough yet: 50 reports more"),
        (STUDY, (0, 0), "Not enough yet: 100 reports more"),
        (STUDY, (600, 400), "The study settles no plan yet"),
        (PLANNED, (600, 400), "Ready: 30 rounds"),
        (
            replace(PLANNED, budget=Budget(features_epsilon=0.001)),
            (600, 400),
            "would exceed the budget for all answers together, the sensitive one included",
        ),
    ],
)
def test_every_state_has_its_sentence(study: Study, counts: tuple[int, int], words: str) -> None:
    now = summary(*counts)
    assert words in render(study, now)


@given(
    evil=st.text(max_size=12)
    | st.sampled_from(["<script>", '"><b onload=x>', "</style>", "{{ 1 }}"])
)
def test_words_from_outside_make_no_markup(evil: str) -> None:
    """The same tags and attributes as with plain words, whatever a study or a code is called."""

    def drawn(words: str) -> list[str]:
        study, now = copy.copy(PLANNED), summary(600, 400, problems={f"c{words}": 1})
        named = {"title": f"t{words}", "question": f"q{words}", "classes": (f"n{words}", "yes")}
        for name, value in named.items():  # which no study may have
            object.__setattr__(study, name, value)
        unplanned = summary(600, 400, server=f"s{words}", study_id=f"i{words}")
        page = render(study, now) + render(STUDY, unplanned)
        assert f"t{markup.plain_text(words)}" in html.unescape(page)
        return re.findall(r"<[/a-z]+|[a-z-]+=\"", page)

    assert drawn(evil) == drawn("x")


def test_the_page_is_text_without_scripts() -> None:
    now = summary(600, 400, problems={"<script>": 1, "token_used": 1200})
    page = render(STUDY, now)
    assert "<script" not in page and "<b>small" not in page and "<i>ill" not in page
    assert "&lt;script&gt;" in page and "A &lt;b&gt;small" in page
    assert "default-src 'none'" in page and 'http-equiv="refresh"' in page
    assert "src=" not in page and "http" not in page.replace("http-equiv", "")
    assert "The invitation was used by another report." in page and "1,200" in page
    assert page == render(STUDY, now)


def test_minutes_are_bars_in_proportion() -> None:
    page = render(STUDY, summary(600, 400))
    heights = [float(part.split('height="')[1].split('"')[0]) for part in page.split("<rect")[1:]]
    assert heights == [98.0, 42.0]  # 7 and 3 of 10, on 140 units
    assert page.count("bar running") == 1 and "10 in all, at most 7 in one" in page
    quiet = summary(600, 400, per_minute=(0,) * 60)
    assert "<rect" not in render(STUDY, quiet)


@pytest.mark.parametrize(
    ("state", "window", "words"),
    [
        ("open", True, ">open<"),
        ("open", False, "outside its opening times"),
        ("frozen", True, ">frozen<"),
    ],
)
def test_the_state_is_said(state: str, window: bool, words: str) -> None:
    now = summary(1, 1, state=CollectionState(state), in_window=window)
    assert words in render(STUDY, now)


# What people were told


TOLD = replace(
    example_study.ASKING,
    title="A <b>told</b> study",
    organiser=replace(example_study.ASKING.organiser, name="City <i>Hospital</i>"),
)


def shown(study: Study, found: Summary) -> str:
    text = re.sub(r"<[^>]+>", " ", render(study, found).split("<main")[1])
    return " ".join(html.unescape(text).split())


def test_consent_retention_and_organiser_are_shown() -> None:
    assert TOLD.consent is not None
    page = shown(TOLD, summary(60, 40))
    assert "City <i>Hospital</i>" in page and "study@hospital.example" in page
    assert "version 2026-03" in page and TOLD.consent.digest[:16] in page
    assert "2036-01-01 00:00 UTC" in page and "3,504 days left" in page
    assert "which the study does not name" in page and "Only tried out" not in page
    assert "Withdrawn 2 and erased, by people themselves or for them" in page


def test_the_end_of_retention_is_told() -> None:
    late = summary(0, 0, state=CollectionState.ERASED, taken_at=2.1e9)
    page = render(TOLD, late)
    assert "all reports were erased" in page and "days left" not in page and "erased</span>" in page


def test_reports_under_an_id_that_was_taken_are_counted() -> None:
    many = shown(TOLD, summary(1, 1, conflicts=1_234))
    assert "Since the collection was made, 1,234 reports were refused because the id was" in many
    one = shown(TOLD, summary(1, 1, conflicts=1, problems={}))
    assert "Since the collection was made, 1 report was refused" in one
    assert "because the id was taken" not in shown(TOLD, summary(1, 1))


def test_a_date_that_is_not_believed_is_told() -> None:
    jump = "the clock says <b>2037</b>"
    page = render(TOLD, summary(1, 1, clock_jump=jump))
    assert '<p class="verdict not">The clock says &lt;b&gt;2037&lt;/b&gt;.</p>' in page
    assert "The clock" not in render(TOLD, summary(1, 1))


def test_languages_are_those_of_the_studys_texts() -> None:
    tongues = replace(TOLD, language="nl")
    assert "Languages nl of the study’s own texts" in shown(tongues, summary(1, 0))


def test_a_study_that_is_tried_out_is_called_so() -> None:
    assert "Only tried out" in shown(STUDY, summary(60, 40))
    assert "Only tried out" in shown(replace(TOLD, notice=None), summary(60, 40))
