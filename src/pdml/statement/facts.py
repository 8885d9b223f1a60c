"""All that a statement rests on: the study, and what a plan would spend or a training has spent.

Every number of a statement comes from here, and everything here from the study or from a ledger.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isinf
from pathlib import Path

import msgspec

from pdml.accounting import Budget, Ledger, LedgerRow
from pdml.accounting.ledger import ADVERSARIES
from pdml.accounting.ledger_row import representative_coalition_sizes
from pdml.accounting.provenance import DEVICES, RANDOMISED_BY, UNSAID
from pdml.consortium.outcome import SEPARATE_NODES
from pdml.consortium.result_folder import MODEL
from pdml.consortium.signed_counts import PooledEvaluation, check_evaluations, digest_of
from pdml.consortium.verification import verify_result
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms.randomness import SOURCES
from pdml.model.model import Model, load_model
from pdml.numerics.sums.expected_accuracy import Expectation
from pdml.pages.result_page import result_page
from pdml.planning.training_plan import TrainingPlan
from pdml.statement.sections import randomised_response
from pdml.study import Study
from pdml.study.schema import budget_checks, trainable

RECEIVER, OTHERS, TOGETHER = ADVERSARIES
LIMITED = ("label", "features")  # what a budget knows


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What the file of a finished training says beside its ledger."""

    job: str
    terms: str  # the digest of what the organisations agreed on
    separate_nodes: bool  # False: one trust domain held every organisation's records
    source: str  # of the noise
    records: dict[str, int]
    randomised_by: dict[str, str]
    released_before: dict[str, int]  # vectors, in earlier jobs on the same data set
    counted: str  # which jobs the ledger counts
    leaks: tuple[str, ...]
    expected: Expectation | None
    verified: bool  # signatures, messages, spending and model, from the folder of a result
    last_digits: bool = False  # whether its numbers differ in these from what this machine computes
    evaluated: PooledEvaluation | None = None  # by members, on other records

    @property
    def simulated(self) -> bool:
        """Whether the noise came from a seeded generator, which protects nobody."""
        counted = () if self.evaluated is None else self.evaluated.parts
        return "simulated" in (self.source, *(part.source for part in counted))


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A study as it is planned (``spent`` is None), or one of its trainings.

    Without a plan, which is then left to each job, there are no lines: the budget and the menu are
    all that is known.
    """

    study: Study
    plan: TrainingPlan | None
    lines: tuple[LedgerRow, ...] = ()
    coalitions: tuple[
        LedgerRow, ...
    ] = ()  # for each of `kinds`, as many of the others as `sizes` says
    trainings: int = 1  # that a plan's lines count
    allowed: int = 0  # so many trainings by the plan keep to the budget at worst
    within: bool = True  # whether the counted ones do
    spent: Spent | None = None

    @property
    def budget(self) -> Budget:
        """Without a limit where the study has none."""
        return self.study.budget or Budget()

    @property
    def kinds(self) -> tuple[str, ...]:
        """What there are lines of: label, features, randomised answers."""
        return randomised_response.kinds(self.study)

    def limited(self, data: str) -> bool:
        """Whether the budget limits what others learn of it."""
        return data in LIMITED and not isinf(self.budget.limit(data)[0])

    def device_limit(self, data: str) -> tuple[float, float] | None:
        """(ε, 0) that nobody ever exceeds, whatever is trained, by what devices do; None where
        something is sent as it was given."""
        most = randomised_response.largest_epsilon(self.study, data)
        return None if isinf(most) else (most, 0.0)

    def ceiling(self, data: str, colluding: int | None = None) -> tuple[float, float] | None:
        """(ε, δ) that so many other organisations together (None: all) never exceed, whatever is
        trained: by the budget, or by the devices' coins; None where nothing bounds it."""
        k, most = colluding or self.others, self.budget.colluding or self.others
        bound = self.budget.bound(data)
        limits = [bound] if k <= most and not isinf(bound[0]) else []
        return min(filter(None, (*limits, self.device_limit(data))), default=None)

    @property
    def assumed(self) -> int | None:
        """Against how many others the budget holds; None: against all."""
        k = self.budget.colluding
        return k if k is not None and k < self.others else None

    @property
    def against(self) -> tuple[tuple[str, int | None], ...]:
        """Whom rows are about: the receiver, those whom the budget assumes to collude, all others,
        and all together."""
        few = [(OTHERS, self.assumed)] if self.assumed else []
        return ((RECEIVER, None), *few, (OTHERS, None), (TOGETHER, None))

    @property
    def others(self) -> int:
        """n - 1."""
        return len(self.study.servers) - 1

    @property
    def masked(self) -> bool:
        """Whether sums are to appear in one total only."""
        return self.plan is not None and self.plan.colluding is not None

    @property
    def simulated(self) -> bool:
        return self.spent is not None and self.spent.simulated

    @property
    def single_domain(self) -> bool:
        """Whether one trust domain is known to have held all records."""
        return self.spent is not None and not self.spent.separate_nodes

    @cached_property
    def untrainable(self) -> tuple[str, ...]:
        """Why the software refuses to train under the study: its budget never ends, or its plan
        never keeps to it."""
        hopeless = self.spent is None and not self.within
        mistakes = (
            trainable.mistakes(self.study) if hopeless else budget_checks.mistakes(self.study)
        )
        return tuple(sentence for _, sentence in mistakes)

    def line(self, data: str, adversary: str, colluding: int | None = None) -> LedgerRow | None:
        """A row of the ledger; None without a plan."""
        if colluding is not None:
            return self.coalition(data, colluding)
        wanted = (row for row in self.lines if (row.data, row.adversary) == (data, adversary))
        return next(wanted, None)

    def coalition(self, data: str, colluding: int) -> LedgerRow | None:
        """What so many others learn together; None without a plan."""
        rows = (row for row in self.coalitions if row.data == data)
        return next((row for row in rows if row.colluding == colluding), None)

    @property
    def sizes(self) -> tuple[int, ...]:
        """One, half and all of the other organisations, and as many as the budget assumes."""
        return tuple(representative_coalition_sizes(self.others, self.assumed))

    @property
    def devices(self) -> bool:
        """Whether every label was randomised on a person's device, as far as anybody says."""
        return self.spent is None or set(self.spent.randomised_by.values()) == {DEVICES}


