"""Records of a simulation dealt out to servers: classes, who holds what."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml._types import Array, IntArray, Matrix
from pdml.errors import DataError, InvalidInput
from pdml.mechanisms.randomness import DEAL, Source
from pdml.numerics.admm import labels, rows, steps
from pdml.planning.server_spec import ServerSpec, TrainingTerms
from pdml.planning.training_plan import TrainingPlan
from pdml.training.server import Server


def classes_of(declared: Any, y: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    """The classes, declared or found (None), and each record's index among them."""
    if declared is None:
        distinct, index = np.unique(y, return_inverse=True)
        if len(distinct) < 2:
            raise DataError("y holds only one class; a classifier needs at least two")
        return distinct, index
    classes = np.asarray(declared)
    names = classes.tolist() if classes.ndim == 1 else []
    index_of = {name: k for k, name in enumerate(names)}
    if len(index_of) < max(2, len(names)):
        raise InvalidInput(f"classes must be two or more different names, got {declared!r}")
    index = np.fromiter((index_of.get(value, -1) for value in y.tolist()), np.int64, len(y))
    if (index < 0).any():  # the record's number, never its label
        row = int(np.argmin(index)) + 1
        raise DataError(f"y must hold one of the declared classes, got another at record {row}")
    return classes, index


def groups_of(
    servers: Any, total: int, n_servers: int, source: Source
) -> tuple[IntArray, IntArray]:
    """Which records belong to which server, as an order of the records and the cuts between
    servers; None deals them out.
    """
    if servers is None:
        if total < n_servers:
            raise DataError(
                f"n_samples={total} records cannot be dealt to n_servers={n_servers}: every "
                "server needs at least one"
            )
        return rows.partition_records(total, n_servers, source.public(DEAL))
    owner = np.asarray(servers)
    if owner.shape != (total,) or not np.issubdtype(owner.dtype, np.integer):
        raise InvalidInput(f"servers must hold one server index per record ({total} of them)")
    sizes = np.bincount(owner, minlength=n_servers) if (owner >= 0).all() else np.zeros(0)
    if len(sizes) != n_servers or (sizes == 0).any():
        raise InvalidInput(f"servers must use every index from 0 to {n_servers - 1} and no other")
    return np.argsort(owner, kind="stable"), np.cumsum([0, *sizes]).astype(np.int64)


def specs_of(terms: TrainingTerms, epsilons: Array, cuts: IntArray) -> tuple[ServerSpec, ...]:
    """Every server's, where records are in the order of their servers."""
    return tuple(
        terms.server_spec(i, records=b - a, epsilons=_used(epsilons[a:b]))
        for i, (a, b) in enumerate(pairwise(cuts.tolist()))
    )


def _used(epsilons: Array) -> list[float]:
    """The different ones; mostly there is one, and no need to sort."""
    if (epsilons == epsilons[0]).all():
        return [float(epsilons[0])]
    return list(np.unique(epsilons).tolist())


def servers_of(
    specs: Sequence[ServerSpec],
    pooled: Matrix,
    cuts: IntArray,
    reported: IntArray,
    epsilons: Array,
) -> list[Server]:
    """Prepared records and reported labels, dealt out to their servers."""
    codes = labels.codes(reported, epsilons, specs[0].classes)
    return [
        Server(spec, rows.take(pooled, a, b), codes[a:b], pooled)
        for spec, (a, b) in zip(specs, pairwise(cuts.tolist()), strict=True)
    ]


def risks(plan: TrainingPlan, members: Sequence[Server], points: Array) -> Array:
    """(1/n) Σ_i Ĵ_i at the average release of each round: computed from records, without noise."""
    loss = plan.loss_for(members[0].spec.classes)
    weight = plan.regularization / len(members)
    terms = (
        steps.risk(s.matrix, loss, labels.label_mean(s.matrix, s.codes, loss), weight, points)
        for s in members
    )
    return np.asarray(sum(terms) / len(members))
