"""Every version of every format that is read: a specimen of each, and what is newer is refused with
a sentence that says which pdml is needed. tests/vectors/make_formats.py makes what is missing.
"""

import hashlib
import importlib
import json
import re
import shutil
import sqlite3
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from consortium import MASKED, SUMS
from results import sentences

from pdml import Study, __version__, load_model
from pdml.collector.storage.records import CollectionId
from pdml.collector.storage.sqlite import SqliteStore
from pdml.consortium.signed_evaluation import combine_evaluations
from pdml.device import receipt as saved_receipts
from pdml.device import simulated_participants
from pdml.device.memo import Memory
from pdml.encoding.device_encoding import read_draws
from pdml.errors import NotDelivered, PDMLError
from pdml.formats import Format
from pdml.node.crypto import signing as node_identity
from pdml.node.crypto.hpke import Sealer, SealingKey
from pdml.node.crypto.signing import Card
from pdml.node.protocol import equivocation, signed_statement, wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import Offer
from pdml.node.storage.control_db import CONTROL, ControlDatabase
from pdml.node.storage.journal import Journal
from pdml.node.storage.node_dir import NodeDirectory
from pdml.planning.plan_file import SavedPlan
from pdml.study.frozen_dataset import open_frozen
from pdml.study.messages import decode_report, encode_report, features_of, report_id
from pdml.tables import Table

ROOT = Path(__file__).parents[2]
STORED = Path(__file__).parents[1] / "vectors" / "formats"
TRIAL = json.loads((STORED / "report-1.json").read_bytes())["study"]


def declared() -> dict[str, Format]:
    """The formats of all modules, by name."""
    package, found = ROOT / "src", {}
    for path in sorted(package.rglob("*.py")):
        if re.search(r"^FORMAT = Format\(", path.read_text(), flags=re.M):
            name = ".".join(path.relative_to(package).with_suffix("").parts)
            one = importlib.import_module(name).FORMAT
            assert found.setdefault(one.name, one) is one, f"two formats are called {one.name}"
    return found


FORMATS = declared()


def job_terms(kind=""):
    """The job of the nodes' specimens, made of their study again; with the plan of its kind."""
    study = Study.load(STORED / "consortium.toml")
    plan = {".sums": SUMS, ".masked": MASKED}.get(kind, study.plan)
    assert plan is not None
    study = replace(study, plan=plan)
    return study, JobTerms.for_study(study, plan, "job-1")


def raised(data: bytes, was: int) -> bytes:
    """The same table in the next version, with a field that nobody knows today."""
    packed = not data.startswith(b"{")
    codec = msgspec.msgpack if packed else msgspec.json
    table = codec.decode(data)
    assert table["version"] == was
    return codec.encode({**table, "version": was + 1, "colour": "blue"})


# One reader for each format: what the specimen says must come out. ``newer`` makes it the specimen
# of the version after this one.


def read_journal(path, version, newer, tmp_path):
    database = tmp_path / "alice.db"
    with closing(sqlite3.connect(database)) as db:
        db.executescript(path.read_text())
        if newer:
            db.execute(f"PRAGMA user_version = {version + 1}")
    database.chmod(0o600)
    for look in (Journal.peek, Journal):
        with closing(look(database)) as journal:
            (job,) = journal.jobs()
            assert (job.job, job.server, job.round) == ("job-1", "alice", 3)
            assert len(journal.spent(job.dataset)) == 4 == 1 + journal.releases(job.dataset)
            assert journal.signature("job-1", 2, "bob") is not None
            assert list(journal.statements("job-1")) == ["alice"]


def read_frozen(path, version, newer, tmp_path):
    shutil.copytree(path, tmp_path / "data")
    if newer:
        manifest = tmp_path / "data" / "manifest.json"
        manifest.write_bytes(raised(manifest.read_bytes(), version))
    data = open_frozen(tmp_path / "data", study_hash=TRIAL)
    assert (data.manifest.version, data.manifest.randomised_by) == (version, "")
    assert data.labels.tolist() == [0, 1] and data.epsilons.tolist() == [400_000, 1_000_000]
    np.testing.assert_array_equal(data.features, [[0.25, 0.5, 0.5], [0.0, 0.75, 0.5]])


FAR = [
    0.45033989445261113,
    -0.757405408311135,
    0.8451651817945776,
]  # margins of model-1.squares.json


