"""The operator's page: one collection at a glance, from totals alone. It runs no script, and
reloads itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pdml.collector.intake.intake import Summary
from pdml.formatting import numbers
from pdml.mechanisms.label_flip import MILLION
from pdml.pages.charts.svg import Figure, Mark, mark
from pdml.pages.operator_numbers import LEAST, Outlook
from pdml.pages.render import document
from pdml.study.messages import PROBLEMS

_WIDE, _LEFT, _BASE, _TALL = 900, 68, 160, 140  # the bars: canvas, left margin, foot and height


@dataclass(frozen=True, kw_only=True)
class OperatorPage:
    """Everything that the page shows: the context of ``operator.html``."""

    summary: Summary
    preview: Outlook
    reload: int = 30  # seconds
    least: int = LEAST  # reports before anything is estimated

    @property
    def state(self) -> str:
        """Whether reports are taken, in words."""
        if self.summary.state == "open" and not self.summary.in_window:
            return "outside its opening times"
        return str(self.summary.state)

    @property
    def taken(self) -> str:
        return f"{datetime.fromtimestamp(self.summary.taken_at, UTC):%Y-%m-%d %H:%M:%S}"

    @property
    def over_budget(self) -> list[str]:
        """The kinds of data for which the plan would spend too much."""
        return [row.data for row in self.preview.spending if row.planned > row.allowed]

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


def render(summary: Summary, preview: Outlook) -> str:
    """The whole document: the same totals give the same page.

    Parameters
    ----------
    summary : Summary
        The collection's totals.
    preview : Outlook
        What could be trained with them.

    Returns
    -------
    str
        HTML.
    """
    return document("operator.html", OperatorPage(summary=summary, preview=preview))


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
