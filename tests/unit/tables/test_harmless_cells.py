"""What others wrote is data to a spreadsheet and to a terminal, never a command."""

import csv
from pathlib import Path

import numpy as np
import pytest

from pdml.cli.render import console
from pdml.tables import write_predictions
from pdml.tables.table_files import harmless

FORMULAS = ['=cmd|"/c calc"!A1', "+1+cmd", "-2+3+cmd", "@SUM(1)", "\t=1", "\r=1"]


@pytest.mark.parametrize("cell", FORMULAS)
def test_a_formula_becomes_text(cell: str, tmp_path: Path) -> None:
    write_predictions(tmp_path / "p.csv", {"prediction": [cell], cell: ["yes"]})
    with open(tmp_path / "p.csv", newline="", encoding="utf-8") as file:
        names, row = csv.reader(file)
    assert names[1][0] == "'" and row[0][0] == "'"


@pytest.mark.parametrize("cell", ["-1.5", "+3", "-1e-5", "-", "+", "yes", "a=b", "-inf", ""])
def test_numbers_and_other_words_stay_as_they_are(cell: str) -> None:
    assert harmless(cell) == cell


def test_numbers_are_written_as_numbers(tmp_path: Path) -> None:
    write_predictions(tmp_path / "p.csv", {"margin": np.array([-0.25, 1e-9]), "n": [-1, 2]})
    assert (tmp_path / "p.csv").read_text() == "margin,n\n-0.25,-1\n1e-09,2\n"


def test_nothing_moves_a_terminals_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "yes\x1b[2J\x1b]0;owned\x07\x9b31m\u202edlrow"
    assert harmless(evil) == "yes�[2J�]0;owned��31m�dlrow"
    console.print_text(evil, (evil, "bold"))
    console.print_answer(False, {}, evil)
    console.print_table(evil, console.Grid((evil, "n"), [(evil, "1")]), evil)
    console.print_json({"told": evil})
    shown = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    assert "\\u009b31m\\u202edlrow" in shown