def forecast_facts(study: Study, trainings: int) -> Facts:
    """What so many trainings by the study's plan spend at worst, at the δ of its budget."""
    if study.plan is None:
        if trainings > 1:
            raise InvalidInput(
                f"trainings must be left out for the study {study.id}, got {trainings}: it leaves "
                "the plan to each job, so that nothing is known of what a training spends",
                setting="trainings",
            )
        return Facts(study=study, plan=None)
    facts = Facts(study=study, plan=study.plan, trainings=trainings)
    whole = trainable.worst_case_ledger(study, study.plan, trainings)
    books = {data: _at_budget(whole, facts, data) for data in facts.kinds}
    return replace(
        facts,
        lines=tuple(books[data].line(data, whom) for data in facts.kinds for whom in ADVERSARIES),
        coalitions=tuple(
            books[data].line(data, OTHERS, colluding=k) for data in facts.kinds for k in facts.sizes
        ),
        allowed=trainable.most_jobs(study, study.plan),
        within=whole.keeps(facts.budget),
    )


def _at_budget(ledger: Ledger, facts: Facts, data: str) -> Ledger:
    """At the δ at which the budget bounds it, so that the two can be compared."""
    epsilon, delta = facts.budget.bound(data)
    return ledger if isinf(epsilon) else replace(ledger, delta=delta)


class _Provenance(msgspec.Struct):
    """What must stand in the file of a study's model; what else stands there is passed over."""

    study_hash: str
    job: str
    contract: str
    parties: str
    servers: list[str]
    records_per_server: list[int]
    noise_source: str
    leaks: list[str]
    labels_randomised_by: list[str] | None = None  # files did not always say it
    earlier_releases: list[int] | None = None


