"""All fits on the same people, added up as a deployment would live through them."""

import pickle
import subprocess
import sys
import threading
import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from estimators import make_classifier
from joblib import parallel_config
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from pdml import Budget, PrivacyLedgerSession, TrainingPlan
from pdml.accounting import Ledger
from pdml.errors import (
    BudgetExceeded,
    ClippingWarning,
    InvalidInput,
    PrivacyUtilityWarning,
    UncountedTrainingWarning,
)
from pdml.simulation import privacy_session, record_ids

SUMS = TrainingPlan(method="sums", label_noise=3.0, square_noise=5.0)
PRINT = "print it for the table>"
ROUNDS = TrainingPlan(rounds=4, noise_scale=1.0)


def people(seed=0, records=240, width=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(records, width)) / 2
    return x, (x[:, 0] + 0.2 * rng.normal(size=records) > 0).astype(int)


def classifier(**changes):
    settings = {"plan": SUMS, "n_servers": 3, "topology": "ring", "classes": (0, 1)}
    return make_classifier(**(settings | {"random_state": 0} | changes))


def spent(ledger, data="features"):
    return ledger.row(data, "other servers").epsilon


@pytest.mark.parametrize("plan", [SUMS, ROUNDS], ids=["sums", "rounds"])
def test_two_fits_are_two_releases_of_one_report(plan):
    """The ledger of a session is that of all events of a server behind one coin."""
    x, y = people()
    owners = np.arange(len(y)) % 3
    with PrivacyLedgerSession() as both:
        first, second = (classifier(plan=plan).fit(x, y, servers=owners) for _ in range(2))
    alone = classifier(plan=plan).fit(x, y, servers=owners).privacy_
    flip = alone.events[0][0]
    twice = Ledger(tuple((flip, *events[1:], *events[1:]) for events in alone.events), classes=2)
    for data in ("label", "features"):
        assert spent(both.ledger, data) == pytest.approx(spent(twice, data), rel=1e-6)
        assert spent(alone, data) < spent(both.ledger, data)
    assert both.ledger.row("label", "own server").epsilon == 1.0  # one report, whatever is fitted
    for fitted in (first, second):
        assert spent(fitted.privacy_) == spent(both.ledger)
    assert len(both) == 2 and "2 fits of a session on 240 people" in str(both.ledger)


def test_everybody_is_counted_in_the_fits_they_were_in():
    x, y = people()
    with PrivacyLedgerSession() as counted:
        last = classifier().fit(x, y)
        classifier().fit(x[:160], y[:160])
        classifier().fit(x[:80], y[:80])
    lines = last.privacy_.person_rows().features_other_servers
    three, two, one = lines[:80], lines[80:160], lines[160:]
    assert one.max() < two.min() <= two.max() < three.min()
    assert spent(counted.ledger) == pytest.approx(three.max())
    assert one == pytest.approx(spent(classifier().fit(x, y).privacy_), rel=1e-6)


def test_a_person_says_the_same_in_every_fit_and_stays_with_one_server():
    x, y = people()
    with PrivacyLedgerSession(random_state=3) as counted:
        coins = []
        for part in (slice(None), slice(60, 200), slice(0, 90)):
            fitted = classifier().fit(x[part], y[part])
            ids = counted.fits[-1].people
            coins.append(counted.memory.randomise_labels(ids, 1 - y[part], np.ones(len(ids)), 2))
            assert fitted.privacy_.reports is not None
    whole, middle, front = counted.fits
    np.testing.assert_array_equal(whole.reports.servers[60:200], middle.reports.servers)
    np.testing.assert_array_equal(whole.reports.servers[:90], front.reports.servers)
    np.testing.assert_array_equal(coins[0][60:200], coins[1])  # whatever label is asked about later
    np.testing.assert_array_equal(coins[0][:90], coins[2])
    flipped = np.mean(coins[0] != y)
    assert 0.1 < flipped < 0.5  # 0.27, of 240: outside with a chance below 1e-8


