"""What a node's folder, its relay and its journal refuse, each in one sentence."""

import base64
import json
import secrets
import socket
import sqlite3
import time
from dataclasses import replace

import pytest
from consortium import PLAN
from joined import STUDY, join, people

from pdml.errors import DataError, InvalidInput, JournalError
from pdml.mechanisms.randomness import Secure, Simulated
from pdml.node.crypto import tls
from pdml.node.crypto.signing import Identity
from pdml.node.daemon import relay_server
from pdml.node.daemon.daemon import MetricsServer
from pdml.node.job import training_data
from pdml.node.job.admission import AdmissionRule, Member
from pdml.node.job.training_data import import_table
from pdml.node.operator.status import NodeStatus, read_status
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import Offer
from pdml.node.storage.control_db import CONTROL, ControlDatabase
from pdml.node.storage.journal import Journal
from pdml.node.storage.node_dir import NodeDirectory
from pdml.study import Study
from pdml.study.frozen_dataset import open_frozen


@pytest.fixture
def alice(tmp_path):
    return join(tmp_path)


def test_a_folder_that_cannot_be_made_or_read(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"cannot make .*: not a directory"):
        NodeDirectory.create(tmp_path / "file" / "alice", "alice")
    home = NodeDirectory.create(tmp_path / "alice", "alice")
    with pytest.raises(InvalidInput, match="alice is in no study yet: `pdml node join"):
        home.study()
    config = next(path for path in home.folder.iterdir() if path.suffix == ".json")
    config.write_text(json.dumps(json.loads(config.read_text()) | {"version": 99}))
    with pytest.raises(InvalidInput, match="version 99"):
        NodeDirectory.open(home.folder)


def test_a_key_that_is_gone_is_not_made_anew(tmp_path):
    with pytest.raises(DataError, match=r"the node's key .* cannot be read: No such file"):
        Identity.load(tmp_path / "none.key")


def test_a_study_must_say_where_to_meet_and_whose_keys_hold(alice):
    study = alice.study()
    with pytest.raises(InvalidInput, match="names no relay: nodes would not know where to meet"):
        alice.join(replace(study, relay=None), "")
    mine, other = study.servers
    without = replace(study, servers=(mine, replace(other, signing_key="", sealing_key="")))
    with pytest.raises(InvalidInput, match="pins no keys for bob: nobody could know them"):
        alice.join(without, "")
    with pytest.raises(
        InvalidInput, match=r"alice has no revision 000000000000\.\.\. of its study"
    ):
        alice.revision("0" * 64)


def test_a_key_with_which_everybody_would_have_one_secret_masks_nothing(alice):
    study = alice.study()
    mine, other = study.servers
    raw = base64.b64decode(other.sealing_key)
    empty = base64.b64encode(raw[:-32] + bytes(32)).decode()  # a point of low order
    weak = replace(study, servers=(mine, replace(other, sealing_key=empty)))
    with pytest.raises(InvalidInput, match="the sealing key of bob in the study gives no secret"):
        alice.shared(weak)


def test_a_relay_that_its_study_does_not_describe(alice, tmp_path):
    study, out = alice.study(), tmp_path / "relay"
    with pytest.raises(InvalidInput, match="names no relay: `pdml relay config --address"):
        relay_server.configure(replace(study, relay=None), out)
    elsewhere = replace(study.relay, fingerprint="0" * 64)
    with pytest.raises(InvalidInput, match="is not the one that the study pins"):
        relay_server.configure(replace(study, relay=elsewhere), out)
    bare = tuple(replace(each, signing_key="", sealing_key="") for each in study.servers)
    with pytest.raises(InvalidInput, match="pins no keys for alice, bob: `pdml study add-server`"):
        relay_server.configure(replace(study, servers=bare), out)
    with pytest.raises(InvalidInput, match="is no relay: `pdml relay config` makes one"):
        relay_server.command(tmp_path / "nowhere")
    (tmp_path / "bare.toml").write_text(STUDY)
    with pytest.raises(InvalidInput, match=r"bare.toml names no relay: give --address HOST:PORT"):
        relay_server.set_up(tmp_path / "bare.toml", tmp_path / "other")


def test_a_certificate_of_one_s_own_comes_with_its_key(tmp_path):
    own, out = tmp_path / "own", tmp_path / "relay"
    own.mkdir()
    made = tls.make(own, "relay.example")
    pair = {"certificate": own / tls.CERTIFICATE, "key": own / tls.KEY}
    with pytest.raises(InvalidInput, match="a certificate needs its key"):
        relay_server.prepare(out, "relay.example:4222", certificate=pair["certificate"])
    found = relay_server.prepare(out, "relay.example:4222", **pair)
    assert found.fingerprint == tls.fingerprint(made)
    assert (out / tls.KEY).read_bytes() == pair["key"].read_bytes()
    assert (out / tls.KEY).stat().st_mode & 0o777 == 0o600


def test_a_journal_in_which_nothing_stands_is_not_taken_for_one(tmp_path):
    (tmp_path / "text.db").write_text("no database, but long enough to be looked into" * 20)
    with pytest.raises(JournalError, match=r"the journal text.db cannot be read"):
        Journal.peek(tmp_path / "text.db")
    sqlite3.connect(tmp_path / "empty.db").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(JournalError, match=r"the journal empty.db holds nothing"):
        Journal.peek(tmp_path / "empty.db")
    (tmp_path / CONTROL).write_text("no database either, whoever asks for one" * 20)
    with pytest.raises(InvalidInput, match=r"the node's control database .* cannot be used"):
        ControlDatabase(tmp_path)


