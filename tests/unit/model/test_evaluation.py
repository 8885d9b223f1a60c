"""The figures beside an accuracy, without noise and with it."""

import json
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

from pdml import TrainingPlan, evaluate_privately, train_table
from pdml.accounting import Ledger
from pdml.accounting.events import IterateReleased
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms import integer_gaussian
from pdml.mechanisms.count_release import Counting
from pdml.mechanisms.randomness import Simulated
from pdml.model.evaluation import evaluate, reference_accuracy
from pdml.model.model import Model, read_ledger_rows
from pdml.model.private_evaluation import (
    OTHERS,
    SAME,
    CountedEvaluation,
    count,
    pooled,
    privacy_charge,
)
from pdml.research.datasets import twonorm
from pdml.tables import Table


def model(classes: int = 2, width: int = 3) -> Model:
    rng = np.random.default_rng(4)
    codes = 1 if classes == 2 else classes
    return Model(
        classes=tuple("abcdefgh"[:classes]),
        coefficients=rng.normal(size=(codes, width)) * 3,
        intercepts=rng.normal(size=codes) * 0.1,
        norm_bound=1.0,
        fit_intercept=True,
    )


def records(many: int, classes: int = 2, width: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.uniform(-1, 1, (many, width)), rng.integers(0, classes, many)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_figures_are_scikit_learn_s(classes):
    known, (x, truth) = model(classes), records(400, classes)
    found, chances = evaluate(known, x, truth), known.predict_proba(x)
    guessed = np.searchsorted(known.classes, known.predict(x))
    assert found.confusion.tolist() == metrics.confusion_matrix(truth, guessed).tolist()
    assert found.accuracy == pytest.approx(metrics.accuracy_score(truth, guessed))
    assert found.log_loss == pytest.approx(metrics.log_loss(truth, chances))
    recalls = metrics.recall_score(truth, guessed, average=None)
    np.testing.assert_allclose(found.recall, recalls)
    auc = (
        metrics.roc_auc_score(truth, chances[:, 1])
        if classes == 2
        else metrics.roc_auc_score(truth, chances, multi_class="ovr", average="macro")
    )
    assert found.auc == pytest.approx(auc)
    assert found.majority == pytest.approx(np.bincount(truth).max() / 400)
    assert found.majority_class == known.classes[np.bincount(truth).argmax()]
    assert sum(each.records for each in found.reliability) == found.records == 400
    right = sum(each.records * each.accuracy for each in found.reliability)
    assert right == pytest.approx(400 * found.accuracy)
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_class_without_records_has_no_recall_and_no_part_in_the_auc():
    known, (x, truth) = model(3), records(200, 2)
    found = evaluate(known, x, truth)
    assert found.recall[2] is None and found.auc is not None
    alone = evaluate(known, x, np.zeros(200, dtype=int))
    assert alone.auc is None and alone.majority == 1.0
    with pytest.raises(DataError, match="one label for each record, got 0 labels"):
        evaluate(known, x[:0], truth[:0])


def test_calibration_error_is_the_distance_to_the_diagonal():
    """A model that always says 73%: its one bin is off by how often it is right."""
    sure = replace(model(), coefficients=np.zeros((1, 3)), intercepts=np.ones(1))
    x, truth = np.zeros((100, 3)), np.arange(100) % 4 > 0
    found = evaluate(sure, x, truth.astype(int))
    assert found.accuracy == 0.75 and len(found.reliability) == 1
    assert found.calibration_error == pytest.approx(0.75 - 1 / (1 + np.exp(-1)))


def people(rows: int, seed: int = 1) -> Table:
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(18, 90, rows), rng.choice(["f", "m"], rows)
    ill = rng.normal(age, 15) > 55
    columns = {"age": age, "sex": sex, "ill": np.where(ill, "yes", "no")}
    return Table(columns=columns, source="people.csv")


def test_the_reference_stands_beside_the_accuracy_and_in_no_model():
    how = {"from_data": True, "plan": TrainingPlan(rounds=4), "random_state": 3}
    trained = train_table(people(600), "ill", test=people(300, 2), **how)
    assert trained.reference_accuracy is not None and trained.reference_accuracy > 0.75
    facts = trained.summary()
    assert facts["reference_accuracy"] == trained.reference_accuracy
    assert (
        facts["majority_accuracy"] == trained.majority == facts["evaluation"]["majority_accuracy"]
    )
    assert {"majority_accuracy", "reference_accuracy", "evaluation"} <= set(facts["inside_only"])
    text = trained.model.to_bytes().decode()
    assert "reference" not in text and "majority" not in text
    unmeasured = train_table(people(600), "ill", **how)
    assert unmeasured.evaluation is None and unmeasured.summary()["reference"] is None


def test_the_reference_is_plain_regression_on_the_rows_that_training_takes():
    known = replace(model(2, 20), fit_intercept=False)
    x, y = twonorm(400, np.random.default_rng(0))
    code = (y > 0).astype(int)
    rows = x / np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    plain = LogisticRegression(C=100.0, fit_intercept=False, max_iter=1000).fit(rows, code)
    found = reference_accuracy(known, x, code, x, code)
    assert found == pytest.approx(plain.score(rows, code), abs=1 / 400)
    assert reference_accuracy(known, x, np.zeros(400, dtype=int), x, code) is None


def drawn(counting: Counting, accuracy: float, many: int, seed: int) -> CountedEvaluation:
    """One evaluation of fresh records: classes 3 to 7, right with this chance."""
    rng, k = np.random.default_rng(seed), counting.classes
    truth = rng.choice(k, many, p=[0.3, 0.7] if k == 2 else [0.2, 0.3, 0.5])
    choice = np.where(rng.random(many) < accuracy, truth, (truth + 1) % k)
    units = counting.released(
        counting.exact(truth, choice, rng.uniform(1 / k, 1, many)), Simulated(seed)
    )
    names = tuple(range(k))
    counts = integer_gaussian.dequantize(units)
    return CountedEvaluation(
        classes=names, records=many, counts=counts, counting=counting, source="simulated"
    )


@pytest.mark.parametrize(("classes", "accuracy", "many"), [(2, 0.8, 300), (3, 0.95, 800)])
def test_intervals_hold_the_truth_and_those_of_half_the_noise_do_not(classes, accuracy, many):
    """600 evaluations: 95% ± four deviations of a share, a false-alarm rate below 1e-4 on each side;
    the seeds are fixed, so that it is 0 here.
    """
    counting = Counting.within(0.5, 1e-6, classes=classes)
    facts = [drawn(counting, accuracy, many, seed) for seed in range(600)]
    quiet = replace(counting, stddev=counting.stddev / 2)

    def held(evaluations):
        return np.mean([e.accuracy.low <= accuracy <= e.accuracy.high for e in evaluations])

    least, most = 0.95 - 4 * np.sqrt(0.95 * 0.05 / 600), 0.95 + 4 * np.sqrt(0.95 * 0.05 / 600)
    assert least <= held(facts) <= most
    assert held([replace(e, counting=quiet) for e in facts]) < least
    recalls = [r for e in facts for r in e.recall if r is not None]
    assert np.mean([r.low <= accuracy <= r.high for r in recalls]) > 0.94


def test_without_noise_the_counts_give_the_exact_figures():
    known, (x, truth) = model(), records(3000)
    counting = Counting(stddev=0.0, classes=2, bins=10)
    counted, exact = count(known, x, truth, counting), evaluate(known, x, truth)
    assert counted.accuracy.value == pytest.approx(exact.accuracy)
    np.testing.assert_allclose(counted.confusion, exact.confusion)
    np.testing.assert_allclose([r.value for r in counted.recall], exact.recall)
    assert counted.auc == pytest.approx(exact.auc, abs=0.01)
    assert counted.calibration_error == pytest.approx(exact.calibration_error, abs=0.02)
    assert counted.log_loss == pytest.approx(exact.log_loss, abs=0.02)
    assert (counted.majority, counted.majority_class) == (exact.majority, exact.majority_class)
    json.dumps(counted.to_dict(), allow_nan=False)


def test_a_class_that_noise_drowns_is_not_spoken_of():
    counting = Counting(stddev=50.0, classes=2)
    found = drawn(counting, 0.9, 60, 1)
    assert found.recall == (None, None) and found.reliability == ()
    assert found.calibration_error is None and found.log_loss is None


def test_what_is_charged_is_the_sum_where_the_people_are_the_same():
    trained = train_table(
        people(600), "ill", from_data=True, plan=TrainingPlan(rounds=4), random_state=3
    ).model
    found = evaluate_privately(trained, people(300, 2), epsilon=0.5)
    assert found.source == "secure" and found.records == 300
    alone, both = (privacy_charge(trained, found, same_people=same) for same in (False, True))
    assert (alone["counted"], both["counted"]) == (OTHERS, SAME)
    training = {(line.data, line.adversary): line for line in trained.ledger_rows()}
    for one, two in zip(read_ledger_rows(alone), read_ledger_rows(both), strict=True):
        before = training[one.data, one.adversary]
        if one.adversary == "other servers":
            assert one.epsilon == pytest.approx(0.5, rel=1e-3) and one.delta == 1e-6
            assert two.epsilon == pytest.approx(one.epsilon + before.epsilon)
            assert two.delta == one.delta + before.delta
            assert max(one.certainty, before.certainty) <= two.certainty <= 1
        else:
            assert one.epsilon == two.epsilon == np.inf
    assert found.ledger(1e-6).to_dict()["rows"][1]["epsilon"] == alone["rows"][1]["epsilon"]


@pytest.mark.parametrize("trained", [0.2, 1.0, 3.0, 40.0])
@pytest.mark.parametrize("counted", [0.2, 1.0, 3.0])
def test_training_and_evaluation_together_tell_no_more_than_is_charged(trained, counted):
    """Two Gaussians on the same person are one: its exact δ at the ε that is charged, and how sure
    of the truth whoever sees both can be. The larger of the two alone is seen.
    """
    iterate = IterateReleased(
        t=1, stddev=1.0, label_sensitivity=trained, record_sensitivity=trained
    )
    book = Ledger(((iterate,),), delta=0.01)
    known = replace(model(), privacy=book.to_dict())
    evaluation = drawn(Counting(stddev=sqrt(2) / counted, classes=2), 0.8, 200, 1)
    mu = np.hypot(trained, counted)
    for line in read_ledger_rows(privacy_charge(known, evaluation, same_people=True, delta=0.01)):
        if line.adversary != "other servers":
            continue
        e, delta = line.epsilon, line.delta
        assert delta == 0.02
        exact = norm.cdf(mu / 2 - e / mu) - np.exp(e + norm.logcdf(-mu / 2 - e / mu))
        assert exact <= delta
        odds = np.log(delta) - norm.logcdf(norm.ppf(delta) - mu)  # of the likeliest such event
        assert expit(odds) <= line.certainty


def test_members_counts_add_up_with_their_noise():
    counting = Counting(stddev=3.0, classes=2)
    parts = [drawn(counting, 0.8, 200, seed) for seed in (1, 2)]
    whole = pooled(parts)
    np.testing.assert_allclose(whole.counts, parts[0].counts + parts[1].counts)
    assert whole.records == 400 and whole.counting.stddev == pytest.approx(np.hypot(3, 3))
    other = drawn(Counting(stddev=3.0, classes=2, bins=1), 0.8, 200, 1)
    for wrong in ([], [parts[0], other]):
        with pytest.raises(InvalidInput, match="same classes"):
            pooled(wrong)


def test_two_private_evaluations_spend_more_than_one():
    event = Counting.within(0.5, 1e-6, classes=2).event
    one, two = (Ledger(((event,) * n,)).row("label", "other servers").epsilon for n in (1, 2))
    assert one < two < 2 * one
