"""The guarantee itself: whose record, which neighbours, how much, and against whom."""

from math import exp, isinf

from pdml.accounting import LedgerRow, randomized_attributes
from pdml.accounting.budget import any_of
from pdml.accounting.certainty import limit_certainty
from pdml.formatting import numbers
from pdml.pages import ledger_table
from pdml.statement.document import Card, Part, Section, Sheet
from pdml.statement.facts import LIMITED, OTHERS, RECEIVER, TOGETHER, Facts
from pdml.statement.sections import randomised_response
from pdml.study import study_summary

_WHOM = {
    RECEIVER: "the organisation that receives the report",
    OTHERS: "all other organisations together, the relay, and whoever gets the model",
    TOGETHER: "all organisations together, the receiving one included",
}


def whom(adversary: str, colluding: int | None = None) -> str:
    """Against whom a row holds, in words."""
    if colluding is None:
        return _WHOM[adversary]
    return f"{any_of(colluding, 'the other organisations')}, the relay, and whoever gets the model"


_READING = (
    "How to read it: somebody gives the true value of one person's data even odds, or less, and "
    "then sees what the party in the second column sees, all of it or a part. The table says how "
    "sure of the truth they can be afterwards; with a chance of at most δ they are surer. ε and δ "
    "are the guarantee as experts write it. Whoever knew more before starts from there: what is "
    "limited is what taking part adds."
)
_REPLACING = (
    "Figures for adding or removing a record are of another kind: what has ε for adding or "
    "removing one may have up to 2ε for replacing one. Compare only figures of the same kind."
)


def cards(facts: Facts) -> tuple[Card, ...]:
    """The figures that are asked for first: those of single randomised answers are in the table."""
    result = []
    for data in (kind for kind in facts.kinds if kind in study_summary.SUBJECTS):
        for adversary, colluding in facts.against[:-1]:
            subject = randomised_response.title(
                randomised_response.describe_data(facts.study, data, adversary)
            )
            name = f"{subject}, against {whom(adversary, colluding)}"
            line = facts.line(data, adversary, colluding)
            if line is None:
                result.append(_unplanned(facts, name, data, adversary, colluding))
            else:
                result.append(_card(name, line))
    return tuple(result)


def _card(name: str, line: LedgerRow) -> Card:
    weak = isinf(line.epsilon) or line.certainty >= ledger_table.HARDLY
    return Card(name, epsilon(line, letter=True), ledger_table.sure(line), weak)


def _unplanned(facts: Facts, name: str, data: str, adversary: str, colluding: int | None) -> Card:
    """What is known where each job brings its own plan: the menu and the budget."""
    ceiling = facts.ceiling(data, colluding) if adversary == OTHERS else facts.device_limit(data)
    if ceiling is None and adversary == RECEIVER:
        return Card(name, numbers.NO_PROTECTION, "they are sent as they were given", weak=True)
    if ceiling is None and facts.limited("features"):
        fewer = f"the budget holds against {any_of(facts.assumed or 1, 'them')}, and not more"
        return Card(name, "no limit", f"{fewer}; the study has no plan", weak=True)
    if ceiling is None:
        return Card(name, "no limit", "the study sets none, and has no plan", weak=True)
    most, delta = ceiling
    source = "by what the device does, whatever is trained"
    if delta:
        source = f"the budget of all trainings, with δ = {numbers.delta(delta)}"
    return Card(name, f"ε ≤ {numbers.epsilon(most)}", source)


def epsilon(line: LedgerRow, *, letter: bool = False) -> str:
    """ε for people; infinity in words."""
    text = numbers.epsilon(line.epsilon)
    return text if isinf(line.epsilon) or not letter else f"ε = {text}"