def test_another_epsilon_is_another_report():
    x, y = people()
    with PrivacyLedgerSession() as counted:
        GridSearchCV(classifier(), {"epsilon": [0.5, 1.0]}, cv=3).fit(x, y)
    assert counted.ledger.row("label", "own server").epsilon == pytest.approx(1.5)
    assert counted.ledger.person_rows().label_receiving_server == pytest.approx(np.full(240, 1.5))


@pytest.mark.parametrize("plan", [SUMS, ROUNDS], ids=["sums", "rounds"])
def test_fits_with_two_epsilons_tell_no_more_than_both_added_up(plan):
    """A bound above another that holds is no use: each alone, at half the delta."""
    x, y = people()
    chosen = [classifier(plan=plan, epsilon=epsilon) for epsilon in (1.0, 2.0)]
    alone = [clone(each).fit(x, y).privacy_ for each in chosen]
    with PrivacyLedgerSession() as counted:
        for each in chosen:
            each.fit(x, y)
    for data in ("label", "features"):
        parts = [spent(replace(one, delta=one.delta / 2), data) for one in alone]
        assert max(parts) * 0.9 < spent(counted.ledger, data) <= sum(parts)
    mine = counted.ledger.person_rows().features_other_servers
    assert max(mine) == pytest.approx(spent(counted.ledger), rel=1e-6)


def test_a_session_tells_of_fits_and_people_not_of_servers():
    """People of one server go through different events, and those of two through the same."""
    x, y = people()
    with PrivacyLedgerSession(budget=Budget(features_epsilon=1.0)) as counted:
        classifier(plan=replace(SUMS, label_noise=9.0, square_noise=20.0)).fit(x, y)
        assert repr(counted.ledger) == "<Ledger of 1 fit of a session on 240 people: " + PRINT
        assert "One fit of a session on 240 people is counted" in str(counted.ledger)
        classifier(plan=replace(SUMS, label_noise=9.0, square_noise=20.0)).fit(x, y)
        assert repr(counted.ledger) == "<Ledger of 2 fits of a session on 240 people: " + PRINT
        with pytest.raises(BudgetExceeded) as refused:
            classifier(plan=replace(SUMS, label_noise=0.3, square_noise=0.5)).fit(x, y)
    assert "server 1" not in str(refused.value)
    alone = classifier().fit(x, y).privacy_
    assert repr(alone) == "<Ledger of 3 servers, 240 reports: " + PRINT


