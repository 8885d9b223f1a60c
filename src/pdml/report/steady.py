"""Figures whose bytes are the same on every machine: the page of a result is compared byte by byte.

Matplotlib's text depends on its version and on the fonts it finds, and layouts by linear algebra on
the processor. Here are only sums, one logarithm and one sine, rounded to a tenth of a point.
"""

from collections.abc import Sequence
from math import cos, isfinite, log, pi, sin

from pdml.report import numbers
from pdml.report.html import text
from pdml.report.svg import (
    BLUE,
    GRID,
    INK,
    LINK,
    MUTED,
    NAMESPACE,
    NODE,
    ORANGE,
    PAPER,
    line_of_text,
)

WIDTH, HEIGHT = 560, 380
NAMED_SERVERS = 40  # more names than this cover each other
DRAWN_LINKS = 4000
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 18, 40, 84  # margins of a plot
_POINTS = 400  # of one line
_COLOURS = (BLUE, ORANGE)
_LEAST = 1e-300  # smaller values are drawn as 0

Line = tuple[str, Sequence[float]]  # what it shows, and one value per round
Edge = tuple[int, int]


def rounds_figure(kind: str, heading: str, words: str, y: str, lines: Sequence[Line]) -> str:
    """One or two lines by round, on a logarithmic scale if they span more than a factor of ten.

    Parameters
    ----------
    kind : str
        A short name, for ids.
    heading : str
        What it shows.
    words : str
        The same for people who do not see it.
    y : str
        What the values are.
    lines : sequence of (str, sequence of float)
        Values that are not finite are gaps; on a logarithmic scale so are those at or below 0.

    Returns
    -------
    str
        SVG.
    """
    scale = _Scale([value for _, values in lines for value in values])
    rounds = max(len(values) for _, values in lines)
    parts = [_text(_LEFT, 20, y, MUTED, "start")]
    for value in scale.ticks:
        line = f"M{_LEFT} {_number(scale.place(value))}H{WIDTH - _RIGHT}"
        parts.append(_stroke(line, GRID, 1))
        parts.append(_text(_LEFT - 8, scale.place(value) + 4, numbers.tick(value), INK, "end"))
    for t in _round_ticks(rounds):
        parts.append(_text(_across(t, rounds), HEIGHT - _BOTTOM + 20, f"{t:,}", INK, "middle"))
    axis = f"M{_LEFT} {_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(_stroke(axis, MUTED, 1))
    parts.append(_text(middle, HEIGHT - _BOTTOM + 42, "Round of training", INK, "middle"))
    for i, (label, values) in enumerate(lines):
        dashes = "; stroke-dasharray: 9 5" * (i % 2)
        parts.append(_stroke(_course(values, scale, rounds), _COLOURS[i % 2], 2.2, dashes))
        if len(lines) > 1:
            start, height = 80 + 240 * i, HEIGHT - 16
            parts.append(_stroke(f"M{start} {height - 4}h26", _COLOURS[i % 2], 2.2, dashes))
            parts.append(_text(start + 34, height, label, INK, "start"))
    return _svg(kind, heading, words, parts)


def graph_figure(heading: str, words: str, names: Sequence[str], edges: Sequence[Edge]) -> str:
    """Who talks to whom, on a circle in the order of the study.

    Parameters
    ----------
    heading : str
        What it shows.
    words : str
        The same for people who do not see it.
    names : sequence of str
        Of the servers; written for up to 40 of them.
    edges : sequence of (int, int)
        Links between their indices; the first 4,000 are drawn.

    Returns
    -------
    str
        SVG.
    """
    turn, radius = 2 * pi / len(names), HEIGHT / 2 - 46
    turns = [i * turn for i in range(len(names))]
    places = [(WIDTH / 2 + radius * sin(x), HEIGHT / 2 - radius * cos(x)) for x in turns]
    path = "".join(f"M{_point(places[i])}L{_point(places[k])}" for i, k in edges[:DRAWN_LINKS])
    parts = [_stroke(path, LINK, 1.4 if len(edges) <= 100 else 0.6)]
    size = 9 if len(names) <= NAMED_SERVERS else 4
    for (across, down), name in zip(places, names, strict=True):
        place = f'cx="{_number(across)}" cy="{_number(down)}" r="{size}"'
        parts.append(f'<circle {place} style="fill: {NODE}; stroke: {PAPER}; stroke-width: 1.5"/>')
        if len(names) <= NAMED_SERVERS:
            below = down + (24 if down > HEIGHT / 2 - 1 else -15)
            parts.append(_text(across, below, line_of_text(name, 18), INK, "middle"))
    return _svg("graph", heading, words, parts)


