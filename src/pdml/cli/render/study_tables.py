"""A study in words and tables, as `pdml study show` prints it."""

from collections.abc import Iterable
from datetime import datetime
from math import isinf
from typing import Any

from pdml._math import expit
from pdml.accounting import Budget, randomized_attributes
from pdml.accounting.kinds import Adversary, Data
from pdml.accounting.profiles import limit_certainty
from pdml.cli.render import console
from pdml.cli.render.console import Grid
from pdml.encoding.encoder import Attribute
from pdml.formatting import numbers
from pdml.study import Study, Wording, participant_notice, study_summary

MOST_ROWS = 40
_CHANCE = (
    "Your device randomises your answer, once, before it is sent: what is sent may or may not be "
    "the true one. Whoever leaned towards an answer before can become surer than the table "
    "says; what is sent multiplies the odds between two answers by at most e^epsilon."
)


def print_study(study: Study, facts: dict[str, Any]) -> None:
    """Everything that a person who is asked to take part may want to know."""
    console.print_text((study.title, "bold"), (f"{study.id}, {_when(study)}", "dim"))
    if study.description:
        console.print_text("", study.description)
    if rows := list(participant_notice.in_words(study).items()):
        console.print_table("Who asks, and for what?", Grid(("", ""), rows, words=2))
    menu = [
        (f"epsilon {choice['epsilon']:g}{_default(study, choice['epsilon'])}", choice["meaning"])
        for choice in facts["menu"]
    ]
    console.print_table(
        "What is kept secret?",
        Grid(("if you choose", "it means"), menu, words=2),
        f"{study.question} ({', '.join(study.classes)})",
        _CHANCE,
    )
    if study.encoder.sensitive:
        console.print_table(
            "What else is randomised?",
            _questions(study, study.encoder.sensitive),
            *_together(study),
        )
    heading = "What can the collecting organisation read?"
    if study.encoder.clear:
        console.print_table(heading, _questions(study, study.encoder.clear), *_sent(study, facts))
    else:
        content = f"A report holds {study.width} numbers: a constant, and randomised answers."
        console.print_text("", (heading, console.HEADING), content)
    members = [
        (server.name, server.url, ", ".join(study.neighbours(server.name)))
        for server in study.servers
    ]
    counts = {"server": len(study.servers), "link": len(study.edges)}
    console.print_table(
        "Who takes part?",
        _few(("server", "address", "talks to"), members, words=3),
        ", ".join(numbers.count(n, noun) for noun, n in counts.items()) + ".",
    )
    promises = (*budget_sentences(study), *_influence(study, facts))
    console.print_text("", ("What is promised?", console.HEADING), *promises)
    if facts["plan"] is not None:
        settings = [
            (name.replace("_", " "), str(value) if value is not None else "by itself")
            for name, value in facts["plan"].items()
        ]
        console.print_table("How is the model trained?", Grid(("setting", "value"), settings))
        console.print_text("", *_ledger(study, facts))
    page = facts["page_sha256"] or "is told where pages are drawn: pip install 'pdml[collect]'"
    hashes = {"study hash": facts["hash"], "page sha256": page}
    console.print_text("", *(f"{name:<12} {value}" for name, value in hashes.items()), whole=True)


def _questions(study: Study, attributes: Iterable[Attribute]) -> Grid:
    rows = [
        (
            _question(study, attribute),
            study_summary.domain(attribute),
            str(len(attribute.feature_names)),
        )
        for attribute in attributes
    ]
    return _few(("question", "answer", "features"), rows, words=2)


def _question(study: Study, attribute: Attribute) -> str:
    return study.wording.get(attribute.name, Wording()).label or attribute.name


def _together(study: Study) -> list[str]:
    """What everybody who sees a report can learn of all randomised answers."""
    menus = [attribute.epsilon.menu for attribute in study.encoder.sensitive if attribute.epsilon]
    most = study.menu[-1] + sum(menu[-1] for menu in menus)
    return [
        "Each of them is randomised by itself. "
        f"Of {study_summary.SUBJECTS[randomized_attributes.TOGETHER]} a "
        f"report tells at most the sum of the epsilons that you choose, at most epsilon {most:g}: "
        f"from even odds at most {numbers.certainty(float(expit(most)))} sure."
    ]


def _few(columns: tuple[str, str, str], rows: list[tuple[str, str, str]], words: int) -> Grid:
    """As many rows as people read."""
    more = [(f"... and {len(rows) - MOST_ROWS} more", "", "")] if len(rows) > MOST_ROWS else []
    return Grid(columns, rows[:MOST_ROWS] + more, words)


def _default(study: Study, epsilon: float) -> str:
    return " (suggested)" if epsilon == study.default_epsilon else ""