def summary(facts: Facts) -> tuple[str, ...]:
    """What the statement is about, before any figure."""
    study, spent = facts.study, facts.spent
    if spent is not None:
        data = numbers.count(sum(spent.records.values()), "record")
        sentences = [
            f"This statement is about one finished training, the job {spent.job}, on {data} at "
            f"{numbers.count(len(spent.records), 'organisation')}. Its figures are those of the "
            f"ledger in the model's file, which counts {spent.counted}.",
        ]
        if spent.verified:
            sentences.append(
                "The result was verified for this statement: signatures, what was sent and heard, "
                "what was spent, and the model"
                + (
                    ", whose last digits are not those that this machine computes."
                    if spent.last_digits
                    else "."
                )
            )
        else:
            sentences.append(
                "The model's file was taken as it is: nothing was verified for this statement."
            )
        return tuple(sentences)
    scope = "This statement is about what the study plans and allows. It knows of no training."
    if facts.plan is None:
        bounds = "the menu is" if study.budget is None else "the menu and the budget are"
        return (
            f"{scope} The study leaves the plan to each job, so that {bounds} all that bounds what "
            "anybody learns.",
        )
    times = numbers.count(facts.trainings, "training")
    return (
        f"{scope} Figures against other organisations are for {times} by the study's plan, at "
        f"worst: every organisation with as few records as the study allows "
        f"({numbers.count(study.min_records)}), every choice of the menu in use.",
        _fits(facts),
    )


def _fits(facts: Facts) -> str:
    """Whether the budget lets the counted trainings happen."""
    if facts.untrainable:
        return f"The software refuses to train under this study: {facts.untrainable[0]}."
    if facts.within:
        return "With so few records that keeps to the study's budget."
    verb = "learns" if facts.budget.colluding == 1 else "learn"
    return (
        "With so few records that would exceed the study's budget, and the software would refuse "
        f"it: with the budget kept, {facts.budget.whom} {verb} no more than the budget says. More "
        "records at every organisation make each of them count for less."
    )


def unit(facts: Facts) -> Section:
    study = facts.study
    questions = numbers.count(len(study.attributes), "other question")
    more = randomised_response.list_questions(study)
    randomised = (
        f"Of these other answers chance decides, too, each by a coin of its own: {more}. They are "
        "protected one by one, and together with the sensitive answer."
    )
    return Section(
        "unit",
        "What is protected",
        "What is the unit of privacy?",
        (
            "One record: what one person reported once. It holds the answer to one sensitive "
            f"question, “{study.question}” ({', '.join(study.classes)}), and the answers to "
            f"{questions}.",
            *([randomised] if more else []),
            "Somebody with several records is protected less: two reports of the same sensitive "
            "answer, from another device or to another organisation, have their ε added up, and "
            "replacing several records at once is not what the figures are about.",
            "The figures are for the person who is protected least.",
        ),
    )


def neighbours(facts: Facts) -> Section:
    spent = facts.spent
    sizes: Part = (
        "The number of records is public. An organisation trains with "
        f"{numbers.count(facts.study.min_records)} or more."
    )
    if spent is not None:
        rows = tuple((name, numbers.count(m)) for name, m in spent.records.items())
        sizes = Sheet("The number of records is public", ("Organisation", "Records"), rows)
    return Section(
        "neighbours",
        "What is compared",
        "Which data sets must look alike?",
        (
            "Two data sets of the same size that differ in one record, replaced by any other "
            "record (for all answers together), or that differ in the sensitive answer of one "
            "record (for the sensitive answer)"
            f"{_further_neighbours(facts)}.",
            _REPLACING,
            sizes,
        ),
    )


def _further_neighbours(facts: Facts) -> str:
    """Which further neighbours there are where devices randomise more than the label."""
    if not facts.study.encoder.sensitive:
        return ""
    return (
        ", in one randomised answer of one record (for that answer), or in the sensitive and all "
        "randomised answers of one record (for these together)"
    )


