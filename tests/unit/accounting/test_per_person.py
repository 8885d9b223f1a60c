"""Each person's own line: exact for their ε, never above the worst case, and as sensitive as a real
server.
"""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from estimators import make_classifier
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml.accounting import Ledger, Reports
from pdml.accounting.events import (
    AnswerFlipped,
    CountsReleased,
    IterateReleased,
    LabelFlipped,
    ObjectiveNoised,
)
from pdml.accounting.randomized_attributes import TOGETHER
from pdml.errors import InvalidInput
from pdml.mechanisms.randomness import Simulated
from pdml.numerics.admm import labels
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.training.server import Node, NodeState, Server

SPEC = ServerSpec(server=0, n_servers=3, degree=2, records=400, epsilons=(1.0,), width=4)
KINDS = ["truncated_gaussian", "uniform_box", "uniform_ball", "none"]


def reports(epsilons, classes: int = 2, servers=None) -> Reports:
    epsilons = np.asarray(epsilons, dtype=float)
    weights = labels.keep_weight(epsilons, classes) / labels.keep_weight(epsilons.min(), classes)
    return Reports(
        np.zeros(len(epsilons), dtype=np.int64) if servers is None else servers, epsilons, weights
    )


def ledger(plan: TrainingPlan, epsilons, classes: int = 2, delta: float = 1e-6) -> Ledger:
    spec = replace(SPEC, epsilons=tuple(epsilons), classes=classes)
    return Ledger(
        ((spec.flip(), *plan.events(spec)),),
        classes=classes,
        delta=delta,
        reports=reports(epsilons, classes),
    )


def own_events(plan: TrainingPlan, epsilon: float, smallest: float, classes: int):
    """The events as if only this person mattered: their own κ, with the tolerance that the server's
    smallest ε fixes.
    """
    whole = replace(SPEC, epsilons=(smallest,), classes=classes)
    own = replace(whole, epsilons=(epsilon,))
    return (own.flip(), *replace(plan, tolerance=plan.tolerance_for(whole)).events(own))


@given(
    st.lists(st.sampled_from([0.1, 0.5, 1.0, 2.0, 6.0]), min_size=1, max_size=4),
    st.sampled_from(KINDS),
    st.sampled_from([2, 3]),
    st.sampled_from([0.02, 5.0]),
    st.sampled_from([1e-6, 0.05]),
)
@settings(max_examples=40)
def test_own_lines_are_the_ledger_of_a_server_of_ones_own(epsilons, kind, classes, noise, delta):
    """The vectorised bisection gives what the scalar ledger gives for events with the person's own
    shift.
    """
    plan = TrainingPlan(rounds=6, objective_noise=kind, noise_scale=noise)
    whole = ledger(plan, epsilons, classes, delta)
    lines = whole.person_rows()
    assert lines.label_receiving_server.tolist() == epsilons and lines.delta == delta
    for j, epsilon in enumerate(epsilons):
        events = own_events(plan, epsilon, min(epsilons), classes)
        book = Ledger((events,), classes=classes, delta=delta)
        alone, record = (book.row(data, "other servers") for data in ("label", "features"))
        assert lines.label_other_servers[j] == pytest.approx(alone.epsilon, rel=1e-7, abs=5e-9)
        assert lines.label_other_servers_certainty[j] == pytest.approx(alone.certainty, rel=1e-7)
        own = lines.features_other_servers[j]
        if classes == 2:
            assert own == pytest.approx(record.epsilon, rel=2e-3, abs=5e-9)
            sure = lines.features_other_servers_certainty[j]
            assert sure == pytest.approx(record.certainty, rel=2e-3)
        else:  # parts of a record add up to a little more than all of it at once
            assert record.epsilon <= own * (1 + 1e-6) + 5e-9
    assert (lines.label_other_servers <= whole.row("label", "other servers").epsilon + 5e-9).all()
    assert (lines.label_other_servers <= lines.label_receiving_server).all()
    worst = max(lines.features_other_servers)
    result = whole.row("features", "other servers").epsilon
    assert worst == pytest.approx(result, rel=2e-3, abs=5e-9)


