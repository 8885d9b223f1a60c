"""Mixed histories of all that can happen to a data set, in the ledger and in `recount`: no line, no
certainty and no budget lies below what the recount sees, and none far above where that is exact.
"""

from dataclasses import dataclass, replace
from math import inf, log, sqrt

import numpy as np
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from recount import Recount, View, kappa

from pdml.accounting import Budget, Ledger, Reports, last_safe_round
from pdml.accounting.events import (
    AnswerFlipped,
    CountsReleased,
    Event,
    IterateReleased,
    LabelFlipped,
    ObjectiveNoised,
    SumsReleased,
    merge_iterates,
)
from pdml.accounting.ledger_row import LedgerRow
from pdml.errors import BudgetExceeded

SEEN = 0.02  # δ at which the two are compared: enough draws fall where worlds differ
# What fails is shown as it was drawn: it is short, and to make it shorter takes minutes.
HISTORIES = settings(deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
BY = ("devices", "elsewhere", "operator", "")
moves = st.sampled_from([0.1, 0.4, 0.8, 1.5, 200.0])  # in units of noise
fixed = st.sampled_from([0.0, 0.0, 0.05])
encodings = st.sampled_from(["", "a", "b"])
menus = st.sampled_from([(1.0,), (0.4, 2.0), (0.7,), (2.0,)])


@st.composite
def rounds(draw: st.DrawFn, kind: str) -> tuple[Event, ...]:
    """A training. With objective noise that of its iterates is next to nothing, and a record moves
    them by its label's part alone; without it iterate noise is all there is."""
    label, part = draw(moves), draw(fixed)
    n, many = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    eta = ObjectiveNoised(
        kind=kind,
        bound=1e6,
        stddev=1.0,
        size=2,
        n_servers=n,
        label_shift=(label + part) / n,
        fixed_shift=part / n,
        encoding=draw(encodings),
    )
    quiet = kind != "none"
    record = label if quiet else label * draw(st.sampled_from([1.0, 1.5]))
    sent = (
        IterateReleased(
            t=t,
            stddev=sqrt(many) * (1e-6 if quiet else 1.0),
            label_sensitivity=label,
            record_sensitivity=record,
            solver_slack=0.0 if quiet else draw(fixed) * label,
        )
        for t in range(1, many + 1)
    )
    return (eta, *sent)


@st.composite
def exchanges(draw: st.DrawFn, largest: float) -> tuple[Event, ...]:
    """One exchange of sums, masked or not."""
    part, record, square = draw(fixed), draw(moves), draw(moves)
    event = SumsReleased(
        label_stddev=1.0,
        square_stddev=1.0,
        label_shift=record + part,
        record_shift=record + part,
        square_shift=square + part,
        fixed_shift=part,
        epsilon=largest,
        hidden_among=draw(st.sampled_from([1, 4])),
        encoding=draw(encodings),
    )
    return (event,)


def evaluations() -> st.SearchStrategy[tuple[Event, ...]]:
    return st.sampled_from([0.2, 0.9]).map(lambda mu: (CountsReleased(stddev=1 / mu, shift=1.0),))


@dataclass(frozen=True)
class History:
    events: tuple[Event, ...]
    classes: int

    @property
    def flips(self) -> list[LabelFlipped]:
        return [event for event in self.events if isinstance(event, LabelFlipped)]

    @property
    def people(self) -> tuple[float | None, ...]:
        """The ε of each kind of person, where they are known."""
        menu = self.flips[0].epsilons if len(self.flips) == 1 else ()
        return menu or (None,)

    def ledger(self, **settings) -> Ledger:
        return Ledger((self.events,), classes=self.classes, delta=SEEN, **settings)

    def recounts(self, colluding: int | None = None) -> list[Recount]:
        """Of each kind of person."""
        return [
            Recount(events=self.events, classes=self.classes, epsilon=e, colluding=colluding)
            for e in self.people
        ]


@st.composite
def histories(draw: st.DrawFn, least: int = 1) -> History:
    """Reports, imported ones among them, of labels and answers; then trainings, exchanges and
    evaluations in any order."""
    classes = draw(st.sampled_from([2, 2, 2, 3]))
    menu = draw(menus) if classes == 2 else (draw(menus)[-1],)
    many = draw(st.sampled_from([0, 1, 1, 1, 1, 2]))
    asked = st.tuples(st.sampled_from([0.3, 1.0, 2.0]), st.integers(2, 3))
    answers = draw(st.lists(asked, max_size=2)) if many == 1 else []
    flips = tuple(
        LabelFlipped(
            epsilon=menu[-1],
            by=draw(st.sampled_from(BY)),
            epsilons=menu if many == 1 else (),
            answers=tuple(AnswerFlipped(f"a{k}", n, e) for k, (e, n) in enumerate(answers)),
            in_clear=not answers or draw(st.booleans()),
        )
        for _ in range(many)
    )
    kinds = draw(st.sampled_from([["none"], ["truncated_gaussian"], KINDS]))
    part = st.sampled_from(kinds).flatmap(rounds) | exchanges(menu[-1]) | evaluations()
    parts = draw(st.lists(part, min_size=least, max_size=4))
    return History((*flips, *(event for each in parts for event in each)), classes)


KINDS = ["none", "truncated_gaussian"]


def seen_of(history: History, data: str, colluding: int | None = None) -> list[View]:
    """All pairs of worlds of that row, for whoever is worst off."""
    return [view for each in history.recounts(colluding) for view in each.rows[data]]


def odds(line: LedgerRow) -> float:
    return log(line.certainty / (1 - line.certainty)) if line.certainty < 1 else inf


@given(histories())
@settings(HISTORIES, max_examples=100)
def test_no_line_against_others_lies_below_what_they_see_nor_far_above(history):
    """δ at several ε, ε, and how sure they can be; of coins never more than their sum."""
    note(str(history.events))
    book = history.ledger()
    assert set(book.data) == set(history.recounts()[0].rows)
    for data in book.data:
        views, line = seen_of(history, data), book.row(data, "other servers")
        profile = book.profile(data, "other servers", 0)
        for epsilon in (0.0, 0.3, 1.0, 2.5):
            assert max(view.told(epsilon) for view in views) <= float(profile(epsilon)) + 1e-12
        assert max(view.told(line.epsilon) for view in views) <= SEEN
        assert max(view.log_odds(SEEN) for view in views) <= odds(line) + 1e-9
        if all(view.exact for view in views) and 0.15 < line.epsilon < 8:
            assert max(view.told(0.9 * line.epsilon - 0.1, errors=4) for view in views) > SEEN
        each = [recount for recount in history.recounts() if not recount.counted]
        pure = max((recount.coins(data) for recount in each), default=inf)
        assert (line.epsilon <= pure and float(profile(min(pure, 1e4))) < 1e-12) or pure == inf


ROUND = IterateReleased(
    t=1, stddev=1.0, label_sensitivity=0.8, record_sensitivity=0.8, solver_slack=0.0
)
NONE = ObjectiveNoised(
    kind="none", bound=0.0, stddev=0.0, size=1, n_servers=1, label_shift=0.8, fixed_shift=0.0
)
ETA = replace(NONE, kind="truncated_gaussian", bound=1e6, stddev=1.0)
SUMS = SumsReleased(
    label_stddev=1.0,
    square_stddev=1.0,
    label_shift=0.8,
    record_shift=0.8,
    square_shift=0.6,
    fixed_shift=0.0,
    epsilon=2.0,
)
COUNTS = CountsReleased(stddev=1.0, shift=0.8)


@pytest.mark.parametrize(
    "events",
    [
        (NONE, ROUND),
        (ETA, replace(ROUND, stddev=1e-6)),
        (SUMS,),
        (COUNTS,),
        (NONE, ROUND, SUMS, COUNTS),
    ],
    ids=["rounds", "objective noise", "sums", "evaluation", "all"],
)
@pytest.mark.parametrize("data", ["label", "features"])
def test_half_the_noise_is_seen(events, data):
    """Of any event: the line that counts on it lies below what is told then."""
    history = History((LabelFlipped(epsilon=2.0, epsilons=(2.0,)), *events), 2)
    line = history.ledger().row(data, "other servers")
    quiet = History(tuple(map(_quieter, history.events)), 2)
    told, more = (
        max(view.told(line.epsilon) for view in seen_of(each, data)) for each in (history, quiet)
    )
    assert told <= SEEN < more


def _quieter(event: Event) -> Event:
    names = [name for name in vars(event) if name.endswith("stddev")]
    return replace(event, **{name: getattr(event, name) / 2 for name in names})


@given(histories())
@settings(HISTORIES, max_examples=200)
def test_the_own_server_faces_the_coins_of_all_reports_and_nothing_else(history):
    """Exactly, alone and together with all others."""
    known = [each.pure() for each in history.recounts()]
    for data in history.ledger().data:
        for adversary in ("own server", "own and others together"):
            line = history.ledger().row(data, adversary)
            assert line.delta == 0
            assert line.epsilon == pytest.approx(max(each[data] for each in known), rel=1e-9)
            profile = history.ledger().profile(data, adversary, 0)
            assert profile(line.epsilon * (1 + 1e-9)) == 0 or line.epsilon == inf
            assert profile(0.9 * min(line.epsilon, 50)) > 0


@given(histories(), st.sampled_from([None, 1, 3]))
@settings(HISTORIES, max_examples=50)
def test_no_budget_lets_more_be_seen_than_it_says(history, colluding):
    """Whoever asks: the ledger, before and after, and the search for the last safe round."""
    note(str(history.events))
    book, planned = history.ledger(), plan_apart(history)
    for data, name in (("label", "labels"), ("features", "features")):
        views = seen_of(history, data, colluding)
        most = max(views, key=lambda view: (view.told(1.0), view.told(0.0)))
        seen = 0.99 * most.epsilon(SEEN)
        if seen < 1e-3:
            continue
        small = {f"{name}_epsilon": seen, f"{name}_delta": SEEN, "colluding": colluding}
        budget = Budget(**small)
        assert not book.keeps(budget)
        with pytest.raises(BudgetExceeded):
            book.check(budget)
        assert not replace(book, events=(merge_iterates(history.events),)).keeps(budget)
        assert last_safe_round(**planned, budget=budget, classes=history.classes) < planned_rounds(
            planned
        )
        line = book.row(data, "other servers", colluding=colluding)
        if np.isfinite(line.epsilon):
            more = Budget(**small | {f"{name}_epsilon": line.epsilon * (1 + 1e-6) + 1e-9})
            assert book.keeps(more)
    for data in ("label", "features"):
        for line in book.coalitions(data) if book.masked else ():
            views = seen_of(history, data, line.colluding)
            assert max(view.told(line.epsilon) for view in views) <= SEEN


def plan_apart(history: History) -> dict:
    """The last training or exchange as it would be planned, and all before as it happened."""
    events = list(history.events)
    last = max(k for k, event in enumerate(events) if not isinstance(event, IterateReleased))
    flips = [event for event in events[:last] if isinstance(event, LabelFlipped)]
    early = [event for event in events[:last] if not isinstance(event, LabelFlipped)]
    return {"planned": [[*flips, *events[last:]]], "already": [early]}


def planned_rounds(planned: dict) -> int:
    (events,) = planned["planned"]
    return max([event.t for event in events if isinstance(event, IterateReleased)], default=1)


@given(histories())
@settings(HISTORIES, max_examples=40)
def test_nobody_s_own_line_lies_below_what_is_seen_of_them(history):
    """Each with the ε that they chose, of the label and of every answer: the smaller one is louder
    in rounds and softer in sums, and its coin hides more."""
    if len(history.flips) != 1 or history.classes > 2:
        return
    note(str(history.events))
    (flip,) = history.flips
    chosen = {each.name: each.epsilon / 2 for each in flip.answers}
    menu = np.array(flip.epsilons)
    weights = np.array([kappa(e, 2) for e in menu]) / kappa(menu.min(), 2)
    answers = {name: np.full(len(menu), e) for name, e in chosen.items()}
    reports = Reports(np.zeros(len(menu), dtype=np.int64), menu, weights, answers)
    lines = history.ledger(reports=reports).person_rows()
    for k, recount in enumerate(history.recounts()):
        own = replace(recount, events=[*map(_half, recount.events)])
        claimed = {
            "label": lines.label_other_servers[k],
            "features": lines.features_other_servers[k],
        }
        claimed |= {name: each.other_servers[k] for name, each in lines.answers.items()}
        for data, views in own.rows.items():
            assert max(view.told(claimed[data]) for view in views) <= SEEN
        pure = own.pure()
        assert lines.label_receiving_server[k] == pytest.approx(pure["label"])
        for name, each in lines.answers.items():
            assert each.receiving_server[k] == pytest.approx(pure[name])


def _half(event: Event) -> Event:
    """The same reports, of somebody who chose half the ε of each answer."""
    if not isinstance(event, LabelFlipped):
        return event
    each = (answer._replace(epsilon=answer.epsilon / 2) for answer in event.answers)
    return replace(event, answers=tuple(each))
