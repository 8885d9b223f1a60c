"""Answers that went through coins of their own, in the ledger: pure against whoever receives them,
hidden twice from others, and not at all once somebody has counted with the true ones.
"""

from math import exp, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_counts import COUNTS, SUMS

from pdml.accounting import Ledger
from pdml.accounting.answers import TOGETHER, names
from pdml.accounting.events import AnswerFlipped, LabelFlipped
from pdml.errors import InvalidInput

STATUS = AnswerFlipped("status", 3, 0.5)
INCOME = AnswerFlipped("income", 4, 2.0)
FLIP = LabelFlipped(epsilon=1.0, epsilons=(1.0,), answers=(STATUS, INCOME))
EPSILONS = np.array([0.0, 0.1, 0.7, 1.9, 3.0])


@given(st.floats(0.0, 4.0))
def test_whoever_receives_a_report_faces_its_coins_and_nothing_else(epsilon):
    ledger = Ledger(((FLIP, SUMS),))
    coins = {"answer: status": 0.5, "answer: income": 2.0, TOGETHER: 3.5}
    for data, pure in coins.items():
        found = ledger.profile(data, "own server", 0)(epsilon)
        expected = max(0.0, (exp(pure) - exp(epsilon)) / (1 + exp(pure)))
        assert found == pytest.approx(expected, abs=1e-15)
    assert ledger.profile("features", "own server", 0)(epsilon) == 1.0  # others came as they are


def test_features_are_as_private_as_all_their_coins_where_none_came_as_it_is():
    flip = LabelFlipped(epsilon=1.0, epsilons=(1.0,), answers=(STATUS, INCOME), in_clear=False)
    found = Ledger(((flip, SUMS),)).profile("features", "own server", 0)
    assert found(2.5) == 0.0 < found(2.4)


@pytest.mark.parametrize("data", ["answer: status", "answer: income", TOGETHER])
def test_no_coin_stands_before_counts_of_true_answers(data):
    hidden, counted = Ledger(((FLIP, SUMS),)), Ledger(((FLIP, SUMS, COUNTS),))
    record = counted.profile("features", "other servers", 0)(EPSILONS)
    found = counted.profile(data, "other servers", 0)(EPSILONS)
    assert (found >= record * (1 - 1e-9)).all()  # what hides the record is all that is left
    assert (found > hidden.profile(data, "other servers", 0)(EPSILONS)).all()
    line = counted.line(data, "other servers")
    assert line.reason == "what hides the record alone: it was evaluated with its true answers"
    own = counted.line(data, "own server")
    assert own.epsilon == inf
    assert own.reason == "the own server may have had the true answers: no protection"


def test_what_was_never_sent_tells_others_nothing():
    line = Ledger(((FLIP,),)).line("answer: status", "other servers")
    assert (line.epsilon, line.reason) == (0.0, "nothing was sent")


def test_reports_of_the_same_people_that_randomised_other_answers_are_refused():
    other = LabelFlipped(epsilon=1.0, epsilons=(1.0,), answers=(STATUS,))
    with pytest.raises(InvalidInput, match="must have randomised the same answers"):
        Ledger(((FLIP, other, SUMS),)).lines()


def test_a_study_s_questions_have_the_rows_of_its_ledger():
    """A budget names them before there is a ledger."""
    assert names([]) == ()
    ledger = Ledger(((FLIP, SUMS),))
    assert names([STATUS.name, INCOME.name]) == tuple(
        data for data in ledger.data if data not in ("label", "features")
    )
