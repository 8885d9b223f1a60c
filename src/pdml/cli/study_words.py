"""A study in words and tables, as `pdml study show` prints it."""

from typing import Any

from rich.text import Text

from pdml.cli import budget_words, screen
from pdml.encoder import Attribute, Number
from pdml.report import numbers
from pdml.study import Study, Wording
from pdml.tables import listed

MOST_ROWS = 40
_CHANCE = (
    "Your device lets chance decide, once, what is sent in place of your answer: it may or may not "
    "be the true one. Whoever leaned towards an answer before can become surer than the table "
    "says; what is sent multiplies the odds between two answers by at most e^epsilon."
)


def tell(study: Study, facts: dict[str, Any]) -> None:
    """Everything that a person who is asked to take part may want to know."""
    out = screen.console()
    out.print(Text(study.title, style="bold"))
    out.print(Text(f"{study.id}, {_when(study)}", style="dim"))
    if study.description:
        out.print()
        out.print(study.description)

    table = screen.new_table("if you choose", "it means", words=2)
    for choice in facts["menu"]:
        default = " (suggested)" if choice["epsilon"] == study.default_epsilon else ""
        table.add_row(f"epsilon {choice['epsilon']:g}{default}", Text(choice["meaning"]))
    answers = ", ".join(study.classes)
    screen.show(out, "What is kept secret?", table, f"{study.question} ({answers})", _CHANCE)

    table = screen.new_table("question", "answer", "features", words=2)
    for attribute in study.attributes[:MOST_ROWS]:
        wording = study.wording.get(attribute.name, Wording())
        number = isinstance(attribute, Number)
        answer = _domain(attribute)
        table.add_row(
            Text(wording.label or attribute.name),
            Text(answer),
            "1" if number else str(len(attribute.feature_names)),
        )
    if len(study.attributes) > MOST_ROWS:
        table.add_row(f"... and {len(study.attributes) - MOST_ROWS} more", "", "")
    size = (
        f"A report holds {study.width} numbers: these, a constant, and the whole shrunk "
        "to length 1."
    )
    screen.show(out, "What can the own server read?", table, size)

    table = screen.new_table("server", "address", "talks to", words=3)
    for server in study.servers[:MOST_ROWS]:
        table.add_row(server.name, server.url, ", ".join(study.neighbours(server.name)))
    if len(study.servers) > MOST_ROWS:
        table.add_row(f"... and {len(study.servers) - MOST_ROWS} more", "", "")
    screen.show(
        out,
        "Who takes part?",
        table,
        f"{numbers.count(len(study.servers), 'server')}, "
        f"{numbers.count(len(study.edges), 'link')}.",
    )

    out.print()
    out.print(Text("What is promised?", style="bold cyan"))
    for sentence in (*budget_words.tell(study), *_influence(study, facts)):
        out.print(sentence)
    if facts["plan"] is not None:
        table = screen.new_table("setting", "value")
        for name, value in facts["plan"].items():
            table.add_row(name.replace("_", " "), str(value) if value is not None else "by itself")
        screen.show(out, "How is the model trained?", table)
        _ledger(study, facts)
    out.print()
    for name, value in (("study hash", facts["hash"]), ("page sha256", facts["page_sha256"])):
        out.print(f"{name:<12} {value}", soft_wrap=True)


def _domain(attribute: Attribute) -> str:
    if isinstance(attribute, Number):
        return f"{attribute.low:g} to {attribute.high:g}{', whole' if attribute.whole else ''}"
    return listed(attribute.levels).replace("'", "")


def _when(study: Study) -> str:
    opens = f"from {study.opens:%Y-%m-%d %H:%M} UTC" if study.opens else "from now on"
    return f"{opens}, " + (
        f"until {study.closes:%Y-%m-%d %H:%M} UTC" if study.closes else "without an end"
    )


def _influence(study: Study, facts: dict[str, Any]) -> list[str]:
    """How far one report can move its server's model, in the only unit people know: answers."""
    weight = facts["influence"]["weight"]
    return [
        f"A server trains with {study.min_records:,} reports or more.",
        f"One report, even a forged one, counts there as much as {weight:.3g} answers that "
        "chance has not "
        f"touched, at most (with epsilon {study.menu[0]:g}).",
    ]


def _ledger(study: Study, facts: dict[str, Any]) -> None:
    out = screen.console()
    out.print()
    who = f"With {study.min_records:,} reports at every server, other servers learn"
    for line in facts["ledger"]["lines"]:
        if line["adversary"] != "other servers":
            continue
        spent = "no limit"
        if line["epsilon"] != "inf":
            most, delta = numbers.certainty(line["certainty"]), f"{line['delta']:g}"
            spent = f"epsilon {numbers.epsilon(line['epsilon'])} (delta {delta}); "
            spent += f"from even odds at most {most} sure, but for a chance of {delta}"
        out.print(f"{who} of the {line['data']}: {spent}.")
