"""Whether a study's budget ends: jobs that follow one another must be refused some day.

Every job adds to what others know of a data set: the μ of its releases grows without bound. So does
ε of the features, and a limit on it is met some day. ε of labels does not: it stays below the ε of
the devices' randomised response, whatever is trained. A limit on labels alone therefore ends only
below the *smallest* ε on the menu, because there may be people who all chose that one, and only
under a fixed plan, because noise that is switched off for features costs labels nothing where η
protects them.
"""

from math import isinf
from typing import TYPE_CHECKING

from pdml.accounting import profiles
from pdml.errors import Untrainable
from pdml.study.findings import Mistake

if TYPE_CHECKING:
    from pdml.study.contract import Study

REMEDY = "features = { epsilon = 1 }"


def mistakes(study: "Study") -> list[Mistake]:
    """Why jobs under ``study`` could follow one another without end; nothing if they cannot.

    Parameters
    ----------
    study : Study
        Any study: one that only asks for answers need not have a budget.

    Returns
    -------
    list of (path, sentence)
        At most one. The sentence names the remedy.

    Guarantees
    ----------
    - Without a mistake, jobs under the study's plan end at every data set that its menu allows:
      after k jobs, for some k, either δ of the features at their limit exceeds its δ (it tends to
      1), or δ of labels does (it tends to (e^ε - e^ε')/(e^ε + K - 1), ε the largest in the data, ε'
      the limit).
    - Where the plan is left to each job, everything that jobs release of features is limited, and
      labels are part of that.
    """
    budget, the_study = study.budget, f"the study {study.id}"
    if budget is None or (isinf(budget.features_epsilon) and isinf(budget.labels_epsilon)):
        why = "any number of jobs could follow one another"
        return [(("budget",), f"{the_study} has no budget: {why}; add [budget] with {REMEDY}")]
    if not isinf(budget.features_epsilon):
        return []
    if study.plan is None:
        why = "whoever starts a job could switch the noise off"
        told = f"{the_study} has neither a plan nor a budget for features: {why}"
        return [(("budget",), f"{told}; add {REMEDY} to [budget]")]
    floor, (limit, delta) = study.menu[0], budget.limit("label")
    if _binds(study, limit, delta):
        return []
    lower = f", or limit labels to clearly less than {floor:g}" if _binds(study, 0.0, delta) else ""
    why = f"where everybody chooses {floor:g} it is never reached"
    told = f"{the_study} limits labels alone, to epsilon {limit:g}: {why}, and jobs never end"
    return [(("budget", "labels"), f"{told}; add {REMEDY} to [budget]{lower}")]


def check(study: "Study") -> None:
    """Raise `Untrainable` if jobs under ``study`` could follow one another without end."""
    if found := mistakes(study):
        raise Untrainable(study.id, [sentence for _, sentence in found])


def _binds(study: "Study", epsilon: float, delta: float) -> bool:
    """Whether the ledger of a data set of which everything has leaked exceeds a limit on labels,
    though all its people chose the smallest ε of the menu."""
    response = profiles.joint_profile(study.menu[0], profiles.nothing_profile, len(study.classes))
    return bool(response(epsilon) > delta)
