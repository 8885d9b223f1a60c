"""The ledger: six lines, the numbers behind them, and what must make them worse.

Where noise is drawn, its scale is tied to the event that claims it, by exact chi-square quantiles.
"""

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, inf, isinf, sqrt

import numpy as np
import pytest
from fitting import has_variance
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import norm
from servers import make_server

from pdml.accounting import profiles
from pdml.accounting.events import IterateReleased, LabelFlipped, ObjectiveNoised
from pdml.accounting.ledger import ADVERSARIES, DATA, Ledger
from pdml.accounting.objective_loss import objective_profile
from pdml.errors import InvalidInput
from pdml.mechanisms.exact_gaussian import rounding_shift
from pdml.mechanisms.randomness import ITERATES, OBJECTIVE, Secure, Simulated
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import LOGISTIC
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.training.server import Node, NodeState

DELTA = 1e-6


def flip(epsilon: float = 1.0) -> LabelFlipped:
    return LabelFlipped(epsilon=epsilon)


def eta(
    kind: str = "truncated_gaussian", *, stddev: float = 1.0, shift: float = 0.02, size: int = 10
) -> ObjectiveNoised:
    return ObjectiveNoised(
        kind=kind, bound=6 * stddev, stddev=stddev, size=size, n_servers=5, label_shift=shift / 5
    )


def sent(
    rounds: int,
    *,
    stddev: float = 1.0,
    label: float = 0.02,
    record: float = 0.05,
    decay: float = 0.9,
) -> tuple[IterateReleased, ...]:
    return tuple(
        IterateReleased(
            t=t,
            stddev=stddev * sqrt(decay ** (t - 1)),
            label_sensitivity=label,
            record_sensitivity=record,
        )
        for t in range(1, rounds + 1)
    )


def rescaled(ledger: Ledger, factor: float, *, box: bool = False) -> Ledger:
    """Every noise ``factor`` times as loud; the box that bounds η grows with it, or stays."""

    def changed(event):
        changes = {"stddev": factor * event.stddev} if hasattr(event, "stddev") else {}
        return replace(
            event,
            **changes,
            **({"bound": factor * event.bound} if box and hasattr(event, "bound") else {}),
        )

    return replace(
        ledger, events=tuple(tuple(changed(event) for event in events) for events in ledger.events)
    )


def spent(
    ledger: Ledger, data: str, adversary: str = "other servers", server: int | None = None
) -> float:
    return ledger.row(data, adversary, server).epsilon


# The table


def test_the_six_lines():
    ledger = Ledger(((flip(), eta(), *sent(5)),))
    lines = ledger.rows()
    assert [(line.data, line.adversary) for line in lines] == [
        (data, adversary) for data in DATA for adversary in ADVERSARIES
    ]
    by_name = {(line.data, line.adversary): line for line in lines}
    for adversary in ("own server", "own and others together"):
        assert (by_name["label", adversary].epsilon, by_name["label", adversary].delta) == (
            1.0,
            0.0,
        )
        assert (by_name["features", adversary].epsilon, by_name["features", adversary].delta) == (
            inf,
            0.0,
        )
    for data in DATA:
        assert 0 < by_name[data, "other servers"].epsilon < 1
        assert by_name[data, "other servers"].delta == DELTA
    assert all(line.reason for line in lines)


def test_no_flip_means_no_label_privacy_against_the_own_server():
    ledger = Ledger(((eta(), *sent(5)),))
    assert (
        spent(ledger, "label", "own server")
        == spent(ledger, "label", "own and others together")
        == inf
    )
    assert spent(Ledger(((flip(inf), *sent(5)),)), "label", "own server") == inf


def test_repeated_reports_of_a_label_add_up():
    """One event stands for all labels of a server, at their largest ε; a second one is a second
    report of the same labels.
    """
    once = Ledger(((LabelFlipped(epsilon=0.5), *sent(1)),))
    thrice = Ledger(
        (
            (
                LabelFlipped(epsilon=0.5),
                LabelFlipped(epsilon=2.0),
                LabelFlipped(epsilon=1.0),
                *sent(1),
            ),
        )
    )
    assert spent(once, "label", "own server") == 0.5
    assert spent(thrice, "label", "own server") == 3.5
    assert spent(thrice, "label", "other servers") > spent(once, "label", "other servers")


