"""What is done with a model: `pdml predict`, `pdml evaluate` and `pdml export`."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pdml.cli import options, outputs
from pdml.cli.options import Force, Json, argument, flag, option
from pdml.cli.render import console

_PREDICTIONS = "Write here (.csv, .csv.gz, .parquet), not to the screen."
_RECORDS = "Records with the columns of the training; - reads CSV."


def predict(
    model: Annotated[Path, argument("A model.json that pdml wrote.", "MODEL", show_default=False)],
    data: Annotated[Path, argument(_RECORDS, "DATA", show_default=False)],
    out: Annotated[Path | None, option(_PREDICTIONS, "FILE")] = None,
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


_PRIVATE = "With noise"
_noisy = partial(option, panel=_PRIVATE)
_LABEL = "The column of true labels.  [default: the model's]"
_LABELLED = "Records with their true labels; - reads CSV."
_SAME = "The model was trained on these people: add up what both tell."
_BINS = "Bins of the model's confidence; 1: less noise in the accuracy."
_GATED = ("epsilon", "delta", "bins", "same_people")
RELEASE = (
    "Computed from the records without noise: to show these figures to others is a release that "
    "nothing protects. --private-evaluation gives them with noise, and says what they tell."
)


def evaluate(
    model: Annotated[Path, argument("A model.json that pdml wrote.", "MODEL", show_default=False)],
    data: Annotated[Path, argument(_LABELLED, "DATA", show_default=False)],
    label: Annotated[str, option(_LABEL, "COLUMN")] = "",
    private_evaluation: Annotated[
        bool, flag("--private-evaluation", "Release the figures, with noise.", _PRIVATE)
    ] = False,
    epsilon: Annotated[
        float | None, _noisy("What they may tell about one record.  [default: 1]")
    ] = None,
    delta: Annotated[float | None, _noisy("But for this chance.  [default: 1e-6]")] = None,
    bins: Annotated[int | None, _noisy(f"{_BINS}  [default: 5]")] = None,
    same_people: Annotated[bool | None, flag("--same-people", _SAME, _PRIVATE)] = None,
    page: Annotated[Path | None, option("Also write a page to look at (.html).", "FILE")] = None,
    force: options.Force = False,
    as_json: options.TablesJson = False,
) -> None:
    """Measure a model on records whose true labels are known.

    Accuracy beside the majority class, recall of each class, AUC, calibration and the confusion
    matrix. On private records these figures are themselves a release: do not publish them, or let
    --private-evaluation count with noise from the operating system's entropy. Each such call
    releases once more.

    \b
    Example:
      pdml evaluate model.json others.csv --page evaluation.html
    Example, on records that somebody must not see:
      pdml evaluate model.json held-back.csv --private-evaluation --epsilon 0.5
    """
    noise_options = options.pick_options(locals(), _GATED)
    if not private_evaluation:
        options.refuse_options(noise_options, " without --private-evaluation: nothing is released")
    from pdml.model.evaluation import Evaluation
    from pdml.model.model import load_model
    from pdml.model.private_evaluation import privacy_charge
    from pdml.pages.table_pages import evaluation_page
    from pdml.pages.training_page import write
    from pdml.simulation.table_training import evaluate_privately, evaluate_table

    if page is not None:
        outputs.check([page], force=force)
    trained, same = load_model(model), bool(noise_options.pop("same_people", False))
    evaluation: Any
    if private_evaluation:
        evaluation = evaluate_privately(trained, data, label, **noise_options)
        privacy = privacy_charge(
            trained, evaluation, same_people=same, delta=noise_options.get("delta", 1e-6)
        )
    else:
        evaluation, privacy = evaluate_table(trained, data, label), None
    if page is not None:
        report = evaluation_page(trained, evaluation, source=data.name, privacy=privacy)
        outputs.commit({page: partial(write, page=report)})
    summary = {"label": label or trained.label, **evaluation.to_dict()}
    summary |= {"inside_only": True} if isinstance(evaluation, Evaluation) else {"privacy": privacy}
    summary |= {} if page is None else {"file": str(page)}

    def show() -> None:
        from pdml.cli.render import training_tables
        from pdml.model.model import read_ledger_rows

        training_tables.show_evaluation(evaluation)
        if privacy is None:
            console.print_text("", RELEASE)
        else:
            console.print_privacy(read_ledger_rows(privacy), f"Counted: {privacy['counted']}.")
            console.print_text("", "Each evaluation of the same records releases once more.")
        if page is not None:
            console.print_files({"page": page})

    console.print_result(as_json, summary, show)


_EXPORTED = "What to write: .onnx for any language, .joblib for scikit-learn, .html for a browser."
_STUDY = "With .html: the study by which the model was trained, whose words the page asks with."
_LANGUAGE = "With .html: de, en, ...; with --study one that it has.  [default: its own, or en]"


def export(
    model: Annotated[Path, argument("A model.json that pdml wrote.", "MODEL", show_default=False)],
    out: Annotated[Path, option(_EXPORTED, "FILE", show_default=False)],
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
