"""Write formats/: one small specimen of every version of every format that is read, for
tests/unit/test_formats.py.

    PYTHONPATH=tests/support python tests/vectors/make_formats.py

A specimen that is there stays as it is: it was written by the pdml of its time. Only what is missing
is made, by the pdml of today; so raise a version, and run this.
"""

import contextlib
import hashlib
import shutil
import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from collecting import TRIAL, entry, report
from consortium import MASKED, NAMES, SUMS, WIDTH, Consortium
from example_study import ASKING, TEXT, TOLD
from reporting import make_report
from results import SHORT, Studied

from pdml import Budget, Encoding, PDMLClassifier, TrainingPlan
from pdml.collector.intake.report_rules import collection_id
from pdml.collector.storage.sqlite import SqliteStore
from pdml.consortium.signed_evaluation import SignedCounts
from pdml.device import receipt as receipts
from pdml.device.memo import Memo
from pdml.device.simulated_participants import OutboxOrigin
from pdml.encoding.encoder import Category, Menu, Number
from pdml.encoding.maps import Fourier, Products, Squares
from pdml.mechanisms.count_release import Counting
from pdml.mechanisms.randomness import Simulated
from pdml.node.crypto.hpke import Context, Sealer, SealingKey
from pdml.node.protocol import equivocation, wire_messages
from pdml.node.protocol.requests import Offer
from pdml.node.storage import control_db
from pdml.node.storage.node_dir import NodeDirectory
from pdml.numerics.interval import Range
from pdml.numerics.sums.expected_accuracy import Expectation
from pdml.planning.plan_file import SavedPlan
from pdml.simulation.table_training import train_table
from pdml.study.frozen_dataset import FrozenWriter
from pdml.study.messages import Receipt, encode_report, report_id, report_nonce
from pdml.study.schema import template
from pdml.study.schema.template import new_study
from pdml.study.translations import Question, Texts
from pdml.tables import Table

FORMATS = Path(__file__).parent / "formats"
HOUR = "2026-03-01T14Z"


