"""Numbers bend where so many people answer that noise on further columns is small."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from estimators import make_classifier

from pdml import Encoding
from pdml.accounting import Budget
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.encoding.maps import Splines
from pdml.planning.search.map_choice import choose_maps
from pdml.planning.sizes import Sizes

BUDGET = Budget(features_epsilon=1.0)
NUMBERS = Encoder(attributes=tuple(Number(name=f"n{k}", low=0, high=1) for k in range(6)))


def chosen(people, *, encoder=NUMBERS, budget=BUDGET, **changes):
    records = (people // 5,) * 5
    sizes = Sizes(records=records, width=encoder.n_features + 1, epsilon=1.0)
    return choose_maps(encoder, budget, replace(sizes, **changes))


def test_many_people_bend_numbers_and_few_do_not():
    assert chosen(500) == () and chosen(50_000) == (Splines(),)
    assert chosen(5_000) == () != chosen(5_000, budget=replace(BUDGET, colluding=1))
    by_people = [bool(chosen(people)) for people in (1_000, 4_000, 16_000, 64_000)]
    assert by_people == sorted(by_people)
    assert chosen(500, budget=Budget(features_epsilon=inf)) == (Splines(),)  # no noise at all


def test_what_cannot_bend_does_not():
    levels = Encoder(attributes=(Category(name="c", levels=("a", "b")),))
    assert chosen(10**6, encoder=levels) == ()
    wide = Encoder(attributes=tuple(Number(name=f"n{k}", low=0, high=1) for k in range(60)))
    assert chosen(10**6, encoder=wide) == ()  # 361 columns: more than sums are tried up to


@pytest.mark.parametrize(("people", "columns"), [(300, 2), (30_000, 12)])
def test_an_estimator_decides_by_sizes_alone(people, columns):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(people, 2))
    y = np.abs(x[:, 0]) > 0.7
    model = make_classifier(
        encoding=Encoding(scales=[(0, 1)] * 2, maps="auto"), n_servers=5, random_state=0
    )
    model.fit(x, y)
    assert model.coef_.shape == (1, columns)
    assert model.predict(x[:5]).shape == (5,)
    assert model.model_.coefficients.shape == (1, columns)
    assert (model.score(x, y) > 0.8) == (columns > 2)  # a line cannot tell
    model.fit(x, ~y)
    assert model.coef_.shape == (1, columns)


def test_without_declared_columns_nothing_can_bend():
    with pytest.raises(ValueError, match="maps must come with scales"):
        make_classifier(encoding=Encoding(maps="auto")).fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="map must be"):
        Encoding(scales=[(0, 1)], maps="cubes")
