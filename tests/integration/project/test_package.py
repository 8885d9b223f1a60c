"""What would be published: built twice to the same bytes, whole, and of use without this folder."""

import io
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from publishing import KINDS, built_twice

import pdml

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    made = built_twice(tmp_path_factory.mktemp("builds"))
    assert set(made) == {
        f"pdml-{pdml.__version__}-py3-none-any.whl",
        f"pdml-{pdml.__version__}.tar.gz",
    }
    return made


@pytest.fixture(scope="module")
def wheel(built):
    return zipfile.ZipFile(io.BytesIO(next(v for k, v in built.items() if k.endswith(".whl"))))


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    source = ROOT / "src"
    here = {p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file()}
    here = {name for name in here if "__pycache__" not in name}
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == here and "pdml/py.typed" in packed


def test_what_the_index_would_show(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    summary = Parser().parsestr(wheel.read(name).decode())
    assert (summary["Name"], summary["Version"]) == ("pdml", pdml.__version__)
    assert summary["License-Expression"] == "Apache-2.0" and summary["Author"] == "PDML developers"
    assert summary["Description-Content-Type"] == "text/markdown"
    assert summary.get_payload().startswith("# PDML")
    assert {"collect", "node", "all"} <= set(summary.get_all("Provides-Extra"))
    assert "Typing :: Typed" in summary.get_all("Classifier")
    assert summary.get_all("Project-URL") == ["Paper, https://arxiv.org/abs/1908.01059"]


def test_the_source_archive_can_make_the_same(built):
    (data,) = (v for k, v in built.items() if k.endswith(".tar.gz"))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"} <= names
    assert {
        "src/pdml/py.typed",
        "tests/vectors/events.json",
        "docs/concepts/compatibility.md",
    } <= names
    assert not any(".venv" in name or "__pycache__" in name for name in names)


def test_it_runs_from_the_wheel_alone(built, tmp_path):
    (name,) = (name for name in built if name.endswith(".whl"))
    (tmp_path / name).write_bytes(built[name])  # Python imports from an archive as it is
    lines = "import pdml, pdml.study; print(pdml.__version__, pdml.__file__)"
    environment = {"PYTHONPATH": str(tmp_path / name)}
    command = [sys.executable, "-c", lines]
    shown = subprocess.run(
        command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert shown.split()[0] == pdml.__version__ and name in shown


@pytest.mark.parametrize("extra", KINDS)
def test_what_make_package_does_with_each_kind_of_installation_works_here(extra, tmp_path):
    shutil.copy(ROOT / "tests" / "vectors" / "formats" / "study-1.toml", tmp_path / "study.toml")
    script, _ = KINDS[extra]
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def test_the_version_stands_in_one_place_and_in_the_changelog():
    version = re.escape(pdml.__version__)
    assert re.search(rf"^## {version}\b", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    with open(ROOT / "pyproject.toml", "rb") as file:
        assert tomllib.load(file)["project"]["dynamic"] == ["version"]
    assert not re.search(r"^version:", (ROOT / "CITATION.cff").read_text(), flags=re.M)


def test_before_a_commit_runs_what_make_check_runs():
    (recipe,) = re.findall(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), flags=re.M)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    checks = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    entries = [hook["entry"] for hook in hooks if "commit-msg" not in hook.get("stages", ())]
    assert entries == checks


def test_the_citation_names_the_paper_and_this_program():
    summary = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (
        summary["cff-version"] == "1.2.0"
        and summary["license"] == "Apache-2.0"
        and summary["authors"]
    )
    assert summary["references"][0]["url"].endswith("1908.01059")
