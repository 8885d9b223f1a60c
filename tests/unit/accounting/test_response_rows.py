"""The features line with the device's randomised response: real records through the real sums,
response and noise, as one mixture of Gaussians, never tell more than the ledger says.
"""

from dataclasses import replace
from math import exp, hypot, inf, sqrt

import numpy as np
import pytest
from scipy.stats import norm

from pdml.accounting import Budget, Ledger, Reports, bounds, profiles
from pdml.accounting.bounds import response_profile
from pdml.accounting.events import IterateReleased, LabelFlipped, ObjectiveNoised, SumsReleased
from pdml.mechanisms.randomness import Simulated
from pdml.numerics.admm import labels
from pdml.numerics.admm.losses import LOGISTIC
from pdml.numerics.sums import statistics
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.training.server import Node, NodeState, Server

DELTA = 1e-6
RECORDS, WIDTH = 8, 2
SPEC = ServerSpec(server=0, n_servers=4, degree=2, records=RECORDS, epsilons=(1.0,), width=WIDTH)
DRAWS = 200_000
SEEN = 0.02  # δ at which divergences are compared: enough draws fall where they differ


def direction(angle: float) -> np.ndarray:
    return np.array([np.cos(angle), np.sin(angle)])


def centre(record: np.ndarray, said: int, epsilon: float, event: SumsReleased) -> np.ndarray:
    """Q and S of a server whose first record and reported class are given, in units of noise."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(RECORDS, WIDTH))
    x /= np.linalg.norm(x, axis=1)[:, None]
    answers = rng.integers(0, 2, RECORDS)
    x[0], answers[0] = record, said
    own = statistics.exact(x, labels.codes(answers, epsilon, 2), LOGISTIC)
    across = own.square_sum[np.triu_indices(WIDTH)] * np.array([1, sqrt(2), 1])
    return np.concatenate(
        [own.label_sum.ravel() / event.label_stddev, across / event.square_stddev]
    )


def divergence(first, second, weights, target: float) -> tuple[float, float]:
    """∫ max(0, p - e^ε q) of two mixtures of unit Gaussians, and its standard error."""
    rng = np.random.default_rng(7)
    which = rng.choice(len(weights), DRAWS, p=weights)
    at = first[which] + rng.normal(size=(DRAWS, first.shape[1]))

    def density(centres):
        far = ((at[:, None, :] - centres[None]) ** 2).sum(axis=2)
        return np.exp(-far / 2) @ weights

    gained = np.maximum(0.0, 1 - exp(target) * density(second) / density(first))
    return float(gained.mean()), float(gained.std() / sqrt(DRAWS))


def worst(epsilon: float, event: SumsReleased, target: float, **slips) -> float:
    """Of pairs of records at all angles, what the noisy sums tell of which one it is."""
    response, noise = slips.get("response", epsilon), slips.get("noise", 1.0)
    keep = 1 / (1 + exp(-response))
    quiet = replace(
        event, label_stddev=noise * event.label_stddev, square_stddev=noise * event.square_stddev
    )
    found = []
    for angle in np.linspace(0.1, 1, 10) * np.pi:
        each = [
            np.array([centre(x, said, epsilon, quiet) for said in (1, 0)])
            for x in (direction(0.3), direction(0.3 + angle))
        ]
        output, error = divergence(*each, np.array([keep, 1 - keep]), target)
        found.append(output - 4 * error)
    return max(found)


@pytest.mark.parametrize("epsilon", [0.4, 1.0, 2.0])
def test_no_pair_of_real_records_tells_more_than_the_line(epsilon):
    """Four standard errors: a false alarm in 10⁴ for each of ten angles. Half the noise, and a
    response of twice the ε, are seen."""
    spec = replace(SPEC, epsilons=(epsilon,))
    plan = TrainingPlan(method="sums", label_noise=0.4, square_noise=0.8)
    (event,) = plan.events(spec)
    profile = Ledger(((spec.flip(), event),)).profile("features", "other servers", 0)
    target = profiles.epsilon_at(profile, SEEN)
    assert worst(epsilon, event, target) <= SEEN
    assert worst(epsilon, event, target, noise=0.5) > SEEN
    assert worst(epsilon, event, target, response=2 * epsilon) > SEEN
    closed = profiles.gaussian_profile(
        hypot(event.record_shift / event.label_stddev, event.square_shift / event.square_stddev)
    )
    assert target < 0.95 * profiles.epsilon_at(closed, SEEN)


def test_a_second_exchange_shows_the_same_response():
    """Two exchanges of one response tell more than two of a response each would: the ledger counts
    what is true."""
    epsilon, plan = 1.0, TrainingPlan(method="sums", label_noise=0.5, square_noise=5.0)
    (event,) = plan.events(SPEC)
    book = Ledger(((SPEC.flip(), event, event),))
    target = profiles.epsilon_at(book.profile("features", "other servers", 0), SEEN)
    keep = 1 / (1 + exp(-epsilon))
    output = {"one response": [], "a response each": []}
    for angle in np.linspace(0.4, 1, 4) * np.pi:
        pairs = [
            np.array([centre(x, said, epsilon, event) for said in (1, 0)])
            for x in (direction(0.0), direction(angle))
        ]
        same = [np.hstack([each, each]) for each in pairs]
        fresh = [
            np.array([np.hstack([one, other]) for one in each for other in each]) for each in pairs
        ]
        chances = np.array([keep, 1 - keep])
        for name, both, weights in (
            ("one response", same, chances),
            ("a response each", fresh, np.outer(chances, chances).ravel()),
        ):
            found, error = divergence(*both, weights, target)
            output[name].append((found - 4 * error, found + 4 * error))
    assert max(low for low, _ in output["one response"]) <= SEEN
    assert max(low for low, _ in output["one response"]) > 0.8 * SEEN
    assert max(high for _, high in output["a response each"]) < 0.8 * SEEN


def test_arguments_of_the_response_profile():
    """The line is that of the plan's own sizes: Q moves by 2cB/κ, S by √2·B²/κ²."""
    plan = TrainingPlan(method="sums", label_noise=3.0, square_noise=4.0)
    for k, spec in ((None, SPEC), (1, SPEC), (3, replace(SPEC, epsilons=(0.5,)))):
        masked = plan if k is None else replace(plan, colluding=2)
        kappa = 1 / np.tanh(spec.epsilon / 2)
        share = 1.0 if k is None else sqrt((4 - k) / 2)
        known = response_profile(
            spec.epsilon,
            1 / kappa / 3.0 / share,
            0.0,
            square_mu=sqrt(2) / kappa**2 / 4.0 / share,
        )
        book = Ledger(((spec.flip(), *masked.events(spec)),), delta=DELTA)
        line = book.row("features", "other servers", colluding=k)
        assert line.epsilon == pytest.approx(profiles.epsilon_at(known, DELTA), rel=2e-3)
        assert "with the device's randomised response" in line.reason


