"""Servers that tests make from a graph and records."""

from pdml.planning.server_spec import RowSpec, TrainingTerms
from pdml.training.server import Server


def make_server(graph, i, matrix, codes, *, epsilons, classes=2, norm_bound=1.0, pooled=None):
    """Server ``i`` of ``graph``; its sizes are those of its records."""
    records, width = matrix.shape
    rows = RowSpec(width=width, classes=classes, norm_bound=norm_bound)
    spec = TrainingTerms.over(graph, rows).server_spec(i, records=records, epsilons=epsilons)
    return Server(spec, matrix, codes, pooled)
