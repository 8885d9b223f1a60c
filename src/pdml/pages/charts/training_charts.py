"""The figures of a training: what each shows, on which scale, and in words."""

from collections.abc import Iterator, Mapping, Sequence
from math import cos, isfinite, isinf, pi, sin
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import shortest_path

from pdml._types import Array
from pdml.accounting import LedgerRow
from pdml.accounting.kinds import Adversary
from pdml.accounting.ledger_row import RESTS_ON
from pdml.accounting.profiles import limit_epsilon
from pdml.formatting import numbers
from pdml.pages.charts.plots import (
    AxisScale,
    BandCurve,
    Chart,
    Colour,
    Series,
    Whisker,
    around,
    curves_figure,
    from_zero,
    whisker_figure,
)
from pdml.pages.charts.svg import WIDTH, Figure, Mark, mark, point, shortened

if TYPE_CHECKING:
    from pdml.numerics.sums.expected_accuracy import Expectation
    from pdml.training.additive_effects import AdditiveEffect
    from pdml.training.intervals import Intervals

_SHORT: dict[str, str] = {  # beside a picture
    Adversary.OWN: "collector",
    Adversary.OTHERS: "all others",
    Adversary.TOGETHER: "all together",
}
_NAME_ROOM = 220.0
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
    band."""
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


def agreement_figure(distances: Sequence[float], noise: Sequence[float], *, linked: bool) -> Figure:
    """The largest distance between two servers' models, and σ of the noise."""
    series = (
        Series(label="distance between models", values=distances),
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
        words=f"The largest distance between two servers’ models goes {_course(distances)}. "
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


def quality_figure(
    exact: Mapping[str, float | None], expected: "Expectation | None"
) -> Figure | None:
    """Accuracies one below the other, and what is expected by what was released."""
    known = {name: value for name, value in exact.items() if value is not None and isfinite(value)}
    rows = [Whisker(name=name, value=v, low=v, high=v) for name, v in known.items()]
    if expected is not None:
        interval = expected.accuracy
        estimate = Whisker(
            name="to expect",
            value=interval.middle,
            low=interval.low,
            high=interval.high,
            quiet="released model" in known,
        )
        rows.insert("released model" in known, estimate)
    if not rows:
        return None
    shares = [
        f"{row.name} {' to '.join(dict.fromkeys(map(numbers.percent, (row.low, row.high))))}"
        for row in rows
    ]
    text = "; ".join(shares)
    bar = " The line is an 80% interval, by what was released alone." if expected else ""
    return whisker_figure(
        rows,
        x="Share of right answers",
        names=_NAME_ROOM,
        name="quality",
        heading="How good is it?",
        caption=f"{text[0].upper()}{text[1:]}.{bar}",
        words=f"Accuracies: {text}.",
    )


def certainty_figure(lines: Sequence[LedgerRow]) -> Figure:
    """How sure each party can become, from even odds on."""
    rows = [
        Whisker(
            name=f"{line.data}, {_SHORT.get(line.adversary, line.adversary)}",
            value=1.0 if isinf(line.epsilon) else line.certainty,
            low=0.5,
            high=1.0 if isinf(line.epsilon) else line.certainty,
        )
        for line in lines
    ]
    shares = [f"{row.name}: {numbers.percent(row.value)}" for row in rows]
    return whisker_figure(
        rows,
        x="How sure (1: certain)",
        names=_NAME_ROOM,
        name="certainty",
        heading="Who can become how sure of one person’s data?",
        caption="Nothing is learnt where the dot lies at 0.5, and nothing is hidden where it lies "
        "at 1.",
        words=f"{'; '.join(shares)}.",
    )


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
    first, counted = rows[0], ""
    if intervals.whole:
        nonzero = numbers.count(int(intervals.more_than_noise.sum()))
        counted = f"Of all {size.size:,} intervals {nonzero} do not hold zero. "
    hollow = "Hollow dots may be noise alone: their interval holds zero. " if counted else ""
    return whisker_figure(
        rows,
        x="Coefficient",
        name="coefficients",
        heading="Which of these is more than noise?"
        if counted
        else "What the last round’s noise did",
        caption=f"{left}{towards}{hollow}{counted}Intervals cover {intervals.covers}.",
        words=f"The largest coefficient is that of {first.name}, "
        f"{numbers.significant(first.value)}, with an interval from "
        f"{numbers.significant(first.low)} to {numbers.significant(first.high)}. {counted}",
    )


MOST_EFFECTS = 12


def effects_figure(effects: Sequence["AdditiveEffect"], classes: Sequence[Any]) -> Figure | None:
    """What each number alone does, the largest effects first."""
    if not effects:
        return None
    order = sorted(effects, key=lambda effect: -float(np.ptp(effect.margins)))[:MOST_EFFECTS]
    curves = [
        BandCurve(
            name=effect.name,
            x=effect.values.tolist(),
            y=effect.margins.tolist(),
            low=effect.low.tolist(),
            high=effect.high.tolist(),
        )
        for effect in order
    ]
    left = f"The {len(order)} largest of {len(effects)}. " if len(effects) > len(order) else ""
    first = order[0]
    return curves_figure(
        curves,
        y=f"log odds of {classes[-1]}",
        name="effects",
        heading="What each number does by itself",
        caption=f"{left}By how much it moves the log odds from where they are at the declared "
        "value, if nothing else of a person changes and their row is as long as typical ones. The "
        "band reaches 1.96 standard deviations of noise to each side, as for coefficients.",
        words=f"{first.name} moves the log odds most, by "
        f"{numbers.significant(float(np.ptp(first.margins)))} between "
        f"{numbers.significant(float(first.values[0]))} and "
        f"{numbers.significant(float(first.values[-1]))}.",
    )


NAMED_SERVERS = 40  # more names than this cover each other
MOST_LINKS = 4000  # more lines than this are a grey disc, and a page too large to send

Place = tuple[float, float]

_TALLEST = 280.0  # of the graph, without its scale
_LONGEST = 18  # characters of a name
_VIRIDIS = (
    *("#440154", "#482173", "#433e85", "#38588c", "#2d708e", "#25858e"),
    *("#1e9b8a", "#2ab07f", "#52c569", "#86d549", "#c2df23", "#fde725"),
)
_UNKNOWN = "#d5dbe1"
_LIGHT = {*_VIRIDIS[7:], _UNKNOWN}  # on these, dark text is read better


def circle(n: int) -> list[Place]:
    """Places for n servers, the first one on top; the same to the last digit everywhere."""
    turns = [2 * pi * i / n for i in range(n)]
    return [(sin(turn), cos(turn)) for turn in turns]


def graph_figure(
    names: Sequence[str],
    edges: Sequence[tuple[int, int]],
    places: Sequence[Place],
    accuracies: Sequence[float | None],
    caption: str,
) -> Figure:
    """Draw the servers where ``places`` says, coloured by accuracy if any is known."""
    finite = [value for value in accuracies if value is not None and isfinite(value)]
    scale = _accuracy_scale(finite) if finite else None
    labels = [shortened(name, _LONGEST) for name in names] if len(names) <= NAMED_SERVERS else []
    spots, tall = _fitted(places, margin=max(24, 3.4 * max(map(len, labels), default=0)))
    n_links = min(len(edges), MOST_LINKS)
    visible_edges = [edges[i * len(edges) // n_links] for i in range(n_links)]
    counts = f"{numbers.count(len(names), 'server')}, {numbers.count(len(edges), 'link')}."
    if len(visible_edges) < len(edges):
        counts += f" Of the links, {numbers.count(len(visible_edges))} are drawn."
    words = counts
    if finite:
        ends = f"{numbers.percent(min(finite))} to {numbers.percent(max(finite))}"
        words += f" Colours are the accuracies of the servers’ own models, {ends}."
    return Figure(
        name="graph",
        heading="Who talks to whom",
        caption=f"{counts} {caption}",
        words=words,
        height=tall + (62 if scale else 0),
        marks=(
            _links(spots, visible_edges),
            *_servers(spots, labels, [_colour(scale, value) for value in accuracies]),
            *(_legend(scale, tall) if scale else ()),
        ),
    )


def _fitted(places: Sequence[Place], margin: float) -> tuple[list[Place], float]:
    """Places on the canvas, as large as they can be without changing the shape, and its height."""
    lows = [min(place[k] for place in places) for k in (0, 1)]
    spans = [max(place[k] for place in places) - lows[k] for k in (0, 1)]
    room = (WIDTH - 2 * margin, _TALLEST - 64)
    scale = min((room[k] / spans[k] for k in (0, 1) if spans[k] > 1e-9), default=0.0)
    left, below = (WIDTH - scale * spans[0]) / 2, 26 + scale * spans[1]
    spots = [(left + scale * (x - lows[0]), below - scale * (y - lows[1])) for x, y in places]
    return spots, below + 38


def _links(spots: Sequence[Place], edges: Sequence[tuple[int, int]]) -> Mark:
    """All as one path."""
    width = 1.4 if len(edges) <= 100 else 0.8 if len(edges) <= 1500 else 0.4
    path = "".join(f"M{point(*spots[i])}L{point(*spots[k])}" for i, k in edges)
    return mark("path", d=path, class_="link", stroke_width=width)


def _servers(spots: Sequence[Place], labels: list[str], colours: list[str]) -> Iterator[Mark]:
    """Circles, with short names inside and longer ones below."""
    inside = bool(labels) and max(map(len, labels)) <= 3
    size = 14.0 if inside else 7.0 if labels else 4.0 if len(spots) <= 200 else 2.5
    edge = 1.5 if len(spots) <= 200 else 0.3  # of many, wide edges would cover the neighbours
    for (across, down), colour in zip(spots, colours, strict=True):
        place = {"cx": across, "cy": down, "r": size, "stroke_width": edge}
        yield mark("circle", **place, class_="server", fill=colour)
    for (across, down), label, colour in zip(spots, labels, colours, strict=False):
        light = " on-light" if colour in _LIGHT else ""
        style = f"middle inside{light}" if inside else "middle halo"
        yield mark("text", label, x=across, y=down + (4 if inside else size + 14), class_=style)


def _accuracy_scale(accuracies: Sequence[float]) -> AxisScale:
    middle = (max(accuracies) + min(accuracies)) / 2
    half = max((max(accuracies) - min(accuracies)) / 2, 0.002)
    return AxisScale(middle - half, middle + half, write=numbers.percent_tick)


def _colour(scale: AxisScale | None, value: float | None) -> str:
    """ "" is the style sheet's."""
    if scale is None:
        return ""
    if value is None or not isfinite(value):
        return _UNKNOWN
    return _VIRIDIS[min(int(len(_VIRIDIS) * scale.share(value)), len(_VIRIDIS) - 1)]


def _legend(scale: AxisScale, top: float) -> Iterator[Mark]:
    """What the colours mean."""
    left, wide = 60.0, WIDTH - 120.0
    step = wide / len(_VIRIDIS)
    for i, colour in enumerate(_VIRIDIS):
        yield mark("rect", x=left + i * step, y=top + 4, width=step + 0.5, height=10, fill=colour)
    for value in scale.ticks():
        across = left + wide * scale.share(value)
        yield mark("text", scale.write(value), x=across, y=top + 32, class_="middle")
    words = "Accuracy of the server’s own model"
    yield mark("text", words, x=WIDTH / 2, y=top + 52, class_="middle")


_STEPS = 60


def positions(n: int, edges: Sequence[tuple[int, int]]) -> Array:
    """(n, 2) coordinates, centred, the longest direction about horizontal; the same input gives the
    same picture."""
    if 4 * len(edges) > n * (n - 1) and n > 2:
        return np.array(
            circle(n)
        )  # where nearly everybody talks to everybody, distances say nothing
    if n == 1:
        return np.zeros((1, 2))
    hops = _hops(n, edges)
    weights = 1 / np.where(hops > 0, hops, 1) ** 2
    np.fill_diagonal(weights, 0)
    inverse = np.linalg.inv(np.diag(weights.sum(axis=1)) - weights + 1 / n)
    wanted = weights * hops
    points = _start(hops)
    for _ in range(_STEPS):
        across, up = (column[:, None] - column for column in np.ascontiguousarray(points.T))
        pull = -wanted / np.sqrt(np.maximum(across * across + up * up, 1e-18))
        np.fill_diagonal(pull, 0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        points = inverse @ (pull @ points)
    points -= points.mean(axis=0)
    return np.asarray(np.where(points[0] > 0, -points, points))  # server 0 on the left and below


def _hops(n: int, edges: Sequence[tuple[int, int]]) -> Array:
    """Links between every two servers; servers that cannot reach each other are drawn one step
    beyond the farthest pair."""
    pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    adjacency = sparse.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    hops = np.asarray(shortest_path(adjacency, directed=False, unweighted=True))
    reached = np.isfinite(hops)
    return np.where(reached, hops, hops[reached].max() + 1)


def _start(hops: Array) -> Array:
    """Classical scaling, nudged along a spiral so that servers with the same neighbours do not
    start on one spot."""
    squares = hops**2
    gram = -(squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()) / 2
    values, vectors = linalg.eigh(gram, subset_by_index=[len(hops) - 2, len(hops) - 1])
    turn = np.arange(len(hops)) * 2.4
    nudge = 1e-3 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return np.asarray(vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 1e-9)) + nudge)
