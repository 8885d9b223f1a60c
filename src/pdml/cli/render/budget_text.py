"""What a study's budget means, in sentences that are true of every training that keeps to it."""

from math import isinf

from pdml._special import expit
from pdml.accounting import Budget
from pdml.accounting.certainty import limit_certainty
from pdml.formatting import numbers
from pdml.study import Study, study_summary


def budget_sentences(study: Study) -> list[str]:
    """For all answers of somebody, and for the sensitive one."""
    return [features(study), label(study)]


def features(study: Study) -> str:
    """A limit on (ε, δ) is one on how sure anybody can become (privacy.md, section 11)."""
    who = f"{_whom(study.budget)} of {study_summary.SUBJECTS['features']}"
    if study.budget is None or isinf(study.budget.features_epsilon):
        return f"{who}: no limit."
    epsilon, delta = study.budget.limit("features")
    limit = f"at most epsilon {epsilon:g} (delta {delta:g}) from all trainings"
    more = "" if study.budget.colluding is None else " More of them together can learn more."
    return f"{who}: {limit}. From even odds that makes {certainty_limit(epsilon, delta)}.{more}"


def _whom(budget: Budget | None) -> str:
    """Against whom a budget holds, and the verb; without one, all others."""
    limits = budget or Budget()
    learn = "learns" if limits.colluding == 1 else "learn"
    return f"{limits.whom[:1].upper()}{limits.whom[1:]} {learn}"


def label(study: Study) -> str:
    """Randomised response caps what anybody learns, whatever is trained; a budget may be lower."""
    cap, of = study.menu[-1], f"of {study_summary.SUBJECTS['label']}"
    most = numbers.certainty(float(expit(cap)))
    chosen = (
        f"never more than the epsilon that you choose, at most {cap:g} on this menu. From even "
        f"odds nobody becomes more than {most} sure"
    )
    if study.budget is None or study.budget.bound("label")[0] >= cap:
        return f"{_whom(None)} {of}: {chosen}."
    epsilon, delta = study.budget.bound("label")
    limit = f"at most epsilon {epsilon:g} (delta {delta:g}) from all trainings"
    return f"{_whom(study.budget)} {of}: {limit}. Everybody together: {chosen}."


def certainty_limit(epsilon: float, delta: float, of: str = "") -> str:
    """How sure somebody can become of features under a limit of (ε, δ)."""
    most = numbers.certainty(limit_certainty(epsilon))
    return f"at most {most} sure{of}, but for a chance of {2 * delta:g} (twice delta)"
