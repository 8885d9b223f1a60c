"""Every reader of bytes that others may have written: what it reads, what is done with what it
accepts, and specimens of the product's own to begin from.

A reader either gives a value or raises a `PDMLError`. Whoever could sign what is read is taken for
a liar: members of a study sign anew whatever stands in their messages.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np

from pdml.accounting import Budget
from pdml.accounting.events import Event, dump_event, load_event
from pdml.collector.intake.report_rules import Refusal, Rules
from pdml.consortium.result_folder import verify_result
from pdml.consortium.signed_evaluation import SignedCounts
from pdml.consortium.signed_evaluation import _check as check_counts
from pdml.consortium.signed_evaluation import _read as read_counts
from pdml.device import answers, page, receipt
from pdml.device.memo import Memo, Memory
from pdml.device.simulated_participants import OutboxOrigin, _origin, _receipts, read_tokens
from pdml.encoding.declarations import read_encoder
from pdml.errors import DataError, PDMLError
from pdml.files import open_file, read_file
from pdml.formats import decode
from pdml.model.model import Model, load_model
from pdml.node.crypto import tls
from pdml.node.crypto.hpke import Box, Context, Sealer, SealingKey
from pdml.node.crypto.signing import Card, Identity, load_secret
from pdml.node.protocol import equivocation, requests, signed_statement, wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.requests import Offer
from pdml.node.protocol.signed_statement import Statement
from pdml.node.storage.node_dir import Config, NodeDirectory
from pdml.planning.plan_file import SavedPlan
from pdml.planning.training_plan import SETTINGS, TrainingPlan
from pdml.study import Study, messages
from pdml.study.frozen_dataset import Manifest, open_frozen
from pdml.study.schema import study_file, template
from pdml.tables import Table, open_table, read_table

VECTORS = Path(__file__).parents[1] / "vectors"
FORMATS, RESULTS = VECTORS / "formats", VECTORS / "results"
CORPUS = Path(__file__).parent / "corpus"
MEMBERS = ("alice", "bob", "carol", "dave")


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One reader; ``read`` takes the path of ``file``, or the bytes themselves where it is ""."""

    read: Callable[[Any], Any]
    file: str = ""
    opens: bool = True  # `read` opens the file that it names, and no other
    syntax: str = ""  # of what is read: json, msgpack, toml or ""
    heads: tuple[int, ...] = (0,)  # how many bytes stand before that
    specimens: tuple[Path, ...] = ()
    made: Callable[[], list[bytes]] = list  # further specimens
    records: tuple[Any, ...] = ()  # whose declared names are the words of the dictionary
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "opens", bool(self.file) and self.opens)

    def __call__(self, folder: Path, data: bytes) -> Any:
        """Read ``data``, in an empty folder."""
        if not self.file:
            return self.read(data)
        (folder / self.file).write_bytes(data)
        return self.read(folder / self.file)

    def seeds(self) -> list[bytes]:
        """What the product itself writes."""
        return [path.read_bytes() for path in self.specimens] + self.made()

    def dictionary(self) -> set[str]:
        """Declared names, and the words of the specimens."""
        declared = {name for record in self.records for name in _names_of(record)}
        seen = re.findall(rb"[A-Za-z_][A-Za-z_-]{2,30}", b"\n".join(self.seeds()))
        return declared | set(self.words) | {word.decode() for word in seen}


def _names_of(record: Any) -> Iterator[str]:
    names = getattr(record, "__struct_fields__", None) or record.__dataclass_fields__
    return iter(names)


def corpus(name: str) -> list[Path]:
    """Inputs that fuzzing has found, smallest first."""
    return sorted((CORPUS / name).glob("*"), key=lambda path: (path.stat().st_size, path.name))


# People and studies


def specimens(pattern: str, folder: Path = FORMATS) -> tuple[Path, ...]:
    paths = tuple(sorted(path for path in folder.glob(pattern) if path.is_file()))
    assert paths, f"no specimen is called {pattern}"
    return paths


STUDIES = specimens("study-1*.toml")


@cache
def rules() -> list[Rules]:
    return [Rules.of(Study.load(path), require_tokens=False) for path in STUDIES]


