"""The operator's page: one collection at a glance, from totals alone, and what a training with its
present reports would be. It runs no script, and reloads itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from math import sqrt
from typing import ClassVar

import numpy as np

from pdml.accounting import Budget, Ledger, profiles
from pdml.accounting.kinds import Adversary, Data
from pdml.collector.intake.service import Summary
from pdml.collector.storage.records import CollectionState
from pdml.formatting import numbers
from pdml.mechanisms.label_flip import MILLION, WORD, threshold
from pdml.numerics.admm.labels import keep_weight
from pdml.numerics.prevalence import share_of_people
from pdml.pages.charts.svg import Figure, Mark, mark
from pdml.pages.render import document
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.study import Study, study_summary
from pdml.study.messages import PROBLEMS

LEAST = 20  # reports before anything is estimated: of fewer, chance tells more than people do
_SPAN = 1.96  # standard errors to either side of a 95% interval


@dataclass(frozen=True)
class ClassEstimate:
    """A class: its reports, and the share of people whose true answer it is, with its standard
    error."""

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
        does too."""
        far = _SPAN * self.error + self.grain
        return max(self.likely - far, 0.0), min(self.likely + far, 1.0)


@dataclass(frozen=True)
class Spending:
    """One row of the budget: what the planned training would let the other servers learn, against
    what is allowed."""

    data: str  # in words
    planned: float  # ε; infinite without protection
    allowed: float  # infinite without a limit
    delta: float


def estimates(
    classes: tuple[str, ...], counts: Mapping[int, tuple[int, ...]]
) -> tuple[ClassEstimate, ...]:
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
            estimate = m * float(share_of_people(np.array(reported[k] / max(m, 1)), 1 - p, q))
            likely = min(max(estimate, 0.0), float(m))
            number += estimate
            grain = max(grain, 0.5 / (1 - p - q)) if m else grain
            variance += (likely * p * (1 - p) + (m - likely) * q * (1 - q)) / (1 - p - q) ** 2
        reports = sum(reported[k] for reported in counts.values())
        people = total or 1
        results.append(
            ClassEstimate(name, reports, number / people, sqrt(variance) / people, grain / people)
        )
    return tuple(results)


_WIDE, _LEFT, _BASE, _TALL = 900, 68, 160, 140  # the bars: canvas, left margin, foot and height


