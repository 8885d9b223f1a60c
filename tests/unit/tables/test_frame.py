"""Frames: what the types of any library's columns say."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pdml.errors import InvalidInput
from pdml.tables import ColumnKind, Frame

CELLS: dict[str, tuple[ColumnKind, list[Any]]] = {
    "whole": (ColumnKind.NUMBER, [1, 2]),
    "real": (ColumnKind.NUMBER, [1.5, None]),
    "exact": (ColumnKind.NUMBER, [Decimal("1.5"), None]),
    "truth": (ColumnKind.TRUTH, [True, None]),
    "text": (ColumnKind.TEXT, ["a", None]),
    "day": (ColumnKind.DATE, [dt.date(2020, 1, 1), None]),
    "moment": (ColumnKind.DATE, [dt.datetime(2020, 1, 1), None]),
    "while": (ColumnKind.DATE, [dt.timedelta(days=1), None]),
}
KINDS = {name: kind for name, (kind, _) in CELLS.items()}
ROWS = {name: cells for name, (_, cells) in CELLS.items()}


class ForeignFrame:
    """Names, and cells by ``to_dict``."""

    columns = tuple(ROWS)

    def to_dict(self, *, as_series: bool) -> dict[str, list[Any]]:
        return ROWS


def test_objects_are_what_their_cells_are() -> None:
    for given in (ForeignFrame(), pd.DataFrame(ROWS, dtype=object)):
        frame = Frame.of(given)
        assert frame is not None and dict(frame.kinds) == KINDS


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        *((name, ColumnKind.NUMBER) for name in ("int8", "UInt16", "Float32", "Sparse[float]")),
        *((name, ColumnKind.TRUTH) for name in ("bool", "boolean")),
        *((name, ColumnKind.TEXT) for name in ("str", "string", "category", "interval[int64]")),
        *((name, ColumnKind.DATE) for name in ("datetime64[s]", "timedelta64[s]", "period[M]")),
        ("datetime64[s, UTC]", ColumnKind.DATE),
    ],
)
def test_types_of_pandas(dtype: str, kind: ColumnKind) -> None:
    frame = Frame.of(pd.DataFrame({"a": pd.Series([], dtype=dtype)}))
    assert frame is not None and frame.kinds == {"a": kind}


def test_types_of_arrow_and_their_cells() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table(ROWS)
    for given in (table, pd.DataFrame({k: pd.Series(v) for k, v in ROWS.items()})):
        frame = Frame.of(given)
        assert frame is not None
        assert {name: frame.kinds[name] for name in KINDS} == KINDS
        np.testing.assert_array_equal(frame.numbers("exact"), [1.5, np.nan])
        np.testing.assert_array_equal(frame.numbers("truth"), [1, np.nan])
        assert frame.texts("truth").tolist() == ["True", ""]
        assert frame.texts("text").tolist() == ["a", ""]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        codes = pa.DictionaryArray.from_arrays([0, 1, None], pa.array(["a", "b"], kind))
        frame = Frame.of(pa.table({"a": codes}))
        assert frame is not None and frame.texts("a").tolist() == ["a", "b", ""]


def test_types_of_polars() -> None:
    pl = pytest.importorskip("polars")
    wish = pl.Series(["x", "y"], dtype=pl.Enum(["y", "x"]))
    frame = Frame.of(pl.DataFrame(ROWS).with_columns(e=wish, c=wish.cast(pl.Categorical)))
    assert frame is not None
    assert dict(frame.kinds) == {**KINDS, "e": ColumnKind.TEXT, "c": ColumnKind.TEXT}
    assert frame.levels == {"e": ("y", "x")} and frame.texts("c").tolist() == ["x", "y"]


def test_a_schema_holds_no_record() -> None:
    levels = pd.CategoricalDtype(["f", "m"])
    rows = pd.DataFrame({"a": [1.0], "b": ["secret"], "c": pd.Series(["m"], dtype=levels)})
    frame = Frame.schema(rows)
    assert frame is not None and all(len(cells) == 0 for cells in frame.cells.values())
    assert frame.levels == {"c": ("f", "m")}
    assert frame.kinds == {"a": ColumnKind.NUMBER, "b": ColumnKind.TEXT, "c": ColumnKind.TEXT}
    assert Frame.of(np.zeros((2, 2))) is None and Frame.schema(np.zeros((2, 2))) is None


def test_names_of_columns_differ() -> None:
    """Nobody can say which column another column's name means; 1 and "1" are one name."""
    pa = pytest.importorskip("pyarrow")
    frames = (
        pd.DataFrame([[1, 2, 3]], columns=["a", 1, "1"]),
        pa.table([[1], [2], [3]], names=["a", "1", "1"]),
    )
    for frame in frames:
        with pytest.raises(InvalidInput, match="must differ, got '1' for columns 2 and 3"):
            Frame.of(frame)
