"""A real consortium on this machine: keys, a study, a relay (nats-server with TLS), one process per
node.
"""

import contextlib
import json
import multiprocessing
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from pdml.accounting import Budget
from pdml.encoding.encoder import Category, Encoder, Number
from pdml.mechanisms import masks
from pdml.mechanisms.randomness import Simulated
from pdml.node.daemon import daemon as node_process
from pdml.node.daemon import relay_server
from pdml.node.job import statements
from pdml.node.protocol import signed_statement
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.control_db import ENDED, CommandKind, ControlDatabase, OfferState, StatusName
from pdml.node.storage.journal import JobState, Journal
from pdml.node.storage.node_dir import JOURNAL, NodeDirectory
from pdml.planning.training_plan import TrainingPlan
from pdml.study import ServerEntry, Study
from pdml.study.frozen_dataset import FrozenWriter
from pdml.study.schema import template
from pdml.training import local_engine, sums_release
from pdml.training.server import compiles

NAMES = ("alice", "bob", "carol")
PLAN = TrainingPlan(rounds=12, penalty=0.5, noise_scale=0.05)
SUMS = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0)
MASKED = replace(SUMS, colluding=1)
SEED = 11
RUN = "import sys; from pdml.cli import main; main(sys.argv[1:])"


def study_of(names=NAMES, *, edges=None, plan=PLAN, **changes):
    links = (
        edges or tuple(zip(names, (*names[1:], names[0]), strict=True))
        if len(names) > 2
        else ((names[0], names[1]),)
    )
    order = {name: i for i, name in enumerate(names)}
    fields = {
        "id": "clinic",
        "title": "Who is at risk?",
        "question": "Have you been diagnosed?",
        "classes": ("no", "yes"),
        "menu": (0.5, 1.0, 2.0),
        "default_epsilon": 1.0,
        "encoder": Encoder(
            attributes=(
                Number(name="age", low=18, high=100),
                Category(name="sex", levels=("female", "male")),
            ),
        ),
        "servers": tuple(
            ServerEntry(name, f"http://127.0.0.1:{8100 + i}") for i, name in enumerate(names)
        ),
        "edges": tuple(tuple(sorted(edge, key=order.__getitem__)) for edge in links),
        "budget": Budget(features_epsilon=1e6, labels_epsilon=1e6),
        "plan": plan,
        "min_records": 20,
    }
    return Study(**{**fields, **changes})


def freeze(study, name, folder, *, records=60, seed=0):
    """Records with ε from the study's menu, written as a collection service would."""
    rng = np.random.default_rng([seed, *name.encode()])
    x = rng.uniform(0, 1, (records, study.width)).astype(np.float32)
    if any(isinstance(attribute, Category) for attribute in study.attributes):
        x = np.array([study.encode(person(study, rng), drawn(study, rng)) for _ in range(records)])
    else:
        x /= 1.0001 * np.linalg.norm(x, axis=1, keepdims=True)
    labels = (x[:, 0] > np.median(x[:, 0])).astype(np.int32)
    epsilons = rng.choice(study.epsilon_micro, records).astype(np.int64)
    names = {"study_hash": study.hash, "study_id": study.id, "server": name}
    with FrozenWriter(
        folder, width=study.width, classes=len(study.classes), randomised_by="devices", **names
    ) as writer:
        writer.append(x, labels, epsilons)
        writer.finish(frozen_at="2026-03-01T14Z")
    return folder


def person(study, rng):
    return {
        each.name: rng.uniform(each.low, each.high)
        if isinstance(each, Number)
        else str(rng.choice(each.levels))
        for each in study.attributes
    }