def use_report(data: bytes) -> None:
    """What a service does with bytes that come as a report."""
    for rule in rules():
        (entry,) = rule.read([data], now=0.0)
        assert isinstance(entry, Refusal) or entry.features
    report = messages.decode_report(data)
    assert messages.decode_report(messages.encode_report(report)) == report
    messages.features_of(report)


def use_answers(data: bytes) -> None:
    """What a device does with whatever a service answers."""
    readers = (messages.decode_answer, messages.decode_admission, messages.decode_withdrawn)
    refusals = []
    for reader in readers:
        try:
            answer = reader(data)
        except PDMLError as error:
            refusals.append(error)
        else:
            if isinstance(answer, messages.Problem):
                assert all(text.isprintable() for text in (answer.title, answer.detail, answer.id))
    if len(refusals) == len(readers):
        raise refusals[0]


def use_invitation(data: bytes) -> None:
    """An invitation and a withdrawal as they arrive at a service, and an invitation's link."""
    refusals = []
    for reader in (messages.decode_invitation, messages.decode_withdrawal):
        try:
            reader(data)
        except PDMLError as error:
            refusals.append(error)
    try:
        assert re.fullmatch("([0-9a-f]{32})?", answers.invitation(data.decode("utf-8", "replace")))
    except PDMLError as error:
        refusals.append(error)
    if len(refusals) == 3:
        raise refusals[0]


def use_study(path: Path) -> None:
    study = Study.load(path)
    assert Study.from_canonical(study.canonical()) == study
    assert Study.from_text(template.plain(study)).hash == study.hash
    for texts in (study, *study.languages):
        assert texts.title
    page.render(study)
    JobTerms.largest(study)


def use_canonical_study(data: bytes) -> None:
    assert Study.from_canonical(data).canonical() == data  # one study, one hash


def use_answers_file(path: Path) -> None:
    given = answers.read(path)
    for study in map(Study.load, STUDIES):
        with suppress(PDMLError):
            study.encode(answers.check_answers(study, given))


def recall(path: Path) -> Memo | None:
    memory = Memory(path.parent)
    path.rename(memory._path("0" * 64, "me"))
    return memory.recall("0" * 64, "me")


def use_tokens(path: Path) -> None:
    read_tokens(path, 1)


def use_key(path: Path) -> None:
    path.chmod(0o600)
    load_secret(path, 32)


def use_outbox(path: Path) -> None:
    _receipts(path)
    _origin(path)


# Members of a consortium


@cache
def identities() -> dict[str, Identity]:
    """Keys that anybody can make (tests/vectors/make_formats.py)."""
    return {name: Identity(hashlib.sha256(name.encode()).digest()) for name in MEMBERS}


@cache
def jobs() -> tuple[tuple[Study, JobTerms], ...]:
    """The specimens' job: by rounds, by sums and by masked sums."""
    study = Study.load(FORMATS / "consortium.toml")
    assert study.plan is not None
    sums = {"method": "sums", "label_noise": 2.0, "square_noise": 3.0}
    plans = (study.plan, TrainingPlan(**sums), TrainingPlan(**sums, colluding=1))
    made = []
    for plan in plans:
        fixed = replace(study, plan=plan)
        made.append((fixed, JobTerms.for_study(fixed, plan, "job-1")))
    return tuple(made)


def first_success(attempts: list[Callable[[], Any]]) -> Any:
    """What the first reader makes of it that accepts it; if none does, the first refusal."""
    refusals = []
    for attempt in attempts:
        try:
            return attempt()
        except PDMLError as error:
            refusals.append(error)
    raise refusals[0]


def use_message(data: bytes) -> None:
    """A message of alice for bob, who signs whatever it holds."""
    data = _signed_message(data)
    attempts: list[Callable[[], Any]] = []
    for study, terms in jobs():
        ends = {"peer": "alice", "me": "bob", "keys": study.signing_keys}
        attempts.append(partial(wire_messages.open_vector, data, terms, **ends))
        attempts.append(partial(wire_messages.open_hello, data, terms, **ends))
    message = first_success(attempts)
    if isinstance(message, tuple):
        assert np.isfinite(message[1]).all()


