"""`python -m benchmarks.verify [nodes ...]`: how long does it take to check a result?

Statements are made without training: vectors are drawn, everything around them is what nodes would
say. d = 105, 100 rounds, 1.3 links per node. Seconds of the processor, because machines are shared;
the last columns are a fresh process, which people start.
"""

import base64
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pdml.accounting import Budget
from pdml.accounting.events import encode_event
from pdml.consortium.result_folder import verify_result, write_result
from pdml.encoding.encoder import Encoder, Number
from pdml.mechanisms.exact_gaussian import round_to_grid
from pdml.node.crypto.signing import Identity
from pdml.node.job.job_result import assemble
from pdml.node.protocol import signed_statement, wire_messages
from pdml.node.protocol.job_terms import JobTerms
from pdml.numerics.admm.graph import build
from pdml.planning.training_plan import TrainingPlan
from pdml.study import ServerEntry, Study

WIDTH, ROUNDS, RECORDS = 105, 100, 500


def study_of(identities):
    names, graph = list(identities), build("random", len(identities), np.random.default_rng(0))
    attributes = tuple(Number(name=f"x{i}", low=0.0, high=1.0) for i in range(WIDTH - 1))
    plan = TrainingPlan(rounds=ROUNDS, noise_scale=0.3, objective_bound=0.2)
    return Study(
        id="bench",
        title="How long does it take?",
        question="Yes?",
        classes=("no", "yes"),
        menu=(1.0,),
        default_epsilon=1.0,
        encoder=Encoder(attributes=attributes),
        servers=tuple(
            ServerEntry(
                name,
                f"https://{name}.example",
                identity.public,
                base64.b64encode(os.urandom(1216)).decode(),
            )
            for name, identity in identities.items()
        ),
        edges=tuple((names[i], names[k]) for i, k in graph.edges),
        budget=Budget(features_epsilon=10_000.0),
        plan=plan,
    )


def digest(vector):
    return bytes.fromhex(wire_messages.hash_of(wire_messages.encode_vector(vector)))


def statements(study, job_terms, identities):
    """What all would say had they sent these vectors."""
    rng = np.random.default_rng(1)
    drawn = {name: rng.standard_normal((ROUNDS, 1, WIDTH)) for name in identities}
    sent = {name: round_to_grid(vectors) for name, vectors in drawn.items()}
    digests = {name: b"".join(map(digest, vectors)) for name, vectors in sent.items()}
    signed = {}
    for name, identity in identities.items():
        heard = [
            signed_statement.NeighbourReleases(
                sender=peer,
                digests=digests[peer],
                distances=np.linalg.norm(sent[name] - sent[peer], axis=(1, 2)).tolist(),
                dataset=identities[peer].alias("data"),
                earlier_releases=0,
            )
            for peer in job_terms.neighbours(name)
        ]
        events = job_terms.plan.events(
            job_terms.training.server_spec(job_terms.index(name), records=RECORDS, epsilons=(1.0,))
        )
        said = signed_statement.Statement(
            terms=job_terms.digest,
            study=job_terms.study,
            job=job_terms.job,
            plan=job_terms.plan.to_dict(),
            server=name,
            dataset=identity.alias("data"),
            records=RECORDS,
            epsilon=1.0,
            label_epsilon=1.0,
            randomised_by="devices",
            source="secure",
            sent=digests[name],
            received=heard,
            release=wire_messages.encode_vector(sent[name][-1]),
            events=[encode_event(event) for event in events],
            earlier_jobs=[],
        )
        signed[name] = signed_statement.sign(said, identity)
    return signed


def measure(n, folder):
    identities = {f"node-{i:03}": Identity(secrets.token_bytes(32)) for i in range(n)}
    study = study_of(identities)
    job_terms = JobTerms.for_study(study, study.plan, "job")
    result = assemble(study, job_terms, statements(study, job_terms, identities))
    assembling = processor(lambda: write_result(folder, result))
    found = verify_result(folder)
    assert found.ok, found.problems
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    here = processor(lambda: verify_result(folder))
    command = [sys.executable, "-c", "from pdml.cli import main; main()", "verify", str(folder)]
    start = time.perf_counter()
    whole = processor(lambda: subprocess.run(command, check=True, capture_output=True))
    clock = time.perf_counter() - start
    times = " | ".join(f"{seconds:.2f} s" for seconds in (assembling, here, whole, clock))
    print(f"| {n} | {job_terms.graph.n_edges} | {size / 1e6:.1f} MB | {times} |")


def processor(work):
    """Seconds of the processor, in this process and the ones it waits for."""
    start = os.times()
    work()
    return sum(b - a for a, b in zip(start[:4], os.times()[:4], strict=True))


if __name__ == "__main__":
    print("| nodes | links | folder | assemble | verify | `pdml verify` | of that on the clock |")
    print("|---|---|---|---|---|---|---|")
    for count in map(int, sys.argv[1:] or ["3", "10", "30", "100"]):
        with tempfile.TemporaryDirectory() as place:
            measure(count, Path(place) / "result")
