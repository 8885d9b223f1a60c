"""The parts of the FLARE engine that need no processes: kits, the desk's words, a process that begins once."""

import json
import os
import stat
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest

pytest.importorskip("nvflare")

from federation import NAMES, PLAN, study_of
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import make_reply

from pdml.errors import DataError, InvalidInput, JournalError, NotCertified, PeerError
from pdml.node.exchange import HELLO, OK, Answer
from pdml.node.flare import session
from pdml.node.flare.executor import PDMLExecutor
from pdml.node.flare.provision import EXECUTOR, provision
from pdml.node.flare.session import JobFailed
from pdml.node.flare.terms import Terms
from pdml.node.flare.topics import BYTES, SENTENCE, TRAIN
from pdml.node.holdings import agreed
from pdml.node.sentences import told


def test_kits_are_private_and_trust_nobody(tmp_path):
    kits = provision(study_of(), tmp_path / "kits")
    for path in (tmp_path / "kits").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    resources = json.loads((kits["bob"] / "local" / "resources.json").read_text())
    assert resources["class_allow_list"] == [EXECUTOR] and resources["allow_log_streaming"] is False
    rights = json.loads((kits["bob"] / "local" / "authorization.json").read_text())["permissions"]
    assert set(rights) == {"project_admin"} and rights["project_admin"]["byoc"] == rights["project_admin"]["shell_commands"] == "none"
    keys = [json.loads((kit / "pdml" / "node.json").read_text())["keys"] for kit in kits.values()]
    assert all(key == keys[0] and set(key) == set(NAMES) for key in keys)
    assert len({(kits[name] / "pdml" / "node.key").read_text() for name in NAMES}) == len(NAMES)
    assert not os.path.exists(kits["bob"] / "startup" / "rootCA.key")


class Terse:
    """A relay's session in which a job runs for a moment, ends abnormally and leaves nothing."""

    def __init__(self, answering, folder):
        self.answering, self.folder, self.states = answering, folder, ["RUNNING", "FINISHED:ABNORMAL"]

    def get_connected_client_list(self):
        return [SimpleNamespace(name=name) for name in NAMES]

    def get_client_job_status(self, names):
        return [{"client_name": name, "status": "no_jobs" if name in self.answering else "no_reply"} for name in names]

    def get_job_meta(self, job):
        return {"status": self.states.pop(0)}

    def do_app_command(self, job, topic, data):
        return {"rounds": {"alice": 3, "bob": 2, "carol": 3}}

    def download_job_result(self, job, folder):
        return str(self.folder)


@pytest.mark.parametrize(
    ("answering", "said"),
    [
        (NAMES, r"at the relay or at one of alice \(round 3\), bob \(round 2\), carol \(round 3\), .* \(FINISHED:ABNORMAL\); resume"),
        (("alice", "carol"), r"no longer hears from bob, .* \(FINISHED:ABNORMAL\); to go on, resume"),
    ],
    ids=["all answer", "one is silent"],
)
def test_an_end_without_a_word_names_who_may_be_meant(tmp_path, monkeypatch, answering, said):
    """FLARE can end the relay's part of a job before it has written anything."""
    monkeypatch.setattr(session, "_POLL", 0.0)
    desk = session.Desk(None, Terse(answering, tmp_path))
    status = desk.follow("number", lambda rounds: None, timeout=60)
    with pytest.raises(JobFailed, match=said):
        desk.result("number", agreed(study_of(), PLAN, "job"), status)


def test_provisioning_refuses_what_cannot_work(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be used for training with FLARE"):
        provision(study_of(("relay", "bob", "carol")), tmp_path / "a")
    study = study_of()
    far = replace(study, servers=(replace(study.servers[0], url="https://alice.example"), *study.servers[1:]))
    with pytest.raises(InvalidInput, match="relay must be given as HOST:PORT"):
        provision(far, tmp_path / "b")
    with pytest.raises(InvalidInput, match="relay must be HOST:PORT"):
        provision(far, tmp_path / "c", relay="nowhere")
    with pytest.raises(InvalidInput, match="has no budget"):
        provision(replace(study, budget=None), tmp_path / "e")
    (tmp_path / "d").mkdir()
    with pytest.raises(InvalidInput, match="exists already"):
        provision(study, tmp_path / "d")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d"]


def test_a_process_begins_its_job_once():
    """FLARE takes a task from any node of the job, as often as it comes; a second one must not touch the journal."""
    executor = PDMLExecutor(terms={})
    executor._begun = True
    with pytest.raises(JournalError, match="has begun the job already"):
        executor._train(None)


@pytest.fixture
def executor(monkeypatch):
    made = PDMLExecutor(terms={}, start_timeout=1e9, round_timeout=1e9)
    for log in ("log_error", "log_exception"):
        monkeypatch.setattr(made, log, lambda *_: None)
    return made


def test_whoever_submits_cannot_let_a_node_wait_for_ever(executor):
    assert executor._start_timeout == executor._round_timeout == 86_400


def said_of(executor, monkeypatch, error):
    """What the relay hears when the job ends with ``error`` here."""

    def fail(_):
        raise error

    monkeypatch.setattr(executor, "_train", fail)
    reply = executor.execute(TRAIN, None, SimpleNamespace(get_identity_name=lambda: "bob"), None)
    return reply[SENTENCE], reply.get_return_code()


INSIDE = [NotCertified("9"), ValueError("9"), JournalError("9"), DataError("9"), MemoryError()]


def test_whatever_happens_inside_sounds_the_same_outside(executor, monkeypatch):
    """A gradient without noise is no part of the ledger; an error's text may quote a record, and
    its kind is a fact about records too."""
    (only,) = {said_of(executor, monkeypatch, error) for error in INSIDE}
    sentence = "bob could not go on: the log of its node says why"
    assert only == (sentence, ReturnCode.EXECUTION_EXCEPTION)


def test_what_is_public_is_told(executor, monkeypatch):
    full = JournalError("bob knows job 7 already: resume it").for_others()
    assert said_of(executor, monkeypatch, full)[0] == "bob knows job 7 already: resume it"
    liar = PeerError("carol sent a vector of round 3 that is not finite")
    assert said_of(executor, monkeypatch, liar)[0] == str(liar)


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({}, "the job's terms cannot be read"),
        ({"job": "j", "study": "5" * 64, "plan": {}, "servers": []}, "the job is for the study"),
    ],
)
def test_why_a_nodes_own_study_forbids_a_job_may_be_heard(terms, said):
    """It follows from the study and from what the job says of itself."""
    with pytest.raises(InvalidInput, match=said) as refused:
        Terms.read(terms).contract(study_of())
    assert told(refused.value, "bob").startswith(f"bob: {said}")


@pytest.mark.parametrize(("messages", "taken"), [(1, True), (100, False)], ids=["short", "long"])
def test_an_answer_is_measured_before_it_is_parsed(executor, messages, taken):
    contract = agreed(study_of(), PLAN, "job")
    executor._exchange = SimpleNamespace(party=SimpleNamespace(contract=contract))
    said = make_reply(ReturnCode.OK)
    said[BYTES] = msgspec.msgpack.encode(Answer(OK, messages=[bytes(500)] * messages))
    engine = SimpleNamespace(send_aux_request=lambda targets, **_: dict.fromkeys(targets, said))
    send = executor._sender(SimpleNamespace(get_engine=lambda: engine))
    assert ("bob" in send(HELLO, {"bob": b""}, 1.0)) is taken
