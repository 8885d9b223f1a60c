"""Write results/: small results of three servers, which every verifier must accept.

    PYTHONPATH=tests/support python tests/vectors/make_results.py [NAME ...]

The product makes them: real keys (from names, so that anybody can make them again), journals,
participants and statements; a simulated source draws the noise.
"""

import base64
import hashlib
import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import consortium
import numpy as np
from consortium import Consortium

from pdml.accounting import Budget
from pdml.consortium.result_folder import write_result
from pdml.encoding.encoder import Category, Encoder, Menu, Number
from pdml.encoding.maps import Products, Squares
from pdml.mechanisms.randomness import Simulated
from pdml.node.crypto.signing import Identity
from pdml.node.job.job_result import assemble
from pdml.node.job.participant import Participant
from pdml.node.job.training_data import TrainingData
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.journal import Journal
from pdml.numerics.admm import labels
from pdml.planning.training_plan import TrainingPlan
from pdml.study import ServerEntry, Study
from pdml.training.server import Server

RESULTS = Path(__file__).parent / "results"
NAMES, EDGES = ("alice", "bob", "carol"), (("alice", "bob"), ("bob", "carol"))
ROUNDS = TrainingPlan(rounds=3, noise_scale=0.3, noise_decay=0.9, objective_bound=0.5)
BUDGET = Budget(features_epsilon=1000.0)
SUMS = TrainingPlan(method="sums", label_noise=2.0, square_noise=3.0)
AGE, SEX = Number(name="age", low=18, high=100), Category(name="sex", levels=("female", "male"))
PAY = Number(name="pay", low=0, high=200, missing="average", average=40, spread=15)
SMOKES = Category(
    name="smokes", levels=("no", "yes"), missing="level", epsilon=Menu(menu=(0.5, 2), default=2)
)
WEEKS = Number(name="weeks", low=0, high=52, bins=(4, 12.5), epsilon=Menu(menu=(1,), default=1))


@dataclass(frozen=True, kw_only=True)
class Case:
    """One stored result: a study's parts, the plan of its job, and of jobs before it."""

    plan: TrainingPlan
    earlier: tuple[tuple[TrainingPlan, int], ...] = ()  # plans, and how many rounds were released
    settled: bool = False  # the study fixes the plan
    classes: tuple[str, ...] = ("no", "yes")
    encoder: Encoder
    randomised_by: tuple[str, ...] = ("devices",) * 3
    records: tuple[int, ...] = (60, 45, 80)
    menu: tuple[float, ...] = (0.5, 1.0, 2.0)
    budget: Budget = BUDGET


CASES = {
    "rounds": Case(
        plan=ROUNDS,
        earlier=((replace(ROUNDS, rounds=4, noise_scale=0.5), 2),),
        encoder=Encoder(attributes=(AGE, SEX)),
    ),
    "rounds-of-classes": Case(
        plan=replace(ROUNDS, noise_scale=(0.5, 0.25, 1.0), tolerance=1e-5),
        settled=True,
        classes=("never", "once", "often"),
        encoder=Encoder(attributes=(AGE, PAY)),
        randomised_by=("devices", "elsewhere", "operator"),
    ),
    "sums": Case(
        plan=SUMS,
        encoder=Encoder(
            attributes=(AGE, PAY, SEX),
            missing_values=("NA",),
            maps=(Squares(columns=("age",)), Products(pairs=(("pay", "sex=male"),))),
        ),
        records=(600, 450, 800),
    ),
    "masked": Case(
        plan=replace(SUMS, colluding=1),
        earlier=((replace(SUMS, label_noise=9.0, square_noise=9.0), 1), (ROUNDS, 2)),
        encoder=Encoder(attributes=(AGE, SEX)),
        menu=(1.0,),
        records=(300, 200, 100),
    ),
    "masked-of-classes": Case(
        plan=replace(SUMS, label_noise=0.5, square_noise=0.5, colluding=2, epsilon_cap=1.0),
        settled=True,
        classes=("never", "once", "often"),
        encoder=Encoder(attributes=(AGE, PAY)),
        records=(3000, 2000, 1000),
        budget=Budget(features_epsilon=1000.0, labels_epsilon=50.0, colluding=2),
    ),
    "answers": Case(
        plan=replace(SUMS, colluding=1),
        encoder=Encoder(attributes=(AGE, SMOKES, WEEKS)),
        records=(600, 450, 800),
        randomised_by=("devices", "elsewhere", "elsewhere"),
    ),
}


def identity_of(name: str, folder: Path) -> Identity:
    """A key that anybody can make."""
    path = folder / f"{name}.key"
    path.write_text(hashlib.sha256(name.encode()).hexdigest())
    path.chmod(0o600)
    return Identity.load(path)


