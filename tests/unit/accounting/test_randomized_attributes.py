"""Answers that went through coins of their own, in the ledger: pure against whoever receives them,
hidden twice from others, and not at all once somebody has counted with the true ones.
"""

from dataclasses import replace
from itertools import product
from math import exp, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_counts import COUNTS, SUMS

from pdml.accounting import Budget, Ledger
from pdml.accounting.events import AnswerFlipped, IterateReleased, LabelFlipped
from pdml.accounting.randomized_attributes import TOGETHER, names
from pdml.errors import BudgetExceeded, InvalidInput

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
    assert found(3.5) == 0.0 < found(3.4)  # the label is a part of the record


coins = st.tuples(st.floats(0.05, 3.0), st.integers(2, 4))


def leaked(epsilon, coins):
    """δ of replacing a record by one with another label and other answers, where every report
    leaks: all reports one by one."""
    chances = []
    for truth in (0, 1):
        each = [
            [(exp(e) if level == truth else 1.0) / (exp(e) + n - 1) for level in range(n)]
            for e, n in coins
        ]
        chances.append(np.array([np.prod(one) for one in product(*each)]))
    return np.maximum(0.0, chances[0] - exp(epsilon) * chances[1]).sum()


@given(coins, st.lists(coins, min_size=1, max_size=3), st.floats(0.0, 12.0), st.booleans())
def test_a_record_without_noise_is_as_private_as_all_its_coins(label, answers, epsilon, rounds):
    """Exact, by all reports there are: no smaller ε than the sum of all coins would do, and the
    label's is one of them. By rounds as by sums, in the line and in the budget.
    """
    flip = LabelFlipped(
        epsilon=label[0],
        epsilons=label[:1],
        answers=tuple(AnswerFlipped(f"a{k}", n, e) for k, (e, n) in enumerate(answers)),
        in_clear=False,
    )
    quiet = replace(SUMS, label_stddev=1e-9, square_stddev=1e-9)
    if rounds:
        quiet = IterateReleased(t=1, stddev=1e-9, label_sensitivity=1.0, record_sensitivity=2.0)
    book = Ledger(((flip, quiet),), classes=label[1])
    exact = leaked(epsilon, [label, *answers])
    found = book.profile("features", "other servers", 0)(epsilon)
    assert exact <= found * (1 + 1e-9) + 1e-15
    total = label[0] + sum(e for e, _ in answers)
    assert book.row("features", "other servers").epsilon == pytest.approx(total, rel=1e-3)
    assert book.epsilons("features") == [book.row("features", "other servers").epsilon]
    assert book.row("features", "own server").epsilon == pytest.approx(total)
    assert leaked(0.999 * total, [label, *answers]) > 0
    assert not book.keeps(Budget(features_epsilon=0.9 * total, features_delta=1e-9))
    assert book.keeps(Budget(features_epsilon=total))


def test_one_answer_of_0_2_and_a_label_of_4_make_4_2():
    """As the first line that left the label out: claimed 0.2, and a budget of 1 for a thousand
    exchanges without noise."""
    answers = (AnswerFlipped("status", 2, 0.2),)
    flip = LabelFlipped(epsilon=4.0, epsilons=(4.0,), answers=answers, in_clear=False)
    quiet = replace(SUMS, label_stddev=1e-3, square_stddev=1e-3)
    line = Ledger(((flip, quiet),)).row("features", "other servers")
    assert line.epsilon == pytest.approx(4.2, abs=1e-4)
    with pytest.raises(BudgetExceeded, match=r"epsilon 4\.2 on the features"):
        Ledger(((flip, *[quiet] * 1_000),)).check(Budget(features_epsilon=1.0))


def test_features_count_the_largest_epsilon_of_all_servers():
    """Of each answer, whichever server comes first."""
    flips = [
        LabelFlipped(epsilon=1.0, answers=(STATUS._replace(epsilon=e),), in_clear=False)
        for e in (0.5, 3.0)
    ]
    book = Ledger(tuple((flip, SUMS) for flip in flips))
    assert book.row("features", "own server").epsilon == 4.0


@pytest.mark.parametrize("data", ["answer: status", "answer: income", TOGETHER])
def test_no_coin_stands_before_counts_of_true_answers(data):
    hidden, counted = Ledger(((FLIP, SUMS),)), Ledger(((FLIP, SUMS, COUNTS),))
    record = counted.profile("features", "other servers", 0)(EPSILONS)
    found = counted.profile(data, "other servers", 0)(EPSILONS)
    assert (found >= record * (1 - 1e-9)).all()  # what hides the record is all that is left
    assert (found > hidden.profile(data, "other servers", 0)(EPSILONS)).all()
    line = counted.row(data, "other servers")
    assert line.reason == "what hides the record alone: it was evaluated with its true answers"
    own = counted.row(data, "own server")
    assert own.epsilon == inf
    assert own.reason == "the collecting organisation may have had the true answers: no protection"


def test_what_was_never_sent_tells_others_nothing():
    line = Ledger(((FLIP,),)).row("answer: status", "other servers")
    assert (line.epsilon, line.reason) == (0.0, "nothing was sent")


@pytest.mark.parametrize("answers", [(STATUS,), (), FLIP.answers])
def test_several_reports_with_randomised_answers_are_refused(answers):
    """The same answers, too: a second coin tells more of them, and for whom is not known."""
    other = LabelFlipped(epsilon=1.0, epsilons=(1.0,), answers=answers)
    for events in ((FLIP, other, SUMS), (other, FLIP, SUMS)):
        with pytest.raises(InvalidInput, match="people must report once"):
            Ledger((events,)).rows()


def test_a_study_s_questions_have_the_rows_of_its_ledger():
    """A budget names them before there is a ledger."""
    assert names([]) == ()
    ledger = Ledger(((FLIP, SUMS),))
    assert names([STATUS.name, INCOME.name]) == tuple(
        data for data in ledger.data if data not in ("label", "features")
    )