def _signed_message(data: bytes) -> bytes:
    kinds = wire_messages.Vector | wire_messages.Hello
    try:
        message = decode(data, kinds, msgspec.msgpack.decode)
    except msgspec.DecodeError:
        return data
    return wire_messages._signed(identities()["alice"], message)


def use_request(data: bytes) -> None:
    """What stands in a request or in an answer, once it is unsealed."""
    kinds = (requests.Begin, requests.Stop, requests.Progress, requests.Fetch, requests.Proof)
    attempts = [partial(requests.read_request, data, kind, "alice") for kind in kinds]
    attempts.append(partial(requests.read_request, data, requests.Postpone, "alice"))
    if requests.read_answer(data) is None:
        first_success(attempts)


def use_offer(data: bytes) -> None:
    content = data[64:]
    signed = identities()["alice"].sign(requests._OFFER + content) + content
    study, _ = jobs()[0]
    offer = Offer.read(signed, "alice", study.signing_keys["alice"])
    first_success([partial(offer.make_job_terms, study) for study, _ in jobs()])


def use_statement(data: bytes) -> None:
    content = data[signed_statement._HEAD :]
    domain = data[: len(signed_statement._DOMAIN)]
    signed = domain + identities()["alice"].sign(signed_statement._DOMAIN + content) + content
    attempts = [
        partial(signed_statement.open_statement, signed, terms, "alice", study.signing_keys)
        for study, terms in jobs()
    ]
    statement = first_success(attempts)
    assert signed_statement.sign(statement, identities()["alice"]) == signed  # one spelling
    assert statement.spent and statement.earlier_releases >= 0


def use_evidence(data: bytes) -> None:
    study, terms = jobs()[0]
    equivocation.verify_evidence(_signed_evidence(data), terms.digest, study.signing_keys)


def _signed_evidence(data: bytes) -> bytes:
    content = data[len(equivocation._DOMAIN) :]
    try:
        evidence = decode(content, equivocation.Evidence, msgspec.msgpack.decode)
    except msgspec.DecodeError:
        return data
    digests = [
        msgspec.structs.replace(
            digest, signature=identities()["bob"].sign(wire_messages._signable(digest))
        )
        for digest in evidence.digests
    ]
    return equivocation.encode_evidence(digests, statements=evidence.statements)


@cache
def _sealing_key(folder: Path) -> SealingKey:
    folder.mkdir(mode=0o700, exist_ok=True)
    key = folder / "bob.sealing"
    shutil.copy(FORMATS / "bob.sealing", key)
    key.chmod(0o600)
    return SealingKey.load(key)


def use_sealed(path: Path) -> None:
    study, _ = jobs()[0]
    key = _sealing_key(path.parent.parent / f".{path.parent.name}-keys")
    sealer = Sealer("bob", identities()["bob"], key, signing=study.signing_keys, sealing={})
    sealer.open("alice", path.read_bytes())


def use_counts(path: Path) -> None:
    """An evaluation that alice signs, whatever it holds."""
    study, _ = jobs()[0]
    with suppress(msgspec.DecodeError, KeyError, OSError):
        release = decode(read_file(path), SignedCounts)
        release = msgspec.structs.replace(release, study=study.hash)
        signature = identities()[release.server].sign(release.signable()).hex()
        path.write_bytes(msgspec.json.encode(msgspec.structs.replace(release, signature=signature)))
    check_counts(read_counts(path, study), study, "")


def use_result(path: Path) -> None:
    """A folder in which one file is another: its first byte says which. Members sign anew."""
    data = path.read_bytes()
    path.unlink()
    folder = path.parent / "rounds"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(RESULTS / "rounds", folder)
    names = ("study.toml", "model.json", "report.html", "evidence/bob.evidence")
    names += tuple(f"statements/{name}.statement" for name in MEMBERS[:3])
    name, content = names[(data[:1] or b"\0")[0] % len(names)], data[1:]
    if name.startswith("statements/"):
        head, rest = content[: signed_statement._HEAD], content[signed_statement._HEAD :]
        domain = head[: len(signed_statement._DOMAIN)]
        signature = identities()[Path(name).stem].sign(signed_statement._DOMAIN + rest)
        content = domain + signature + rest
    if name.startswith("evidence/"):
        content = _signed_evidence(content)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    verification = verify_result(folder)
    verification.to_dict()
    verification.check()


