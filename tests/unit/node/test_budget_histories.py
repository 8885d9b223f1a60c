"""One node, many jobs: data sets imported and changed, trainings that began, stopped and went on,
evaluations whose disk was full. What left the node is recounted for the people it was about, by the
closed form of Gaussians that add up: never more than the budget, and nothing refused within it.
"""

import shutil
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from math import exp, hypot
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from disk import FULL, Disk
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from joined import STUDY, join, people
from scipy.stats import norm
from test_node_evaluation import released

from pdml.accounting.events import IterateReleased
from pdml.consortium.signed_evaluation import evaluate_at_node
from pdml.errors import BudgetExceeded, InvalidInput, JournalError
from pdml.mechanisms.count_release import SHIFT
from pdml.mechanisms.randomness import Secure
from pdml.node.job.participant import Participant
from pdml.node.job.training_data import import_frozen, import_table
from pdml.node.operator.status import read_status
from pdml.node.protocol.job_terms import JobTerms
from pdml.node.storage.node_dir import NodeDirectory
from pdml.planning.training_plan import TrainingPlan

LIMIT, DELTA = 1.1, 1e-6
OTHERS = people(180)
OTHERS.columns["age"][:] = OTHERS.columns["age"] + 0.5  # a node recognises records
TABLES = {"first": people(150), "second": OTHERS}
# Of sums S alone tells anything, of rounds all that a record moves: every release is a Gaussian.
PLANS = {
    "sums": TrainingPlan(method="sums", label_noise=1e6, square_noise=4.2),
    "rounds": TrainingPlan(rounds=3, noise_scale=0.8, noise_decay=0.9, objective_noise="none"),
}


def delta(mu: float) -> float:
    """Of the budget's ε, for a Gaussian."""
    if mu == 0:
        return 0.0
    return norm.cdf(mu / 2 - LIMIT / mu) - exp(LIMIT) * norm.cdf(-mu / 2 - LIMIT / mu)


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """A node with two data sets of the first people, of which it holds one, and one of others."""
    folder = tmp_path_factory.mktemp("node")
    home = join(folder, STUDY.replace("epsilon = 20", f"epsilon = {LIMIT}"))
    how = {"label": "diagnosed", "epsilon": 2.0, "randomise": True}
    for name, who in (("first-2", "first"), ("second-1", "second"), ("first-1", "first")):
        import_table(home, TABLES[who], **how)
        home = NodeDirectory.open(home.folder)
        shutil.copytree(home.path(home.config.data), folder / name)
    return folder


@pytest.fixture(scope="module")
def disk():
    made = Disk("histories", default=True)
    yield made
    made.close()


