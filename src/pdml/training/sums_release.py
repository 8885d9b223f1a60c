"""One server's part in one exchange of sums (docs/concepts/sums.md).

A release is one row of whole numbers (units of 2^-24): Q_i row by row, the upper triangle of S_i
row by row, and V_i, which depends on nobody's answers and has no noise. Totals of such rows are
exact in whatever order they are added, masked or not.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from pdml._types import Array
from pdml.errors import InvalidInput
from pdml.mechanisms import integer_gaussian
from pdml.mechanisms.integer_gaussian import LIMIT, Units
from pdml.mechanisms.randomness import SUMS, Source
from pdml.numerics.sums import statistics
from pdml.numerics.sums.local_model import fit_by_own_reports
from pdml.numerics.sums.statistics import Sums
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan
from pdml.training.server import Server

WIDEST = 20_000  # columns: from there on S_i alone fills gigabytes at every server


@dataclass(frozen=True, kw_only=True)
class SumsExchange:
    """What came out of one exchange of sums."""

    released: Units  # (n, length): what would leave the servers
    local_models: tuple[Array, ...] = ()  # weights (C, d), which would stay with each

    @property
    def total(self) -> Units:
        return np.asarray(self.released.sum(axis=0))


def length(codes: int, width: int) -> int:
    """How many numbers a release has, for C codes and d columns."""
    return codes * width + width * (width + 1) // 2 + 1


def exact(server: Server, plan: TrainingPlan) -> Sums:
    """The server's own sums: they never leave it."""
    check_sums(server.spec, plan)
    loss = plan.loss_for(server.spec.classes)
    cap_weight = plan.cap_weight(server.spec.classes)
    blocks = server.spec.blocks
    return statistics.exact(server.matrix, server.codes, loss, blocks, cap_weight=cap_weight)


def check_sums(spec: ServerSpec, plan: TrainingPlan) -> None:
    """Refuse sums that could leave the grid: to refuse only those that do would tell of records."""
    width, loss = spec.width, plan.loss_for(spec.classes)
    if width > WIDEST:
        raise InvalidInput(
            f"method must be 'rounds' for records of {width:,} columns, got 'sums': the sums of "
            f"squares would be {width * (width + 1) // 2:,} numbers, and noise in every one",
            setting="method",
        )
    loud = statistics.shifts(plan.counted_epsilon(spec), spec.norm_bound, loss, spec.classes)
    reach = spec.records * max(loud.record, loud.square)
    if reach > LIMIT:
        raise InvalidInput(
            f"norm_bound must be smaller for sums of {spec.records:,} records, got "
            f"{spec.norm_bound:g}: they could reach {reach:.3g}, beyond {LIMIT:g}; scale the "
            "features down",
            setting="norm_bound",
        )


def release_sums(sums: Sums, server: Server, plan: TrainingPlan, source: Source) -> Units:
    """The row that a server sends, with fresh noise: two calls are two releases.

    Guarantees
    ----------
    - With a secure source every number but the last is a function of a real Gaussian mechanism
      with the deviations of the plan's event.
    """
    upper = np.triu_indices(sums.width)
    values = np.concatenate([sums.label_sum.ravel(), sums.square_sum[upper], [sums.size]])
    stddevs = _stddevs(plan, server.spec.n_servers, sums.label_sum.size, sums.width)
    noise = integer_gaussian.sample(stddevs, source.stream(SUMS, server.spec.server))
    return integer_gaussian.quantize(values) + noise


def _stddevs(plan: TrainingPlan, n_servers: int, label_size: int, width: int) -> Array:
    """Of every number of a release: S is symmetric, and V has no noise."""
    label, square = plan.sum_stddevs(n_servers)
    rows, columns = np.triu_indices(width)
    triangle = np.where(rows == columns, square, square / sqrt(2))
    return np.concatenate([np.full(label_size, label), triangle, [0.0]])


def totals(units: Units, codes: int, width: int) -> Sums:
    """The sums in a row of whole numbers, one server's or the total."""
    values = integer_gaussian.dequantize(units)
    square_sum = np.zeros((width, width))
    square_sum[np.triu_indices(width)] = values[codes * width : -1]
    square_sum += np.triu(square_sum, 1).T
    label_sum = values[: codes * width].reshape(codes, width)
    return Sums(label_sum=label_sum, square_sum=square_sum, size=float(values[-1]))


def local_weights(
    server: Server, row: Units, total: Units, plan: TrainingPlan, *, intercept: bool = True
) -> Array:
    """(C, d) of a server's local model: from its own records, and the others' noisy sums."""
    spec = server.spec
    return fit_by_own_reports(
        server.matrix,
        server.codes,
        totals(total - row, spec.codes, spec.width),
        plan.noise_of_total(spec, parts=spec.n_servers - 1),
        loss=plan.loss_for(spec.classes),
        norm_bound=spec.norm_bound,
        intercept=intercept,
        constant=spec.constant,
        blocks=spec.blocks,
        cap_weight=plan.cap_weight(spec.classes),
    )