def _parts_of_results() -> list[bytes]:
    root = RESULTS / "rounds"
    names = ("study.toml", "model.json", "statements/alice.statement")
    places = (0, 1, 4)
    return [bytes([k]) + (root / name).read_bytes() for k, name in zip(places, names, strict=True)]


# Files of data


def use_frozen(path: Path) -> None:
    """A data set whose maker lies: hashes are made to fit what one file holds; its first byte says
    which file.
    """
    data, folder = path.read_bytes(), path.parent
    for file in (FORMATS / "frozen-data-set-1").iterdir():
        shutil.copy(file, folder)
    names = ("manifest.json", "features.npy", "labels.npy", "epsilons.npy")
    (folder / names[(data[:1] or b"\0")[0] % 4]).write_bytes(data[1:])
    content = (folder / "manifest.json").read_bytes()
    with suppress(msgspec.DecodeError, TypeError, AttributeError, ValueError, KeyError):
        manifest = Manifest(**{k: v for k, v in decode(content).items() if k != "digest"})
        files = {n: hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in names[1:]}
        fitting = Manifest(**{**vars(manifest), "files": files})
        (folder / "manifest.json").write_bytes(fitting.to_bytes())
    frozen = open_frozen(folder)
    assert frozen.manifest.to_bytes() == (folder / "manifest.json").read_bytes()  # one spelling
    assert len(frozen.features) == len(frozen.labels) == len(frozen.epsilons) == len(frozen)


def _parts_of_frozen() -> list[bytes]:
    names = ("manifest.json", "features.npy", "labels.npy", "epsilons.npy")
    root = FORMATS / "frozen-data-set-1"
    return [bytes([k]) + (root / name).read_bytes() for k, name in enumerate(names)]


def use_model(path: Path) -> None:
    model = load_model(path)
    for look in (model.ledger_rows, model.overview, model._repr_html_, model.to_bytes):
        with suppress(PDMLError):
            look()
    with suppress(PDMLError):
        if model.encoder is None:
            model.predict_proba(np.zeros((1, model.coefficients.shape[1])))
        else:
            columns = [attribute["name"] for attribute in model.encoder["attributes"]]
            model.predict(Table(columns={name: np.array(["1", ""], object) for name in columns}))


def use_plan(path: Path) -> None:
    saved = SavedPlan.load(path)
    saved.settings()
    again = path.with_suffix(".again")
    saved.save(again)
    assert SavedPlan.load(again) == saved


def use_encoder(path: Path) -> None:
    encoder = read_encoder(path)
    assert encoder.n_features >= 1 and encoder.digest


def use_events(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DataError("the ledger's lines are texts") from None
    event = load_event(text)
    assert load_event(dump_event(event)) == event


def use_table(path: Path) -> None:
    """All that is asked of a table's columns."""
    look_at(read_table(path))


def look_at(table: Table) -> None:
    for name in table.names:
        for ask in (table.is_numeric, table.numeric, table.text, table.distinct, table.absent):
            with suppress(PDMLError):
                ask(name)
    table.where(table.n_rows - 1)


def use_arrow(path: Path) -> None:
    """What another program hands over as a stream of Arrow."""
    import pyarrow as pa

    try:
        with open_file(path) as file:
            frame = pa.ipc.open_stream(file.read()).read_all()
            frame.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"this is no stream: {error}") from None
    look_at(open_table(frame))


def _table() -> Any:
    import pyarrow as pa

    columns = {"age": [31, None], "job": ["farm", "office"], "pay": [1.5, 2.25], "ok": [True, None]}
    return pa.table(columns)


def _arrow() -> list[bytes]:
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, _table().schema) as writer:
        writer.write_table(_table())
    return [out.getvalue().to_pybytes()]


