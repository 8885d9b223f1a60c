"""Examples in the docstrings of public names run: what is stale fails here."""

import ast
import builtins
import csv
import doctest
import importlib
import importlib.util
import inspect
import random
import sys
import warnings
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from federation import NAMES, freeze, study_of

import pdml
from pdml.accounting import Budget
from pdml.numerics.admm.graph import Graph
from pdml.planning.search.planner import Sizes, propose
from pdml.research.datasets import twonorm
from pdml.study.schema import template

ROOT = Path(__file__).parents[3]
_spec = importlib.util.spec_from_file_location(
    "site_reference", ROOT / "docs" / "_site" / "reference.py"
)
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)

# What a running service or node is needed for: only its names are checked.
SKIPPED = {"contribute", "train_nodes", "read_status", "read_consortium_status", "run"}


def documented() -> dict[str, tuple[ModuleType, doctest.DocTest]]:
    """Every public name and call with examples, methods of public classes included."""
    found = {}
    names = [full for names in reference.public_names().values() for _, full in names]
    names += [call for calls in reference.calls().values() for call in calls]
    for full in dict.fromkeys(map(reference._full, names)):
        value = resolve_name(full)
        module = importlib.import_module(getattr(value, "__module__", None) or "pdml")
        for test in doctest.DocTestFinder().find(value, full, module=module):
            if test.examples:
                found[test.name] = (module, test)
    return found


TESTS = documented()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What examples take as there: a study, data sets, a table, a plan."""
    place = tmp_path_factory.mktemp("examples")
    study = study_of()
    (place / "study.toml").write_text(template.render(study))
    (place / "frozen").mkdir()
    for name in NAMES:
        freeze(study, name, place / "frozen" / name)
    draw = random.Random(0)
    with open(place / "people.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["age", "sex", "diagnosis"])
        for _ in range(600):
            age = draw.randint(18, 100)
            table.writerow([age, draw.choice("fm"), "yes" if draw.gauss(age, 9) > 60 else "no"])
    sizes = Sizes(records=(4500,) * 4, width=21, epsilon=1.0)
    propose(Budget(features_epsilon=1.0), sizes, Graph.ring(4)).save(place / "plan.json")
    return place


def surroundings(module: ModuleType) -> dict[str, Any]:
    """Names an example may use without an import: its module's, and what `import pdml` offers."""
    x, y = twonorm(300, np.random.default_rng(0))
    offered = {name: getattr(pdml, name) for name in pdml.__all__}
    return {**offered, **vars(module), "x": x, "y": y}


def unresolved(source: str, known: set[str]) -> set[str]:
    """Names that an example loads and that nothing defines."""
    tree = ast.parse(source)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    own |= {alias.asname or alias.name for alias in ast.walk(tree) if isinstance(alias, ast.alias)}
    return {node.id for node in names} - own - known - set(vars(builtins))


@pytest.mark.parametrize("name", TESTS)
def test_the_example_of_a_public_name_runs(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, test = TESTS[name]
    skipped = [one for one in test.examples if one.options.get(doctest.SKIP)]
    assert not skipped or name.rpartition(".")[2] in SKIPPED, "an example that nobody runs is stale"
    known = {*surroundings(module), "study"}
    assert unresolved("\n".join(one.source for one in test.examples), known) == set()
    monkeypatch.chdir(folder)
    test.globs = surroundings(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # small sets, on which joining cannot pay
        failed, _ = doctest.DocTestRunner(
            optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        ).run(test, out=sys.stderr.write)
    assert failed == 0


def test_a_stale_example_is_noticed() -> None:
    assert len(TESTS) >= 10
    assert unresolved('everybody(Home.open("alice"))', set(surroundings(pdml))) == {
        "everybody",
        "Home",
    }
    assert inspect.isclass(resolve_name("pdml.Study"))
