"""What a number alone does to the margin: exactly the model's own margins, with what noise adds."""

import numpy as np
import pytest
from estimators import make_classifier

from pdml import Encoding, TrainingPlan
from pdml.encoding import scaling
from pdml.encoding.maps import Bins, Products, Splines, Squares
from pdml.numerics.sums.noise_split import deviations
from pdml.training import sums_fit

SUMS = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0)
SCALES = [(50.0, 10.0), (0.0, 1.0), (3.0, 0.5)]


def fitted(maps, plan=SUMS, ranges=None, seed=0, classes=2, random_state=1):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(3000, 3))
    y = (np.abs(z[:, 0]) + z[:, 1] + rng.logistic(size=3000) > 1).astype(int)
    y = y if classes == 2 else rng.integers(0, classes, 3000)
    encoding = Encoding(scales=SCALES, maps=maps, ranges=ranges)
    x = z * [10.0, 1.0, 0.5] + [50.0, 0.0, 3.0]
    model = make_classifier(plan=plan, n_servers=3, random_state=random_state, encoding=encoding)
    return model.fit(x, y)


@pytest.mark.parametrize(
    "maps", [Splines(), Squares(), Bins(count=4, keep=False), [Splines(), Squares()]]
)
def test_effects_are_the_models_margins(maps):
    """Of a row that clipping shortens as it does a typical one."""
    model = fitted(maps)
    encoder = model.result_.released_model.pipeline.encoder
    shrink = encoder.constant / scaling.CONSTANT * scaling.row_factor(encoder.mass)
    assert [effect.name for effect in model.additive_effects_] == ["x0", "x1", "x2"]
    for k, effect in enumerate(model.additive_effects_):
        entries = np.zeros((len(effect.values), 3))
        entries[:, k] = (effect.values - SCALES[k][0]) / SCALES[k][1]
        moved = encoder.expansion.apply(entries) - encoder.expansion.apply(0 * entries)
        np.testing.assert_allclose(effect.margins, shrink * moved @ model.coef_[0], atol=1e-9)
        assert (effect.low <= effect.margins).all() and (effect.margins <= effect.high).all()
        middle = len(effect.values) // 2
        assert effect.margins[middle] == effect.deviations[middle] == 0


def test_rows_as_long_as_typical_ones_move_by_it():
    """Of 400 records whose number alone is changed the mean move is the effect, within a quarter:
    clipping shortens some more than others."""
    model, rng = fitted(Splines()), np.random.default_rng(3)
    effect = model.additive_effects_[0]
    x = rng.normal(size=(400, 3)) * [10.0, 1.0, 0.5] + [50.0, 0.0, 3.0]
    ends = []
    for value in (50.0, 65.0):
        x[:, 0] = value
        ends.append(model.decision_function(x))
    wanted = float(np.interp(65.0, effect.values, effect.margins))
    assert np.mean(ends[1] - ends[0]) == pytest.approx(wanted, rel=0.25)


def test_deviations_along_single_columns_are_those_of_weights():
    model = fitted(Splines())
    result = model.result_
    spec = result.parts[0].spec
    fit = sums_fit.fit_total(result.total, SUMS, spec, True)
    loss, width = SUMS.loss_for(2), spec.width
    every = deviations(*fit, loss)
    np.testing.assert_allclose(deviations(*fit, loss, along=np.eye(width)), every)
    np.testing.assert_allclose(
        deviations(*fit, loss, along=2 * np.eye(width)[:3]), 2 * every[:, :3]
    )


def test_deviations_are_how_far_trainings_of_the_same_people_lie_apart():
    """Over 24 trainings, by every point: the root mean square of the deviations that are told is
    0.7 to 1.8 times the spread. Chosen beforehand: told deviations count the labels' own chance,
    too, which is the same in all of these."""
    every = [fitted(Splines(), seed=7, random_state=k).additive_effects_ for k in range(24)]
    margins = np.array([[effect.margins for effect in effects] for effects in every])
    told = np.array([[effect.deviations for effect in effects] for effects in every])
    ratio = np.sqrt((told**2).mean() / margins.var(axis=0, ddof=1).mean())
    assert 0.7 < ratio < 1.8


def test_without_maps_or_with_rounds_or_three_classes_there_are_none():
    assert fitted(None).additive_effects_ == ()
    assert fitted(Products(pairs=(("x0", "x1"),))).additive_effects_ == ()
    assert fitted(Splines(), plan=TrainingPlan(rounds=3)).additive_effects_ == ()
    assert fitted(Splines(), classes=3).additive_effects_ == ()


def test_what_the_declared_range_leaves_out_is_not_drawn():
    ranges = [(45.0, 100.0), (-3.0, 3.0), (1.0, 5.0)]
    first, second, _ = fitted(Splines(), ranges=ranges).additive_effects_
    assert first.values.min() == 45 and first.values.max() == 70 and len(second.values) == 17
