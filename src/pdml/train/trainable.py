"""Whether anybody could ever train under a study: asked before people are asked for answers."""

from pdml.accounting import Budget, Ledger
from pdml.accounting.events import Event, LabelFlipped
from pdml.core.graph import Graph
from pdml.errors import BudgetExceeded, InvalidInput, Untrainable
from pdml.study import Study, ending
from pdml.study.findings import Mistake
from pdml.train.plan import TrainingPlan

MOST_TELLING = 1 << 26  # records with which one of them moves least: beyond, sums are rounded more


def plan_of(study: Study) -> TrainingPlan | None:
    """The study's plan, if it settles one."""
    return TrainingPlan.from_dict(dict(study.plan)) if study.plan else None


def planned(study: Study, plan: TrainingPlan) -> Ledger:
    """What a job by ``plan`` spends at worst: every server with as few records as the study allows,
    the whole menu in use."""
    menu, graph = (study.menu[0], study.menu[-1]), study.graph()
    each = (_events(study, plan, graph, i, study.min_records, menu) for i in range(graph.n))
    return Ledger(tuple(each), source="planned", classes=len(study.classes))


def mistakes(study: Study) -> list[Mistake]:
    """Why no job under ``study`` could ever start, or none could ever be the last one.

    Parameters
    ----------
    study : Study
        As it would be handed to collection services and nodes.

    Returns
    -------
    list of (path, sentence)
        Empty if organisations with enough records can train under it, and not without end.
    """
    if found := ending.mistakes(study):
        return found
    try:
        plan = plan_of(study)
        never = "" if plan is None else _never(study, plan)
    except InvalidInput as error:  # settings that are no plan: the study's own rules do not know
        return [(("plan",), f"the study {study.id} has a plan that nobody can follow: {error}")]
    return [(("plan",), never)] if never else []


def check(study: Study) -> None:
    """Raise `Untrainable` if no job under ``study`` could ever start, or none be the last one."""
    if found := mistakes(study):
        raise Untrainable(study.id, [sentence for _, sentence in found])


def _never(study: Study, plan: TrainingPlan) -> str:
    """Why the plan breaks the budget at some server, however many records it has and whatever its
    people chose; "" if it need not."""
    budget, graph, classes = study.budget or Budget(), study.graph(), len(study.classes)
    n, records = graph.n, max(study.min_records, MOST_TELLING)
    degrees = graph.degrees.tolist()
    noises = [plan.iterates(i, n).scale for i in range(n)]
    certified = [plan.tolerance_for(i, n, records, study.menu[-1], 1.0, classes) for i in range(n)]
    alike = dict(zip(zip(degrees, noises, certified, strict=True), range(n), strict=True))
    for server in alike.values():
        refused: list[str] = []
        for epsilon in study.menu:
            events = _events(study, plan, graph, server, records, (epsilon, epsilon))
            try:
                Ledger((events,), classes=classes).check(budget)
            except BudgetExceeded as error:
                refused.append(str(error))
        if len(refused) == len(study.menu):
            name = study.servers[server].name
            told = f"the study {study.id} has a plan that breaks its budget"
            told += f" with any number of records at {name}: {refused[-1]}"
            return f"{told}; give it more noise or a larger budget"
    return ""


def _events(
    study: Study,
    plan: TrainingPlan,
    graph: Graph,
    server: int,
    records: int,
    chosen: tuple[float, float],
) -> tuple[Event, ...]:
    """Of one server; ``chosen`` are the smallest and the largest ε of its people."""
    sent = plan.events(
        server=server,
        n_servers=graph.n,
        degree=int(graph.degrees[server]),
        records=records,
        epsilon=chosen[0],
        norm_bound=1.0,
        width=study.width,
        classes=len(study.classes),
    )
    return (LabelFlipped(epsilon=chosen[1]), *sent)
