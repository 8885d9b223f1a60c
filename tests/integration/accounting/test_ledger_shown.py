"""The ledger as people read it: short to look at, whole to print, a frame to compute with."""

import subprocess
import sys
from dataclasses import replace
from math import inf

import numpy as np
import pandas as pd
import pytest

from pdml.accounting import Ledger, Reports
from pdml.planning.server_spec import ServerSpec
from pdml.planning.training_plan import TrainingPlan


def ledger(plan: TrainingPlan, servers: int = 6, **more: object) -> Ledger:
    places = [
        ServerSpec(server=i, n_servers=servers, degree=2, records=500, epsilons=(1.0,), width=8)
        for i in range(servers)
    ]
    return Ledger(tuple((p.flip(), *plan.events(p)) for p in places), **more)


SUMS = TrainingPlan(method="sums", label_noise=3.0, square_noise=5.0, colluding=2)
ROUNDS = TrainingPlan(rounds=100, noise_scale=1.0)


def test_the_table_says_what_the_lines_say() -> None:
    book = ledger(ROUNDS, notes=("a note that everybody must read",))
    result = str(book)
    for line in book.rows():
        epsilon = "no protection" if line.epsilon == inf else f"{line.epsilon:.3g}"
        row = next(r for r in result.split("\n") if r.startswith(line.data) and epsilon in r)
        assert line.epsilon == inf or f"{line.certainty:.1%}" in row
    assert result.endswith("\n\nA note that everybody must read.")
    assert len(result) < 1000 and len(repr(book)) < 80  # of 600 events
    assert repr(book) == "<Ledger of 6 servers: print it for the table>"
    alone = replace(book, events=book.events[:1])
    assert repr(alone) == "<Ledger of 1 server: print it for the table>"
    ones = np.ones(1)
    reported = replace(alone, reports=Reports(np.zeros(1, dtype=np.int64), ones, ones))
    assert repr(reported) == "<Ledger of 1 server, 1 report: print it for the table>"


def test_where_it_matters_how_many_collude_some_of_them_are_told() -> None:
    book = ledger(SUMS)
    result = str(book)
    assert "any 1 other server " in result and "any 2 other servers together" in result
    assert "any" not in str(ledger(ROUNDS))


def test_a_frame_has_every_line_as_numbers() -> None:
    book = ledger(SUMS)
    frame = book.to_frame()
    assert isinstance(frame, pd.DataFrame)
    lines = [*book.rows(), *book.every_coalition]
    for name in ("data", "adversary", "epsilon", "delta", "certainty", "reason"):
        assert frame[name].tolist() == [getattr(line, name) for line in lines]
    assert frame["colluding"].dropna().tolist() == [e.colluding for e in lines if e.colluding]


def test_without_pandas_it_is_one_sentence() -> None:
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "from pdml.accounting import Ledger\n"
        "try: Ledger(()).to_frame.__self__; from pdml.accounting import ledger_row as shown; shown.frame([])\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "this needs pandas, which is not installed: pip install 'pdml[frames]'\n"
    )


def test_a_notebook_shows_reasons_too() -> None:
    book = ledger(SUMS)
    page = book._repr_html_()
    for line in book.rows():
        assert line.reason.replace("'", "&#39;") in page
    assert page.count("<tr>") == 1 + 6 + 4


@pytest.mark.parametrize("line", ["own server", "other servers"])
def test_nobody_is_called_certain_who_is_not(line: str) -> None:
    """99.97% is not rounded up to certainty."""
    book = ledger(TrainingPlan(rounds=40, noise_scale=0.01))
    found = book.row("features", line)
    assert (found.epsilon == inf) == (line == "own server")
    row = [r for r in str(book).split("\n") if r.startswith("features")][line == "other servers"]
    assert row.endswith("certain" if found.epsilon == inf else "over 99.9%")
