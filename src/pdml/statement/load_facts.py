"""Where the facts of a statement come from: a study's plan, or the result of a training."""

import os
from collections.abc import Sequence
from dataclasses import replace
from math import isinf
from pathlib import Path

import msgspec

from pdml.accounting import Ledger
from pdml.accounting.kinds import RANDOMISED_BY, UNSAID
from pdml.accounting.ledger import ADVERSARIES
from pdml.consortium.result_folder import MODEL, verify_result
from pdml.consortium.signed_evaluation import combine_evaluations, digest_of
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms.randomness import SOURCES
from pdml.model.model import Model, load_model
from pdml.planning.training_plan import TrainingPlan
from pdml.statement.facts import OTHERS, Facts, Spent
from pdml.study import Study
from pdml.study.schema import trainable
from pdml.training.result import SEPARATE_NODES


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
        rows=tuple(books[data].row(data, whom) for data in facts.kinds for whom in ADVERSARIES),
        coalitions=tuple(
            books[data].row(data, OTHERS, colluding=k) for data in facts.kinds for k in facts.sizes
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
    terms: str
    parties: str
    servers: list[str]
    records_per_server: list[int]
    noise_source: str
    leaks: list[str]
    labels_randomised_by: list[str] | None = None  # None: files do not say it
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
        verification = verify_result(path, study=study.hash, allow_unchecked=True)
        verification.check()
        path, verified, last_digits = path / MODEL, True, MODEL in verification.unchecked
    model = load_model(path)
    if model.local:
        raise InvalidInput(
            f"result must be a model that was released, got the local model of {model.local}: "
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
    lines, every = model.ledger_rows(), model.coalitions()
    return _checked(
        Facts(
            study=study,
            plan=TrainingPlan.from_dict(model.plan),
            rows=tuple(lines),
            coalitions=tuple(every),
            spent=Spent(
                job=provenance.job,
                terms=provenance.terms,
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
                    combine_evaluations(study, evaluations, model=digest_of(model))
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
    rows = [(row.data, row.adversary) for row in facts.rows]
    wanted = [(data, whom) for data in facts.kinds for whom in ADVERSARIES]
    if sorted(rows) != sorted(wanted):
        raise DataError(
            f"{str(path)!r} must hold a ledger of {len(wanted)} lines, for each of "
            f"{', '.join(facts.kinds)}"
        )
    # Where all coalitions learn the same the file says it once.
    coalitions = facts.coalitions or tuple(
        replace(row, colluding=k)
        for row in facts.rows
        for k in facts.sizes
        if row.adversary == OTHERS
    )
    selection = tuple(row for row in coalitions if row.colluding in facts.sizes)
    if len(selection) != len(facts.kinds) * len(facts.sizes):
        raise DataError(f"{str(path)!r} must hold a line for every number of colluding servers")
    return replace(facts, coalitions=selection)