def _parquet() -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = []
    for compression in ("none", "snappy"):
        out = pa.BufferOutputStream()
        pq.write_table(_table(), out, compression=compression, store_schema=False)
        made.append(out.getvalue().to_pybytes())
    return made


CSV = [
    b"age,job,label\n31,farm,yes\n,office,no\n",
    b'\xef\xbb\xbf"age";"job"\r\n"1,5";"a ""b"" c"\r\n"2\n";=1+1\r\n',
    "größe\tjob\n1e3\tärztin\n-inf\tNA\n".encode(),
]


def _gzipped() -> list[bytes]:
    import gzip

    return [gzip.compress(CSV[0], mtime=0)]


def _requests() -> list[bytes]:
    token, hundred = "7" * 32, b"\x05" * 100
    made = [
        requests.PeerAnswer(state="ok", sentence="", messages=[hundred]),
        requests.Postpone(attempt=token),
        requests.Begin(attempt=token, accepted={"alice": bytes(64)}),
        requests.Stop(attempt=token, sentence="the operator stops it"),
        requests.Progress(state="training", round=3),
        requests.Fetch(job="job-1", terms="5" * 64, server="alice", start=0),
        requests.Proof(job="job-1", peer="alice"),
    ]
    return [msgspec.msgpack.encode(request) for request in made]


def _events() -> list[bytes]:
    """One of each kind."""
    stored = json.loads((VECTORS / "events.json").read_bytes())  # which reads Infinity
    kinds = {fields["event"]: fields for fields in stored}
    return [json.dumps(fields).encode() for fields in kinds.values()]


def _answers_of_services() -> list[bytes]:
    receipts = (FORMATS / "receipts-1.ndjson").read_bytes().splitlines()
    made = [messages.problem("frozen", id="3" * 32), messages.Admission(study="5" * 64)]
    made += [messages.Withdrawn(id="3" * 32, study="5" * 64, server="alice", before=False)]
    return [*receipts, *map(msgspec.json.encode, made)]


def _invitations() -> list[bytes]:
    return [
        messages.encode_invitation("a" * 32),
        messages.encode_withdrawal("b" * 32),
        b"https://alice.example/#t=" + b"c" * 32,
    ]


def _tokens() -> list[bytes]:
    return [b"https://alice.example/#t=" + b"c" * 32 + b"\n" + b"d" * 32 + b"\n"]


def _encoders() -> list[bytes]:
    return [msgspec.json.encode(Study.load(path).encoder.to_dict()) for path in STUDIES[:4]]


STORED_STUDY = VECTORS / "result-1" / "study.toml"
STUDY_WORDS = tuple(study_file.TABLES) + tuple(
    name for table in study_file.TABLES.values() for name in table.keys
)
EVENTS = get_args(Event)

