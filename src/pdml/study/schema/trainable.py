"""Whether anybody could ever train under a study: asked before people are asked for answers."""

from dataclasses import replace

from pdml._bisect import bisect, whole
from pdml.accounting import Budget, Ledger
from pdml.errors import BudgetExceeded, UntrainableStudy
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study
from pdml.study.schema import budget_checks
from pdml.study.schema.validation import Mistake

MOST_JOBS = 32  # that are counted before they happen: whoever trains more often reads the ledger
MOST_TELLING = 1 << 26  # records with which one of them moves least: beyond, sums are rounded more


def worst_case_ledger(study: Study, plan: TrainingPlan, jobs: int = 1) -> Ledger:
    """What so many jobs by ``plan`` spend at worst: every server with as few records as the study
    allows, the whole menu in use."""
    specs = (
        study.terms.server_spec(i, records=study.min_records, epsilons=study.menu)
        for i in range(len(study.servers))
    )
    events = tuple((spec.flip(), *plan.events(spec) * jobs) for spec in specs)
    return Ledger(events, source="planned", classes=len(study.classes))


def most_jobs(study: Study, plan: TrainingPlan) -> int:
    """How many jobs by ``plan`` the study's budget allows at worst (`worst_case_ledger`), looked
    for up to
    `MOST_JOBS`; all of those without a budget."""
    budget = study.budget or Budget()

    def kept(jobs: float) -> bool:
        return worst_case_ledger(study, plan, int(jobs)).keeps(budget)

    return int(bisect(kept, 0, MOST_JOBS + 1, absolute=1, middle=whole))


def mistakes(study: Study) -> list[Mistake]:
    """Why no job under ``study`` could ever start, or none could ever be the last one."""
    if problems := budget_checks.mistakes(study):
        return problems
    never = "" if study.plan is None else _never(study, study.plan)
    return [(("plan",), never)] if never else []


def check(study: Study) -> None:
    """Raise `UntrainableStudy` if no job under ``study`` could ever start, or none be the last
    one.
    """
    if problems := mistakes(study):
        raise UntrainableStudy(study.id, [sentence for _, sentence in problems])


def _never(study: Study, plan: TrainingPlan) -> str:
    """Why the plan breaks the budget at some server, however many records it has and whatever its
    people chose; "" if it need not."""
    budget, classes = study.budget or Budget(), len(study.classes)
    n, records = len(study.servers), max(study.min_records, MOST_TELLING)
    alike = {}
    for i in range(n):
        spec = study.terms.server_spec(i, records=records, epsilons=study.menu[-1:])
        noise = plan.iterates(spec.server, n).scale
        alike[spec.degree, noise, plan.tolerance_for(spec)] = spec
    for spec in alike.values():
        refused: list[str] = []
        for epsilon in study.menu:
            chosen = replace(spec, epsilons=(epsilon,))
            try:
                Ledger(((chosen.flip(), *plan.events(chosen)),), classes=classes).check(budget)
            except BudgetExceeded as error:
                refused.append(str(error))
        if len(refused) == len(study.menu):
            name = study.servers[spec.server].name
            message = f"the study {study.id} has a plan that breaks its budget"
            message += f" with any number of records at {name}: {refused[-1]}"
            return f"{message}; give it more noise or a larger budget"
    return ""
