"""What a terminal shows, however narrow it is."""

import re
from contextlib import redirect_stdout
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import run

from pdml.cli.render import console

NUMBER = re.compile(r"\d[\d.,]*%?")


def shown(table: console.Grid, width: int) -> str:
    with redirect_stdout(StringIO()) as said, pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        console.print_table("Heading", table)
    return said.getvalue()


@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["own server", "x"]), st.floats(0, 1e9), st.integers(0, 10**12)),
        min_size=1,
        max_size=4,
    ),
    width=st.integers(24, 100),
)
def test_no_number_is_ever_cut(rows: list[tuple[str, float, int]], width: int) -> None:
    cells = [(who, f"{value:.6g}", f"{count:,}") for who, value, count in rows]
    said = shown(console.Grid(("who", "epsilon of features", "records"), cells), width)
    for _, value, count in rows:
        assert f"{value:.6g}" in said and f"{count:,}" in said
    assert "…" not in said
    assert all(heading in said for heading in ("epsilon of features", "records"))


def test_a_narrow_terminal_names_a_row_that_begins_with_a_number() -> None:
    columns = ("round", "epsilon of features", "epsilon of labels")
    table = console.Grid(columns, [("5", "1.07", "0.226")], words=0)
    assert "  round 5\n    epsilon of features: 1.07\n    epsilon of labels: 0.226\n" in shown(
        table, 40
    )
    assert "round  epsilon of features" in shown(table, 80)


@pytest.mark.parametrize(
    "command",
    [
        ["privacy", "--records", "500", "--features", "10"],
        ["bound", "--records", "20000", "--servers", "5", "--features", "19"],
        ["bound", "--suggest-topology", "--servers", "16"],
        ["plan", "--records", "4500", "--features", "20", "--servers", "5"],
    ],
)
def test_commands_show_the_same_numbers_at_any_width(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = []
    for columns in ("40", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        code, out, err = run(capsys, *command)
        # the words of a slow machine's progress aside, nothing goes wrong
        assert code == 0 and "pdml:" not in err and "…" not in out
        result.append(sorted(NUMBER.findall(out)))
    assert result[0] == result[1]