@dataclass
class Operator:
    """An honest one, who says that people are new if nothing has left that is about them; never of
    a data set to train on, for which the node would remember it."""

    folder: Path
    disk: Disk
    held: str = "first-1"
    left: dict[str, dict[str, list[float]]] = field(  # μ of what left: by people, then by account
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    jobs: dict[str, tuple[str, str, list[float]]] = field(default_factory=dict)

    @property
    def home(self) -> NodeDirectory:
        return NodeDirectory.open(self.folder / "alice")

    def new(self, who: str, account: str) -> bool:
        return not any(mus for name, mus in self.left[who].items() if name != account)

    def asked(self, who: str, account: str) -> bool:
        """Whether this account would begin while others have released something."""
        elsewhere = [mu for each in self.left.values() for mus in each.values() for mu in mus]
        return bool(elsewhere) and not self.left[who][account]

    def give(self, data: str) -> None:
        who = data.split("-")[0]
        try:
            import_frozen(self.home, self.folder / data)
            self.held = data
        except InvalidInput as error:
            assert "whole budget" in str(error) and self.asked(who, data)

    def train(self, plan: str, job: str, further: bool) -> None:
        """Begin or resume; ``further``: do the next round, as far as it needs nobody else."""
        data, home = self.held, self.home
        who, study, known = data.split("-")[0], home.study(), self.jobs.get(job)
        job_terms = JobTerms.for_study(study, PLANS[plan], f"{plan}-{job}")
        account = self.left[who][data]
        with closing(home.journal()) as journal:
            try:
                held = home.load_training_data()
                party = Participant(
                    job_terms,
                    "alice",
                    held,
                    journal=journal,
                    identity=home.identity(),
                    keys=study.signing_keys,
                    source=Secure(),
                    budget=study.budget,
                )
            except BudgetExceeded:
                mine = known[2] if known and known[:2] == (plan, data) else []
                others = [mu for mu in account if not any(mu is one for one in mine)]
                cost = [self._cost(event) for event in job_terms.plan.events(held.server.spec)]
                assert delta(hypot(*others, *cost)) > 0.999 * DELTA, "nothing within is refused"
                return
            except InvalidInput as error:
                assert "whole budget" in str(error) and self.asked(who, data)
                return
            except JournalError as error:
                assert "another" in str(error) and known
                return
            entry = self.jobs.setdefault(job, (plan, data, []))
            if further and party.round == 0:
                party.advance()
                mu = self._cost(party._events[0] if plan == "sums" else party._events[1])
                account.append(mu)
                entry[2].append(mu)

    @staticmethod
    def _cost(event: object) -> float:
        if isinstance(event, IterateReleased):
            return event.record_sensitivity / event.stddev
        return getattr(event, "square_shift", 0.0) / getattr(event, "square_stddev", 1.0)

    def evaluate(self, who: str, job: str, epsilon: float, writes: int | None) -> None:
        """Count the true labels of these people; the disk takes so many more writes."""
        account, home = f"{who} counted", self.home
        model, spent = released(home), self.left[who][account]
        left = [writes]

        def fails(operation: str, file: str) -> int:
            if left[0] is None or operation != "write" or not file.startswith("journal.db"):
                return 0
            left[0] -= 1
            return FULL if left[0] < 0 else 0

        self.disk.fails = fails
        try:
            told = evaluate_at_node(
                home,
                model,
                TABLES[who],
                label="diagnosed",
                job=f"{job}-{who}",
                epsilon=epsilon,
                new_participants=self.new(who, account),
            )
        except BudgetExceeded:
            mu = SHIFT / evaluation_stddev(epsilon)
            assert delta(hypot(*spent, mu)) > 0.999 * DELTA, "nothing within is refused"
        except InvalidInput as error:
            assert "held back" in str(error) and not self.new(who, account)
            assert self.asked(who, account) or "trained on these records" in str(error)
        except JournalError:
            pass  # the disk was full, or the name is taken by another evaluation
        else:
            counts = (f"{job}-{who}", tuple(told.counts))
            if counts not in self.jobs:
                spent.append(SHIFT / told.stddev)
                self.jobs[counts] = ("", "", [])
        finally:
            self.disk.fails = lambda operation, file: 0

    def check(self) -> None:
        """Nobody was told of more than the budget allows, and the journal knows of all of it."""
        for who, accounts in self.left.items():
            everything = [mu for mus in accounts.values() for mu in mus]
            assert delta(hypot(*everything, 0.0)) <= DELTA, who
        with closing(self.home.journal()) as journal:
            many = sum(journal.releases(name) for name in journal.datasets())
        assert many == sum(len(mus) for each in self.left.values() for mus in each.values())


def evaluation_stddev(epsilon: float) -> float:
    """The noise with which one evaluation has (ε, δ), by bisection."""
    low, high = 0.1, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        mu = SHIFT / middle
        told = norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        low, high = (middle, high) if told > DELTA else (low, middle)
    return high


jobs, who = st.sampled_from(["a", "b"]), st.sampled_from(["first", "second"])
actions = st.one_of(
    st.tuples(st.just("give"), st.sampled_from(["first-1", "first-2", "second-1"])),
    st.tuples(st.just("train"), st.sampled_from(list(PLANS)), jobs, st.booleans()),
    st.tuples(
        st.just("evaluate"),
        who,
        st.sampled_from(["c", "d", "e"]),
        st.sampled_from([0.5, 1.0]),
        st.sampled_from([None, None, 0, 1, 2, 4, 8]),
    ),
)


@given(history=st.lists(actions, min_size=8, max_size=16))
@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),  # to make a history shorter takes minutes
)
def test_no_history_of_a_node_passes_the_budget_nor_stops_short_of_it(begun, disk, history):
    note(str(history))
    with TemporaryDirectory() as folder:
        shutil.copytree(begun, Path(folder) / "node")
        operator = Operator(Path(folder) / "node", disk)
        for action, *how in history:
            getattr(operator, action)(*how)
            operator.check()
        shown = sum(account.releases for account in read_status(operator.home).datasets)
        assert shown == sum(len(mus) for each in operator.left.values() for mus in each.values())
