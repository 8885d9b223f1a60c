"""One exchange of sums at a node: its row, masked or not, and what no honest row can hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml._math import report_weight
from pdml.errors import InvalidInput
from pdml.mechanisms import masks
from pdml.mechanisms.integer_gaussian import LIMIT, UNIT, Units
from pdml.mechanisms.masks import Words
from pdml.mechanisms.randomness import Source
from pdml.node.protocol.job_terms import JobTerms
from pdml.numerics.sums import statistics as core
from pdml.planning.server_spec import ServerSpec
from pdml.training import sums_release
from pdml.training.server import Server

_SIGMAS = 10  # of noise, which a whole row exceeds with a chance below 10^-16
_ROUNDING = 1e-6  # of norms, weights and sums in floating point, relative


@dataclass(frozen=True)
class SumsState:
    """Where a node stands: before its one release, or after it."""

    t: int
    sent: NDArray[Any] = field(default_factory=lambda: np.zeros((1, 0), dtype=np.int64))


class SumsNode:
    """A server that releases once, behind the methods of `pdml.training.server.Node`.

    Guarantees
    ----------
    - Its exact sums, its noise, and its row before the masks exist within `step` alone.
    - What an earlier life released is taken as it is: nothing is drawn again.
    """

    def __init__(
        self, terms: JobTerms, server: Server, source: Source, shared: Mapping[str, bytes]
    ) -> None:
        """``shared``: the secret that this node has with each other one; for masks only."""
        self._terms, self._server, self._source = terms, server, source
        self._name = terms.servers[server.spec.server]
        self._seeds = mask_seeds(terms, self._name, shared) if terms.masked else {}

    def start(self) -> SumsState:
        return SumsState(0)

    def step(self, state: SumsState, messages: list[Any]) -> tuple[SumsState, NDArray[Any]]:
        """The row that is sent, with fresh noise; it needs nothing from anybody."""
        plan = self._terms.plan
        sent: NDArray[Any] = sums_release.release_sums(
            sums_release.exact(self._server, plan), self._server, plan, self._source
        )
        if self._terms.masked:
            sent = masks.add_masks(sent, self._name, self._terms.servers, self._seeds)
        return SumsState(state.t + 1, sent[None]), sent[None]

    def replay(self, state: SumsState, messages: list[Any], released: NDArray[Any]) -> SumsState:
        return SumsState(state.t + 1, released)


def mask_seeds(terms: JobTerms, name: str, shared: Mapping[str, bytes]) -> dict[str, bytes]:
    """The seeds of the masks of ``name``, with every other server and in this job alone."""
    others = [other for other in terms.servers if other != name]
    if missing := [other for other in others if other not in shared]:
        raise InvalidInput(f"{name} has no secret in common with {missing[0]} to mask its sums by")
    return {
        other: masks.derive_seed(shared[other], job=terms.digest, server=name, other=other)
        for other in others
    }


def remove_masks(sent: Words, terms: JobTerms, name: str, shared: Mapping[str, bytes]) -> Units:
    """The row of ``name`` before its masks, which nobody but itself can know."""
    nothing = np.zeros(sent.shape, dtype=np.int64)
    mask = masks.add_masks(nothing, name, terms.servers, mask_seeds(terms, name, shared))
    return (sent - mask).view(np.int64)


def exceeds_plausible_bound(row: Units, terms: JobTerms) -> bool:
    """Whether no honest server can have sent this row of units, whatever its records are."""
    return _outside(row, LIMIT + _loudest(terms))


def inconsistent_with_record_counts(
    row: Units, terms: JobTerms, specs: Sequence[ServerSpec]
) -> bool:
    """Whether so many people cannot have the sums in this row, or in this total of rows."""
    loss = terms.plan.loss_for(terms.classes)
    farthest, least, most = 0.0, 0.0, 0.0
    for spec in specs:
        epsilon = terms.plan.counted_epsilon(spec)
        loud = core.shifts(epsilon, spec.norm_bound, loss, spec.classes)
        farthest += spec.records * max(loud.record / 2, loud.square / sqrt(2), 1.0)
        farthest += _loudest(terms)
        weights = report_weight(np.array([spec.epsilon, epsilon]), spec.classes, epsilon)
        least, most = least + spec.records * weights[0], most + spec.records * weights[1]
    slack = UNIT * len(specs)
    size = float(row.ravel()[-1]) * UNIT
    fits = (1 - _ROUNDING) * least - slack <= size <= (1 + _ROUNDING) * most + slack
    return not fits or _outside(row, (1 + _ROUNDING) * farthest + slack)


def _loudest(terms: JobTerms) -> float:
    return _SIGMAS * max(terms.plan.sum_stddevs(len(terms.servers)))


def _outside(row: Units, farthest: float) -> bool:
    return bool((np.abs(row.astype(float)) * UNIT > farthest).any())
