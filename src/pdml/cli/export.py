"""`pdml export`: a model in, a file that other programs run out."""

from pathlib import Path
from typing import Annotated

from pdml.cli import outputs, screen
from pdml.cli.options import Force, Json, argument, option

_OUT = "What to write: .onnx for any language, .joblib for scikit-learn."


def export(
    model: Annotated[Path, argument("A model.json that pdml wrote.", "MODEL", show_default=False)],
    out: Annotated[Path, option(_OUT, "FILE", show_default=False)],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a model for programs that do not know pdml.

    An ONNX file also says what the training spent and where the model comes from. A .joblib file
    can do whatever its writer wants on the machine that loads it: load only your own.

    \b
    Example:
      pdml export model.json --out model.onnx
    Example, a pipeline for joblib.load:
      pdml export model.json --out model.joblib
    """
    from pdml.release.export import export_model
    from pdml.release.model import load_model

    outputs.check([out], force=force)
    export_model(load_model(model), out)
    outputs.written.append(out)
    if as_json:
        screen.print_json({"file": str(out), "bytes": out.stat().st_size})
    else:
        screen.say(f"{out.stat().st_size:,} bytes  {out}", whole=True)
