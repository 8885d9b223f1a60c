"""What a study must settle before a node trains under it."""

from dataclasses import replace

import pytest
from federation import PLAN, study_of

from pdml.accounting import Budget
from pdml.errors import InvalidInput, UntrainableStudy
from pdml.node.protocol.job_terms import JobTerms


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget": None}, "has no budget"),
        ({"budget": Budget(labels_epsilon=0.3), "plan": None}, "neither a plan nor a budget"),
        ({"budget": Budget(labels_epsilon=1.0)}, "limits labels alone"),
        ({"budget": Budget(labels_epsilon=2.0)}, "limits labels alone"),
    ],
)
def test_whoever_starts_jobs_cannot_spend_without_end(changes, said):
    with pytest.raises(UntrainableStudy, match=said):
        JobTerms.for_study(replace(study_of(), **changes), PLAN, "job")


@pytest.mark.parametrize(
    "changes",
    [
        {"budget": Budget(labels_epsilon=0.4)},
        {"budget": Budget(features_epsilon=9.0), "plan": None},
        {},
    ],
)
def test_a_study_with_limits_has_terms(changes):
    assert JobTerms.for_study(replace(study_of(), **changes), PLAN, "job").job == "job"


def test_a_plan_that_the_study_settles_is_not_the_jobs_to_change():
    with pytest.raises(InvalidInput, match="has another plan than the study"):
        JobTerms.for_study(study_of(), replace(PLAN, noise_scale=0.0), "job")
