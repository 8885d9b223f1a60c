"""A sentence about a budget names against whom it holds."""

import pytest

from pdml.accounting import Budget, Ledger
from pdml.accounting.events import LabelFlipped, SumsReleased
from pdml.errors import BudgetExceeded


@pytest.mark.parametrize(
    ("colluding", "whom"),
    [
        (None, "all other servers together"),
        (1, "any one of the other servers"),
        (3, "any 3 of the other servers together"),
    ],
)
def test_a_budget_names_against_whom_it_holds(colluding, whom):
    from types import SimpleNamespace

    from pdml.cli.render import study_tables

    budget = Budget(features_epsilon=2.0, labels_epsilon=0.5, colluding=colluding)
    assert budget.whom == whom
    study = SimpleNamespace(budget=budget, menu=(1.0, 2.0))
    for sentence in study_tables.budget_sentences(study):
        assert sentence.lower().startswith(f"{whom} learn")
        assert colluding is None or "all other servers" not in sentence.lower()


@pytest.mark.parametrize("colluding", [None, 1, 3])
def test_refusals_and_states_name_them_too(colluding):
    from pdml.cli.render.node_tables import _next

    budget = Budget(features_epsilon=0.1, colluding=colluding)
    sent = SumsReleased(
        label_stddev=1.0,
        square_stddev=1.0,
        label_shift=2.0,
        record_shift=2.0,
        square_shift=1.0,
        fixed_shift=0.0,
        epsilon=1.0,
        hidden_among=5,
    )
    book = Ledger(((LabelFlipped(epsilon=1.0), sent),), source="planned")
    with pytest.raises(BudgetExceeded, match=f"on the features against {budget.whom} \\(delta"):
        book.check(budget)
    assert f"The budget (epsilon 0.1 for features, against {budget.whom})" in _next(0, 5, budget)
    assert f"The budget (no limit, against {budget.whom})" in _next(
        5, 5, Budget(colluding=colluding)
    )


def test_one_vector_is_no_vectors():
    from pdml.cli.render.node_tables import _released

    assert [_released(n) for n in (0, 1, 30)] == [
        "0 vectors released",
        "1 vector released",
        "30 vectors released",
    ]
