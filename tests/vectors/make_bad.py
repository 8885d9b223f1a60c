"""Write bad/: what every reader and verifier must refuse, as edits of what it must accept.

    PYTHONPATH=tests/support python tests/vectors/make_bad.py

docs/reference/result-format.md and docs/reference/formats.md say how the lists are read.
"""

import base64
import hashlib
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from make_results import CASES, NAMES, RESULTS, Job, identity_of, study_of, three_servers

from pdml.accounting import Budget, events
from pdml.mechanisms import masks
from pdml.node.protocol import equivocation, signed_statement, wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.protocol.wire_messages import SignedDigest
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study, messages

BAD = Path(__file__).parent / "bad"
MARK = b"pdml statement 1\0"
SMALL = Budget(features_epsilon=1.0)  # no job of "rounds" keeps to it


class Signing:
    """Statements of a stored result that somebody has signed anew."""

    def __init__(self, base: str, folder: Path) -> None:
        self.base = base
        self.identities = {name: identity_of(name, folder) for name in NAMES}
        self.study = Study.load(RESULTS / base / "study.toml")
        self.data = {
            name: (RESULTS / base / "statements" / f"{name}.statement").read_bytes()
            for name in NAMES
        }
        self.statements = {
            name: signed_statement.signed_by(data, name, self.study.signing_keys)
            for name, data in self.data.items()
        }
        plan = TrainingPlan.from_dict(dict(self.statements["alice"].plan))
        self.terms = JobTerms.for_study(self.study, plan, self.statements["alice"].job)

    def anew(self, name: str, **changes) -> dict:
        changed = msgspec.structs.replace(self.statements[name], **changes)
        return self.content(name, signed_statement.sign(changed, self.identities[name]))

    def raw(self, name: str, content: bytes, *, by: str = "") -> dict:
        """Bytes of any kind, signed."""
        signature = self.identities[by or name].sign(MARK + content)
        return self.content(name, MARK + signature + content)

    def content(self, name: str, data: bytes) -> dict:
        return spliced(f"statements/{name}.statement", self.data[name], data)

    def events(self, name: str, *, plan: TrainingPlan | None = None, **sizes) -> list[dict]:
        """What a plan spends, for other sizes than it has."""
        statement = self.statements[name]
        known = {
            "records": statement.records,
            "epsilons": (statement.epsilon, statement.label_epsilon),
        }
        spec = self.terms.training.server_spec(self.terms.index(name), **known | sizes)
        return [events.encode_event(e) for e in (plan or self.terms.plan).events(spec)]

    def received(self, name: str, sender: str, **changes) -> list:
        return [
            msgspec.structs.replace(other, **changes) if other.sender == sender else other
            for other in self.statements[name].received
        ]

    def digest(self, recipient: str, digest: str, t: int = 2) -> SignedDigest:
        unsigned = SignedDigest(
            wire_messages.FORMAT.version, self.terms.digest, t, "bob", recipient, digest
        )
        signature = self.identities["bob"].sign(wire_messages._signable(unsigned))
        return msgspec.structs.replace(unsigned, signature=signature)


def whole(file: str, data: bytes) -> dict:
    return {"file": file, "content": base64.b64encode(data).decode()}


