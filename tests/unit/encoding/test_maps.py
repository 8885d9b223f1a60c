"""Feature maps: what they add, that every row is mapped by itself, and that they can be written
down.
"""

import hashlib

import numpy as np
import pytest
from finishing import scale_and_clip
from hypothesis import given
from hypothesis import strategies as st

from pdml.encoding import maps, scaling
from pdml.encoding.maps import Bins, Fourier, Inputs, Products, Splines, Squares
from pdml.encoding.row_steps import Expansion
from pdml.errors import InvalidInput

NAMES = ("age", "bmi", "pulse")


def inputs_of(names):
    """Numbers only."""
    return Inputs(names=names, numbers=names, masses=(scaling.NUMBER_MASS,) * len(names))


INPUTS = Inputs(
    names=(*NAMES, "sex=f", "sex=m"),
    numbers=NAMES,
    masses=(1.0, 1.0, 1.0, 0.25, 0.25),
)
columns = st.lists(st.sampled_from(NAMES), unique=True, max_size=3).map(tuple)
pairs = st.sampled_from([("age", "bmi"), ("bmi", "pulse"), ("sex=f", "age"), ("age", "age")])
edges = st.lists(st.floats(-3, 3), min_size=1, max_size=5, unique=True).map(sorted).map(tuple)
every_map = st.one_of(
    st.builds(Squares, columns=columns, keep=st.booleans()),
    st.builds(
        Products, pairs=st.lists(pairs, min_size=1, unique=True).map(tuple), keep=st.booleans()
    ),
    st.builds(Splines, columns=columns, keep=st.booleans()),
    st.builds(Bins, columns=columns, count=st.integers(2, 9), keep=st.booleans()),
    st.builds(Bins, columns=columns, edges=edges, keep=st.booleans()),
    st.builds(
        Fourier,
        columns=columns,
        count=st.integers(1, 9),
        scale=st.floats(0.1, 10),
        seed=st.integers(0, 2**53),
        keep=st.booleans(),
    ),
)


def people(seed, many=7):
    rng = np.random.default_rng(seed)
    numbers = scaling.standardised(rng.normal(size=(many, 3)) * 1.5, 0.0, 1.0)
    return np.hstack([numbers, scaling.centred(rng.integers(0, 2, many), 2)])


@given(every_map, st.integers(0, 2**32 - 1))
def test_each_row_is_mapped_by_itself_into_limits(each, seed):
    entries, row = people(seed), Expansion(inputs=INPUTS, maps=(each,))
    made = row.apply(entries)
    assert made.shape == (len(entries), row.width) and len(row.names) == row.width
    assert (np.abs(made) <= scaling.LIMIT).all()
    for j in range(len(entries)):
        np.testing.assert_array_equal(row.apply(entries[j : j + 1])[0], made[j])
    finished, _ = scale_and_clip(made, row.mass)
    assert (np.linalg.norm(finished.astype(np.float32).astype(float), axis=1) <= 1).all()


@given(every_map)
def test_a_map_is_what_it_says(each):
    summary = maps.to_dict(each)
    assert maps.from_dict(summary) == each and maps.maps_of([summary, each]) == (each, each)
    assert maps.maps_of(each) == (each,) and maps.maps_of(None) == ()


@given(every_map)
def test_what_a_map_replaces_is_gone_and_nothing_else(each):
    row = Expansion(inputs=INPUTS, maps=(each,))
    used = set() if each.keep else {INPUTS.names[k] for k in each.uses(INPUTS)}
    stay = tuple(name for name in INPUTS.names if name not in used)
    assert row.names == (*stay, *each.names(INPUTS))
    entries = people(1)
    place = [INPUTS.names.index(name) for name in stay]
    np.testing.assert_array_equal(row.apply(entries)[:, : len(stay)], entries[:, place])


def test_masses_are_expected_squares():
    """Numbers that are as declared: 40,000 of them, and a tenth to either side. Of squares and
    products of normal numbers the limit takes a part away.
    """
    rng = np.random.default_rng(2)
    entries = scaling.standardised(rng.normal(size=(40_000, 3)), 0.0, 1.0)
    inputs = inputs_of(NAMES)
    for each, share in (
        (Squares(), 0.76),
        (Products(pairs=(("age", "bmi"),)), 0.86),
        (Fourier(), 1.0),
        (Splines(), 1.0),
        (Bins(edges=(0.0,)), 1.0),
    ):
        found = (each.apply(entries, inputs) ** 2).mean(axis=0).sum()
        np.testing.assert_allclose(found, share * sum(each.masses(inputs)), rtol=0.1)


def test_hats_have_the_means_and_variances_of_normal_entries():
    """By quadrature, to 1/1024; the means add up to 1, as hats do, so that columns add up to 0."""
    e, step = np.linspace(-10, 10, 200_001, retstep=True)
    density = np.exp(-(e**2) / 2) / np.sqrt(2 * np.pi) * step
    inputs = inputs_of(("a",))
    hats = Splines().apply(e[:, None], inputs)
    np.testing.assert_allclose(density @ hats, 0, atol=1 / 1024)
    np.testing.assert_allclose(density @ hats**2, Splines().masses(inputs), atol=0.5 / 1024)
    np.testing.assert_array_equal(hats.sum(axis=1), 0)


