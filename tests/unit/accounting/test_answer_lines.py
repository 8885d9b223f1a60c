"""The lines of randomised answers: real codes through the real sums and coins, as one mixture of
Gaussians over all that may have been reported, never tell more than the ledger says.
"""

from dataclasses import dataclass, replace
from itertools import product
from math import exp, log, sqrt

import numpy as np
import pytest

from pdml.accounting import Budget, Ledger, profiles
from pdml.accounting.events import SumsReleased
from pdml.accounting.randomized_attributes import TOGETHER
from pdml.encoding import device_encoding
from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.errors import BudgetExceeded
from pdml.mechanisms.label_flip import WORD, LabelFlip
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.sums import statistics
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan

RECORDS, DRAWS = 8, 40_000
SEEN = 0.02  # δ at which divergences are compared: enough draws fall where they differ
AGE = Number(name="age", low=0, high=6)
OLDEST = 6.0  # as long as what codes leave of a row can be: then they move S by most


def question(name: str, levels: int, *menu: float) -> Category:
    choices = tuple(f"{name}{k}" for k in range(levels))
    return Category(name=name, levels=choices, epsilon=Menu(menu=menu, default=menu[-1]))


@dataclass(frozen=True)
class Case:
    """A person's true (label, answers) in two worlds, and what hides which it is."""

    data: str
    asked: tuple
    worlds: tuple[tuple[int, ...], tuple[int, ...]]
    label_epsilon: float = 1.0
    noise: tuple[float, float] = (0.4, 0.4)

    @property
    def encoder(self) -> Encoder:
        return Encoder(attributes=self.asked)

    @property
    def coins(self) -> tuple[tuple[float, int], ...]:
        """ε and levels of the label's and of each answer's."""
        each = [(a.epsilon.default, len(a.choices)) for a in self.encoder.sensitive]
        return ((self.label_epsilon, 2), *each)

    @property
    def place(self) -> ServerSpec:
        encoder = self.encoder
        return ServerSpec(
            server=0,
            n_servers=4,
            degree=2,
            records=RECORDS,
            epsilons=(self.label_epsilon,),
            width=encoder.n_features + 1,
            blocks=encoder.blocks,
            in_clear=bool(encoder.clear),
        )

    @property
    def event(self) -> SumsReleased:
        label, square = self.noise
        plan = TrainingPlan(method="sums", label_noise=label, square_noise=square)
        (event,) = plan.events(self.place)
        return event

    @property
    def ledger(self) -> Ledger:
        return Ledger(((self.place.flip(), self.event),))


CASES = {
    "2 levels, all sensitive": Case(
        "answer: a", (question("a", 2, 1.0),), ((0, 0), (0, 1)), 8.0, (0.4, 5.0)
    ),
    "3 levels, all sensitive": Case(
        "answer: a", (question("a", 3, 2.0),), ((0, 0), (0, 1)), 8.0, (0.4, 5.0)
    ),
    "2 levels, the label's coin, too": Case(
        "answer: a", (AGE, question("a", 2, 1.0)), ((0, 0), (0, 1))
    ),
    "one of two": Case(
        "answer: b",
        (question("a", 2, 0.5), question("b", 2, 1.0)),
        ((0, 0, 0), (0, 0, 1)),
        1.0,
        (0.3, 3.0),
    ),
    "together": Case(TOGETHER, (AGE, question("a", 2, 1.0)), ((0, 0), (1, 1)), 2.0),
    "features, all sensitive": Case("features", (question("a", 3, 3.0),), ((0, 0), (1, 1)), 4.0),
}


