"""A model as a file that other programs run."""

import io
from collections.abc import Callable
from os import PathLike
from pathlib import Path

from pdml.errors import InvalidInput
from pdml.model.model import Model

ENDINGS = (".onnx", ".joblib", ".html")


def export_model(
    model: Model,
    path: str | PathLike[str],
    *,
    page: Callable[[Model], bytes] | None = None,
) -> None:
    """Write a model for programs that do not know pdml; the file's ending says for which.

    Parameters
    ----------
    model : Model
    path : str or path
        ``.onnx`` (`Model.to_onnx`), for any language; ``.joblib`` (`Model.to_sklearn`), for
        ``joblib.load``, which runs what a file tells it to: whoever loads it trusts whoever wrote
        it; ``.html``, for a person's browser.
    page : callable, optional
        Makes the page: `pdml.pages.prediction_page.prediction_page`.

    Raises
    ------
    InvalidInput
        If the ending is another, or ``.html`` without a ``page``.
    MissingExtra
        If the extra that writes such files is not installed.

    Guarantees
    ----------
    - A local model can be read by its owner alone.
    """
    target = Path(path)
    if target.suffix == ".onnx":
        model.to_onnx(target)
    elif target.suffix == ".joblib":
        import joblib

        pickled = io.BytesIO()
        joblib.dump(model.to_sklearn(), pickled)
        model.write(target, pickled.getvalue())
    elif target.suffix == ".html" and page is not None:
        model.write(target, page(model))
    else:
        endings = ENDINGS if page is not None else ENDINGS[:-1]
        raise InvalidInput(
            f"the file to export to must end in {', '.join(endings[:-1])} or {endings[-1]}, got "
            f"{target.name!r}"
        )
