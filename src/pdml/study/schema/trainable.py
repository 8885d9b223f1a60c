"""Whether anybody could ever train under a study: some job must be able to start, and jobs that
follow one another must be refused some day.

Every job adds to what others know: the μ of its releases grows without bound, and so does ε of the
features, unless devices randomise every answer: then it stays below the sum of all their ε, the
label's among them. ε of labels always stays below that of the devices' randomised response. Such a
limit therefore ends jobs only below the *smallest* ε on the menus, because there may be people who
all chose these; and one on labels alone only under a fixed plan, because noise that is switched off
for features costs labels nothing where η protects them.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isinf

from pdml._math import bisect, whole
from pdml.accounting import Budget, Ledger, profiles
from pdml.accounting.kinds import Data
from pdml.errors import BudgetExceeded, UntrainableStudy
from pdml.planning.training_plan import TrainingPlan
from pdml.study.definition import Study
from pdml.study.schema.validation import Mistake

MOST_JOBS = 32  # that are counted before they happen: whoever trains more often reads the ledger
MOST_TELLING = 1 << 26  # records with which one of them moves least: beyond, sums are rounded more


def worst_case_ledger(
    study: Study, plan: TrainingPlan, jobs: int = 1, *, epsilons: Sequence[float] = ()
) -> Ledger:
    """What so many jobs by ``plan`` spend at worst: fewest records, and these ε of the label in use
    or the whole menu."""
    used = epsilons or study.menu
    specs = (
        study.terms.server_spec(i, records=study.min_records, epsilons=used)
        for i in range(len(study.servers))
    )
    events = tuple((spec.flip(), *plan.events(spec) * jobs) for spec in specs)
    return Ledger(events, source="planned", classes=len(study.classes))


def most_jobs(study: Study, plan: TrainingPlan) -> int:
    """How many jobs by ``plan`` the budget allows at worst, at most `MOST_JOBS`."""

    def keeps(jobs: float) -> bool:
        return worst_case_ledger(study, plan, int(jobs)).keeps(study.budget or Budget())

    return int(bisect(keeps, 0, MOST_JOBS + 1, absolute=1, middle=whole))


def mistakes(study: Study) -> list[Mistake]:
    """Why no job under ``study`` could ever start, or none could ever be the last one."""
    if problems := budget_mistakes(study):
        return problems
    never = "" if study.plan is None else _never(study, study.plan)
    return [(("plan",), never)] if never else []


def check(study: Study) -> None:
    """Raise `UntrainableStudy` if no job could ever start, or none be the last one."""
    if problems := mistakes(study):
        raise UntrainableStudy(study.id, [sentence for _, sentence in problems])


def _never(study: Study, plan: TrainingPlan) -> str:
    """Why the plan breaks the budget at some server, whatever its records; "" if it need not."""
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


# Whether the budget ends

_SUGGESTION = "features = { epsilon = 1 }"


def budget_mistakes(study: Study) -> list[Mistake]:
    """Why jobs under ``study`` could follow one another without end; nothing if they cannot.

    Guarantees
    ----------
    - Without a mistake, jobs under the study's plan end at every data set that its menu allows:
      after k jobs, for some k, either δ of the features at their limit exceeds its δ (it tends to
      1; where every answer is randomised to (e^ε - e^ε')/(e^ε + 1), ε the sum of all, ε' the
      limit), or δ of labels does (it tends to (e^ε - e^ε')/(e^ε + K - 1), ε the largest in the
      data). For the ledger everybody's answers have the largest ε of their menus, so that jobs
      may end where this does not rely on it.
    - Where the plan is left to each job, everything that jobs release of features is limited, and
      labels are part of that.
    """
    budget, the_study, suggestion = study.budget, f"the study {study.id}", _suggestion(study)
    if budget is None or (isinf(budget.features_epsilon) and isinf(budget.labels_epsilon)):
        why = "any number of jobs could follow one another"
        return [(("budget",), f"{the_study} has no budget: {why}; add [budget] with {suggestion}")]
    if _features_end(study, *budget.limit(Data.FEATURES)):
        return []
    floor, (limit, delta) = study.menu[0], budget.limit(Data.LABEL)
    if study.plan is not None and _labels_end(study, limit, delta):
        return []
    if not isinf(budget.features_epsilon):
        return [(("budget", "features"), _too_high(study, *budget.limit(Data.FEATURES)))]
    if study.plan is None:
        why = "whoever starts a job could switch the noise off"
        message = f"{the_study} has neither a plan nor a budget for features: {why}"
        return [(("budget",), f"{message}; add {suggestion} to [budget]")]
    lower = ""
    if _labels_end(study, 0.0, delta):
        lower = f", or limit labels to clearly less than {floor:g}"
    why = f"where everybody chooses {floor:g} it is never reached"
    message = f"{the_study} limits labels alone, to epsilon {limit:g}: {why}, and jobs never end"
    return [(("budget", "labels"), f"{message}; add {suggestion} to [budget]{lower}")]


def check_budget(study: Study) -> None:
    """Raise `UntrainableStudy` if jobs under ``study`` could follow one another without end."""
    if problems := budget_mistakes(study):
        raise UntrainableStudy(study.id, [sentence for _, sentence in problems])


def _least(study: Study) -> float:
    """The ε of a record of which everything has leaked, for the smallest ε of every menu."""
    if study.encoder.clear:
        return inf
    menus = [
        study.menu,
        *(attribute.epsilon.menu for attribute in study.encoder.sensitive if attribute.epsilon),
    ]
    return sum(menu[0] for menu in menus)


def _features_end(study: Study, epsilon: float, delta: float) -> bool:
    """Whether a limit on features is exceeded once everything has leaked, at the smallest ε."""
    leaked = profiles.pure_profile(_least(study))
    return not isinf(epsilon) and bool(leaked(epsilon) > delta)


def _labels_end(study: Study, epsilon: float, delta: float) -> bool:
    """The same of a limit on labels."""
    response = profiles.joint_profile(study.menu[0], profiles.nothing_profile, len(study.classes))
    return bool(response(epsilon) > delta)


def _suggestion(study: Study) -> str:
    if _features_end(study, 1.0, Budget.features_delta):
        return _SUGGESTION
    return f"features = {{ epsilon = {_least(study) / 2:.1g} }}"


def _too_high(study: Study, epsilon: float, delta: float) -> str:
    least = f"{_least(study):g}"
    return (
        f"the study {study.id} limits features to epsilon {epsilon:g} with delta {delta:g}, but "
        f"randomises every answer: of whoever chooses the smallest epsilons, {least} in all with "
        "the label's, jobs never tell more than that, however many there are; limit features to "
        f"clearly less than {least}"
    )
