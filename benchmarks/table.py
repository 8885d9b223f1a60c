"""`pdml train` on a CSV of 45,000 people, against pandas and scikit-learn, each in a process of its
own; and the page.
"""

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pdml.research.datasets import adult, local

ROWS, REPEATS = 45_000, 5
_PLAIN = """
import pandas, sys
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder
table = pandas.read_csv(sys.argv[1])
columns = make_column_transformer(
    (OneHotEncoder(), make_column_selector(dtype_exclude="number")),
    (MinMaxScaler(), make_column_selector(dtype_include="number")),
)
model = make_pipeline(columns, LogisticRegression(max_iter=1000))
model.fit(table.drop(columns="income"), table["income"])
"""
_PDML = "from pdml.cli import main; main()"
_PAGE = """
import sys, time
from pdml import TrainingPlan
from pdml.pages.training_page import render
from pdml.pages.table_pages import table_page
from pdml.simulation.table_training import train_table
for plan in (TrainingPlan(), TrainingPlan(method="sums", label_noise=5.0, square_noise=9.0)):
    trained = train_table(
        sys.argv[1], "income", from_data=True, test_fraction=0.2, plan=plan, diagnostics=True,
        random_state=0,
    )
    start = time.perf_counter()
    size = len(render(table_page(trained)))
    print(plan.method, time.perf_counter() - start, size)
"""


def adult_csv(path):
    """Adult's complete records in a random order, as a table that people have."""
    rows = []
    for file, digest in adult.FILES.items():
        text = local.read(file, sha256=digest, dataset="adult", together=tuple(adult.FILES))
        cells = (line.split(", ") for line in text.decode().splitlines())
        rows += [row for row in cells if len(row) == 15 and "?" not in row]
    random.Random(0).shuffle(rows)
    lines = [",".join([*row[:-1], row[-1].rstrip(".")]) for row in rows[:ROWS]]
    path.write_text("\n".join([adult._HEADER, *lines]) + "\n")


def _run(arguments, folder):
    """Seconds by the clock, and of the processor, of one process. Byte code of both sides is kept,
    as that of installed packages is, whatever this machine's settings.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-c", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder, env=kept)
    clock = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return clock, spent, done.stdout


def table_speed():
    """Rows (what, seconds by the clock, of the processor, ratio of each to the first)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        adult_csv(folder / "adult.csv")
        train = [_PDML, "train", "adult.csv", "--label", "income", "--from-data", "--force"]
        sides = {
            "pandas.read_csv + scikit-learn": [_PLAIN, "adult.csv"],
            "pdml train, at its defaults": [*train, "--out", "a"],
        }
        for arguments in sides.values():  # which leaves its byte code
            _run(arguments, folder)
        times = {what: [] for what in sides}
        for _ in range(REPEATS):
            for what, arguments in sides.items():
                times[what].append(_run(arguments, folder)[:2])
        lines, first = [], None
        for what, measured in times.items():
            clock, spent = (statistics.median(each) for each in zip(*measured, strict=True))
            first = first or (clock, spent)
            lines.append((what, clock, clock / first[0], spent, spent / first[1]))
        *_, told = _run([_PAGE, "adult.csv"], folder)
        pages = [line.split() for line in told.splitlines()]
        lines += [(f"the page, {way}", float(took), "", "", "") for way, took, _ in pages]
    return lines
