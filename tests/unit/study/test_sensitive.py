"""Attributes with an ε of their own: what leaves a device, what a service takes, what the ledger
says, and what a model makes of it.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from example_study import STUDY
from hypothesis import given
from hypothesis import strategies as st
from reporting import make_report

from pdml import train_study
from pdml.accounting import Budget
from pdml.collector.intake.report_rules import Refusal, Rules
from pdml.device import answers as asked
from pdml.device.client import prepare, preview
from pdml.device.memo import Memory
from pdml.encoding import device_encoding
from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.errors import DataError, InvalidInput, StudyError
from pdml.mechanisms.randomness import LABELS, Simulated
from pdml.pages.prediction_page import prediction_page
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.study.messages import decode_report, encode_report, features_of
from pdml.tables import Table

MENU = Menu(menu=(0.5, 1.0, 2.0), default=1.0)
AGE = Number(name="age", low=18, high=100)
INCOME = Number(name="income", low=0, high=200, bins=(20, 50, 100), epsilon=MENU, missing="level")
STATUS = Category(name="status", levels=("single", "married", "widowed"), epsilon=MENU)
ENCODER = Encoder(attributes=(STATUS, AGE, INCOME))
SENSITIVE = replace(STUDY, encoder=ENCODER, wording={})
ALL = replace(STUDY, encoder=Encoder(attributes=(STATUS, INCOME)), wording={})
ANSWERS = {"status": "married", "age": 34.0, "income": 55.0}


def test_a_study_with_sensitive_attributes_reads_back():
    again = Study.from_canonical(SENSITIVE.canonical())
    assert again == SENSITIVE and again.encoder == ENCODER
    assert ENCODER.feature_names[0] == "age" and ENCODER.feature_names[1] == "status=single"
    assert INCOME.choices[0] == "0 to below 20" and INCOME.choices[-1] == "prefer not to say"


@pytest.mark.parametrize(
    ("changed", "summary"),
    [
        ({"epsilon": {"menu": [0.5], "default": 1.0}}, "on the menu"),
        ({"epsilon": {"menu": [5.0], "default": 5.0}}, "accept_weak"),
        ({"epsilon": {"menu": [0.001], "default": 0.001}}, "lie in"),
        ({"epsilon": 1.0}, "epsilon"),
        ({"bins": [50, 20]}, "ascend"),
        ({"bins": [0, 20]}, "ascend"),
        ({"bins": None}, "bins"),
        ({"missing": "average"}, "level"),
    ],
)
def test_what_is_wrong_with_one_is_told(changed, summary):
    document = SENSITIVE.to_dict()
    income = document["attributes"][2] | changed
    document["attributes"][2] = {key: value for key, value in income.items() if value is not None}
    with pytest.raises(StudyError, match=summary):
        Study.from_document(document)


def draws(study=SENSITIVE):
    each = [
        st.tuples(st.integers(0, len(a.choices) - 1), st.sampled_from(a.epsilon.millionths))
        for a in study.encoder.sensitive
    ]
    return st.tuples(*each)


@given(draws(), st.floats(18, 100))
def test_a_report_tells_levels_and_epsilons_and_nothing_else(drawn, age):
    """The features are a function of the clear answers and of what was drawn."""
    features = SENSITIVE.encode({"age": age}, drawn)
    assert device_encoding.read_draws(ENCODER, features) == drawn
    assert np.linalg.norm(features.astype(float)) <= 1
    summary = SENSITIVE.decode(features)
    assert summary["status"] == STATUS.levels[drawn[0][0]]
    assert summary["income"] == INCOME.choices[drawn[1][0]]
    truth = {"age": age, "status": "widowed", "income": 3.0}
    np.testing.assert_array_equal(features, SENSITIVE.encode(truth, drawn))


def test_true_answers_do_not_leave_by_mistake():
    with pytest.raises(InvalidInput, match="must not leave as they are"):
        SENSITIVE.encode(ANSWERS)


@given(draws(), st.data())
def test_a_service_takes_codes_of_the_menu_and_no_others(drawn, data):
    rules = Rules.of(SENSITIVE, require_tokens=False)
    features = SENSITIVE.encode({"age": 40.0}, drawn)
    report = report_of(features)
    assert not isinstance(rules.read([report], 0.0)[0], Refusal)
    block = ENCODER.blocks[data.draw(st.integers(0, 1))]
    spoilt = features.copy()
    where = block.start + data.draw(st.integers(0, block.levels - 1))
    spoilt[where] = np.nextafter(spoilt[where], np.float32(0))
    refused = rules.read([report_of(spoilt)], 0.0)[0]
    assert isinstance(refused, Refusal) and refused.code == "bad_features"
    plain = ENCODER.rows(ENCODER.numbers([np.array([1]), np.array([40.0]), np.array([3.0])]))[0][0]
    summary = rules.read([report_of(plain.astype(np.float32))], 0.0)[0]
    assert isinstance(summary, Refusal)  # a true answer, not a code


def report_of(features):
    return encode_report(make_report(SENSITIVE, epsilon=1_000_000, features=features))


def test_chance_decides_once_and_the_memory_holds_what_is_sent(tmp_path):
    memory = Memory(tmp_path)
    seen = set()
    for status in ("single", "married", "widowed"):
        data = prepare(SENSITIVE, memory, ANSWERS | {"status": status}, 1, 1_000_000)
        seen.add(features_of(decode_report(data)).tobytes())
    assert len(seen) == 1  # whatever is said later
    kept = next(path for path in tmp_path.iterdir())
    memo = json.loads(kept.read_text())
    summary = preview(SENSITIVE, data)
    assert tuple(map(tuple, memo["answers"])) == device_encoding.read_draws(
        ENCODER, features_of(summary.report)
    )
    beside = {"version", "code"}  # nothing of what was answered
    assert set(memo) - beside == {"study", "id", "epsilon", "label", "answers"}
    assert summary.answer_epsilons == {"status": 1.0, "income": 1.0}


def test_each_answer_has_a_coin_of_its_own(tmp_path):
    """Chances of the device's own draws, 1,500 devices, within 6 deviations (a false alarm in
    fewer than one of 10⁷ runs): ε of each answer, and no dependence between them.
    """
    summary = []
    for k in range(1_500):
        asked_for = asked.to_draw(SENSITIVE, ANSWERS, {"status": 2_000_000, "income": 500_000})
        memo = Memory(tmp_path).draw_once("0" * 64, str(k), 1, 1_000_000, 2, asked_for)
        summary.append([memo.label, *(level for level, _ in memo.answers)])
    found = np.array(summary)
    truth = np.array([1, 1, 2])
    kept = np.array([1 / (1 + (n - 1) * np.exp(-e)) for e, n in ((1, 2), (2, 3), (0.5, 5))])
    right = found == truth
    limit = 6 * np.sqrt(kept * (1 - kept) / len(found))
    assert (np.abs(right.mean(axis=0) - kept) < limit).all()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        both = kept[i] * kept[j]
        share = (right[:, i] & right[:, j]).mean()
        assert abs(share - both) < 6 * np.sqrt(both * (1 - both) / len(found))


@pytest.mark.parametrize(
    ("epsilons", "summary"), [({"age": 1.0}, "sensitive questions"), ({"status": 3.0}, "menu")]
)
def test_an_epsilon_that_is_not_on_the_menu_is_refused(epsilons, summary):
    with pytest.raises(InvalidInput, match=summary):
        asked.on_menus(SENSITIVE, epsilons)


def test_no_answer_is_not_an_answer():
    with pytest.raises(DataError, match="'status'"):
        asked.to_draw(SENSITIVE, {"age": 3.0}, {})


def people(m, rng):
    status = rng.integers(0, 3, m)
    age = rng.uniform(20, 90, m)
    income = np.where(rng.random(m) < 0.1, np.nan, rng.uniform(0, 200, m))
    y = (rng.random(m) < np.where(status == 1, 0.9, 0.1)).astype(int)
    columns = {
        "status": np.array(STATUS.levels)[status],
        "age": age,
        "income": np.array(["" if np.isnan(v) else f"{v:.3f}" for v in income]),
    }
    return columns, y


def test_the_ledger_has_rows_for_each_answer_and_each_adversary():
    plan = TrainingPlan(method="sums", label_noise=3.0, square_noise=4.0)
    spec = SENSITIVE.terms.server_spec(0, records=500, epsilons=(1.0,))
    ledger = plan_ledger(plan, spec)
    own = {line.data: line.epsilon for line in ledger.rows() if line.adversary == "own server"}
    assert own["answer: status"] == own["answer: income"] == 2.0  # the largest of the menu
    assert own["label and randomised answers"] == 5.0 and own["features"] == np.inf
    others = {line.data: line.epsilon for line in ledger.rows() if line.adversary[:5] == "other"}
    assert 0 < others["answer: status"] < others["features"]
    assert others["answer: status"] < others["label and randomised answers"]
    quiet = plan_ledger(replace(plan, label_noise=1.5, square_noise=2.0), spec)  # half the noise
    assert quiet.row("answer: status", "other servers").epsilon > others["answer: status"]
    every = plan_ledger(plan, ALL.terms.server_spec(0, records=500, epsilons=(1.0,)))
    assert every.row("features", "own server").epsilon == 5.0  # the label's is one of them
    assert every.row("features", "other servers").epsilon <= others["features"]


def plan_ledger(plan, spec):
    from pdml.accounting import Ledger

    return Ledger(((spec.flip(), *plan.events(spec)),))


def test_a_model_learns_from_answers_that_nobody_was_told(tmp_path):
    """The label hangs on the status alone, of which servers have codes only."""
    rng = np.random.default_rng(0)
    study = replace(
        SENSITIVE, budget=Budget(features_epsilon=20.0, labels_epsilon=2.0), min_records=50
    )
    data = {}
    for k, server in enumerate(study.servers):
        columns, y = people(2_000, rng)
        table = Table(columns=columns)
        features = study.encode_table(table, Simulated(k).stream(LABELS))
        data[server.name] = frozen(tmp_path / server.name, study, server.name, features, y)
    plan = TrainingPlan(method="sums", label_noise=1.0, square_noise=1.0)
    trained = train_study(study, data, plan=plan, random_state=0)
    columns, y = people(2_000, rng)
    right = trained.model.predict(trained.model.features(Table(columns=columns)))
    share = np.mean(np.asarray(right) == np.array(study.classes)[y])
    assert share > 0.8  # of 0.9 at best, and 0.63 for whoever always says "no"
    lines = {line.data for line in trained.ledger.rows()}
    assert "answer: status" in lines
    page = prediction_page(trained.model, study).decode()  # the file names its study
    assert study.question in page and "expected to be right for" in page
    summary = trained.person_rows()  # everybody's ε is the suggested one, not the menu's largest
    assert len(summary) == 6_000 and set(summary.answers["answer: status"].receiving_server) == {
        1.0
    }
    assert set(summary.answers["label and randomised answers"].receiving_server) == {4.0}
    worst = trained.ledger.row("answer: income", "other servers").epsilon
    assert (summary.answers["answer: income"].other_servers < worst).all()


def test_what_is_published_does_not_tell_which_epsilon_people_chose(tmp_path):
    """A choice stands in the record: lines by the largest one in use would release it uncounted.
    Lines, events, plan and what is said of the noise are the same whether all chose the smallest or
    one the largest.
    """
    study = replace(SENSITIVE, min_records=50, budget=Budget(features_epsilon=20.0))
    plan = TrainingPlan(method="sums", label_noise=1.0, square_noise=1.0)
    y = np.arange(60) % 2
    summary = []
    for name, last in (("smallest", 500_000), ("one largest", 2_000_000)):
        data = {}
        for server in study.servers:
            chosen = [500_000] * 59 + [last]
            rows = [study.encode(ANSWERS, [(1, each), (2, each)]) for each in chosen]
            folder = tmp_path / f"{name} {server.name}"
            data[server.name] = frozen(folder, study, server.name, np.array(rows), y)
        trained = train_study(study, data, plan=plan, random_state=0)
        summary.append((trained.model.privacy, trained.ledger, trained.model.plan))
        own = trained.person_rows().answers["answer: status"].receiving_server
        assert set(own) == {0.5, last / 1e6}  # which stay where the data are
    assert summary[0] == summary[1]
    assert trained.ledger.row("answer: status", "own server").epsilon == 2.0


def frozen(folder, study, server, features, y):
    from pdml.study.frozen_dataset import FrozenWriter

    with FrozenWriter(
        folder,
        width=study.width,
        classes=2,
        study_hash=study.hash,
        study_id=study.id,
        server=server,
        randomised_by="devices",
    ) as writer:
        writer.append(features, y.astype(np.int32), np.full(len(y), 2_000_000))
        writer.finish(frozen_at="2026-03-01T14Z")
    return folder
