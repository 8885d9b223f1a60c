"""The list of planted mistakes fits the code, and planting them tells caught from missed."""

from collections import Counter
from dataclasses import replace

import mutants
import pytest
from mutants import Mutant

from pdml.audit import ATTACKS

MUTANTS = mutants.load()
PACKAGES = (
    "numerics",
    "encoding",
    "mechanisms",
    "accounting",
    "planning",
    "node",
    "device",
    "collector",
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mistake_can_be_planted(mutant):
    assert mutants.stale(mutant) == ""
    assert mutant.old != mutant.new and mutant.why and mutant.tests
    assert set(mutant.attacks) <= set(ATTACKS)


def test_there_are_enough_and_in_every_package():
    names = Counter(mutant.name for mutant in MUTANTS)
    assert len(names) == len(MUTANTS) >= 40
    for package in PACKAGES:
        inside = [mutant for mutant in MUTANTS if mutant.file.startswith(f"src/pdml/{package}/")]
        assert len(inside) >= 3, package
    assert any(mutant.file.endswith(".js") for mutant in MUTANTS)


GOOD = Mutant(
    name="a sum that subtracts",
    file="src/pdml/__init__.py",
    old="a + b",
    new="a - b",
    why="sums matter",
    tests=("tests/test_sum.py",),
)


@pytest.fixture
def project(tmp_path):
    """A project of one function and some tests, of which one is slow and one is wrong anyway."""
    (tmp_path / "src" / "pdml").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "src" / "pdml" / "__init__.py").write_text("def add(a, b):\n    return a + b\n")
    settings = "[tool.pytest.ini_options]\nmarkers = ['slow: long']\n"
    (tmp_path / "pyproject.toml").write_text(settings)
    zero = "def test_zero():\n    assert add(1, 0) == 1\n"
    tests = {
        "test_sum": f"{zero}\n\ndef test_sum():\n    assert add(1, 2) == 3\n",
        "test_zero": zero,
        "test_slow": "@pytest.mark.slow\ndef test_sum():\n    assert add(1, 2) == 3\n",
        "test_wrong": "def test_sum():\n    assert add(1, 2) == 4\n",
    }
    for name, text in tests.items():
        whole = f"import pytest\nfrom pdml import add\n\n\n{text}"
        (tmp_path / "tests" / f"{name}.py").write_text(whole)
    return tmp_path


def test_caught_is_told_from_missed(project, capsys):
    blind = replace(GOOD, name="blind", tests=("tests/test_zero.py", "tests/test_slow.py"))
    wrong = replace(GOOD, name="wrong", tests=("tests/test_wrong.py",))
    verdicts = mutants.plant([GOOD, blind, wrong], root=project, jobs=1)
    assert [verdict.caught for verdict in verdicts] == [True, False, False]
    assert [verdict.by for verdict in verdicts] == [
        "tests/test_sum.py::test_sum",
        "not by tests/test_zero.py, tests/test_slow.py",
        "by tests/test_wrong.py::test_sum, which fails without it as well",
    ]
    assert "a + b" in (project / GOOD.file).read_text()  # the project itself was not touched
    assert capsys.readouterr().out.count("MISSED") == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"old": "a * b"}, "its old text stands 0 times in src/pdml/__init__.py"),
        ({"old": "a"}, "its old text stands 3 times in src/pdml/__init__.py"),
        ({"file": "src/pdml/gone.py"}, "there is no src/pdml/gone.py"),
        ({"new": "a +"}, "its new text is no Python: invalid syntax"),
        ({"tests": ("tests/gone.py::test",)}, "there is no tests/gone.py::test"),
    ],
)
def test_a_list_that_no_longer_fits_says_why(project, changes, said):
    assert mutants.stale(GOOD, project) == ""
    assert mutants.stale(replace(GOOD, **changes), project) == said


def test_a_stale_list_ends_with_1_before_anything_is_planted(monkeypatch, capsys):
    monkeypatch.setattr(mutants, "load", lambda: [replace(GOOD, file="src/pdml/gone.py")])
    assert mutants.main([]) == 1
    assert capsys.readouterr().out == "STALE   a sum that subtracts: there is no src/pdml/gone.py\n"
