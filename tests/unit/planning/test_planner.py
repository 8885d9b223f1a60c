"""The planner: within budget by the ledger, and it says before anybody releases anything what is
to be expected.
"""

import json
import re
from dataclasses import replace
from math import inf
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy import stats

from pdml import PDMLClassifier
from pdml.accounting import Budget
from pdml.errors import BudgetExceeded, InvalidInput
from pdml.numerics.admm.graph import Graph, build
from pdml.numerics.coded_rows import Block
from pdml.planning.forecast.synthetic import populations
from pdml.planning.forecast.utility import Gain
from pdml.planning.forecast.yardstick import Yardstick
from pdml.planning.proposal import verdict
from pdml.planning.search.candidates import LITTLE, CandidateComparison, UtilityRuns, compare
from pdml.planning.search.planner import Proposal, Sizes, budget_rows, ledger, propose
from pdml.planning.search.rounds_search import Search, SearchSpace
from pdml.planning.search.sums_search import SHARES
from pdml.planning.sizes import PlannedAnswer
from pdml.planning.training_plan import TrainingPlan
from pdml.simulation.target_accuracy import smallest_epsilon

GRAPH = Graph.random(10, 13, np.random.default_rng(1))
SIZES = Sizes(records=(400,) * 10, width=21, epsilon=1.0)
epsilons = st.floats(0.05, 20)
deltas = st.sampled_from([1e-9, 1e-6, 1e-3])


@st.composite
def studies(draw: st.DrawFn) -> tuple[Sizes, Graph]:
    n = draw(st.integers(2, 6))
    graph = build(
        draw(st.sampled_from(["ring", "complete", "star", "random"])),
        n,
        np.random.default_rng(draw(st.integers(0, 99))),
    )
    records = tuple(draw(st.lists(st.integers(1, 5000), min_size=n, max_size=n)))
    classes = draw(st.sampled_from([2, 2, 3, 5]))
    return Sizes(
        records=records, width=draw(st.integers(1, 12)), epsilon=draw(epsilons), classes=classes
    ), graph


@settings(max_examples=8, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    study=studies(),
    features=epsilons,
    labels=epsilons,
    features_delta=deltas,
    labels_delta=deltas,
    method=st.sampled_from(["rounds", "sums"]),
    few=st.booleans(),
)
def test_a_plan_stays_within_any_budget(
    study: tuple[Sizes, Graph],
    features: float,
    labels: float,
    features_delta: float,
    labels_delta: float,
    method: str,
    few: bool,
) -> None:
    """By the ledger of all its events, for both rows; and the ledger itself does not object."""
    sizes, graph = study
    budget = Budget(
        features_epsilon=features,
        features_delta=features_delta,
        labels_epsilon=labels,
        labels_delta=labels_delta,
        colluding=1 if few else None,
    )
    found = propose(budget, sizes, graph, method=method)
    for row in found.rows:
        assert row.spent <= row.allowed
    ledger(found.plan, sizes, graph).check(budget)
    assert found.rows == budget_rows(found.plan, budget, sizes, graph)
    assert found.plan.method == method and 0 <= found.forecast.agreement.middle <= 1


def test_where_a_line_jumps_the_plan_is_louder_and_so_is_what_was_rehearsed() -> None:
    """With these sizes the ledger asks for a tenth more noise than with those rehearsed, which are
    a little smaller; the forecast is of the plan that is proposed.
    """
    budget = Budget(
        features_epsilon=11.35,
        labels_epsilon=11.790357367124773,
        labels_delta=1e-9,
        colluding=1,
    )
    sizes = Sizes(records=(691, 2596, 484, 1156), width=8, epsilon=8.506413953723797)
    graph = Graph.complete(4)
    search = Search(sizes.rounded(), SearchSpace(graph=graph), populations(sizes.rounded()))
    first = search.best(budget)
    assert first is not None
    _, by = search.plan(first, budget, sizes)
    assert by > 0.01
    found = propose(budget, sizes, graph, method="rounds")
    ledger(found.plan, sizes, graph).check(budget)
    assert found.comparison.choice == first.louder(by)
    again, more = search.plan(found.comparison.choice, budget, sizes)
    np.testing.assert_allclose(again.noise_scale, found.plan.noise_scale, rtol=2e-9)
    assert more < 1e-8


