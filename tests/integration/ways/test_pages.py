"""Every command and every line of Python on a page runs, in the order in which they stand: all
blocks of a page in one shell, as somebody would paste them, and pages that build on each other in
one folder.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import typer
from walking import PATIENCE, free_ports

from pdml.cli.commands import app

ROOT = Path(__file__).parents[3]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.M | re.S)
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d{4}|(?<=--port )\d{4}")
ASKED = ("pdml study new  ", "pdml contribute study.toml --server alice  ")  # in a terminal

# Where nothing on the page is walked here, and why.
ELSEWHERE = {
    "README.md": "`make` is what CI calls; its sentences are walked in test_own_table.py, its Python in tests/integration/project/test_docs.py",
    "docs/index.md": "`make demo` is what CI calls",
    "docs/guide/researcher.md": "minutes of measuring: `make reproduce`, `make audit`",
    "docs/evaluation/baselines.md": "minutes of measuring: `make reproduce`",
    "docs/evaluation/figures.md": "minutes of measuring: `make reproduce`",
    "docs/reference/result-format.md": "one verifier: tests/unit/consortium/test_result_format.py",
    "docs/guide/deploy.md": "root on three machines: tests/integration/deploy",
}


def blocks(page: Path) -> list[tuple[str, str]]:
    """What is to be run on a page: the language and the text of each block."""
    return [found for found in BLOCK.findall(page.read_text()) if found[0] in ("sh", "python")]


@dataclass
class Reader:
    """Somebody who pastes whole pages into one shell in one folder."""

    folder: Path
    environment: Mapping[str, str]
    ports: dict[str, str] = field(default_factory=dict)

    def paste(
        self,
        page: str,
        *,
        before: Mapping[int, str] | None = None,
        python: str = "",
        words: Mapping[str, str] | None = None,
    ) -> str:
        """What a page prints: ``before`` is shell for what it takes as there before one of its
        blocks, ``python`` the same for its Python, and ``words`` what a reader puts in the place of
        names that are only an example.
        """
        script, session = ["trap 'kill $(jobs -p) 2>/dev/null || :; wait' EXIT"], python
        for number, (kind, block) in enumerate(blocks(ROOT / "docs" / page)):
            for name, value in (words or {}).items():
                block = block.replace(name, value)
            script.append((before or {}).get(number, ""))
            if kind == "sh":
                lines = block.splitlines(keepends=True)
                script.append("".join(line for line in lines if not line.startswith(ASKED)))
            else:  # a reader's session has run the blocks before
                session += block
                script.append(f"python3 - <<'PYTHON'\n{session}PYTHON")
        text = PORT.sub(lambda port: self.ports[port[0]], "\n".join(script))
        done = subprocess.run(
            ["bash", "-euc", text],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
        )
        assert done.returncode == 0, f"{page}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    commands, folder = tmp_path / "bin", tmp_path / "work"
    for made in (commands, folder):
        made.mkdir()
    calls = {"pdml": "-c 'from pdml.cli import main; main()'", "python3": ""}
    for name, how in calls.items():
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} {how} "$@"\n')
        (commands / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PDML_STATE_DIR": str(tmp_path / "device"),
    }
    named = sorted({port for page in PAGES for port in PORT.findall(page.read_text())})
    ports = dict(zip(named, map(str, free_ports(len(named))), strict=True))
    return Reader(folder, environment, ports)


def test_two_nodes_and_what_follows(reader: Reader) -> None:
    """Two nodes, then what a result and a table are good for."""
    shown = reader.paste("guide/consortium.md")
    result = reader.folder / "result"
    assert (result / "report.html").exists()
    assert shown.count("model.json is what the statements give, compared to the byte") == 1
    assert "job first: finished, 30 vectors released" in shown
    model = json.loads((result / "model.json").read_text())
    assert model["provenance"]["noise_source"] == "secure"
    assert model["provenance"]["servers"] == ["alice", "bob"]
    assert model["provenance"]["labels_randomised_by"] == ["operator"] * 2
    assert model["privacy"]["counted"].startswith("all jobs on each data set, as the journals")

    shown = reader.paste("guide/tutorial-table.md")
    first, second = (
        json.loads((reader.folder / name / "model.json").read_text())
        for name in ("first", "second")
    )
    assert first["privacy"]["source"] == "simulated"
    assert (reader.folder / "first" / "report.html").exists()
    assert len((reader.folder / "predictions.csv").read_text().splitlines()) == 1001
    (right,) = re.findall(r"(\d+)% are right", shown)
    assert int(right) > 70
    spent = [line for line in second["privacy"]["rows"] if line["adversary"] == "other servers"]
    assert all(line["epsilon"] <= 0.5 for line in spent)

    kept = "rm evaluation.html\ncp others.csv held-back.csv\nhead -n 401 alice.csv > {0}\nhead -n 301 bob.csv > {1}"
    reader.paste("guide/evaluate.md", before={0: kept.format("alice-kept.csv", "bob-kept.csv")})
    assert (reader.folder / "evaluation.html").exists()
    assert (reader.folder / "checked" / "statement.html").exists()

    pytest.importorskip("mlflow")
    pytest.importorskip("onnx")
    table = "import pandas\nframe = pandas.read_csv('alice.csv').drop(columns='diagnosed')\n"
    here = "cp result/model.json result/report.html .\nrm -f model.onnx"
    reader.paste("guide/export.md", before={0: here, 1: "rm model.onnx"}, python=table)
    assert (reader.folder / "predict.html").exists()
    reader.paste("guide/statement.md")
    assert (reader.folder / "statement.md").exists()


def test_a_question(reader: Reader) -> None:
    shown = reader.paste("guide/tutorial-study.md")
    assert shown.count("2,000 of 2,000 reports are stored.") == 2
    assert "Stored by north" in shown and "2,001 reports are frozen in north-data" in shown
    assert "2,000 reports are frozen in south-data" in shown
    model = json.loads((reader.folder / "result" / "model.json").read_text())
    assert model["provenance"]["labels_randomised_by"] == ["devices"] * 2
    assert "LedgerRow(data='label', adversary='own server'" in shown


PEOPLE = """\
python3 -c '
import random
with open("people.csv", "w") as file:
    print("age,sex,diagnosis", file=file)
    for _ in range(100):
        print(random.randint(18, 100), random.choice(("female", "male", "other")),
            random.choice(("no", "yes")), sep=",", file=file)