def load_result_facts(
    study: Study,
    result: str | os.PathLike[str],
    evaluations: Sequence[str | os.PathLike[str]] = (),
) -> Facts:
    """What a finished training has spent: from a model's file, or from the folder of a result,
    which is verified first; and what evaluations of its model have."""
    path, verified, last_digits = Path(result), False, False
    if path.is_dir():
        # Of the page a statement says nothing.
        verification = verify_result(path, page=result_page, study=study.hash, allow_unchecked=True)
        verification.check()
        path, verified, last_digits = path / MODEL, True, MODEL in verification.unchecked
    model = load_model(path)
    if model.house:
        raise InvalidInput(
            f"result must be a model that was released, got one for the house of {model.house}: "
            "it is made of exact sums and must not be shared",
            setting="result",
        )
    provenance = _provenance(model, path)
    if provenance.study_hash != study.hash:
        raise InvalidInput(
            f"result must be of the study {study.id} with the hash {study.hash}, got a model of "
            f"{provenance.study_hash}: another study, or another revision of this one",
            setting="result",
        )
    unsaid = [UNSAID] * len(provenance.servers)
    by = provenance.labels_randomised_by or unsaid
    lines, every = model.lines(), model.coalitions()
    return _checked(
        Facts(
            study=study,
            plan=TrainingPlan.from_dict(model.plan),
            lines=tuple(lines),
            coalitions=tuple(every),
            spent=Spent(
                job=provenance.job,
                terms=provenance.contract,
                separate_nodes=provenance.parties == SEPARATE_NODES,
                source=provenance.noise_source,
                records=dict(zip(provenance.servers, provenance.records_per_server, strict=True)),
                randomised_by=dict(zip(provenance.servers, by, strict=True)),
                released_before=dict(
                    zip(
                        provenance.servers,
                        provenance.earlier_releases or [0] * len(by),
                        strict=True,
                    )
                ),
                counted=str(model.privacy.get("counted", "not said")),
                leaks=tuple(provenance.leaks),
                expected=model.expected,
                verified=verified,
                last_digits=last_digits,
                evaluated=(
                    check_evaluations(study, evaluations, model=digest_of(model))
                    if evaluations
                    else None
                ),
            ),
        ),
        path,
    )


def _provenance(model: Model, path: Path) -> _Provenance:
    """Whose model it is, by its file."""
    if "study_hash" not in model.provenance:
        raise InvalidInput(
            f"result must be a model that was trained under a study, got {str(path)!r}, which "
            "names none",
            setting="result",
        )
    try:
        provenance = msgspec.convert(model.provenance, _Provenance)
    except msgspec.ValidationError as error:
        raise DataError(f"{str(path)!r} does not say where it comes from: {error}") from None
    lists = (
        provenance.records_per_server,
        provenance.labels_randomised_by,
        provenance.earlier_releases,
    )
    if any(values is not None and len(values) != len(provenance.servers) for values in lists):
        raise DataError(f"{str(path)!r} does not say the same of all its servers")
    if not set(provenance.labels_randomised_by or ()) <= set(RANDOMISED_BY):
        raise DataError(f"{str(path)!r} names somebody unknown who randomised labels")
    if provenance.noise_source not in SOURCES or provenance.noise_source != model.privacy.get(
        "source"
    ):
        raise DataError(f"{str(path)!r} does not say what its noise was drawn from")
    return provenance


def _checked(facts: Facts, path: Path) -> Facts:
    """With a line for every coalition that is shown; a file without a line for each kind of data
    and adversary is no ledger."""
    rows = [(row.data, row.adversary) for row in facts.lines]
    wanted = [(data, whom) for data in facts.kinds for whom in ADVERSARIES]
    if sorted(rows) != sorted(wanted):
        raise DataError(
            f"{str(path)!r} must hold a ledger of {len(wanted)} lines, for each of "
            f"{', '.join(facts.kinds)}"
        )
    # Where all coalitions learn the same the file says it once.
    coalitions = facts.coalitions or tuple(
        replace(row, colluding=k)
        for row in facts.lines
        for k in facts.sizes
        if row.adversary == OTHERS
    )
    selection = tuple(row for row in coalitions if row.colluding in facts.sizes)
    if len(selection) != len(facts.kinds) * len(facts.sizes):
        raise DataError(f"{str(path)!r} must hold a line for every number of colluding servers")
    return replace(facts, coalitions=selection)
