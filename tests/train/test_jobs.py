"""Independent jobs: the same results in this process, in several, and on a real cluster of two raylets, where they really run."""

import os
import signal
import socket
import sys
import threading
import time
from importlib import metadata
from types import SimpleNamespace

import pytest
from raylets import raylets

from pdml.audit import Effort, victim
from pdml.cli import main
from pdml.errors import EngineError, InvalidInput
from pdml.experiments import bounds_check, curves
from pdml.train.engines import jobs
from pdml.train.engines import ray as engine
from pdml.train.engines.jobs import on_cluster, spread

ray = pytest.importorskip("ray")

from ray import cloudpickle  # noqa: E402

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import a test

pytestmark = pytest.mark.xdist_group("ray")


@pytest.fixture(scope="module")
def cluster():
    with raylets() as made:
        yield made


@pytest.fixture
def joined(cluster):
    with engine.connected(cluster.address), on_cluster() as cpus:
        yield cpus


class Noted:
    """Does what ``work`` does, and leaves a note: which process of which raylet did it."""

    def __init__(self, work, folder):
        self.work, self.folder = work, folder
        folder.mkdir()

    def __call__(self, *task, **others):
        import ray

        place = ray.get_runtime_context().get_node_id() if ray.is_initialized() else "no raylet"
        (self.folder / str(os.getpid())).write_text(place)
        return self.work(*task, **others)

    def places(self):
        return {int(note.name): note.read_text() for note in self.folder.iterdir()}