def alike(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    pairs = zip(one, other, strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def spliced(file: str, old: bytes, new: bytes) -> dict:
    """What differs between two statements: the signature, and one part of the content."""
    start, end = len(MARK), len(MARK) + 64
    splices = [{"at": start, "drop": 64, "put": new[start:end].hex()}]
    before, after = old[end:], new[end:]
    head = alike(before, after)
    tail = min(alike(before[::-1], after[::-1]), len(before) - head, len(after) - head)
    put = after[head : len(after) - tail]
    splices.append({"at": end + head, "drop": len(before) - tail - head, "put": put.hex()})
    return {"file": file, "splices": splices}


def text(file: str, old: str, new: str) -> dict:
    return {"file": file, "old": old, "new": new}


def case(name: str, base: str, kinds: str, *edits: dict) -> dict:
    return {"name": name, "base": base, "kinds": sorted(kinds.split()), "edits": list(edits)}


def plain_results() -> list[dict]:
    """Edits that need no key."""
    toml, alice, model = "study.toml", "statements/alice.statement", "model.json"
    first = len(MARK)
    return [
        case("no study", "sums", "file", {"file": toml, "remove": True}),
        case("a comment in the study", "sums", "study", text(toml, "= 40\n", "= 40 # agreed\n")),
        case("a space in the study", "sums", "study", text(toml, "= 40\n", "=  40\n")),
        case("a number in another spelling", "sums", "study", text(toml, "[0.5, 1, 2]", "[0.5, 1.0, 2]")),
        case("an integer in another spelling", "sums", "study", text(toml, "= 40\n", "= 0x28\n")),
        case("keys in another order", "sums", "study", text(
            toml, 'id = "sums"\ntitle = "Who is at risk?"\n', 'title = "Who is at risk?"\nid = "sums"\n')),
        case("a key with its default", "sums", "study", text(toml, "= 40\n", '= 40\ndescription = ""\n')),
        case("no TOML", "sums", "study", text(toml, "[study]", "[study")),
        case("an unknown table", "sums", "study", text(toml, "[topology]", "[extra]\na = 1\n\n[topology]")),
        case("no newline at the end", "sums", "study", text(toml, "delta = 1e-06 }\n", "delta = 1e-06 }")),
        case("another question", "sums", "statement", text(toml, "diagnosed?", "cured?")),
        case("another budget", "sums", "statement", text(toml, "epsilon = 1000,", "epsilon = 2000,")),
        case("another link", "sums", "statement", text(
            toml, '[["alice", "bob"], ["bob", "carol"]]', '[["alice", "bob"], ["alice", "carol"]]')),
        case("a server without a link", "sums", "study", text(
            toml, '[["alice", "bob"], ["bob", "carol"]]', '[["alice", "bob"]]')),
        case("no statement of a server", "sums", "file", {"file": alice, "remove": True}),
        case("an empty statement", "sums", "statement", whole(alice, b"")),
        case("a statement under another name", "sums", "statement", {
            "file": alice, "from": "statements/bob.statement"}),
        case("a statement of another job", "sums", "statement", {
            "file": alice, "from": "../masked/statements/alice.statement"}),
        case("a statement of another version", "sums", "statement", {
            "file": alice, "at": 15, "bytes": b"2".hex()}),
        case("a signature with another bit", "sums", "statement", {
            "file": alice, "at": first, "bytes": "00"}),
        case("a byte more in a statement", "sums", "statement", {"file": alice, "append": "00"}),
        case("a statement cut short", "sums", "statement", {"file": alice, "keep": 700}),
        case("a statement that is too long", "masked-of-classes", "file", {"file": alice, "zeros": 3_000_000}),
        case("an unknown file", "sums", "file", whole("README", b"All is well.")),
        case("an unknown statement", "sums", "file", whole("statements/eve.statement", b"")),
        case("an empty folder of evidence", "sums", "evidence", {"file": "evidence", "folder": True}),
        case("evidence that is none", "sums", "evidence", whole("evidence/bob.evidence", b"proof")),
        case("no model", "sums", "model", {"file": model, "remove": True}),
        case("an empty model", "rounds", "model", whole(model, b"")),
        case("a space in the model", "rounds", "model", text(model, '"label": null', '"label":  null')),
        case("an integer for a double", "rounds", "model", text(model, '"norm_bound": 1.0', '"norm_bound": 1')),
        case("another class", "rounds", "model", text(model, '"yes"', '"YES"')),
        case("another reason", "rounds", "model", text(model, "no protection", "full protection")),
        case("another epsilon", "rounds", "model", text(model, '"delta": 1e-06,\n    "certainty": 0.', '"delta": 1e-06,\n    "certainty": 0.0')),
        case("another job in the provenance", "rounds", "model", text(model, '"job": "job"', '"job": "job-2"')),
        case("a result of another version", "rounds", "model", text(model, "pdml-result/1", "pdml-result/2")),
        case("a model of another version", "rounds", "model", text(model, "pdml-model/1", "pdml-model/2")),
        case("a leak kept back", "masked", "model", text(model, '"leaks": []', '"leaks": null')),
        case("fewer colluders", "masked", "model", text(model, '"colluding": 1\n', '"colluding": 2\n')),
        case("the model of another result", "sums", "model", {"file": model, "from": "../masked/model.json"}),
        case("an expected figure", "sums", "model", text(model, '"middle": 0.9', '"middle": 0.8')),
        case("no expected figures", "sums", "model", {"file": model, "json": ["expected"], "value": None}),
        case("a weight off the grid", "sums", "model", {
            "file": model, "json": ["intercepts", 0], "value": 0.123456789}),
        case("a weight far away", "rounds", "model", {
            "file": model, "json": ["coefficients", 0, 0], "value": 12.5}),
        case("another page", "sums", "page", text("report.html", "</html>\n", "</html>")),
        case("no page", "rounds", "page", {"file": "report.html", "remove": True}),
    ]  # fmt: skip


def signed_results(folder: Path) -> list[dict]:
    """Lies with a good signature."""
    rounds, sums, masked = (Signing(base, folder) for base in ("rounds", "sums", "masked"))
    bob, carol = sums.statements["bob"], rounds.statements["carol"]
    content = msgspec.msgpack.encode(bob)
    decoded = msgspec.msgpack.decode(content)
    words = masks.words(bytes(32), masked.terms.shape[1]).tobytes()
    other = hashlib.sha256(words).digest()
    louder = replace(rounds.terms.plan, noise_scale=0.6)
    cheap = JobTerms.for_study(rounds.study, louder, "job")
    far = next(r for r in rounds.statements["alice"].received if r.sender == "bob")
    first = rounds.digest("alice", far.digests[32:64].hex())
    (before,) = rounds.statements["bob"].earlier_jobs
    return [
        case("signed by another server", "sums", "statement", sums.raw("bob", content, by="carol")),
        case("signed, and no MessagePack", "sums", "statement", sums.raw("bob", b"\xc1")),
        case("signed, and no record", "sums", "statement", sums.raw("bob", b"\x90")),
        case("a field more", "sums", "statement", sums.raw(
            "bob", msgspec.msgpack.encode(decoded | {"more": 1}))),
        case("a field less", "sums", "statement", sums.raw(
            "bob", msgspec.msgpack.encode({k: v for k, v in decoded.items() if k != "source"}))),
        case("fields in another order", "sums", "statement", sums.raw(
            "bob", msgspec.msgpack.encode(dict(reversed(decoded.items()))))),
        case("an integer for a double in a statement", "sums", "statement", sums.raw(
            "bob", msgspec.msgpack.encode(decoded | {"label_epsilon": 2}))),
        case("a number in a longer form", "sums", "statement", sums.raw(
            "bob", content.replace(b"\xa7version\x01", b"\xa7version\xcc\x01"))),
        case("a byte after the record", "sums", "statement", sums.raw("bob", content + b"\0")),
        case("a version to come", "sums", "statement", sums.anew("bob", version=2)),
        case("somebody else's statement", "sums", "statement", sums.anew("bob", server="carol")),
        case("another study", "sums", "statement", sums.anew("bob", study="0" * 64)),
        case("other terms", "sums", "statement", sums.anew("bob", terms="0" * 64)),
        case("another job", "sums", "statement", sums.anew("bob", job="job-2")),
        case("a plan with more noise", "rounds", "statement", rounds.anew(
            "bob", plan=louder.to_dict(), terms=cheap.digest)),
        case("a plan with an unknown setting", "rounds", "statement", rounds.anew(
            "bob", plan=rounds.statements["bob"].plan | {"secret": 1})),
        case("no records", "sums", "statement", sums.anew("bob", records=0)),
        case("too many records", "sums", "statement", sums.anew("bob", records=10**8 + 1)),
        case("more records than its events", "sums", "statement", sums.anew("bob", records=4_500)),
        case("more records than its sums", "sums", "statement", sums.anew(
            "bob", records=4_500, events=sums.events("bob", records=4_500))),
        case("fewer records than the study asks for", "rounds", "statement", rounds.anew(
            "carol", records=39, events=rounds.events("carol", records=39), earlier_jobs=[])),
        case("an epsilon below the menu", "sums", "statement", sums.anew("bob", epsilon=0.25)),
        case("an epsilon that is not on the menu", "masked-of-classes", "statement",
             _off_the_menu(folder)),
        case("epsilons the wrong way round", "sums", "statement", sums.anew(
            "bob", epsilon=2.0, label_epsilon=0.5)),
        case("an infinite epsilon", "sums", "statement", sums.anew(
            "bob", label_epsilon=float("inf"))),
        case("labels randomised by nobody known", "sums", "statement", sums.anew(
            "bob", randomised_by="angels")),
        case("noise of an unknown source", "sums", "statement", sums.anew("bob", source="dice")),
        case("noise of another source than the others'", "sums", "statement", sums.anew(
            "bob", source="secure")),
        case("secure noise off its grid", "rounds", "statement", rounds.anew(
            "carol", source="secure")),
        case("a data set with a name", "sums", "statement", sums.anew("bob", dataset="people")),
        case("another data set than neighbours heard of", "sums", "statement", sums.anew(
            "bob", dataset="0" * 64)),
        case("understated spending", "rounds", "statement", rounds.anew(
            "bob", events=rounds.events("bob", plan=louder))),
        case("an event less", "rounds", "statement", rounds.anew(
            "bob", events=rounds.events("bob")[:-1])),
        case("an unknown event", "sums", "statement", sums.anew(
            "bob", events=[{"event": "NothingReleased"}])),
        case("an event with a negative number", "sums", "statement", sums.anew(
            "bob", events=[{**sums.events("bob")[0], "fixed_shift": -1.0}])),
        case("an earlier job left out", "rounds", "statement", rounds.anew("bob", earlier_jobs=[])),
        case("an earlier job twice", "rounds", "statement", rounds.anew(
            "bob", earlier_jobs=[before, before])),
        case("an earlier job with fewer rounds", "rounds", "statement", rounds.anew(
            "bob", earlier_jobs=[msgspec.structs.replace(before, rounds=1)])),
        case("an earlier job with other terms", "rounds", "statement", rounds.anew(
            "bob", earlier_jobs=[msgspec.structs.replace(before, terms="0" * 64)])),
        case("an earlier job that cost less", "rounds", "statement", rounds.anew(
            "bob", earlier_jobs=[_cheaper(rounds, before)])),
        case("no word of a neighbour", "rounds", "statement", rounds.anew(
            "bob", received=rounds.statements["bob"].received[:1])),
        case("a round less", "rounds", "statement", rounds.anew("carol", sent=carol.sent[:-32])),
        case("another last release than was sent", "rounds", "statement", rounds.anew(
            "carol", sent=carol.sent[:-32] + bytes(32))),
        case("a release that is not finite", "rounds", "statement", _release(
            rounds, "carol", b"\0\0\0\0\0\0\xf8\x7f" + carol.release[8:])),
        case("a release that is too long", "rounds", "statement", _release(
            rounds, "carol", b"\0\0\0\0\0\0\xf0\x7e" + carol.release[8:])),
        case("sums that no people have", "sums", "statement", _release(
            sums, "bob", (1 << 60).to_bytes(8, "little") + bob.release[8:])),
        case("distances that the other end denies", "rounds", "statement", rounds.anew(
            "bob", received=rounds.received("bob", "carol", distances=[0.5, 0.5, 0.5]))),
        case("a negative distance", "rounds", "statement", rounds.anew(
            "bob", received=rounds.received("bob", "carol", distances=[-0.5, 0.5, 0.5]))),
        case("a release that nobody sent", "rounds", "mismatch", rounds.anew(
            "alice", received=rounds.received(
                "alice", "bob", digests=far.digests[:32] + bytes(32) + far.digests[64:]))),
        case("a masked row of one's own choice", "masked", "total",
             masked.anew("carol", release=words, sent=other),
             *(masked.anew(name, received=masked.received(name, "carol", digests=other))
               for name in ("alice", "bob"))),
        case("more spent than the budget", "rounds", "budget", *_overspent(folder)),
        case("two releases of one round", "rounds", "equivocation", whole(
            "evidence/bob.evidence", equivocation.encode_evidence(
                [first, rounds.digest("carol", "0" * 64)]))),
        case("a release that its statement denies", "rounds", "equivocation", whole(
            "evidence/bob.evidence", equivocation.encode_evidence(
                [rounds.digest("carol", "0" * 64)]))),
        case("two statements", "rounds", "equivocation", whole(
            "evidence/bob.evidence", equivocation.encode_evidence(
                statements=[rounds.data["bob"], signed_statement.sign(
                    msgspec.structs.replace(rounds.statements["bob"], source="secure"),
                    rounds.identities["bob"])]))),
        case("a mismatch, and who is to blame", "rounds", "equivocation", rounds.anew(
            "alice", received=rounds.received(
                "alice", "bob", digests=far.digests[:32] + bytes(32) + far.digests[64:])),
            whole("evidence/bob.evidence", equivocation.encode_evidence(
                [rounds.digest("alice", "0" * 64)]))),
        case("a release that the statement beside it denies", "rounds", "equivocation", whole(
            "evidence/bob.evidence", equivocation.encode_evidence(
                [rounds.digest("carol", "0" * 64)], statements=[rounds.data["bob"]]))),
        case("evidence of one release", "rounds", "evidence", whole(
            "evidence/bob.evidence", equivocation.encode_evidence([first]))),
        case("evidence about somebody else", "rounds", "evidence", whole(
            "evidence/carol.evidence", equivocation.encode_evidence(
                [first, rounds.digest("carol", "0" * 64)]))),
        case("evidence without a signature", "rounds", "evidence", whole(
            "evidence/bob.evidence", equivocation.encode_evidence(
                [first, msgspec.structs.replace(first, recipient="carol", digest="0" * 64)]))),
        case("one statement twice as evidence", "rounds", "evidence", whole(
            "evidence/bob.evidence", equivocation.encode_evidence(
                statements=[rounds.data["bob"]] * 2))),
    ]  # fmt: skip


def _off_the_menu(folder: Path) -> dict:
    signing = Signing("masked-of-classes", folder)
    statement, epsilon = signing.statements["bob"], 1.5
    events = signing.events("bob", epsilons=(statement.epsilon, epsilon))
    return signing.anew("bob", label_epsilon=epsilon, events=events)


def _release(signing: Signing, name: str, release: bytes) -> dict:
    sent = signing.statements[name].sent[:-32] + hashlib.sha256(release).digest()
    return signing.anew(name, release=release, sent=sent)


def _cheaper(signing: Signing, job):
    """The same job with its merged release a hundredth as telling."""
    events = [
        {**e, "record_sensitivity": e["record_sensitivity"] / 100}
        if e["event"] == "IterateReleased"
        else e
        for e in job.events
    ]
    return msgspec.structs.replace(job, events=events)


def _overspent(folder: Path) -> list[dict]:
    """The same job under a study whose budget it exceeds: nodes would not have begun it."""
    parts = replace(CASES["rounds"], earlier=())
    small = folder / "small"
    small.mkdir()
    keys = {name: identity_of(name, small).public for name in NAMES}
    with three_servers():
        wide = Job(parts, study_of(parts, "rounds", keys), parts.plan, "job", small)
        wide.run()
        tight = study_of(replace(parts, budget=SMALL), "rounds", keys)
        terms = JobTerms.for_study(tight, parts.plan, "job")
        signed = {}
        for name, data in wide.signed().items():
            statement = signed_statement.signed_by(data, name, tight.signing_keys)
            under = msgspec.structs.replace(statement, study=tight.hash, terms=terms.digest)
            signed[name] = signed_statement.sign(under, wide.identities[name])
        wide.close()
    edits = [whole(f"statements/{name}.statement", data) for name, data in signed.items()]
    return [text("study.toml", "epsilon = 1000,", "epsilon = 1,"), *edits]


MODELS = [
    ("no JSON", "}", "", "is not a model of pdml"),
    ("no format", ' "format": "pdml-model/1",\n', "", "it does not say so"),
    ("another version", "pdml-model/1", "pdml-model/2", "has version 2 of the format"),
    ("an unknown field", '"label": null', '"label": null, "more": 1', "unknown field 'more'"),
    ("a field less", ' "local": ""', ' "local": "", "local": ""', ""),
    ("no field", '"norm_bound": 1.0,\n', "", "misses the field 'norm_bound'"),
    ("one class", '"no",\n  "yes"', '"yes"', "rows of coefficients for 1 classes"),
    ("three classes", '"no",\n', '"no", "maybe",\n', "rows of coefficients for 3 classes"),
    ("a norm bound of 0", '"norm_bound": 1.0', '"norm_bound": 0.0', "not positive"),
    ("a text for a number", '"intercepts": [\n', '"intercepts": [ "1",\n', "is not a model"),
    ("NaN", '"intercepts": [\n', '"intercepts": [ NaN,\n', "is not a model"),
    (
        "a row too long",
        '"coefficients": [\n  [\n',
        '"coefficients": [\n  [ 1.0,\n',
        "3 names for 4 features",
    ),
    ("an encoder with an unknown kind", '"kind": "number"', '"kind": "colour"', "an encoder"),
    ("an encoder without a range", '"range": [\n', '"ranges": [\n', "an encoder"),
]
STUDIES = [
    ("no TOML", "[study]", "[study", "this is not TOML"),
    ("an unknown key", "min_records", "min_record", "min_record is unknown"),
    ("an unknown table", "[topology]", "[extra]\n[topology]", "extra is unknown"),
    ("no title", 'title = "Who is at risk?"\n', "", "study.title is missing"),
    ("a hidden letter", "Who is", "Who\\u200b is", "letters that hide"),
    ("one class", '["no", "yes"]', '["yes"]', "2 to 100 texts"),
    ("classes that look alike", '["no", "yes"]', '["yes", "YES"]', "look different"),
    ("a falling menu", "[0.5, 1, 2]", "[1, 0.5, 2]", "larger than the one before"),
    ("an epsilon below the least", "[0.5, 1, 2]", "[0.001, 1, 2]", "lie in [0.01, 20]"),
    ("a weak epsilon", "[0.5, 1, 2]", "[0.5, 2, 3]", "be at most 2.944438"),
    ("a default off the menu", "default = 2 }", "default = 3 }", "be on the menu"),
    ("seven decimals", "[0.5, 1, 2]", "[0.5000001, 1, 2]", "at most six decimals"),
    ("a range upside down", "range = [18, 100]", "range = [100, 18]", "smaller to a larger"),
    ("an unknown kind", 'kind = "category"', 'kind = "colour"', "'number' or 'category'"),
    ("a level twice", '["female", "male"]', '["male", "male"]', "stands there twice"),
    ("a map of nothing", 'columns = ["age"]', 'columns = ["height"]', "'height'"),
    ("two servers of one name", 'name = "bob"', 'name = "alice"', "differ from the names"),
    ("one key of two servers", "", "", "differ from the keys"),
    ("unencrypted", "https://bob", "http://bob", "begin with https://"),
    ("a cut link", '["bob", "carol"]', '["bob", "bob"]', "link two different servers"),
    ("nobody reaches carol", ', ["bob", "carol"]', "", "cannot be reached"),
    ("a large delta", "delta = 1e-06", "delta = 0.5", "be at most 0.001"),
    ("a negative budget", "epsilon = 1000,", "epsilon = -1,", "be positive"),
    ("another version", "[study]\n", "[study]\nformat = 2\n", "version 2 of the format"),
]
REPORTS = [
    ("no JSON", "{", "", "malformed"),
    ("an unknown field", '"version":1', '"version":1,"more":1', "malformed"),
    ("a field twice", '"version":1', '"version":1,"version":1', "malformed"),
    ("a field twice, once behind an escape", '"label":0', '"label":0,"\\u006cabel":0', "malformed"),
    ("no field", '"label":0,', "", "malformed"),
    ("another version", '"version":1', '"version":2', "wrong_version"),
    ("another study", '"study":"', '"study":"' + "0" * 64 + '","x":"', "malformed"),
    ("no hash", '"study":"', '"study":"0', "wrong_study"),
    ("a long id", '"id":"', '"id":"0', "bad_id"),
    ("capitals in the id", '"id":"e', '"id":"E', "bad_id"),
    ("a long nonce", '"nonce":"', '"nonce":"0', "malformed"),
    ("an epsilon off the menu", '"epsilon":500000', '"epsilon":500001', "epsilon_not_on_menu"),
    ("an epsilon of 0", '"epsilon":500000', '"epsilon":0', "epsilon_not_on_menu"),
    ("an epsilon with a fraction", '"epsilon":500000', '"epsilon":0.5', "malformed"),
    ("a class that is none", '"label":0', '"label":2', "bad_label"),
    ("a negative class", '"label":0', '"label":-1', "bad_label"),
    ("a class in words", '"label":0', '"label":"no"', "malformed"),
    ("no base64", '"features":"', '"features":"*', "bad_features"),
    ("no padding", '=","token"', '","token"', "bad_features"),
    ("half a number", '=","token"', 'A","token"', "bad_features"),
    ("a consent that nobody asked for", '"consent":""', '"consent":"' + "0" * 64 + '"', "wrong_consent"),
    ("an invitation that is none", '"token":""', '"token":"me"', "token_unknown"),
]  # fmt: skip
FEATURES = [  # in the place of the good ones
    ("a feature less", lambda row: row[1:]),
    ("a feature more", lambda row: np.append(row, row[-1:])),
    ("a norm above 1", lambda row: row / np.linalg.norm(row) * 1.001),
    ("a norm of 1", lambda row: np.eye(len(row))[-1]),
    ("a constant of 0", lambda row: np.append(row[:-1], 0)),
    ("a negative constant", lambda row: np.append(row[:-1], -row[-1])),
    ("NaN", lambda row: np.append(np.nan, row[1:])),
    ("an infinite feature", lambda row: np.append(np.inf, row[1:])),
]
ROWS = [
    ("34,7.5,female", "", "") ,
    ("34,,female", "", ""),
    ("34,NA,female", "", ""),
    ("120,40,male", "", ""),
    (",40,female", "age", "no answer where everybody answers"),
    ("NA,40,female", "age", "a spelling of no answer"),
    ("old,40,female", "age", "no number"),
    ("1e2x,40,female", "age", "no number"),
    ("inf,40,female", "age", "not finite"),
    ("nan,40,female", "age", "not finite"),
    ("34,much,female", "pay", "no number"),
    ("34,40,", "sex", "no answer where everybody answers"),
    ("34,40,Female", "sex", "a level that is none"),
    ("34,40,other", "sex", "a level that is none"),
    ("34,40", "", "a cell less"),
    ("34,40,female,1", "", "a cell more"),
]  # fmt: skip


def dump(name: str, about: str, **content) -> None:
    path = BAD / f"{name}.json"
    path.write_text(json.dumps({"about": about, **content}, indent=1, ensure_ascii=False) + "\n")


def edits_of(rows) -> list[dict]:
    keys = ("name", "old", "new", "refused")
    return [dict(zip(keys, row, strict=True)) for row in rows]


def twin(rows: list[dict]) -> list[dict]:
    """Bob with alice's keys."""
    servers = Study.load(RESULTS / "sums" / "study.toml").servers
    for row in rows:
        if row["name"] == "one key of two servers":
            row |= {"old": servers[1].signing_key, "new": servers[0].signing_key}
    return rows


def bad_reports() -> tuple[str, list[dict]]:
    """A good report and what is wrong with others."""
    study = Study.load(RESULTS / "sums" / "study.toml")
    row = study.encode({"age": 34.0, "pay": None, "sex": "female"})
    features = messages.pack_features(row)
    report = messages.Report(
        version=1,
        study=study.hash,
        id="e" * 32,
        nonce="7" * 32,
        epsilon=500_000,
        label=0,
        features=features,
        token="",
        consent="",
        consent_version="",
    )
    rows = list(REPORTS)
    last = features[-2]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = letters[letters.index(last) + 1]
    rows.append(("bits behind the padding", f'{last}="', f'{other}="', "bad_features"))
    for name, change in FEATURES:
        changed = messages.pack_features(np.asarray(change(row), dtype=np.float32))
        rows.append((name, features, changed, "bad_features"))
    return messages.encode_report(report).decode(), edits_of(rows)


if __name__ == "__main__":
    BAD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        cases = plain_results() + signed_results(Path(folder))
    dump(
        "results",
        "Each is `base` of tests/vectors/results after `edits`; `kinds` are those of its problems.",
        bad=cases,
    )
    dump(
        "models",
        "results/rounds/model.json after the first `old` became `new`; `refused` is a part of "
        "pdml's sentence.",
        base="results/rounds/model.json",
        bad=[row for row in edits_of(MODELS) if row["refused"]],
    )
    dump(
        "studies",
        "results/sums/study.toml after the first `old` became `new`; `refused` is a part of one "
        "of pdml's sentences.",
        base="results/sums/study.toml",
        bad=twin(edits_of(STUDIES)),
    )
    good, reports = bad_reports()
    dump(
        "reports",
        "`good`, a report to results/sums/study.toml, after the first `old` became `new`; "
        "`refused` is the code of the problem.",
        study="results/sums/study.toml",
        good=good,
        bad=reports,
    )
    dump(
        "rows",
        'Rows of a table for results/sums/study.toml. `refused`: why, "" if the row is good; '
        "`column`: where, if it is one cell.",
        study="results/sums/study.toml",
        header="age,pay,sex",
        rows=[dict(zip(("row", "column", "refused"), row, strict=True)) for row in ROWS],
    )
