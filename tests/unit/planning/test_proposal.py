"""What would make joining pay: the planner itself says the same of whatever is named."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isinf

import numpy as np
import pytest

from pdml.accounting import Budget
from pdml.numerics.admm.graph import Graph
from pdml.planning import proposal
from pdml.planning.forecast.utility import Verdict
from pdml.planning.proposal import Suggestion, advice
from pdml.planning.search.candidates import quick_estimate
from pdml.planning.search.planner import Proposal, Sizes, propose
from pdml.planning.search.rounds_search import SearchSpace

GRAPH = Graph.ring(4)
SIZES = Sizes(records=(60,) * 4, width=8, epsilon=1.0)
STRICT = Budget(features_epsilon=0.5)


@dataclass(frozen=True)
class Asked:
    """A question to the planner, and the same with another value of one setting."""

    budget: Budget
    sizes: Sizes
    more: Mapping[str, object] = field(default_factory=dict)

    def answer(self) -> Proposal:
        graph = Graph.complete(len(self.sizes.records))
        return propose(self.budget, self.sizes, graph, **self.more)

    def having(self, remedy: Suggestion) -> "Asked":
        match remedy.setting:
            case "records":
                share = remedy.value / sum(self.sizes.records)
                grown = tuple(round(share * each) for each in self.sizes.records)
                return replace(self, sizes=replace(self.sizes, records=grown))
            case "epsilon":
                return replace(self, sizes=replace(self.sizes, epsilon=remedy.value))
            case "features_epsilon":
                return replace(self, budget=replace(self.budget, features_epsilon=remedy.value))
        return replace(self, budget=replace(self.budget, colluding=int(remedy.value)))


ASKED = {
    "two classes": Asked(STRICT, SIZES, {"method": "sums"}),
    "four classes": Asked(STRICT, replace(SIZES, classes=4), {"method": "sums"}),
    "rounds": Asked(STRICT, SIZES, {"method": "rounds"}),
    "one of many": Asked(
        Budget(features_epsilon=0.1), Sizes(records=(75,) * 5, width=13, epsilon=1.0)
    ),
    "no limit": Asked(Budget(), Sizes(records=(3,) * 3, width=12, epsilon=0.05)),
    "nothing does": Asked(
        Budget(features_epsilon=0.01),
        Sizes(records=(3,) * 3, width=2, epsilon=0.05),
        {"method": "rounds"},
    ),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_the_planner_says_the_same_of_everything_that_is_named(asked: Asked) -> None:
    found = asked.answer()
    assert found.gain.verdict != Verdict.PAYS and found.suggestions
    for remedy in found.suggestions:
        assert str(remedy) in found.advice
        there = asked.having(remedy).answer().gain
        assert there.verdict == remedy.verdict, remedy


def test_what_would_not_do_is_named_only_where_nothing_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = ASKED["two classes"].answer().suggestions
    assert some and not any(each.verdict == Verdict.PAYS_NOT for each in some)
    real = proposal._evaluate

    def hopeless(lever: proposal._Lever, value: float, within: SearchSpace) -> Suggestion:
        return replace(real(lever, value, within), verdict=Verdict.PAYS_NOT)

    monkeypatch.setattr(proposal, "_evaluate", hopeless)
    none = ASKED["rounds"].answer().suggestions
    assert [each.setting for each in none] == ["features_epsilon", "records", "epsilon"]
    assert isinf(none[0].value)  # the farthest there is


def test_a_value_that_is_too_close_to_say_is_passed_over_for_one_that_clearly_does() -> None:
    asked = ASKED["one of many"]
    near = replace(asked, budget=Budget(features_epsilon=4.0)).answer()
    assert near.gain.verdict == Verdict.OPEN and near.gain.middle > 0
    assert "by itself this would do: features epsilon 16" in asked.answer().advice


@pytest.mark.parametrize("servers", [5, 12])
def test_whoever_looks_at_few_values_asks_where_whoever_looks_at_all_would(servers: int) -> None:
    budget, sizes = STRICT, Sizes(records=(60,) * servers, width=8, epsilon=1.0)
    within = SearchSpace(graph=Graph.ring(servers))
    for lever in proposal._levers(budget, sizes, within):
        questions = map(lever.question, lever.ladder)
        ahead = [quick_estimate(s.rounded(), b, within).gain.middle > 0 for b, s in questions]
        asked = proposal._promising_values(lever, within)
        assert asked == (lever.ladder[ahead.index(True) :][:3] if any(ahead) else ())


def test_where_joining_pays_nothing_is_advised() -> None:
    fine = propose(Budget(features_epsilon=16.0, colluding=1), SIZES, GRAPH)
    assert (
        fine.gain.verdict == Verdict.PAYS and fine.suggestions == () and fine.advice == fine.verdict
    )


def test_public_records_are_not_grown() -> None:
    """What other records would tell nobody knows."""
    rng = np.random.default_rng(0)
    like = np.column_stack([rng.normal(size=(300, 7)) / 4, np.full(300, 0.5)]), np.arange(300) % 2
    assert propose(STRICT, SIZES, GRAPH, like=like).suggestions == ()


def test_settings_that_cannot_be_changed_are_not_named() -> None:
    rounds = propose(STRICT, SIZES, GRAPH, method="rounds")
    assert "colluding" not in {each.setting for each in rounds.suggestions}  # no total to hide in
    lone = propose(replace(STRICT, colluding=1), replace(SIZES, epsilon=8.0), GRAPH)
    assert {each.setting for each in lone.suggestions} <= {"records", "features_epsilon"}


def test_the_words() -> None:
    def remedy(setting: str, value: float, verdict: Verdict = Verdict.PAYS) -> Suggestion:
        return Suggestion(setting=setting, value=value, verdict=verdict)

    some, one = remedy("records", 1300.0), remedy("colluding", 1.0)
    close = remedy("features_epsilon", 4.0, Verdict.OPEN)
    free = remedy("features_epsilon", np.inf, Verdict.PAYS_NOT)
    label = remedy("epsilon", 4.0, Verdict.PAYS_NOT)
    assert advice([some]) == "by itself this would do: 1,300 records in all"
    assert advice([some, one]) == (
        "by itself either of these would do: 1,300 records in all or at most 1 colluding server"
    )
    assert advice([close, some]) == (
        "by itself this would do: 1,300 records in all; by itself features epsilon 4 would be too "
        "close to say"
    )
    assert advice([free, label]) == (
        "by itself no limit on features (features_epsilon=None) would not do, nor would label "
        "epsilon 4"
    )
    assert str(remedy("colluding", 2.0)) == "at most 2 colluding servers" and advice([]) == ""
