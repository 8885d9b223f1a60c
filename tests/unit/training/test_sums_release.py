"""One exchange of sums: what is released is the exact sums and noise of the stated size."""

from math import inf, sqrt

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chi2
from servers import make_server

from pdml._threads import single_thread
from pdml.errors import InvalidInput
from pdml.mechanisms import integer_gaussian, masks
from pdml.mechanisms.randomness import source_named
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.numerics.sums.local_model import fit_by_own_reports
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine, sums_release

WIDTH, RECORDS = 9, 40


def servers(n=3, classes=2, epsilon=1.0):
    rng = np.random.default_rng(7)
    graph = Graph(n, tuple((i, j) for i in range(n) for j in range(i)))
    for i in range(n):
        x = rng.normal(size=(RECORDS, WIDTH)) / 10
        said = rng.integers(0, classes, RECORDS)
        codes = labels.codes(said, epsilon, classes)
        yield make_server(graph, i, x, codes, epsilons=[epsilon], classes=classes)


@pytest.mark.parametrize("classes", [2, 3])
def test_without_noise_a_release_is_the_sums(classes):
    plan = TrainingPlan(method="sums", label_noise=0.0, square_noise=0.0)
    server = next(servers(classes=classes))
    own = sums_release.exact(server, plan)
    units = sums_release.release_sums(own, server, plan, source_named("secure"))
    assert units.shape == (sums_release.length(server.spec.codes, WIDTH),)
    result = sums_release.totals(units, server.spec.codes, WIDTH)
    np.testing.assert_allclose(result.label_sum, own.label_sum, atol=integer_gaussian.UNIT)
    np.testing.assert_allclose(result.square_sum, own.square_sum, atol=integer_gaussian.UNIT)
    assert result.size == pytest.approx(own.size, abs=integer_gaussian.UNIT)


def deviations(plan, source, factor=1.0):
    """Of the three kinds of numbers in many releases of one server, each as a share of what the
    plan's event states, with how many were drawn."""
    server = next(servers())
    own = sums_release.exact(server, plan)
    clean = np.concatenate(
        [own.label_sum.ravel(), own.square_sum[np.triu_indices(WIDTH)], [own.size]]
    )
    drawn = np.array(
        [
            integer_gaussian.dequantize(sums_release.release_sums(own, server, plan, source))
            for _ in range(400)
        ]
    )
    off = drawn - clean
    (event,) = plan.events(server.spec)
    rows, columns = np.triu_indices(WIDTH)
    label, triangle = off[:, :WIDTH], off[:, WIDTH:-1]
    assert np.abs(off[:, -1]).max() <= integer_gaussian.UNIT
    yield label / (factor * event.label_stddev)
    yield triangle[:, rows == columns] / (factor * event.square_stddev)
    yield triangle[:, rows != columns] / (factor * event.square_stddev / sqrt(2))


@pytest.mark.parametrize("colluding", [None, 1])
@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_secure_noise_is_that_of_the_event_and_neither_half_nor_twice(colluding, factor):
    """Two-sided χ² on each kind: all three pass with a false-alarm rate below 3·10⁻⁹, and half or
    twice the stated noise is always seen.
    """
    plan = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0, colluding=colluding)
    for share in deviations(plan, source_named("secure"), factor):
        low, high = chi2.ppf([5e-10, 1 - 5e-10], share.size) / share.size
        assert (low <= np.mean(share**2) <= high) == (factor == 1.0)


def noises(members, plan, source):
    """What each server's row has beyond its exact sums, as shares of the stated deviations."""
    found = local_engine.exchange(local_engine.Run(plan, members, source)).released
    off = []
    for server, row in zip(members, found, strict=True):
        own = sums_release.exact(server, plan)
        result = sums_release.totals(row, server.spec.codes, WIDTH)
        upper = np.triu_indices(WIDTH)
        (event,) = plan.events(server.spec)
        scale = np.where(upper[0] == upper[1], 1.0, sqrt(0.5)) * event.square_stddev
        square = (result.square_sum - own.square_sum)[upper] / scale
        off.append(
            np.concatenate([(result.label_sum - own.label_sum)[0] / event.label_stddev, square])
        )
    return np.array(off)


@pytest.mark.parametrize("name", ["simulated", "secure"])
def test_every_server_draws_noise_of_its_own(name):
    """χ² of the differences of two servers' noise, 54 numbers in each of 60 exchanges: a false
    alarm in 3·10⁻⁹ of runs. One draw for all, or half of it shared, is always seen.
    """
    plan = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0)
    members = list(servers())
    drawn = np.array([noises(members, plan, source_named(name, seed)) for seed in range(60)])
    for i, j in ((0, 1), (0, 2), (1, 2)):
        apart = (drawn[:, i] - drawn[:, j]) / sqrt(2)
        low, high = chi2.ppf([5e-10, 1 - 5e-10], apart.size) / apart.size
        assert low <= np.mean(apart**2) <= high
        shared = (drawn[:, i] / 2 - drawn[:, j] / 2) / sqrt(2)
        assert not low <= np.mean(shared**2) <= high


