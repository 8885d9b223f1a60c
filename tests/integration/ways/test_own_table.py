"""Somebody with a table of their own: the commands of README's sentences, the model in Python, and
its ten lines in a program.
"""

import csv
import json
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

from walking import Walk

README = (Path(__file__).parents[3] / "README.md").read_text()


def write_people(path: Path, count: int) -> None:
    """Made-up people whose income depends on their age."""
    draw = random.Random(path.name)
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["age", "sex", "income"])
        for _ in range(count):
            age = draw.randint(18, 100)
            rich = "high" if draw.gauss(age, 12) > 55 else "low"
            table.writerow([age, draw.choice(["female", "male"]), rich])


def run_python(walk: Walk, code: str) -> str:
    (walk.folder / "lines.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", "lines.py"],
        cwd=walk.folder,
        env=walk.environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


USE = """\
import pandas
from pdml import load_model
frame = pandas.read_csv("new.csv")
named = load_model("model.json").predict(frame)
print(*named, sep="\\n")
"""


def test_the_sentence_about_own_tables(walk: Walk) -> None:
    write_people(walk.folder / "people.csv", 4_000)
    write_people(walk.folder / "new.csv", 1_000)
    (sentence,) = re.findall(r"^On your own tables:\s.*?\n\n", README, flags=re.M | re.S)
    commands = [
        shlex.split(" ".join(command.split()))
        for command in re.findall(r"`pdml ([^`]+)`", sentence)
    ]
    assert [words[0] for words in commands] == ["train", "predict", "evaluate", "export"]
    shown = {words[0]: walk.pdml(*words) for words in commands}
    rows = [row["prediction"] for row in csv.DictReader(shown["predict"].splitlines())]
    assert len(rows) == 1_000 and set(rows) == {"high", "low"}
    assert run_python(walk, USE).split() == rows
    measured = json.loads(walk.pdml("evaluate", "model.json", "new.csv", "--json"))
    assert measured["accuracy"] > 0.7  # the best rule is right for about 87%, one class for 55%
    assert (walk.folder / "predict.html").stat().st_size > 10_000


def test_ten_lines(walk: Walk) -> None:
    code = re.findall(r"```python\n(.*?)```", README, flags=re.S)[0]
    shown = run_python(walk, code)
    assert float(re.findall(r"accuracy (0\.\d+)", shown)[0]) > 0.95
    assert "all other servers together" in shown
    assert json.loads((walk.folder / "model.json").read_text())["privacy"]["source"] == "simulated"
