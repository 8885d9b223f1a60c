"""Ray actors on a real cluster of two raylets: the local engine's numbers to the bit, and a dead
actor is an error.
"""

import os
import signal
import sys
from dataclasses import replace

import numpy as np
import pytest
from consortium import NAMES, Consortium
from estimators import make_classifier
from faint import SILENT, faint, without_sign
from raylets import raylets

from pdml.errors import EngineError, InvalidInput, MissingExtra
from pdml.planning.training_plan import TrainingPlan
from pdml.training import local_engine

ray = pytest.importorskip("ray")

from ray import cloudpickle  # noqa: E402

from pdml.training import ray_engine as engine  # noqa: E402

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the actors cannot import a test


def join(made):
    ray.init(address=made.address, log_to_driver=False, _node_ip_address="127.0.0.1")


@pytest.fixture(scope="module")
def cluster():
    with raylets() as made:
        join(made)
        try:
            yield made
        finally:
            ray.shutdown()


@pytest.fixture
def left(cluster):
    """The cluster, which this process has not joined."""
    ray.shutdown()
    yield cluster
    join(cluster)


@pytest.fixture
def run(tmp_path):
    made = Consortium(tmp_path)
    return made.job_terms.graph, local_engine.Run(made.job_terms.plan, made.servers, made.source)


def test_it_is_the_local_engine_to_the_bit(cluster, run):
    graph, whole = run
    expected = local_engine.train(graph, whole)
    seen = []
    found = engine.train(
        graph,
        whole.plan,
        whole.source,
        engine.shards_of(whole, 3),
        observe=lambda t, released, _: seen.append((t, released.shape)),
    )
    np.testing.assert_array_equal(found.released, expected.released)
    mine, theirs = found.solver, expected.solver
    np.testing.assert_array_equal(mine.certified, theirs.certified)
    np.testing.assert_allclose(found.consensus, expected.consensus, rtol=1e-12)
    assert (mine.passes, mine.hessians) == (theirs.passes, theirs.hessians)
    assert seen == [(t, (1, 4, 1, 4)) for t in range(1, 13)]


