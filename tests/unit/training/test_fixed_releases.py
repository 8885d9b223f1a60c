"""A seeded training releases what it always released: no change of structure changes a number.

``python tests/vectors/make_releases.py --check`` compares the releases by rounds to the bit as
well, on processors with AVX2.
"""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

VECTORS = Path(__file__).parents[2] / "vectors"
STORED = json.loads((VECTORS / "releases.json").read_text())


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(VECTORS))
    import make_releases

    return make_releases


@pytest.mark.parametrize("classes", [2, 3])
def test_sums_are_released_to_the_bit(maker: ModuleType, classes: int) -> None:
    assert maker.by_sums(classes) == STORED["sums"][str(classes)]


@pytest.mark.parametrize("classes", [2, 3])
def test_rounds_are_released_to_the_accuracy_of_the_solver(maker: ModuleType, classes: int) -> None:
    released = maker.by_rounds(classes)[-1]
    np.testing.assert_allclose(released, STORED["rounds"][str(classes)]["last"], rtol=0, atol=1e-8)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "settings", [{"method": "sums"}, {"method": "rounds", "rounds": 20}], ids=["sums", "rounds"]
)
def test_the_ledger_says_what_it_always_said(
    maker: ModuleType, settings: dict[str, object]
) -> None:
    rows, stored = maker.ledger(**settings), STORED["ledger"][settings["method"]]
    assert [row[:2] for row in rows] == [row[:2] for row in stored]
    for row, expected in zip(rows, stored, strict=True):
        assert float(row[2]) == pytest.approx(float(expected[2]), rel=1e-9)
        assert float(row[3]) == pytest.approx(float(expected[3]), rel=1e-9)
