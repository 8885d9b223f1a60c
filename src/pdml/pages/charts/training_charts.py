"""The figures of a training: what each shows, on which scale, and in words."""

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from pdml.accounting import LedgerRow
from pdml.accounting.ledger_row import RESTS_ON
from pdml.accounting.profiles import limit_epsilon
from pdml.formatting import numbers
from pdml.pages.charts.line_chart import Chart, Colour, Series, around, from_zero
from pdml.pages.charts.scatter import Whisker, whisker_figure
from pdml.pages.charts.svg import Figure

if TYPE_CHECKING:
    from pdml.training.intervals import Intervals

_SURE = (0.7, 0.75, 0.8, 0.9, 0.99, 0.999)


def accuracy_figure(
    servers: Sequence[float | None], released: float | None, reference: float | None, note: str
) -> Figure:
    """Every server's own model in order, against the released one and one without privacy."""
    accuracies = sorted(value for value in servers if value is not None and isfinite(value))
    series = [Series(label="one server’s own model", values=accuracies, colour="ink", style="dots")]
    words = (
        f"The servers’ own models reach {numbers.percent(accuracies[0])} to "
        f"{numbers.percent(accuracies[-1])}."
    )
    rules: tuple[tuple[Colour, float | None, str], ...] = (
        ("blue", released, "released model"),
        ("orange", reference, "without privacy"),
    )
    for colour, value, name in rules:
        if value is not None and isfinite(value):
            label = f"{name}: {numbers.percent(value)}"
            series.append(Series(label=label, values=[value], colour=colour, style="rule"))
            words += f" {label[0].upper()}{label[1:]}."
    chart = Chart(
        x="Servers, from least to most accurate",
        y="Accuracy",
        series=tuple(series),
        scale=around(series, numbers.percent_tick),
    )
    measured = f"Measured {note}. " if note else ""
    return chart.figure(
        name="accuracy",
        heading="Accuracy, server by server",
        caption=f"{measured}The released model averages the servers’ last releases.",
        words=words,
    )


def spent_figure(spent: Sequence[float], delta: float | None) -> Figure:
    """ε of the features against other servers after each round; rounds without any guarantee are a
    band.
    """
    series = (Series(label="ε", values=spent),)
    scale = from_zero(series)
    finite = [isfinite(value) for value in spent]
    words, band = [], None
    if any(finite):
        words.append(f"The privacy loss of features against other servers goes {_course(spent)}.")
    if not all(finite):
        band = (finite.index(False) + 1, "no guarantee")
        words.append(f"From round {band[0]} on there is no guarantee.")
    sure = [(limit_epsilon(share), share) for share in _SURE] if delta else []
    low = max(scale.low, 1e-300)
    right = [(at, f"{100 * share:g}%") for at, share in sure if low <= at <= scale.high]
    chart = Chart(
        y="ε so far",
        series=series,
        scale=scale,
        right=right if any(finite) else (),
        right_is="others can be this sure",
        band=band,
    )
    return chart.figure(
        name="spent",
        heading="Privacy spent on features",
        caption="What all other servers together could learn about one person’s features grows "
        "with every round sent."
        + (
            f" ε is that at δ = {numbers.delta(delta)}; others can be as sure as on the right, "
            f"but for a chance of {numbers.delta(2 * delta)}."
            if delta
            else ""
        ),
        words=" ".join(words),
    )


def coalition_figure(lines: Sequence[LedgerRow]) -> Figure:
    """ε against the number of other servers that put together what they know."""
    colours: dict[str, Colour] = {"label": "orange", "features": "blue"}
    kinds = tuple(dict.fromkeys(line.data for line in lines if line.data in colours))
    series = tuple(
        Series(
            label=f"ε of the {kind}",
            values=[line.epsilon for line in lines if line.data == kind],
            colour=colours[kind],
        )
        for kind in kinds
    )
    delta = numbers.delta(max(line.delta for line in lines))
    chart = Chart(
        x="Other servers that collude",
        y=f"ε at δ = {delta}",
        series=series,
        scale=from_zero(series),
    )
    ends = (
        f"of the {kind} from {numbers.epsilon(curve.values[0])} against one server to "
        f"{numbers.epsilon(curve.values[-1])} against all others"
        for kind, curve in zip(kinds, series, strict=True)
    )
    return chart.figure(
        name="coalitions",
        heading="If some of them collude",
        caption="Sums are seen in one total only: whoever colludes knows their own part of it, and "
        f"the noise of all others hides the rest. {RESTS_ON}",
        words=f"The privacy loss {' and '.join(ends)}.",
    )