def test_few_columns_are_summed_and_many_go_in_rounds() -> None:
    """S has d(d+1)/2 noisy numbers: they are worth it where each is well known."""
    budget = Budget(features_epsilon=1.0, labels_epsilon=1.0, colluding=5)
    narrow = propose(budget, replace(SIZES, width=8), GRAPH)
    assert narrow.plan.method == "sums"
    assert "one exchange of sums" in narrow.reasons[0] and "by rounds" in narrow.reasons[0]
    wide = propose(budget, replace(SIZES, width=310), GRAPH)
    assert wide.plan.method == "rounds" and "sums" not in wide.candidates
    assert "48,205 squares" in wide.reasons[0]
    with pytest.raises(InvalidInput, match="method must be 'rounds' for more than"):
        propose(budget, replace(SIZES, width=310), GRAPH, method="sums")


def test_the_other_method_is_chosen_where_rehearsals_say_so() -> None:
    """Some columns and few records: both are rehearsed, because rounds might be better."""
    sizes = Sizes(records=(435,) * 3, width=60, epsilon=0.5)
    found = propose(Budget(features_epsilon=1.0, colluding=1), sizes, Graph.complete(3))
    right = {name: each.accuracy.middle for name, each in found.candidates.items()}
    assert found.plan.method == max(("sums", "rounds"), key=right.__getitem__) == "rounds"


@pytest.mark.parametrize(
    ("gain", "little", "rounds"),
    [(-LITTLE, False, False), (LITTLE / 2, True, False), (2 * LITTLE, False, True)],
)
def test_rounds_that_could_be_little_better_are_not_looked_for(
    monkeypatch: pytest.MonkeyPatch, gain: float, little: bool, rounds: bool
) -> None:
    """Sums are set behind what rounds could be right on: rehearsals are drawn, and how close two
    of them come depends on the machine.
    """
    budget, within = Budget(features_epsilon=0.5), SearchSpace(graph=GRAPH)
    _, most, _ = UtilityRuns(SIZES.rounded()).rounds(budget, within, 1.0)
    assert most is not None
    monkeypatch.setattr(
        UtilityRuns, "sums", lambda *_: np.full((2, 1, len(Yardstick)), most - gain)
    )
    found = propose(budget, SIZES, GRAPH)
    assert found.comparison.most == most and ("rounds" in found.candidates) == rounds
    assert ("by rounds, too little more for so many exchanges" in found.reasons[0]) == little


def shares_tried(monkeypatch: pytest.MonkeyPatch, *means: float) -> list[float]:
    """Which shares of S are tried where these are the means of the middle, the higher, the lower
    one.
    """
    tried: list[float] = []

    def sums(_: UtilityRuns, __: Budget, ___: str, share: float, ____: float | None) -> Any:
        tried.extend([share] if share not in tried else [])
        return np.full((2, 1, len(Yardstick)), means[tried.index(share)])

    monkeypatch.setattr(UtilityRuns, "sums", sums)
    worth = UtilityRuns(replace(SIZES, width=8))
    found = compare(worth, Budget(features_epsilon=1.0), SearchSpace(graph=GRAPH, method="sums"))
    assert found.share == tried[int(np.argmax(means))]
    return tried


def test_beyond_the_better_side_the_other_share_is_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    low, middle, high = SHARES
    assert shares_tried(monkeypatch, 0.7, 0.71) == [middle, high]
    assert shares_tried(monkeypatch, 0.7, 0.69, 0.71) == [middle, high, low]


def test_rounds_are_looked_for_where_joining_might_pay_by_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float] = []

    def rounds(_: UtilityRuns, __: Budget, ___: Any, beaten: float) -> Any:
        asked.append(beaten)
        return None, 0.7, None

    monkeypatch.setattr(UtilityRuns, "rounds", rounds)
    for sums, alone in ((0.7, 0.6), (0.7, 0.702), (0.7, 0.8)):
        flat = {
            "sums": np.full((2, 1, len(Yardstick)), sums),
            "alone": np.full((2, 1, len(Yardstick)), alone),
        }
        apart = {"alone": flat["alone"], "majority": np.zeros((2, 1, len(Yardstick)))}
        monkeypatch.setattr(UtilityRuns, "sums", lambda *_, flat=flat: flat["sums"])
        monkeypatch.setattr(UtilityRuns, "baselines", lambda *_, apart=apart: apart)
        compare(UtilityRuns(SIZES), Budget(features_epsilon=1.0), SearchSpace(graph=GRAPH))
    assert asked == pytest.approx([0.7 + LITTLE, 0.702, 0.7 + LITTLE])


def compared(gains: list[float]) -> CandidateComparison:
    """Sums that are so far ahead of a server alone, in as many data sets."""
    flat = np.full((len(gains), 1, len(Yardstick)), 0.7)
    joint = flat + np.array(gains)[:, None, None]
    return CandidateComparison(scores={"sums": joint, "alone": flat, "majority": flat - 0.1})


