"""A real federation on this machine: provisioned kits, TLS, one process per site and per job. Shared by the FLARE tests."""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pdml.accounting import Budget
from pdml.accounting.events import IterateReleased
from pdml.encoder import Category, Encoder, Number
from pdml.frozen import FrozenWriter, open_frozen
from pdml.mechanisms.randomness import Simulated
from pdml.node import holdings
from pdml.node.flare import process
from pdml.node.flare.provision import provision
from pdml.node.flare.session import connect
from pdml.node.flare.site import Site
from pdml.node.journal import Journal
from pdml.study import ServerEntry, Study
from pdml.train.engines import local
from pdml.train.plan import TrainingPlan

NAMES = ("alice", "bob", "carol")
PLAN = TrainingPlan(rounds=12, penalty=0.5, noise_scale=0.05)
SEED = 11


def study_of(names=NAMES, *, edges=None, plan=PLAN, **changes):
    links = edges or tuple(zip(names, (*names[1:], names[0]), strict=True)) if len(names) > 2 else ((names[0], names[1]),)
    order = {name: i for i, name in enumerate(names)}
    fields = {
        "id": "clinic",
        "title": "Who is at risk?",
        "question": "Have you been diagnosed?",
        "classes": ("no", "yes"),
        "menu": (0.5, 1.0, 2.0),
        "default_epsilon": 1.0,
        "encoder": Encoder(attributes=(Number(name="age", low=18, high=100), Category(name="sex", levels=("female", "male")))),
        "servers": tuple(ServerEntry(name, f"http://127.0.0.1:{8100 + i}") for i, name in enumerate(names)),
        "edges": tuple(tuple(sorted(edge, key=order.__getitem__)) for edge in links),
        "budget": Budget(features_epsilon=1e6, labels_epsilon=1e6),
        "plan": {key: value for key, value in plan.to_dict().items() if value is not None},
        "min_records": 20,
    }
    return Study(**{**fields, **changes})


def freeze(study, name, folder, *, records=60, seed=0):
    """Records with ε from the study's menu, written as a collection service would."""
    rng = np.random.default_rng([seed, *name.encode()])
    ages, sexes = rng.uniform(18, 100, records), rng.choice(["female", "male"], records)
    features = np.array([study.encode({"age": age, "sex": sex}) for age, sex in zip(ages, sexes, strict=True)])
    labels = (ages + rng.normal(0, 20, records) > 60).astype(np.int32)
    epsilons = rng.choice(study.epsilon_micro, records).astype(np.int64)
    names = {"study_hash": study.hash, "study_id": study.id, "server": name}
    with FrozenWriter(
        folder,
        width=study.width,
        classes=len(study.classes),
        randomised_by="devices",
        **names,
    ) as writer:
        writer.append(features, labels, epsilons)
        writer.finish(frozen_at="2026-03-01T14Z")
    return folder


def wait_for_journal(site, seconds=60):
    """Free as soon as the job's process has ended."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return Journal(site.path(site.config.journal))
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def released(reports):
    """What the nodes released last, in their order."""
    return np.array([report.vector for report in reports.values()])


@contextlib.contextmanager
def small_disk(size):
    place = Path(tempfile.mkdtemp(prefix="pdml-small-"))  # not below tmp_path, which pytest must be able to remove
    mount = shutil.which("mount")
    if mount is None or subprocess.run([mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True).returncode:
        place.rmdir()
        pytest.skip("needs the right to mount a small file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        place.rmdir()


class Federation:
    """Kits, data sets and processes of one study; `close` leaves nothing running."""

    def __init__(self, folder, study=None, *, records=60, seed=SEED, freeze=freeze, tapped=False, network=None):
        self.tapped, self.tap, self.network = tapped, folder / "seen by the relay", network
        self.folder, self.study, self.seed = folder, study or study_of(), seed
        self.kits = provision(self.study, folder / "kits", relay=network.relay if network else "")
        self.sites = {name: Site.open(kit) for name, kit in self.kits.items()}
        self.names = tuple(server.name for server in self.study.servers)
        for name in self.names:
            freeze(self.study, name, self.sites[name].path("data"), records=records)
            self.sites[name] = self.sites[name].save(data="data")
        self.desks = contextlib.ExitStack()
        self.desk = None

    def contract(self, job):
        return holdings.agreed(self.study, TrainingPlan.from_dict(dict(self.study.plan)), job)

    def start(self, *names, timeout=120):
        """Start sites that do not run, and wait until the relay hears from all nodes."""
        for name in names or ("relay", *self.names):
            if process.running(self.sites[name]) is None:
                with pytest.MonkeyPatch.context() as patch:
                    if name == "relay" and self.tapped:
                        patch.setenv("PDML_TEST_TAP", str(self.tap))
                        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "tap"))
                    if self.network:
                        command = self.network.within(name, process.command(self.sites[name]))
                        patch.setattr(process, "command", lambda site, command=command: command)
                    process.start(self.sites[name], simulated_noise=self.seed)
        self.log_in(timeout)
        self.desk.wait_for(self.names, timeout)

    def log_in(self, timeout=120):
        self.desks.close()
        deadline = time.monotonic() + timeout
        while True:
            try:
                self.desk = self.desks.enter_context(connect(self.sites["admin"], timeout=10))
                return
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)

    def submit(self, job, *, resume=False, start_timeout=90.0, round_timeout=20.0, **options):
        return self.desk.submit(self.contract(job), resume=resume, start_timeout=start_timeout, round_timeout=round_timeout, **options)

    def finish(self, flare_job, job, *, timeout=180, each=lambda rounds: None):
        status = self.desk.follow(flare_job, each, timeout=timeout)
        return self.desk.result(flare_job, self.contract(job), status)

    def train(self, job, *, timeout=180, **options):
        return self.finish(self.submit(job, **options), job, timeout=timeout)

    def servers(self):
        return [holdings.hold(self.study, name, open_frozen(self.sites[name].path("data"))).server for name in self.names]

    def expected(self):
        """What the local engine computes."""
        plan = TrainingPlan.from_dict(dict(self.study.plan))
        return local.train(self.study.graph(), local.Run(plan, self.servers(), Simulated(self.seed))).released

    def rounds_spent(self, name, job):
        """The rounds that a job has released at a node, as the ledger has them."""
        site = self.sites[name]
        dataset = site.holdings().dataset
        with contextlib.closing(wait_for_journal(site)) as journal:
            spent = Counter(journal.spent(dataset)) - Counter(journal.spent(dataset, but=job))
        return sorted(event.t for event in spent.elements() if isinstance(event, IterateReleased))

    def move_journal(self, name, target):
        """Between two jobs: closed, a journal is one file."""
        site = self.sites[name]
        wait_for_journal(site).close()
        shutil.copy(site.path(site.config.journal), site.path(target))
        self.sites[name] = Site.open(self.kits[name]).save(journal=target)

    def job_processes(self, name):
        """The processes of running jobs at a site, without the site's own."""
        own = process.running(self.sites[name])
        return [member for member in process.members(self.sites[name]) if member.pid != own]

    def close(self):
        with contextlib.suppress(Exception):
            self.desks.close()
        for name in ("relay", *self.names):
            process.stop(self.sites[name], patience=3)
