"""Figures of a training, as SVG text. Each says in words what it shows, for people who do not see
it.

Matplotlib's object interface only, imported when first needed: no window, no pyplot, no setting of
the user's changed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdml._types import Array
from pdml.errors import InvalidInput
from pdml.report import axes as parts
from pdml.report import layout, numbers
from pdml.report.svg import (
    BLUE,
    HALO,
    INK,
    LINK,
    NODE,
    NODE_MISSING,
    ON_DARK,
    ON_LIGHT,
    ORANGE,
    PAPER,
    SAND,
    drawing,
    export,
    line_of_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED_SERVERS = 40  # more names than this cover each other
DRAWN_LINKS = 4000  # more lines than this are a grey disc, and a page too large to send


def risk_figure(risk: Any, reference: float | None = None) -> str:
    """Empirical risk round by round, and where training without privacy ends."""
    values = _rounds("risk", risk)
    if not np.isfinite(values).any():
        raise InvalidInput(
            "risk must hold at least one finite number, got none: it is recorded only if "
            "diagnostics are asked for"
        )
    with drawing("risk"):
        figure, axes = parts.canvas("Average loss per record")
        parts.line(
            axes, np.where(np.isfinite(values), values, np.nan), BLUE, "average of all models"
        )
        words = f"The empirical risk goes {_course(values)}."
        if reference is not None and np.isfinite(reference):
            axes.axhline(reference, color=ORANGE, linestyle=parts.DASHES, label="without privacy")
            parts.legend(figure)
            words += f" Training without privacy ends at {numbers.significant(reference)}."
        return export(figure, "risk", "Empirical risk by round", words)


def consensus_figure(consensus: Any, noise: Any) -> str:
    """Largest distance between two servers' models, and σ of the noise, on a logarithmic scale."""
    apart, added = _rounds("consensus", consensus), _rounds("noise", noise)
    if len(apart) != len(added):
        raise InvalidInput(
            f"consensus and noise must have one value per round each, got {len(apart)} and "
            f"{len(added)}"
        )
    with drawing("consensus"):
        figure, axes = parts.canvas("Distance and σ, on a logarithmic scale")
        positive = [
            np.where(np.isfinite(values) & (values > 0), values, np.nan)
            for values in (apart, added)
        ]
        shown = np.concatenate([values[np.isfinite(values)] for values in positive])
        if shown.size:
            parts.logarithmic(axes, shown)
            labels = ("distance between models", "noise in each coefficient (σ)")
            for values, colour, label in zip(positive, (BLUE, ORANGE), labels, strict=True):
                if np.isfinite(values).any():
                    parts.line(axes, values, colour, label, dashed=colour == ORANGE)
            parts.legend(figure)
        else:
            parts.without_scale(axes, len(apart), "the models are equal and no noise was added")
        words = (
            f"The largest distance between two servers’ models goes {_course(apart)}. "
            f"The standard deviation of the noise in each coefficient goes {_course(added)}."
        )
        return export(figure, "consensus", "Agreement between the servers by round", words)


def spent_figure(spent: Any, delta: float | None = None) -> str:
    """ε of the features against other servers after each round; rounds without any guarantee are a
    band.
    """
    values = _rounds("spent", spent)
    known = np.isfinite(values)
    with drawing("spent"):
        figure, axes = parts.canvas(
            "ε so far" if delta is None else f"ε so far (δ = {numbers.delta(delta)})"
        )
        words = ""
        if known.any():
            top = float(values[known].max())
            scaled = np.where(known, values, np.nan)
            if top > 10:
                scaled = np.where(known, np.maximum(values, top / 1e4), np.nan)
                parts.logarithmic(axes, scaled[known])
            else:
                axes.set_ylim(0, 1.08 * top if top > 0 else 1.0)
            parts.line(axes, scaled, BLUE, "ε")
            if delta:
                parts.how_sure(axes, delta)
            words = f"The privacy loss of features against other servers goes {_course(values)}."
        else:
            parts.without_scale(axes, len(values), "")
        if not known.all():
            first = int(np.argmin(known)) + 1
            _band(axes, first, len(values), "no guarantee")
            words += f" From round {first} on there is no guarantee."
        return export(figure, "spent", "Privacy spent by round", words.strip())