def test_hats_draw_lines_with_bends():
    """Whatever is linear between knots, and level beyond the outermost, is a sum of them."""
    e, bends = np.linspace(-3, 3, 601), np.array([0.3, -1.0, 2.0, 0.5, 0.25])
    wanted = np.interp(e, maps.KNOTS, bends)
    made = Splines().apply(e[:, None], inputs_of(("a",))) @ bends
    np.testing.assert_allclose(made - made[0], wanted - wanted[0], atol=1e-12)


def test_the_formulas():
    inputs, e = inputs_of(("a", "b")), np.array([[2.0, -1.0], [0.5, 3.0]])
    np.testing.assert_allclose(
        Squares().apply(e, inputs) * np.sqrt(2), [[3, 0], [-0.75, 3 * 2**0.5]]
    )
    np.testing.assert_array_equal(Products(pairs=(("a", "b"),)).apply(e, inputs), [[-2], [1.5]])
    assert Bins(count=4).inner == (-1.0, 0.0, 1.0)
    third = Bins(columns=("b",), count=4).apply(e, inputs)
    np.testing.assert_array_equal(third, [[-0.25, 0.75, -0.25, -0.25], [-0.25, -0.25, -0.25, 0.75]])
    w = maps.directions(5, 2, 2, 0.7)
    angle = 2 * np.pi * e @ w.T
    made = Fourier(count=3, seed=5).apply(e, inputs)
    wanted = np.column_stack([np.cos(angle[:, 0]), np.sin(angle[:, 0]), np.cos(angle[:, 1])])
    np.testing.assert_allclose(made, np.sqrt(2) * wanted, atol=1e-9)


@given(st.floats(-1e6, 1e6))
def test_a_wave_is_a_cosine(t):
    whole = np.array([t])
    np.testing.assert_allclose(
        maps.wave(whole), np.cos(2 * np.pi * (t - np.floor(t))), atol=1e-11, rtol=0
    )


def test_directions_come_from_the_seed_by_integers_alone():
    digest = hashlib.sha256(b"pdml-fourier 7 1 2").digest()
    words = sum(digest[k] * 256 + digest[k + 1] for k in range(0, 32, 2))
    found = maps.directions(7, 2, 3, 0.7)
    exact = (words - 524280) / (75674 * 2 * np.pi * 0.7)
    assert abs(found[1, 2] - exact) <= 0.5 / 65536 and (found * 65536 % 1 == 0).all()
    np.testing.assert_array_equal(found, maps.directions(7, 5, 9, 0.7)[:2, :3])  # of any size


def test_waves_are_the_gaussian_kernel():
    """Products of 2,000 waves have the deviation √(1/1000) at most: five of them."""
    inputs, each = inputs_of(("a", "b")), Fourier(count=2000, scale=0.7)
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 20, 2))
    made = (each.apply(first, inputs) * each.apply(second, inputs)).mean(axis=1)
    wanted = np.exp(-((first - second) ** 2).sum(axis=1) / (2 * 0.7**2))
    assert (np.abs(made - wanted) < 5 / np.sqrt(1000)).all()
    wrong = np.exp(-((first - second) ** 2).sum(axis=1) / (2 * 1.4**2))
    assert not (np.abs(made - wrong) < 5 / np.sqrt(1000)).all()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"map": "cubes"}, "map must be one of"),
        ({"count": 3}, "a table with its name"),
        ("squares", "a table with its name"),
        ({"map": "squares", "count": 3}, "settings of the map 'squares'"),
        ({"map": "squares", "columns": "age"}, "columns of a map must be names"),
        ({"map": "squares", "columns": ["age", "age"]}, "differ from one another"),
        ({"map": "squares", "keep": 1}, "keep of a map"),
        ({"map": "products"}, "must name its pairs"),
        ({"map": "products", "pairs": [["a"]]}, "pairs of names"),
        ({"map": "products", "pairs": [["a", "b"], ["b", "a"]]}, "differ from one another"),
        ({"map": "bins", "edges": [1, 0]}, "must rise"),
        ({"map": "bins", "count": 1}, "count must be"),
        ({"map": "fourier", "scale": 0}, "scale must be"),
        ({"map": "fourier", "seed": -1}, "seed must be"),
    ],
)
def test_what_is_no_map_is_refused(given, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        maps.maps_of([given])


def test_names_must_be_there_and_differ():
    with pytest.raises(InvalidInput, match="got 'weight'"):
        Expansion(inputs=INPUTS, maps=(Squares(columns=("weight",)),))
    with pytest.raises(InvalidInput, match="'age\\^2' twice"):
        Expansion(inputs=INPUTS, maps=(Squares(), Squares(columns=("age",))))
