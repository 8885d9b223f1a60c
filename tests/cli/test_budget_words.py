"""A sentence about a budget names against whom it holds."""

import pytest

from pdml.accounting import Budget


@pytest.mark.parametrize(
    ("colluding", "whom"),
    [
        (None, "all other servers together"),
        (1, "any 1 of the other servers"),
        (3, "any 3 of the other servers together"),
    ],
)
def test_a_budget_names_against_whom_it_holds(colluding, whom):
    from types import SimpleNamespace

    from pdml.cli import budget_words

    budget = Budget(features_epsilon=2.0, labels_epsilon=0.5, colluding=colluding)
    assert budget.whom == whom
    study = SimpleNamespace(budget=budget, menu=(1.0, 2.0))
    for sentence in budget_words.tell(study):
        assert sentence.lower().startswith(f"{whom} learn")
        assert colluding is None or "all other servers" not in sentence.lower()
