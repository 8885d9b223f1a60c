"""A column of texts, added in any pieces: what it says of its rows does not depend on how they are
kept.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml.tables import cells as text_cells
from pdml.tables.cells import TextColumn

CELLS = st.lists(st.one_of(st.sampled_from(["a", "b", " a"]), st.text(max_size=3)), max_size=12)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """So that few rows are enough to be kept one by one."""
    monkeypatch.setattr(text_cells, "_SOON", 5)


@given(st.lists(CELLS, max_size=6))
def test_rows_and_different_ones_in_their_order(pieces):
    found, cells = TextColumn(), [cell for piece in pieces for cell in piece]
    for piece in pieces:
        found.add(piece)
    assert found.column.tolist() == cells
    different, place = found.distinct
    assert different == list(dict.fromkeys(cells))
    assert [different[k] for k in place.tolist()] == cells
    assert text_cells.distinct(cells)[0] == different


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=30))
def test_numbers(values):
    np.testing.assert_array_equal(TextColumn([repr(each) for each in values]).floats(), values)


@pytest.mark.parametrize("many", [1, 30])
@pytest.mark.parametrize("wrong", ["1_000", "one"])
def test_what_is_no_number_is_refused(many, wrong):
    """Kept either way: few rows, or many different ones."""
    with pytest.raises(ValueError):
        TextColumn([*map(str, range(many)), wrong]).floats()


def test_most_different_rows_are_kept_one_by_one_and_others_once():
    named, numbered = TextColumn(), TextColumn()
    for start in range(0, 60, 10):
        named.add(["yes", "no"] * 5)
        numbered.add([str(start + k) for k in range(10)])
    assert not named._rows and len(named._codes) == 2
    assert numbered._rows and not numbered._codes