'
"""
ANSWER = "pdml contribute study.toml --server alice --answer age=44 --answer sex=female --epsilon 1"
SERVE = """\
pdml collect serve study.toml --server alice --port 8700 > serve.log 2>&1 &
until grep -q Collecting serve.log; do sleep 0.2; done
"""


def test_asking_people(reader: Reader) -> None:
    """The study of docs/guide/study.md, collected by its first server, and everything that its people
    may do.
    """
    (example, *_) = re.findall(
        r"```toml\n(.*?)```", (ROOT / "docs/guide/study.md").read_text(), flags=re.S
    )
    here = example.replace("https://alice.example", f"http://127.0.0.1:{reader.ports['8700']}")
    here = re.sub(r"^closes = .*\n", "", here, flags=re.M)
    (reader.folder / "study.toml").write_text(re.sub("= 2027-", "= 2090-", here))
    shown = reader.paste("guide/study.md", before={1: PEOPLE})
    assert "is a valid study" in shown and (reader.folder / "mine.toml").exists()

    invited = "pdml collect invite study.toml --server alice --count 3 --out first.csv"
    link = "LINK=$(tail -n 1 first.csv | grep -o 'http[^,]*')"
    mine = f"{ANSWER} --label yes --agree --yes --receipt receipt.json --token $LINK"
    other = """\
DEVICE=$PDML_STATE_DIR MINE=$LINK
export PDML_STATE_DIR=$PWD/other
echo '{"age": 30, "sex": "male"}' > mine.json
LINK=$(sed -n 2p first.csv | grep -o 'http[^,]*')
"""
    shown = reader.paste(
        "guide/contribute.md",
        before={
            0: f"{invited}\n{SERVE}{link}\n{mine}\n{other}",
            1: "PDML_STATE_DIR=$DEVICE LINK=$MINE",
        },
        words={
            "https://alice.example": "alice",
            "--token LINK": '--token "$LINK" --epsilon 1 --label no --agree --yes',
        },
    )
    assert "100 of 100 reports are stored." in shown
    taken = 'ID=$(grep -o \'"id":"[0-9a-f]*\' people.receipts.ndjson | head -n 1 | tail -c 33)'
    shown = reader.paste(
        "guide/collect.md",
        before={0: taken},
        words={"0123456789abcdef0123456789abcdef": "$ID", "tokens.csv": "more.csv"},
    )
    assert "100 reports are frozen in alice-data" in shown


def test_lines_of_python(reader: Reader) -> None:
    """On rows and labels that a reader has."""
    rows = """\
import numpy as np
from pdml import Encoding, PDMLClassifier
from pdml.research.datasets import twonorm
x, y = twonorm(600, np.random.default_rng(0))
"""
    reader.paste("guide/defaults.md", python=rows)
    reader.paste("guide/scikit-learn.md", python=rows)
    reader.paste("concepts/encoding.md", python=rows)
    reader.paste("concepts/sums.md", python=rows)


def test_data_sets_that_are_here(reader: Reader, data_dir: Path) -> None:
    shown = reader.paste("guide/data.md")
    assert shown.count("checked") >= 9 and str(data_dir) in shown


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_page_with_commands_is_walked(page: Path) -> None:
    """Commands stand in blocks that say so, and each page with one is pasted by a test."""
    name = str(page.relative_to(ROOT))
    text = page.read_text()
    if name not in ELSEWHERE:
        plain = [block for kind, block in BLOCK.findall(text) if not kind]
        plain += re.findall(r"^    (.*)$", BLOCK.sub("", text), flags=re.M)
        assert not [block for block in plain if re.match(r"(pdml|make|pip) ", block)]
        if blocks(page):
            walked = (
                Path(__file__).read_text()
                + (ROOT / "tests/integration/project/test_docs.py").read_text()
            )
            assert f'"{name.removeprefix("docs/")}"' in walked or f'"{name}"' in walked


def test_ci_calls_what_the_readme_begins_with() -> None:
    script = (ROOT / ".ci/run").read_text().splitlines()
    text = (ROOT / "README.md").read_text()
    commands = re.findall(r"^make [\w-]+|(?<=`)make demo[\w-]*(?=`)", text, flags=re.M)
    assert (
        {"make demo", "make test", "make demo-consortium"}
        <= set(commands)
        <= {
            *script,
            "make docs",
        }
    )


def options(words: list[str]) -> set[str]:
    """Of the command that the first words name, and of all under it: `pdml train` is two."""
    command = typer.main.get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    commands = [command, *getattr(command, "commands", {}).values()]
    return {name for one in commands for option in one.params for name in option.opts}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_and_options_in_sentences_exist(page: Path) -> None:
    output = re.findall(r"`pdml ([a-z][^`]*)`", BLOCK.sub("", page.read_text()))
    for sentence in output:
        words = sentence.split()
        named = {word.split("=")[0] for word in words if word.startswith("--")}
        assert named <= options(words) | {"--help"}, f"{page.name}: pdml {sentence}"