def _band(axes: "Axes", first: int, last: int, words: str) -> None:
    """Shade the rounds from ``first`` to ``last``, which are the plot's last ones."""
    narrow = (last - first + 1) / last < 0.3
    axes.axvspan(first - 0.5, last + 0.5, color=SAND, linewidth=0)
    axes.text(
        (first + last) / 2,
        0.5,
        words,
        transform=axes.get_xaxis_transform(),
        color=ORANGE,
        ha="center",
        va="center",
        rotation=90 if narrow else 0,
    )


def accuracy_figure(
    servers: Sequence[float | None], released: float | None = None, reference: float | None = None
) -> str:
    """Accuracy of every server's own model in order, against the released model and one trained
    without privacy.
    """
    values = np.sort(_optional(servers))
    values = values[np.isfinite(values)]
    lines = _optional([released, reference])
    everything = np.concatenate([values, lines[np.isfinite(lines)]])
    if not everything.size:
        raise InvalidInput("an accuracy must be known to be drawn, got none")
    with drawing("accuracy"):
        figure, axes = parts.canvas("Accuracy", x="Servers, from least to most accurate")
        words = f"The servers’ own models reach {_range(values)}." if len(values) else ""
        for value, colour, name in zip(
            lines.tolist(), (BLUE, ORANGE), ("released model", "without privacy"), strict=True
        ):
            if np.isfinite(value):
                label = f"{name}: {numbers.percent(value)}"
                axes.axhline(
                    value,
                    color=colour,
                    linestyle=parts.DASHES if colour == ORANGE else "solid",
                    label=label,
                )
                words += f" {label[0].upper()}{label[1:]}."
        if len(values):
            size = 7 if len(values) <= 60 else 2.5
            axes.plot(
                np.arange(1, len(values) + 1),
                values,
                "o",
                color=INK,
                markersize=size,
                label="one server’s own model",
            )
        if len(values) <= 1:
            axes.set_xticks([])
        pad = max(0.004, 0.15 * float(np.ptp(everything)))
        axes.set_ylim(everything.min() - pad, everything.max() + pad)
        axes.set_xlim(0.5, max(len(values), 1) + 0.5)
        axes.yaxis.set_major_formatter(parts.labels(numbers.percent_tick))
        parts.legend(figure)
        return export(figure, "accuracy", "Accuracy of the servers’ models", words.strip())


def graph_figure(
    n: int,
    edges: Sequence[tuple[int, int]],
    values: Sequence[float | None] | None = None,
    names: Sequence[str] | None = None,
) -> str:
    """Who talks to whom. ``values`` are accuracies that colour the servers; names are written for
    up to 40 of them.
    """
    pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    if n < 1 or (pairs.size and not 0 <= pairs.min() <= pairs.max() < n):
        raise InvalidInput(f"edges must join servers 0 to {n - 1}")
    for name, given in (("values", values), ("names", names)):
        if given is not None and len(given) != n:
            raise InvalidInput(
                f"{name} must have one entry for each of the {n} servers, got {len(given)}"
            )
    accuracies = _optional(values if values is not None else [None] * n)
    labels = (
        []
        if n > NAMED_SERVERS
        else [line_of_text(name, 18) for name in (map(str, range(n)) if names is None else names)]
    )
    with drawing("graph"):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.6, 4.6), layout="constrained", facecolor="none")
        axes = figure.add_subplot()
        axes.set_axis_off()
        points = layout.positions(n, [(i, j) for i, j in pairs.tolist()])
        shown = (
            pairs
            if len(pairs) <= DRAWN_LINKS
            else pairs[np.linspace(0, len(pairs) - 1, DRAWN_LINKS).astype(int)]
        )
        _links(axes, points[shown])
        _nodes(axes, points, _colours(figure, axes, accuracies), labels)
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.08)
        words = f"{numbers.count(n, 'server')} joined by {numbers.count(len(pairs), 'link')}."
        if len(shown) < len(pairs):
            words += f" Only {numbers.count(len(shown))} of the links are drawn."
        if np.isfinite(accuracies).any():
            words += (
                " Colours are the accuracies of the servers’ own models, "
                f"{_range(accuracies[np.isfinite(accuracies)])}."
            )
        return export(figure, "graph", "Who talks to whom", words)