def test_to_dict_is_json():
    """Strict JSON knows no infinity."""
    ledger = Ledger(
        ((flip(), eta(), *sent(5)), (flip(inf), *sent(5, stddev=0.0))), source="simulated"
    )
    summary = json.loads(json.dumps(ledger.to_dict(), allow_nan=False))
    assert (summary["source"], summary["delta"], len(summary["rows"])) == ("simulated", DELTA, 6)
    for line, expected in zip(summary["rows"], ledger.rows(), strict=True):
        assert line["epsilon"] == ("inf" if isinf(expected.epsilon) else expected.epsilon)
        for name in ("data", "adversary", "delta", "reason", "certainty"):
            assert line[name] == getattr(expected, name)


# The numbers against other servers


@given(st.floats(0.3, 3), st.floats(0.5, 0.99), st.floats(0.01, 0.2), st.integers(1, 30))
def test_all_rounds_are_one_gaussian_with_the_summed_ratio(stddev, decay, sensitivity, rounds):
    """μ² = D²/V² · (ρ^-T - 1)/(ρ^-1 - 1), a geometric series; labels were flipped before."""
    mu = sensitivity / stddev * sqrt((decay**-rounds - 1) / (1 / decay - 1))
    gaussian = profiles.gaussian_profile(mu)
    for data, own, profile in (
        ("features", "record", gaussian),
        ("label", "label", profiles.joint_profile(1.0, gaussian)),
    ):
        ledger = Ledger(
            ((flip(), *sent(rounds, stddev=stddev, decay=decay, **{own: sensitivity})),)
        )
        expected = profiles.epsilon_at(profile, DELTA)
        assert spent(ledger, data) == pytest.approx(expected, rel=1e-7, abs=1e-8) or isinf(expected)


def test_objective_noise_protects_no_features():
    """Differences of gradients cancel η (paper, Section IV-B)."""
    loud = eta(stddev=1e6)
    assert spent(Ledger(((loud, *sent(5)),)), "features") == spent(Ledger((sent(5),)), "features")
    assert spent(Ledger(((loud, *sent(5, stddev=0.0)),)), "features") == inf


@given(st.floats(0.1, 3), st.floats(0.005, 0.2), st.floats(0.005, 0.2))
def test_label_against_others_takes_the_better_route(epsilon, through_eta, through_theta):
    """Either route alone gives a valid bound, so that both together are never worse than the better
    one.
    """
    theta = sent(1, label=through_theta)
    both = spent(Ledger(((flip(epsilon), eta(shift=through_eta), *theta),)), "label")
    only_eta = spent(
        Ledger(((flip(epsilon), eta(shift=through_eta), *sent(1, stddev=0.0)),)), "label"
    )
    only_theta = spent(Ledger(((flip(epsilon), eta("none"), *theta),)), "label")
    assert both <= min(only_eta, only_theta) + 1e-9
    assert both <= epsilon
    if through_theta > 1.5 * through_eta:
        assert both == pytest.approx(only_eta, abs=1e-6)
    if through_eta > 1.5 * through_theta:
        assert both == only_theta
    exact = profiles.joint_profile(epsilon, profiles.gaussian_profile(through_theta))
    assert only_theta == pytest.approx(profiles.epsilon_at(exact, DELTA), abs=2e-9)


def test_objective_noise_counts_once_whatever_the_rounds():
    ledger = Ledger(((flip(), eta(shift=0.01), *sent(50)),))
    quiet = [
        spent(Ledger(((flip(), eta(shift=0.01), *sent(t, stddev=0.0)),)), "label")
        for t in (1, 10, 100)
    ]
    assert quiet[0] == quiet[1] == quiet[2] < 0.1
    assert spent(ledger, "label") == pytest.approx(quiet[0], abs=1e-9)


