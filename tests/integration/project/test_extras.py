"""What is installed for whom: every party starts without what it does not need, and whatever is
missing is one sentence with the command that brings it.
"""

import json
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from example_study import TEXT

from pdml.errors import MissingExtra, PDMLError
from pdml.extras import EXTRAS, missing_extra, needed

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
MODEL = str(Path(__file__).parents[2] / "vectors" / "formats" / "model-1.json")
SCIENCE = ("scipy", "sklearn", "joblib", "threadpoolctl", "matplotlib", "networkx", "pandas")


def without(packages: tuple[str, ...], code: str, *arguments: object) -> tuple[int, str, str]:
    """A fresh interpreter in which these packages are not installed."""
    blocked = f"import sys\nsys.modules.update(dict.fromkeys({packages!r}))\n"
    done = subprocess.run(
        [sys.executable, "-c", blocked + code, *map(str, arguments)], capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


def brought_by(extra: str) -> set[str]:
    """The packages of an extra, through the extras it is made of."""
    found: set[str] = set()
    for line in PROJECT["optional-dependencies"][extra]:
        inner = re.fullmatch(r"pdml\[(.*)\]", line)
        names = inner[1].split(",") if inner else []
        found.update(*map(brought_by, names))
        if not inner:
            found.add(re.match(r"[\w-]+", line)[0])  # type: ignore[index]
    return found


# The table, the package and the sentence agree


def test_every_package_is_brought_by_the_extra_that_is_named_for_it() -> None:
    base = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]}  # type: ignore[index]
    for package, extra in EXTRAS.values():
        assert package in brought_by(extra) and package not in base
    users = set(PROJECT["optional-dependencies"]) - {"dev", "docs"}
    assert brought_by("all") == set().union(*map(brought_by, users))


@pytest.mark.parametrize("name", EXTRAS)
def test_a_missing_package_is_named_with_the_command_that_brings_it(name: str) -> None:
    package, extra = EXTRAS[name]
    with pytest.raises(MissingExtra) as result, needed():
        raise ModuleNotFoundError(f"No module named '{name}.deep'", name=f"{name}.deep")
    assert (result.value.package, result.value.extra) == (package, extra)
    assert isinstance(result.value, PDMLError) and isinstance(result.value, ImportError)
    assert str(result.value) == (
        f"this needs {package}, which is not installed: pip install 'pdml[{extra}]'"
    )
    again = pickle.loads(pickle.dumps(result.value))
    assert (again.package, again.extra, str(again)) == (package, extra, str(result.value))


def test_the_extra_of_the_caller_comes_first_and_mistakes_pass_through() -> None:
    with pytest.raises(MissingExtra, match=r"pdml\[node\]"), needed("node"):
        raise ModuleNotFoundError("No module named 'scipy'", name="scipy")
    for mistake in (
        ModuleNotFoundError("No module named 'pdml.typo'", name="pdml.typo"),
        ImportError("cannot import name 'typo'", name="scipy"),
        ValueError("scipy"),
    ):
        assert missing_extra(mistake) is None
        with pytest.raises(type(mistake)) as passed, needed():
            raise mistake
        assert passed.value is mistake


# Every party in a fresh interpreter

PARTIES = {
    "device": "import pdml.device.client, pdml.device.simulated_participants",
    "collector": "import pdml.collector.http.application, pdml.collector.http.serving, pdml.device.page, pdml.pages.operator_page",
    "node": "import pdml.node.daemon.daemon, pdml.node.daemon.nats_transport, pdml.node.job.participant",
}
FOREIGN = {
    "device": (
        *SCIENCE,
        "jinja2",
        "starlette",
        "uvicorn",
        "nats",
        "cryptography",
        "numba",
        "pyarrow",
    ),
    "collector": ("sklearn", "joblib", "matplotlib", "networkx", "pandas", "nats", "numba"),
    "node": (
        "sklearn",
        "joblib",
        "matplotlib",
        "networkx",
        "pandas",
        "jinja2",
        "starlette",
        "rich",
    ),
}


