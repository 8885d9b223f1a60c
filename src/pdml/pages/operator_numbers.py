"""What one server could train with the reports it holds now: the ledger's figures, and the answers
with chance taken out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

from pdml.accounting import Budget, Ledger, profiles
from pdml.accounting.kinds import Adversary
from pdml.collector.intake.intake import Summary
from pdml.mechanisms.label_flip import MILLION, WORD, threshold
from pdml.numerics.admm.labels import keep_weight
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study, study_summary

LEAST = 20  # reports before anything is estimated: of fewer, chance tells more than people do
_SPAN = 1.96  # standard errors to either side that hold the truth in 95 of 100 cases


@dataclass(frozen=True)
class Estimate:
    """A class: its reports, and the share of people whose true answer it is, with its standard
    error.
    """

    name: str
    reported: int
    share: float  # unbiased, so that it may lie below 0 or above 1
    error: float
    # how far half a report moves the share: counts are whole numbers, and the range must not forget
    # it
    grain: float

    @property
    def likely(self) -> float:
        """The share that can be and is nearest."""
        return min(max(self.share, 0.0), 1.0)

    @property
    def interval(self) -> tuple[float, float]:
        """Around `likely`, cut to what can be: wherever share ± 1.96 errors covers the truth, this
        does too.
        """
        far = _SPAN * self.error + self.grain
        return max(self.likely - far, 0.0), min(self.likely + far, 1.0)


@dataclass(frozen=True)
class Spending:
    """One row of the budget: what the planned training would let the other servers learn, against
    what is allowed.
    """

    data: str  # in words
    planned: float  # ε; infinite without protection
    allowed: float  # infinite without a limit
    delta: float


@dataclass(frozen=True, kw_only=True)
class NoticeSummary:
    """What people were told before they were asked."""

    organiser: str
    contact: str
    consent_version: str
    consent_digest: str  # sha256 of the text, in hex
    languages: tuple[str, ...]  # of the study's texts; the first is its own, if it says so
    retention: str  # when the reports are erased
    days_left: int | None  # until then; None once it has come


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a training with the present reports would be."""

    title: str
    question: str
    promised: NoticeSummary | None  # None in a study that is only tried out
    records: int
    min_records: int
    estimates: tuple[Estimate, ...]
    # the most that one report can weigh, in answers without chance: κ(ε_min); 0 without reports
    weight: float
    worth: float  # the number of answers without chance that would be as exact
    rounds: int | None = None  # of the study's plan; None if it settles none
    spending: tuple[Spending, ...] = ()
    whom: str = ""  # against whom they are counted
    last_safe_round: int | None = None  # None without plan or budget

    @property
    def enough(self) -> bool:
        return self.records >= self.min_records


def preview(study: Study, summary: Summary) -> Outlook:
    """What a training on the reports so far would give away and cost.

    Parameters
    ----------
    study : Study
    summary : Summary
        Totals alone: no report is looked at.

    Returns
    -------
    Outlook
        For `pdml.pages.operator_page.render`.
    """
    used = [epsilon for epsilon, count in summary.per_epsilon.items() if count]
    m, classes = summary.reports, len(study.classes)
    weights = {epsilon: float(keep_weight(epsilon / MILLION, classes)) for epsilon in used}
    spread = sum(summary.per_epsilon[epsilon] * weight**2 for epsilon, weight in weights.items())
    outlook = Outlook(
        title=study.title,
        question=study.question,
        promised=_summarise_notice(study, summary.taken_at),
        records=m,
        min_records=study.min_records,
        estimates=estimates(study.classes, summary.per_epsilon_and_class),
        weight=max(weights.values(), default=0.0),
        worth=m**2 / spread if used else 0.0,
    )
    return (
        _with_plan(
            outlook, study, study.plan, summary.server, [epsilon / MILLION for epsilon in used]
        )
        if used and study.plan is not None
        else outlook
    )


def _summarise_notice(study: Study, now: float) -> NoticeSummary | None:
    who, notice, consent = study.organiser, study.notice, study.consent
    if who is None or notice is None or consent is None:
        return None
    left = notice.retention.timestamp() - now
    return NoticeSummary(
        organiser=who.name,
        contact=who.contact,
        consent_version=consent.version,
        consent_digest=consent.digest,
        languages=tuple(
            filter(None, (study.language, *(language.code for language in study.languages)))
        ),
        retention=f"{notice.retention:%Y-%m-%d %H:%M} UTC",
        days_left=int(left // 86_400) if left > 0 else None,
    )


def estimates(
    classes: tuple[str, ...], counts: Mapping[int, tuple[int, ...]]
) -> tuple[Estimate, ...]:
    """n̂_k = Σ_ε (c_k - m q)/(1 - p - q), unbiased: p another class is reported, q = p/(K-1) a
    certain one, m reports with ε.

    Given the true answers its variance is Σ_ε (n_k p(1-p) + (m - n_k) q(1-q))/(1 - p - q)², with
    n̂_k put for n_k.
    """
    total = sum(map(sum, counts.values()))
    results = []
    for k, name in enumerate(classes):
        number = variance = grain = 0.0
        for micro, reported in counts.items():
            m, p = sum(reported), threshold(micro, len(classes)) / WORD
            q = p / (len(classes) - 1)
            estimate = (reported[k] - m * q) / (1 - p - q)
            likely = min(max(estimate, 0.0), float(m))
            number += estimate
            grain = max(grain, 0.5 / (1 - p - q)) if m else grain
            variance += (likely * p * (1 - p) + (m - likely) * q * (1 - q)) / (1 - p - q) ** 2
        reports = sum(reported[k] for reported in counts.values())
        people = total or 1
        results.append(
            Estimate(name, reports, number / people, sqrt(variance) / people, grain / people)
        )
    return tuple(results)


def _with_plan(
    outlook: Outlook, study: Study, plan: TrainingPlan, server: str, epsilons: Sequence[float]
) -> Outlook:
    index = study.index(server)
    spec = study.terms.server_spec(index, records=outlook.records, epsilons=epsilons)
    ledger = Ledger(((spec.flip(), *plan.events(spec)),), source="planned", classes=spec.classes)
    budget = study.budget or Budget(features_delta=ledger.delta, labels_delta=ledger.delta)
    rows = []
    for data in ("features", "label"):
        allowed, delta = budget.bound(data)
        profile = ledger.profile(data, Adversary.OTHERS, 0, colluding=budget.colluding)
        name = study_summary.SUBJECTS[data]
        rows.append(Spending(name, profiles.epsilon_at(profile, delta), allowed, delta))
    safe = None if study.budget is None else plan.last_safe_round(spec, budget=study.budget)
    return replace(
        outlook,
        rounds=plan.rounds,
        spending=tuple(rows),
        whom=budget.whom,
        last_safe_round=safe,
    )
