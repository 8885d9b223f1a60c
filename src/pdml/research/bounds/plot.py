"""Bounds as curves over the number of records or over R."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from pdml.research.bounds import corrected, printed, sharper
from pdml.research.bounds.setting import Setting
from pdml.research.paper.figure_style import BLUE, INK, MUTED, ORANGE, PAPER, drawing

AGAINST = {"records": "records per server (m)", "bound": "bound of the objective's noise (R)"}
_POINTS = 41


def draw(setting: Setting, against: str, path: Path, kind: str) -> None:
    """Corollary 1 in all variants and the sharper one's terms, from a hundredth to a hundred times
    the setting, as ``kind`` png or svg.
    """
    from matplotlib.figure import Figure

    factors = np.geomspace(0.01, 100, _POINTS)
    if against == "records":
        settings = [
            replace(setting, records=tuple(max(1, round(m * f)) for m in setting.records))
            for f in factors
        ]
        places = [float(np.mean(s.records)) for s in settings]
    else:
        middle = setting.objective_bound or 1.0
        settings = [replace(setting, objective_bound=middle * f) for f in factors]
        places = [s.objective_bound for s in settings]
    with drawing("bound"):
        figure = Figure(figsize=(8, 4.5), layout="constrained", facecolor=PAPER)
        axes = figure.subplots()
        for room, colour in ((printed, MUTED), (corrected, ORANGE), (sharper, BLUE)):
            bounds = [room.corollary1(s) for s in settings]
            axes.plot(places, [b.total for b in bounds], color=colour, label=room.VARIANT)
        for term, style in (("labels", "--"), ("objective", ":")):
            values = [getattr(b, term) for b in bounds]
            if max(values) > 0:
                axes.plot(places, values, style, color=BLUE, label=f"sharper: {term}")
        caption = f"loss at w = 0: {setting.zero_loss:.2f}"
        axes.axhline(setting.zero_loss, color=INK, linewidth=0.8, label=caption)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel=AGAINST[against],
            ylabel="bound on the excess risk (Corollary 1)",
        )
        # beside the axes: no curve can run through it
        figure.legend(frameon=False, loc="outside right upper")
        figure.savefig(
            path, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None
        )
