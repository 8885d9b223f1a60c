"""What people look at: figures and one page about a training."""

from pdml.report.page import Page, ServerRow, render, write
from pdml.report.plots import (
    accuracy_figure,
    consensus_figure,
    graph_figure,
    risk_figure,
    spent_figure,
)

__all__ = [
    "Page",
    "ServerRow",
    "accuracy_figure",
    "consensus_figure",
    "graph_figure",
    "render",
    "risk_figure",
    "spent_figure",
    "write",
]
