"""What is declared about X: scales, ranges, levels, gaps and maps, from `fit` to a loaded model."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from estimators import make_classifier
from finishing import scale_and_clip

from pdml import Encoding, PDMLClassifier, TrainingPlan, load_model, predict_table, train_table
from pdml.encoding import scaling
from pdml.encoding.encoder import Encoder, Number
from pdml.encoding.encoding import RANGES_LEAK, SCALES_LEAK
from pdml.encoding.maps import Fourier, Squares
from pdml.encoding.pipeline import Pipeline
from pdml.errors import ClippingWarning, DataError, InvalidInput, UndeclaredColumns
from pdml.simulation.table_training import evaluate_table

SUMS = TrainingPlan(method="sums", label_noise=0.5, square_noise=0.5)
SCALES = [(50, 15), (3e4, 2e4)]
LEVELS = pd.CategoricalDtype(["f", "m", "other"])


def people(many=1200, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(many, 2))
    y = (z[:, 0] - z[:, 1] + 0.5 * rng.normal(size=many) > 0).astype(int)
    return np.column_stack([50 + 15 * z[:, 0], 3e4 + 2e4 * z[:, 1]]), y


def frame(seed=0, gaps=0.1):
    x, y = people(seed=seed)
    rng = np.random.default_rng([seed, 1])
    sex, town = rng.choice(["f", "m"], len(y)), rng.choice(["Bern", "Basel"], len(y))
    table = pd.DataFrame({"age": x[:, 0], "sex": sex, "income": x[:, 1], "town": town})
    table["sex"] = table["sex"].astype(LEVELS)
    if gaps:
        table.loc[rng.random(len(y)) < gaps, "age"] = np.nan
        table.loc[rng.random(len(y)) < gaps, "town"] = None
    return table, y


def numbers(names, scales, **options):
    ends = {"low": -np.inf, "high": np.inf}
    pairs = zip(names, scales, strict=True)
    columns = tuple(Number(name=name, **ends, average=t, spread=s) for name, (t, s) in pairs)
    return Encoder(attributes=columns, **options)


def fitted(x, y, **settings):
    settings = {"n_servers": 3, "plan": SUMS, "classes": (0, 1), "random_state": 0} | settings
    return make_classifier(**settings).fit(x, y)


FRAME = {
    "scales": {"age": (50, 15), "income": (3e4, 2e4)},
    "levels": {"town": ["Bern", "Basel"]},
    "missing": ("average", "level"),
}


def test_declared_scales_find_what_raw_columns_hide():
    x, y = people()
    with pytest.warns(ClippingWarning, match=r"Declare scales or ranges"):
        raw = fitted(x, y)
    scaled = fitted(x, y, scales=SCALES)
    assert scaled.score(x, y) > 0.85 > 0.75 > raw.score(x, y)
    assert scaled.leaks_ == [] and scaled.model_.provenance["leaks"] == []


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_rows_are_those_of_the_formula(kind):
    x, _ = people(5)
    encoder = numbers(("age", "income"), SCALES, maps=(Squares(),))
    rows, clipped = Pipeline(encoder=encoder, norm_bound=2.0).rows(x.astype(kind))
    entries = encoder.expansion.apply(scaling.standardised(x.astype(kind), *np.array(SCALES).T))
    wanted, lengths = scale_and_clip(entries, 4.0, bound=2.0)
    count = np.count_nonzero(lengths > scaling.MARGIN)
    assert rows.dtype == kind and clipped == count
    np.testing.assert_allclose(rows, wanted, rtol=1e-6)
    assert (np.linalg.norm(rows.astype(float), axis=1) <= 2.0).all()


def test_the_norm_bound_is_the_unit():
    """Everything scales with it: rows are twice as long and coefficients half as large."""
    x, y = people()
    silent = TrainingPlan(method="sums", label_noise=0, square_noise=0)
    one, two = (fitted(x, y, scales=SCALES, norm_bound=b, plan=silent) for b in (1.0, 2.0))
    np.testing.assert_allclose(one.coef_, 2 * two.coef_, rtol=1e-5)
    np.testing.assert_allclose(one.decision_function(x), two.decision_function(x), atol=1e-5)


def test_sparse_and_dense_agree_where_zero_is_typical():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5)) * (rng.random((400, 5)) < 0.3) * 4
    pipeline = Pipeline(encoder=numbers("abcde", [(0.0, 2.0)] * 5))
    dense, first = pipeline.rows(x)
    sparse, second = pipeline.rows(sp.csr_array(x))
    assert sp.issparse(sparse) and first == second
    np.testing.assert_allclose(sparse.toarray(), dense, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"scales": [(1, 2)] * 2}, "averages of 0"),
        ({"scales": [(0, 2)] * 2, "maps": Squares()}, "left out for a sparse X"),
        ({"ranges": [(1, 2)] * 2}, "must start at 0"),
        ({"scales": [(0, 2)] * 2, "ranges": [(1, 3)] * 2}, "average of 'x0' must lie in its range"),
    ],
)
def test_zeros_of_a_sparse_x_are_not_filled_in(settings, sentence):
    x, y = people(60)
    with pytest.raises(InvalidInput, match=sentence):
        fitted(sp.csr_array(x), y, **settings)


def test_ranges_alone_have_their_middle_and_a_sixth():
    x, y = people()
    ranges = [(5, 95), (-3e4, 9e4)]
    alone = fitted(x, y, ranges=ranges)
    same = fitted(x, y, ranges=ranges, scales=[(50, 15), (3e4, 2e4)])
    np.testing.assert_array_equal(alone.coef_, same.coef_)
    far = np.array([[1e9, -1e9]])
    np.testing.assert_array_equal(
        alone.decision_function(far), alone.decision_function([[95, -3e4]])
    )


def test_what_comes_from_the_data_is_named():
    x, y = people()
    scales = fitted(x, y, scales="from_data")
    assert scales.leaks_ == [SCALES_LEAK] and scales.score(x, y) > 0.85
    assert scales.model_.provenance["leaks"] == [SCALES_LEAK]
    both = fitted(x, y, scales="from_data", ranges="from_data")
    assert both.leaks_ == [SCALES_LEAK, RANGES_LEAK]
    assert fitted(sp.csr_array(x), y, scales="from_data").leaks_ == [SCALES_LEAK]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("setting", ["scales", "ranges"])
def test_what_comes_from_the_data_is_nobodys_own(setting, sparse):
    x, y = people()
    x = np.abs(np.column_stack([x * [1.000123, 1.0123], np.full(len(x), 4358.73)]))
    model = fitted(sp.csr_array(x) if sparse else x, y, **{setting: "from_data"}).model_
    columns = model.encoder["attributes"]
    ranges = [column["range"] for column in columns if "range" in column]
    scales = [(column["average"], column["spread"]) for column in columns]
    numbers = {*np.ravel(scales)} | {*np.ravel(ranges)} - {0.0}
    assert not numbers & {*x.ravel()} and not numbers & {*np.mean(x, axis=0), *x.std(axis=0)}
    if setting == "ranges":
        low, high = np.array(ranges).T
        assert (low <= x.min(axis=0)).all() and (x.max(axis=0) <= high).all()
        assert (high - low <= 1.3 * np.where(np.ptp(x, axis=0) == 0, x[0], np.ptp(x, axis=0))).all()


def test_ranges_from_data_pass_over_gaps():
    x, y = people()
    x[3, 0] = np.nan
    settings = {"ranges": "from_data", "missing": "average"}
    assert fitted(x, y, **settings).leaks_ == [RANGES_LEAK]


def test_a_sparse_column_of_zeros_has_a_range():
    x, y = people()
    x = sp.csr_array(np.column_stack([np.abs(x), np.zeros(len(x))]))
    assert fitted(x, y, ranges="from_data").model_.encoder["attributes"][2]["range"] == [0, 1]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"scales": [(1, 1)]}, "each of the 2 features"),
        ({"scales": [(1, 1), "x"]}, "each of the 2 features"),
        ({"scales": [(1, 0), (1, 1)]}, "spread of 'x0'"),
        ({"scales": "guess"}, "scales must be one of"),
        ({"scales": {"x0": (0, 1)}}, "column 'x1' has no declared"),
        ({"scales": {"z": (0, 1)}}, "of numbers in X, got 'z'"),
        ({"maps": Squares()}, "maps must come with scales"),
        ({"scales": SCALES, "maps": "squares"}, "a table with its name"),
        ({"scales": SCALES, "maps": Squares(columns=("z",))}, "got 'z'"),
        ({"missing": "drop"}, "missing must be one of"),
        ({"scales": SCALES, "missing": {"x0": "level"}}, "it is a number"),
        ({"scales": SCALES, "missing": {"z": "average"}}, "columns of X, got 'z'"),
        ({"missing": "average"}, "columns 'x0', 'x1' have no declared"),
        ({"levels": {"z": ["a"]}}, "levels must be levels by the names"),
    ],
)
def test_declarations_outside_their_domain(settings, sentence):
    x, y = people(60)
    with pytest.raises(InvalidInput, match=sentence):
        fitted(x, y, **settings)


def test_maps_widen_the_model_and_its_plan(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 2)) * (15, 2e4) + (50, 3e4)
    y = (np.abs((x[:, 0] - 50) / 15) > 0.8).astype(int)  # unusual in both directions
    line = fitted(x, y, scales=SCALES)
    for given in (Squares(), {"map": "squares"}, [{"map": "squares"}, Fourier(count=4)]):
        model = fitted(x, y, scales=SCALES, maps=given)
        assert model.score(x, y) > 0.85 > 0.75 > line.score(x, y)
        assert model.model_.feature_names[:4] == ("x0", "x1", "x0^2", "x1^2")
        assert model.result_.parts[0].spec.width == model.coef_.shape[1] + 1  # what the plan counts
        model.model_.save(tmp_path / "model.json")
        loaded = load_model(tmp_path / "model.json")
        np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))


def test_a_damaged_encoder_is_refused(tmp_path):
    x, y = people(60)
    scaled, path = fitted(x, y, scales=SCALES), tmp_path / "model.json"
    for change, sentence in (
        ({"attributes": []}, "an encoder that no training has: attributes must be one or more"),
        ({"maps": [{"map": "squares"}]}, "an encoder of 4 features and coefficients for 2"),
        ({"more": 1}, "exactly the keys"),
    ):
        card = json.loads(scaled.model_.to_bytes())
        card["encoder"] |= change
        path.write_text(json.dumps(card))
        with pytest.raises(DataError, match=sentence):
            load_model(path)


def test_rows_that_are_only_a_little_longer_do_not_warn():
    x, y = people()
    z = scaling.standardised(x, *np.array(SCALES).T)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClippingWarning)
        fitted(z, y)  # most are longer than 1
        few = z.copy()
        few[:100] *= 1e4  # a twelfth of the rows
        assert fitted(few, y).n_clipped_ > 1000
        fitted(100 * z, y, norm_bound=100.0)
    with pytest.warns(ClippingWarning):
        summary = fitted(1e4 * z, y)
    assert "clipped" not in summary.model_.to_bytes().decode()


def test_a_data_frame_with_categories_and_gaps(tmp_path):
    table, y = frame()
    model = fitted(table, y, **FRAME)
    assert model.score(table, y) > 0.8
    assert model.model_.feature_names[:2] == ("age", "age=prefer not to say")
    assert "sex=other" in model.model_.feature_names  # declared, though nobody is
    model.model_.save(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    for given in (table, table[["town", "income", "age", "sex"]]):
        np.testing.assert_array_equal(loaded.predict(loaded.features(given)), model.predict(table))
    listed = fitted(table, y, **FRAME | {"scales": [(50, 15), None, (3e4, 2e4), None]})
    np.testing.assert_array_equal(listed.coef_, model.coef_)
    each = {"age": "average", "town": "level"}  # no level for a sex that nobody may leave out
    assert fitted(table, y, **FRAME | {"missing": each}).coef_.shape[1] < model.coef_.shape[1]
    seen = fitted(table, y, **FRAME | {"scales": "from_data"})
    assert seen.leaks_ == [SCALES_LEAK] and seen.score(table, y) > 0.8


def test_one_row_is_predicted_as_among_others():
    table, y = frame()
    model = fitted(table, y, **FRAME)
    together = model.decision_function(table)
    for j in (0, 7, 30):
        alone = model.decision_function(table.iloc[j : j + 1])
        np.testing.assert_allclose(alone, together[j : j + 1], rtol=1e-12)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"levels": None}, r"'town' has no declared .*Encoding\(levels=\{\"town\": \["),
        ({"scales": None}, "'age', 'income' have no declared"),
        ({"missing": "refuse"}, "missing = 'average' says what that means"),
        ({"missing": "average"}, "missing = 'level' says what that means"),
        ({"levels": {"town": ["Bern"]}}, "one of the declared levels"),
    ],
)
def test_what_is_not_declared_of_a_frame_is_refused(changed, sentence):
    table, y = frame()
    with pytest.raises(InvalidInput, match=sentence):
        fitted(table, y, **FRAME | changed)


def test_gaps_in_numbers():
    x, y = people()
    x[::10, 0] = np.nan
    for given in (x, pd.DataFrame(x, columns=["age", "income"])):
        with pytest.raises(DataError, match="got NaN: missing='average'"):
            fitted(given, y, scales=SCALES)
        model = fitted(given, y, scales=SCALES, missing="average")
        assert model.score(given, y) > 0.8 and model.coef_.shape == (1, 4)
        whole = np.where(
            np.isnan(x), 50.0, x
        )  # who says nothing counts as the average, and has said nothing
        silent = model.decision_function(given)[::10]
        summary = model.decision_function(whole if given is x else given.fillna(50.0))[::10]
        assert (silent != summary).all()
    assert model.__sklearn_tags__().input_tags.allow_nan
    model = fitted(*people(), scales=SCALES)
    with pytest.raises(DataError, match="got NaN"):
        model.predict(x)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        fitted(sp.csr_array(x), y, scales=SCALES, missing="average")


def test_a_frame_of_plain_numbers_needs_no_encoder():
    x, _ = people(20)
    assert not Encoding().needs_encoder(pd.DataFrame(x))
    assert Encoding().needs_encoder(frame(gaps=0)[0])


def test_a_model_has_the_rows_of_its_encoder():
    table, y = frame()
    model = fitted(table, y, **FRAME).model_
    records = model.features(table)
    encoder = Encoder.from_dict(model.encoder)
    rows, _ = Pipeline(encoder=encoder).rows(records.matrix)
    entries = encoder.scale.apply(records.matrix)
    np.testing.assert_array_equal(rows, scale_and_clip(entries, encoder.mass)[0])
    weights = np.append(model.coefficients[0], model.intercepts[0])
    np.testing.assert_allclose(model.decision_function(records), rows @ weights, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(table), model.predict(records))


def typed(many=300):
    """A frame with a column of every kind, and labels that all of them tell something of."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, many),
            "visits": pd.array(rng.integers(0, 9, many), dtype="Int64"),
            "smoker": rng.random(many) < 0.3,
            "town": rng.choice(["Bern, BE", "Basel"], many),
        }
    )
    return table, table["age"] + 20 * table["smoker"] > 60


