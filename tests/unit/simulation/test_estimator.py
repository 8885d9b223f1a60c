"""`PDMLClassifier` as a data scientist meets it."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from estimators import make_classifier
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pdml import PDMLClassifier, TrainingPlan
from pdml.encoding.encoding import RANGES_LEAK
from pdml.errors import DataError, InvalidInput
from pdml.research.datasets import adult, raetsch, twonorm
from pdml.simulation.estimator import PREPROCESSING_NOTE
from pdml.simulation.privacy_session import PrivacyLedgerSession
from pdml.simulation.simulation import CLASSES_LEAK, RISK_LEAK

OPEN = TrainingPlan(
    rounds=2000,
    regularization=0.05,
    penalty=0.05,
    objective_bound=0,
    noise_scale=0,
    tolerance=1e-10,
)


@pytest.fixture(scope="module")
def data():
    return twonorm(1500, np.random.default_rng(0))


@parametrize_with_checks(
    [
        PDMLClassifier(),
        PDMLClassifier(plan=TrainingPlan()),
        make_classifier(epsilon=None, features_epsilon=None, n_servers=3, intercept=False),
    ]
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # skipped checks warn
        check(estimator)


def test_it_learns_from_flipped_labels(data):
    x, y = data
    test, truth = twonorm(3000, np.random.default_rng(1))
    model = PDMLClassifier(epsilon=1.0, random_state=0).fit(x, y)
    assert model.score(test, truth) > 0.93
    uncorrected = PDMLClassifier(epsilon=None, random_state=0).fit(x, y)
    assert uncorrected.score(test, truth) > 0.96


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(
    "name",
    ["german", *(pytest.param(name, marks=pytest.mark.slow) for name in ("waveform", "adult"))],
)
def test_without_privacy_it_is_scikit_learns_optimum(data_dir, name, storage):
    """ε = ∞, R = V = 0: the same objective, mean loss + (a/2n)|w|², so the same coefficients to
    1e-6.
    """
    if name == "adult":
        raw = adult.load()
        x, y = adult.unit_rows(raw)[:4000].toarray(), raw.y[:4000]
    else:
        x, y = raetsch.load(name)
        x = x / np.linalg.norm(x, axis=1).max()
    m = len(x) - len(x) % 5  # equal groups: then the mean of the servers' means is the mean
    x, y = x[:m], y[:m]
    settings = {"n_servers": 5, "topology": "complete", "intercept": False, "plan": OPEN}
    ours = make_classifier(None, random_state=0, **settings).fit(storage(x), y)
    theirs = LogisticRegression(
        C=1 / (OPEN.regularization / 5 * m), fit_intercept=False, tol=1e-12, max_iter=100_000
    ).fit(x, y)
    distance = np.linalg.norm(ours.coef_ - theirs.coef_) / np.linalg.norm(theirs.coef_)
    assert distance <= 1e-6


def test_without_privacy_softmax_is_scikit_learns_optimum():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    y = np.argmax(x + rng.normal(size=(400, 3)), axis=1)
    x /= np.linalg.norm(x, axis=1).max()
    ours = make_classifier(
        None, n_servers=4, topology="complete", intercept=False, plan=OPEN, random_state=0
    ).fit(x, y)
    theirs = LogisticRegression(
        C=1 / (OPEN.regularization / 4 * 400), fit_intercept=False, tol=1e-12, max_iter=100_000
    ).fit(x, y)
    assert np.linalg.norm(ours.coef_ - theirs.coef_) <= 1e-6 * np.linalg.norm(theirs.coef_)


def test_without_a_seed_the_plan_is_not_left_to_luck_and_noise_is(data):
    """Links and dealing decide on the plan; coins and noise do not."""
    epsilons = np.where(np.arange(len(data[1])) % 50, 1.0, 0.5)
    settings = {"n_servers": 7, "plan": "auto", "features_epsilon": 4.0, "method": "rounds"}
    one, other = (make_classifier(**settings).fit(*data, epsilons=epsilons) for _ in range(2))
    assert one.graph_.edges == other.graph_.edges
    assert one.model_.plan == other.model_.plan
    assert one.privacy_ == other.privacy_
    assert (one.coef_ != other.coef_).any()
    seeded = make_classifier(**settings, random_state=5).fit(*data, epsilons=epsilons)
    assert seeded.graph_.edges != one.graph_.edges


def test_random_state_makes_it_reproducible_to_the_bit(data):
    x, y = data
    first, second = (PDMLClassifier(random_state=7, diagnostics=True).fit(x, y) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.history_.risk, second.history_.risk)
    other = PDMLClassifier(random_state=8).fit(x, y)
    assert not np.array_equal(first.coef_, other.coef_)
    fresh = [PDMLClassifier().fit(x, y).coef_ for _ in range(2)]
    assert not np.array_equal(*fresh)


def test_pipelines_searches_and_frames(data):
    x, y = data
    frame = pd.DataFrame(x, columns=[f"feature {i}" for i in range(20)])
    pipe = make_pipeline(
        FunctionTransformer(feature_names_out="one-to-one").set_output(transform="pandas"),
        PDMLClassifier(random_state=0),
    )
    assert cross_val_score(pipe, frame, y, cv=3).mean() > 0.9
    search = GridSearchCV(PDMLClassifier(random_state=0), {"epsilon": [0.1, 3.0]}, cv=3).fit(
        frame, y
    )
    assert search.best_params_ == {"epsilon": 3.0}
    model = search.best_estimator_
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.model_.feature_names == tuple(frame.columns)
    assert clone(model).get_params() == model.get_params()


def test_text_labels_and_three_classes():
    rng = np.random.default_rng(0)
    centres = np.array([[2, 0], [-1, 1.7], [-1, -1.7]])
    index = rng.integers(0, 3, 3000)
    x, y = centres[index] + rng.normal(size=(3000, 2)), np.array(["bus", "car", "tram"])[index]
    model = PDMLClassifier(epsilon=2.0, random_state=0).fit(x, y)
    assert model.coef_.shape == (3, 2)
    assert list(model.classes_) == ["bus", "car", "tram"]
    assert model.score(x, y) > 0.85
    np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1)


def test_everybody_may_choose_their_own_epsilon(data):
    x, y = data
    epsilons = np.where(np.arange(len(y)) % 2 == 0, 0.5, np.inf)
    model = PDMLClassifier(random_state=0).fit(x, y, epsilons=epsilons)
    assert model.score(x, y) > 0.9
    assert model.privacy_.row("label", "own server").epsilon == np.inf
    with pytest.raises(InvalidInput, match="epsilon must be > 0, got -1 at record 3"):
        PDMLClassifier().fit(x, y, epsilons=[1.0, 1.0, -1.0] + [1.0] * (len(y) - 3))


def test_records_stay_with_their_server(data):
    x, y = data
    owner = np.repeat([0, 1, 2], [1000, 300, 200])
    model = PDMLClassifier(n_servers=3, topology="ring", random_state=0).fit(x, y, servers=owner)
    assert model.model_.provenance["records_per_server"] == [1000, 300, 200]
    for wrong, sentence in (
        (owner + 1, "every index from 0 to 2"),
        (owner[:5], "one server index per record"),
        (owner * 0, "every index"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            PDMLClassifier(n_servers=3).fit(x, y, servers=wrong)


def test_clipping_is_counted_and_the_bias_is_inside_the_norm():
    x = np.array([[3.0, 4.0], [0.0, 0.1], [0.1, 0.0], [-3.0, 4.0]] * 5)
    y = np.array([1, 0, 1, 0] * 5)
    with_bias = PDMLClassifier(n_servers=2, random_state=0).fit(x, y)
    assert with_bias.n_clipped_ == 20  # (0, 0.1, 1) is longer than 1
    without = make_classifier(n_servers=2, intercept=False, random_state=0).fit(x, y)
    assert without.n_clipped_ == 10
    assert "clipped" not in without.model_.provenance  # a count of records stays inside
    assert (without.intercept_ == 0).all()


def test_the_caller_keeps_their_data(data):
    x, y = data
    before = x.copy()
    PDMLClassifier(random_state=0).fit(x, y)
    np.testing.assert_array_equal(x, before)


def test_what_a_pipeline_fitted_before_is_named_and_every_ledger_says_what_it_counts():
    x = np.random.default_rng(0).normal(size=(200, 2))
    y = (x[:, 0] > 0).astype(int)
    own = PDMLClassifier(n_servers=2, classes=(0, 1), random_state=0)
    steps = (StandardScaler(), Normalizer(), PCA(1))  # the second learns nothing from records
    whole = make_pipeline(*steps, clone(own)).fit(x, y)
    (leak,) = whole[-1].leaks_
    assert leak.startswith("a pipeline fitted StandardScaler, PCA to the records")
    assert leak in whole[-1].model_.provenance["leaks"]
    inner = make_pipeline(StandardScaler(), make_pipeline("passthrough", clone(own))).fit(x, y)
    assert "StandardScaler" in inner[-1][-1].leaks_[0] and len(inner[-1][-1].leaks_) == 1
    plain = make_pipeline(Normalizer(), clone(own)).fit(x, y)[-1]
    with PrivacyLedgerSession() as session:
        alone = clone(own).fit(x, y)
    assert plain.leaks_ == alone.leaks_ == []
    for ledger in (whole[-1].privacy_, plain.privacy_, alone.privacy_, session.ledger):
        assert ledger.notes[-1] == PREPROCESSING_NOTE and PREPROCESSING_NOTE[1:] in " ".join(
            str(ledger).split()
        )


def test_declared_ranges_and_the_leak_of_undeclared_ones():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(18, 100, 600), rng.uniform(0, 1e5, 600)])
    y = (x[:, 0] > 60).astype(int)
    ranges = [(18, 100), (0, 1e5)]
    free = {"features_epsilon": None, "random_state": 0}
    model = make_classifier(None, ranges=ranges, classes=(0, 1), **free).fit(x, y)
    assert model.leaks_ == []
    assert model.score(x, y) > 0.8
    leaky = make_classifier(None, ranges="from_data", rounds=2, diagnostics=True).fit(x, y)
    assert leaky.leaks_ == [RISK_LEAK, CLASSES_LEAK, RANGES_LEAK]
    assert leaky.model_.provenance["leaks"] == [CLASSES_LEAK, RANGES_LEAK]  # the file has no risk
    np.testing.assert_array_equal(
        model.predict(np.array([[17.0, -5.0]])), model.predict(np.array([[18.0, 0.0]]))
    )
    for wrong, sentence in (
        ([(0, 1)], "each of the 2 features"),
        ([(1, 0), (0, 1)], "low < high"),
        ("guess", "^ranges must be one of"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            make_classifier(ranges=wrong).fit(x, y)
    with pytest.raises(InvalidInput, match="sparse X must start at 0"):
        make_classifier(ranges=ranges).fit(sp.csr_array(x), y)


def test_history_and_ledger_tell_the_same_story(data):
    x, y = data
    seen = []
    model = make_classifier(plan=TrainingPlan(), rounds=12, diagnostics=True)
    model.set_params(random_state=0)
    model.fit(x, y, on_round=lambda *progress: seen.append(progress))
    assert seen == [(t, 12) for t in range(1, 13)]
    history = model.history_
    assert all(
        len(getattr(history, name)) == 12 for name in ("risk", "consensus", "noise", "spent")
    )
    assert history.risk[-1] < history.risk[0]
    assert (np.diff(history.spent) > 0).all()
    assert history.spent[-1] == pytest.approx(
        model.privacy_.row("features", "other servers").epsilon, rel=1e-6
    )
    assert model.privacy_.source == "simulated"
    assert model.model_.provenance["noise_source"] == "simulated"
    assert np.isnan(make_classifier(rounds=2).fit(x, y).history_.risk).all()  # a leak is opt-in


@pytest.mark.parametrize("randomness", ["simulated", "secure"])
def test_of_the_noise_its_deviation_is_told_and_not_what_was_drawn(data, randomness):
    """σ(t) = V ρ^((t-1)/2), root mean square over servers, whatever was drawn."""
    x, y = data
    for scale, level in ((0.3, 0.3), ((0.1, 0.2, 0.4), np.sqrt(0.07))):
        plan = TrainingPlan(rounds=9, noise_scale=scale, noise_decay=0.8)
        model = PDMLClassifier(n_servers=3, plan=plan, randomness=randomness).fit(x, y)
        expected = level * 0.8 ** (np.arange(9) / 2)
        np.testing.assert_allclose(model.history_.noise, expected, rtol=1e-12)


def test_declared_classes_are_no_leak_and_may_be_absent():
    x = np.random.default_rng(0).normal(size=(300, 2))
    y = np.where(x[:, 0] > 0, "yes", "no")

    def fitted(classes, labels=y):
        return PDMLClassifier(5.0, n_servers=3, random_state=0, classes=classes).fit(x, labels)

    found, result = fitted(None), fitted(["no", "yes"])
    assert found.leaks_ == found.model_.provenance["leaks"] == [CLASSES_LEAK]
    assert result.leaks_ == [] and list(result.classes_) == ["no", "yes"]
    np.testing.assert_array_equal(result.coef_, found.coef_)
    turned = fitted(["yes", "no"])
    assert turned.model_.classes == ("yes", "no") and turned.score(x, y) > 0.9
    more = fitted(["no", "maybe", "yes"])
    assert more.coef_.shape == (3, 2) and more.score(x, y) > 0.9
    assert list(fitted(["no", "yes"], np.full(300, "no")).classes_) == ["no", "yes"]


@pytest.mark.parametrize("wrong", ["yes", ["yes"], ["yes", "yes"], [["no", "yes"]], []])
def test_classes_are_different_names(wrong):
    with pytest.raises(InvalidInput, match="classes must be two or more different names"):
        PDMLClassifier(n_servers=2, classes=wrong).fit(np.eye(4), ["no", "yes"] * 2)


def test_a_label_outside_the_declared_classes_is_not_shown():
    model, said = PDMLClassifier(n_servers=2, classes=["no", "yes"]), r"got another at record 3$"
    with pytest.raises(DataError, match=said):
        model.fit(np.eye(4), ["no", "yes", "SECRET", "no"])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_servers": 1}, "n_servers must be a whole number >= 2"),
        ({"n_servers": 5000}, "cannot be assigned to n_servers=5000"),
        ({"norm_bound": 0}, "norm_bound must be a number in"),
        ({"epsilon": 0}, "epsilon must be > 0"),
        ({"epsilon": -1.0}, "epsilon must be > 0"),
        ({"epsilon": "1"}, "epsilon must be one number"),
        ({"epsilon": True}, "epsilon must be one number"),
        ({"epsilon": float("nan")}, "epsilon must be > 0"),
        ({"rounds": 0}, "rounds must be a whole number >= 1"),
        ({"topology": [(0, 1)]}, "server"),
        ({"topology": "moebius"}, "topology"),
    ],
)
def test_bad_settings_get_one_clear_sentence(data, settings, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make_classifier(**settings).fit(*data)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("norm_bound", ": norm_bound is a field of encoding=Encoding(norm_bound=...)"),
        ("rounds", ": rounds is a setting of plan=TrainingPlan(rounds=...), or of plan={'rounds'"),
        ("on_round", ": on_round is an argument of fit"),
        ("feature_epsilon", ": did you mean 'features_epsilon'?"),
        ("n_server", ": did you mean 'n_servers'?"),
        ("zebra", ""),
    ],
)
def test_an_unknown_keyword_names_the_class_and_where_it_belongs(name, hint):
    with pytest.raises(TypeError) as refused:
        PDMLClassifier(**{name: 1})
    sentence = f"PDMLClassifier has no parameter {name!r}"
    assert str(refused.value).startswith(sentence + hint)
    assert hint or str(refused.value) == sentence
