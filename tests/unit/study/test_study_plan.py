"""What a study tells the planner: whole menus for the noise, suggestions for what it is worth."""

from dataclasses import replace

import numpy as np
import pytest
from example_study import STUDY

from pdml.accounting import Budget
from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.errors import InvalidInput
from pdml.numerics.admm import labels
from pdml.planning.sizes import ledger
from pdml.planning.training_plan import TrainingPlan
from pdml.study.schema.trainable import worst_case_ledger
from pdml.study.study_plan import propose_for, sizes_of
from pdml.study.study_summary import menu_cost
from pdml.tables import Table

MENU = Menu(menu=(0.5, 1.0, 2.0), default=1.0)
AGE = Number(name="age", low=18, high=100)
STATUS = Category(name="status", levels=("single", "married", "widowed"), epsilon=MENU)
LIMITS = Budget(features_epsilon=1.0)


def study_of(*attributes, **changed):
    encoder = Encoder(attributes=attributes)
    return replace(STUDY, encoder=encoder, wording={}, **{"budget": LIMITS} | changed)


def test_sizes_are_those_of_the_study_with_what_its_menus_suggest():
    study = study_of(STATUS, AGE)
    sizes = sizes_of(study, [300])
    (answer,) = sizes.answers
    assert (sizes.records, sizes.width, sizes.epsilon_range) == ((300,) * 3, 5, (0.4, 2.0))
    assert sizes.epsilons == study.menu  # of which everybody chooses what is suggested
    assert sizes.counted_people(None) == pytest.approx(900 / labels.kappa(1.0) ** 2)
    assert (answer.block, answer.epsilon) == (study.encoder.blocks[0], 1.0)
    one = replace(study, menu=(1.0,), default_epsilon=1.0)
    assert (
        sizes_of(one, [1, 2, 3]).epsilon_range == (1.0,) and sizes_of(one, [1, 2, 3]).choices == ()
    )
    every = study_of(STATUS)
    assert not sizes_of(every, [9]).in_clear
    book = ledger(TrainingPlan(method="sums"), sizes_of(every, [9]), every.graph())
    assert book.row("features", "own server").epsilon == 4.0  # of label and answer, 2 each
    assert sizes_of(study_of(AGE), [9]).answers == ()
    with pytest.raises(InvalidInput, match="one per server"):
        sizes_of(study, [1, 2])


def test_a_proposal_keeps_the_budget_and_tells_of_randomised_answers():
    """What it proposes may be trained by under the study: its ledger at worst keeps the budget."""
    study = study_of(STATUS, AGE)
    found = propose_for(study, [500])
    assert found.plan.method == "sums" and worst_case_ledger(study, found.plan).keeps(LIMITS)
    assert "'status' (suggested epsilon 1)" in found.reasons[-1]
    data = {line.data for line in found.ledger.overview(None)}
    assert any("status" in each for each in data)
    clear = propose_for(study_of(replace(STATUS, epsilon=None), AGE), [500])
    assert not any("coins" in reason for reason in clear.reasons)


def test_public_records_have_true_answers():
    """Everything hangs on the randomised answer: known from public people, in vain with hazy
    coins."""
    rng = np.random.default_rng(3)
    status = rng.integers(0, 3, 3_000)
    ill = np.where(rng.random(3_000) < 0.9, status == 1, status != 1)
    people = Table(
        columns={
            "status": np.array(STATUS.levels)[status],
            "age": rng.integers(18, 100, 3_000),
            "ill": np.array(["no", "yes"])[ill.astype(int)],
        }
    )
    hazy = replace(STATUS, epsilon=Menu(menu=(0.05,), default=0.05))
    clearer = replace(STATUS, epsilon=Menu(menu=(2.0,), default=2.0))
    found = [
        propose_for(study_of(each, AGE), [2_000], public=people, label="ill", method="sums")
        for each in (hazy, clearer)
    ]
    low, high = (each.forecast.accuracy.middle for each in found)
    assert all(each.public for each in found) and low < 0.75 and high > 0.85


def test_there_is_one_budget():
    with pytest.raises(InvalidInput, match="left to the study's own"):
        propose_for(study_of(STATUS, AGE), [200], budget=LIMITS)
    with pytest.raises(InvalidInput, match="given where the study has none"):
        propose_for(study_of(STATUS, AGE, budget=None), [200])
    found = propose_for(study_of(STATUS, AGE, budget=None), [200], budget=LIMITS)
    assert found.budget == LIMITS


def test_a_menu_costs_what_its_ends_need_beyond_what_people_choose():
    """Noise for whoever chooses 0.25 spends little of where all choose 1; counted up to 1, and with
    nothing below, nearly all."""
    rounds = TrainingPlan(rounds=3, objective_bound=0.0)
    wide = replace(STUDY, menu=(0.25, 1.0), default_epsilon=1.0, plan=rounds)
    assert "the rest of the noise protects nobody" in menu_cost(wide)
    sums = TrainingPlan(method="sums", label_noise=2.2, square_noise=3.1)
    capped = replace(sums, epsilon_cap=1.0)
    above = replace(STUDY, menu=(1.0, 2.9), default_epsilon=1.0, plan=sums)
    assert "protects nobody" in menu_cost(above)
    assert "costs little" in menu_cost(replace(above, plan=capped))
    assert menu_cost(replace(wide, menu=(1.0,))) == menu_cost(replace(wide, plan=None)) == ""
