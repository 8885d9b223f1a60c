"""`pdml predict`: a model and a table in, one class per record out."""

from pathlib import Path
from typing import Annotated

from pdml.cli import outputs
from pdml.cli.options import Force, argument, flag, option
from pdml.cli.render import console

_OUT = "Write here (.csv, .csv.gz, .parquet), not to the screen."
_DATA = "Records with the columns of the training; - reads CSV."


def predict(
    model: Annotated[Path, argument("A model.json that pdml wrote.", "MODEL", show_default=False)],
    data: Annotated[Path, argument(_DATA, "DATA", show_default=False)],
    out: Annotated[Path | None, option(_OUT, "FILE")] = None,
    proba: Annotated[bool, flag("--proba", "Also the probability of every class.")] = False,
    force: Force = False,
    as_json: Annotated[bool, flag("--json", "Print one JSON object instead of CSV.")] = False,
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

    from pdml.model.model import load_model
    from pdml.simulation.table_training import predict_table
    from pdml.tables import write_csv, write_predictions

    if out is not None:
        outputs.check([out], force=force)
    trained = load_model(model)
    columns = predict_table(trained, data, proba=proba)
    records = len(columns["prediction"])
    plain = {} if out else {name: values.tolist() for name, values in columns.items()}
    if out is not None:
        write_predictions(out, columns)
        outputs.written.append(out)
    if as_json:
        summary = {"label": trained.label, "classes": list(trained.classes), "records": records}
        console.print_json(summary | ({"columns": plain} if out is None else {"file": str(out)}))
    elif out is None:
        write_csv(sys.stdout, plain)
    else:
        console.print_text(f"{records:,} predictions  {out}", whole=True)