@given(
    st.lists(st.sampled_from([0.2, 0.7, 2.0]), min_size=2, max_size=4),
    st.lists(st.tuples(st.floats(0.2, 3), st.booleans()), min_size=1, max_size=3),
    st.sampled_from([2, 3]),
)
@settings(max_examples=40)
def test_repeated_reports_add_up_for_everybody(epsilons, others, classes):
    """Whatever ε each person used in the others, up to the largest: no sum exceeds what is told."""
    plan = TrainingPlan(rounds=3, objective_bound=0.05, noise_scale=0.005)
    once = ledger(plan, epsilons, classes)
    flips = [LabelFlipped(epsilon=epsilon) for epsilon, _ in others]
    before = [flip for flip, (_, first) in zip(flips, others, strict=True) if first]
    after = [flip for flip, (_, first) in zip(flips, others, strict=True) if not first]
    again = replace(once, events=((*before, *once.events[0], *after),))
    lines, worst = again.person_rows(), again.row("label", "own server").epsilon
    total = sum(flip.epsilon for flip in flips)
    assert worst == pytest.approx(max(epsilons) + total)
    assert (lines.label_receiving_server >= np.array(epsilons) + total - 1e-9).all()
    assert (lines.label_receiving_server <= worst + 1e-9).all()
    assert (lines.label_other_servers >= once.person_rows().label_other_servers - 1e-8).all()
    assert (lines.label_other_servers <= again.row("label", "other servers").epsilon + 1e-8).all()


def test_a_second_report_may_have_been_the_louder_one():
    """My ε = 2 was one of two reports; the other may have been the loudest: κ counts in full."""
    plan = TrainingPlan(rounds=3, objective_bound=0.3, noise_scale=0.0)
    once = ledger(plan, [2.0, 0.1])
    twice = replace(once, events=((LabelFlipped(epsilon=2.0), *once.events[0]),))
    lines, worst = twice.person_rows(), twice.row("label", "other servers")
    assert lines.label_receiving_server.tolist() == pytest.approx([4.0, 2.1])
    assert lines.label_other_servers[0] == pytest.approx(worst.epsilon, abs=1e-8)
    assert lines.label_other_servers[0] > 1.5 * once.person_rows().label_other_servers[0]


def test_half_the_noise_costs_everybody_more():
    """Where objective noise is all there is, and where iterate noise is."""
    for loud, quiet in (
        (
            TrainingPlan(rounds=3, objective_bound=2.0, noise_scale=0.0),
            TrainingPlan(rounds=3, objective_bound=1.0, noise_scale=0.0),
        ),
        (
            TrainingPlan(rounds=3, objective_noise="none"),
            TrainingPlan(rounds=3, objective_noise="none", noise_scale=0.15),
        ),
    ):
        epsilons = [0.5, 1.0, 4.0]
        before, after = (
            ledger(plan, epsilons).person_rows().label_other_servers for plan in (loud, quiet)
        )
        assert (after > 1.2 * before).all()


def test_somebody_elses_epsilon_does_not_make_my_label_louder():
    """Through η my own κ is all that counts; through θ others move only the tolerance, 2% of the
    sensitivity.
    """
    through_eta = TrainingPlan(rounds=3, noise_scale=0.0)
    mine = [
        ledger(through_eta, [2.0, other]).person_rows().label_other_servers[0]
        for other in (2.0, 1.0, 0.1)
    ]
    assert mine[0] == pytest.approx(mine[1], abs=2e-9) == pytest.approx(mine[2], abs=4e-9)
    extremes = unnamed(ledger(through_eta, [2.0, 0.1])).row("label", "other servers").epsilon
    assert extremes > 1.5 * mine[0]


def unnamed(book: Ledger) -> Ledger:
    """The same where only the largest ε in use is known: a line of extremes."""
    named = [(replace(flip, epsilons=()), *events) for flip, *events in book.events]
    return replace(book, events=tuple(named))


def blinded(event):
    if isinstance(event, ObjectiveNoised):
        return replace(event, fixed_shift=None)
    return replace(event, solver_slack=None) if isinstance(event, IterateReleased) else event