def test_people_with_different_epsilons_keep_them_through_a_search():
    x, y = people()
    epsilons = np.where(np.arange(240) % 2, 0.5, 2.0)
    with config_context(enable_metadata_routing=True), PrivacyLedgerSession() as counted:
        asked = classifier().set_fit_request(epsilons=True, servers=True)
        search = GridSearchCV(asked, {"encoding__norm_bound": [1.0, 2.0]}, cv=3)
        search.fit(x, y, epsilons=epsilons, servers=np.arange(240) % 3)
    assert counted.ledger.row("label", "own server").epsilon == 2.0
    mine = search.best_estimator_.privacy_.person_rows().label_receiving_server
    np.testing.assert_array_equal(mine, epsilons)
    np.testing.assert_array_equal(
        search.best_estimator_.privacy_.reports.epsilons, counted.fits[-1].reports.epsilons
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_search_is_counted_whole_in_any_number_of_threads(jobs):
    x, y = people()
    with PrivacyLedgerSession() as counted:
        grid = {"plan__penalty": [0.1, 1.0], "plan__rounds": [2, 3]}
        search = GridSearchCV(classifier(plan=ROUNDS), grid, cv=3, n_jobs=jobs).fit(x, y)
    assert len(counted) == 4 * 3 + 1
    model = search.best_estimator_
    assert spent(model.privacy_) == pytest.approx(spent(counted.ledger))
    assert model.model_.privacy["counted"] == "13 fits of a session"
    assert spent(model.privacy_) > 2 * spent(classifier(plan=ROUNDS, rounds=3).fit(x, y).privacy_)


def test_another_process_is_refused_with_a_sentence():
    x, y = people(records=60)
    with PrivacyLedgerSession(), parallel_config(backend="loky"):
        search = GridSearchCV(classifier(), {"epsilon": [1.0, 2.0]}, cv=2, n_jobs=2)
        with pytest.raises(ValueError, match="counts fits in its own process"):
            search.fit(x, y)


def test_a_budget_of_all_fits_refuses_the_one_that_goes_past_it():
    x, y = people()
    once = spent(classifier().fit(x, y).privacy_)
    with PrivacyLedgerSession(budget=Budget(features_epsilon=1.2 * once)) as counted:
        classifier().fit(x, y)
        with pytest.raises(BudgetExceeded, match="2 exchanges"):
            classifier().fit(x, y)
        classifier().fit(*people(seed=1))  # other people
    assert len(counted) == 2


def test_what_is_saved_knows_the_sum_and_nobody_else():
    x, y = people()
    with PrivacyLedgerSession() as counted:
        fitted = classifier().fit(x[:120], y[:120])
        classifier().fit(x, y)
    loaded = pickle.loads(pickle.dumps(fitted))
    assert spent(loaded.privacy_) == spent(counted.ledger)
    assert len(loaded.privacy_.person_rows()) == 120 and loaded._training.session is None
    np.testing.assert_array_equal(loaded.predict(x), fitted.predict(x))


def known(counted):
    return len(np.unique(np.concatenate([fit.people for fit in counted.fits])))


def test_people_are_recognised_behind_a_fitted_step_by_name_or_by_what_came_before():
    x, y = people(width=5)
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(PCA(3), classifier().set_fit_request(people=True))
        for names in (np.arange(240), None):
            with PrivacyLedgerSession() as counted:
                for part in (slice(0, 160), slice(80, 240)):
                    given = {} if names is None else {"people": names[part]}
                    pipe.fit(x[part], y[part], **given)
            assert known(counted) == 240
    with PrivacyLedgerSession(), pytest.raises(InvalidInput, match="people must hold a name"):
        classifier().fit(x, y, people=np.zeros(240))


@pytest.mark.parametrize("kind", ["array", "sparse", "frame", "texts"])
def test_folds_of_a_search_over_a_pipeline_are_the_same_people(kind):
    """Also beside fits without one; what cannot be followed through is named in a warning."""
    x, y = people(width=4)
    table = {
        "array": lambda: x,
        "sparse": lambda: sp.csr_array(x),
        "frame": lambda: pd.DataFrame(x, columns=list("abcd")),
        "texts": lambda: pd.DataFrame({"a": np.round(4 * x[:, 0]).astype(str), "b": x[:, 1]}),
    }[kind]()
    steps = {
        "sparse": MaxAbsScaler(),
        "texts": ColumnTransformer([("a", OneHotEncoder(handle_unknown="ignore"), ["a"])]),
    }
    nested = make_pipeline(
        steps.get(kind, StandardScaler()), make_pipeline(MaxAbsScaler(), classifier())
    )
    name = "pipeline__pdmlclassifier__encoding__norm_bound"
    with warnings.catch_warnings(), PrivacyLedgerSession() as counted:
        warnings.simplefilter("error", UncountedTrainingWarning)
        GridSearchCV(nested, {name: [1.0, 2.0]}, cv=3).fit(table, y)
        if kind in ("array", "frame"):
            classifier().fit(table, y)
    assert known(counted) == 240


def test_people_behind_a_pipeline_that_cannot_be_followed_are_warned_of_once():
    """Bagging chooses rows, of whose values before the scaler nothing is known."""
    x, y = people(width=4)
    bagged = make_pipeline(StandardScaler(), BaggingClassifier(classifier(), 1, random_state=0))
    with PrivacyLedgerSession() as counted, warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        cross_val_score(bagged, x, y, cv=3)
    assert known(counted) > 240
    kinds = [one for one in heard if one.category is UncountedTrainingWarning]
    assert len(kinds) == 1 and "people=names" in str(kinds[0].message)


def test_a_pipeline_of_clones_outside_a_session_is_noticed():
    x, y = people(seed=77, width=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pdml.simulation.simulation.REFITS", record_ids.RefitMonitor())
        with pytest.warns(UncountedTrainingWarning, match="each ledger counts its own"):
            cross_val_score(make_pipeline(StandardScaler(), classifier()), x, y, cv=3)


@pytest.mark.filterwarnings("ignore::pdml.errors.PrivacyUtilityWarning")
def test_a_search_warns_once_of_each_kind():
    x, y = people(width=4)
    for inside in (True, False):
        search = GridSearchCV(classifier(), {"encoding__norm_bound": [0.01, 0.02]}, cv=3)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            with PrivacyLedgerSession() if inside else nullcontext():
                search.fit(x, y)
        kinds = [one.category for one in heard]
        assert ClippingWarning in kinds and len(kinds) == len(set(kinds))
    for _ in range(2):  # whoever asks for all of them hears it every time
        with pytest.warns(ClippingWarning):
            classifier(norm_bound=0.01).fit(x, y)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        for epsilon in (0.5, 1.0):
            cross_val_score(classifier(norm_bound=0.01, epsilon=epsilon), x, y, cv=3)
        for _ in range(3):
            classifier(norm_bound=0.01).fit(x, y)
    places = [(one.filename, one.lineno) for one in heard if one.category is ClippingWarning]
    assert len(places) == len(set(places)) == 2 and {file for file, _ in places} == {__file__}


def test_one_label_and_sensible_settings():
    x, y = people()
    with PrivacyLedgerSession() as counted, pytest.raises(InvalidInput, match="one label"):
        classifier().fit(x, y)
        classifier(classes=(0, 1, 2)).fit(x, y)
    assert len(counted) == 1
    with pytest.raises(InvalidInput, match="has counted no fit yet"):
        _ = PrivacyLedgerSession().ledger
    for wrong in ({"budget": 1.0}, {"random_state": -1}, {"randomness": "dice"}):
        with pytest.raises(InvalidInput):
            PrivacyLedgerSession(**wrong)
    assert privacy_session.open_sessions() == ()


def test_few_records_are_dealt_anew_rather_than_leaving_a_server_empty():
    x, y = people(records=12)
    with PrivacyLedgerSession(random_state=0) as counted:
        for start in range(4):
            classifier().fit(x[start::2], y[start::2])
    assert all(len(set(fit.reports.servers.tolist())) == 3 for fit in counted.fits)


def test_a_search_without_a_session_is_warned_of_once(monkeypatch):
    monkeypatch.setattr("pdml.simulation.simulation.REFITS", record_ids.RefitMonitor())
    x, y = people()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=PrivacyUtilityWarning)
        for _ in range(2):
            classifier().fit(x, y)  # no clone: whoever calls fit twice knows
        clone(classifier()).fit(*people(seed=1))
        assert not told
        cross_val_score(classifier(), x, y, cv=3)
    assert [each.category for each in told] == [UncountedTrainingWarning]
    monkeypatch.setattr("pdml.simulation.simulation.REFITS", record_ids.RefitMonitor())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncountedTrainingWarning)
        with PrivacyLedgerSession():
            cross_val_score(classifier(), x, y, cv=3)