def said(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code, *capsys.readouterr()


def both(capsys, monkeypatch, tmp_path, cluster, module, name, *arguments):
    """What the command says in this process and on the cluster, each in a folder of its own, and where the jobs ran."""
    heard = []
    noted = Noted(getattr(module, name), tmp_path / "notes")
    for where, options in (("here", ("--jobs", "1")), ("there", ("--cluster", cluster.address))):
        (tmp_path / where).mkdir()
        monkeypatch.chdir(tmp_path / where)
        heard.append(said(capsys, *arguments, *options))
        monkeypatch.setattr(module, name, noted)
    return *heard, noted.places()


def ran_on_both_raylets(places, cluster):
    return os.getpid() not in places and set(places.values()) == {node.node_id for node in cluster.list_all_nodes()}


COMMANDS = {
    "audit": (victim, "_transcripts", ["audit", "--attack", "record_membership", "--json"]),
    "bound": (bounds_check, "compare", ["bound", "--check", "--json"]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_the_same_with_and_without_a_cluster(cluster, capsys, monkeypatch, tmp_path, command):
    monkeypatch.setattr("pdml.audit.QUICK", Effort(transcripts=400, labels=1_000, pairs=10))
    monkeypatch.setattr(victim, "CHUNK", 100)
    monkeypatch.setattr(bounds_check, "CASES", tuple(bounds_check.Case(records=200, rounds=5, epsilon=k + 1.0) for k in range(4)))
    module, name, arguments = COMMANDS[command]
    here, there, places = both(capsys, monkeypatch, tmp_path, cluster, module, name, *arguments)
    assert there[:2] == here[:2], there[2]
    assert here[1].startswith("{")
    assert ran_on_both_raylets(places, cluster)


@pytest.mark.slow
def test_a_figure_is_the_same_to_the_byte(cluster, capsys, monkeypatch, tmp_path, data_dir):
    arguments = ["reproduce", "fig3a", "--seeds", "4", "--out", "figures"]
    here, there, places = both(capsys, monkeypatch, tmp_path, cluster, curves, "_one_seed", *arguments)
    assert here[0] == 0
    assert there[:2] == here[:2], there[2]
    for kind in ("csv", "png", "svg"):
        first, second = (tmp_path / where / "figures" / f"fig3a.{kind}" for where in ("here", "there"))
        assert first.read_bytes() == second.read_bytes()
    assert ran_on_both_raylets(places, cluster)


def test_progress_is_told_and_order_is_kept(joined):
    told = []
    found = spread(divmod, [(k, 3) for k in range(8)], joined, lambda done, of: told.append((done, of)))
    assert joined == 4
    assert found == [divmod(k, 3) for k in range(8)]
    assert told[0] == (0, 8) and told[-1] == (8, 8) and told == sorted(told)


def _refuse(k):
    raise InvalidInput(f"{k} is refused")


def test_what_a_job_refuses_reads_as_it_was_said(joined):
    with pytest.raises(InvalidInput, match=r"^[01] is refused$"):
        spread(_refuse, [(0,), (1,)], joined)


def _die(k):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_lost_worker_is_one_sentence(cluster):
    with pytest.raises(EngineError, match=r"the Ray cluster lost a job \(\w+\): start the command again"):  # noqa: SIM117
        with engine.connected(cluster.address), on_cluster() as cpus:
            spread(_die, [(0,), (1,)], cpus)


class Halt(BaseException):
    pass


def _linger(note):
    note.touch()
    time.sleep(600)


def test_an_interrupted_command_leaves_nothing_that_would_start_ray_again(cluster, tmp_path):
    from ray.util.multiprocessing.pool import ResultThread

    def interrupt():
        while not all(note.exists() for note in notes):
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    def halt(number, frame):
        raise Halt

    notes = [tmp_path / "first", tmp_path / "second"]
    before = signal.signal(signal.SIGUSR1, halt)
    try:
        with engine.connected(cluster.address):
            with pytest.raises(Halt), on_cluster() as cpus:
                threading.Thread(target=interrupt, daemon=True).start()
                spread(_linger, [(note,) for note in notes], cpus)
            assert not any(isinstance(thread, ResultThread) for thread in threading.enumerate())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not ray.is_initialized()


def _share(k):
    import ray

    return ray.get_runtime_context().get_assigned_resources()["CPU"]


def test_cpus_are_taken_together_or_not_at_all(cluster, monkeypatch):
    with engine.connected(cluster.address):
        with on_cluster(3) as first:
            assert spread(_share, [(k,) for k in range(3)], first) == [1, 1, 1]
            monkeypatch.setattr(jobs, "ROOM", 2.0)
            with pytest.raises(EngineError, match="had no 2 CPUs free within 2 s"), on_cluster(2):
                pass
        monkeypatch.undo()
        with on_cluster(2) as second:
            assert spread(_share, [(0,), (1,)], second) == [1, 1]


def test_other_packages_elsewhere_are_refused(cluster, capsys, monkeypatch):
    real = metadata.distributions
    monkeypatch.setattr(metadata, "distributions", lambda name: [SimpleNamespace(version="9.9")] if name == "pdml" else real(name=name))
    code, out, err = said(capsys, "audit", "--attack", "sensitivity", "--cluster", cluster.address)
    assert (code, out) == (1, "")
    assert "pdml is " in err and "on 127.0.0.1 of the Ray cluster and 9.9 here: results would depend" in err


def test_auto_is_the_cluster_of_the_environment(cluster, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    with engine.connected("auto"):
        assert {node["NodeID"] for node in ray.nodes()} == {node.node_id for node in cluster.list_all_nodes()}


def test_signals_stay_ours(cluster):
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        ours = signal.getsignal(signal.SIGTERM)
        with engine.connected(cluster.address):
            assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("count", ["1", "5"])
def test_jobs_beyond_the_cluster_are_refused(cluster, capsys, count):
    code, _, err = said(capsys, "audit", "--cluster", cluster.address, "--jobs", count)
    assert code == 1
    assert f"jobs must be a whole number >= 2 and <= 4, got {count}" in err


def nobody():
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("command", [["reproduce", "fig3a"], ["audit"], ["bound", "--check"]], ids=" ".join)
@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        (None, "there is no Ray cluster at '127.0.0.1:"),
        ("north", "there is no Ray cluster at 'north': an address is HOST:PORT"),
        ("ray://127.0.0.1:10001", "--cluster must be HOST:PORT or auto, got 'ray://127.0.0.1:10001'"),
    ],
    ids=["nobody", "no port", "client"],
)
def test_no_cluster_is_one_sentence(capsys, command, address, sentence):
    code, out, err = said(capsys, *command, "--cluster", address or nobody())
    assert (code, out) == (1, "")
    assert sentence in err and len(err.splitlines()) == 1


def test_a_machine_without_a_cluster_is_one_sentence(capsys, monkeypatch):
    def none(**_):
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", none)
    assert said(capsys, "audit", "--cluster", "auto") == (1, "", "pdml: there is no Ray cluster at 'auto': this machine belongs to none\n")


def test_without_ray_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    sentence = "pdml: this needs Ray, which is not installed: pip install 'pdml[ray]'\n"
    assert said(capsys, "audit", "--cluster", "auto") == (1, "", sentence)


@pytest.mark.parametrize("options", [["--jobs", "2"], ["--cluster", "auto"]], ids=" ".join)
def test_a_bound_alone_has_no_jobs(capsys, options):
    code, out, err = said(capsys, "bound", "--records", "100", "--features", "3", *options)
    assert (code, out) == (1, "")
    assert "--jobs and --cluster belong to --check" in err


def test_nothing_to_do_is_done():
    assert spread(divmod, [], 4) == []
