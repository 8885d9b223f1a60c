"""A budget ends: jobs that follow one another are refused some day, by the ledger's arithmetic."""

import pickle
from dataclasses import replace
from math import inf, sqrt

import numpy as np
import pytest
from example_study import STUDY
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.accounting import Budget, Ledger, last_safe_round, randomized_attributes
from pdml.accounting.events import group_events
from pdml.accounting.per_release_loss import release_loss
from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.errors import UntrainableStudy
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.study.schema import trainable

PLAN = TrainingPlan(rounds=10, noise_scale=0.5, noise_decay=0.9)
OPEN = TrainingPlan(rounds=1, noise_scale=0.0, objective_noise="none")
KINDS = ["truncated_gaussian", "uniform_box", "uniform_ball", "none"]
limits = st.sampled_from([0.01, 0.3, 0.4, 1.0, 5.0, 1e3]) | st.floats(1e-3, 30) | st.just(inf)
deltas = st.sampled_from([1e-9, 1e-7, 1e-6])
menus = st.lists(st.integers(20, 290), min_size=1, max_size=3, unique=True)
STATUS = ("single", "married", "widowed")


@st.composite
def studies(draw: st.DrawFn) -> Study:
    """Menus, classes, budgets and plans of all sorts, noise switched off among them."""
    menu = tuple(sorted(value / 100 for value in draw(menus)))
    budget = Budget(
        features_epsilon=draw(limits),
        features_delta=draw(deltas),
        labels_epsilon=draw(limits),
        labels_delta=draw(deltas),
    )
    plan = TrainingPlan(
        rounds=draw(st.integers(1, 5)),
        noise_scale=draw(st.sampled_from([0.0, 0.01, 1.0, 1e9])),
        objective_bound=draw(st.sampled_from([0.0, 0.1, 10.0, 1e9])),
        objective_noise=draw(st.sampled_from(KINDS)),
    )
    return replace(
        STUDY,
        **draw(answers_randomised()),
        menu=menu,
        default_epsilon=menu[0],
        accept_weak=menu[-1] >= 2.95,
        classes=("no", "yes", "perhaps")[: draw(st.integers(2, 3))],
        budget=budget if min(budget.features_epsilon, budget.labels_epsilon) < inf else None,
        plan=draw(st.sampled_from([plan, None])),
        min_records=draw(st.sampled_from([1, 50, 10**6])),
    )


@st.composite
def answers_randomised(draw: st.DrawFn) -> dict:
    """Of a study: by default none, else some or all of its answers, with menus of all sorts."""
    if draw(st.booleans()):
        return {}
    asked = []
    for k in range(draw(st.integers(1, 2))):
        menu = tuple(sorted(value / 100 for value in draw(menus)))
        accept = menu[-1] >= 2.95
        epsilon = Menu(menu=menu, default=menu[0], accept_weak=accept)
        asked.append(Category(name=f"a{k}", levels=STATUS, epsilon=epsilon))
    clear = [Number(name="age", low=18, high=100)] if draw(st.booleans()) else []
    return {"encoder": Encoder(attributes=(*asked, *clear)), "wording": {}}


def job(study: Study, plan: TrainingPlan, smallest: float, largest: float):
    """Of one job at a server of the study whose people chose from ``smallest`` to ``largest``."""
    spec = study.terms.server_spec(
        study.index("alice"), records=study.min_records, epsilons=(smallest, largest)
    )
    return (spec.flip(), *plan.events(spec))


def least(study: Study, events):
    """The same where everybody chose the smallest ε of each answer's menu."""
    flip, *others = events
    menus = [each.epsilon.menu for each in study.encoder.sensitive]
    each = [one._replace(epsilon=m[0]) for one, m in zip(flip.answers, menus, strict=True)]
    return (replace(flip, answers=tuple(each)), *others)


def refused(study: Study, events, jobs: float) -> bool:
    """Whether the ledger of so many jobs breaks the budget; there may be very many."""
    classes = len(study.classes)
    sent = group_events(events)
    once = release_loss(sent, classes=classes)
    response = {
        name: getattr(once.response, name) * sqrt(jobs)
        for name in ("label", "rest", "square", "rounding")
    }
    many = replace(
        once,
        **{name: often(getattr(once, name), jobs) for name in BOUNDS},
        response=replace(often(once.response, jobs), **response),
    )
    rows = ("features", "label")
    return not all(
        randomized_attributes.within_limit(data, [sent], many, *study.budget.limit(data))
        for data in rows
    )


BOUNDS = ("theta", "eta", "both", "whole", "once")


def often(bound, jobs: float):
    """What so many jobs amount to that each amount to ``bound``."""
    changes = {
        "edge": bound.edge * jobs,
        "outside": 1 - (1 - bound.outside) ** jobs,
        "flat": np.minimum(1.0, bound.flat * jobs),
    }
    return replace(
        bound, **changes, **({"mu": bound.mu * sqrt(jobs)} if hasattr(bound, "mu") else {})
    )


@given(studies())
@settings(max_examples=150, deadline=None)
def test_every_study_that_is_accepted_ends_and_no_other_does(study):
    """At every data set that the menus allow. 2^400 jobs stand for any number; without a plan, by
    one that releases everything."""
    found = trainable.budget_mistakes(study)
    if study.budget is None or (study.plan is None and study.budget.features_epsilon == inf):
        assert found
        return
    if study.plan is None:  # nothing but the features costs whoever switches their noise off
        study = replace(study, plan=OPEN, budget=replace(study.budget, labels_epsilon=inf))
    pairs = [(low, high) for low in study.menu for high in study.menu if low <= high]
    jobs = [job(study, study.plan, *pair) for pair in pairs]
    ends = [refused(study, least(study, each), 2.0**400) for each in jobs]
    assert all(ends) == (not found)
    if not found:  # and as the ledger has it
        assert all(refused(study, each, 2.0**400) for each in jobs)