def test_a_session_changes_no_fit_but_its_coins_and_servers():
    """With the coins and the servers of the session, the same releases follow."""
    x, y = people()
    owners = np.arange(240) % 3
    with PrivacyLedgerSession():
        one = classifier(epsilon=None).fit(x, y, servers=owners)
    other = classifier(epsilon=None).fit(x, y, servers=owners)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert replace(one.privacy_, notes=()).events != ()


def test_all_open_sessions_count_each_with_its_own_budget():
    x, y = people()
    once = spent(classifier().fit(x, y).privacy_)
    with PrivacyLedgerSession(budget=Budget(features_epsilon=1.7 * once)) as outer:
        classifier().fit(x, y)
        with PrivacyLedgerSession(budget=Budget(features_epsilon=5 * once)) as inner:
            second = classifier().fit(x, y)
            with pytest.raises(BudgetExceeded):  # the outer one's
                for _ in range(30):
                    classifier().fit(x, y)
        assert len(outer) > len(inner) >= 1
        assert spent(second.privacy_) == spent(outer.ledger) > spent(inner.ledger)
    with PrivacyLedgerSession() as outer:
        tight = PrivacyLedgerSession(budget=Budget(features_epsilon=once / 2))
        with tight as inner, pytest.raises(BudgetExceeded):  # then neither has counted it
            classifier().fit(x, y)
        assert len(outer) == len(inner) == 0


