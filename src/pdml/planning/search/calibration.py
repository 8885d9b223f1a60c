"""The least noise that keeps to a budget, found by asking the `Ledger` itself a few times."""

from collections.abc import Callable
from math import exp, inf, isinf, log

from pdml.accounting import Budget, Ledger
from pdml.accounting.events import Event
from pdml.accounting.kinds import Adversary, Data
from pdml.numerics.admm import labels
from pdml.planning.server_spec import ServerSpec

_LOWEST = 1e-9
_CLOSE = 0.05  # in ln δ: about 0.5% of noise, since δ falls by its tenth power
_STEEP = 10.0  # a first guess of that power
_HAIR = 1 + 1e-6  # a row of the ledger rounds its ε up
_TRIES = 60


def excess(events: tuple[Event, ...], budget: Budget, classes: int) -> float:
    """ln(δ/allowed δ) of the budget's row nearest to its limit; -∞ if nothing is spent, +∞ where δ
    = 0 was allowed and more is spent.
    """
    book, worst = Ledger((events,), classes=classes), -inf
    for data in (Data.LABEL, Data.FEATURES):  # the quicker first
        epsilon, allowed = budget.limit(data)
        if isinf(epsilon):
            continue
        spent = float(book.profile(data, Adversary.OTHERS, 0, colluding=budget.colluding)(epsilon))
        if spent > 0:
            worst = max(worst, log(spent / allowed) if allowed > 0 else inf)
        if worst > _STEEP:
            break
    return worst


def hidden(budget: Budget, spec: ServerSpec) -> float:
    """About how many times farther a label may move than a Gaussian alone allows, since randomised
    response hides it too. A guess, which the ledger corrects.
    """
    if spec.classes > 2:
        return 1.0
    kappa = float(labels.kappa(spec.label_epsilon))
    return min(1.05 * kappa, 1.0 + 1.9 * float(max(budget.features_epsilon, 0.01) ** -0.45))


def least(
    excess_at: Callable[[float], float], guess: float = 1.0, highest: float = 1e9
) -> float | None:
    """The least noise whose excess is at most 0, to about 0.5% and rounded up."""
    if excess_at(0.0) <= 0:
        return 0.0
    bad, good = log(_LOWEST), inf
    last: tuple[float, float] | None = None
    top = log(highest)
    at = min(log(guess), top)
    for _ in range(_TRIES):
        over = excess_at(exp(at))
        bad, good = (at, good) if over > 0 else (bad, at)
        if -_CLOSE <= over <= 0 or good - bad < 1e-4 or bad >= top:
            break
        steep = _STEEP
        if last is not None and not isinf(over) and over != last[1]:
            steep = max(1.0, (over - last[1]) / (last[0] - at))
        last = None if isinf(over) else (at, over)
        if over == inf:
            at = top
            continue
        aimed = at + (max(-_STEEP, over) + _CLOSE / 2) / steep
        at = min(aimed if bad < aimed < good else (bad + good) / 2, top)
    return None if isinf(good) else min(exp(good) * _HAIR, highest)
