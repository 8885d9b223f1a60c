"""What schedules begin with: folders of three organisations in one study, made once and copied."""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from random import Random

import numpy as np
from threadpoolctl import threadpool_limits

from pdml.accounting import Budget, Ledger
from pdml.encoding.encoder import Encoder, Number
from pdml.mechanisms.randomness import Simulated
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.node_dir import NodeDirectory
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Relay, ServerEntry, Study
from pdml.study.frozen_dataset import FrozenWriter
from pdml.study.schema import template
from pdml.training import local_engine, sums_release
from pdml.training.server import compiles

NAMES = ("alice", "bob", "carol")
ROUNDS = TrainingPlan(rounds=3, penalty=0.5, noise_scale=0.05)
SUMS = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0)
PLANS = {"rounds": ROUNDS, "sums": SUMS, "masked": replace(SUMS, colluding=1)}
RECORDS, NOISE = 4, 11  # of each organisation; the seed of its noise
AMPLE = Budget(features_epsilon=1e6, labels_epsilon=1e6)
TIGHT_JOBS = 2  # that fit into a tight budget
SHARED_MEMORY = Path("/dev/shm")


def folder_of_runs() -> Path:
    """A new one, in memory where there is such a place."""
    where = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    return Path(tempfile.mkdtemp(prefix="pdml-simulation-", dir=where))


def study_of(plan: TrainingPlan, budget: Budget = AMPLE) -> Study:
    return Study(
        id="clinic",
        title="Who is at risk?",
        question="Have you been diagnosed?",
        classes=("no", "yes"),
        menu=(0.5, 1.0),
        default_epsilon=1.0,
        encoder=Encoder(attributes=(Number(name="age", low=18, high=100),)),
        servers=tuple(
            ServerEntry(name, f"http://127.0.0.1:{8100 + i}") for i, name in enumerate(NAMES)
        ),
        edges=(("alice", "bob"), ("alice", "carol"), ("bob", "carol")),
        budget=budget,
        plan=plan,
        min_records=2,
    )


def freeze(study: Study, name: str, folder: Path, *, records: int = RECORDS, seed: int = 0) -> None:
    """Records as a collection would export them."""
    rng = np.random.default_rng([seed, *name.encode()])
    x = rng.uniform(0, 1, (records, study.width)).astype(np.float32)
    x /= 1.0001 * np.linalg.norm(x, axis=1, keepdims=True)
    labels = (x[:, 0] > np.median(x[:, 0])).astype(np.int32)
    epsilons = rng.choice(study.epsilon_micro, records).astype(np.int64)
    with FrozenWriter(
        folder,
        width=study.width,
        classes=len(study.classes),
        randomised_by="devices",
        study_hash=study.hash,
        study_id=study.id,
        server=name,
    ) as writer:
        writer.append(x, labels, epsilons)
        writer.finish(frozen_at="2026-03-01T14Z")


@dataclass(frozen=True, eq=False)
class Scene:
    """One study and its members' folders, as files."""

    method: str
    tight: bool
    study: Study
    files: dict[str, dict[str, bytes]]  # by member and path

    def lay_out(self, folder: Path) -> None:
        for name, files in self.files.items():
            (folder / name).mkdir(mode=0o700)
            for path, content in files.items():
                target = folder / name / path
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                target.write_bytes(content)
                target.chmod(0o600)

    @lru_cache  # noqa: B019 - scenes are made once
    def terms(self, job: str) -> JobTerms:
        assert self.study.plan is not None
        return JobTerms.for_study(self.study, self.study.plan, job)

    @cached_property
    def data(self) -> dict:
        """What each member trains on."""
        folder = folder_of_runs()
        try:
            self.lay_out(folder)
            homes = {name: NodeDirectory.open(folder / name) for name in NAMES}
            return {name: home.load_training_data() for name, home in homes.items()}
        finally:
            shutil.rmtree(folder)

    @cached_property
    def expected(self) -> np.ndarray:
        """What the local engine releases last: of masked sums the total."""
        plan, servers = self.study.plan, [data.server for data in self.data.values()]
        source = Simulated(NOISE)
        with threadpool_limits(1):
            if plan.method == "sums":
                exact = [sums_release.exact(server, plan) for server in servers]
                rows = [
                    sums_release.release_sums(sums, server, plan, source)
                    for sums, server in zip(exact, servers, strict=True)
                ]
                return np.array(rows)
            run = local_engine.Run(plan, servers, source)
            flags = [compiles(server, plan) for server in servers]
            return local_engine.train(self.study.graph(), run, use_numba=flags).released


def _tight_budget(study: Study, data: dict) -> Budget:
    """For so many jobs, at the member that spends most."""
    epsilons = []
    for member in data.values():
        planned = study.plan.events(member.server.spec)
        ledger = Ledger(((member.flip(), *planned * TIGHT_JOBS),), classes=len(study.classes))
        rows = {row.data: row.epsilon for row in ledger.rows() if row.adversary == "other servers"}
        epsilons.append((rows["features"], rows["label"]))
    features, label = (1.0001 * max(each) for each in zip(*epsilons, strict=True))
    return Budget(features_epsilon=features, labels_epsilon=label)


@contextlib.contextmanager
def seeded_entropy(seed: object) -> Iterator[None]:
    """What processes draw from the operating system, from a seed: keys of messages aside, which
    OpenSSL draws.
    """
    random = Random(f"entropy {seed}")
    before = os.urandom, secrets.token_hex, secrets.token_bytes
    os.urandom = random.randbytes
    secrets.token_bytes = lambda count=32: random.randbytes(count)
    secrets.token_hex = lambda count=32: random.randbytes(count).hex()
    try:
        yield
    finally:
        os.urandom, secrets.token_hex, secrets.token_bytes = before


@lru_cache
def scene(method: str, tight: bool = False) -> Scene:
    with seeded_entropy(f"{method} {tight}"):
        return _make(method, tight)


def _make(method: str, tight: bool) -> Scene:
    budget = AMPLE
    if tight:
        ample = scene(method)
        budget = _tight_budget(ample.study, ample.data)
    folder = folder_of_runs()
    try:
        homes = {name: NodeDirectory.create(folder / name, name, accept="study") for name in NAMES}
        study = study_of(PLANS[method], budget)
        servers = tuple(homes[server.name].card().entry(server.url) for server in study.servers)
        study = replace(study, servers=servers, relay=Relay("127.0.0.1:4222", "0" * 64))
        text = template.render(study)
        for name, home in homes.items():
            home.join(study, text)
            freeze(study, name, home.path("data"))
            home.save(data="data")
        files = {
            name: {
                str(path.relative_to(folder / name)): path.read_bytes()
                for path in sorted((folder / name).rglob("*"))
                if path.is_file()
            }
            for name in NAMES
        }
        return Scene(method, tight, study, files)
    finally:
        shutil.rmtree(folder)
