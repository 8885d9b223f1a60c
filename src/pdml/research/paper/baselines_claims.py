"""What is said of the comparison with rivals, and whether results bear it out."""

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np

from pdml._types import Array
from pdml.research.baselines.roster import (
    ALONE,
    BASELINES,
    CURATORS,
    EPSILON,
    EQUAL,
    FLOOR,
    HALF,
    LOCAL_MODELS,
    PLAIN,
    PLANNED,
    SINGLE,
    Score,
)
from pdml.research.paper.reproduction import Claim


def claims(results: Sequence[Score]) -> tuple[Claim, ...]:
    """What the comparison is about."""
    return (
        within_budget(results),
        joining_is_safe(results),
        local_model_is_safe(results),
        ahead_of_equals(results),
        behind_curators(results),
    )


def within_budget(results: Sequence[Score]) -> Claim:
    """Equal privacy means that nobody spends more than the budget where it promises to protect; a
    proof that is lost (∞) spends more.
    """
    promised = {rival.name: rival.protects for rival in BASELINES.values()}
    spent = [getattr(r.guarantee, column) for r in results for column in promised[r.rival]]
    return Claim(
        text="wherever a rival promises protection (the paper's own settings: of labels "
        f"only), it proves ε <= {EPSILON:g}",
        holds=max(spent) <= EPSILON + 1e-9,
        measured=f"the largest ε is {max(spent):.6f}",
    )


def joining_is_safe(results: Sequence[Score]) -> Claim:
    """Against a server that keeps its reports to itself and trains on them as the rivals do."""
    return _not_below(
        results,
        _learnable(results),
        (PLANNED, HALF, SINGLE),
        ALONE[:1],
        "with all, five or one of the others colluding PDML's plan is below each server alone on "
        "no set where a linear model can learn",
    )


def local_model_is_safe(results: Sequence[Score]) -> Claim:
    """What a server keeps for itself can fall back on its own records."""
    return _not_below(
        results,
        names_of(results),
        (LOCAL_MODELS,),
        ALONE,
        "a server's local model is below a server alone, with our estimator or without, on no set",
    )


def _learnable(results: Sequence[Score]) -> list[str]:
    """Where even the model without privacy does not beat the larger class there is nothing to join
    for.
    """
    means = means_of(results)
    return [name for name in names_of(results) if means[PLAIN, name] > means[FLOOR, name]]


def _not_below(
    results: Sequence[Score],
    names: Sequence[str],
    ours: Sequence[str],
    theirs: Sequence[str],
    text: str,
) -> Claim:
    """On each of these sets none of ours is below the best of theirs."""
    leads = {rival: _leads(results, rival, theirs, names) for rival in ours}
    return Claim(
        text=f"{text}, by more than two standard errors",
        holds=all(
            float(lead.mean()) >= -2 * _error(lead)
            for rival_leads in leads.values()
            for lead in rival_leads.values()
        ),
        measured="; ".join(
            f"{rival}: {_format_leads(set_leads)}" for rival, set_leads in leads.items()
        ),
    )


def _leads(
    results: Sequence[Score], ours: str, theirs: Sequence[str], names: Sequence[str]
) -> dict[str, Array]:
    """On each set our lead over the best of theirs, seed by seed: both have the same splits."""
    accuracies, means = {(r.rival, r.name): r.accuracies for r in results}, means_of(results)
    best = {name: max(theirs, key=lambda rival: means[rival, name]) for name in names}
    return {name: accuracies[ours, name] - accuracies[best[name], name] for name in names}


def _format_leads(leads: Mapping[str, Array]) -> str:
    return ", ".join(f"{n} {lead.mean():+.1f} ± {_error(lead):.1f}" for n, lead in leads.items())


def _error(leads: Array) -> float:
    """The standard error of their mean."""
    return float(leads.std(ddof=1)) / sqrt(len(leads))


def ahead_of_equals(results: Sequence[Score]) -> Claim:
    """Against rivals that prove the same against the same adversaries; on single sets either may
    win, and all are told.
    """
    leads = _leads(results, PLANNED, EQUAL, names_of(results))
    mean = np.mean(list(leads.values()), axis=0)
    samples = [mean, *(lead for name, lead in leads.items() if name == "adult")]
    return Claim(
        text=(
            "at the same trust and the same ε in every column PDML's plan is ahead of Zhang-Zhu on "
            "average over the sets, and on Adult, the paper's own, each by more than two standard "
            "errors"
        ),
        holds=all(float(sample.mean()) > 2 * _error(sample) for sample in samples),
        measured=f"{_format_leads(leads)}; mean {mean.mean():+.1f} ± {_error(mean):.1f}",
    )


def behind_curators(results: Sequence[Score]) -> Claim:
    """What not trusting anybody costs."""
    means = means_of(results)
    lost = {
        name: max(means[rival, name] for rival in CURATORS) - means[PLANNED, name]
        for name in names_of(results)
    }
    return Claim(
        text="PDML pays for trusting nobody: a trusted curator at the same ε for records "
        "is ahead on average",
        holds=float(np.mean(list(lost.values()))) > 0,
        measured=", ".join(f"{name} {value:+.1f}" for name, value in lost.items()),
    )


def names_of(results: Sequence[Score]) -> list[str]:
    """The sets, in their order."""
    return list(dict.fromkeys(r.name for r in results))


def means_of(results: Sequence[Score]) -> dict[tuple[str, str], float]:
    """Mean accuracy by rival and set."""
    return {(r.rival, r.name): float(r.accuracies.mean()) for r in results}