@pytest.mark.parametrize(("days", "said"), [(40, ""), (3, "ends in 3 days"), (-1, "has ended")])
def test_an_operator_hears_of_a_certificate_s_end_in_time(alice, days, said):
    account: NodeStatus = read_status(alice)
    told = replace(account, connection={"ends": time.time() + 86_400 * days + 60})
    assert said in told.warning and bool(told.warning) == bool(said)


def test_a_job_that_is_known_is_resumed_or_has_another_name(alice):
    study: Study = alice.study()
    import_table(alice, people(), label="diagnosed", epsilon=2.0, randomise=True)
    alice = NodeDirectory.open(alice.folder)
    june, may = (JobTerms.for_study(study, PLAN, name) for name in ("june", "may"))
    names = {"server": "alice", "dataset": alice.load_training_data().dataset, "source": "secure"}
    journal = alice.journal()
    journal.begin("june", terms=june.digest, sealed=b"", plan="", **names)
    journal.begin("may", terms="0" * 64, sealed=b"", plan="", **names)
    journal.commit("june", 1, payload=b"", events=[])
    journal.close()
    terms = {"offerer": "bob", "resume": False, "start_timeout": 60.0, "round_timeout": 60.0}
    committed = alice.committed()
    member = Member(name="alice", study=study, identity=alice.identity())
    judge, careless = (
        AdmissionRule(member, alice, committed, each.name) for each in (Secure(), Simulated(1))
    )
    for job_terms, who, said in (
        (june, judge, "alice knows job june already: resume it"),
        (may, judge, "job may is in alice's journal with other terms"),
        (
            JobTerms.for_study(study, PLAN, "july"),
            careless,
            "used with secure noise before",
        ),
    ):
        with pytest.raises(JournalError, match=said):
            who.check(Offer.of(job_terms, attempt=secrets.token_hex(16), **terms))
    committed.close()


def test_a_node_whose_records_do_not_fit_refuses_when_it_is_asked(alice, monkeypatch):
    """Not after everybody has begun; and in an operator's words."""
    study: Study = alice.study()
    import_table(alice, people(), label="diagnosed", epsilon=2.0, randomise=True)
    alice = NodeDirectory.open(alice.folder)
    journal = alice.journal()
    member = Member(name="alice", study=study, identity=alice.identity())
    judge = AdmissionRule(member, alice, journal, "secure")
    terms = {"offerer": "bob", "resume": False, "start_timeout": 60.0, "round_timeout": 60.0}
    offer = Offer.of(
        JobTerms.for_study(study, PLAN, "june"), attempt=secrets.token_hex(16), **terms
    )
    judge.check(offer)
    records = judge.load_training_data()
    other = replace(records.server, spec=replace(records.server.spec, constant=0.5))
    monkeypatch.setattr(judge, "load_training_data", lambda: replace(records, server=other))
    with pytest.raises(InvalidInput) as refusal:
        judge.check(offer)
    assert str(refusal.value) == (
        "the data set of alice does not fit job june: they differ in the encoder. Import the data "
        "set again under the job's study, with pdml node data"
    )
    journal.close()


def test_true_answers_that_the_study_randomises_do_not_get_in_as_they_are(tmp_path):
    """A table does not say which of its answers went through a coin, nor how."""
    levels = 'levels = ["female", "male"]\n'
    coin = "epsilon = { menu = [1], default = 1 }\n"
    alice = join(tmp_path, STUDY.replace(levels, levels + coin) + "\n[encoder]\nversion = 1\n")
    how = {"label": "diagnosed", "epsilon": 1.0}
    with pytest.raises(InvalidInput, match="can be imported with --randomise only"):
        import_table(alice, people(), randomise=False, **how)
    held = import_table(alice, people(), randomise=True, **how)
    assert held.server.spec.records == 150


def test_records_of_another_shape_are_another_study_s(alice):
    import_table(alice, people(), label="diagnosed", epsilon=2.0, randomise=True)
    alice = NodeDirectory.open(alice.folder)
    study, frozen = alice.study(), open_frozen(alice.path(alice.config.data))
    wide = replace(frozen, manifest=replace(frozen.manifest, width=99))
    with pytest.raises(DataError, match="alice has 99 features and 2 classes: another study's"):
        training_data.load_training_data(study, "alice", wide)


def test_figures_are_for_this_machine(alice):
    for address in ("0.0.0.0:9100", "127.0.0.1:port", "127.0.0.1:70000"):
        with pytest.raises(InvalidInput, match=r"metrics must be 127\.0\.0\.1:PORT"):
            MetricsServer(alice.folder, address)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InvalidInput, match=r"metrics cannot be shown at .*: address already"):
            MetricsServer(alice.folder, address)


def test_a_relay_needs_a_server_that_is_new_enough(tmp_path, monkeypatch):
    assert relay_server._version(str(tmp_path / "none")) == ()
    monkeypatch.setattr(relay_server, "_packaged", lambda: "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInput, match=r"the relay needs nats-server .* or newer: pip install"):
        relay_server.find_server()