@given(studies(), st.integers(2, 40))
@settings(max_examples=60, deadline=None)
def test_many_jobs_cost_what_the_ledger_of_their_events_says(study, jobs):
    """The arithmetic above is that of the journal: all events of all jobs, one after the other."""
    if study.budget is None or study.plan is None:
        return
    flip, *events = job(study, study.plan, study.menu[0], study.menu[-1])
    safe = last_safe_round(
        [(flip, *events)],
        budget=study.budget,
        classes=len(study.classes),
        already=[tuple(events) * (jobs - 1)],
    )
    assert (safe < study.plan.rounds) == refused(study, (flip, *events), jobs)


def test_a_thousand_jobs_under_a_budget_that_never_binds():
    """Labels at the menu's largest ε: nothing is ever refused, while features are given away."""
    study = replace(STUDY, plan=PLAN, budget=Budget(labels_epsilon=2.0))
    flip, *events = job(study, study.plan, 0.4, 2.0)
    already = [tuple(events) * 999]
    assert last_safe_round([(flip, *events)], budget=study.budget, already=already) == 10
    ledger = Ledger(((flip, *(tuple(events) * 1000)),))
    assert ledger.row("features", "other servers").epsilon > 100
    assert ledger.row("label", "other servers").epsilon < 2.0
    with pytest.raises(UntrainableStudy, match="it is never reached, and jobs never end") as error:
        trainable.check_budget(study)
    assert error.value.study == study.id and "features = { epsilon = 1 }" in error.value.reasons[0]
    assert pickle.loads(pickle.dumps(error.value)).reasons == error.value.reasons


@pytest.mark.parametrize(
    ("budget", "menu"),
    [
        (Budget(labels_epsilon=0.3), (0.4, 1.0, 2.0)),
        (Budget(labels_epsilon=0.3999), (0.4, 2.0)),
        (Budget(features_epsilon=20.0), (0.4, 1.0, 2.0)),
        (Budget(features_epsilon=1e6, labels_epsilon=5.0), (0.4,)),
    ],
)
def test_budgets_that_end(budget, menu):
    study = replace(STUDY, plan=PLAN, budget=budget, menu=menu, default_epsilon=menu[0])
    assert trainable.budget_mistakes(study) == [] and trainable.check_budget(study) is None


@pytest.mark.parametrize(
    ("budget", "remedy"),
    [
        (Budget(labels_epsilon=0.4), ", or limit labels to clearly less than 0.4"),
        (Budget(labels_epsilon=1.0), ", or limit labels to clearly less than 0.4"),
        (Budget(labels_epsilon=0.399999), ", or limit labels to clearly less than 0.4"),
    ],
)
def test_budgets_for_labels_that_do_not_end(budget, remedy):
    """Between the menu's ends, too: a data set may hold the smallest ε alone."""
    ((path, sentence),) = trainable.budget_mistakes(replace(STUDY, plan=PLAN, budget=budget))
    assert path == ("budget", "labels") and sentence.endswith(remedy)


def test_labels_among_many_that_no_limit_protects():
    """A hundred classes and ε = 0.01: less is told than the largest δ leaves unsaid."""
    study = replace(
        STUDY,
        plan=PLAN,
        classes=tuple(f"class {index}" for index in range(100)),
        menu=(0.01,),
        default_epsilon=0.01,
        budget=Budget(labels_epsilon=0.001, labels_delta=1e-3),
    )
    ((path, sentence),) = trainable.budget_mistakes(study)
    assert path == ("budget", "labels") and sentence.endswith(" to [budget]")


def all_randomised(*epsilons: float, **changes) -> Study:
    """A study that asks so many questions beside the label, each with this menu."""
    menu = Menu(menu=epsilons, default=epsilons[0])
    encoder = Encoder(attributes=(Category(name="a", levels=STATUS, epsilon=menu),))
    return replace(STUDY, encoder=encoder, wording={}, **changes)


@pytest.mark.parametrize("plan", [PLAN, None])
@pytest.mark.parametrize(
    ("budget", "result"),
    [
        (Budget(features_epsilon=1.0), "; limit features to clearly less than 0.9"),
        (Budget(features_epsilon=0.9), "; limit features to clearly less than 0.9"),
        (Budget(features_epsilon=5.0, labels_epsilon=0.4), "; limit features to clearly less than"),
        (None, "add [budget] with features = { epsilon = 0.5 }"),
    ],
)
def test_features_whose_answers_are_all_randomised_need_a_limit_below_their_coins(
    plan, budget, result
):
    """0.4 of the label and 0.5 of the answer make 0.9: whoever chose these is never beyond 1."""
    study = all_randomised(0.5, 2.0, plan=plan, budget=budget)
    ((path, sentence),) = trainable.budget_mistakes(study)
    assert result in sentence and path[0] == "budget"
    better = replace(study, budget=Budget(features_epsilon=0.5))
    assert trainable.budget_mistakes(better) == []


def test_jobs_without_noise_end_below_the_coins_and_never_above():
    """As the study was that took a thousand jobs without any noise under a budget of 1."""
    loose = all_randomised(0.5, plan=OPEN, budget=Budget(features_epsilon=1.0))
    events = job(loose, OPEN, 0.4, 0.4)
    assert not refused(loose, events, 1_000) and trainable.budget_mistakes(loose)
    strict = replace(loose, budget=Budget(features_epsilon=0.8))
    assert refused(strict, events, 1) and not trainable.budget_mistakes(strict)