@pytest.mark.parametrize(
    ("gains", "opening"),
    [
        ([0.02, 0.03, 0.04, 0.03], "joining is expected to pay:"),
        ([-0.02, -0.03, -0.04, -0.03], "joining is not expected to pay:"),
        ([0.0] * 4, "joining is not expected to pay:"),
        ([-0.01, 0.03, -0.01, 0.02], "whether joining pays is too close to say:"),
        ([0.03], "whether joining pays is too close to say:"),  # one pair has no interval
    ],
)
def test_the_interval_decides_what_is_said_of_joining(gains: list[float], opening: str) -> None:
    comparison = compared(gains)
    sentence = verdict(comparison, public=False)
    assert sentence.startswith(opening)
    assert comparison.gain.middle == pytest.approx(np.mean(gains))
    if len(gains) > 1:  # Student's, as SciPy has it
        low, high = stats.t.interval(0.95, len(gains) - 1, np.mean(gains), stats.sem(gains) or 1e-9)
        assert (comparison.gain.low, comparison.gain.high) == pytest.approx((low, high), abs=1e-7)


@pytest.mark.parametrize("gain", [0.0, 0.01])
def test_a_verdict_on_pure_luck_is_rare(gain: float) -> None:
    """Of 2,000 comparisons of 24 normal gains 95% of the intervals hold the truth: their share has
    a standard deviation of 0.5%, and six of them are 3%."""
    rng = np.random.default_rng(3)
    gains = [Gain.of(rng.normal(gain, 0.05, (24, 1)), np.zeros((24, 1))) for _ in range(2000)]
    holding = np.mean([found.low <= gain <= found.high for found in gains])
    assert holding == pytest.approx(0.95, abs=0.03)


def test_it_says_before_anything_is_released_whether_joining_pays() -> None:
    few, many = (
        replace(SIZES, width=6, records=(40,) * 10),
        replace(SIZES, width=6, records=(100,) * 10),
    )
    strict = propose(Budget(features_epsilon=0.05, labels_epsilon=0.05), few, GRAPH)
    assert strict.gain.verdict == "does not pay"
    assert strict.verdict.startswith("joining is not expected to pay")
    assert isinstance(strict.plan, TrainingPlan)
    fine = propose(Budget(features_epsilon=2.0, colluding=1), many, GRAPH)
    assert fine.gain.verdict == "pays"
    assert fine.verdict.startswith("joining is expected to pay:")
    for found in (strict, fine):
        joint, apart, _ = map(float, re.findall(r"([\d.]+)%", found.verdict))
        assert (joint > apart) == (found.gain.middle > 0)
        assert joint == pytest.approx(100 * found.forecast.accuracy.middle, abs=0.06)
        assert {"alone", "majority"} < set(found.candidates)


