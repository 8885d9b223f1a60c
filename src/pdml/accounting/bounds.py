"""Every bound that holds on what others learn of a label or of a record: the best one counts, and
its name says why.

All but one are closed forms. The one with the device's randomised response takes a tenth of a
second for each kind of person, so that it is asked only where it can help, and of no more people
than needed.
"""

from dataclasses import replace
from functools import cache, reduce

import numpy as np

from pdml._types import Array
from pdml.accounting import profiles
from pdml.accounting.kinds import Data
from pdml.accounting.per_release_loss import ReleaseLoss, columns, of_kinds
from pdml.accounting.profiles import Profile, Values
from pdml.accounting.randomized_response import response_profile

ALONE, THETA, ETA, BOTH = "response alone", "theta", "eta", "both noises"
WHOLE, ONCE, RESPONSE = "every round", "label part once", "randomised response"
BY_REPORT = "report by report"
_WORTH = 0.98  # of a closed form's μ: what randomised response must leave to be asked for
_MOST = 16  # people with tables of their own


def closed_forms(data: str, spent: ReleaseLoss) -> dict[str, Profile]:
    """δ(ε') of "label" or "features" against the other servers, for each kind of person, by the
    name of each closed form.
    """
    if data == Data.FEATURES:
        return {WHOLE: spent.whole.profile, ONCE: spent.once.profile}
    through = {THETA: spent.theta, ETA: spent.eta, BOTH: spent.both}
    behind = {name: bound.profile for name, bound in through.items()}
    forms = {
        name: profiles.joint_profile(spent.epsilon, profile, spent.classes)
        for name, profile in ({ALONE: profiles.nothing_profile} | behind).items()
    }
    if not np.any(spent.counted):
        return forms
    # Counts tell of the true label, beside whatever its reports do. Not to count randomised
    # response is a bound, too (a mixture tells no more than its parts), exact where there is none.
    beside = {name: profiles.with_gaussian(form, spent.counted) for name, form in forms.items()}
    for name, bound in through.items():
        plain = replace(bound, mu=np.hypot(bound.mu, spent.counted)).profile
        beside[name] = profiles.better_of(beside[name], plain)
    return beside


def against_others(data: str, spent: ReleaseLoss, *, worst: bool = False) -> Profile:
    """The best of all bounds, for each kind of person."""
    together = _together(data, spent, worst)
    if not spent.by_report:
        return together
    several = cache(lambda: _by_report(data, spent, worst))
    return lambda epsilon: np.minimum(together(epsilon), several()(epsilon))


def _together(data: str, spent: ReleaseLoss, worst: bool) -> Profile:
    """All releases at once."""
    forms = profiles.better_of(*closed_forms(data, spent).values())
    helped = _response_helps(data, spent)
    if not helped.any():
        return forms
    response = cache(lambda: _response_bound(spent, helped, worst))  # nobody may ever ask

    def delta(epsilon: Values) -> Values:
        shape = np.broadcast_shapes(np.shape(epsilon), helped.shape)
        wanted = np.broadcast_to(epsilon, shape)
        deltas = np.array(forms(wanted))
        deltas[..., helped] = np.minimum(deltas[..., helped], response()(wanted[..., helped]))
        return deltas

    return delta


def within_limit(data: str, spent: ReleaseLoss, epsilon: float, delta: float) -> bool:
    """Whether δ(ε) of everybody is at most ``delta``; quicker than to ask for a profile."""
    beyond = profiles.better_of(*closed_forms(data, spent).values())(epsilon) > delta
    if not beyond.any():
        return True
    left = profiles.gaussian_profile(_beside_the_label(spent))(epsilon)
    helps = beyond & _response_helps(data, spent) & (left <= delta)
    if not spent.by_report and (beyond & ~helps).any():
        return False
    if helps.any():
        beyond[helps] = _response_bound(spent, helps, worst=True)(epsilon) > delta
    if not (spent.by_report and beyond.any()):
        return not beyond.any()
    return bool((_by_report(data, of_kinds(spent, beyond), worst=True)(epsilon) <= delta).all())


def winners(data: str, spent: ReleaseLoss, epsilon: Array, deltas: Array) -> list[str]:
    """Which bound says so, of each kind of person for whom δ(``epsilon``) = ``deltas``: the first
    closed form, or else that of randomised response or of several reports."""
    forms = {name: profile(epsilon) for name, profile in closed_forms(data, spent).items()}
    names = np.where(_reported_more(spent), BY_REPORT, RESPONSE).astype(object)
    for name, delta in reversed(forms.items()):
        names[delta <= deltas] = name
    return list(names)


