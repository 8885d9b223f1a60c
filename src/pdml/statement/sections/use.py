"""How spending adds up, what is left of the use, and how anybody can check it."""

from pdml.consortium.signed_counts import PooledEvaluation
from pdml.formatting import numbers
from pdml.numerics import coded_rows
from pdml.numerics.admm.labels import keep_weight
from pdml.statement.document import Blank, Exact, Part, Section, Sheet
from pdml.statement.facts import LIMITED, OTHERS, Facts
from pdml.statement.sections import randomised_response
from pdml.statement.sections.guarantee import epsilon, whom
from pdml.study.schema.trainable import MOST_JOBS


def accounting(facts: Facts) -> Section:
    spent = facts.spent
    parts: list[Part] = []
    if spent is not None:
        parts.append(f"The ledger counts {spent.counted}.")
        rows = tuple((name, numbers.count(n)) for name, n in spent.released_before.items())
        columns = ("Organisation", "Releases before this training")
        parts.append(Sheet("What each data set had released before", columns, rows))
        parts.append("Trainings after this one are not in it, and add to what others know.")
        if spent.evaluated is not None:
            parts += _evaluated(spent.evaluated)
    elif facts.plan is not None:
        parts += _trainings(facts)
    parts += [f"The software refuses to train under it: {why}." for why in facts.untrainable]
    if not facts.untrainable and facts.study.budget is not None:
        parts.append(
            "The budget belongs to each data set, over all its trainings: a node keeps a journal "
            "of what it has released, adds up, and refuses a training that would exceed it. "
            "Inside one trust domain no journal is kept, and each training is checked by itself."
        )
    more = ", and each other randomised answer," if facts.study.encoder.sensitive else ""
    parts.append(
        f"A device randomises the sensitive answer{more} once for a study: against the receiving "
        "organisation nothing adds up by training. Whoever takes the same people into another "
        "study, or another data set, adds to what is known of them, and no ledger sees it."
    )
    return Section(
        "accounting",
        "How spending adds up",
        "How is the guarantee accounted for over time and over several trainings?",
        tuple(parts),
    )


def _evaluated(evaluation: PooledEvaluation) -> list[Part]:
    """What evaluations on other records have spent of these."""
    rows = tuple(
        (
            part.server,
            numbers.count(part.records),
            numbers.count(len(part.spent)) if part.spent else "not said",
            ("" if part.spent else "at least ")
            + numbers.significant(evaluation.line(part).epsilon),
        )
        for part in evaluation.parts
    )
    columns = ("Organisation", "Records", "Releases on them", "ε of one record")
    title = (
        "Evaluated afterwards, on records that were held back (δ = "
        f"{numbers.delta(evaluation.delta)})"
    )
    return [
        Sheet(title, columns, rows),
        "Each organisation counted, once for each release, how often the model is right on records "
        "that it held back, and added noise to the counts. The ε is against everybody else; the "
        "organisation itself has these records and their true answers. That nobody in them was "
        "trained on, and that no release is left out, is each organisation's word.",
    ]


def _trainings(facts: Facts) -> list[Part]:
    """What so many by the plan spend, and how many may follow one another."""
    times = numbers.count(facts.trainings, "training")
    parts: list[Part] = [
        f"At organisations with {numbers.count(facts.study.min_records, 'record')} each, {times} "
        f"by the plan would spend, against {whom(adversary, colluding)}: "
        f"{_spent(facts, adversary, colluding)}."
        for adversary, colluding in facts.against
        if adversary == OTHERS
    ]
    if facts.study.budget is not None:
        many = numbers.count(facts.allowed, "such training") if facts.allowed else "none"
        more = " or more" if facts.allowed >= MOST_JOBS else ""
        parts.append(f"At that size the budget allows {many}{more} on one data set.")
    return parts


def _spent(facts: Facts, adversary: str, colluding: int | None) -> str:
    """Of each kind of data."""
    *first, last = (
        f"{epsilon(line, letter=True)} of "
        f"{randomised_response.describe_data(facts.study, data, adversary)} "
        f"(δ = {numbers.delta(line.delta)})"
        for data in (*reversed(LIMITED), *(kind for kind in facts.kinds if kind not in LIMITED))
        if (line := facts.line(data, adversary, colluding)) is not None
    )
    return f"{', '.join(first)} and {last}"