def test_masked_releases_add_up_to_the_total_and_tell_nothing_alone():
    plan = TrainingPlan(method="sums", colluding=1)
    members, names = list(servers()), ("a", "b", "c")
    source = source_named("simulated", 3)
    rows = [
        sums_release.release_sums(sums_release.exact(each, plan), each, plan, source)
        for each in members
    ]
    sent = {}
    for i, name in enumerate(names):
        seeds = {
            other: masks.derive_seed(bytes(32), job="job", server=name, other=other)
            for other in names
            if other != name
        }
        sent[name] = masks.add_masks(rows[i], name, names, seeds)
    np.testing.assert_array_equal(masks.total(sent, names), sum(rows))
    assert all((sent[name].view(np.int64) != rows[i]).mean() > 0.9 for i, name in enumerate(names))
    noise = plan.noise_of_total(members[0].spec)
    assert noise.label == pytest.approx(plan.label_noise * sqrt(3 / 2))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_local_engine_releases_what_each_server_would(classes):
    """To the bit, in any number of threads; the local models are those made by hand."""
    plan = TrainingPlan(method="sums", colluding=1)
    members, source = list(servers(classes=classes)), source_named("simulated", 3)
    own = [sums_release.exact(each, plan) for each in members]
    rows = [
        sums_release.release_sums(*pair, plan, source) for pair in zip(own, members, strict=True)
    ]
    run = local_engine.Run(plan, members, source_named("simulated", 3))
    for threads in (1, 3):
        found = local_engine.exchange(run, local_models=True, threads=threads)
        np.testing.assert_array_equal(found.released, rows)
        np.testing.assert_array_equal(found.total, sum(rows))
    others = sums_release.totals(rows[0] + rows[2], members[1].spec.codes, WIDTH)
    noise = plan.noise_of_total(members[0].spec, parts=2)
    with single_thread():
        kept = fit_by_own_reports(
            members[1].matrix, members[1].codes, others, noise, loss=plan.loss_for(classes)
        )
    np.testing.assert_array_equal(found.local_models[1], kept)
    assert local_engine.exchange(run).local_models == ()


def test_records_that_are_too_wide_are_refused():
    x = sp.csr_array((RECORDS, sums_release.WIDEST + 1))
    codes = labels.codes(np.zeros(RECORDS, dtype=int), 1.0, 2)
    wide = make_server(Graph(2, ((0, 1),)), 0, x, codes, epsilons=[1.0])
    with pytest.raises(InvalidInput, match="method must be 'rounds' for records of 20,001 columns"):
        sums_release.exact(wide, TrainingPlan(method="sums"))


@pytest.mark.parametrize("length", [0.0, 1.0])
def test_what_could_leave_the_grid_is_refused_whatever_the_records_are(length):
    """Were it refused only where a sum does leave it, a refusal would tell of the records."""
    x = np.zeros((RECORDS, 2))
    x[:, 0] = length
    codes = labels.codes(np.zeros(RECORDS, dtype=int), inf, 2)
    for bound, fits in ((0.999, True), (1.001, False)):
        bound *= sqrt(integer_gaussian.LIMIT / (RECORDS * sqrt(2)))
        one = make_server(Graph(2, ((0, 1),)), 0, x, codes, epsilons=[inf], norm_bound=bound)
        if fits:
            found = sums_release.exact(one, TrainingPlan(method="sums")).square_sum
            assert (
                integer_gaussian.quantize(found)[0, 0]
                == RECORDS * length * 2**integer_gaussian.BITS
            )
            continue
        with pytest.raises(
            InvalidInput, match="norm_bound must be smaller for sums of 40 rec"
        ) as no:
            sums_release.exact(one, TrainingPlan(method="sums"))
        assert no.value.setting == "norm_bound"


def test_people_who_ask_for_more_privacy_count_less():
    plan = TrainingPlan(method="sums")
    places = [next(servers(epsilon=epsilon)).spec for epsilon in (0.5, 1.0, inf)]
    shifts = [plan.events(place)[0].record_shift for place in places]
    squares = [plan.events(place)[0].square_shift for place in places]
    assert sorted(shifts) == shifts and sorted(squares) == squares
    assert shifts[-1] == pytest.approx(1.0, rel=1e-5)
    assert squares[-1] == pytest.approx(sqrt(2), rel=1e-5)
