"""`pdml evaluate`: a model and labelled records in, how well it predicts them out."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pdml.cli import options, outputs
from pdml.cli.options import argument, flag, option
from pdml.cli.render import console

_PRIVATE = "With noise"
_noisy = partial(option, panel=_PRIVATE)
_LABEL = "The column of true labels.  [default: the model's]"
_DATA = "Records with their true labels; - reads CSV."
_SAME = "The model was trained on these people: add up what both tell."
_BINS = "Bins of the model's confidence; 1: less noise in the accuracy."
_GATED = ("epsilon", "delta", "bins", "same_people")
RELEASE = (
    "Computed from the records without noise: to show these figures to others is a release that "
    "nothing protects. --private-evaluation gives them with noise, and says what they tell."
)


def evaluate(
    model: Annotated[Path, argument("A model.json that pdml wrote.", "MODEL", show_default=False)],
    data: Annotated[Path, argument(_DATA, "DATA", show_default=False)],
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
    from pdml.pages.evaluation_page import evaluation_page
    from pdml.pages.evaluation_text import Assessment
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

        training_tables.show_evaluation(Assessment(evaluation=evaluation))
        if privacy is None:
            console.print_text("", RELEASE)
        else:
            console.print_privacy(read_ledger_rows(privacy), f"Counted: {privacy['counted']}.")
            console.print_text("", "Each evaluation of the same records releases once more.")
        if page is not None:
            console.print_files({"page": page})

    console.print_result(as_json, summary, show)
