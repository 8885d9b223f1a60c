"""The solver's quantities with 60 digits, from the stored numbers: the truth about certificates.

Floats become decimals without any error, and 60 digits leave more than 20 after the worst
cancellation made here. For many records there is `gradient_left_long`, in the extended precision of
the machine: 64 bits, so that rounding is 2,048 times finer.
"""

from decimal import Decimal, localcontext
from functools import wraps

import numpy as np
import pytest
import scipy.sparse as sp

DIGITS = 60
LONG = np.finfo(np.longdouble).nmant >= 63
needs_long = pytest.mark.skipif(not LONG, reason="needs a long double with more bits than a double")


def precisely(function):
    """Compute with 60 digits."""

    @wraps(function)
    def run(*given):
        with localcontext() as context:
            context.prec = DIGITS
            return function(*given)

    return run


def dense(x):
    return np.asarray(x.toarray() if sp.issparse(x) else x, dtype=float)


def decimals(array):
    """Nested lists of decimals, each equal to its float."""
    return [decimals(part) for part in array] if np.ndim(array) else Decimal(float(array))


def inner(a, b):
    return sum((p * q for p, q in zip(a, b, strict=True)), Decimal(0))


@precisely
def norm(numbers):
    return inner(numbers, numbers).sqrt()


@precisely
def apart(found, true):
    """The Euclidean distance of computed floats, of any shape, from decimals."""
    return norm([Decimal(a) - b for a, b in zip(np.ravel(found).tolist(), true, strict=True)])


@precisely
def slopes(name, z):
    """g'(z) for the scores of one record."""
    if name == "softmax":
        powers = [(value - max(z)).exp() for value in z]
        return [power / sum(powers) for power in powers]
    (score,) = z
    if name == "logistic":
        e = (-abs(score)).exp()
        return [((1 - e) / (1 + e) / 2).copy_sign(score)]
    return [2 * score] if name == "square" else [score / (1 + score * score).sqrt()]


@precisely
def curvatures(name, z):
    """g''(z), codes x codes, for the scores of one record."""
    if name == "softmax":
        p = slopes(name, z)
        return [[(a if k == j else 0) - a * b for j, b in enumerate(p)] for k, a in enumerate(p)]
    if name == "logistic":
        e = (-abs(z[0])).exp()
        return [[e / ((1 + e) * (1 + e))]]
    if name == "square":
        return [[Decimal(2)]]
    square = 1 + z[0] * z[0]
    return [[1 / (square * square.sqrt())]]


@precisely
def data_gradient(x, name, w):
    """∇G(w) as decimals, flat; w is (codes, d)."""
    matrix, points = decimals(dense(x)), decimals(w)
    total = [[Decimal(0)] * len(points[0]) for _ in points]
    for row in matrix:
        for k, slope in enumerate(slopes(name, [inner(row, point) for point in points])):
            total[k] = [t + slope * value for t, value in zip(total[k], row, strict=True)]
    return [t / len(matrix) for block in total for t in block]


@precisely
def gradient_left(x, name, ridge, target, w):
    """|∇G(w) + ridge·w - target|."""
    mu, points, targets = Decimal(float(ridge)), decimals(np.ravel(w)), decimals(np.ravel(target))
    numbers = zip(data_gradient(x, name, w), points, targets, strict=True)
    return norm([g + mu * p - b for g, p, b in numbers])


@precisely
def hessian(x, name, w):
    """∇²G(w) as decimals, flat; w is (codes, d)."""
    matrix, points = decimals(dense(x)), decimals(w)
    d = len(points[0])
    places = [(i, j) for i in range(d * len(points)) for j in range(d * len(points))]
    total = [Decimal(0)] * len(places)
    for row in matrix:
        bent = curvatures(name, [inner(row, point) for point in points])
        for k, (i, j) in enumerate(places):
            total[k] += bent[i // d][j // d] * row[i % d] * row[j % d]
    return [value / len(matrix) for value in total]


@precisely
def distance(x, point, anchor):
    """|v - a|_S, the difference taken exactly; both (codes, d)."""
    total = Decimal(0)
    for v, a in zip(decimals(point), decimals(anchor), strict=True):
        step = [p - q for p, q in zip(v, a, strict=True)]
        total += sum((inner(row, step) ** 2 for row in decimals(dense(x))), Decimal(0))
    return (total / x.shape[0]).sqrt()


def spread(x, step):
    """|p|_S; step is (codes, d)."""
    return distance(x, step, np.zeros_like(step))


def gradient_left_long(x, ridge, target, w):
    """|∇G(w) + ridge·w - target| for the logistic loss and many records, in long double."""
    matrix = dense(x).astype(np.longdouble)
    point, b = (np.ravel(values).astype(np.longdouble) for values in (w, target))
    slope = np.tanh(matrix @ point / 2) / 2
    gradient = matrix.T @ slope / len(matrix) + np.longdouble(ridge) * point - b
    return float(np.sqrt(gradient @ gradient))