def utility(facts: Facts) -> Section:
    study, spent = facts.study, facts.spent
    weight = numbers.significant(float(keep_weight(study.menu[0], len(study.classes))))
    parts: list[Part] = []
    if spent is not None and spent.expected is not None:
        accuracy, sure = spent.expected.accuracy, spent.expected.confidence
        about = f", about {numbers.percent(accuracy.middle)}" if spent.evaluated is None else ""
        parts.append(
            f"By what was released alone, the model is right in {numbers.percent(accuracy.low)} "
            f"to {numbers.percent(accuracy.high)} of cases{about}; about 80% of such intervals "
            f"hold the truth. The model gives its own choices a chance of {numbers.percent(sure)} "
            "on average."
        )
    if spent is not None and spent.evaluated is not None:
        evaluation = spent.evaluated.evaluation
        parts.append(
            f"On {numbers.count(evaluation.records, 'record')} that its members held back the "
            "model is "
            f"right in {numbers.percent(evaluation.accuracy.low)} to "
            f"{numbers.percent(evaluation.accuracy.high)} of cases, about "
            f"{numbers.percent(evaluation.accuracy.value)}; 95% of such intervals hold the truth. "
            f"Always saying {evaluation.majority_class} would be right in about "
            f"{numbers.percent(evaluation.majority)}."
        )
    elif spent is not None and spent.expected is None:
        parts.append(
            "The model's file does not tell how good the model is: nothing was measured on "
            "anybody's records."
        )
    if spent is None:
        parts.append(
            "Nothing is known of the model's quality before a training. “pdml plan” rehearses a "
            "plan on made-up populations, or on public records."
        )
    parts += [
        "Noise costs accuracy, most where organisations have few records: an organisation may do "
        "better alone.",
        "The model is linear in the answers. Randomised answers are corrected for on average; "
        f"one report, even a forged one, counts as much as {weight} answers that chance has not "
        f"touched, at most (at ε = {study.menu[0]:g}){_loud(facts)}. Answers of small groups are "
        "drowned by noise before those of large ones.",
        Blank(
            "how good the model must be for its purpose, for which groups that was checked, and "
            "on which records"
        ),
    ]
    return Section(
        "utility",
        "What it is worth",
        "What is the utility, and where could the model be biased?",
        tuple(parts),
    )


def _loud(facts: Facts) -> str:
    """How much a randomised answer beside the label can count."""
    weights = [
        (
            coded_rows.weight(attribute.epsilon.millionths[0], len(attribute.choices)),
            attribute.epsilon.menu[0],
        )
        for attribute in facts.study.encoder.sensitive
        if attribute.epsilon is not None
    ]
    if not weights:
        return ""
    most, epsilon = max(weights)
    return (
        f", and another randomised answer as much as {numbers.significant(most)} (at ε = "
        f"{epsilon:g})"
    )


def checking(facts: Facts) -> Section:
    attributes = " and docs/proofs/attributes.md" if facts.study.encoder.sensitive else ""
    commands = ["pdml study check study.toml", "pdml study show study.toml"]
    if facts.spent is None:
        commands.append("pdml statement study.toml")
    elif facts.spent.separate_nodes:
        more = " --evaluation FILE ..." if facts.spent.evaluated is not None else ""
        commands += [
            f"pdml verify RESULT --study study.toml{more}",
            f"pdml statement study.toml RESULT{more}",
        ]
    else:
        commands += ["pdml privacy model.json", "pdml statement study.toml model.json"]
    rows = [("Study", facts.study.id), ("Hash of the study", facts.study.hash)]
    if facts.spent is not None:
        rows += [("Job", facts.spent.job), ("Digest of its terms", facts.spent.terms)]
    return Section(
        "checking",
        "How anybody can check it",
        "What can be verified, and by whom?",
        (
            Sheet("What this statement is about", ("What", "Which"), tuple(rows)),
            Exact(tuple(commands)),
            f"The proofs are in docs/proofs/privacy.md{attributes} of the software, with the test "
            "that "
            "would fail for each of them.",
        ),
    )
