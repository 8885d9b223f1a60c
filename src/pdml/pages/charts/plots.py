"""The kinds of plots: series over 1, 2, 3, ... on a linear or a logarithmic scale, points on a
plane, and named values with their intervals."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log
from typing import Any, Literal

from pdml.formatting import numbers
from pdml.pages.charts.svg import WIDTH, Figure, Mark, mark, number, point, shortened

_LEFT, _TOP, _TALL = 56.0, 34.0, 200.0  # margins of the plot, and its height
_BASE = _TOP + _TALL
_RIGHT, _RIGHT_SCALE = 20.0, 52.0  # the last number of the axis needs some room
_POINTS = 400  # of one line: more cannot be told apart
_DOTTED = 12  # with fewer points than this a line alone is too little to see
_LEAST = 1e-300  # smaller values count as 0
_APART = 0.09  # of the height: closer labels would touch

Colour = Literal["blue", "orange", "ink"]  # classes of the style sheet; orange is dashed


@dataclass(frozen=True, kw_only=True)
class Series:
    """One value at each of 1, 2, 3, ...; those that are not finite are gaps. A rule has one value,
    which holds everywhere."""

    label: str
    values: Sequence[float]
    colour: Colour = "blue"
    style: Literal["line", "dots", "rule"] = "line"


@dataclass(frozen=True)
class AxisScale:
    """From values to shares of the height, with at most a dozen round numbers on the way."""

    low: float
    high: float
    logarithmic: bool = False
    write: Callable[[float], str] = numbers.tick

    def share(self, value: float) -> float:
        """0 at the bottom, 1 at the top."""
        if self.logarithmic:
            return (log(value) - log(self.low)) / (log(self.high) - log(self.low))
        return (value - self.low) / (self.high - self.low)

    def shows(self, value: float) -> bool:
        """Whether it has a place."""
        return isfinite(value) and (value > _LEAST or not self.logarithmic)

    def ticks(self) -> list[float]:
        """Round numbers between the ends."""
        if not self.logarithmic:
            return round_numbers(self.low, self.high)
        tens = [float(f"1e{k}") for k in range(_exponent(self.low), _exponent(self.high) + 1)]
        leads = (1, 2, 5) if self.high < 1000 * self.low else (1,)
        inside = [c * ten for ten in tens for c in leads if self.low <= c * ten <= self.high]
        return inside[:: 1 + len(inside) // 12]


def from_zero(series: Sequence[Series]) -> AxisScale:
    """From 0 up, or logarithmic where positive values span more than a factor of ten."""
    positive = [
        value for curve in series for value in curve.values if _LEAST < value < float("inf")
    ]
    low, high = min(positive, default=0.0), max(positive, default=0.0)
    if 0 < 10 * low < high:
        return AxisScale(low / 1.25, high * 1.25, logarithmic=True)
    return AxisScale(0.0, 1.08 * high if high > 0 else 1.0)


def around(series: Sequence[Series], write: Callable[[float], str]) -> AxisScale:
    """Just the values and some room, for what has no natural zero."""
    finite = [value for curve in series for value in curve.values if isfinite(value)]
    low, high = min(finite), max(finite)
    room = max(0.1 * (high - low), 0.01 * max(abs(low), abs(high))) or 1.0
    return AxisScale(low - room, high + room, write=write)


def round_numbers(low: float, high: float) -> list[float]:
    """At most seven multiples of 1, 2 or 5 times a power of ten."""
    ten = float(f"1e{_exponent(high - low) - 1}")
    step = next(c * ten for c in (1, 2, 5, 10, 20, 50, 100) if high - low <= 6 * c * ten)
    slack = 1e-9  # 0.9/0.1 may be a little less than 9
    return [k * step for k in range(ceil(low / step - slack), floor(high / step + slack) + 1)]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What a chart shows beside its words; `figure` draws it."""

    # What the axes are
    x: str = "Round of training"
    y: str
    series: tuple[Series, ...]  # With more than one, a legend tells them apart
    scale: AxisScale  # Of all of them
    right: Sequence[tuple[float, str]] = ()  # Values that a second scale names, and their names
    right_is: str = ""  # What that scale is
    band: tuple[int, str] | None = None  # From where on nothing is known, and the words for it

    def figure(self, **words: Any) -> Figure:
        """Draw it, with its name and words."""
        legend = tuple(self._legend()) if len(self.series) > 1 else ()
        return Figure(
            **words,
            height=_BASE + 48 + 22 * ceil(len(legend) / 4),
            marks=(*self._frame(), *self._second_scale(), *self._courses(), *legend),
        )

    @property
    def _steps(self) -> int:
        """How far the horizontal axis goes."""
        return max(1, *(len(curve.values) for curve in self.series))

    @property
    def _end(self) -> float:
        return WIDTH - (_RIGHT_SCALE if self.right else _RIGHT)

    def _across(self, step: float) -> float:
        return _LEFT + (step - 0.5) / self._steps * (self._end - _LEFT)

    def _down(self, value: float) -> float:
        return _BASE - self.scale.share(value) * _TALL

    def _frame(self) -> Iterator[Mark]:
        """Band, grid, axes and their labels."""
        if self.band:
            yield from self._shaded(*self.band)
        how = ", logarithmic" if self.scale.logarithmic else ""
        yield mark("text", self.y + how, x=_LEFT, y=16, class_="muted")
        has_values = any(isfinite(value) for curve in self.series for value in curve.values)
        for value in self.scale.ticks() if has_values else ():
            down = self._down(value)
            yield mark("path", d=f"M{_LEFT:g} {number(down)}H{number(self._end)}", class_="grid")
            yield mark("text", self.scale.write(value), x=_LEFT - 8, y=down + 4, class_="end")
        every = max(1, int(round_numbers(0, self._steps)[1]))
        for step in range(every, self._steps + 1, every):
            label = numbers.count(step)
            yield mark("text", label, x=self._across(step), y=_BASE + 18, class_="middle")
        axes = f"M{_LEFT:g} {_TOP:g}V{_BASE:g}H{number(self._end)}"
        yield mark("path", d=axes, class_="axis")
        middle = (_LEFT + self._end) / 2
        yield mark("text", self.x, x=middle, y=_BASE + 38, class_="middle")

    def _shaded(self, first: int, words: str) -> Iterator[Mark]:
        """The steps from ``first`` on, which are the chart's last ones."""
        start = self._across(first - 0.5)
        wide = self._end - start
        yield mark("rect", x=start, y=_TOP, width=wide, height=_TALL, class_="band")
        middle = (start + wide / 2, _TOP + _TALL / 2)
        turned = "" if wide > 110 else f"rotate(-90 {point(*middle)})"
        place = {"x": middle[0], "y": middle[1] + 4}
        yield mark("text", words, **place, class_="middle warn", transform=turned)

    def _second_scale(self) -> Iterator[Mark]:
        if self.right:
            yield mark("text", self.right_is, x=WIDTH - 4, y=16, class_="muted end")
        last = -1.0
        for value, label in self.right:
            share = self.scale.share(value)
            if last + _APART < share <= 1:
                down = self._down(value)
                yield mark("path", d=f"M{number(self._end)} {number(down)}h4", class_="axis")
                yield mark("text", label, x=self._end + 8, y=down + 4)
                last = share

    def _courses(self) -> Iterator[Mark]:
        for curve in self.series:
            if curve.style == "rule":
                level = point(_LEFT, self._down(curve.values[0]))
                path = f"M{level}H{number(self._end)}"
                yield mark("path", d=path, class_=f"line {curve.colour}")
            if curve.style == "line":
                yield mark("path", d=self._path(curve.values), class_=f"line {curve.colour}")
            if curve.style == "dots" or (curve.style == "line" and len(curve.values) <= _DOTTED):
                size = 3.5 if len(curve.values) <= 60 else 1.5
                for across, down in filter(None, self._places(curve.values)):
                    yield mark("circle", cx=across, cy=down, r=size, class_=f"dot {curve.colour}")

    def _places(self, values: Sequence[float]) -> Iterator[tuple[float, float] | None]:
        """Where the values stand, None where they do not; of many, as many as can be told apart."""
        every = 1 + (len(values) - 1) // _POINTS
        for i in sorted({*range(0, len(values), every), len(values) - 1} - {-1}):
            visible = self.scale.shows(values[i])
            yield (self._across(i + 1), self._down(values[i])) if visible else None

    def _path(self, values: Sequence[float]) -> str:
        """A line with gaps; a point between two gaps is one of no length, whose ends are round."""
        path, pen = [], ""
        for place in self._places(values):
            if place:
                path.append(f"{pen or 'M'}{point(*place)}{'' if pen else 'h0'}")
            pen = "L" if place else ""
        return "".join(path)

    def _legend(self) -> Iterator[Mark]:
        """Two columns below, where they cover nothing."""
        for i, curve in enumerate(self.series):
            across, down = 8 + 206 * (i % 2), _BASE + 62 + 22 * (i // 2)
            if curve.style == "dots":
                yield mark(
                    "circle", cx=across + 10, cy=down - 4, r=3.5, class_=f"dot {curve.colour}"
                )
            else:
                yield mark("path", d=f"M{across} {down - 4:g}h20", class_=f"line {curve.colour}")
            yield mark("text", curve.label, x=across + 26, y=down)


def _exponent(value: float) -> int:
    """Of ten; by way of text, where no logarithm rounds."""
    return int(f"{value:e}".partition("e")[2])


_PLANE_LEFT, _PLANE_RIGHT, _PLANE_TOP, _PLANE_TALL = 56.0, 400.0, 34.0, 220.0
_PLANE_BASE = _PLANE_TOP + _PLANE_TALL
_NAMES, _ROW, _HEAD = 160.0, 22.0, 30.0  # room for names, a row, what stands above the rows
_LONGEST = 18  # characters of a name


def plane_figure(
    points: Sequence[tuple[float, float, float]],
    across: AxisScale,
    up: AxisScale,
    *,
    x: str,
    y: str,
    **words: Any,
) -> Figure:
    """Points on a plane, with the diagonal on which both axes say the same."""

    def place(right: float, high: float) -> tuple[float, float]:
        return (
            _PLANE_LEFT + across.share(right) * (_PLANE_RIGHT - _PLANE_LEFT),
            _PLANE_BASE - up.share(high) * _PLANE_TALL,
        )

    def draw() -> Iterator[Mark]:
        yield mark("text", y, x=_PLANE_LEFT, y=16, class_="muted")
        for value in up.ticks():
            _, down = place(across.low, value)
            yield mark("path", d=f"M{_PLANE_LEFT:g} {number(down)}H{_PLANE_RIGHT:g}", class_="grid")
            yield mark("text", up.write(value), x=_PLANE_LEFT - 8, y=down + 4, class_="end")
        for value in across.ticks():
            middle, _ = place(value, up.low)
            yield mark("text", across.write(value), x=middle, y=_PLANE_BASE + 18, class_="middle")
        yield mark(
            "path",
            d=f"M{_PLANE_LEFT:g} {_PLANE_TOP:g}V{_PLANE_BASE:g}H{_PLANE_RIGHT:g}",
            class_="axis",
        )
        yield mark(
            "text", x, x=(_PLANE_LEFT + _PLANE_RIGHT) / 2, y=_PLANE_BASE + 38, class_="middle"
        )
        low, high = max(across.low, up.low), min(across.high, up.high)
        both = f"M{point(*place(low, low))}L{point(*place(high, high))}"
        yield mark("path", d=both, class_="line orange")
        ordered = [place(right, high) for right, high, _ in points]
        if len(ordered) > 1:
            path = "L".join(point(*spot) for spot in ordered)
            yield mark("path", d=f"M{path}", class_="line")
        for (right, high), (_, _, weight) in zip(ordered, points, strict=True):
            yield mark("circle", cx=right, cy=high, r=3 + 6 * weight**0.5, class_="dot")

    return Figure(height=_PLANE_BASE + 48, marks=tuple(draw()), **words)


@dataclass(frozen=True, kw_only=True)
class Whisker:
    """A named value and its interval."""

    name: str
    value: float
    low: float
    high: float
    quiet: bool = False  # drawn hollow: it tells nothing


def whisker_figure(
    rows: Sequence[Whisker], *, x: str, names: float = _NAMES, **words: Any
) -> Figure:
    """Dots with their intervals, one below the other; ``names``: how much room these have."""
    longest = int(names / _NAMES * _LONGEST)
    ends = [0.0, *(end for row in rows for end in (row.low, row.high))]
    room = 0.04 * (max(ends) - min(ends)) or 1.0
    scale = AxisScale(min(ends) - room, max(ends) + room)
    base = _HEAD + _ROW * len(rows) + 6

    def across(value: float) -> float:
        return names + scale.share(value) * (_PLANE_RIGHT - names)

    def draw() -> Iterator[Mark]:
        yield mark("text", x, x=names, y=16, class_="muted")
        for value in scale.ticks():
            at = number(across(value))
            style = "axis" if value == 0 else "grid"
            yield mark("path", d=f"M{at} {_HEAD:g}V{number(base)}", class_=style)
            yield mark("text", numbers.tick(value), x=across(value), y=base + 18, class_="middle")
        for i, row in enumerate(rows):
            down = _HEAD + _ROW * (i + 0.5)
            style = " quiet" if row.quiet else ""
            name = shortened(row.name, longest)
            yield mark("text", name, x=names - 10, y=down + 4, class_="end")
            reach = f"M{point(across(row.low), down)}H{number(across(row.high))}"
            yield mark("path", d=reach, class_=f"line{style}")
            yield mark("circle", cx=across(row.value), cy=down, r=4, class_=f"dot{style}")

    return Figure(height=base + 26, marks=tuple(draw()), **words)


@dataclass(frozen=True, kw_only=True)
class BandCurve:
    """A line with its interval at every point."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


_PANELS, _PANEL_TALL, _PANEL_HEAD, _PANEL_FOOT = 2, 110.0, 24.0, 30.0
_PANEL_LEFT, _PANEL_GAP = 34.0, 14.0


def curves_figure(curves: Sequence[BandCurve], *, y: str, **words: Any) -> Figure:
    """Curves in panels of their own, with one scale upwards."""
    ends = [0.0, *(end for curve in curves for end in (*curve.low, *curve.high))]
    room = 0.06 * (max(ends) - min(ends)) or 1.0
    scale = AxisScale(min(ends) - room, max(ends) + room)
    wide = (WIDTH - _PANEL_LEFT - _PANEL_GAP * _PANELS) / _PANELS
    step = _PANEL_HEAD + _PANEL_TALL + _PANEL_FOOT

    def panel(number_: int, curve: BandCurve) -> Iterator[Mark]:
        row, column = divmod(number_, _PANELS)
        left, top = _PANEL_LEFT + column * (wide + _PANEL_GAP), 24 + row * step + _PANEL_HEAD
        low, high = min(curve.x), max(curve.x)

        def place(x: float, value: float) -> tuple[float, float]:
            share = (x - low) / (high - low) if high > low else 0.5
            return left + share * wide, top + (1 - scale.share(value)) * _PANEL_TALL

        yield mark("text", shortened(curve.name, 26), x=left, y=top - 8)
        upper = [point(*place(*pair)) for pair in zip(curve.x, curve.high, strict=True)]
        lower = [point(*place(*pair)) for pair in zip(curve.x, curve.low, strict=True)]
        yield mark("path", d=f"M{'L'.join((*upper, *reversed(lower)))}Z", class_="band")
        for value in scale.ticks()[::2]:
            down = place(low, value)[1]
            style = "axis" if value == 0 else "grid"
            yield mark("path", d=f"M{number(left)} {number(down)}h{number(wide)}", class_=style)
            if column == 0:
                text = numbers.tick(value)
                yield mark("text", text, x=left - 6, y=down + 4, class_="end")
        middle = [point(*place(*pair)) for pair in zip(curve.x, curve.y, strict=True)]
        yield mark("path", d=f"M{'L'.join(middle)}", class_="line")
        base = top + _PANEL_TALL + 16
        yield mark("text", numbers.significant(low), x=left, y=base)
        yield mark("text", numbers.significant(high), x=left + wide, y=base, class_="end")

    marks = [mark("text", y, x=0, y=16, class_="muted")]
    for k, curve in enumerate(curves):
        marks.extend(panel(k, curve))
    return Figure(height=24 + step * ceil(len(curves) / _PANELS), marks=tuple(marks), **words)
