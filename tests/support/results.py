"""Consortia under a real study with pinned keys, and the folders of their results."""

import base64
import hashlib
from dataclasses import replace

import msgspec
import numpy as np
from consortium import EDGES, NAMES, PLAN, Consortium

from pdml.consortium.result_folder import verify_result, write_result
from pdml.consortium.signed_evaluation import SignedCounts, digest_of
from pdml.mechanisms.count_release import Counting
from pdml.mechanisms.randomness import Simulated
from pdml.model.model import load_model
from pdml.node.job.job_result import KINDS, assemble
from pdml.node.protocol import signed_statement
from pdml.node.protocol.job_terms import JobTerms
from pdml.study import Study

SHORT = replace(PLAN, rounds=3)

_TEXT = """\
[study]
id = "results"
title = "Who is at risk?"
min_records = 40
[label]
question = "Have you been diagnosed?"
classes = ["no", "yes"]
epsilon = {{ menu = [1, 2], default = 1 }}
[[attributes]]
name = "age"
kind = "number"
range = [18, 100]
[[attributes]]
name = "weight"
kind = "number"
range = [30, 200]
[[attributes]]
name = "height"
kind = "number"
range = [100, 220]
{servers}
[topology]
edges = [{edges}]
[budget]
features = {{ epsilon = {budget}, delta = 1e-6 }}
{plan}
"""
_SERVER = """\
[[servers]]
name = "{name}"
url = "https://{name}.example"
signing_key = "{key}"
sealing_key = "{sealing}"
"""


def study_of(keys, *, plan=PLAN, fixed_plan=True, budget=1000):
    """Four servers with these keys; sealing keys are made up, for nobody seals anything here."""
    entries = [{"name": name, "key": keys[name], "sealing": _sealing_key(name)} for name in keys]
    servers = "".join(_SERVER.format(**entry) for entry in entries)
    edges = ", ".join(f'["{NAMES[i]}", "{NAMES[k]}"]' for i, k in EDGES)
    settings = {name: value for name, value in plan.to_dict().items() if value is not None}
    lines = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
    written = f"[plan]\n{lines}" if fixed_plan else ""
    return Study.from_text(_TEXT.format(servers=servers, edges=edges, plan=written, budget=budget))


def _sealing_key(name):
    return base64.b64encode(hashlib.shake_128(name.encode()).digest(1216)).decode()


class Studied(Consortium):
    """`Consortium` under a study; ``tell`` collects statements."""

    def __init__(self, folder, *, plan=PLAN, job="job-1", fixed_plan=True, budget=1000, **others):
        super().__init__(folder, plan=plan, job=job, **others)
        self.study = study_of(self.keys, plan=plan, fixed_plan=fixed_plan, budget=budget)
        self.job_terms = JobTerms.for_study(self.study, plan, job)
        for i, (name, server) in enumerate(zip(NAMES, self.servers, strict=True)):
            sizes = {"records": server.spec.records, "epsilons": server.spec.epsilons}
            self.servers[i] = replace(
                server,
                spec=self.job_terms.training.server_spec(self.job_terms.index(name), **sizes),
            )

    def tell(self, **changes):
        """The statements of all; ``changes`` by name are what that server says instead."""
        signed = {name: self.party(name).statement() for name in NAMES}
        for name, lies in changes.items():
            statement = signed_statement.signed_by(signed[name], name, self.keys)
            statement = msgspec.structs.replace(
                statement, **(lies(statement) if callable(lies) else lies)
            )
            signed[name] = signed_statement.sign(statement, self.identities[name])
        return signed

    def write(self, folder, evidence=None, **changes):
        """The folder of the result that these statements give."""
        signed = self.tell(**changes)
        result = assemble(self.study, self.job_terms, signed, evidence=evidence or {})
        write_result(folder, result)
        return result


def verified(folder, **options):
    """What `verify_result` finds; every problem is of a kind that the docs know."""
    verification = verify_result(folder, **options)
    assert all(problem.kind in KINDS for problem in verification.problems)
    return verification


def sentences(folder, **options):
    """All problems as one text."""
    return " | ".join(problem.sentence for problem in verified(folder, **options).problems)


def bent(data, rng):
    """One small change of any kind: bits, bytes, spaces, digits, order, length."""
    at = rng.randrange(len(data))
    digits = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
    number = rng.choice(digits)
    changes = [
        lambda: data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
        lambda: data[:at] + data[at + 1 :],
        lambda: data[:at] + bytes([rng.randrange(256)]) + data[at:],
        lambda: data[:at] + rng.choice([b" ", b"\n", b"\t", b"\r\n", b"\0"]) + data[at:],
        lambda: data[:at] + data[at : at + 16] + data[at:],
        lambda: data[:at] + data[at : at + 8][::-1] + data[at + 8 :],
        lambda: data[:number] + bytes([48 + (data[number] - 47) % 10]) + data[number + 1 :],
        lambda: data[:number] + b"0" + data[number:],
        lambda: data.swapcase() if rng.random() < 0.5 else data[:at] + data[at:].swapcase(),
        lambda: data[: at + 1],
        lambda: data + bytes([rng.randrange(256)]),
        lambda: data + data[-rng.randrange(1, 100) :],
    ]
    return rng.choice(changes)()


def counted(consortium, name, path, **changes):
    """A file in which a member tells counts of how the result in ``made.folder`` does."""
    counting = Counting(stddev=8.0, classes=2, bins=1)
    units = counting.released(np.array([[[40], [10]], [[5], [45]]]), Simulated(1))
    statement = SignedCounts(
        **{
            "study": consortium.study.hash,
            "server": name,
            "job": "checked",
            "model": digest_of(load_model(consortium.folder / "result" / "model.json")),
            "classes": list(consortium.study.classes),
            "records": 100,
            "bins": 1,
            "stddev": 8.0,
            "source": "simulated",
            "counts": units.ravel().tolist(),
            "spent": [8.0],
        }
        | changes
    )
    signature = consortium.identities[name].sign(statement.signable()).hex()
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(statement, signature=signature)))
    return path