def dump(path: Path) -> str:
    """A SQLite file as text, its numbers of version and kind included."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        pragmas = [(name, *db.execute(f"PRAGMA {name}").fetchone()) for name in PRAGMAS]
        return "\n".join([*db.iterdump(), *(f"PRAGMA {name} = {n};" for name, n in pragmas), ""])


PRAGMAS = ("application_id", "user_version")


def keys_in(folder: Path) -> Path:
    """Keys that anybody can make."""
    for name in NAMES:
        (folder / f"{name}.key").write_text(hashlib.sha256(name.encode()).hexdigest())
        (folder / f"{name}.key").chmod(0o600)
    return folder


def consortium_in(folder: Path) -> Consortium:
    """Whose keys and terms every run makes again."""
    return Studied(keys_in(folder), plan=SHORT)


def of_nodes(place: Path) -> None:
    made = consortium_in(place)
    made.run()
    alice, bob, job_terms = made.party("alice"), made.party("bob"), made.job_terms
    keep("consortium.toml", template.plain(made.study))
    keep("training-message-1.vector", alice.message("bob", 2))
    keep("training-message-1.hello", alice.hello("bob"))
    terms = {"attempt": "7" * 32, "offerer": "alice", "resume": False}
    offer = Offer.of(job_terms, **terms, start_timeout=60.0, round_timeout=60.0)
    keep("offer-1.msgpack", offer.signed(made.identities["alice"]))
    keep("statement-1.statement", alice.statement())
    who = {"sender": "bob", "t": 1}
    faces = [
        wire_messages.vector(
            job_terms,
            made.identities["bob"],
            **who,
            recipient=name,
            payload=wire_messages.encode_vector(values),
        )
        for name, values in (("alice", np.zeros((1, WIDTH))), ("carol", np.ones((1, WIDTH))))
    ]
    said = [
        wire_messages.open_vector(face, job_terms, peer="bob", me=name, keys=made.keys)[0]
        for face, name in zip(faces, ("alice", "carol"), strict=True)
    ]
    keep(
        "evidence-1.evidence",
        equivocation.encode_evidence([wire_messages.signed_digest(each) for each in said]),
    )
    bob.statement()
    made.close()
    keep("journal-1.sql", dump(place / "alice.db"))


def of_sums(place: Path) -> None:
    for kind, plan in (("sums", SUMS), ("masked", MASKED)):
        folder = place / kind
        folder.mkdir()
        made = Studied(keys_in(folder), plan=plan)
        made.run()
        keep(f"training-message-1.{kind}", made.party("alice").message("bob", 1))
        keep(f"statement-1.{kind}", made.party("alice").statement())
        made.close()


def of_sealing(place: Path) -> None:
    if (FORMATS / "sealed-message-1.msgpack").exists():  # its key would be another one
        return
    made, bob = consortium_in(place), SealingKey.create(place / "receiver.sealing")
    alice = (made.identities["alice"], SealingKey.create(place / "sender.sealing"))
    sealer = Sealer("alice", *alice, signing=made.keys, sealing={"bob": bob.public})
    context = Context(made.job_terms.study, "", "question", "alice", "bob", "1" * 32)
    keep("sealed-message-1.msgpack", sealer.seal(context, b"for bob alone"))
    keep("bob.sealing", (place / "receiver.sealing").read_bytes())


def of_an_evaluation(place: Path) -> None:
    made = consortium_in(place)
    counting = Counting(stddev=2.0, classes=2, bins=1)
    said = SignedCounts(
        study=made.study.hash,
        server="alice",
        job="checked",
        model="6" * 64,
        classes=list(made.study.classes),
        records=40,
        bins=1,
        stddev=2.0,
        source="simulated",
        counts=counting.released(np.full(counting.shape, 10), Simulated(1)).ravel().tolist(),
        spent=[4.0, 2.0],
    )
    signature = made.identities["alice"].sign(said.signable()).hex()
    signed = msgspec.structs.replace(said, signature=signature)
    signed.save(place / "e.json")
    keep("evaluation-1.json", (place / "e.json").read_bytes())
    made.close()


def of_a_home(place: Path) -> None:
    home = NodeDirectory.create(place / "node", "alice")
    keep("card-1.card", home.path("alice.card").read_bytes())
    keep("node-folder-1", place / "node")
    with contextlib.closing(control_db.ControlDatabase(place)) as control:
        offered = {"attempt": "7" * 32, "job": "job-1", "terms": "8" * 64, "offerer": "bob"}
        control.put(
            control_db.Attempt(
                **offered, offer=b"", state=control_db.OfferState.PENDING, sentence=""
            )
        )
        control.push_command(control_db.CommandKind.STOP, "7" * 32, why="enough")
    keep("control-1.sql", dump(place / control_db.CONTROL))


def of_a_collection(place: Path) -> None:
    who, entries = collection_id(TRIAL, "alice"), [entry(label=i % 2) for i in range(3)]
    store = SqliteStore(place / "1.db", who)
    store.commit([*entries[1:], entries[0]._replace(consent=b"\1" * 48)])
    store.close()
    keep("collection-1.sql", dump(place / "1.db"))
    keep("collection-1.keys", place / "1.keys")


def of_data(place: Path) -> None:
    names = {"study_hash": TRIAL.hash, "study_id": TRIAL.id, "server": "alice"}
    features = np.array([[0.25, 0.5, 0.5], [0.0, 0.75, 0.5]], dtype=np.float32)
    with FrozenWriter(place / "data", width=3, classes=2, **names) as writer:
        writer.append(features, np.array([0, 1]), np.array([400_000, 1_000_000]))
        writer.finish(frozen_at=HOUR)
    keep("frozen-data-set-1", place / "data")


def of_a_device(place: Path) -> None:
    sent = report(id=report_id("3" * 32), nonce=report_nonce("3" * 32))
    keep("report-1.json", sent)
    digest = hashlib.sha256(sent).hexdigest()
    id = report_id("3" * 32)
    receipt = Receipt(id=id, study=TRIAL.hash, server="alice", digest=digest, hour=HOUR)
    summary = {"study": TRIAL.hash, "id": id, "epsilon": 400_000, "label": 0, "code": "3" * 32}
    memo = Memo(**summary, sent=sent.decode(), receipt=receipt, version=1)
    keep("memo-1.json", msgspec.json.encode(memo))
    saved = receipts.make_receipt(
        replace(TRIAL, organiser=ASKING.organiser), "https://a.example", memo
    )
    keep("saved-receipt-1.json", msgspec.json.encode(saved))
    lines = [OutboxOrigin(version=1, study=TRIAL.hash, source="5" * 64, reports=2), receipt]
    first, answer = (msgspec.json.encode(line) + b"\n" for line in lines)
    keep("outbox-1.ndjson", first + sent + b"\n" + report(id="4" * 32) + b"\n")
    keep("receipts-1.ndjson", answer)


def of_a_model(place: Path) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    fitted = PDMLClassifier(random_state=0, n_servers=4).fit(x, x[:, 0] > 0)
    fitted.model_.save(place / "model.json")
    keep("model-1.json", (place / "model.json").read_bytes())
    half = Range(low=0.25, middle=0.5, high=0.75)
    summary = Expectation(accuracy=half, auc=half, confidence=0.625)
    replace(fitted.model_, expected=summary, local="alice").save(place / "local.json")
    keep("model-1.local.json", (place / "local.json").read_bytes())
    encoding = Encoding(scales=[(0, 0.5)], ranges=[(-1, 1)], maps={"map": "squares"})
    squared = PDMLClassifier(encoding=encoding, plan=SHORT, random_state=0, n_servers=4)
    squared.fit(x[:, :1], np.abs(x[:, 0]) > 0.5).model_.save(place / "model.json")
    keep("model-1.squares.json", (place / "model.json").read_bytes())


def of_an_encoder(place: Path) -> None:
    """A study with maps, a report under it, and a model of levels."""
    job = Category(name="job", levels=("farm", "office"))
    age = Number(name="age", low=18, high=100, average=45, spread=15, missing="average")
    asked = {"title": "Second", "question": "Ill?", "classes": ("no", "yes")}
    maps = (Squares(), Products(pairs=(("age", "job=farm"),)), Fourier(count=3))
    study = new_study(**asked, attributes=(age, job), missing_values=("?",), maps=maps)
    keep("study-1.maps.toml", template.plain(study))
    german = Texts(
        code="de",
        title="Zweite",
        question="Krank?",
        classes=("nein", "ja"),
        attributes=(Question("age", "Alter"), Question("job", "Beruf", levels=("Hof", "Büro"))),
    )
    both = replace(study, language="en", languages=(german,))
    keep("study-1.languages.toml", template.plain(both))
    features = study.encode({"age": 50, "job": "farm"})
    sent = make_report(study, "3" * 32, epsilon=400_000, features=features)
    keep("report-1.maps.json", encode_report(sent))
    jobs = np.random.default_rng(0).choice(["farm", "office"], 400)
    table = Table(columns={"job": jobs, "ill": jobs == "farm"})
    trained = train_table(table, "ill", attributes=[job], n_servers=4, random_state=0, plan=SHORT)
    trained.model.save(place / "model.json")
    keep("model-1.levels.json", (place / "model.json").read_bytes())


def of_sensitive_answers(place: Path) -> None:
    """A study with an ε for some of its attributes, and a report of what was drawn."""
    menu = Menu(menu=(0.5, 2.0), default=2.0)
    age = Number(name="age", low=18, high=100)
    job = Category(name="job", levels=("farm", "office"), epsilon=menu)
    pay = Number(name="pay", low=0, high=200, bins=(20, 50), missing="level", epsilon=menu)
    asked = {"title": "Sensitive", "question": "Ill?", "classes": ("no", "yes")}
    study = new_study(**asked, attributes=(job, age, pay))
    keep("study-1.sensitive.toml", template.plain(study))
    features = study.encode({"age": 50}, ((1, 500_000), (3, 2_000_000)))
    sent = make_report(study, "3" * 32, epsilon=400_000, features=features)
    keep("report-1.sensitive.json", encode_report(sent))


def of_a_plan(place: Path) -> None:
    plan = TrainingPlan(rounds=7, noise_scale=(0.1, 0.2, 0.3))
    saved = SavedPlan(plan=plan, links=((0, 1), (1, 2)), budget=Budget(features_epsilon=0.5))
    saved.save(place / "plan.json")
    keep("saved-plan-1.json", (place / "plan.json").read_bytes())


def keep(name: str, made: bytes | str | Path) -> None:
    """Put a specimen in its place, unless one is there."""
    target = FORMATS / name
    if target.exists():
        return
    if isinstance(made, Path):
        shutil.copytree(made, target)
    else:
        target.write_bytes(made.encode() if isinstance(made, str) else made)


if __name__ == "__main__":
    FORMATS.mkdir(exist_ok=True)
    keep("study-1.toml", TEXT)
    keep("study-1.told.toml", TEXT + TOLD)
    for make in (
        of_nodes,
        of_sums,
        of_sealing,
        of_an_evaluation,
        of_a_home,
        of_a_collection,
        of_data,
        of_a_device,
        of_a_model,
        of_an_encoder,
        of_sensitive_answers,
        of_a_plan,
    ):
        with tempfile.TemporaryDirectory() as place:
            make(Path(place))
