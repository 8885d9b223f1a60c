"""Shares from a frozen data set: of every randomised answer, overall and by group."""

from dataclasses import replace

import numpy as np
import pytest
from example_study import STUDY

from pdml.encoding.attributes import Category, Menu, Number
from pdml.encoding.encoder import Encoder
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.pages.survey_page import TOO_FEW, share_text, survey_page
from pdml.study.frozen_dataset import FrozenWriter
from pdml.study.survey_result import ALL_PEOPLE, NOTE, Grouping, estimate_survey

PEOPLE = 3000
SMOKES = Category(
    name="smokes", levels=("never", "seldom", "daily"), epsilon=Menu(menu=(0.5, 2.0), default=2.0)
)
STUDY_WITH_HABITS = replace(
    STUDY,
    encoder=Encoder(
        attributes=(
            Number(name="age", low=18, high=100, whole=True, missing="average"),
            Category(name="sex", levels=("female", "male")),
            SMOKES,
        )
    ),
    wording={},
    plan=None,
    plan_settings=(),
    menu=(0.4, 1.0, 2.0),
)


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """Whoever is male has it with 60%, else with 20%; those who have it choose the smallest ε."""
    study, rng = STUDY_WITH_HABITS, np.random.default_rng(0)
    male, age = rng.random(PEOPLE) < 0.5, rng.integers(18, 100, PEOPLE)
    ill = rng.random(PEOPLE) < np.where(male, 0.6, 0.2)
    habit = rng.choice(3, PEOPLE, p=[0.5, 0.3, 0.2])
    micro = np.where(ill, 400_000, 2_000_000)
    labels = flip_labels(ill.astype(int), micro / 1e6, 2, Simulated(1).stream(LABELS))
    loud = rng.choice([500_000, 2_000_000], PEOPLE)
    draws = flip_labels(habit, loud / 1e6, 3, Simulated(2).stream(LABELS))
    rows = [
        study.encode(
            {
                "age": None if k % 30 == 0 else int(age[k]),
                "sex": "male" if male[k] else "female",
                "smokes": "never",
            },
            [(int(draws[k]), int(loud[k]))],
        )
        for k in range(PEOPLE)
    ]
    folder = tmp_path_factory.mktemp("survey") / "data"
    names = {"study_hash": study.hash, "study_id": study.id, "server": "alice"}
    with FrozenWriter(folder, width=study.width, classes=2, **names) as writer:
        writer.append(np.array(rows), labels.astype(np.int32), micro)
        writer.finish(frozen_at="2026-03-01T14Z")
    return study, folder, {"male": male, "age": age, "ill": ill, "habit": habit}


def row_of(survey, answer, group=ALL_PEOPLE):
    (row,) = (row for row in survey.rows if (row.answer, row.group) == (answer, group))
    return row.prevalence


def test_shares_are_those_of_the_people(collected):
    """Of 3,000: within 4.5 deviations as their interval tells them, a false alarm of 1e-5."""
    study, folder, truth = collected
    survey = estimate_survey(study, folder)
    assert (survey.server, survey.records) == ("alice", PEOPLE)
    expected = {
        ("yes", ALL_PEOPLE): truth["ill"].mean(),
        ("yes", "sex male"): truth["ill"][truth["male"]].mean(),
        ("yes", "sex female"): truth["ill"][~truth["male"]].mean(),
        **{
            (level, ALL_PEOPLE): (truth["habit"] == k).mean()
            for k, level in enumerate(SMOKES.levels)
        },
    }
    for (answer, group), share in expected.items():
        found = row_of(survey, answer, group)
        assert abs(found.unbiased - share) < 4.5 * (found.high - found.low) / 3.92
    # an average by what reports tell would take those who have it for a seventh of themselves
    assert row_of(survey, "yes").share > truth["ill"].mean() - 0.15
    questions = {row.question for row in survey.rows}
    assert questions == {"Have you been diagnosed?", "smokes"}
    assert sum(row_of(survey, level).unbiased for level in SMOKES.levels) == pytest.approx(1)


def test_groups_are_those_that_were_asked_for(collected):
    study, folder, truth = collected
    survey = estimate_survey(study, folder, ["age:30:60", "sex*age:50"])
    groups = {row.group: row.prevalence.people for row in survey.rows if row.answer == "yes"}
    silent = np.arange(PEOPLE) % 30 == 0
    young = (truth["age"] < 30) & ~silent
    assert groups["age below 30"] == young.sum()
    assert groups["age not answered"] == silent.sum()
    parts = [name for name in groups if name.startswith("age")]
    assert sum(groups[name] for name in parts) == PEOPLE == groups[ALL_PEOPLE]
    old = (truth["age"] >= 50) & ~silent & truth["male"]
    assert groups["sex male, age from 50"] == old.sum()


def test_too_few_people_have_no_share(collected):
    study, folder, _ = collected
    survey = estimate_survey(study, folder, ["age:19"])
    few = next(row for row in survey.rows if row.group == "age below 19" and row.answer == "yes")
    assert not few.prevalence.enough and few.to_dict()["share"] is None
    assert share_text(few) == (TOO_FEW, "")
    page = survey_page(survey)
    assert TOO_FEW in page and NOTE in page and "<script" not in page and study.title in page


@pytest.mark.parametrize(
    ("by", "sentence"),
    [
        ("height", "by must name features that are sent as they are, got 'height'"),
        ("smokes", "got 'smokes'"),
        ("age", "by must say where groups of 'age' begin"),
        ("age:50:30", "rising"),
        ("age:nan", "rising"),
        ("age:30:inf", "rising"),
        ("age:x", "by must have numbers after the name of a feature"),
        ("sex:3", "by must have no numbers after 'sex'"),
        ("sex*sex", "different features"),
        ("a*b*c*d", "at most 3"),
    ],
)
def test_bad_groupings_are_refused(collected, by, sentence):
    study, folder, _ = collected
    with pytest.raises(InvalidInput, match=sentence):
        estimate_survey(study, folder, [by])


def test_the_data_of_another_study_are_refused(collected):
    with pytest.raises(DataError, match="the studies differ"):
        estimate_survey(STUDY, collected[1])


def test_a_grouping_is_read_from_text():
    assert Grouping.parse("sex*age:30:50") == Grouping(
        names=("sex", "age"), edges={"sex": (), "age": (30.0, 50.0)}
    )
