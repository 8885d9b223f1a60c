"""The seven sets of Gunnar Rätsch's benchmark that the paper's Table I (label ``table``) uses.

Columns are z-scored (image: up to 0.02), except splice: raw codes 1 to 4 of the four bases. Nothing
is rescaled here.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from pdml import _validate
from pdml._types import Array
from pdml.errors import DataError
from pdml.research.datasets import local


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """What is known about a set before it is read; ``test_rows`` is the test size whose fractions
    give Table I's digits.
    """

    rows: int
    features: int
    positives: int
    test_rows: int
    sha256: str  # of the unpacked CSV


# in the order of Table I: rows, features, positives, test_rows, sha256
_FACTS = """\
german   1000 20  300  300 622e274253c40dbfe419990f2e69169952038c008c5d65ca89996005cd0585d0
image    2086 18 1188  626 a6e691c2298e90a1b67524e32f836a1f1071e824119bd8bb31b77da4e6b812b7
ringnorm 7400 20 3664 3900 99f428b6e4433d0049a04905aa09d71a7dec97cd7d3ab9318b17f4344ed45fa2
banana   5300  2 2376 1800 2ff3b7ae3bfbee2cd81c16b1c14c4f65dbd31e8106a7519569dc7c48949d3b89
splice   2991 60 1344  901 0c3aac05359d648668f429c888020aec1893f76521590311ac3136b6495aa263
twonorm  7400 20 3703 3900 c7b6538ec02938795b0a28fd8a88b909d3f1db38db1d25c0825881818040ba6d
waveform 5000 21 1647 1500 d36ab83abc24fc23385f2c54c96d280c42a4f1e8adb47fd24a79f891b78287d5
"""


def _facts(rows: str, features: str, positives: str, test_rows: str, sha256: str) -> DatasetFacts:
    return DatasetFacts(
        rows=int(rows),
        features=int(features),
        positives=int(positives),
        test_rows=int(test_rows),
        sha256=sha256,
    )


FACTS: Mapping[str, DatasetFacts] = MappingProxyType(
    {name: _facts(*numbers) for name, *numbers in map(str.split, _FACTS.splitlines())}
)
NAMES: tuple[str, ...] = tuple(FACTS)
TEST_SIZES: Mapping[str, int] = MappingProxyType(
    {name: facts.test_rows for name, facts in FACTS.items()}
)


def load(name: str) -> tuple[Array, Array]:
    """X of shape (rows, features) and y in {-1, +1}.

    The files are sorted by their first column: shuffle before splitting into servers, or into
    training and test.
    """
    facts = FACTS[_validate.choice("name", name, NAMES)]
    content = local.read(f"raetsch/{name}.csv", sha256=facts.sha256, dataset="raetsch")
    table = np.loadtxt(io.BytesIO(content), delimiter=",", dtype=np.float64, ndmin=2)
    X, y = np.ascontiguousarray(table[:, 1:]), table[:, 0].copy()
    counts = (*X.shape, int((y == 1).sum()), int((y == -1).sum()))
    expected = (facts.rows, facts.features, facts.positives, facts.rows - facts.positives)
    if counts != expected:
        raise DataError(f"{name} must have (rows, features, +1, -1) = {expected}, got {counts}")
    return X, y