def test_a_table_is_trained_on_and_its_page_written_without_scikit_learn(tmp_path: Path) -> None:
    """To load it takes longer than to train."""
    people = [f"{20 + k % 50},{'fm'[k % 2]},{'no' if k % 3 else 'yes'}" for k in range(60)]
    (tmp_path / "people.csv").write_text("\n".join(["age,sex,ill", *people]) + "\n")
    given = ("people.csv", "--label", "ill", "--from-data", "--servers", "3", "--seed", "1")
    code = (
        f"import os, sys\nos.chdir({str(tmp_path)!r})\nsys.argv[1:1] = ['train']\n"
        "from pdml.cli import main\nmain()"
    )
    status, _, complaint = without(("sklearn", "pandas", "matplotlib"), code, *given)
    assert (status, complaint) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} >= {"model.json", "report.html"}


@pytest.mark.parametrize("party", PARTIES)
def test_a_party_imports_nothing_that_others_need(party: str) -> None:
    code = f"{PARTIES[party]}\nprint([name for name in {FOREIGN[party]} if name in sys.modules])"
    assert without((), code) == (0, "[]\n", "")


def test_a_device_prepares_a_report_with_the_base_alone(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(TEXT)
    code = """
from pathlib import Path
import numpy as np
from pdml import Budget, Study, TrainingPlan
from pdml.device.client import prepare, preview
from pdml.device.memo import Memory
from pdml.tables import Table
study = Study.load(Path(sys.argv[1], "study.toml"))
data = prepare(study, Memory(Path(sys.argv[1], "memory")), {"age": 40, "sex": "other"}, 1, 1_000_000)
print(preview(study, data).answers)
"""
    done = without((*SCIENCE, "starlette", "nats", "cryptography"), code, tmp_path)
    assert done == (0, "{'age': 40.0, 'sex': 'other'}\n", "")


def test_a_device_shows_a_study_and_says_who_can_tell_the_hash_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(TEXT)
    given = ["study", "show", str(tmp_path / "study.toml")]
    code, out, err = without(("jinja2",), f"from pdml.cli import main; main({json.dumps(given)})")
    assert (code, err) == (0, "") and "study hash" in out and "pip install 'pdml[collect]'" in out


# What is missing is one sentence, in Python and on the command line


@pytest.mark.parametrize("name", ["PDMLClassifier", "train_study", "load_model"])
def test_a_public_name_says_what_to_install(name: str) -> None:
    code = f"""
try:
    from pdml import {name}
except ImportError as told:
    print(type(told).__name__, told)
"""
    code_, out, err = without(SCIENCE, code)
    assert (code_, err) == (0, "")
    assert re.fullmatch(r"MissingExtra this needs .+: pip install 'pdml\[(science|node)\]'\n", out)


@pytest.mark.parametrize(
    ("packages", "arguments", "extra"),
    [
        (SCIENCE, ("demo", "--out", "{tmp}/demo"), "science"),
        (SCIENCE, ("privacy", "{tmp}/study.toml"), "science"),
        (SCIENCE, ("bound", "--records", "100", "--features", "3"), "science"),
        (("jinja2",), ("demo", "--out", "{tmp}/demo"), "science"),
        (("jinja2",), ("collect", "serve", "{tmp}/study.toml", "--server", "alice"), "collect"),
        (("starlette",), ("collect", "serve", "{tmp}/study.toml", "--server", "alice"), "collect"),
        (("cryptography",), ("node", "init", "{tmp}/node", "--name", "alice"), "node"),
        (("onnx",), ("export", MODEL, "--out", "{tmp}/model.onnx"), "onnx"),
        (("pyarrow",), ("train", "{tmp}/people.parquet", "--label", "y"), "parquet"),
    ],
)
def test_a_command_says_what_to_install(
    tmp_path: Path, packages: tuple[str, ...], arguments: tuple[str, ...], extra: str
) -> None:
    (tmp_path / "study.toml").write_text(TEXT)
    (tmp_path / "people.parquet").write_bytes(b"PAR1")
    given = [argument.format(tmp=tmp_path) for argument in arguments]
    code, out, err = without(packages, f"from pdml.cli import main; main({json.dumps(given)})")
    assert (code, out) == (1, "")
    assert re.fullmatch(
        rf"pdml: this needs .+, which is not installed: pip install 'pdml\[{extra}\]'\n", err
    )