def test_sessions_of_two_threads_miss_nothing():
    """Also where they do not end in the order in which they began: one report for each ε."""
    x, y = people()
    opened, closed = threading.Event(), threading.Event()
    counted = {}

    def first():
        with PrivacyLedgerSession() as mine:
            classifier().fit(x, y)
            opened.set()
            counted["first"] = mine
            assert closed.wait(60)
        closed.clear()
        opened.set()

    worker = threading.Thread(target=first)
    worker.start()
    assert opened.wait(60)
    opened.clear()
    with PrivacyLedgerSession() as own:
        classifier().fit(x, y)
        before = own.memory.randomise_labels(own.fits[0].people, y, np.ones(240), 2)
        closed.set()
        assert opened.wait(60)
        classifier().fit(x, y)
        after = own.memory.randomise_labels(own.fits[1].people, y, np.ones(240), 2)
        alone = threading.Thread(target=classifier().fit, args=(x, y))  # opened in another thread
        alone.start()
        alone.join()
    worker.join()
    assert len(counted["first"]) == 2 and len(own) == 3
    np.testing.assert_array_equal(before, after)
    assert own.ledger.row("label", "own server").epsilon == 1.0


def test_another_label_of_the_same_people_is_refused():
    x, y = people()
    rng = np.random.default_rng(5)
    other = rng.integers(0, 2, len(y))
    for names in (np.arange(240), None):
        with PrivacyLedgerSession() as counted:
            classifier().fit(x, y, people=names)
            with pytest.raises(InvalidInput, match="one label"):
                classifier().fit(x, other, people=names)
            classifier().fit(x, y, people=names)
        assert len(counted) == 2
    swapped = y.copy()
    swapped[7] = 1 - y[7]
    with PrivacyLedgerSession():
        classifier().fit(x, y, people=np.arange(240))
        with pytest.raises(InvalidInput, match="1 of 240 records"):
            classifier().fit(x, swapped, people=np.arange(240))


@pytest.mark.parametrize("names", [np.arange(240), None], ids=["named first", "named later"])
def test_who_is_who_must_not_change_within_a_session(names):
    x, y = people()
    with PrivacyLedgerSession() as counted:
        classifier().fit(x, y, people=names)
        with pytest.raises(InvalidInput, match="in every fit of a session or in none"):
            classifier().fit(x, y, people=None if names is not None else np.arange(240))
    assert len(counted) == 1


def test_the_same_records_in_single_precision_are_the_same_people():
    x, y = people()
    with PrivacyLedgerSession() as counted:
        classifier().fit(x, y)
        classifier().fit(x.astype(np.float32), y)
    assert "on 240 people" in str(counted.ledger)
    np.testing.assert_array_equal(counted.fits[0].people, counted.fits[1].people)


def test_people_whose_names_python_hashes_alike_are_two():
    x, y = people()
    names = np.arange(240) - 3  # with -1 and -2
    with PrivacyLedgerSession() as counted:
        classifier().fit(x, y, people=names)
    assert len(np.unique(counted.fits[0].people)) == 240