def study_of(case: Case, name: str, keys: dict[str, str]) -> Study:
    def sealing(server: str) -> str:  # nobody seals anything here
        return base64.b64encode(hashlib.shake_128(server.encode()).digest(1216)).decode()

    return Study(
        id=name,
        title="Who is at risk?",
        question="Have you been diagnosed?",
        classes=case.classes,
        menu=case.menu,
        default_epsilon=case.menu[-1],
        min_records=40,
        encoder=case.encoder,
        servers=tuple(
            ServerEntry(server, f"https://{server}.example", keys[server], sealing(server))
            for server in NAMES
        ),
        edges=EDGES,
        budget=case.budget,
        plan=case.plan if case.settled else None,
    )


class Job(Consortium):
    """One job of a case; its journals lie in ``folder``, where later jobs find them."""

    def __init__(
        self, case: Case, study: Study, plan: TrainingPlan, job: str, folder: Path
    ) -> None:
        self.case, self.study, self.folder, self.source = case, study, folder, Simulated(7)
        self.job_terms = JobTerms.for_study(study, plan, job)
        self.identities = {name: identity_of(name, folder) for name in NAMES}
        self.keys = study.signing_keys
        self.servers = [records_of(case, study, i) for i in range(len(NAMES))]
        self.parties, self.journals = {}, {}

    def party(self, name: str) -> Participant:
        if name not in self.parties:
            i = NAMES.index(name)
            self.journals[name] = Journal(self.folder / f"{name}.db")
            self.parties[name] = Participant(
                self.job_terms,
                name,
                TrainingData(
                    server=self.servers[i],
                    dataset=f"data of {name}",
                    randomised_by=self.case.randomised_by[i],
                ),
                journal=self.journals[name],
                identity=self.identities[name],
                keys=self.keys,
                source=self.source,
                shared=self.shared(name) if self.job_terms.masked else None,
            )
        return self.parties[name]

    def shared(self, name: str) -> dict[str, bytes]:
        others = [other for other in NAMES if other != name]
        pairs = {other: " ".join(sorted((name, other))) for other in others}
        return {other: hashlib.sha256(pair.encode()).digest() for other, pair in pairs.items()}

    def signed(self) -> dict[str, bytes]:
        return {name: self.party(name).statement() for name in NAMES}


def records_of(case: Case, study: Study, i: int) -> Server:
    """People whose label follows their first answer, reported with any ε of the menu."""
    rng, many, classes = np.random.default_rng(i), case.records[i], len(case.classes)
    rows, truth = [], []
    for _ in range(many):
        answers = {
            one.name: float(rng.uniform(one.low, one.high))
            if isinstance(one, Number)
            else str(rng.choice(one.levels))
            for one in study.attributes
        }
        levels = [
            (int(rng.integers(len(one.choices))), int(rng.choice(one.epsilon.millionths)))
            for one in study.encoder.sensitive
        ]
        rows.append(study.encode(answers, levels))
        truth.append(min(classes - 1, int(classes * (answers["age"] - 18) / 82)))
    epsilons = rng.choice(case.menu, many)
    odds = np.exp(epsilons) / (np.exp(epsilons) + classes - 1)
    other = (np.array(truth) + rng.integers(1, classes, many)) % classes
    reports = np.where(rng.uniform(size=many) < odds, truth, other)
    spec = study.terms.server_spec(i, records=many, epsilons=tuple(set(epsilons.tolist())))
    return Server(
        spec, np.array(rows, dtype=float), labels.codes(reports.astype(int), epsilons, classes)
    )


@contextmanager
def three_servers():
    """Consortia of tests have four."""
    before = consortium.NAMES, consortium.EDGES
    consortium.NAMES, consortium.EDGES = NAMES, ((0, 1), (1, 2))
    try:
        yield
    finally:
        consortium.NAMES, consortium.EDGES = before


def last_job(name: str, folder: Path) -> Job:
    """The last job of a case, done."""
    case = CASES[name]
    keys = {server: identity_of(server, folder).public for server in NAMES}
    study = study_of(case, name, keys)
    with three_servers():
        for number, (plan, rounds) in enumerate(case.earlier, start=1):
            job = Job(case, study, plan, f"before-{number}", folder)
            job.run(until=rounds)
            job.close()
        job = Job(case, study, case.plan, "job", folder)
        job.run()
    return job


def write(name: str, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, three_servers():
        job = last_job(name, Path(folder))
        write_result(target, assemble(job.study, job.job_terms, job.signed()))
        job.close()


if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    for case_name in sys.argv[1:] or CASES:
        shutil.rmtree(RESULTS / case_name, ignore_errors=True)
        write(case_name, RESULTS / case_name)
