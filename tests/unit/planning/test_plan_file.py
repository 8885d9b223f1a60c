"""A plan in a file: what was proposed is what is trained by."""

import json
from math import inf

import pytest

from pdml.accounting import Budget
from pdml.errors import DataError, InvalidInput
from pdml.numerics.admm.graph import Graph
from pdml.planning.plan_file import SavedPlan
from pdml.planning.search.planner import Sizes, propose
from pdml.planning.training_plan import TrainingPlan

SAVED = SavedPlan(
    plan=TrainingPlan(rounds=7, noise_scale=(0.1, 0.2, 0.3)),
    links=((0, 1), (1, 2)),
    budget=Budget(features_epsilon=0.5),
)


def test_a_file_gives_back_plan_links_and_budget(tmp_path):
    SAVED.save(tmp_path / "plan.json")
    assert SavedPlan.load(tmp_path / "plan.json") == SAVED
    assert SAVED.n_servers == 3 and SAVED.budget.labels_epsilon == inf


def test_a_proposal_saves_what_keeps_its_budget(tmp_path):
    graph, budget = Graph.ring(4), Budget(features_epsilon=2.0, labels_epsilon=0.5)
    found = propose(budget, Sizes(records=(900,) * 4, width=5, epsilon=1.0), graph, most_rounds=8)
    found.ledger.check(budget)
    found.save(tmp_path / "plan.json")
    saved = SavedPlan.load(tmp_path / "plan.json")
    assert (saved.plan, saved.links, saved.budget) == (found.plan, graph.edges, budget)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"plan": {}, "links": [], "budget": {}}', '{"plan": 1}']
)
def test_what_is_no_plan_is_refused(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(DataError, match="is not a plan that `pdml plan --out` wrote"):
        SavedPlan.load(tmp_path / "plan.json")


def test_a_setting_outside_its_domain_is_named(tmp_path):
    SAVED.save(tmp_path / "plan.json")
    content = json.loads((tmp_path / "plan.json").read_text())
    content["plan"]["noise_decay"] = 3
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match="noise_decay must"):
        SavedPlan.load(tmp_path / "plan.json")
    with pytest.raises(DataError, match="cannot be read"):
        SavedPlan.load(tmp_path / "none.json")


@pytest.mark.parametrize("name", ["colluding", "labels_delta", "features_epsilon"])
def test_a_budget_says_every_limit(tmp_path, name):
    SAVED.save(tmp_path / "plan.json")
    content = json.loads((tmp_path / "plan.json").read_text())
    del content["budget"][name]
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="is not a plan"):
        SavedPlan.load(tmp_path / "plan.json")