class _Scale:
    """From values to heights."""

    def __init__(self, values: Sequence[float]) -> None:
        known = [value for value in values if isfinite(value)]
        positive = [value for value in known if value > _LEAST]
        low, high = min(positive, default=0.0), max(positive, default=0.0)
        self.logarithmic = 0 < 10 * low < high
        if self.logarithmic:
            self.low, self.high = low / 1.25, high * 1.25
            tens = [float(f"1e{k}") for k in range(_exponent(low) - 1, _exponent(high) + 2)]
            marks = [c * ten for ten in tens for c in ((1, 2, 5) if high < 1000 * low else (1,))]
            inside = [value for value in marks if self.low <= value <= self.high]
            self.ticks = inside[:: 1 + len(inside) // 12]
        else:
            self.low, self.high = 0.0, 1.08 * high if high > 0 else 1.0
            self.ticks = _steps(self.high)

    def place(self, value: float) -> float:
        share = value / self.high
        if self.logarithmic:
            share = (log(value) - log(self.low)) / (log(self.high) - log(self.low))
        return HEIGHT - _BOTTOM - share * (HEIGHT - _BOTTOM - _TOP)

    def shows(self, value: float) -> bool:
        return isfinite(value) and (value > _LEAST or not self.logarithmic)


def _exponent(value: float) -> int:
    """Of ten; by way of text, where no logarithm rounds."""
    return int(f"{value:e}".partition("e")[2])


def _steps(high: float) -> list[float]:
    """0 and at most five more round numbers up to ``high``."""
    ten = float(f"1e{_exponent(high) - 1}")
    step = next(c * ten for c in (1, 2, 5, 10, 20, 50) if high <= 6 * c * ten)
    return [k * step for k in range(int(high / step) + 1)]


def _round_ticks(rounds: int) -> list[int]:
    step = max(1, int(_steps(float(rounds))[1]))
    return list(range(step, rounds + 1, step))


def _across(t: int, rounds: int) -> float:
    return _LEFT + (t - 0.5) / rounds * (WIDTH - _RIGHT - _LEFT)


def _course(values: Sequence[float], scale: _Scale, rounds: int) -> str:
    """A path with gaps; of many rounds, as many as can be told apart."""
    every = 1 + (len(values) - 1) // _POINTS
    chosen = sorted({*range(0, len(values), every), len(values) - 1})
    path, drawing = [], False
    for i in chosen:
        shown = scale.shows(values[i])
        if shown:
            here = (_across(i + 1, rounds), scale.place(values[i]))
            path.append(("L" if drawing else "M") + _point(here))
        drawing = shown
    return "".join(path) if len(path) != 1 else path[0] + "h3"


def _number(value: float) -> str:
    return f"{round(value, 1) + 0.0:g}"


def _point(place: tuple[float, float]) -> str:
    return f"{_number(place[0])} {_number(place[1])}"


def _stroke(path: str, colour: str, width: float, more: str = "") -> str:
    style = f"fill: none; stroke: {colour}; stroke-width: {width:g}{more}"
    return f'<path d="{path}" style="{style}"/>'


def _text(across: float, down: float, words: str, colour: str, anchor: str) -> str:
    place = f'x="{_number(across)}" y="{_number(down)}" text-anchor="{anchor}"'
    return f'<text {place} style="fill: {colour}; font-size: 13px">{text(words)}</text>'


def _svg(kind: str, heading: str, words: str, parts: Sequence[str]) -> str:
    said = f'role="img" aria-label="{text(heading)}" aria-describedby="{kind}-desc"'
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    look = 'font-family="system-ui, sans-serif" stroke-linejoin="round"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="{NAMESPACE}" {size} {said} {look}>'
        f'<title>{text(heading)}</title><desc id="{kind}-desc">{text(words)}</desc>\n{body}\n</svg>'
    )
