"""What is done with a model: `pdml predict`, `pdml evaluate` and `pdml export`."""

from functools import partial
from pathlib import Path
from typing import Any

from pdml.cli import options, outputs
from pdml.cli.options import FORCE, JSON, argument, flag, option
from pdml.cli.render import console

_PREDICTIONS = "Write here (.csv, .csv.gz, .parquet), not to the screen."


def predict(
    model: Path = argument(..., "A model.json that pdml wrote.", "MODEL"),
    data: Path = argument(..., "Records with the columns of the training; - reads CSV.", "DATA"),
    out: Path | None = option(None, _PREDICTIONS, "FILE"),
    proba: bool = flag("--proba", "Also the probability of every class."),
    force: bool = FORCE,
    as_json: bool = flag("--json", "Print one JSON object instead of CSV."),
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
        console.print_json(summary | ({"columns": plain} if out is None else {"file": out}))
    elif out is None:
        write_csv(sys.stdout, plain)
    else:
        console.print_text(f"{records:,} predictions  {out}", whole=True)


_PRIVATE = "With noise"
_noisy = partial(option, panel=_PRIVATE)
_SAME = "The model was trained on these people: add up what both tell."
_BINS = "Bins of the model's confidence; 1: less noise in the accuracy."
_GATED = ("epsilon", "delta", "bins", "same_people")
RELEASE = (
    "Computed from the records without noise: to show these figures to others is a release that "
    "nothing protects. --private-evaluation gives them with noise, and says what they tell."
)


def evaluate(
    model: Path = argument(..., "A model.json that pdml wrote.", "MODEL"),
    data: Path = argument(..., "Records with their true labels; - reads CSV.", "DATA"),
    label: str = option("", "The column of true labels.  [default: the model's]", "COLUMN"),
    private_evaluation: bool = flag(
        "--private-evaluation", "Release the figures, with noise.", _PRIVATE
    ),
    epsilon: float | None = _noisy(None, "What they may tell about one record.  [default: 1]"),
    delta: float | None = _noisy(None, "But for this chance.  [default: 1e-6]"),
    bins: int | None = _noisy(None, f"{_BINS}  [default: 5]"),
    same_people: bool | None = flag("--same-people", _SAME, _PRIVATE, default=None),
    page: Path | None = option(None, "Also write a page to look at (.html).", "FILE"),
    force: bool = options.FORCE,
    as_json: bool = options.TABLES_JSON,
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
    summary |= {} if page is None else {"file": page}

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
    model: Path = argument(..., "A model.json that pdml wrote.", "MODEL"),
    out: Path = option(..., _EXPORTED, "FILE"),
    study: Path | None = option(None, _STUDY, "FILE"),
    language: str = option("", _LANGUAGE, "CODE"),
    force: bool = FORCE,
    as_json: bool = JSON,
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
    size = out.stat().st_size
    console.print_answer(as_json, {"file": out, "bytes": size}, f"{size:,} bytes  {out}")
