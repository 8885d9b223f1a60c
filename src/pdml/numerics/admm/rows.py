"""Records as rows of a dense array or a CSR matrix: the one place where the difference matters.

Everything a server computes from its records is `pull` (Xᵀ·), `push` (X·) or `gram` (Xᵀ diag(h) X);
above this file nobody asks whether the rows are sparse.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml._types import Array, IntArray, Matrix
from pdml.errors import DataError

_BLOCK = 4096  # rows per block: temporary copies stay in cache, whatever the number of rows
_SPARSE_BLOCK = 1 << 15  # of rows with few numbers each
_OFTEN = 1 / 12  # of the rows: a column filled in so many is multiplied faster as if in all
_MANY = 1 << 12  # numbers: to take the columns of fewer apart costs more than it saves


def as_rows(x: Matrix) -> Matrix:
    """A C-ordered float array or canonical CSR matrix of finite numbers; float32 is kept as
    storage."""
    sparse = sp.issparse(x)
    rows: Any = sp.csr_array(x) if sparse else np.asarray(x)
    if rows.ndim != 2:
        raise DataError(
            f"X must be 2-dimensional (records x features), got {rows.ndim} dimension(s)"
        )
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    values = rows.data if sparse else rows
    if not np.isfinite(values).all():
        raise DataError("X must hold finite numbers only, got NaN or infinity")
    if sparse:
        rows.sum_duplicates()
        return rows
    return np.ascontiguousarray(rows)


def compact(x: Matrix) -> Matrix:
    """A dense array that is mostly zeros (one-hot columns, say) as CSR: the same numbers, and
    passes that skip the zeros."""
    return x if sp.issparse(x) or 4 * np.count_nonzero(x) > x.size else sparse(x)


def sparse(x: NDArray[Any]) -> Matrix:
    """A dense array as CSR, without its zeros."""
    kept = np.flatnonzero(x)
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(x, axis=1))])
    return sp.csr_array(
        (x.ravel()[kept], (kept % x.shape[1]).astype(np.int32), starts), shape=x.shape
    )


def stored(x: Matrix) -> int:
    """How many numbers the matrix holds."""
    return int(x.nnz if sp.issparse(x) else x.size)


def norms(x: Matrix) -> Array:
    """Euclidean norm of each row, in double precision."""
    if sp.issparse(x):
        squares = sp.csr_array(
            (np.square(x.data, dtype=np.float64), x.indices, x.indptr), shape=x.shape
        )
        return np.asarray(np.sqrt(squares @ np.ones(x.shape[1])))
    return np.concatenate(
        [np.zeros(0), *(np.sqrt(np.einsum("ij,ij->i", b, b, dtype=np.float64)) for b in blocks(x))]
    )


def clip(x: Matrix, bound: float, *, in_place: bool = False) -> tuple[Matrix, int]:
    """Clip rows longer than ``bound`` to it; return a new matrix and how many were clipped.
    With ``in_place`` nobody else has ``x``, and a dense one is changed in its place: pages of fresh
    memory cost more than the arithmetic.

    Each row is treated by itself, so clipping reveals nothing about other records. The target is a
    hair inside the bound, so that rounding cannot leave a row longer than the sensitivity assumes.
    """
    length = norms(x)
    long = length > bound
    resolution = 4 * np.finfo(x.dtype).eps
    factor = np.ones_like(length)
    factor[long] = bound * (1 - resolution) / length[long]
    if not long.any():
        return x if in_place else x.copy(), 0
    if in_place and not sp.issparse(x):
        np.multiply(x, factor.astype(x.dtype)[:, None], out=x)
        return x, int(long.sum())
    return scale(x, factor), int(long.sum())


def scale(x: Matrix, factor: Array) -> Matrix:
    """diag(factor) · X as a new matrix of the same storage."""
    if sp.issparse(x):
        data = x.data * np.repeat(factor, np.diff(x.indptr)).astype(x.dtype)
        return sp.csr_array((data, x.indices, x.indptr), shape=x.shape)
    return x * factor.astype(x.dtype)[:, None]


def append_bias(x: Matrix, constant: float = 1.0) -> Matrix:
    """A column of one constant at the end: the intercept, counted inside the norm like every other
    feature."""
    ones = np.full((x.shape[0], 1), constant, dtype=x.dtype)
    if sp.issparse(x):
        return sp.csr_array(sp.hstack([x, sp.csr_array(ones)], format="csr"))
    return np.hstack([x, ones])


def take(x: Matrix, start: int, stop: int) -> Matrix:
    """Rows start..stop without copying them."""
    if start == 0 and stop == x.shape[0]:
        return x
    if not sp.issparse(x):
        return x[start:stop]
    low, high = x.indptr[start], x.indptr[stop]
    # filled by hand: the constructor copies small views
    part = sp.csr_array((stop - start, x.shape[1]), dtype=x.dtype)
    part.data, part.indices, part.indptr = (
        x.data[low:high],
        x.indices[low:high],
        x.indptr[start : stop + 1] - low,
    )
    return part


def stack(parts: Sequence[Matrix]) -> Matrix:
    """Matrices one below the other."""
    if sp.issparse(parts[0]):
        return sp.csr_array(sp.vstack(parts, format="csr"))
    return np.vstack(parts)


def blocks(x: Matrix, size: int = _BLOCK) -> Iterator[Matrix]:
    """The rows in blocks, by default such that fit in cache."""
    for start in range(0, x.shape[0], size):
        yield take(x, start, min(start + size, x.shape[0]))


def gram(x: Matrix, weights: Array | None = None) -> Array:
    """Xᵀ diag(h) X, for any real h (a negative weight is a class covariance).

    Block by block, so no full copy; in double precision whatever the storage, because the solver's
    certificate counts on it.
    """
    total = np.zeros((x.shape[1], x.shape[1]))
    start = 0
    if sp.issparse(x) and x.nnz < 0.15 * x.shape[0] * x.shape[1]:
        for block in blocks(x, _SPARSE_BLOCK):
            stop = start + block.shape[0]
            total += _sparse_gram(block, None if weights is None else weights[start:stop])
            start = stop
        return total
    for block in blocks(x):
        part = block.toarray() if sp.issparse(block) else block
        part = part.astype(np.float64, copy=False)
        if weights is None:
            total += part.T @ part
        else:
            h = weights[start : start + part.shape[0], None]
            if (h >= 0).all():
                root = np.sqrt(h) * part
                total += root.T @ root  # a symmetric product: BLAS does half the work
            else:
                total += part.T @ (h * part)
        start += part.shape[0]
    return total


def _sparse_gram(x: Matrix, weights: Array | None) -> Array:
    """`gram` of rows with few numbers each: the columns that most of them lie in are taken apart
    and multiplied as dense ones, which leaves little to products that look for every number."""
    x = x.astype(np.float64, copy=False)
    often = np.bincount(x.indices, minlength=x.shape[1]) > _OFTEN * x.shape[0]
    if x.nnz < _MANY or not often.any():
        return np.asarray((x.T @ (x if weights is None else scale(x, weights))).toarray())
    order = np.concatenate([np.flatnonzero(often), np.flatnonzero(~often)])
    some = int(often.sum())
    dense, rest = x[:, order[:some]].toarray(), x[:, order[some:]]
    heavy, left = dense, rest
    if weights is not None:
        heavy, left = weights[:, None] * dense, scale(rest, weights)
    product = np.empty((len(order), len(order)))
    product[:some, :some] = dense.T @ heavy
    product[some:, :some] = rest.T @ heavy
    product[:some, some:] = product[some:, :some].T
    product[some:, some:] = (rest.T @ left).toarray()
    back = np.argsort(order)
    return np.asarray(product[np.ix_(back, back)])


def partition_records(
    total: int, groups: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """A random order of the records and the cuts between ``groups`` groups whose sizes differ by at
    most one."""
    order = rng.permutation(total).astype(np.int64)
    cuts = np.linspace(0, total, groups + 1).astype(np.int64)
    return order, cuts