ROUNDS = TrainingPlan(rounds=12, objective_bound=1.2, noise_scale=1.0)
PEOPLE = replace(SPEC, records=400, width=6)


def test_rounds_count_the_label_part_once():
    """q moves by κB/m, hidden by η; what remains is g and the solver, hidden by θ in every round;
    truncation keeps its term, twice."""
    flip, noised, *sent = PEOPLE.flip(), *ROUNDS.events(PEOPLE)
    line = Ledger(((flip, noised, *sent),), delta=DELTA).row("features", "other servers")
    rest = sqrt(
        sum(
            ((e.record_sensitivity - e.label_sensitivity + e.solver_slack) / e.stddev) ** 2
            for e in sent
        )
    )
    own = 4 * (noised.label_shift - noised.fixed_shift) / noised.stddev
    off = 4 * noised.fixed_shift / noised.stddev
    bare = response_profile(1.0, own, rest, rounding_mu=off)
    strip = 2 * sqrt(6) * (norm.cdf(own + off - 6) - norm.cdf(-6))
    outside = -np.expm1(6 * np.log1p(-2 * norm.cdf(-6)))

    def known(target):
        return (bare(target) + strip) / (1 - outside)

    assert line.epsilon == pytest.approx(profiles.epsilon_at(known, DELTA), rel=1e-6)
    assert line.reason == "label part counted once, with the device's randomised response"
    without = Ledger(((replace(flip, epsilon=inf, epsilons=()), noised, *sent),), delta=DELTA)
    assert line.epsilon < 0.98 * without.row("features", "other servers").epsilon


@pytest.mark.parametrize("tolerance", [1e-9, 0.02])
def test_given_the_noisy_vector_a_real_server_moves_by_no_more_than_the_rest(tolerance):
    """The same q - η/n, another record: the iterate moves by g's part and the solver's slack, not
    by the label's, whatever was heard."""
    plan = TrainingPlan(rounds=2, noise_scale=0.0, objective_bound=0.0, tolerance=tolerance)
    rng, largest = np.random.default_rng(1), 0.0
    _, first, _ = plan.events(replace(SPEC, width=3))
    rest = first.record_sensitivity - first.label_sensitivity + first.solver_slack
    for _ in range(60):
        x = rng.normal(size=(RECORDS, 3))
        x /= np.linalg.norm(x, axis=1)[:, None]
        other = x.copy()
        other[0] = -x[0] if rng.random() < 0.3 else rng.permutation(x[0])
        said = labels.codes(rng.integers(0, 2, RECORDS), 1.0, 2)
        past, dual, heard = rng.normal(size=(3, 1, 3)) * 10 ** rng.uniform(-1, 2)
        spec, linear = replace(SPEC, width=3), rng.normal(size=(1, 3))

        def moved(matrix, spec=spec, said=said, linear=linear, past=past, dual=dual, heard=heard):
            node = Node(Server(spec, matrix, said), plan, Simulated(1), linear=linear)
            return node.step(NodeState(1, past, dual), [heard, -heard])[1]

        largest = max(largest, float(np.linalg.norm(moved(x) - moved(other))))
    assert 0.1 * rest < largest <= rest * (1 + 1e-9)