READERS: dict[str, Reader] = {
    "report": Reader(
        read=use_report,
        syntax="json",
        specimens=specimens("report-1*.json"),
        records=(messages.Report,),
    ),
    "answer": Reader(
        read=use_answers,
        syntax="json",
        made=_answers_of_services,
        records=(messages.Receipt, messages.Problem, messages.Withdrawn, messages.Admission),
    ),
    "invitation": Reader(read=use_invitation, syntax="json", made=_invitations),
    "invitations": Reader(read=use_tokens, file="tokens.csv", made=_tokens),
    "study": Reader(
        read=use_study, file="study.toml", syntax="toml", specimens=STUDIES, words=STUDY_WORDS
    ),
    "canonical study": Reader(
        read=use_canonical_study,
        syntax="json",
        made=lambda: [Study.load(path).canonical() for path in STUDIES],
        words=STUDY_WORDS,
    ),
    "answers": Reader(
        read=use_answers_file,
        file="answers.json",
        syntax="json",
        made=lambda: [b'{"age":34,"job":"farm"}', b'{"age":"34,5"}'],
    ),
    "receipt": Reader(
        read=receipt.load,
        file="receipt.json",
        syntax="json",
        specimens=specimens("saved-receipt-1.json"),
        records=(receipt.SavedReceipt, messages.Receipt),
    ),
    "memo": Reader(
        read=recall,
        file="memo.json",
        opens=False,
        syntax="json",
        made=lambda: [
            (FORMATS / "memo-1.json")
            .read_bytes()
            .replace(
                msgspec.json.decode((FORMATS / "memo-1.json").read_bytes())["study"].encode(),
                b"0" * 64,
            )
        ],
        records=(Memo,),
    ),
    "outbox": Reader(
        read=use_outbox,
        file="people.ndjson",
        opens=False,
        specimens=specimens("outbox-1.ndjson"),
        records=(OutboxOrigin, messages.Receipt),
    ),
    "message": Reader(
        read=use_message,
        syntax="msgpack",
        specimens=specimens("training-message-1.*"),
        records=(wire_messages.Vector, wire_messages.Hello),
    ),
    "request": Reader(read=use_request, syntax="msgpack", made=_requests),
    "sealed message": Reader(
        read=use_sealed,
        file="sealed.msgpack",
        opens=False,
        syntax="msgpack",
        specimens=specimens("sealed-message-1.msgpack"),
        records=(Box, Context),
    ),
    "offer": Reader(
        read=use_offer,
        syntax="msgpack",
        heads=(64,),
        specimens=specimens("offer-1.msgpack"),
        records=(Offer,),
        words=tuple(SETTINGS),
    ),
    "statement": Reader(
        read=use_statement,
        syntax="msgpack",
        heads=(signed_statement._HEAD,),
        specimens=specimens("statement-1.*"),
        records=(Statement, signed_statement.NeighbourReleases, *EVENTS),
    ),
    "evidence": Reader(
        read=use_evidence,
        syntax="msgpack",
        heads=(len(equivocation._DOMAIN),),
        specimens=specimens("evidence-1.evidence"),
        records=(wire_messages.SignedDigest,),
    ),
    "evaluation": Reader(
        read=use_counts,
        file="evaluation.json",
        syntax="json",
        specimens=specimens("evaluation-1.json"),
        records=(SignedCounts,),
    ),
    "result": Reader(
        read=use_result,
        file="part",
        opens=False,
        syntax="msgpack",
        heads=(1, 1 + signed_statement._HEAD, 1 + len(equivocation._DOMAIN)),
        made=_parts_of_results,
        records=(Statement,),
    ),
    "card": Reader(
        read=Card.load,
        file="alice.card",
        syntax="toml",
        specimens=specimens("card-1.card"),
        records=(Card,),
    ),
    "node": Reader(
        read=lambda path: NodeDirectory.open(path.parent),
        file="node.json",
        syntax="json",
        specimens=specimens("node.json", FORMATS / "node-folder-1"),
        records=(Config,),
    ),
    "certificate": Reader(read=tls.read, file="relay.pem"),
    "node's key": Reader(read=use_key, file="identity.key", made=lambda: [b"1" * 64]),
    "frozen data set": Reader(
        read=use_frozen,
        file="part",
        opens=False,
        syntax="json",
        heads=(1,),
        made=_parts_of_frozen,
        records=(Manifest,),
    ),
    "manifest": Reader(
        read=lambda path: open_frozen(path.parent), file="manifest.json", records=(Manifest,)
    ),
    "model": Reader(
        read=use_model,
        file="model.json",
        syntax="json",
        specimens=specimens("model-1*.json"),
        records=(Model,),
    ),
    "encoder": Reader(read=use_encoder, file="encoder.json", syntax="json", made=_encoders),
    "plan": Reader(
        read=use_plan,
        file="plan.json",
        syntax="json",
        specimens=specimens("saved-plan-1.json"),
        records=(Budget,),
        words=tuple(SETTINGS),
    ),
    "event": Reader(read=use_events, syntax="json", made=_events, records=EVENTS),
    "table": Reader(read=use_table, file="people.csv", made=lambda: list(CSV)),
    "packed table": Reader(read=use_table, file="people.csv.gz", made=_gzipped),
    "parquet": Reader(read=use_table, file="people.parquet", made=_parquet),
    "arrow": Reader(read=use_arrow, file="people.arrows", made=_arrow),
}
