"""A new study from what only its author knows."""

from dataclasses import replace

import pytest

from pdml.encoding.encoder import Category, Number
from pdml.errors import StudyError, UntrainableStudy
from pdml.study import Study
from pdml.study.schema.template import LEAK, new_study, render
from pdml.study.study_summary import describe_study

ASKED = {
    "title": "Who is at risk?",
    "question": "Were you diagnosed?",
    "classes": ("no", "yes"),
    "attributes": (
        Number(name="age", low=18, high=100),
        Category(name="sex", levels=("female", "male")),
    ),
}


def test_what_is_not_said_is_proposed() -> None:
    study = new_study(**ASKED)
    assert (study.id, study.menu, study.default_epsilon) == ("who-is-at-risk", (0.4, 1, 2), 1)
    assert [server.url for server in study.servers] == [
        f"https://{name}.example" for name in ("alice", "bob", "carol")
    ]
    assert study.budget is not None and study.budget.features_epsilon == 1


def test_what_is_said_is_taken() -> None:
    study = new_study(
        **ASKED,
        servers=("a=https://a.org", "b"),
        id="x",
        menu=(0.5, 3.0),
        default=0.5,
        accept_weak=True,
        topology="complete",
        features_epsilon=0.25,
        labels_epsilon=0.3,
    )
    assert study.servers[0].url == "https://a.org" and len(study.edges) == 1
    assert (study.id, study.menu, study.default_epsilon) == ("x", (0.5, 3.0), 0.5)
    assert study.budget is not None
    assert (study.budget.features_epsilon, study.budget.labels_epsilon) == (0.25, 0.3)


def test_the_written_file_is_the_study() -> None:
    study = new_study(**ASKED)
    text = render(study, {"age": LEAK})
    assert Study.from_text(text, "study.toml") == study and text.count("TAKEN FROM THE DATA") == 1


def test_every_mistake_is_told() -> None:
    with pytest.raises(StudyError) as refused:
        new_study(**{**ASKED, "classes": ("no",)}, menu=(3.0,), topology="star")
    assert len(refused.value.mistakes) >= 3


def test_a_study_that_nobody_can_train_under_is_refused() -> None:
    with pytest.raises((StudyError, UntrainableStudy)):
        new_study(**ASKED, features_epsilon=float("inf"))


def test_the_facts_of_a_study_follow_from_it() -> None:
    study = new_study(**ASKED)
    result = describe_study(study)
    assert result["hash"] == study.hash and [one["epsilon"] for one in result["menu"]] == [
        0.4,
        1,
        2,
    ]
    assert result["plan"] is None and result["ledger"] is None
    larger = describe_study(replace(study, min_records=2 * study.min_records))
    assert larger["influence"]["cap"] == result["influence"]["cap"] / 2