def read_model(path, version, newer, tmp_path):
    text = path.read_text()
    if newer:
        text = text.replace(f"pdml-model/{version}", f"pdml-model/{version + 1}", 1)
        text = text.replace("{", '{"colour": "blue",', 1)
    (tmp_path / "model.json").write_text(text)
    model = load_model(tmp_path / "model.json")
    assert model.coefficients.shape == (1, 2) and len(model.privacy["rows"]) == 6
    if path.name == "model-1.squares.json":  # one column and its square
        far = model.decision_function(np.array([[-0.9], [0.0], [0.9]]))
        np.testing.assert_allclose(far, FAR, rtol=1e-12)
    elif model.encoder is None:
        assert model.predict(np.array([[1.0, 0.0]])).tolist()[0] in model.classes
    is_local = path.name == "model-1.local.json"
    assert model.local == ("alice" if is_local else "")
    assert (None if model.expected is None else model.expected.accuracy.high) == (
        0.75 if is_local else None
    )
    if path.name == "model-1.levels.json":
        jobs = Table(columns={"job": np.array(["farm", "office"])})
        assert model.predict(model.features(jobs)).tolist() == ["True", "False"]


HASHES = {
    "study-1.toml": "8fb5fc6f70e431bddcc895f3cd509a3c903ec09e261a7622002a70c2145c532b",
    "study-1.maps.toml": "10add7bb37a0efac64c4202e2498f078be527cfb472100e4a64a05d6862bc97e",
    "study-1.languages.toml": "90ad3760c1ccd14338d1f4220c409d46f6e8ebc16569270ca5d431ef9c8b3b3e",
    "study-1.sensitive.toml": "e66d7f9859362b6e9257ae569fd9d178fe45274d88f120c06bcbff6d3883da68",
    "study-1.told.toml": "9a0e8d4a87916b7ecd5dcc2538405830af1f3b3f1a31466ff12f819c6fca1038",
}


def read_study(path, version, newer, tmp_path):
    text = path.read_text()
    if newer:
        text = text.replace("[study]", "[study]\ncolour = 3\nformat = 2")
    study = Study.from_text(text)
    known = HASHES[path.name]
    assert study.hash == known
    assert [texts.title for texts in study.languages] == ["Zweite"] * ("languages" in path.name)
    assert Study.from_text(text.replace("[study]", "[study]\nformat = 1")).hash == known


def read_report(path, version, newer, tmp_path):
    data = path.read_bytes()
    report = decode_report(raised(data, version) if newer else data)
    id = report_id("3" * 32)
    assert (report.id, report.epsilon, report.label) == (id, 400_000, 0)
    assert encode_report(report) == data
    if path.name == "report-1.maps.json":
        study = Study.load(STORED / "study-1.maps.toml")
        assert report.study == study.hash
        assert study.decode(features_of(report)) == {"age": 50, "job": "farm"}
        assert features_of(report).tobytes() == study.encode({"age": 50, "job": "farm"}).tobytes()
    if path.name == "report-1.sensitive.json":
        study, drawn = Study.load(STORED / "study-1.sensitive.toml"), ((1, 500_000), (3, 2_000_000))
        assert report.study == study.hash
        assert read_draws(study.encoder, features_of(report)) == drawn
        assert features_of(report).tobytes() == study.encode({"age": 50}, drawn).tobytes()


def read_message(path, version, newer, tmp_path):
    study, job = job_terms(path.suffix)
    known = {"peer": "alice", "me": "bob", "keys": study.signing_keys}
    data = path.read_bytes()
    data = raised(data, version) if newer else data
    if path.suffix == ".hello":
        assert wire_messages.open_hello(data, job, **known).round == 3
    else:
        message, values = wire_messages.open_vector(data, job, **known)
        assert message.round == (1 if job.sums else 2) and values.shape == job.shape
        assert values.dtype == np.dtype(job.dtype)
        assert wire_messages.verify_digest(wire_messages.signed_digest(message), study.signing_keys)


def read_offer(path, version, newer, tmp_path):
    study, job = job_terms()
    signature, content = path.read_bytes()[:64], path.read_bytes()[64:]
    content = raised(content, version) if newer else content
    offer = Offer.read(signature + content, "alice", study.signing_keys["alice"])
    assert offer.make_job_terms(study) == job


def read_sealed(path, version, newer, tmp_path):
    for name, secret in (("bob", (STORED / "bob.sealing").read_text()), ("key", "1" * 64)):
        (tmp_path / name).write_text(secret)
        (tmp_path / name).chmod(0o600)
    key, own = SealingKey.load(tmp_path / "bob"), node_identity.Identity.load(tmp_path / "key")
    sealer = Sealer("bob", own, key, signing=job_terms()[0].signing_keys, sealing={})
    data = path.read_bytes()
    box = msgspec.msgpack.decode(data)
    assert box[0] == version
    if newer:
        data = msgspec.msgpack.encode([version + 1, *box[1:], b"more"])
    assert sealer.open("alice", data)[1] == b"for bob alone"


