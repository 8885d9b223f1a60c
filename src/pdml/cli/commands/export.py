"""`pdml export`: a model in, a file that others run out."""

from functools import partial
from pathlib import Path
from typing import Annotated

from pdml.cli import options, outputs
from pdml.cli.options import Force, Json, argument, option
from pdml.cli.render import console

_OUT = "What to write: .onnx for any language, .joblib for scikit-learn, .html for a browser."
_STUDY = "With .html: the study by which the model was trained, whose words the page asks with."
_LANGUAGE = "With .html: de, en, ...; with --study one that it has.  [default: its own, or en]"


def export(
    model: Annotated[Path, argument("A model.json that pdml wrote.", "MODEL", show_default=False)],
    out: Annotated[Path, option(_OUT, "FILE", show_default=False)],
    study: Annotated[Path | None, option(_STUDY, "FILE")] = None,
    language: Annotated[str, option(_LANGUAGE, "CODE", show_default=False)] = "",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a model for programs and people that do not know pdml.

    An ONNX file also says what the training spent and where the model comes from. A .joblib file
    can do whatever its writer wants on the machine that loads it: load only your own. An .html file
    is a page on which a person enters their own answers and sees what the model says: it computes
    in their browser and sends nothing.

    \b
    Example:
      pdml export model.json --out model.onnx
    Example, a pipeline for joblib.load:
      pdml export model.json --out model.joblib
    Example, a page that asks with the words of the study:
      pdml export model.json --out predict.html --study study.toml
    """
    from pdml.model.export import export_model
    from pdml.model.model import load_model
    from pdml.pages.prediction_page import prediction_page
    from pdml.study import Study

    if out.suffix != ".html":
        unfit = {"study": study, "language": language}
        options.refuse_options({k: v for k, v in unfit.items() if v}, ": it is for an .html file")
    outputs.check([out], force=force)
    words = None if study is None else Study.load(study)
    page = partial(prediction_page, study=words, language=language)
    export_model(load_model(model), out, page=page)
    outputs.written.append(out)
    if as_json:
        console.print_json({"file": str(out), "bytes": out.stat().st_size})
    else:
        console.print_text(f"{out.stat().st_size:,} bytes  {out}", whole=True)