def _links(axes: "Axes", ends: Array) -> None:
    """All links as one path: (E, 2, 2) end points."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    width = 1.4 if len(ends) <= 100 else 0.8 if len(ends) <= 1500 else 0.4
    path = Path(ends.reshape(-1, 2), [Path.MOVETO, Path.LINETO] * len(ends))
    axes.add_patch(PathPatch(path, fill=False, edgecolor=LINK, linewidth=width))


def _colours(figure: "Figure", axes: "Axes", accuracies: Array) -> list[str]:
    """One colour per server, with a scale below if they mean something; grey where an accuracy is
    missing among others.
    """
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_hex

    known = accuracies[np.isfinite(accuracies)]
    if not known.size:
        return [NODE] * len(accuracies)
    middle, half = float(known.max() + known.min()) / 2, max(float(np.ptp(known)) / 2, 0.002)
    scale, colours = Normalize(middle - half, middle + half), colormaps["viridis"].resampled(12)
    bar = figure.colorbar(
        ScalarMappable(scale, colours),
        ax=axes,
        orientation="horizontal",
        fraction=0.045,
        pad=0.05,
        aspect=30,
    )
    bar.outline.set_visible(False)
    bar.ax.xaxis.set_major_formatter(parts.labels(numbers.percent_tick))
    bar.ax.xaxis.set_major_locator(parts.ticks(5))
    bar.ax.tick_params(length=3)
    bar.set_label("Accuracy of the server’s own model")
    return [
        to_hex(colours(float(scale(value)))) if np.isfinite(value) else NODE_MISSING
        for value in accuracies.tolist()
    ]


def _nodes(axes: "Axes", points: Array, colours: list[str], labels: list[str]) -> None:
    """Circles, with short names inside and longer ones below."""
    n = len(points)
    inside = max((len(label) for label in labels), default=0) <= 3
    size = 480 if labels and inside else 170 if n <= NAMED_SERVERS else 60 if n <= 200 else 22
    axes.scatter(
        points[:, 0],
        points[:, 1],
        s=size,
        c=colours,
        edgecolors=PAPER,
        linewidths=1.5 if n <= 200 else 0.4,
        zorder=2,
    )
    for point, label, colour in zip(points.tolist(), labels, colours, strict=False):
        axes.annotate(
            label,
            point,
            (0, 0 if inside else -9),
            textcoords="offset points",
            ha="center",
            va="center_baseline" if inside else "top",
            color=INK if not inside else ON_DARK if _is_dark(colour) else ON_LIGHT,
            fontsize=12 if n <= 15 else 10,
            parse_math=False,
            gid=None if inside else HALO,
        )


def _is_dark(colour: str) -> bool:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return 0.3 * red + 0.59 * green + 0.11 * blue < 130


def _rounds(name: str, values: Any) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not array.size:
        raise InvalidInput(f"{name} must hold one number per round, got shape {array.shape}")
    return array


def _optional(values: Sequence[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _course(values: Array) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return "unrecorded"
    return (
        f"from {numbers.significant(known[0])} to {numbers.significant(known[-1])} in "
        f"{numbers.count(len(values), 'round')}"
    )


def _range(values: Array) -> str:
    return f"{numbers.percent(values.min())} to {numbers.percent(values.max())}"