def read_statement(path, version, newer, tmp_path):
    study, job = job_terms(path.suffix)
    data = path.read_bytes()
    if newer:
        data = data.replace(b"statement %d\0" % version, b"statement %d\0" % (version + 1), 1)
    said = signed_statement.open_statement(data, job, "alice", study.signing_keys)
    assert (said.records, said.job, len(said.spent)) == (40, "job-1", 1 if job.sums else 4)


def read_evidence(path, version, newer, tmp_path):
    study, job = job_terms()
    data = path.read_bytes()
    if newer:
        data = data.replace(b"evidence %d\0" % version, b"evidence %d\0" % (version + 1), 1)
    assert equivocation.verify_evidence(data, job.digest, study.signing_keys).sender == "bob"


def read_collection(path, version, newer, tmp_path):
    database = tmp_path / "reports.db"
    with closing(sqlite3.connect(database)) as db:
        db.executescript(path.read_text())
        if newer:
            db.execute("UPDATE pdml_collection SET schema = ?", [version + 1])
            db.commit()
    if (keys := path.with_suffix(".keys")).exists():
        shutil.copytree(keys, tmp_path / "reports.keys")
    who = {"study_id": "hiv-2026", "study_hash": TRIAL, "server": "alice"}
    who |= {"width": 5, "classes": 3, "epsilons": 3}
    with closing(SqliteStore(database, CollectionId(**who))) as store:
        totals = store.totals()
        assert (totals.reports, totals.withdrawn) == (3, 0)
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("SELECT schema FROM pdml_collection").fetchone() == (version,)


def read_home(path, version, newer, tmp_path):
    shutil.copytree(path, tmp_path / "alice")
    for file in (tmp_path / "alice").iterdir():
        file.chmod(0o600)
    config = tmp_path / "alice" / "node.json"
    if newer:
        config.write_bytes(raised(config.read_bytes(), version))
    home = NodeDirectory.open(tmp_path / "alice")
    assert (home.name, home.config.accept, home.config.begun) == ("alice", "ask", False)
    assert home.card() == Card.load(STORED / "card-1.card")
    home.save(begun=True)
    assert NodeDirectory.open(tmp_path / "alice").config.begun


def read_card(path, version, newer, tmp_path):
    text = path.read_text() + ('version = 2\ncolour = "blue"\n' if newer else "")
    (tmp_path / "alice.card").write_text(text)
    assert Card.load(tmp_path / "alice.card").name == "alice"


def read_memo(path, version, newer, tmp_path):
    name = hashlib.sha256(f"{TRIAL}\n".encode()).hexdigest()[:32]
    table = json.loads(path.read_bytes())
    table |= {"version": version + 1, "colour": "blue"} if newer else {}
    (tmp_path / f"{name}.json").write_text(json.dumps(table))
    memo = Memory(tmp_path).recall(TRIAL, "")
    assert (memo.label, memo.receipt.server, json.loads(memo.sent)["id"]) == (0, "alice", memo.id)
    assert memo.version == version and memo.code == "3" * 32


def read_saved_receipt(path, version, newer, tmp_path):
    data = path.read_bytes()
    (tmp_path / "receipt.json").write_bytes(raised(data, version) if newer else data)
    saved = saved_receipts.load(tmp_path / "receipt.json")
    assert (saved.organiser, saved.receipt.server, saved.code) == (
        "City Hospital",
        "alice",
        "3" * 32,
    )
    assert saved.receipt.id == report_id(saved.code) == decode_report(saved.report.encode()).id


def read_outbox(path, version, newer, tmp_path):
    lines = path.read_bytes().splitlines(keepends=True)
    if newer:
        first = json.loads(lines[0]) | {"version": version + 1, "colour": "blue"}
        lines[0] = json.dumps(first).encode() + b"\n"
    outbox, receipts = tmp_path / "people.reports.ndjson", tmp_path / "people.receipts.ndjson"
    outbox.write_bytes(b"".join(lines))
    receipts.write_bytes((STORED / f"receipts-{version}.ndjson").read_bytes())
    sent = []

    class Post(nullcontext):
        def require_study(self, study):
            assert study == TRIAL

        def send_batch(self, reports):
            sent.extend(decode_report(report).id for report in reports)
            raise NotDelivered("the post is closed")

    tally = simulated_participants.deliver(outbox, receipts, lambda: Post(Post()))
    assert (tally.stored_before, sent, len(tally.undelivered)) == (1, ["4" * 32], 1)


def read_saved_plan(path, version, newer, tmp_path):
    data = path.read_bytes()
    (tmp_path / "plan.json").write_bytes(raised(data, version) if newer else data)
    saved = SavedPlan.load(tmp_path / "plan.json")
    assert (saved.plan.rounds, saved.links) == (7, ((0, 1), (1, 2)))
    assert saved.budget.features_epsilon == 0.5 and np.isinf(saved.budget.labels_epsilon)
    table = json.loads(data)
    assert table.pop("version") == version == 1  # which may be left out, as it once was
    (tmp_path / "plan.json").write_text(json.dumps(table))
    assert SavedPlan.load(tmp_path / "plan.json") == saved


