"""Errors: the tree that is drawn is the tree that is there, and another process gets the same."""

import pickle
import re
import warnings
from typing import Any

import pytest

from pdml import errors
from pdml.errors import (
    InvalidInput,
    MissingValueError,
    PDMLError,
    StudyError,
    UndeclaredColumns,
    warn,
)


def kinds(base: type[PDMLError]) -> set[type[PDMLError]]:
    below = {kind for kind in base.__subclasses__() if kind.__module__ == errors.__name__}
    return below.union(*map(kinds, below))


def test_the_drawing_names_every_error_under_its_own_base() -> None:
    drawn, above = {}, {0: "PDMLError"}
    for indent, name in re.findall(r"^([│ ]*)[├└]── (\w+)", errors.__doc__ or "", flags=re.M):
        depth = len(indent) // 4 + 1
        drawn[name], above[depth] = above[depth - 1], name
    assert drawn == {
        kind.__name__: kind.__bases__[0].__name__ for kind in kinds(PDMLError)
    } and len(drawn) == len(kinds(PDMLError))


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("x must be 1", setting="x"),
        MissingValueError("row 2: missing", column="age", cell="n/a"),
        StudyError("study.toml", [(3, "a"), (0, "b")]),
        UndeclaredColumns(["age"], ["age"]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_another_process_gets_the_same_error(error: PDMLError) -> None:
    again = pickle.loads(pickle.dumps(error.mark_public()))
    assert type(again) is type(error) and str(again) == str(error)
    assert vars(again) == vars(error) and again.public


def test_few_errors_are_public_by_themselves() -> None:
    """What follows from public settings alone; whoever adds one has looked at every sentence."""
    public = {kind.__name__ for kind in (PDMLError, *kinds(PDMLError)) if kind.public}
    assert public == {"BudgetExceeded", "PeerError", "Equivocation"}


def test_a_study_s_mistakes_are_counted_and_the_first_twenty_named() -> None:
    one = StudyError("study.toml", [(3, "no name")])
    assert str(one) == "study.toml is not a valid study: line 3: no name"
    many = str(StudyError("study.toml", [(i, f"mistake {i}") for i in range(1, 26)]))
    assert "25 mistakes" in many and "mistake 20" in many and "and 5 more" in many
    assert "mistake 21" not in many


def library(name: str, body: str) -> dict[str, Any]:
    """A function `call` of a module of this name."""
    names: dict[str, Any] = {"__name__": name, "warn": warn}
    exec(f"def call(*args):\n    {body}", names)
    return names


def test_a_warning_names_the_callers_line_once_for_each_call_of_scikit_learn() -> None:
    fit = library("pdml.any", "warn('Much. Do less.', UserWarning)")["call"]
    search = library("sklearn.any", "[args[0]() for _ in range(3)]")["call"]
    for action, many in {"always": 5, "default": 2, "ignore": 0}.items():
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter(action)  # type: ignore[arg-type]
            for _ in range(2):
                search(fit)
            for _ in range(3):
                fit()
        assert len(heard) == many and {one.filename for one in heard} <= {__file__}
        assert all(one.message.args == ("Much. Do less.",) for one in heard)  # type: ignore[union-attr]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match="Much"):
                search(fit)