def centre(case: Case, report: tuple[int, ...], event: SumsReleased) -> np.ndarray:
    """Q and S of a server whose first report is given, in units of noise."""
    encoder, rng = case.encoder, np.random.default_rng(2)
    micros = [a.epsilon.millionths[-1] for a in encoder.sensitive]
    levels = [len(a.choices) for a in encoder.sensitive]
    drawn = [rng.integers(levels) for _ in range(RECORDS - 1)]
    answers = {each.name: OLDEST for each in encoder.clear}
    x = [
        device_encoding.encode(
            encoder, answers, [(int(k), e) for k, e in zip(each, micros, strict=True)]
        )
        for each in (report[1:], *drawn)
    ]
    said = np.concatenate([report[:1], rng.integers(0, 2, RECORDS - 1)])
    codes = labels.codes(said, case.label_epsilon, 2)
    own = statistics.exact(np.array(x, dtype=float), codes, LOGISTIC, encoder.blocks)
    rows, columns = np.triu_indices(own.width)
    square = own.square_sum[rows, columns] * np.where(rows == columns, 1, sqrt(2))
    return np.concatenate(
        [own.label_sum.ravel() / event.label_stddev, square / event.square_stddev]
    )


def chance(truth: int, said: int, epsilon: float, levels: int) -> float:
    return (exp(epsilon) if truth == said else 1.0) / (exp(epsilon) + levels - 1)


def result(case: Case, target: float, *, noise: float = 1.0, coin: float = 1.0) -> float:
    """∫ max(0, p - e^ε q) of what others see in two worlds, less four standard errors (a false
    alarm in 10⁴); with slips, ``noise`` times as much of it, or coins of ``coin`` times their ε.
    """
    event = case.event
    scaled = (noise * event.label_stddev, noise * event.square_stddev)
    event = replace(event, label_stddev=scaled[0], square_stddev=scaled[1])
    reports = list(product(*(range(levels) for _, levels in case.coins)))
    centres = np.array([centre(case, report, event) for report in reports])
    first, second = (
        np.array(
            [
                np.prod([chance(t, r, coin * e, n) for t, r, (e, n) in zip(*each, strict=True)])
                for each in ((truth, report, case.coins) for report in reports)
            ]
        )
        for truth in case.worlds
    )
    rng = np.random.default_rng(7)
    at = centres[rng.choice(len(first), DRAWS, p=first)]
    at = at + rng.normal(size=at.shape)
    far = ((at[:, None, :] - centres[None]) ** 2).sum(axis=2) / 2
    near = np.exp(far.min(axis=1, keepdims=True) - far)
    gained = np.maximum(0.0, 1 - exp(target) * (near @ second) / (near @ first))
    return float(gained.mean() - 4 * gained.std() / sqrt(DRAWS))


@pytest.mark.parametrize("name", CASES)
def test_no_answer_tells_other_servers_more_than_its_line(name):
    """Half the noise, and coins of twice the ε, are seen."""
    case = CASES[name]
    target = profiles.epsilon_at(case.ledger.profile(case.data, "other servers", 0), SEEN)
    assert result(case, target) <= SEEN
    assert result(case, target, noise=0.5) > SEEN
    assert result(case, target, coin=2.0) > SEEN


def test_a_line_that_counts_too_many_levels_is_seen():
    """An answer of two levels with the line of one of eight."""
    case = CASES["2 levels, all sensitive"]
    flip = case.place.flip()
    (answer,) = flip.answers
    wrong = Ledger(((replace(flip, answers=(answer._replace(levels=8),)), case.event),))
    target = profiles.epsilon_at(wrong.profile(case.data, "other servers", 0), SEEN)
    assert result(case, target) > SEEN


def test_every_coin_counts_where_little_noise_hides_what_they_decided():
    """The line of one answer fewer is seen."""
    two = (question("a", 2, 1.0), question("b", 2, 1.0))
    case = Case(TOGETHER, two, ((0, 0, 0), (1, 1, 1)), 2.0, (0.1, 0.05))
    target = profiles.epsilon_at(case.ledger.profile(case.data, "other servers", 0), SEEN)
    assert result(case, target) <= SEEN
    flip = case.place.flip()
    fewer = Ledger(((replace(flip, answers=flip.answers[:1]), case.event),))
    target = profiles.epsilon_at(fewer.profile(case.data, "other servers", 0), SEEN)
    assert result(case, target) > SEEN