def test_every_undeclared_column_is_named_at_once_with_what_to_paste():
    table, y = typed()
    for encoding in (Encoding(), Encoding(scales={})):
        with pytest.raises(UndeclaredColumns) as error:
            PDMLClassifier(encoding=encoding).fit(table, y)
        assert error.value.columns == ("age", "visits", "town")
        assert error.value.numbers == ("age", "visits")
    added = re.search(r"Encoding\(scales.*\}\)", str(error.value))[0]
    names = {"Encoding": Encoding, "AVERAGE": 40, "SPREAD": 20}
    encoding = eval(added.replace('["...", "..."]', '["Bern, BE", "Basel"]'), names)
    assert fitted(table, y, encoding=encoding).score(table, y) > 0.8


def test_truth_values_need_no_declaration_and_may_have_one():
    table, y = typed()
    columns = table[["age", "smoker"]]
    for declared in ({"age": (50, 20)}, [(50, 20)]):
        model = fitted(columns, y, scales=declared).model_
        smoker = model.pipeline.encoder.attributes[1]
        assert (smoker.low, smoker.high, *smoker.scale) == (0, 1, 0.5, 0.5)
        np.testing.assert_array_equal(
            model.predict(columns), model.predict(columns.to_numpy(float))
        )
    for declared in ({"age": (50, 20), "smoker": (0.3, 0.4)}, [(50, 20), (0.3, 0.4)]):
        model = fitted(columns, y, scales=declared).model_
        assert model.pipeline.encoder.attributes[1].scale == (0.3, 0.4)
    assert fitted(columns, y, ranges=[(0, 100)]).model_.pipeline.encoder.attributes[1].high == 1
    mixed = fitted(
        table, y, scales={"age": (50, 20), "visits": (4, 3)}, levels={"town": ["Bern, BE", "Basel"]}
    )
    assert mixed.model_.feature_names == ("age", "visits", "smoker", "town=Bern, BE", "town=Basel")
    assert (
        predict_table(mixed.model_, table)["prediction"].tolist() == mixed.predict(table).tolist()
    )
    assert evaluate_table(mixed.model_, table.assign(ill=y), "ill").accuracy == mixed.score(
        table, y
    )