@dataclass(frozen=True, kw_only=True)
class OperatorPage:
    """Everything that the page shows, from totals alone: the context of ``operator.html``."""

    study: Study
    summary: Summary

    reload: ClassVar[int] = 30  # seconds
    least: ClassVar[int] = LEAST  # reports before anything is estimated

    # What people were told before they were asked

    @property
    def promised(self) -> bool:
        """False in a study that is only tried out."""
        study = self.study
        return None not in (study.organiser, study.notice, study.consent)

    @property
    def retention(self) -> str:
        """When the reports are erased."""
        notice = self.study.notice
        return "" if notice is None else f"{notice.retention:%Y-%m-%d %H:%M} UTC"

    @property
    def days_left(self) -> int | None:
        """Until then; None once it has come."""
        assert self.study.notice is not None
        left = self.study.notice.retention.timestamp() - self.summary.taken_at
        return int(left // 86_400) if left > 0 else None

    @property
    def languages(self) -> list[str]:
        """Of the study's texts; the first is its own, if it says so."""
        codes = (self.study.language, *(texts.code for texts in self.study.languages))
        return [code for code in codes if code]

    # What a training with the present reports would be

    @property
    def estimates(self) -> tuple[ClassEstimate, ...]:
        return estimates(self.study.classes, self.summary.per_epsilon_and_class)

    @cached_property
    def _weights(self) -> dict[int, float]:
        """Of a report, κ(ε), by each ε that somebody chose."""
        many = len(self.study.classes)
        used = [epsilon for epsilon, count in self.summary.per_epsilon.items() if count]
        return {epsilon: float(keep_weight(epsilon / MILLION, many)) for epsilon in used}

    @property
    def weight(self) -> float:
        """The most that one report can weigh, in answers without chance; 0 without reports."""
        return max(self._weights.values(), default=0.0)

    @property
    def worth(self) -> float:
        """The number of answers without chance that would be as exact."""
        counts = self.summary.per_epsilon
        spread = sum(counts[epsilon] * weight**2 for epsilon, weight in self._weights.items())
        return self.summary.reports**2 / spread if spread else 0.0

    @property
    def plan(self) -> TrainingPlan | None:
        """The study's, if it settles one and there are reports to train with."""
        return self.study.plan if self._weights else None

    @cached_property
    def _spec(self) -> ServerSpec:
        chosen = [epsilon / MILLION for epsilon in self._weights]
        index, records = self.study.index(self.summary.server), self.summary.reports
        return self.study.terms.server_spec(index, records=records, epsilons=chosen)

    @property
    def whom(self) -> str:
        """Against whom the spending is counted."""
        return (self.study.budget or Budget()).whom

    @cached_property
    def spending(self) -> tuple[Spending, ...]:
        if self.plan is None:
            return ()
        events = (self._spec.flip(), *self.plan.events(self._spec))
        ledger = Ledger((events,), source="planned", classes=self._spec.classes)
        no_limit = Budget(features_delta=ledger.delta, labels_delta=ledger.delta)
        budget = self.study.budget or no_limit
        rows = []
        for data in (Data.FEATURES, Data.LABEL):
            allowed, delta = budget.bound(data)
            profile = ledger.profile(data, Adversary.OTHERS, 0, colluding=budget.colluding)
            spent = profiles.epsilon_at(profile, delta)
            rows.append(Spending(study_summary.SUBJECTS[data], spent, allowed, delta))
        return tuple(rows)

    @property
    def over_budget(self) -> list[str]:
        """The kinds of data for which the plan would spend too much."""
        return [row.data for row in self.spending if row.planned > row.allowed]

    @cached_property
    def last_safe_round(self) -> int | None:
        """None without plan or budget."""
        if self.plan is None or self.study.budget is None:
            return None
        return self.plan.last_safe_round(self._spec, budget=self.study.budget)

    # The collection

    @property
    def state(self) -> str:
        """Whether reports are taken, in words."""
        if self.summary.state == CollectionState.OPEN and not self.summary.in_window:
            return "outside its opening times"
        return str(self.summary.state)

    @property
    def taken(self) -> str:
        return f"{datetime.fromtimestamp(self.summary.taken_at, UTC):%Y-%m-%d %H:%M:%S}"

    @property
    def levels(self) -> list[tuple[float, int]]:
        """Each ε that people could choose, and how many did."""
        chosen = sorted(self.summary.per_epsilon.items())
        return [(epsilon / MILLION, count) for epsilon, count in chosen]

    @property
    def problems(self) -> list[tuple[str, str, int]]:
        """Code, meaning and number of refusals, most frequent first."""
        counts = sorted(self.summary.problems.items(), key=lambda item: (-item[1], item[0]))
        return [(c, PROBLEMS[c].title if c in PROBLEMS else "", n) for c, n in counts]

    @property
    def minutes(self) -> Figure:
        """Reports per minute, as bars."""
        counts = self.summary.per_minute
        extent = f"{numbers.count(sum(counts))} in all, at most {numbers.count(max(counts))} in one"
        return Figure(
            name="minutes",
            heading="Reports per minute",
            caption="",
            words=f"Reports stored in each of the last {len(counts)} minutes: {extent}.",
            width=_WIDE,
            height=_BASE + 30,
            marks=tuple(_bars(counts)),
        )


def render(study: Study, summary: Summary) -> str:
    """The whole document: the same totals give the same page.

    Parameters
    ----------
    study : Study
    summary : Summary
        The collection's totals: no report is looked at.

    Returns
    -------
    str
        HTML.
    """
    return document("operator.html", OperatorPage(study=study, summary=summary))


def _bars(counts: Sequence[int]) -> Iterator[Mark]:
    top, step = _round_up(max(counts)), (_WIDE - _LEFT) / len(counts)
    for value in (0, top // 2, top) if top > 1 else (0, 1):
        down = _BASE - _TALL * value / top
        yield mark("path", d=f"M{_LEFT} {down:g}H{_WIDE}", class_="grid")
        yield mark("text", numbers.count(value), x=_LEFT - 8, y=down + 4, class_="end")
    for i, count in enumerate(counts):
        if count:
            tall, across = _TALL * count / top, _LEFT + i * step + 1
            style = "bar running" if i == len(counts) - 1 else "bar"
            size = {"width": step - 2, "height": tall, "rx": 2}
            yield mark("rect", x=across, y=_BASE - tall, **size, class_=style)
    for ago in (60, 45, 30, 15, 0):
        words = f"{ago} min ago" if ago else "now"
        style = {60: "", 0: "end"}.get(ago, "middle between")
        yield mark("text", words, x=_LEFT + (len(counts) - ago) * step, y=_BASE + 22, class_=style)


def _round_up(value: int) -> int:
    """The least of 1, 2, 4, 10, 20, 40, ... that is not below, so that half of it is whole."""
    scale = 1
    while True:
        for lead in (1, 2, 4):
            if lead * scale >= value:
                return lead * scale
        scale *= 10