def parameters(facts: Facts) -> Section:
    study = facts.study
    menu = zip(study.menu, study.epsilon_micro, strict=True)
    chosen = Sheet(
        "What a person chooses for the sensitive answer",
        ("ε", "What it means"),
        tuple(
            (
                randomised_response.chosen(value, study.default_epsilon),
                study_summary.meaning(micro, study.classes),
            )
            for value, micro in menu
        ),
    )
    parts: list[Part] = [chosen, *randomised_response.menus(study)]
    if facts.lines:
        rows = tuple(
            (
                randomised_response.title(
                    randomised_response.describe_data(study, data, adversary)
                ),
                whom(adversary, colluding),
                epsilon(line),
                "–" if isinf(line.epsilon) else numbers.delta(line.delta),
                ledger_table.sure(line),
                line.reason,
            )
            for data in facts.kinds
            for adversary, colluding in facts.against
            if (line := facts.line(data, adversary, colluding)) is not None
        )
        columns = ("Data", "Against", "ε", "δ", "How sure they can be", "Why")
        parts += [Sheet(_caption(facts), columns, rows), _READING]
    else:
        parts.append(
            "The study has no plan: each job brings its own, and its ledger is known only then."
        )
    return Section(
        "parameters",
        "How much, against whom",
        "What are ε and δ, for each piece of data and each adversary?",
        (*parts, *_budget(facts)),
    )


def _factor(epsilon: float) -> str:
    """e^ε, as far as a computer can count."""
    return numbers.significant(exp(epsilon)) if epsilon < 700 else "over 10³⁰⁰"


def _sure(epsilon: float, delta: float) -> str:
    """What a limit lets them believe: it says one point of a profile, a ledger's line all of it."""
    most = numbers.certainty(limit_certainty(epsilon))
    twice = f"a chance of {numbers.delta(2 * delta)} (twice δ)"
    return f"at even odds before, at most {most} sure after" + (
        f", but for {twice}" if delta else ""
    )


def _caption(facts: Facts) -> str:
    if facts.simulated:
        return "What a deployment with real noise would have guaranteed; this run protected nobody"
    if facts.spent is not None:
        return "What was spent, for a person at the least protected organisation"
    times = numbers.count(facts.trainings, "training")
    return f"What {times} by the plan would spend, for a person at the least protected organisation"


def _budget(facts: Facts) -> tuple[Part, ...]:
    """The most that the study allows, over all trainings."""
    if facts.study.budget is None:
        return ("The study sets no budget: it limits nothing that trainings spend together.",)
    k = facts.budget.colluding
    parties = any_of(k, "them") if k else "all of them together"
    rows = []
    for data in reversed(LIMITED):
        limit, delta = facts.budget.bound(data)
        free = isinf(limit)
        rows.append(
            (
                randomised_response.title(randomised_response.describe_data(facts.study, data)),
                "no limit" if free else f"{limit:g}",
                "–" if free else numbers.delta(delta),
                "–" if free else _factor(limit),
                "the budget sets no limit" if free else _sure(limit, delta),
            )
        )
    return (
        Sheet(
            f"The study's budget: what the other organisations may learn, {parties}",
            ("Data", "ε", "δ", "Factor", "How sure they can be"),
            tuple(rows),
        ),
        "The budget holds for each data set, over all its trainings together: whatever these "
        "see, its chance with one record is at most the factor (e^ε) times its chance with "
        "another record in its place, plus δ.",
        *_without_budget(facts),
    )


def _without_budget(facts: Facts) -> tuple[str, ...]:
    """What bounds randomised answers, of which a budget knows nothing."""
    if not facts.study.encoder.sensitive:
        return ()
    largest = numbers.epsilon(
        randomised_response.largest_epsilon(facts.study, randomized_attributes.TOGETHER)
    )
    sentence = (
        "Randomised answers have no budget of their own. Their coins are tossed once, before any "
        "training: where a device tossed them, no number of trainings takes one of them beyond the "
        "ε that the person chose for it, nor all of them with the sensitive answer beyond "
        f"{largest}, the sum of the largest on their menus."
    )
    also = " The budget of all answers together holds for each of them, too."
    return (sentence + (also if facts.limited("features") else ""),)