def _response_helps(data: str, spent: ReleaseLoss) -> Values:
    """For whom randomised response can tell less than a closed form, by what it leaves at least:
    nobody whose noise truncation leaves no mass, for then δ = 1 and there is nothing to divide by.
    """
    if data != Data.FEATURES:
        return np.zeros(np.shape(spent.epsilon), dtype=bool)
    once = np.where(spent.once.flat < 1, spent.once.mu, np.inf)
    with np.errstate(invalid="ignore"):
        helps = _beside_the_label(spent) < _WORTH * np.minimum(spent.whole.mu, once)
    hidden = (spent.response.flat < 1) & (spent.response.outside < 1)
    return np.asarray(helps & hidden & np.isfinite(spent.response.label))


def _beside_the_label(spent: ReleaseLoss) -> Values:
    """μ of what randomised response does not hide: the bound with it is never below this."""
    return np.hypot(spent.response.rest, spent.response.square)


def _reported_more(spent: ReleaseLoss) -> Values:
    """Who has releases of more than one report."""
    moved = [report.whole.mu > 0 for report in spent.by_report]
    return np.sum([*moved, np.zeros(np.shape(spent.epsilon))], axis=0) > 1


def _by_report(data: str, spent: ReleaseLoss, worst: bool) -> Profile:
    """The releases of each report by themselves, composed; 1 for whoever has those of one only."""
    several = _reported_more(spent)
    losses = columns(*(of_kinds(report, several) for report in spent.by_report))
    different, whose = np.unique(_covering(losses, worst), return_inverse=True)
    compositions = []
    for kind in np.flatnonzero(several)[different].tolist():
        reports = (of_kinds(report, [kind]) for report in spent.by_report)
        moved = [report for report in reports if report.whole.mu[0] > 0]
        compositions.append(
            reduce(profiles.composed, (_single_profile(data, report) for report in moved))
        )

    def delta(epsilon: Values) -> Values:
        wanted = np.broadcast_to(epsilon, np.broadcast_shapes(np.shape(epsilon), several.shape))
        deltas = np.ones(wanted.shape)
        for kind, owner in zip(np.flatnonzero(several), whose, strict=True):
            deltas[..., kind] = compositions[owner](wanted[..., kind])
        return deltas

    return delta


def _single_profile(data: str, spent: ReleaseLoss) -> Profile:
    """Numbers to numbers, for the one kind of person that there is."""
    profile = _together(data, spent, worst=False)
    return lambda epsilon: profile(np.asarray(epsilon)[..., None])[..., 0]


def _covering(losses: Array, worst: bool) -> Array:
    """For each column the place of one that is nowhere below it: the same one, or where only the
    worst matter one that is below no other."""
    different, first, back = np.unique(losses, axis=1, return_index=True, return_inverse=True)
    if worst:
        above: Values = (different[:, :, None] <= different[:, None, :]).all(axis=0)  # i under j
        front = above.sum(axis=1) == 1  # under nobody else
        first = first[front][np.argmax(above[:, front], axis=1)]
    return np.asarray(first[back.ravel()])


def _response_bound(spent: ReleaseLoss, selection: Values, worst: bool) -> Profile:
    """The bound with randomised response, for the selected."""
    loss = spent.response
    moved = (loss.label, loss.rest, loss.square, loss.rounding, loss.edge, loss.outside)
    parameters = _covered(np.array([spent.epsilon, *moved])[:, selection], worst)
    epsilon, label, rest, square, rounding, edge, outside = parameters
    profile = response_profile(epsilon, label, rest, square_mu=square, rounding_mu=rounding)

    def delta(target: Values) -> Values:
        return np.minimum(1.0, (profile(target) + edge) / (1 - outside))

    return delta


def _covered(columns: Array, worst: bool) -> Array:
    """The same columns, or larger ones, of which no more than a few are different: a bound for
    more of everything holds for less of it."""
    kinds, whose = np.unique(columns[:, _covering(columns, worst)], axis=1, return_inverse=True)
    groups = np.array_split(np.arange(kinds.shape[1]), min(_MOST, kinds.shape[1]))
    for group in groups:
        kinds[:, group] = kinds[:, group].max(axis=1, keepdims=True)
    return np.asarray(kinds[:, whose.ravel()])
