"""What scikit-learn fitted to the records before `fit` saw them: no ledger counts it."""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

PREPROCESSING_NOTE = (
    "every number is for the rows as given to `fit`: what was fitted to the data before is not "
    "counted"
)


def fitted_before() -> list[str]:
    """A leak for each pipeline that is fitting this estimator after transformers of its own.

    A last step is not told of those before it, so the pipelines are looked for among the callers.
    What was fitted by hand cannot be seen: the ledger says `PREPROCESSING_NOTE` in any case.
    """
    leaks = []
    for pipeline in _pipelines():
        names = [
            type(step).__name__
            for _, step in pipeline.steps[:-1]
            if step not in (None, "passthrough") and get_tags(step).requires_fit
        ]
        if names:
            leaks.append(
                f"a pipeline fitted {', '.join(names)} to the records before `fit`, which no noise "
                "protects and privacy_ does not count"
            )
    return list(dict.fromkeys(leaks))


def rows_before(estimator: object) -> Any:
    """X as it was before the pipeline whose last step is this estimator, or the outermost of
    several in one another; None without one.

    Folds of a search have the same values here, whatever is fitted to each of them on the way.
    Behind anything else, which may choose rows (bagging), it cannot be told which rows are left.
    """
    rows, step = None, estimator
    for pipeline, frame in _fitting():
        if pipeline is not step and pipeline.steps[-1][1] is step:
            rows, step = frame.f_locals.get("X"), pipeline
    return rows


def _pipelines() -> Iterator[Pipeline]:
    return (pipeline for pipeline, _ in _fitting())


def _fitting() -> Iterator[tuple[Pipeline, FrameType]]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Pipeline) and frame.f_code.co_name.startswith("fit"):
            yield caller, frame
        frame = frame.f_back