def test_where_randomised_response_counts_for_nothing():
    """Several reports are randomised several times, more classes otherwise, uniform noise and none
    hide no label's part: there a record counts in every round, or once without the response."""
    flip, noised, *sent = PEOPLE.flip(), *ROUNDS.events(PEOPLE)
    (exchange,) = TrainingPlan(method="sums").events(PEOPLE)
    twice = (flip, LabelFlipped(epsilon=0.5))
    cases = {
        "two reports": ((*twice, noised, *sent), 2),
        "two reports and sums": ((*twice, exchange), 2),
        "three classes": ((flip, noised, *sent), 3),
        "uniform": ((flip, replace(noised, kind="uniform_ball"), *sent), 2),
        "none": ((flip, replace(noised, kind="none", bound=0.0), *sent), 2),
    }
    for name, (events, classes) in cases.items():
        line = Ledger((events,), classes=classes).row("features", "other servers")
        assert "the device's randomised response" not in line.reason, name
        bare = tuple(e for e in events if not isinstance(e, LabelFlipped))
        alone = Ledger((bare,), classes=classes).row("features", "other servers")
        assert line.epsilon >= alone.epsilon * (1 - 1e-9), name
    true = (replace(flip, epsilon=inf, epsilons=()), exchange)
    reason = Ledger((true,)).row("features", "other servers").reason
    assert "the device's randomised response" not in reason


@pytest.mark.parametrize(
    ("noise", "label"),
    [
        ({"bound": 1e-12, "stddev": 1.0, "size": 5}, 1.0),
        ({"bound": 1e-12, "stddev": 1.0, "size": 5, "label_shift": 1e-12}, 3.0),
        ({"bound": 1e-14, "stddev": 1.0, "size": 5, "fixed_shift": 1e-14}, 3.0),
        ({"bound": 6.0, "stddev": 1.0, "size": 10**11}, 3.0),
    ],
)
def test_noise_of_which_truncation_leaves_nothing_protects_nothing(noise, label):
    """All mass lies outside: there is no bound with the response, and no division by what is left."""
    event = ObjectiveNoised(
        **{"kind": "truncated_gaussian", "n_servers": 2, "label_shift": 1e-14, "fixed_shift": 0.0}
        | noise
    )
    sent = IterateReleased(
        t=1, stddev=1.0, label_sensitivity=label, record_sensitivity=label, solver_slack=0.0
    )
    with_noise, without = (
        Ledger(((LabelFlipped(epsilon=1.0), *events),)) for events in ((event, sent), (sent,))
    )
    assert with_noise._exposure().response.outside == 1.0
    for data in ("label", "features"):
        row = with_noise.row(data, "other servers")
        assert row == without.row(data, "other servers")
        assert with_noise.profile(data, "other servers", 0)(inf) == 0.0
    assert not with_noise.keeps(Budget(features_epsilon=0.99 * row.epsilon))


def test_many_people_share_tables_that_cover_them():
    """Each of forty has a line of a few tables: not below that of a table of their own, nor above that
    of people a little less private; the worst one's is the server's."""
    menu = np.linspace(0.5, 2.0, 40)
    spec = replace(PEOPLE, epsilons=tuple(menu))
    plan = TrainingPlan(method="sums", label_noise=2.0, square_noise=4.0)
    reports = Reports(np.zeros(40, dtype=np.int64), menu, np.ones(40))
    book = Ledger(((spec.flip(), *plan.events(spec)),), reports=reports)
    lines = book.person_rows().features_other_servers
    assert lines.max() == pytest.approx(book.row("features", "other servers").epsilon, rel=1e-6)
    for j in (0, 17, 36):
        near = []
        for epsilon in (menu[j], menu[j + 3]):
            own = replace(spec, epsilons=(float(epsilon),))
            alone = Ledger(((own.flip(), *plan.events(own)),))
            near.append(alone.row("features", "other servers").epsilon)
        assert near[0] * (1 - 2e-3) <= lines[j] <= near[1]


def test_servers_that_are_covered_by_others_do_not_change_the_line():
    plan = TrainingPlan(rounds=6, objective_bound=1.0, noise_scale=1.0)
    places = [replace(PEOPLE, records=m, degree=n) for m in (200, 300, 500) for n in (1, 2)]
    book = Ledger(tuple((spec.flip(), *plan.events(spec)) for spec in places))
    each = [book.row("features", "other servers", i).epsilon for i in range(len(places))]
    assert book.row("features", "other servers").epsilon == pytest.approx(max(each), rel=1e-9)


def test_a_covering_never_lowers_anything():
    rng = np.random.default_rng(0)
    each = rng.uniform(size=(7, 60))
    each[:, 30:45] = each[:, :15]
    for worst_only in (True, False):
        covered = bounds._covered(each, worst_only)
        assert (covered >= each).all()
        assert len(np.unique(covered, axis=1).T) <= 16
    few = each[:, :5]
    np.testing.assert_array_equal(bounds._covered(few, False), few)