@pytest.mark.parametrize("local_model", [False, True])
def test_sums_are_the_local_engines_to_the_bit(cluster, run, local_model):
    whole = replace(run[1], plan=TrainingPlan(method="sums", colluding=2))
    expected = local_engine.exchange(whole, local_models=local_model)
    shards = engine.shards_of(whole, 3)
    found = engine.exchange(whole.plan, whole.source, shards[::-1], local_models=local_model)
    np.testing.assert_array_equal(found.released, expected.released)
    assert len(found.local_models) == len(expected.local_models) == (4 if local_model else 0)
    for mine, theirs in zip(found.local_models, expected.local_models, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


def test_a_zero_that_actors_release_has_no_sign(cluster, tmp_path):
    made, seen = faint(tmp_path), []
    run = local_engine.Run(SILENT, made.servers, made.source)
    shards = engine.shards_of(run, 2)
    keep = lambda t, released, _: seen.append(released.copy())  # noqa: E731
    engine.train(made.job_terms.graph, SILENT, made.source, shards, observe=keep)
    assert without_sign(seen)


class Where:
    """Loads one server's records, and leaves a note saying on which raylet."""

    def __init__(self, server, note):
        self.server, self.note = server, note

    def __call__(self):
        import ray

        self.note.write_text(ray.get_runtime_context().get_node_id())
        return [self.server]


def test_records_are_loaded_where_they_live(cluster, run, tmp_path):
    graph, whole = run
    places = ["north", "south", "south", "north"]
    shards = [
        engine.Shard((i,), Where(server, tmp_path / str(i)), {place: 1})
        for i, (server, place) in enumerate(zip(whole.servers, places, strict=True))
    ]
    found = engine.train(graph, whole.plan, whole.source, shards)
    np.testing.assert_array_equal(found.released, local_engine.train(graph, whole).released)
    homes = [(tmp_path / str(i)).read_text() for i in range(4)]
    assert homes[0] == homes[3] != homes[1] == homes[2]


class Mortal:
    """A server whose actor can be killed from outside."""

    def __init__(self, server, note):
        self.server, self.note = server, note

    def __call__(self):
        self.note.write_text(str(os.getpid()))
        return [self.server]


def test_a_dead_actor_is_an_error_that_names_its_server(cluster, run, tmp_path):
    graph, whole = run
    shards = [
        engine.Shard((i,), Mortal(server, tmp_path / str(i)))
        for i, server in enumerate(whole.servers)
    ]

    def murder(t, *_):
        if t == 5:
            os.kill(int((tmp_path / "2").read_text()), signal.SIGKILL)

    with pytest.raises(
        EngineError, match=r"the actor of server 3 died in round 6 .*nothing was restarted"
    ):
        engine.train(graph, whole.plan, whole.source, shards, observe=murder)


class Slow(Mortal):
    def __call__(self):
        import time

        time.sleep(60)
        return [self.server]


def test_a_late_actor_is_an_error_that_names_its_server(cluster, run, tmp_path):
    graph, whole = run
    loaders = [
        Slow(server, tmp_path / str(i)) if i == 1 else Mortal(server, tmp_path / str(i))
        for i, server in enumerate(whole.servers)
    ]
    shards = [engine.Shard((i,), load) for i, load in enumerate(loaders)]
    with pytest.raises(
        EngineError,
        match=r"the actor of .*\bserver 2\b.* did not answer within 5 s while its records "
        r"were loaded",
    ):
        engine.train(graph, whole.plan, whole.source, shards, timeout=5)


class Missing(Mortal):
    def __call__(self):
        raise InvalidInput("the records are not here")


def test_what_an_actor_refuses_reads_as_it_was_said(cluster, run, tmp_path):
    graph, whole = run
    shards = [
        engine.Shard((i,), Missing(server, tmp_path)) for i, server in enumerate(whole.servers)
    ]
    with pytest.raises(InvalidInput, match=r"^the records are not here$"):
        engine.train(graph, whole.plan, whole.source, shards)


def test_shards_must_cover_the_servers(cluster, run):
    graph, whole = run
    with pytest.raises(InvalidInput, match="every server from 0 to 3 exactly once"):
        engine.train(graph, whole.plan, whole.source, engine.shards_of(whole, 2)[:1])
    wrong = [engine.Shard((1, 0, 2, 3), lambda: whole.servers)]
    with pytest.raises(InvalidInput, match="loaded"):
        engine.train(graph, whole.plan, whole.source, wrong)
    assert len(NAMES) == graph.n


PLANS = [TrainingPlan(rounds=5), TrainingPlan(method="sums", colluding=1)]


@pytest.mark.parametrize("plan", PLANS, ids=["rounds", "sums"])
def test_the_estimator_takes_it_by_name(cluster, plan):
    from pdml import PDMLClassifier
    from pdml.research.datasets import twonorm

    x, y = twonorm(200, np.random.default_rng(0))
    settings = {"n_servers": 4, "plan": plan, "random_state": 1, "diagnostics": True}
    here = make_classifier(**settings).fit(x, y)
    there = make_classifier(engine="ray", **settings).fit(x, y)
    np.testing.assert_array_equal(there.coef_, here.coef_)
    np.testing.assert_allclose(there.history_.risk, here.history_.risk, rtol=1e-12)
    with pytest.raises(InvalidInput, match="engine"):
        PDMLClassifier(engine="spark").fit(x, y)


@pytest.mark.parametrize("plan", PLANS, ids=["rounds", "sums"])
def test_a_study_trains_on_a_cluster(cluster, tmp_path, plan):
    """Each actor reads its own frozen data set, and the model is the local engine's."""
    from federation import NAMES as CLINICS
    from federation import freeze, study_of

    from pdml import train_study

    study = study_of(plan=plan)
    folders = {name: freeze(study, name, tmp_path / name) for name in CLINICS}
    there, here = (
        train_study(study, folders, engine=name, job="first", random_state=3)
        for name in ("ray", "local")
    )
    np.testing.assert_array_equal(there.model.coefficients, here.model.coefficients)
    assert there.model.privacy == here.model.privacy


def test_auto_is_the_cluster_of_the_environment_and_signals_stay_ours(left, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", left.address)
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        ours = signal.getsignal(signal.SIGTERM)
        with engine.connected("auto"):
            assert {node["NodeID"] for node in ray.nodes()} == {
                node.node_id for node in left.list_all_nodes()
            }
            assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("127.0.0.1:1", "there is no Ray cluster at '127.0.0.1:1'"),
        ("north", "there is no Ray cluster at 'north': an address is HOST:PORT"),
        ("auto", "there is no Ray cluster at 'auto': this machine belongs to none"),
    ],
)
def test_no_cluster_is_one_sentence(left, monkeypatch, address, sentence):
    def none(**_):
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", none)
    with pytest.raises(EngineError, match=sentence), engine.connected(address):
        pass
    monkeypatch.undo()


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(
            MissingExtra, match=r"ray, which is not installed: pip install 'pdml\[ray\]'"
        ),
        engine.connected(),
    ):
        pass
