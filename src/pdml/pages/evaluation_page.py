"""The page of an evaluation: of exact figures, not to be published, or of counts with noise."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pdml._version import __version__
from pdml.accounting import LedgerRow
from pdml.formatting import numbers
from pdml.model.model import read_ledger_rows
from pdml.model.private_evaluation import CountedEvaluation
from pdml.pages.evaluation_text import Assessment
from pdml.pages.training_page import Page

if TYPE_CHECKING:
    from pdml.model.evaluation import Evaluation
    from pdml.model.model import Model

KEEP = (
    "These figures are computed from the records without noise: whoever is shown them is shown "
    "something of these people."
)
NO_NOISE = "none, these figures are exact"


def evaluation_page(
    model: "Model",
    evaluation: "Evaluation | CountedEvaluation",
    *,
    source: str = "",
    privacy: dict[str, Any] | None = None,
) -> Page:
    """The page of an evaluation.

    Parameters
    ----------
    model : Model
        What was evaluated.
    evaluation : Evaluation or CountedEvaluation
        Without noise or with it.
    source : str
        The table's name.
    privacy : dict, optional
        What the release tells (`pdml.model.private_evaluation.privacy_charge`).

    Returns
    -------
    Page
        For `pdml.pages.training_page.write`.
    """
    view = Assessment(evaluation=evaluation)
    lines: tuple[LedgerRow, ...] = () if privacy is None else tuple(read_ledger_rows(privacy))
    accuracy = evaluation.accuracy
    where = f" of {source}" if source else ""
    on = f"on {numbers.count(evaluation.records, 'record')}{where}"
    counted = () if privacy is None else (f"The ledger counts {privacy['counted']}.",)
    return Page(
        title=f"{model.label or 'A model'}, evaluated",
        lead=f"How well the model predicts {numbers.count(evaluation.records, 'record')}{where}.",
        n_servers=1,
        edges=(),
        released_accuracy=accuracy if isinstance(accuracy, float) else accuracy.value,
        accuracy_note=on,
        assessment=view,
        doubts=tuple(filter(None, [view.verdict])),
        keep="" if view.noisy else KEEP,
        lines=lines,
        source=evaluation.source if isinstance(evaluation, CountedEvaluation) else NO_NOISE,
        notes=counted,
        creation_note=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by pdml {__version__}",
    )
