"""Rehearsals: worse with more noise, and honest about what the real path does."""

from dataclasses import replace

import numpy as np
import pytest
from servers import make_server
from shapes import known_shapes, shape

from pdml.errors import InvalidInput
from pdml.mechanisms.label_flip import flip_labels
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.numerics.admm.losses import LOGISTIC, SOFTMAX
from pdml.numerics.sums.fit import Noise, fit_sums
from pdml.planning.forecast import utility
from pdml.planning.forecast.synthetic import Population, populations
from pdml.planning.search import sums_search
from pdml.planning.sizes import Sizes
from pdml.planning.training_plan import TrainingPlan
from pdml.training import sums_release

SIZES = Sizes(records=(200,) * 10, width=8, epsilon=1.0)
GRAPH = Graph.ring(5)


@pytest.mark.parametrize("classes", [2, 3])
def test_more_noise_is_forecast_as_worse(classes: int) -> None:
    sizes = replace(SIZES, classes=classes)
    loss = LOGISTIC if classes == 2 else SOFTMAX
    result = []
    for level in (0.1, 20.0, 2000.0):
        noise = Noise(label=level, square=2 * level)
        each = [utility.score_sums(p, sizes, noise, loss, 1)[0] for p in populations(sizes)]
        result.append(utility.Forecast.of(np.array(each)))
    for name in ("agreement", "accuracy"):
        found = [getattr(one, name) for one in result]
        assert found[0].middle > found[1].middle > found[2].middle
        assert all(one.low <= one.middle <= one.high for one in found)


def test_a_server_alone_learns_from_more_records_and_nobody_beats_chance_on_noise() -> None:
    few, many = (
        np.mean(
            [
                utility.score_alone(p, replace(SIZES, records=(m,) * 10), LOGISTIC, 1)[0]
                for p in populations(SIZES)
            ],
            axis=0,
        )
        for m in (20, 2000)
    )
    assert many[0] > few[0] + 0.05 and many[1] > few[1] + 0.03
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(2000, 3)) / 4, np.full(2000, 0.5)])
    luck = populations(replace(SIZES, width=4), (x, rng.integers(0, 2, 2000)))[0]
    assert luck.score_majority()[1] == pytest.approx(0.5, abs=0.06)
    assert utility.score_alone(luck, SIZES, LOGISTIC, 1)[0][1] == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize(("name", "made"), known_shapes())
def test_the_forecast_of_sums_is_honest(name: str, made: dict) -> None:
    """Forecast from one half of a population, measured by the real exchange on the other: within 6
    points in each of eight shapes, the joint model and a local one. Eight trainings have a standard
    deviation of at most 6 points, their mean one of 2; the false alarm is below 1% in each, on a
    fixed seed."""
    sizes = Sizes(records=(300,) * 5, width=made["wide"] + 1, epsilon=1.0)
    plan = TrainingPlan(method="sums", label_noise=1.5, square_noise=2.0)
    x, y = shape(4500, **made)
    public = populations(sizes, (x[3000:], y[3000:]))
    result = utility.Forecast.of(sums_search.score(plan, sizes, public, 12)[0])
    local = utility.Forecast.of(np.array(sums_search.score_local(plan, sizes, public[0], 12)))
    joint, local_scores = [], []
    for seed in range(8):
        own, source = np.random.default_rng(seed).permutation(3000), Simulated(seed)
        train, test = own[:1500], own[1500:]
        said = flip_labels(y[train], np.ones(1500), 2, source.stream(LABELS))
        servers = [
            make_server(GRAPH, i, x[train][part], labels.codes(said[part], 1.0, 2), epsilons=(1.0,))
            for i, part in enumerate(np.split(np.arange(1500), 5))
        ]
        sums = [sums_release.exact(server, plan) for server in servers]
        pairs = zip(sums, servers, strict=True)
        sent = [sums_release.release_sums(one, server, plan, source) for one, server in pairs]
        spec = servers[0].spec
        totals = sums_release.totals(sum(sent), 1, sizes.width)
        w = fit_sums(totals, plan.noise_of_total(spec), loss=LOGISTIC).weights
        whole = Population(x=x[train], y=y[train], test_x=x[test], test_y=y[test], classes=2)
        joint.append(whole.score(w)[:2])
        w = sums_release.local_weights(servers[0], sent[0], sum(sent), plan)
        local_scores.append(whole.score(w)[:2])
    for forecast, scores in ((result, joint), (local, local_scores)):
        agreed, right = np.mean(scores, axis=0)
        assert forecast.agreement.middle == pytest.approx(agreed, abs=0.06), name
        assert forecast.accuracy.middle == pytest.approx(right, abs=0.06), name


def test_a_local_model_is_alone_beside_noise_and_better_beside_quiet_totals() -> None:
    every = populations(SIZES)
    quiet, loud = (
        np.mean(
            [
                utility.score_local(p, SIZES, Noise(label=n, square=n), LOGISTIC, 1)[0]
                for p in every
            ],
            axis=0,
        )
        for n in (0.1, 1e5)
    )
    alone = np.mean([utility.score_alone(p, SIZES, LOGISTIC, 1)[0] for p in every], axis=0)
    assert loud[:3] == pytest.approx(alone[:3], abs=0.03)  # other people, as many of them
    assert (quiet[:3] > alone[:3] + 0.02).all()


def test_public_records_must_fit() -> None:
    sizes = replace(SIZES, width=5)
    x, y = np.ones((40, 5)), np.arange(40) % 2
    for bad, said in (
        ((np.ones((40, 4)), y), "of width 5"),
        ((x, y[:10]), "as many labels"),
        ((x[:5], y[:5]), "at least 12 records"),
        ((x, y + 1), "an index below 2"),
        ((x, 0 * y), "several classes"),
    ):
        with pytest.raises(InvalidInput, match=said):
            populations(sizes, bad)
    assert len(populations(sizes, (x, y))) == 1