def drawn(study, rng):
    """What chance made of each sensitive answer."""
    return [
        (int(rng.integers(len(each.choices))), int(rng.choice(each.epsilon.millionths)))
        for each in study.encoder.sensitive
    ]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def small_disk(size):
    place = Path(
        tempfile.mkdtemp(prefix="pdml-small-")
    )  # not below tmp_path, which pytest must be able to remove
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True
        ).returncode
    ):
        place.rmdir()
        pytest.skip("needs the right to mount a small file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        place.rmdir()


_SERVER = multiprocessing.get_context(
    "forkserver"
)  # its children have the imports of a node already, so that they start at once
_SERVER.set_forkserver_preload(["pdml.node.daemon.daemon", "pdml.node.daemon.nats_transport"])


def write_local_model(directory, job, data):
    """As `pdml node run` does."""
    from pdml.node.job import job_result

    job_result.write_local_model(directory, job, data)


def _become_node(folder, seed, log, write):
    """A node's process; it ends with its parent's word or by a signal, as any other."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.setsid()
    node_process.run(folder, simulated_noise=seed, write_local_model=write)


class Forked:
    """A process of `multiprocessing` that is spoken to like one of `subprocess`."""

    def __init__(self, *arguments):
        self.process = _SERVER.Process(target=_become_node, args=arguments, daemon=True)
        self.process.start()
        self.pid = self.process.pid

    def poll(self):
        return self.process.exitcode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.process.kill()

    def wait(self, timeout=None):
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise TimeoutError(f"process {self.pid} lives on")


class Ended(Exception):
    """A job without a result; its text is the node's sentence."""


class Federation:
    """Folders, relay and processes of one study; `close` leaves nothing running."""

    def __init__(
        self,
        folder,
        study=None,
        *,
        records=60,
        seed=SEED,
        freeze=freeze,
        accept="study",
        network=None,
    ):
        study, self.seed, self.network = study or study_of(), seed, network
        self.program = None  # another one than `pdml node run`
        self.packages = {}  # of members that run another pdml: the folder that holds it
        self.local_models = {}  # who writes its local model otherwise than by `write_local_model`
        self.folder, self.names = folder, tuple(server.name for server in study.servers)
        self.homes = {
            name: NodeDirectory.create(folder / name, name, accept=accept) for name in self.names
        }
        address = network.relay if network else f"127.0.0.1:{free_port()}"
        cards = {name: home.card() for name, home in self.homes.items()}
        servers = tuple(cards[server.name].entry(server.url) for server in study.servers)
        self.relay_folder = folder / "relay"
        self.study = replace(
            study, servers=servers, relay=relay_server.prepare(self.relay_folder, address)
        )
        relay_server.configure(self.study, self.relay_folder, listen=address)
        text = template.render(self.study)
        (folder / "study.toml").write_text(text)
        sizes = dict.fromkeys(self.names, records) if isinstance(records, int) else records
        for name in self.names:
            self.homes[name].join(self.study, text)
            freeze(self.study, name, self.homes[name].path("data"), records=sizes[name])
            self.homes[name] = self.homes[name].save(data="data")
        self.processes = {}

    def job_terms(self, job):
        """Of the study's plan, or of the plan that alice's journal has for the job."""
        return JobTerms.for_study(self.study, self.study.plan or self._plan(job), job)

    def _plan(self, job):
        with self.journal(self.names[0]) as journal:
            return statements.plan_of(journal.job(job))[0]

    # Processes

    def command(self, name):
        if name == "relay":
            return relay_server.command(self.relay_folder)
        program = self.program or [sys.executable, "-c", RUN, "node", "run"]
        if name in self.packages:
            first = f"import sys; sys.path.insert(0, {str(self.packages[name])!r}); "
            program = [sys.executable, "-c", first + RUN, "node", "run"]
        return [*program, str(self.homes[name].folder), "--simulated-noise", str(self.seed)]

    def start(self, *names, timeout=30):
        """Start whoever does not run, and wait until all of them are connected."""
        for name in names or ("relay", *self.names):
            if not self.running(name):
                forked = not (self.network or self.program or name in self.packages)
                if name != "relay" and forked:
                    self.processes[name] = Forked(
                        self.homes[name].folder,
                        self.seed,
                        self.log(name),
                        self.local_models.get(name, write_local_model),
                    )
                    continue
                command = self.command(name)
                if self.network:
                    command = self.network.within(name, command)
                with open(self.log(name), "ab") as log:
                    where = self.relay_folder if name == "relay" else self.folder
                    self.processes[name] = subprocess.Popen(
                        command, cwd=where, stdout=log, stderr=log, start_new_session=True
                    )
        self.wait(
            lambda: all(self.connected(name) for name in names or self.names if name != "relay"),
            timeout,
        )
        return self

    def log(self, name):
        return self.folder / f"{name}.log"

    def running(self, name):
        return name in self.processes and self.processes[name].poll() is None

    def connected(self, name):
        control_db = ControlDatabase(self.homes[name].folder)
        with contextlib.closing(control_db):
            fact = control_db.read_status(StatusName.CONNECTION)
            return (
                bool(fact and fact["up"])
                and Journal.holder(self.homes[name].path(JOURNAL)) == fact["pid"]
            )

    def wait(self, ready, timeout=30, what="the consortium"):
        deadline = time.monotonic() + timeout
        while not ready():
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"{path.name}: {path.read_text()[-2000:]}" for path in self.folder.glob("*.log")
                )
                raise TimeoutError(f"{what} is not ready after {timeout} s\n{logs}")
            time.sleep(0.02)

    def kill(self, name, number=signal.SIGKILL):
        if self.running(name):
            self.processes[name].send_signal(number)
        self.processes[name].wait(20)

    def close(self):
        if "COVERAGE_PROCESS_CONFIG" in os.environ:
            self._end()
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
        for process in self.processes.values():
            process.wait(20)

    def _end(self):
        """Nodes that end by themselves have told which lines they ran; one that was killed has not."""
        nodes = [process for name, process in self.processes.items() if name != "relay"]
        for process in nodes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGCONT)  # it may have been held
        for process in nodes:
            with contextlib.suppress(TimeoutError, subprocess.TimeoutExpired):
                process.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Jobs

    def control_db(self, name="alice"):
        return ControlDatabase(self.homes[name].folder)

    def pardon(self, offerer):
        """What operators do by accepting an offer of this member: no job that it left without a
        result counts any more.
        """
        for name in self.names:
            with contextlib.closing(self.control_db(name)) as control_db:
                for job in control_db.unfinished().get(offerer, []):
                    control_db.remove_unfinished(job)

    def offer(
        self,
        job,
        *,
        by=None,
        resume=False,
        start_timeout=20.0,
        round_timeout=20.0,
        plan=None,
        pardon=True,
        attempt="",
    ):
        """The attempt's name. Tests go on after failures: ``pardon`` keeps operators out of it."""
        attempt = attempt or secrets.token_hex(16)
        if pardon:
            self.pardon(by or self.names[0])
        agreed = plan or self.study.plan
        terms = {"job": job, "plan": agreed.to_dict(), "resume": resume}
        with contextlib.closing(self.control_db(by or self.names[0])) as control_db:
            control_db.push_command(
                CommandKind.OFFER,
                attempt,
                **terms,
                start_timeout=start_timeout,
                round_timeout=round_timeout,
            )
        return attempt

    def state(self, attempt, name=None):
        with contextlib.closing(self.control_db(name or self.names[0])) as control_db:
            known = control_db.attempt(attempt)
            return (known.state, known.sentence) if known else ("", "")

    def finish(self, attempt, *, by=None, timeout=60):
        """Wait for the end at ``by`` (the offerer); a failure raises its sentence."""
        self.wait(
            lambda: self.state(attempt, by)[0] in ENDED,
            timeout,
            f"the job offered by {by or self.names[0]}",
        )
        state, sentence = self.state(attempt, by)
        if state != OfferState.DONE:
            raise Ended(sentence)

    def train(self, job, *, by=None, timeout=60, **options):
        self.finish(self.offer(job, by=by, **options), by=by, timeout=timeout)
        return self.statements(job, by)

    def stop(self, attempt, by=None):
        with contextlib.closing(self.control_db(by or self.names[0])) as control_db:
            control_db.push_command(CommandKind.STOP, attempt)

    @contextlib.contextmanager
    def journal(self, name):
        with contextlib.closing(Journal.peek(self.homes[name].path(JOURNAL))) as journal:
            yield journal

    def round(self, job, name):
        if not self.homes[name].path(JOURNAL).exists():
            return 0
        with self.journal(name) as journal:
            known = journal.job(job)
            return known.round if known else 0

    def statements(self, job, name=None):
        """Everybody's, at ``name``, once they are there: members end a moment apart."""
        job_terms = self.job_terms(job)
        self.wait(
            lambda: len(self.signed(job, name)) == len(self.names), what="everybody's statement"
        )
        signed = self.signed(job, name)
        return {
            each: signed_statement.open_statement(
                signed[each], job_terms, each, self.study.signing_keys
            )
            for each in self.names
        }

    def finished(self, job, name):
        if not self.homes[name].path(JOURNAL).exists():
            return False
        with self.journal(name) as journal:
            known = journal.job(job)
            return known is not None and known.state == JobState.FINISHED

    def all_finished(self, job):
        """Wait until everybody has all that the others signed: members end a moment apart."""
        self.wait(lambda: all(self.finished(job, name) for name in self.names))

    def signed(self, job, name=None):
        with self.journal(name or self.names[0]) as journal:
            return journal.statements(job)

    def released(self, job, name=None):
        job_terms = self.job_terms(job)
        return np.array([said.vector(job_terms) for said in self.statements(job, name).values()])

    def servers(self):
        return [home.load_training_data().server for home in self.homes.values()]

    def rows(self, plan=None):
        """Of sums: what each node would send without masks."""
        plan, source = plan or self.study.plan, Simulated(self.seed)
        with threadpool_limits(1):
            return np.array(
                [
                    sums_release.release_sums(
                        sums_release.exact(server, plan), server, plan, source
                    )
                    for server in self.servers()
                ]
            )

    def total(self, job, name=None):
        """Of sums: what all rows that ``name`` knows of add up to."""
        sent = self.released(job, name)[:, 0].view(np.uint64)
        return masks.total(dict(zip(self.names, sent, strict=True)), self.names)

    def expected(self):
        """What the local engine computes."""
        plan, servers = self.study.plan, self.servers()
        run, flags = (
            local_engine.Run(plan, servers, Simulated(self.seed)),
            [compiles(server, plan) for server in servers],
        )
        return local_engine.train(self.study.graph(), run, use_numba=flags).released

    def pdml(self, *arguments, env=None, **options):
        """A command as people type it."""
        command = [sys.executable, "-c", RUN, *map(str, arguments)]
        return subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            env={**os.environ, **(env or {})},
            **options,
        )

    def status(self, name):
        done = self.pdml("node", "status", self.homes[name].folder, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
