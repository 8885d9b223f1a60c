"""Two figures that a chart over steps cannot draw: points on a plane, and intervals one below the
other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pdml.formatting import numbers
from pdml.pages.charts.line_chart import Scale
from pdml.pages.charts.svg import Figure, Mark, mark, number, point, shortened

_LEFT, _RIGHT, _TOP, _TALL = 56.0, 400.0, 34.0, 220.0
_BASE = _TOP + _TALL
_NAMES, _ROW, _HEAD = 160.0, 22.0, 30.0  # room for names, a row, what stands above the rows
_LONGEST = 18  # characters of a name


def plane_figure(
    points: Sequence[tuple[float, float, float]],
    across: Scale,
    up: Scale,
    *,
    x: str,
    y: str,
    **words: Any,
) -> Figure:
    """Points on a plane, with the diagonal on which both axes say the same."""

    def place(right: float, high: float) -> tuple[float, float]:
        return (
            _LEFT + across.share(right) * (_RIGHT - _LEFT),
            _BASE - up.share(high) * _TALL,
        )

    def draw() -> Iterator[Mark]:
        yield mark("text", y, x=_LEFT, y=16, class_="muted")
        for value in up.ticks():
            _, down = place(across.low, value)
            yield mark("path", d=f"M{_LEFT:g} {number(down)}H{_RIGHT:g}", class_="grid")
            yield mark("text", up.write(value), x=_LEFT - 8, y=down + 4, class_="end")
        for value in across.ticks():
            middle, _ = place(value, up.low)
            yield mark("text", across.write(value), x=middle, y=_BASE + 18, class_="middle")
        yield mark("path", d=f"M{_LEFT:g} {_TOP:g}V{_BASE:g}H{_RIGHT:g}", class_="axis")
        yield mark("text", x, x=(_LEFT + _RIGHT) / 2, y=_BASE + 38, class_="middle")
        low, high = max(across.low, up.low), min(across.high, up.high)
        both = f"M{point(*place(low, low))}L{point(*place(high, high))}"
        yield mark("path", d=both, class_="line orange")
        ordered = [place(right, high) for right, high, _ in points]
        if len(ordered) > 1:
            path = "L".join(point(*spot) for spot in ordered)
            yield mark("path", d=f"M{path}", class_="line")
        for (right, high), (_, _, weight) in zip(ordered, points, strict=True):
            yield mark("circle", cx=right, cy=high, r=3 + 6 * weight**0.5, class_="dot")

    return Figure(height=_BASE + 48, marks=tuple(draw()), **words)


@dataclass(frozen=True, kw_only=True)
class Whisker:
    """A named value and its interval."""

    name: str
    value: float
    low: float
    high: float
    quiet: bool = False  # drawn hollow: it tells nothing


def whisker_figure(rows: Sequence[Whisker], *, x: str, **words: Any) -> Figure:
    """Dots with their intervals, one below the other."""
    ends = [0.0, *(end for row in rows for end in (row.low, row.high))]
    room = 0.04 * (max(ends) - min(ends)) or 1.0
    scale = Scale(min(ends) - room, max(ends) + room)
    base = _HEAD + _ROW * len(rows) + 6

    def across(value: float) -> float:
        return _NAMES + scale.share(value) * (_RIGHT - _NAMES)

    def draw() -> Iterator[Mark]:
        yield mark("text", x, x=_NAMES, y=16, class_="muted")
        for value in scale.ticks():
            at = number(across(value))
            style = "axis" if value == 0 else "grid"
            yield mark("path", d=f"M{at} {_HEAD:g}V{number(base)}", class_=style)
            yield mark("text", numbers.tick(value), x=across(value), y=base + 18, class_="middle")
        for i, row in enumerate(rows):
            down = _HEAD + _ROW * (i + 0.5)
            style = " quiet" if row.quiet else ""
            name = shortened(row.name, _LONGEST)
            yield mark("text", name, x=_NAMES - 10, y=down + 4, class_="end")
            reach = f"M{point(across(row.low), down)}H{number(across(row.high))}"
            yield mark("path", d=reach, class_=f"line{style}")
            yield mark("circle", cx=across(row.value), cy=down, r=4, class_=f"dot{style}")

    return Figure(height=base + 26, marks=tuple(draw()), **words)
