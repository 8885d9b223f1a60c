"""What all parties of a job must agree on to the letter; its digest is in every message."""

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Self

from pdml.accounting.budget import MOST_ROUNDS
from pdml.accounting.kinds import Method
from pdml.errors import DataError, InvalidInput
from pdml.formats import canonical_json
from pdml.node.protocol.redaction import public_terms
from pdml.numerics.admm import labels
from pdml.numerics.admm.graph import Graph
from pdml.planning.server_spec import RowSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.study.schema import trainable
from pdml.training import sums_release

FLOATS, UNITS, WORDS = "<f8", "<i8", "<u8"  # what releases are made of: 8 bytes each
_NAME = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9_-]{1,64}", re.ASCII)
MOST_NUMBERS = 1 << 19  # of one row of sums: 4 MB, which d = 1022 columns reach


@dataclass(frozen=True, kw_only=True)
class JobTerms:
    """One job, all of it public: study, plan, members, and the study's rows."""

    job: str
    study: str  # hash of the study file
    plan: TrainingPlan
    servers: tuple[str, ...]
    training: TrainingTerms  # of the study: links and rows

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.job):
            raise InvalidInput(f"job must be 1 to 64 letters, digits, - or _, got {self.job!r}")
        if not self.rows.menu:
            raise InvalidInput("menu must hold the label ε of the study, got none", setting="menu")
        self.plan.check_shared()
        if self.training.n_servers != len(self.servers):
            raise InvalidInput(
                f"servers must be {self.training.n_servers} as in the study, got {self.servers}"
            )
        if self.sums:
            self.plan.sum_stddevs(len(self.servers))  # refuses more colluders than servers
            if self.shape[1] > MOST_NUMBERS:
                raise InvalidInput(
                    f"method must be 'rounds' for {self.width} columns, got 'sums': S has "
                    f"d(d+1)/2 numbers, and a release at most {MOST_NUMBERS:,}",
                    setting="method",
                )

    @classmethod
    @public_terms()
    def for_study(cls, study: Study, plan: TrainingPlan, job: str) -> Self:
        """The terms of a job under ``study``, which must have a budget, and whose plan it is if it
        has one."""
        trainable.check_budget(study)
        if study.plan is not None and study.plan != plan:
            raise DataError(f"job {job} has another plan than the study {study.id}, which fixes it")
        return cls._under(study, plan, job)

    @classmethod
    def largest(cls, study: Study) -> list[Self]:
        """Jobs that no other under ``study`` exceeds in the length of what is sent and said."""
        largest = (TrainingPlan(rounds=MOST_ROUNDS), TrainingPlan(method="sums"))
        jobs = []
        for plan in largest if study.plan is None else (study.plan,):
            with suppress(InvalidInput):  # sums of so many columns are refused
                jobs.append(cls._under(study, plan, "job"))
        return jobs

    @classmethod
    def _under(cls, study: Study, plan: TrainingPlan, job: str) -> Self:
        return cls(
            job=job,
            study=study.hash,
            plan=plan,
            servers=tuple(server.name for server in study.servers),
            training=study.terms,
        )

    @property
    def rows(self) -> RowSpec:
        return self.training.rows

    @property
    def links(self) -> Graph:
        assert self.training.links is not None
        return self.training.links

    @cached_property
    def graph(self) -> Graph:
        """Who hears whom: along the links; of sums everybody, since masks along fewer pairs would
        let one neighbour isolate another."""
        return Graph.complete(len(self.servers)) if self.sums else self.links

    @property
    def classes(self) -> int:
        """K."""
        return self.rows.classes

    @property
    def width(self) -> int:
        """d, with the constant column."""
        return self.rows.width

    @property
    def epsilon(self) -> float:
        """The smallest label ε the study allows: with B it bounds what any record can do."""
        return min(self.rows.menu)

    @property
    def sums(self) -> bool:
        """Whether the job is one exchange of sums."""
        return self.plan.method == Method.SUMS

    @property
    def masked(self) -> bool:
        """Whether nothing but the total of all sums can be read."""
        return self.sums and self.plan.colluding is not None

    @property
    def shape(self) -> tuple[int, int]:
        """(C, d) of every vector; of sums one row."""
        codes = self.rows.codes
        return (1, sums_release.length(codes, self.width)) if self.sums else (codes, self.width)

    @property
    def dtype(self) -> str:
        """What a release is made of: numbers, whole units, or words that hide them."""
        return WORDS if self.masked else UNITS if self.sums else FLOATS

    @cached_property
    def digest(self) -> str:
        terms = {
            "job": self.job,
            "study": self.study,
            "plan": self.plan.to_dict(),
            "servers": self.servers,
            "edges": sorted(sorted(edge) for edge in self.links.edges),
            "classes": self.classes,
            "width": self.width,
            "epsilon": self.epsilon,
            "norm_bound": self.rows.norm_bound,
        }
        return hashlib.sha256(canonical_json(terms)).hexdigest()

    def index(self, server: str) -> int:
        if server not in self.servers:
            raise InvalidInput(f"server must be one of {', '.join(self.servers)}, got {server!r}")
        return self.servers.index(server)

    def neighbours(self, server: str) -> tuple[str, ...]:
        """In ascending order of their index: the order in which sums over neighbours are taken."""
        return tuple(self.servers[i] for i in self.graph.neighbours(self.index(server)))

    @cached_property
    def norm_cap(self) -> float:
        """A length that no honest release exceeds, up to a chance below 10^-8: ten times the
        longest optimum plus six σ of noise (docs/proofs/solver.md).

        The gradient of every J̃_i at 0 is at most |slope| B + |η|/n, and the sum over servers is
        a-strongly convex, so an optimum is at most n/a times that long. Smaller lies can pull an
        honest server past the cap, which stops before (`release_bound`).
        """
        longest = len(self.servers) * self._slope / self.plan.regularization
        return 10 * (longest + self._noise)

    @cached_property
    def _slope(self) -> float:
        """The longest gradient of J̃_i at 0."""
        plan, size, n = self.plan, self.shape[0] * self.shape[1], len(self.servers)
        loss, bound = plan.loss_for(self.classes), self.rows.norm_bound
        slope = labels.record_shift(self.epsilon, bound, loss, self.classes) / 2
        if slope == float("inf"):  # square loss: its slope at 0 is that of the label alone
            slope = labels.label_shift(self.epsilon, bound, loss, self.classes)
        return slope + plan.objective_bound * sqrt(size) / n

    @cached_property
    def _noise(self) -> float:
        """Six σ of the loudest release; a longer one has a chance below 10^-8."""
        n, size = len(self.servers), self.shape[0] * self.shape[1]
        return 6 * max(self.plan.iterates(i, n).stddev(1) for i in range(n)) * sqrt(size)

    def release_bound(self, server: str, pull: float) -> float:
        """How long the next release of ``server`` can be, whatever its records are.

        With pull = |β(d w̃_i + Σ w̃_l) - γ_i|: w_i minimises J̃_i(w) - pull'w + β d |w|², which is
        (a/n + 2 β d)-strongly convex with a gradient of at most slope + pull at 0; and six σ of
        noise (docs/proofs/solver.md).
        """
        plan, degree = self.plan, len(self.neighbours(server))
        curvature = plan.regularization / len(self.servers) + 2 * plan.penalty * degree
        return (self._slope + pull) / curvature + self._noise