def read_control(path, version, newer, tmp_path):
    with closing(sqlite3.connect(tmp_path / CONTROL)) as db:
        db.executescript(path.read_text())
        assert db.execute("PRAGMA user_version").fetchone() == (version,)
        if newer:
            db.execute(f"PRAGMA user_version = {version + 1}")
    with closing(ControlDatabase(tmp_path)) as control_db:
        (attempt,) = control_db.attempts()
        assert (attempt.job, attempt.offerer, attempt.state) == ("job-1", "bob", "pending")
        (command,) = control_db.pop_commands()
        assert (command.kind, command.attempt) == ("stop", "7" * 32)
        assert command.content == {"why": "enough"}


def read_result(path, version, newer, tmp_path):
    shutil.copytree(path, tmp_path / "result")
    if newer:
        model = tmp_path / "result" / "model.json"
        model.write_text(model.read_text().replace(f"pdml-result/{version}", "pdml-result/9"))
    if result := sentences(tmp_path / "result"):
        raise PDMLError(result)


def read_evaluation(path, version, newer, tmp_path):
    data = path.read_bytes()
    (tmp_path / "e.json").write_bytes(raised(data, version) if newer else data)
    found = combine_evaluations(job_terms()[0], [tmp_path / "e.json"]).evaluation
    assert found.records == 40 and found.counts.shape == (2, 2, 1) and found.source == "simulated"


READERS = {
    "journal": read_journal,
    "frozen data set": read_frozen,
    "model": read_model,
    "study": read_study,
    "report": read_report,
    "training message": read_message,
    "offer": read_offer,
    "sealed message": read_sealed,
    "statement": read_statement,
    "evidence": read_evidence,
    "collection": read_collection,
    "node folder": read_home,
    "card": read_card,
    "memo": read_memo,
    "saved receipt": read_saved_receipt,
    "outbox": read_outbox,
    "saved plan": read_saved_plan,
    "control": read_control,
    "result": read_result,
    "evaluation": read_evaluation,
}


def specimens(name, version):
    if name == "result":
        return [STORED.parent / f"result-{version}"]
    stem = name.replace(" ", "-")
    return [p for p in sorted(STORED.glob(f"{stem}-{version}*")) if p.suffix != ".keys"]


VERSIONS = [
    (name, version)
    for name, one in FORMATS.items()
    for version in range(one.oldest, one.version + 1)
]


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_every_version_that_is_read_has_a_specimen(name, version, tmp_path):
    found = specimens(name, version)
    assert found, f"no specimen of {name!r} {version}: run tests/vectors/make_formats.py"
    for number, path in enumerate(found):
        place = tmp_path / str(number)
        place.mkdir()
        READERS[name](path, version, False, place)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_newer_says_which_pdml_is_needed(name, tmp_path):
    version = FORMATS[name].version
    path = specimens(name, version)[0]
    with pytest.raises(PDMLError, match=f"a pdml newer than {re.escape(__version__)} is needed"):
        READERS[name](path, version, True, tmp_path)


def test_a_version_is_refused_by_a_sentence_that_says_what_is_read():
    one = Format(name="song", version=3, oldest=2)
    assert one.refusal(2, "x") == "" == one.refusal(3, "x")
    result = one.refusal(1, "the file a.song")
    assert result.startswith("the file a.song has version 1 of the format 'song', and pdml")
    assert result.endswith(f"reads 2 to 3: a pdml older than {__version__} is needed")
    assert "reads 4: a pdml newer" in Format(name="song", version=4).refusal(10**40, "x")
    for data in (b"", b"[]", b"{", b"\xff", b'{"version": "x"}', b"[" * 100_000, b"{}"):
        assert Format(name="song", version=1).refusal_of(data, "x") == ""
        assert one.refusal_by_mark(data, "x") == ""
    assert one.refusal_of(b'{"version": 4, "more": 1}', "x") and one.refusal_of(b"{}", "x")
    assert one.refusal_by_mark(b"pdml song 4\0...", "x") == one.refusal(4, "x")


def test_the_table_of_the_docs_is_the_table_of_the_code():
    text = (ROOT / "docs" / "concepts/compatibility.md").read_text()
    rows = re.findall(r"^\| ([a-z ]+) \| (\d+) \| (\d+) \|", text, flags=re.M)
    result = {name: (int(version), int(oldest)) for name, version, oldest in rows}
    assert result == {name: (one.version, one.oldest) for name, one in FORMATS.items()}
    assert set(READERS) == set(FORMATS)