def _sent(study: Study, facts: dict[str, Any]) -> list[str]:
    """What a report holds, and how long it is."""
    share, factor = (f"{facts['clipped'][key]:.0%}" for key in ("share", "factor"))
    additions = [
        f"Devices add to them: {feature_map}."
        for feature_map in map(study_summary.describe_map, study.encoder.maps)
    ]
    sensitive_part = ", the randomised ones," if study.encoder.sensitive else ""
    return [
        *additions,
        f"A report holds {study.width} numbers: these{sensitive_part} and a constant. What is "
        f"longer than 1 is clipped to it: {share} of reports, if people are as this study expects, "
        f"and half of those to less than {factor} of their length.",
    ]


def _when(study: Study) -> str:
    opens = f"from {_moment(study.opens)}" if study.opens else "from now on"
    return f"{opens}, " + (f"until {_moment(study.closes)}" if study.closes else "without an end")


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _influence(study: Study, facts: dict[str, Any]) -> list[str]:
    """How far one report can move its server's model, in the only unit people know: answers."""
    weight = facts["influence"]["weight"]
    return [
        f"A server trains with {study.min_records:,} reports or more.",
        f"One report, even a forged one, counts there as much as {weight:.3g} answers "
        f"that are not randomised, at most (with epsilon {study.menu[0]:g}).",
    ]


def _ledger(study: Study, facts: dict[str, Any]) -> list[str]:
    """What a training by the plan tells all others, and those against whom the budget holds."""
    budget, ledger = study.budget or Budget(), facts["ledger"]
    all_others = [line for line in ledger["rows"] if line["adversary"] == Adversary.OTHERS]
    some = [line for line in ledger.get("coalitions", ()) if line["colluding"] == budget.colluding]
    questions = {
        attribute.name: _question(study, attribute) for attribute in study.encoder.sensitive
    }
    sentences = []
    for line in (*some, *all_others):
        whom = budget.whom if line in some else Budget().whom
        who = f"With {study.min_records:,} reports at every server {whom} can learn"
        spent = "no limit"
        if line["epsilon"] != "inf":
            most, delta = numbers.certainty(line["certainty"]), f"{line['delta']:g}"
            spent = f"epsilon {numbers.epsilon(line['epsilon'])} (delta {delta}); "
            spent += f"from even odds at most {most} sure, but for a chance of {delta}"
        sentences.append(f"{who} of {study_summary.subject(line['data'], questions)}: {spent}.")
    return sentences


def budget_sentences(study: Study) -> list[str]:
    """For all answers of somebody, and for the sensitive one."""
    return [features_sentence(study), label_sentence(study)]


def features_sentence(study: Study) -> str:
    """A limit on (ε, δ) is one on how sure anybody can become (privacy.md, section 11)."""
    who = f"{_whom(study.budget)} of {study_summary.SUBJECTS[Data.FEATURES]}"
    if study.budget is None or isinf(study.budget.features_epsilon):
        return f"{who}: no limit."
    epsilon, delta = study.budget.limit(Data.FEATURES)
    limit = f"at most epsilon {epsilon:g} (delta {delta:g}) from all trainings"
    more = "" if study.budget.colluding is None else " More of them together can learn more."
    return f"{who}: {limit}. From even odds that makes {certainty_limit(epsilon, delta)}.{more}"


def _whom(budget: Budget | None) -> str:
    """Against whom a budget holds, and the verb; without one, all others."""
    limits = budget or Budget()
    learn = "learns" if limits.colluding == 1 else "learn"
    return f"{limits.whom[:1].upper()}{limits.whom[1:]} {learn}"


def label_sentence(study: Study) -> str:
    """Randomised response caps what anybody learns, whatever is trained; a budget may be lower."""
    cap, of = study.menu[-1], f"of {study_summary.SUBJECTS[Data.LABEL]}"
    most = numbers.certainty(float(expit(cap)))
    chosen = (
        f"never more than the epsilon that you choose, at most {cap:g} on this menu. From even "
        f"odds nobody becomes more than {most} sure"
    )
    if study.budget is None or study.budget.bound(Data.LABEL)[0] >= cap:
        return f"{_whom(None)} {of}: {chosen}."
    epsilon, delta = study.budget.bound(Data.LABEL)
    limit = f"at most epsilon {epsilon:g} (delta {delta:g}) from all trainings"
    return f"{_whom(study.budget)} {of}: {limit}. Everybody together: {chosen}."


def certainty_limit(epsilon: float, delta: float, of: str = "") -> str:
    """How sure somebody can become of features under a limit of (ε, δ)."""
    most = numbers.certainty(limit_certainty(epsilon))
    return f"at most {most} sure{of}, but for a chance of {2 * delta:g} (twice delta)"
