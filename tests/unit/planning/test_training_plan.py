"""The plan: every letter of the paper, checked, and what it will spend."""

import math
from copy import copy
from importlib import import_module
from math import sqrt

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from pdml.accounting import Budget
from pdml.accounting.events import IterateReleased, ObjectiveNoised
from pdml.errors import InvalidInput
from pdml.mechanisms import integer_gaussian
from pdml.mechanisms.objective_noise import UNIFORM_BOX, NoiseFamily
from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX, Loss
from pdml.planning.plan_file import SavedPlan
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import LEAST_UNITS, TrainingPlan

WRONG = {
    "rounds": [0, -1, 1.5, True, "3"],
    "regularization": [0, -1, math.nan, math.inf, "a"],
    "penalty": [0, -0.1, math.nan],
    "objective_bound": [-1, math.nan, math.inf],
    "objective_noise": ["gaussian", None],
    "noise_scale": [-1, math.nan, (0.1, -0.1)],
    "noise_decay": [0, 1, 1.2, math.nan],
    "tolerance": [0, -1e-9, math.nan],
    "loss": ["hinge", 3],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_values_outside_their_domain_are_refused_by_name(name, value):
    with pytest.raises(InvalidInput, match=f"^{name} must"):
        TrainingPlan(**{name: value})


def test_the_reason_is_given():
    with pytest.raises(
        InvalidInput,
        match=r"noise_decay must .*, got 1\.2: the iterate noise must fade \(Theorem 1\)",
    ):
        TrainingPlan(noise_decay=1.2)


def test_noise_fades_by_rho_in_variance():
    noise = TrainingPlan(noise_scale=0.5, noise_decay=0.8).iterates(0, 3)
    assert noise.stddev(1) == 0.5
    assert noise.stddev(5) ** 2 == pytest.approx(0.8**4 * 0.25)


def test_one_noise_scale_per_server():
    plan = TrainingPlan(noise_scale=[0.1, 0.2, 0.3])
    assert [plan.iterates(i, 3).scale for i in range(3)] == [0.1, 0.2, 0.3]
    with pytest.raises(InvalidInput, match=r"one per server \(4 of them\), got 3"):
        plan.iterates(0, 4)


def test_ridge_is_the_strong_convexity_of_the_primal_problem():
    assert TrainingPlan(regularization=0.5, penalty=0.1).ridge(3, 10) == pytest.approx(0.05 + 0.6)


def test_default_tolerance_is_one_percent_of_what_a_record_can_do():
    kappa = 1 / math.tanh(0.5)
    spec = ServerSpec(server=0, n_servers=10, degree=2, records=4500, epsilons=(1.0, 3.0), width=5)
    assert TrainingPlan().tolerance_for(spec) == pytest.approx(0.01 * (1 + kappa) / 4500)
    assert TrainingPlan(tolerance=1e-7).tolerance_for(spec) == 1e-7


def test_events_are_known_before_the_run():
    plan = TrainingPlan(
        rounds=3,
        regularization=0.1,
        penalty=0.2,
        objective_bound=6.0,
        noise_scale=0.5,
        noise_decay=0.9,
        tolerance=1e-4,
    )
    spec = ServerSpec(server=0, n_servers=5, degree=2, records=100, epsilons=(1.0, 2.0), width=7)
    first, *sent = plan.events(spec)
    kappa, ridge = 1 / math.tanh(0.5), 0.1 / 5 + 2 * 0.2 * 2
    assert isinstance(first, ObjectiveNoised)
    assert (first.stddev, first.size, first.n_servers) == (1.0, 7, 5)
    assert first.label_shift == pytest.approx(kappa / 100)
    assert [event.t for event in sent] == [1, 2, 3]
    for event in sent:
        assert isinstance(event, IterateReleased)
        assert event.stddev == pytest.approx(0.5 * 0.9 ** ((event.t - 1) / 2))
        assert event.record_sensitivity == pytest.approx(((1 + kappa) / 100 + 2e-4) / ridge)
        assert event.label_sensitivity == pytest.approx((kappa / 100 + 2e-4) / ridge)


def test_square_loss_claims_nothing_for_features():
    spec = ServerSpec(server=0, n_servers=2, degree=1, records=10, epsilons=(1.0,), width=3)
    *_, last = TrainingPlan(loss="square").events(spec)
    assert isinstance(last, IterateReleased)
    assert last.record_sensitivity == math.inf
    assert last.label_sensitivity < math.inf


def test_many_classes_mean_softmax():
    assert TrainingPlan().loss_for(3) is SOFTMAX
    with pytest.raises(InvalidInput, match="softmax is its only form"):
        TrainingPlan(loss="square").loss_for(3)


def test_round_trip():
    plan = TrainingPlan(noise_scale=(0.1, 0.2), tolerance=1e-6)
    assert TrainingPlan.from_dict(plan.to_dict()) == plan
    with pytest.raises(InvalidInput, match="a plan has no setting 'epsilon'"):
        TrainingPlan.from_dict({"epsilon": 1})


def test_settings_of_the_other_method_are_refused():
    with pytest.raises(InvalidInput, match="penalty must be left out with method 'sums'"):
        TrainingPlan(method="sums", penalty=0.5)
    with pytest.raises(InvalidInput, match="colluding must be left out with method 'rounds'"):
        TrainingPlan(colluding=2)
    with pytest.raises(InvalidInput, match="rounds must be 1 with method 'sums', got 7"):
        TrainingPlan(method="sums", rounds=7)
    with pytest.raises(InvalidInput, match="colluding must be below the number of servers, 3"):
        TrainingPlan(method="sums", colluding=3).sum_stddevs(3)


def test_a_plan_says_what_its_method_needs_and_comes_back():
    """A plan of rounds says what it always did: the digests of old contracts rest on it."""
    assert set(TrainingPlan().to_dict()) == {
        "rounds",
        "regularization",
        "penalty",
        "objective_bound",
        "objective_noise",
        "noise_scale",
        "noise_decay",
        "tolerance",
        "loss",
    }
    plan = TrainingPlan(method="sums", label_noise=2.0, colluding=3)
    assert plan.rounds == 1
    assert TrainingPlan.from_dict(plan.to_dict()) == plan


def total_delta(stddev: float, servers: int, shift: int, epsilon: float) -> float:
    """The true δ of a total to which every server adds rounded noise, all in units of the grid."""
    units = np.arange(-(2**14), 2**14)
    one = norm.cdf((units + 0.5) / stddev) - norm.cdf((units - 0.5) / stddev)
    total = np.fft.irfft(np.fft.rfft(np.fft.ifftshift(one)) ** servers)
    total = np.fft.fftshift(np.clip(total, 0, None))
    return float(np.clip(np.roll(total, shift) - np.exp(epsilon) * total, 0, None).sum())


def claimed_epsilon(stddev: float, servers: int, shift: int) -> float:
    """What is counted for it at δ = 1e-6: a Gaussian's."""
    mu = shift / (stddev * sqrt(servers))

    def excess(epsilon):
        near, far = norm.cdf(mu / 2 - epsilon / mu), norm.cdf(-mu / 2 - epsilon / mu)
        return near - np.exp(epsilon) * far - 1e-6

    return float(brentq(excess, 0, 50))


@pytest.mark.parametrize("servers", [3, 1000])
def test_masked_noise_as_fine_as_the_grid_protects_less_and_is_refused(servers):
    """From the least on, noise in units is as good as the Gaussian that is counted, and half of it
    is told apart; of a fifth of a unit a thousand servers' is not.
    """
    shift = round(0.5 * LEAST_UNITS * sqrt(servers))
    epsilon = claimed_epsilon(LEAST_UNITS, servers, shift)
    assert total_delta(LEAST_UNITS, servers, shift, epsilon) <= 1e-6
    assert total_delta(LEAST_UNITS / 2, servers, shift, epsilon) > 1e-4
    assert total_delta(0.2, 1000, 3, claimed_epsilon(0.2, 1000, 3)) > 1e-4

    least = LEAST_UNITS * integer_gaussian.UNIT * sqrt(servers - 1)
    sums = {"method": "sums", "colluding": 1}
    for setting in ("label_noise", "square_noise"):
        with pytest.raises(InvalidInput, match=f"{setting} of masked sums must be 0 or at least"):
            TrainingPlan(**sums, **{setting: least * 0.999}).sum_stddevs(servers)
        TrainingPlan(**sums, **{setting: least * 1.001}).sum_stddevs(servers)
    TrainingPlan(**sums, label_noise=0.0, square_noise=0.0).sum_stddevs(servers)


def own_loss(name="cosh"):
    return Loss(
        name=name,
        label_weight=1.0,
        slope_bound=1.0,
        curvature_bound=1.0,
        third_bound=4 / (3 * np.sqrt(3)),
        value=lambda z: np.logaddexp(z, -z)[..., 0] - np.log(2),
        slope=np.tanh,
        curvature=lambda z: (1 - np.tanh(z) ** 2)[..., None],
    )


@pytest.fixture
def own_names(monkeypatch):
    """What a test registers, other tests do not have."""
    for registry in ("numerics.admm.losses.BINARY", "mechanisms.objective_noise.FAMILIES"):
        module, name = f"pdml.{registry}".rsplit(".", 1)
        monkeypatch.setattr(f"{module}.{name}", copy(getattr(import_module(module), name)))


def test_a_plan_takes_a_loss_of_ones_own_and_reads_it_back(own_names):
    plan = TrainingPlan(loss=own_loss(), rounds=3)
    assert plan.loss_for(2) == plan.loss
    assert plan.to_dict()["loss"] == "cosh" and "cosh" in str(plan.sheet())
    assert TrainingPlan.from_dict(plan.to_dict()) == plan
    with pytest.raises(InvalidInput, match="loss must be 'logistic' for 3 classes, got 'cosh'"):
        plan.loss_for(3)
    with pytest.raises(InvalidInput, match="a name of its own, got 'square'"):
        TrainingPlan(loss=own_loss("square"))
    assert TrainingPlan(loss=LOGISTIC) == TrainingPlan()


def test_what_others_cannot_know_stays_in_this_process(own_names, tmp_path):
    family = NoiseFamily(name="mine", draw=UNIFORM_BOX.draw, hides=UNIFORM_BOX.hides)
    for settings in ({"loss": own_loss()}, {"objective_noise": family}):
        (setting,) = settings
        plan = TrainingPlan(**settings)
        with pytest.raises(InvalidInput, match=f"{setting} must be a built-in one between"):
            plan.check_shared()
        saved = SavedPlan(plan=plan, links=((0, 1),), budget=Budget())
        with pytest.raises(InvalidInput, match=f"{setting} must be a built-in one between"):
            saved.save(tmp_path / "plan.json")
        assert not (tmp_path / "plan.json").exists()
    TrainingPlan().check_shared()


@pytest.mark.parametrize("plan", [TrainingPlan(), TrainingPlan(method="sums")])
def test_files_hold_plain_strings(plan):
    """No enum reaches a file by its own name."""
    words = [value for value in plan.to_dict().values() if isinstance(value, str)]
    assert words and {type(word) for word in words} == {str}
    assert set(words) <= {"logistic", "truncated_gaussian", "sums"}
