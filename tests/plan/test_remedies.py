"""What would make joining pay: the planner itself agrees with whatever is named."""

from dataclasses import replace

import numpy as np
import pytest

from pdml.accounting import Budget
from pdml.core.graph import Graph
from pdml.plan.planner import Sizes, propose
from pdml.plan.remedies import Remedy, advice

GRAPH = Graph.ring(4)
SIZES = Sizes(records=(60,) * 4, width=8, epsilon=1.0)
STRICT = Budget(features_epsilon=0.5)


def changed(remedy: Remedy, budget: Budget, sizes: Sizes) -> tuple[Budget, Sizes]:
    match remedy.setting:
        case "records":
            each = -(-int(remedy.value) // len(sizes.records))
            return budget, replace(sizes, records=(each,) * len(sizes.records))
        case "epsilon":
            return budget, replace(sizes, epsilon=remedy.value)
        case "features_epsilon":
            return replace(budget, features_epsilon=remedy.value), sizes  # may be infinite
    return replace(budget, colluding=int(remedy.value)), sizes


@pytest.mark.parametrize("sizes", [SIZES, replace(SIZES, classes=4)], ids=["two", "four"])
def test_what_is_named_would_do_by_the_planner_and_what_is_there_does_not(sizes: Sizes) -> None:
    found = propose(STRICT, sizes, GRAPH, method="sums")
    assert not found.pays and {each.setting for each in found.remedies} == {
        "records",
        "features_epsilon",
        "epsilon",
        "colluding",
    }
    named = [each for each in found.remedies if each.value is not None]
    assert named
    for remedy in named:
        assert propose(*changed(remedy, STRICT, sizes), GRAPH, method="sums").pays, remedy
        assert str(remedy) in found.advice


def test_of_a_ladder_the_first_that_does_is_named() -> None:
    found = propose(STRICT, SIZES, GRAPH, method="sums")
    step = next(each for each in found.remedies if each.setting == "features_epsilon").value
    less = propose(replace(STRICT, features_epsilon=step / 2), SIZES, GRAPH, method="sums")
    right = {name: each[..., 1].mean(axis=1) for name, each in less.judged.items()}
    behind = np.mean(right["sums"] < np.maximum(right["alone"], right["majority"]) - 0.005)
    assert step >= 1.0 and (not less.pays or behind > 1 / 3)


def test_where_joining_pays_nothing_is_advised() -> None:
    fine = propose(Budget(features_epsilon=4.0, colluding=1), SIZES, GRAPH)
    assert fine.pays and fine.remedies == () and fine.advice == fine.verdict


def test_public_records_are_not_grown() -> None:
    """What other records would tell nobody knows."""
    rng = np.random.default_rng(0)
    like = np.column_stack([rng.normal(size=(300, 7)) / 4, np.full(300, 0.5)]), np.arange(300) % 2
    assert propose(STRICT, SIZES, GRAPH, like=like).remedies == ()


def test_settings_that_cannot_be_changed_are_not_named() -> None:
    rounds = propose(STRICT, SIZES, GRAPH, method="rounds")
    assert "colluding" not in {each.setting for each in rounds.remedies}  # no total to hide in
    lone = propose(replace(STRICT, colluding=1), replace(SIZES, epsilon=8.0), GRAPH)
    assert {each.setting for each in lone.remedies} <= {"records", "features_epsilon"}


def test_the_words() -> None:
    some = Remedy(setting="records", value=1234.0, last=5000.0)
    one = Remedy(setting="colluding", value=1.0, last=1.0)
    none = Remedy(setting="epsilon", value=None, last=8.0)
    assert advice([some]) == "by itself this would do: 1,300 records in all"
    assert advice([some, one, none]) == (
        "by itself any of these would do: 1,300 records in all or at most 1 colluding server; no "
        "label epsilon up to 8 would by itself"
    )
    assert advice([none]) == "no label epsilon up to 8 would by itself" and advice([]) == ""