@pytest.mark.parametrize(
    "plan",
    [TrainingPlan(rounds=3, objective_noise="none"), TrainingPlan(rounds=3, noise_scale=0.0)],
)
def test_unknown_slack_is_never_scaled_down(plan):
    """Events that do not say how much of their sensitivity is the solver's get no credit for a
    larger ε.
    """
    known = ledger(plan, [0.3, 3.0])
    blind = replace(known, events=tuple(tuple(blinded(e) for e in s) for s in known.events))
    assert blind.person_rows().label_other_servers[1] > known.person_rows().label_other_servers[1]
    assert blind.person_rows().label_other_servers[1] == pytest.approx(
        unnamed(known).row("label", "other servers").epsilon, abs=5e-9
    )


@given(
    st.lists(st.floats(0.2, 5), min_size=4, max_size=4),
    st.sampled_from([2, 3]),
    st.sampled_from([1e-9, 0.02]),
    st.data(),
)
@settings(max_examples=60)
def test_a_real_server_moves_by_no_more_than_the_persons_own_share(
    epsilons, classes, tolerance, data
):
    """Flip one reported label among four with different ε: q_i and the next iterate move as weight
    and slack say.
    """
    plan = TrainingPlan(rounds=2, noise_scale=0.0, objective_bound=0.0, tolerance=tolerance)
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    x = rng.normal(size=(4, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]
    y = rng.integers(0, classes, 4)
    j = data.draw(st.integers(0, 3))
    other = y.copy()
    other[j] = (y[j] + 1) % classes
    weights = reports(epsilons, classes).weights
    shape = (1 if classes == 2 else classes, 3)
    past, dual, heard = rng.normal(size=(3, *shape))

    spec = replace(SPEC, records=4, width=3, epsilons=tuple(epsilons), classes=classes)

    def moved(y):
        codes = labels.codes(y, np.array(epsilons), classes)
        node = Node(Server(spec, x, codes), plan, Simulated(1))
        return node.linear, node.step(NodeState(1, past, dual), [heard, -heard])[1]

    event = plan.events(spec)
    first, release = event[0], event[2]
    assert (
        isinstance(first, ObjectiveNoised)
        and isinstance(release, IterateReleased)
        and release.solver_slack is not None
    )
    (linear, point), (new_linear, new_point) = moved(y), moved(other)
    assert np.linalg.norm(new_linear - linear) == pytest.approx(
        weights[j] * first.label_shift, rel=1e-9
    )  # attained: |x| = B
    own = weights[j] * (release.label_sensitivity - release.solver_slack) + release.solver_slack
    assert np.linalg.norm(new_point - point) <= own * (1 + 1e-9)


def test_extremes():
    plan = TrainingPlan(rounds=2)
    never = ledger(replace(plan, noise_scale=0.0, objective_noise="none"), [1.0, inf])
    assert never.person_rows().label_other_servers.tolist() == [pytest.approx(1.0, abs=2e-5), inf]
    assert ledger(plan, [inf, inf]).person_rows().label_other_servers[0] < 1
    assert ledger(plan, [1.0]).up_to(0).person_rows().label_other_servers.tolist() == [0.0]
    with pytest.raises(InvalidInput, match="only its worst case"):
        replace(ledger(plan, [1.0]), reports=None).person_rows()
    with pytest.raises(InvalidInput, match=r"^weights must lie"):
        Reports(np.zeros(1, dtype=np.int64), np.ones(1), np.full(1, 1.5))
    with pytest.raises(InvalidInput, match=r"^epsilons must be > 0"):
        Reports(np.array([0]), np.array([0.0]), np.array([1.0]))
    with pytest.raises(InvalidInput, match="one entry per record"):
        Reports(np.zeros(1, dtype=np.int64), np.ones(2), np.ones(2))
    with pytest.raises(InvalidInput, match="name servers from 0 to 0"):
        replace(ledger(plan, [1.0]), reports=reports([1.0], servers=np.array([3]))).person_rows()


def test_the_estimator_keeps_the_order_of_its_input():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 3))
    epsilons = rng.choice([0.5, 1.0, 4.0], 300)
    servers = rng.integers(0, 3, 300)
    fitted = make_classifier(n_servers=3, topology="ring", rounds=4, random_state=0).fit(
        x, x[:, 0] > 0, epsilons=epsilons, servers=servers
    )
    lines = fitted.privacy_.person_rows()
    np.testing.assert_array_equal(lines.label_receiving_server, epsilons)
    assert len(lines) == 300
    for j in (0, 7, 299):
        features = lines.features_other_servers[j]
        worst = fitted.privacy_.row("features", "other servers", int(servers[j])).epsilon
        assert features <= worst + 4e-9
    assert lines.label_other_servers.max() <= fitted.privacy_.row("label", "other servers").epsilon


