"""What a study's budget means, in sentences that are true of every training that keeps to it."""

from math import isinf

from pdml._special import expit
from pdml.accounting.certainty import limit_certainty
from pdml.pages import numbers
from pdml.study import Study


def tell(study: Study) -> list[str]:
    """For the answers that the model predicts from, and for the secret one."""
    return [features(study), label(study)]


def features(study: Study) -> str:
    """A limit on (ε, δ) is one on how sure anybody can become (privacy.md, section 11)."""
    who = "All other servers together learn of the answers above"
    if study.budget is None or isinf(study.budget.features_epsilon):
        return f"{who}: no limit."
    epsilon, delta = study.budget.limit("features")
    limit = f"at most epsilon {epsilon:g} (delta {delta:g}) from all trainings"
    return f"{who}: {limit}. From even odds they become {sure(epsilon, delta)}."


def label(study: Study) -> str:
    """Randomised response caps what anybody learns, whatever is trained; a budget may be lower."""
    who, cap = "All other servers together learn of the secret answer", study.menu[-1]
    chosen = f"never more than the epsilon that you choose, at most {cap:g} on this menu"
    if study.budget is None or study.budget.labels_epsilon >= cap:
        most = numbers.certainty(float(expit(cap)))
        return f"{who}: {chosen}. From even odds nobody becomes more than {most} sure."
    epsilon, delta = study.budget.limit("label")
    return f"{who}: at most epsilon {epsilon:g} (delta {delta:g}) from all trainings, and {chosen}."


def sure(epsilon: float, delta: float, of: str = "") -> str:
    """How sure somebody can become of features under a limit of (ε, δ)."""
    most = numbers.certainty(limit_certainty(epsilon))
    return f"at most {most} sure{of}, but for a chance of {2 * delta:g}"
