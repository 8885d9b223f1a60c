"""What a planner knows of a study before anybody has answered: sizes, a budget, and menus."""

from collections.abc import Sequence

from pdml import _validate
from pdml._types import IntArray, Matrix
from pdml.accounting import Budget
from pdml.errors import InvalidInput
from pdml.planning.forecast.yardstick import Yardstick
from pdml.planning.proposal import Proposal
from pdml.planning.search import sums_search
from pdml.planning.search.planner import Progress, propose
from pdml.planning.sizes import PlannedAnswer, Sizes
from pdml.study.definition import Study
from pdml.tables import Table


def sizes_of(
    study: Study, records: Sequence[int], prevalence: tuple[float, float] | None = None
) -> Sizes:
    """What is public about a study's data, if everybody chooses what the menus suggest."""
    choices = ((epsilon, float(epsilon == study.default_epsilon)) for epsilon in study.menu)
    return Sizes(
        records=_validate.by_server("records", records, len(study.servers)),
        width=study.width,
        epsilon=study.menu[-1],
        classes=len(study.classes),
        choices=tuple(choices) if len(study.menu) > 1 else (),
        prevalence=prevalence,
        answers=tuple(
            PlannedAnswer(block=block, epsilon=attribute.epsilon.default)
            for block, attribute in zip(study.encoder.blocks, study.encoder.sensitive, strict=True)
            if attribute.epsilon is not None
        ),
    )


def propose_for(
    study: Study,
    records: Sequence[int],
    *,
    budget: Budget | None = None,
    public: Table | None = None,
    label: str = "",
    method: str | None = None,
    most_rounds: int = 100,
    prevalence: tuple[float, float] | None = None,
    yardstick: str = Yardstick.ACCURACY,
    progress: Progress | None = None,
) -> Proposal:
    """The plan that is expected to be worth most under a study: `pdml plan study.toml`.

    Parameters
    ----------
    study : Study
    records : sequence of int
        How many people are expected at each server, or at all alike.
    budget : Budget, optional
        For a study without one.
    public : Table, optional
        Public records of the same kind, with true answers to all questions.
    label : str
        Their column with the study's classes.
    method : str, optional
        "rounds" or "sums"; by default sums where people may choose between several ε for the label,
        else whichever is expected to be worth more.
    most_rounds : int
        The most rounds to plan for.
    prevalence : (low, high), optional
        Between which shares the second of two classes is guessed to lie.
    yardstick : str
        As for `propose`.
    progress : callable, optional
        As for `propose`.

    Returns
    -------
    Proposal
        Of one job that may use up the whole budget.

    Raises
    ------
    BudgetExceeded
        If no noise meets the budget.
    InvalidInput
        If an argument lies outside its domain, or not exactly one of study and caller has a budget.

    Guarantees
    ----------
    - Randomised answers are forecast as they will be reported, with the ε that menus suggest.
    - No record is read but public ones.
    """
    if (study.budget is None) == (budget is None):
        which = "given where the study has none" if budget is None else "left to the study's own"
        raise InvalidInput(f"budget must be {which}", setting="budget")
    if min(records) < study.min_records:
        raise InvalidInput(
            f"records must be at least min_records of the study, {study.min_records:,}, got "
            f"{min(records):,}: a server with fewer does not train",
            setting="records",
        )
    sizes = sizes_of(study, records, prevalence)
    return propose(
        study.budget or budget or Budget(),
        sizes,
        study.graph(),
        like=None if public is None else _true_rows(study, public, label),
        method=method or sums_search.preferred(sizes),
        most_rounds=most_rounds,
        yardstick=yardstick,
        progress=progress,
    )


def _true_rows(study: Study, public: Table, label: str) -> tuple[Matrix, IntArray]:
    encoder = study.encoder
    rows, _ = encoder.rows(encoder.read(public))
    return rows, study.read_labels(public, label)