def test_the_largest_class_is_a_candidate() -> None:
    """Public records in which nothing can be learnt, and nine of ten are alike."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(900, 3)) / 4, np.full(900, 0.5)])
    like = x, (rng.random(900) < 0.1).astype(np.int64)
    sizes = replace(SIZES, width=4, records=(90,) * 10)
    found = propose(Budget(features_epsilon=0.2), sizes, GRAPH, like=like)
    assert found.gain.verdict != "pays" and "the majority-class baseline" in found.verdict
    assert "on public records" in found.verdict


def test_fewer_who_collude_are_worth_more() -> None:
    sizes = replace(SIZES, records=(100,) * 10, width=10)
    found = [
        propose(Budget(features_epsilon=1, colluding=k), sizes, GRAPH, method="sums")
        for k in (None, 5, 1)
    ]
    right = [one.forecast.accuracy.middle for one in found]
    assert right[0] < right[1] < right[2]
    assert "all other servers are assumed to collude" in found[0].reasons[-1]
    assert "no more than 5 of the other servers are assumed to collude" in found[1].reasons[-1]
    with pytest.raises(InvalidInput, match="colluding must"):
        propose(Budget(features_epsilon=1, colluding=10), sizes, GRAPH)


def test_no_gaussian_meets_a_delta_of_zero() -> None:
    with pytest.raises(BudgetExceeded, match="no Gaussian noise reaches it"):
        propose(Budget(features_epsilon=1, features_delta=0.0), SIZES, GRAPH)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"most_rounds": 0}, "most_rounds"),
        ({"loss": "square"}, "bounded slope"),
        ({"method": "magic"}, "method"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        propose(Budget(features_epsilon=1), SIZES, GRAPH, **change)  # type: ignore[arg-type]


def test_records_must_match_the_graph() -> None:
    with pytest.raises(InvalidInput, match=r"one number per server \(10"):
        propose(Budget(features_epsilon=1), replace(SIZES, records=(5, 5)), GRAPH)


def test_only_public_records_can_be_read() -> None:
    """No argument but ``like`` can hold a record, and sizes hold counts and what a study says."""
    holds = [name for name, hint in get_type_hints(propose).items() if "ndarray" in str(hint)]
    assert holds == ["like"]
    assert {str(hint) for hint in get_type_hints(Sizes).values()} == {
        "tuple[int, ...]",
        "<class 'int'>",
        "<class 'float'>",
        "tuple[pdml.planning.sizes.PlannedAnswer, ...]",
        "tuple[float, float] | None",
        "tuple[tuple[float, float], ...]",
    }
    assert get_type_hints(PlannedAnswer) == {"block": Block, "epsilon": float}


def test_the_same_question_has_the_same_answer_and_steps_are_told() -> None:
    steps: list[tuple[int, int]] = []
    budget, sizes = Budget(features_epsilon=1), replace(SIZES, width=4)
    first = propose(budget, sizes, GRAPH, progress=lambda done, of: steps.append((done, of)))
    again = propose(budget, sizes, GRAPH)
    assert (first.plan, first.candidates, first.reasons) == (
        again.plan,
        again.candidates,
        again.reasons,
    )
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("method", ["rounds", "sums"])
def test_a_proposal_is_plain_json(method: str) -> None:
    sizes = replace(SIZES, width=4)
    found = propose(Budget(features_epsilon=1, labels_epsilon=inf), sizes, GRAPH, method=method)
    summary = json.loads(json.dumps(found.to_dict()))
    assert summary["budget"][1]["allowed"] == "inf" and summary["method"] == method
    assert TrainingPlan.from_dict(summary["plan"]) == found.plan
    assert summary["candidates"][method]["accuracy"]["middle"] == found.forecast.accuracy.middle


def planted(m: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(m, 4))
    x = np.hstack([x, np.ones((m, 1))]) / np.linalg.norm(
        np.hstack([x, np.ones((m, 1))]), axis=1, keepdims=True
    )
    return x, (x @ np.array([3.0, -2.0, 1.0, 0.0, 0.2]) > 0).astype(np.int64)


def test_the_smallest_epsilon_reaches_the_target_and_a_smaller_one_does_not() -> None:
    x, y = planted(4000)
    graph = Graph.complete(4)
    easy, hard = (
        smallest_epsilon(target, x, y, graph, seeds=3, resolution=1.2) for target in (0.75, 0.92)
    )
    for reached, target in ((easy, 0.75), (hard, 0.92)):
        assert reached.accuracy >= target and reached.epsilon == min(
            e for e, a in reached.measured if a >= target
        )
        below = [a for e, a in reached.measured if e < reached.epsilon]
        assert below and max(below) < target
        assert all(row.spent <= reached.epsilon for row in reached.proposal.rows)
    assert easy.epsilon <= hard.epsilon
    with pytest.raises(InvalidInput, match=r"without any noise|does no better") as refused:
        smallest_epsilon(
            0.9999, x, 1 - np.random.default_rng(1).integers(0, 2, len(y)), graph, seeds=1
        )
    noisy, clean = map(float, re.findall(r"([\d.]+)%", str(refused.value))[1:])
    assert ("does no better" in str(refused.value)) == (clean <= noisy)


def spends_what_was_planned(found: Proposal, graph: Graph, budget: Budget) -> None:
    x, y = planted(2000)
    fitted = PDMLClassifier(1.0, n_servers=4, topology=graph, plan=found.plan, random_state=0)
    fitted.fit(x[:, :4], y)
    fitted.privacy_.check(budget)
    for row, data in zip(found.rows, ("features", "label"), strict=True):
        assert fitted.privacy_.row(data, "other servers").epsilon == pytest.approx(row.spent)


def test_the_estimator_spends_what_was_planned() -> None:
    """End to end: trained over the planned graph, the classifier's own ledger shows the budget's
    rows.
    """
    graph, budget = Graph.star(4), Budget(features_epsilon=2.0, labels_epsilon=0.5)
    sizes = Sizes(records=(500,) * 4, width=5, epsilon=1.0)
    spends_what_was_planned(propose(budget, sizes, graph, method="rounds"), graph, budget)