def test_what_leaves_for_another_process_is_refused_there():
    x, y = people()
    with PrivacyLedgerSession():
        sent = pickle.dumps(classifier())
    elsewhere = pickle.loads(sent)
    elsewhere.fit(x, y)  # in the same process
    elsewhere._origin = replace(elsewhere._origin, process=elsewhere._origin.process + 1)
    with pytest.raises(InvalidInput, match="counts fits in its own process"):
        elsewhere.fit(x, y)


PROCESSES = """
import multiprocessing, os, sys
import numpy as np
from joblib import Parallel, delayed
from pdml import PDMLClassifier, PrivacyLedgerSession, TrainingPlan
from pdml.errors import InvalidInput
from pdml.simulation import privacy_session as session

SUMS = TrainingPlan(method="sums", label_noise=3.0, square_noise=5.0)


def fit(_=0):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)) / 2, np.arange(60) % 2
    try:
        PDMLClassifier(plan=SUMS, n_servers=3, topology="ring", classes=(0, 1)).fit(x, y)
    except InvalidInput as error:
        return str(error)
    return "fitted"


def forked():
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, fit().encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        return answer.read()


def pool(method):
    with multiprocessing.get_context(method).Pool(1) as workers:
        return workers.map(fit, [0])[0]


def workers():
    return Parallel(n_jobs=2, backend="loky")(delayed(fit)(k) for k in range(2))[0]


if __name__ == "__main__":
    ways = {
        "fork": forked,
        "pool": lambda: pool("fork"),
        "spawn": lambda: pool("spawn"),
        "loky": workers,
    }
    with PrivacyLedgerSession() as counted:
        for name in sys.argv[1:]:
            print(name, ways[name]())
        print("here", fit())
    print("counted", len(counted))
    for name in sys.argv[1:]:
        print("after", name, ways[name]())  # the same workers again, of loky
    print("mark", os.environ.get(session._MARK))
"""


@pytest.mark.parametrize("ways", [("fork", "pool"), ("spawn",), ("loky",)], ids=" ".join)
def test_a_fit_in_a_process_started_inside_a_session_is_refused(ways, tmp_path):
    """A new estimator, which carries nothing of the session. Once that is closed all is well."""
    script = tmp_path / "processes.py"
    script.write_text(PROCESSES)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *ways],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said == [
        *(f"{way} {privacy_session.ELSEWHERE}" for way in ways),
        "here fitted",
        "counted 1",
        *(f"after {way} fitted" for way in ways),
        "mark None",
    ]


def test_a_copy_of_a_session_in_another_process_counts_nothing(monkeypatch):
    """A fork that lives longer than the session it was made in."""
    x, y = people()
    with PrivacyLedgerSession() as copied:
        monkeypatch.delenv(privacy_session._MARK)
        monkeypatch.setattr(copied, "process", copied.process + 1)
        with pytest.raises(InvalidInput, match="counts fits in its own process"):
            classifier().fit(x, y)
    assert len(copied) == 0


def test_the_mark_of_a_session_that_has_ended_refuses_nothing(monkeypatch, tmp_path):
    x, y = people()
    monkeypatch.setenv(privacy_session._MARK, str(tmp_path / "gone"))
    with PrivacyLedgerSession() as counted:
        classifier().fit(x, y)
    assert len(counted) == 1
    other = tmp_path / "other"
    other.write_text("1")
    monkeypatch.setenv(privacy_session._MARK, str(other))
    with (
        PrivacyLedgerSession() as counted,
        pytest.raises(InvalidInput, match="counts fits in its own process"),
    ):
        classifier().fit(x, y)
    assert len(counted) == 0 and other.exists()


def test_sessions_that_do_not_fit_together_are_refused():
    x, y = people()
    with PrivacyLedgerSession() as before:
        classifier().fit(x, y)
    with PrivacyLedgerSession() as outer:
        with pytest.raises(InvalidInput, match="open already"), outer:
            pass
        with pytest.raises(InvalidInput, match="cannot be opened again"), before:
            pass
        with pytest.raises(InvalidInput, match="randomness must be"):
            PrivacyLedgerSession(randomness="secure").__enter__()
    assert privacy_session.open_sessions() == ()