CASES = {
    "through eta": Ledger(
        ((flip(), eta(shift=0.1), *sent(5, stddev=10.0, label=5.0, record=1.0)),)
    ),
    "through theta": Ledger(((flip(), eta("none"), *sent(5)),)),
    "both": Ledger(((flip(), eta(), *sent(5)), (flip(0.4), eta(), *sent(5)))),
    "three classes": Ledger(((flip(), eta(), *sent(5)),), classes=3),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("data", DATA)
def test_half_the_noise_costs_more_and_double_costs_less(case, data):
    ledger = CASES[case]
    before = spent(ledger, data)
    assert 0 < before < inf
    assert spent(rescaled(ledger, 0.5), data) > before * 1.2
    assert spent(rescaled(ledger, 0.5, box=True), data) > before * 1.2
    assert spent(rescaled(ledger, 2.0, box=True), data) < before / 1.2


@pytest.mark.parametrize("case", ["through theta", "both", "three classes"])
@pytest.mark.parametrize("data", DATA)
def test_more_rounds_cost_more(case, data):
    ledger = replace(
        CASES[case],
        events=tuple((events[0], eta("none"), *sent(5)) for events in CASES[case].events),
    )
    longer = replace(ledger, events=tuple((*events[:2], *sent(10)) for events in ledger.events))
    assert spent(longer, data) > spent(ledger, data) * 1.2


def losses(ledger: Ledger, data: str) -> tuple[np.ndarray, np.ndarray]:
    """D_t and σ_t of the worst server's releases, read from the events alone."""
    each = []
    for events in ledger.events:
        out = [e for e in events if isinstance(e, IterateReleased)]
        moved = [e.record_sensitivity if data == "features" else e.label_sensitivity for e in out]
        each.append((np.array(moved), np.array([e.stddev for e in out])))
    return max(each, key=lambda one: float(((one[0] / one[1]) ** 2).sum()))


def divergence(moved: np.ndarray, stddev: np.ndarray, epsilon: float) -> float:
    """∫ max(0, p - e^ε q) of all releases together, by quadrature.

    p and q are products of N(0, σ_t²) and N(D_t, σ_t²): along D_t/σ_t they are one-dimensional, and
    across it they agree. No formula of `accounting` is used.
    """
    length = float(np.linalg.norm(moved / stddev))

    def gap(x: float) -> float:
        return max(0.0, norm.pdf(x) - exp(epsilon) * norm.pdf(x - length))

    bend = length / 2 - epsilon / length  # left of it p is the larger
    edges = [bend - 12, bend - 4, bend - 1, bend - 0.1, bend]
    return sum(quad(gap, low, high, epsabs=1e-14)[0] for low, high in pairwise(edges))


@pytest.mark.parametrize("factor", [0.5, 0.9])
@pytest.mark.parametrize("case", CASES)
def test_the_claimed_epsilon_is_broken_by_less_noise(case, factor):
    """Through θ alone: at the claimed ε the true divergence is δ; with less noise it is more."""
    ledger = CASES[case]
    only_theta = ([e for e in each if isinstance(e, IterateReleased)] for each in ledger.events)
    ledger = replace(ledger, events=tuple(map(tuple, only_theta)))
    claimed = spent(ledger, "features")
    assert divergence(*losses(ledger, "features"), claimed) == pytest.approx(DELTA, rel=1e-4)
    broken = divergence(*losses(rescaled(ledger, factor), "features"), claimed)
    assert broken > (10 if factor == 0.5 else 2) * DELTA
    assert spent(rescaled(ledger, factor), "features") > claimed  # and the ledger says so


def test_no_noise_is_infinite():
    silent = Ledger(((eta("none"), *sent(3, stddev=0.0)),))
    assert spent(silent, "features") == spent(silent, "label") == inf
    flipped = Ledger(((flip(), eta("none"), *sent(3, stddev=0.0)),))
    assert spent(flipped, "label") == pytest.approx(
        1.0, abs=2e-6
    )  # the randomised response alone, at δ = 1e-6
    late = Ledger(
        (
            (
                flip(),
                *sent(3),
                IterateReleased(t=4, stddev=0.0, label_sensitivity=0.1, record_sensitivity=0.1),
            ),
        )
    )
    assert spent(late, "features") == inf
    unbounded = Ledger(((flip(), *sent(3, record=inf)),))
    assert spent(unbounded, "features") == inf
    harmless = Ledger(((flip(), *sent(3, stddev=0.0, label=0.0, record=0.0)),))
    assert spent(harmless, "features") == spent(harmless, "label") == 0.0


def test_nothing_sent_is_nothing_learnt():
    ledger = Ledger(((flip(), eta("none")),))
    assert spent(ledger, "features") == spent(ledger, "label") == 0.0
    assert spent(ledger, "label", "own server") == 1.0


@given(st.floats(0.1, 3), st.floats(0.005, 0.3))
def test_three_classes_are_below_response_and_training_alone(epsilon, label):
    events = (flip(epsilon), eta("none"), *sent(1, label=label))
    alone = profiles.epsilon_at(profiles.gaussian_profile(label), DELTA)
    pure = profiles.epsilon_at(profiles.pure_profile(epsilon), DELTA)
    three = spent(Ledger((events,), classes=3), "label")
    joint = profiles.joint_profile(epsilon, profiles.gaussian_profile(label), 3)
    assert three == pytest.approx(profiles.epsilon_at(joint, DELTA), abs=2e-9)
    assert three <= min(pure, alone) + 2e-9
    assert three <= spent(Ledger((events,), classes=2), "label") + 1e-9


def test_the_worst_server_speaks():
    ledger = Ledger(
        (
            (flip(0.4), *sent(5)),
            (flip(2.0), *sent(5, stddev=2.0)),
            (flip(1.0), *sent(5, stddev=0.5)),
        )
    )
    for data in DATA:
        for adversary in ADVERSARIES:
            each = [spent(ledger, data, adversary, server) for server in range(3)]
            assert spent(ledger, data, adversary) == max(each)
    assert spent(ledger, "label", "own server", 1) == 2.0
    assert (
        spent(ledger, "features", server=2)
        > spent(ledger, "features", server=0)
        > spent(ledger, "features", server=1)
    )
    assert [line.epsilon for line in ledger.rows(1)] == [
        spent(ledger, data, who, 1) for data in DATA for who in ADVERSARIES
    ]


# As time goes by


def test_up_to_keeps_what_was_sent_until_then():
    ledger = Ledger(
        ((flip(), eta(), *sent(8)), (flip(0.5), eta(), *sent(8))),
        source="elsewhere",
        delta=1e-5,
        classes=3,
    )
    early = ledger.up_to(3)
    assert [len(events) for events in early.events] == [5, 5]
    assert all(
        e.t <= 3 for events in early.events for e in events if isinstance(e, IterateReleased)
    )
    assert (early.source, early.delta, early.classes) == ("elsewhere", 1e-5, 3)
    assert ledger.up_to(8) == ledger.up_to(100) == ledger
    assert spent(ledger.up_to(0), "features") == 0.0
    assert spent(ledger.up_to(0), "label", "own server") == 1.0


@given(
    st.lists(st.tuples(st.floats(0.3, 3), st.floats(0.01, 0.2)), min_size=1, max_size=4),
    st.floats(0.5, 0.95),
    st.integers(1, 6),
)
@settings(max_examples=40)
def test_feature_epsilons_are_the_lines_after_each_round(servers, decay, rounds):
    ledger = Ledger(
        tuple((flip(), eta(), *sent(rounds, stddev=v, record=d, decay=decay)) for v, d in servers)
    )
    each = ledger.epsilons("features")
    assert each == pytest.approx(
        [spent(ledger.up_to(t), "features") for t in range(1, rounds + 1)], rel=1e-8, abs=1e-9
    )
    assert each == sorted(each)


def test_feature_epsilons_without_noise_or_rounds():
    assert Ledger(((flip(),),)).epsilons("features") == []
    assert Ledger((sent(2), sent(2, stddev=0.0))).epsilons("features") == [inf, inf]
    assert Ledger((sent(2, stddev=0.0, record=0.0),)).epsilons("features") == [0.0, 0.0]


# What the ledger refuses


@dataclass(frozen=True)
class Photographed:
    """A release the ledger has never heard of."""


def test_unknown_events_and_rows_are_refused():
    ledger = Ledger(((flip(), eta(), *sent(2), Photographed()),))
    for ask in (
        ledger.rows,
        ledger.to_dict,
        lambda: ledger.row("label", "own server"),
        lambda: ledger.profile("features", "other servers", 0),
    ):
        with pytest.raises(InvalidInput, match="does not know the event Photographed"):
            ask()
    for data, adversary in (("labels", "other servers"), ("label", "others")):
        with pytest.raises(InvalidInput, match="the ledger has rows for"):
            Ledger((sent(2),)).profile(data, adversary, 0)


# Plans and their events

PLAN = TrainingPlan(
    rounds=4, regularization=0.5, penalty=0.3, objective_bound=3.0, noise_scale=0.7, noise_decay=0.8
)


def planned(plan: TrainingPlan = PLAN, **changes):
    if "epsilon" in changes:
        changes["epsilons"] = (changes.pop("epsilon"),)
    spec = ServerSpec(server=0, n_servers=3, degree=2, records=40, epsilons=(1.0,), width=6)
    return plan.events(replace(spec, **changes))


@given(
    st.floats(1e-9, 1.0),
    st.sampled_from([2, 4]),
    st.floats(0.1, 5),
    st.integers(1, 500),
    st.integers(1, 6),
    st.floats(0.2, 3),
)
def test_sensitivities_hold_the_solvers_tolerance(
    tolerance, classes, epsilon, records, degree, bound
):
    """(shift/m + 2·tolerance)/μ_i, μ_i = a/n + 2βN_i: an inexact argmin may be off by tolerance/μ_i
    on either side.
    """
    plan = replace(PLAN, tolerance=tolerance)
    _, *releases = planned(
        plan, classes=classes, epsilon=epsilon, records=records, degree=degree, norm_bound=bound
    )
    ridge = 0.5 / 3 + 2 * 0.3 * degree
    loss = plan.loss_for(classes)
    for event in releases:
        label = (
            labels.label_shift(epsilon, bound, loss, classes) / records + 2 * tolerance
        ) / ridge
        record = (
            labels.record_shift(epsilon, bound, loss, classes) / records + 2 * tolerance
        ) / ridge
        grid = rounding_shift(6 * (1 if classes == 2 else classes))
        assert (event.label_sensitivity, event.record_sensitivity) == pytest.approx(
            (label + grid, record + grid), rel=1e-9
        )
    none = planned(
        replace(plan, tolerance=1e-300),
        classes=classes,
        epsilon=epsilon,
        records=records,
        degree=degree,
        norm_bound=bound,
    )
    assert releases[0].record_sensitivity - none[1].record_sensitivity == pytest.approx(
        2 * tolerance / ridge, rel=1e-6
    )


def test_the_default_tolerance_costs_two_percent():
    loose, exact = planned(), planned(replace(PLAN, tolerance=1e-300))
    assert loose[1].record_sensitivity == pytest.approx(
        1.02 * exact[1].record_sensitivity, rel=1e-12
    )


def test_planned_events():
    first, *releases = planned(replace(PLAN, noise_scale=(0.1, 0.2, 0.3)), server=2, classes=5)
    assert [e.t for e in releases] == [1, 2, 3, 4]
    assert [e.stddev**2 for e in releases] == pytest.approx(
        [0.09 * 0.8 ** (t - 1) for t in range(1, 5)], rel=1e-12
    )
    assert (first.kind, first.bound, first.stddev, first.size, first.n_servers) == (
        "truncated_gaussian",
        3.0,
        0.5,
        30,
        3,
    )
    assert planned()[0].size == 6
    assert planned()[0].label_shift == pytest.approx(
        labels.label_shift(1.0, 1.0, LOGISTIC, 2) / 40, rel=1e-12
    )
    assert all(isinf(e.record_sensitivity) for e in planned(replace(PLAN, loss="square"))[1:])


def test_theory_example_label_through_eta():
    """μ = nκB/(m·σ_η): theory, section 3."""
    first = planned()[0]
    mu = 3 * (1 / np.tanh(0.5)) / (40 * 0.5)
    assert objective_profile(first)(0.5) == pytest.approx(
        profiles.gaussian_profile(mu)(0.5), rel=1e-5
    )


@pytest.mark.parametrize("source", [Simulated(1), Secure()], ids=lambda source: source.name)
def test_events_claim_the_noise_that_is_drawn(source):
    """False alarm 1e-9 per check; half, double and the variance are rejected."""
    plan = replace(PLAN, noise_scale=(0.1, 0.7, 0.3))
    first, *releases = planned(plan, server=1)
    noise = {first.stddev: plan.objective().draw((1, 20_000), source.stream(OBJECTIVE, 1))}
    stream = source.stream(ITERATES, 1)
    for event in releases:
        noise[event.stddev] = plan.iterates(1, 3).draw(event.t, np.empty((1, 20_000)), stream)
    assert len(noise) == 5
    for stddev, sample in noise.items():
        assert has_variance(sample, stddev**2)
        wrong = (stddev / 2, 2 * stddev, stddev**2, sqrt(stddev))
        assert not any(has_variance(sample, other**2) for other in wrong)


@given(
    arrays(float, (4, 3), elements=st.floats(-1, 1)),
    arrays(float, 3, elements=st.floats(-1, 1)),
    st.sampled_from([("logistic", 2), ("matsushita", 2), ("logistic", 3)]),
    st.floats(0.2, 5),
    st.sampled_from([1e-9, 0.05]),
    st.data(),
)
@settings(max_examples=60)
def test_a_real_server_stays_within_its_planned_sensitivities(
    raw, other, kind, epsilon, tolerance, data
):
    """Change one reported label, or one whole record, of four: after the same past, the next
    release moves as its event says.
    """
    name, classes = kind
    plan = replace(PLAN, loss=name, noise_scale=0.0, objective_bound=0.0, tolerance=tolerance)
    shape = (1 if classes == 2 else classes, 3)
    past, dual, heard = (
        data.draw(arrays(float, shape, elements=st.floats(-5, 5))) for _ in range(3)
    )
    x = raw / np.maximum(1, np.linalg.norm(raw, axis=1))[:, None]
    y = np.array([data.draw(st.integers(0, classes - 1)) for _ in x])
    new_x = np.vstack([other / max(1.0, float(np.linalg.norm(other))), x[1:]])
    new_y = np.array([(y[0] + 1) % classes, *y[1:]])

    def released(x, y):
        server = make_server(
            Graph.complete(3),
            0,
            x,
            labels.codes(y, epsilon, classes),
            epsilons=(epsilon,),
            classes=classes,
        )
        return Node(server, plan, Simulated(1)).step(NodeState(1, past, dual), [heard, -heard / 2])[
            1
        ]

    event = planned(plan, records=4, epsilon=epsilon, width=3, classes=classes)[2]
    before = released(x, y)
    assert np.linalg.norm(released(x, new_y) - before) <= event.label_sensitivity * (1 + 1e-9)
    assert np.linalg.norm(released(new_x, new_y) - before) <= event.record_sensitivity * (1 + 1e-9)
    assert np.linalg.norm(released(new_x, y) - before) <= event.record_sensitivity * (1 + 1e-9)


# Findings


@pytest.mark.parametrize("second", [eta(shift=0.1), eta("none")])
def test_a_second_training_on_the_same_labels_costs_more(second):
    once = Ledger(((flip(), eta(shift=0.1), *sent(3, label=5.0)),))
    twice = Ledger(((flip(), eta(shift=0.1), *sent(3, label=5.0), second, *sent(3, label=5.0)),))
    assert spent(twice, "label") > spent(once, "label") * 1.2


@pytest.mark.parametrize(("epsilon", "classes"), [(inf, 2), (30.0, 2), (30.0, 3)])
def test_objective_noise_protects_labels_whatever_their_flips(epsilon, classes):
    ledger = Ledger(((flip(epsilon), eta(shift=0.1), *sent(3, stddev=0.0)),), classes=classes)
    assert spent(ledger, "label") < 0.45


def test_noise_that_faded_away_is_infinite():
    """σ underflows to 0 before round 700: nothing overflows, and nothing is claimed then."""
    plan = replace(PLAN, rounds=700, noise_decay=0.1, noise_scale=1e-3, objective_noise="none")
    events = planned(plan)
    assert events[-1].stddev == 0 < events[320].stddev
    ledger = Ledger(((flip(inf), *events),))
    assert spent(ledger, "features") == spent(ledger, "label") == inf
    each = ledger.epsilons("features")
    assert len(each) == 700 and each[0] < inf and set(each[320:]) == {inf}


def test_feature_epsilons_remember_a_server_that_stopped():
    ledger = Ledger((sent(1, stddev=0.1), sent(3)))
    assert ledger.epsilons("features") == pytest.approx(
        [spent(ledger.up_to(t), "features") for t in (1, 2, 3)], rel=1e-8
    )


def test_feature_epsilons_refuse_unknown_events():
    with pytest.raises(InvalidInput):
        Ledger(((*sent(2), Photographed()),)).epsilons("features")


def test_unknown_rows_are_refused_by_line():
    with pytest.raises(InvalidInput):
        Ledger((sent(2),)).row("labels", "own server")


def test_others_never_learn_more_than_the_own_server():
    ledger = Ledger(((flip(300.0), *sent(2, stddev=0.0)),))
    assert spent(ledger, "label") <= spent(ledger, "label", "own server")


def test_without_delta_features_are_unprotected():
    assert spent(Ledger((sent(3),), delta=0.0), "features") == inf
