"""`pdml predict`: a model and a table in, one class per record out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdml.errors import DataError

if TYPE_CHECKING:
    from pdml._types import Matrix
    from pdml.release.model import Model


def predict(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A model.json that pdml wrote.", show_default=False),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Records with the columns of the training; - reads CSV.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write here (.csv, .csv.gz, .parquet), not to the screen."
        ),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also the probability of every class.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of CSV.")
    ] = False,
) -> None:
    """Predict the class of each record, in the order of the table.

    Columns the model does not need are passed over; records are encoded as in training, one by one.

    \b
    Example:
      pdml predict model.json others.csv --proba --out predictions.csv
    Example, in a pipe:
      zcat others.csv.gz | pdml predict model.json - > predictions.csv
    """
    import sys

    from pdml.cli import outputs
    from pdml.release.model import load_model
    from pdml.tables import write_predictions

    if out is not None:
        outputs.check([out], force=force)
    trained = load_model(model)
    x = _features(trained, model, data)
    columns: dict[str, Any] = {"prediction": trained.predict(x)}
    if proba:
        chances = trained.predict_proba(x)
        columns |= {f"probability {name}": chances[:, k] for k, name in enumerate(trained.classes)}
    if out is not None:
        write_predictions(out, columns)
        outputs.written.append(out)
    if as_json:
        from pdml.cli.screen import print_json

        plain = {name: values.tolist() for name, values in columns.items()}
        answer = {"columns": plain} if out is None else {"file": str(out)}
        print_json(
            {
                "label": trained.label,
                "classes": list(trained.classes),
                "records": x.shape[0],
                **answer,
            }
        )
    elif out is None:
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
    else:
        from pdml.cli.screen import console

        console().print(f"{x.shape[0]:,} predictions  {out}", soft_wrap=True)


def _features(trained: "Model", model: Path, data: Path) -> "Matrix":
    """The records as the model was taught them: by its encoder, or as plain numbers if it was
    trained on such.
    """
    import numpy as np

    from pdml.encoder import Encoder
    from pdml.tables import listed, read_table

    encoder = Encoder.from_dict(trained.encoder) if trained.encoder is not None else None
    needed = (
        [attribute.name for attribute in encoder.attributes]
        if encoder
        else list(trained.feature_names)
    )
    if not needed:
        raise DataError(
            f"{model} does not say which columns its {trained.coefficients.shape[1]} "
            "features are: it was not trained on a table"
        )
    table = read_table(data)
    if missing := [name for name in needed if name not in table.names]:
        raise DataError(f"{data} lacks columns the model needs: {listed(missing)}")
    return (
        encoder.encode(table)
        if encoder
        else np.column_stack([table.numeric(name) for name in needed])
    )
