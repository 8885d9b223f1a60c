"""UCI Adult as the paper uses it: 45,222 people without missing values, 105 columns (Section
evaluation, "Datasets").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

import numpy as np
from scipy import sparse

from pdml._types import Array, Matrix
from pdml.errors import DataError
from pdml.research.datasets import local

ROWS, COLUMNS = 45_222, 105

FILES: Mapping[str, str] = MappingProxyType(
    {  # with their sha256
        "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    }
)
_HEADER = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,"
    "capital-gain,capital-loss,hours-per-week,native-country,income"
)
_FIELDS = _HEADER.split(",")
NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
CATEGORICAL = tuple(field for field in _FIELDS[:-1] if field not in NUMERIC)


@dataclass(frozen=True)
class Adult:
    """The encoded table, before any choice of scale: ``X`` CSR of 45,222 x 105, ``y`` +1 for an
    income over $50,000, else -1.

    The first 30,162 rows are UCI's training file, the other 15,060 its test file. ``columns`` names
    the 105: the ``NUMERIC`` ones first, then "field=level" in order.
    """

    X: Matrix
    y: Array
    columns: tuple[str, ...]


def load() -> Adult:
    """Read, encode and check Adult.

    The paper's 105 dimensions come out only if "?" is no level and levels are collected before
    incomplete rows are dropped: everybody with workclass=Never-worked is incomplete, so that this
    column stays empty.
    """
    contents = [
        local.read(file, sha256=digest, dataset="adult", together=tuple(FILES))
        for file, digest in FILES.items()
    ]
    lines = chain.from_iterable(content.decode().splitlines() for content in contents)
    # neither blank lines nor the test file's banner
    people = [line.split(", ") for line in lines if line.count(", ") == len(_FIELDS) - 1]
    fields = dict(zip(_FIELDS, map(np.asarray, zip(*people, strict=True)), strict=True))
    complete = np.all([fields[name] != "?" for name in CATEGORICAL], axis=0)
    blocks: list[Matrix] = [
        np.stack([fields[name][complete].astype(np.float64) for name in NUMERIC], axis=1)
    ]
    columns = list(NUMERIC)
    for name in CATEGORICAL:
        levels, code = np.unique(fields[name], return_inverse=True)
        is_level = levels != "?"
        blocks.append(sparse.eye_array(len(levels), format="csr")[code[complete]][:, is_level])
        columns += [f"{name}={level}" for level in levels[is_level]]
    X = sparse.csr_array(sparse.hstack(blocks, format="csr"))
    X.eliminate_zeros()
    if X.shape != (ROWS, COLUMNS):
        raise DataError(f"Adult must encode to {ROWS} x {COLUMNS}, got {X.shape[0]} x {X.shape[1]}")
    # the test file adds a full stop
    y = np.where(np.char.startswith(fields["income"][complete], ">50K"), 1.0, -1.0)
    return Adult(X, y, tuple(columns))


def unit_rows(adult: Adult) -> Matrix:
    """X with numeric columns divided by their maximum, then each row clipped to norm at most 1 (the
    paper's |x| ≤ B = 1).

    In this order: numbers as large as fnlwgt would otherwise leave nothing of the other columns. A
    maximum over the data is itself a leak: this is for experiments that compare with the paper; a
    study declares ranges instead.
    """
    scale = np.ones(COLUMNS)
    scale[: len(NUMERIC)] = 1 / adult.X[:, : len(NUMERIC)].max(axis=0).toarray().ravel()
    X = adult.X @ sparse.diags_array(scale)
    norm = np.sqrt(X.multiply(X).sum(axis=1))
    # A hair below 1, so that no rounding, and no other order of summation, finds a norm above the
    # bound that sensitivities rest on.
    return sparse.csr_array(sparse.diags_array((1 - 2**-48) / np.maximum(1, norm)) @ X)
