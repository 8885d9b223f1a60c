"""The solver's quantities with 60 digits, from the stored numbers: what its certificates are compared with.

Floats become decimals without any error, and 60 digits leave more than 20 after the worst cancellation made here. For
many records there is `gradient_left_long`, in the extended precision of the machine: 64 bits, so rounding 2,048 times finer.
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


def norm(numbers):
    return sum((value * value for value in numbers), Decimal(0)).sqrt()


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
        return [[(p[k] if k == j else 0) - p[k] * p[j] for j in range(len(p))] for k in range(len(p))]
    if name == "logistic":
        e = (-abs(z[0])).exp()
        return [[e / ((1 + e) * (1 + e))]]
    return [[Decimal(2)]] if name == "square" else [[1 / ((1 + z[0] * z[0]) * (1 + z[0] * z[0]).sqrt())]]


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
    mu = Decimal(float(ridge))
    flat = zip(data_gradient(x, name, w), decimals(np.ravel(w)), decimals(np.ravel(target)), strict=True)
    return norm([g + mu * p - b for g, p, b in flat])


@precisely
def hessian(x, name, w):
    """∇²G(w) as rows of decimals; w is (codes, d)."""
    matrix, points = decimals(dense(x)), decimals(w)
    codes, d = len(points), len(points[0])
    total = [[Decimal(0)] * (codes * d) for _ in range(codes * d)]
    for row in matrix:
        bent = curvatures(name, [inner(row, point) for point in points])
        for i in range(codes * d):
            for j in range(codes * d):
                total[i][j] += bent[i // d][j // d] * row[i % d] * row[j % d]
    return [[value / len(matrix) for value in line] for line in total]


@precisely
def spread(x, step):
    """|p|_S; step is (codes, d)."""
    matrix, parts = decimals(dense(x)), decimals(step)
    return (sum((inner(row, part) ** 2 for row in matrix for part in parts), Decimal(0)) / len(matrix)).sqrt()


@precisely
def distance(x, point, anchor):
    """|v - a|_S, the difference taken exactly; both (codes, d)."""
    matrix = decimals(dense(x))
    apart = [[p - q for p, q in zip(a, b, strict=True)] for a, b in zip(decimals(point), decimals(anchor), strict=True)]
    return (sum((inner(row, part) ** 2 for row in matrix for part in apart), Decimal(0)) / len(matrix)).sqrt()


def gradient_left_long(x, name, ridge, target, w):
    """|∇G(w) + ridge·w - target| for binary losses and many records, in long double."""
    matrix = dense(x).astype(np.longdouble)
    point = np.ravel(w).astype(np.longdouble)
    z = matrix @ point
    with np.errstate(over="ignore"):
        slope = {"logistic": lambda: np.tanh(z / 2) / 2, "square": lambda: 2 * z, "matsushita": lambda: z / np.sqrt(1 + z * z)}[name]()
    gradient = (matrix.T @ slope) / len(matrix) + np.longdouble(ridge) * point - np.ravel(target).astype(np.longdouble)
    return float(np.sqrt(gradient @ gradient))
