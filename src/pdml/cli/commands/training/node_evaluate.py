"""`pdml node evaluate` and `pdml node combine-evaluations`: a released model, evaluated by those
who made it.
"""

from pathlib import Path
from typing import Annotated

import typer

from pdml.cli import outputs
from pdml.cli.options import Force, NodeFolder, TablesJson, argument, flag, option
from pdml.cli.render import console

_RECORDS = "Records that were held back, with true labels."
_OTHERS = "Nobody in these records is in a data set of which this node has released something."
_JOB = "A name for this evaluation; the same again releases nothing."
_BINS = "Bins of the model's confidence; 1: less noise in the accuracy."


def evaluate(
    folder: NodeFolder,
    model: Annotated[Path, argument("A result's model.json.", "MODEL")],
    data: Annotated[Path, argument(_RECORDS, "DATA")],
    label: Annotated[str, option("The column of true labels.", "COLUMN")] = "",
    job: Annotated[str, option(_JOB, "NAME")] = "",
    epsilon: Annotated[float, option("What it may tell about one record.")] = 1.0,
    delta: Annotated[float, option("But for this chance.")] = 1e-6,
    bins: Annotated[int, option(_BINS)] = 5,
    new_participants: Annotated[bool, flag("--new-participants", _OTHERS)] = False,
    out: Annotated[Path, option("What is released, signed.", "FILE")] = Path("evaluation.json"),
    force: Force = False,
    as_json: TablesJson = False,
) -> None:
    """Count how a released model does on this organisation's own records, once and with noise.

    The counts are debited in the node's journal, within the study's budget, before they are
    written; the node must not be running. What all members have written,
    `pdml node combine-evaluations` adds up.

    \b
    Example:
      pdml node evaluate alice result/model.json held-back.csv --label diagnosis \\
          --job checked --new-participants
    """
    for name, value in (("--label", label), ("--job", job)):
        if not value:
            raise typer.BadParameter("it must be given", param_hint=name)
    from pdml.consortium.evaluation_release import evaluate_at_node
    from pdml.model.model import load_model
    from pdml.node.storage.node_dir import NodeDirectory

    outputs.check([out], force=force)
    done = evaluate_at_node(
        NodeDirectory.open(folder),
        load_model(model),
        data,
        label=label,
        job=job,
        epsilon=epsilon,
        delta=delta,
        bins=bins,
        new_participants=new_participants,
    )
    outputs.commit({out: done.save})
    summary = {**done.evaluation.to_dict(), "privacy": done.ledger.to_dict(), "file": str(out)}

    def show() -> None:
        from pdml.cli.render import evaluation_tables
        from pdml.pages.evaluation_text import Assessment

        evaluation_tables.show(Assessment(evaluation=done.evaluation))
        counted = "Counted: every evaluation on these records, by this node's journal."
        console.print_privacy(done.ledger.lines(), counted)
        console.print_files({"released": out})

    console.print_result(as_json, summary, show)


def combine_evaluations(
    folder: NodeFolder,
    files: Annotated[list[Path], argument("What members have released.", "EVALUATION...")],
    as_json: TablesJson = False,
) -> None:
    """Add up what members have released of one model, each file checked against its signature.

    \b
    Example:
      pdml node combine-evaluations alice alice.json bob.json carol.json
    """
    from pdml.consortium import evaluation_release
    from pdml.node.storage.node_dir import NodeDirectory

    study = NodeDirectory.open(folder).checked_study()
    evaluation = evaluation_release.combine_evaluations(study, files)

    def show() -> None:
        from pdml.cli.render import evaluation_tables
        from pdml.pages.evaluation_text import Assessment

        evaluation_tables.show(Assessment(evaluation=evaluation))

    console.print_result(
        as_json, evaluation.to_dict() | {"files": [str(file) for file in files]}, show
    )