def likeliest(case: Case, *, coin: float = 1.0, shared: bool = False) -> float:
    """The largest ln P/Q of a report in two worlds, by the integers with which devices draw;
    ``shared``: an answer keeps its level exactly if the label does.
    """
    flips = [LabelFlip(coin * e, n).threshold / WORD / (n - 1) for e, n in case.coins]
    found = []
    for report in product(*(range(n) for _, n in case.coins)):
        odds = []
        for truth in case.worlds:
            each = [
                1 - (n - 1) * p if t == r else p
                for t, r, p, (_, n) in zip(truth, report, flips, case.coins, strict=True)
            ]
            kept = [t == r for t, r in zip(truth, report, strict=True)]
            whole = each[0] * (len(set(kept)) == 1) if shared else float(np.prod(each))
            odds.append(log(whole) if whole else -np.inf)
        if max(odds) > -np.inf:
            found.append(odds[0] - odds[1])
    return max(found)


@pytest.mark.parametrize("adversary", ["own server", "own and others together"])
@pytest.mark.parametrize("name", CASES)
def test_no_report_tells_whoever_receives_it_more_than_its_line(name, adversary):
    """Exact, and attained: what is released later is made of the report, so that it adds nothing.
    A coin of twice the ε is seen, and one coin for label and answers.
    """
    case = CASES[name]
    line = case.ledger.row(case.data, adversary)
    assert likeliest(case) == pytest.approx(line.epsilon, rel=1e-6)
    assert likeliest(case) <= line.epsilon + 1e-12 and line.delta == 0
    assert likeliest(case, coin=2.0) > 1.5 * line.epsilon
    if case.data.startswith("answer"):  # of all together a shared coin tells less than two
        assert likeliest(case, shared=True) == np.inf


def test_a_budget_counts_coins_where_every_answer_went_through_one():
    """What a ledger says of features is what its budget allows: to the ε of the line, and no less;
    by rounds as by sums. One answer in the clear, and only what hides the record counts.
    """
    case = CASES["features, all sensitive"]
    flip = case.place.flip()
    rounds = TrainingPlan(rounds=3, noise_scale=0.1, objective_noise="none")
    for events in ((case.event,), rounds.events(case.place)):
        book = Ledger(((flip, *events),))
        spent = book.row("features", "other servers").epsilon
        record = Ledger(((replace(flip, in_clear=True), *events),))
        assert spent < 0.9 * record.row("features", "other servers").epsilon
        for share, kept in ((1.001, True), (0.999, False)):
            budget = Budget(features_epsilon=share * spent)
            assert book.keeps(budget) is kept
            last = len(events) if events[0] == case.event else rounds.rounds
            assert (book.last_safe_round(budget) == last) is kept
            assert not record.keeps(budget)
        with pytest.raises(
            BudgetExceeded, match=f"would spend epsilon {spent:.3g} on the features"
        ):
            book.check(Budget(features_epsilon=0.5 * spent))


@pytest.mark.parametrize(
    ("by", "result"),
    [
        ("devices", "randomised on the device; training cannot weaken it"),
        ("elsewhere", "as its server declares"),
        ("operator", "no protection"),
        ("", "no protection"),
    ],
)
def test_who_tossed_the_coins_is_told(by, result):
    """And coins hide nothing from whoever may have tossed them."""
    case = CASES["together"]
    book = Ledger(((case.place.flip(by), case.event),))
    for data in ("answer: a", TOGETHER):
        line = book.row(data, "own server")
        assert result in line.reason and np.isinf(line.epsilon) == (result == "no protection")
        others = book.row(data, "other servers")
        assert others.epsilon == case.ledger.row(data, "other servers").epsilon
    assert np.isfinite(book.row("answer: a", "other servers").epsilon)