def agreement_figure(apart: Sequence[float], noise: Sequence[float], *, linked: bool) -> Figure:
    """The largest distance between two servers' models, and σ of the noise."""
    series = (
        Series(label="distance between models", values=apart),
        Series(label="σ of a coefficient’s noise", values=noise, colour="orange"),
    )
    which = "two most different models are"
    if linked:
        which = "two most different linked models are, after the last round the two of all"
    return Chart(y="Distance and σ", series=series, scale=from_zero(series)).figure(
        name="agreement",
        heading="Do the servers agree?",
        caption=f"How far apart the {which}, and the standard deviation σ of the noise that a "
        "server adds to each coefficient before it sends.",
        words=f"The largest distance between two servers’ models goes {_course(apart)}. "
        f"The standard deviation of the noise in each coefficient goes {_course(noise)}.",
    )


def risk_figure(risk: Sequence[float], reference: float | None) -> Figure:
    """Empirical risk round by round, and where training without privacy ends."""
    series = [Series(label="average of all models", values=risk)]
    words = f"The empirical risk goes {_course(risk)}."
    if reference is not None and isfinite(reference):
        label = "without privacy"
        series.append(Series(label=label, values=[reference], colour="orange", style="rule"))
        words += f" Training without privacy ends at {numbers.significant(reference)}."
    chart = Chart(
        y="Average loss per record", series=tuple(series), scale=around(series, numbers.tick)
    )
    return chart.figure(
        name="risk",
        heading="Is the model learning?",
        warning="Covered by no guarantee:",
        caption="computed from the records without noise: do not publish this page.",
        words=words,
    )


def _course(values: Sequence[float]) -> str:
    finite = [value for value in values if isfinite(value)]
    if not finite:
        return "unrecorded"
    ends = f"from {numbers.significant(finite[0])} to {numbers.significant(finite[-1])}"
    return f"{ends} in {numbers.count(len(values), 'round')}"


MOST_COEFFICIENTS = 20


def coefficient_figure(
    intervals: "Intervals", names: Sequence[str], classes: Sequence[Any]
) -> Figure | None:
    """Which coefficients are more than noise."""
    size = np.abs(intervals.coefficients)
    if not size.size:
        return None
    many = size.shape[1]
    order = np.argsort(-size, axis=None, kind="stable")[:MOST_COEFFICIENTS]
    rows = []
    for flat in order.tolist():
        code, column = divmod(flat, many)
        name = names[column] if names else f"column {column + 1}"
        rows.append(
            Whisker(
                name=name if len(size) == 1 else f"{classes[code]}: {name}",
                value=float(intervals.coefficients[code, column]),
                low=float(intervals.low[code, column]),
                high=float(intervals.high[code, column]),
                quiet=intervals.whole and not intervals.more_than_noise[code, column],
            )
        )
    left = f"The {len(rows)} largest of {size.size:,}. " if size.size > len(rows) else ""
    towards = f"Above zero speaks for {classes[-1]}. " if len(size) == 1 else ""
    first, apart = rows[0], ""
    if intervals.whole:
        nonzero = numbers.count(int(intervals.more_than_noise.sum()))
        apart = f"Of all {size.size:,} intervals {nonzero} do not hold zero. "
    hollow = "Hollow dots may be noise alone: their interval holds zero. " if apart else ""
    return whisker_figure(
        rows,
        x="Coefficient",
        name="coefficients",
        heading="Which of these is more than noise?"
        if apart
        else "What the last round’s noise did",
        caption=f"{left}{towards}{hollow}{apart}Intervals cover {intervals.covers}.",
        words=f"The largest coefficient is that of {first.name}, "
        f"{numbers.significant(first.value)}, with an interval from "
        f"{numbers.significant(first.low)} to {numbers.significant(first.high)}. {apart}",
    )