def test_a_server_without_reports_changes_nobody_s_line():
    plan, alone = TrainingPlan(), ledger(TrainingPlan(), [0.5, 2.0])
    events = (*alone.events, (SPEC.flip(), *plan.events(SPEC)))
    both = Ledger(events, reports=alone.reports, delta=alone.delta, classes=2)
    for name in ("label_receiving_server", "label_other_servers", "features_other_servers"):
        np.testing.assert_array_equal(
            getattr(both.person_rows(), name), getattr(alone.person_rows(), name)
        )


def test_people_have_lines_of_the_epsilons_that_they_chose_for_each_answer():
    """Never above the server's line, which is that of whoever chose the largest of all; that line where
    nobody says what was chosen.
    """
    asked = (AnswerFlipped("a", 2, 2.0), AnswerFlipped("b", 4, 1.0))
    (event,) = TrainingPlan(method="sums", label_noise=1.0, square_noise=1.0).events(
        ServerSpec(server=0, n_servers=2, degree=1, records=50, epsilons=(0.5, 1.0), width=4)
    )
    for clear in (True, False):
        flip = LabelFlipped(epsilon=1.0, epsilons=(0.5, 1.0), answers=asked, in_clear=clear)
        known = Reports(
            np.zeros(4, dtype=np.int64),
            np.array([1.0, 1.0, 0.5, 1.0]),
            np.array([0.5, 0.5, 1.0, 0.5]),
            {"a": np.array([2.0, 0.5, 0.5, 2.0]), "b": np.array([1.0, 1.0, 0.25, 0.25])},
        )
        book = Ledger(((flip, event),), reports=known)
        lines = book.person_rows()
        result = lines.answers
        assert result["answer: a"].receiving_server.tolist() == [2.0, 0.5, 0.5, 2.0]
        assert result[TOGETHER].receiving_server.tolist() == [4.0, 2.5, 1.25, 3.25]
        for name, each in result.items():
            worst = book.row(name, "other servers").epsilon
            assert each.other_servers[0] == pytest.approx(worst, rel=1e-6)
            assert (each.other_servers[1:] <= worst * (1 + 1e-9)).all()
        assert result["answer: a"].other_servers[1] < 0.9 * result["answer: a"].other_servers[0]
        worst = book.row("features", "other servers").epsilon
        assert (lines.features_other_servers <= worst * (1 + 1e-9)).all()
        silent = replace(book, reports=replace(known, answers={})).person_rows().answers
        assert silent["answer: a"].receiving_server.tolist() == [2.0] * 4
        seen = replace(book, events=((replace(flip, by="operator"), event),)).person_rows().answers
        assert np.isinf(seen["answer: b"].receiving_server).all()
    with pytest.raises(InvalidInput, match="one epsilon > 0 per record for 'a'"):
        replace(known, answers={"a": np.array([1.0])})


def test_a_person_s_own_server_that_counted_true_labels_has_them():
    """As the ledger's line says: the label's, and of each answer."""
    flip = LabelFlipped(epsilon=1.0, epsilons=(1.0,), answers=(AnswerFlipped("a", 2, 0.5),))
    counts = CountsReleased(stddev=6.0, shift=1.5)
    book = Ledger(((flip, counts),), reports=reports([1.0, 1.0]))
    assert book.row("label", "own server").epsilon == inf
    lines = book.person_rows()
    assert (lines.label_receiving_server == inf).all()
    assert (lines.answers[TOGETHER].receiving_server == inf).all()