def test_dates_are_refused_before_anything_else_and_all_of_them():
    table, y = typed()
    table = table.assign(born=pd.Timestamp("1980-01-01"), stay=pd.Timedelta(days=3))
    with pytest.raises(DataError, match="got 'born', 'stay': make a number of a date first"):
        PDMLClassifier().fit(table, y)
    with pytest.raises(DataError, match="got 'born', 'stay': make a number"):
        train_table(table.assign(ill=y), "ill")
    by_level = fitted(table[["born"]].astype(str), y, levels={"born": ["1980-01-01", "1980-01-02"]})
    assert by_level.model_.feature_names == ("born=1980-01-01", "born=1980-01-02")


def test_a_suggestion_follows_from_types_alone_and_becomes_a_declaration():
    table, y = typed()
    table = table.assign(sex=pd.Categorical(["f"] * len(table), ["f", "m"]), born=pd.Timestamp(0))
    text = Encoding.suggest(table)
    other = table.iloc[::-1].assign(age=7, town="secret", smoker=False)
    assert text == Encoding.suggest(other) == Encoding.suggest(table.iloc[:0])
    names = {"Encoding": Encoding, "AVERAGE": 40, "SPREAD": 20}
    encoding = eval(text.replace('["...", "..."]', '["Bern, BE", "Basel"]'), names)
    assert encoding.levels == {"town": ["Bern, BE", "Basel"], "sex": ["f", "m"]}
    table = table.drop(columns="born")
    assert fitted(table, y, encoding=encoding).score(table, y) > 0.8
    assert '"born": make a number of a date' in text
    with pytest.raises(InvalidInput, match="must be a DataFrame, got ndarray"):
        Encoding.suggest(np.zeros((2, 2)))


def test_a_text_where_the_model_has_a_number_is_named_with_its_row():
    table, y = typed()
    model = fitted(table[["age"]], y, scales={"age": (50, 20)}).model_
    with pytest.raises(DataError, match="column 'age' must hold finite numbers, got 'x' in row 2"):
        model.predict(pd.DataFrame({"age": ["3", "x"]}))
