"""The annex for whoever assesses the impact on data protection: what the study and the ledger can
say, and a blank for everything that only the organiser can.
"""

from collections.abc import Callable

from pdml.accounting import Line
from pdml.pages import lines, numbers
from pdml.pages.statement import said
from pdml.pages.statement.facts import OTHERS, OWN, TOGETHER, Facts
from pdml.pages.statement.guarantee import WHOM, epsilon
from pdml.pages.statement.parts import Blank, Items, Part, Section, Sheet
from pdml.study import Study


def assessment(facts: Facts) -> tuple[Section, ...]:
    """Purposes, necessity, who sees what, risks, measures, and what remains."""
    return (_processing(facts), _necessity(facts), _risks(facts), _rights(facts), _verdict())


def _or_blank(study: Study, told: Callable[[Study], str], what: str, before: str = "") -> Part:
    """What the study says, after words of ours, or a blank."""
    return f"{before}{told(study)}" if told(study) else Blank(what)


def _processing(facts: Facts) -> Section:
    study = facts.study
    parts: list[Part] = [
        f"The study is called “{study.title}”."
        + (f" It says of itself: “{study.description.strip()}”" if study.description else ""),
        _or_blank(
            study,
            said.organiser,
            "who is responsible (controller), with address",
            "Responsible for it, as the study says: ",
        ),
        _or_blank(
            study,
            said.data_protection_contact,
            "the contact for data protection",
            "The contact for data protection: ",
        ),
        _or_blank(
            study,
            said.purpose,
            "the purpose of the processing, and what the model is for",
            "The purpose, as people are told: ",
        ),
        _or_blank(
            study,
            said.legal_basis,
            "the legal basis, also for special categories of data",
            "The legal basis, as people are told: ",
        ),
        Sheet(
            "The organisations that receive reports, as the study names them",
            ("Organisation", "Address of its service"),
            tuple((server.name, server.url) for server in study.servers),
        ),
        "Personal data are: the answer to the sensitive question, randomised as this statement "
        "says, the other answers, the hour of the report, and whatever the network shows. They "
        "lie with the organisation that received them; what training releases of them is covered "
        "by the figures of this statement.",
        Blank(
            f"whether the answer to “{study.question}”, or any other answer, belongs to a "
            "special category of personal data"
        ),
        _or_blank(
            study,
            said.languages,
            "in which languages people are asked and informed",
            "The study’s texts are in these languages: ",
        ),
    ]
    asked = "What is done, by whom, and for what?"
    return Section("processing", "The processing", asked, tuple(parts))


def _necessity(facts: Facts) -> Section:
    asked = numbers.count(len(facts.study.attributes) + 1, "question")
    return Section(
        "necessity",
        "Necessity and proportion",
        "Is it necessary, and in proportion to the purpose?",
        (
            f"People are asked {asked}. A report holds the answers, the ε that was chosen, a "
            "random number and, where people are invited, the invitation.",
            "For this training one trust domain held the records of all organisations."
            if facts.one_domain
            else "Between nodes no organisation sends records to another.",
            Blank("why the purpose needs each of these questions, and why less would not do"),
            Blank(
                "how many people are to be asked, who they are, and whether any of them is in "
                "a weak position towards the organisation"
            ),
        ),
    )


def _risks(facts: Facts) -> Section:
    study = facts.study
    menu = " to ".join(dict.fromkeys(f"{each:g}" for each in (study.menu[0], study.menu[-1])))
    coin = f"randomised before the report leaves the device; ε {menu}, as the person chooses"
    if not facts.devices:
        coin = f"randomised with ε {menu}; this statement says above by whom"
    rows = [
        (
            "The receiving organisation learns somebody's sensitive answer",
            coin,
            _remains(facts, "label", OWN),
        ),
        (
            "The receiving organisation reads, passes on or loses the other answers",
            "sealed storage by “pdml collect” until the data set is frozen; else none here",
            "all of it: they are sent as they were given",
        ),
        (
            "Other organisations, the relay or a reader of the model learn a sensitive answer",
            _measure(facts, "label"),
            _remains(facts, "label", OTHERS),
        ),
        (
            "The same learn somebody's other answers",
            _measure(facts, "features"),
            _remains(facts, "features", OTHERS),
        ),
        (
            f"The receiving organisation colludes: {WHOM[TOGETHER]}",
            f"{coin}; nothing else",
            f"sensitive answer: {_remains(facts, 'label', TOGETHER)}; other answers: all of it",
        ),
        ("Several trainings together tell what one does not", _counting(facts), _limits(facts)),
        (
            "More organisations collude than was assumed",
            _assumed(facts),
            "what the rows of coalitions say, where there is a plan",
        ),
        (
            "Somebody reports twice",
            "the device remembers what it sent; an invitation is used once",
            "the ε of both reports add up",
        ),
        (
            "A false page, or changed software",
            "the page's fingerprint is published; results can be verified",
            "each organisation is trusted for its own machine",
        ),
        (
            "Conclusions about a group harm its members, who may never have taken part",
            "none by this software",
            "for the organiser to judge",
        ),
    ]
    if facts.simulated:
        rows.insert(
            0,
            (
                "The noise is removed, because it was simulated",
                "none: this run was a trial",
                "everything that was released; the run protects nobody",
            ),
        )
    return Section(
        "risks",
        "Risks, measures, and what remains",
        "What could happen to people, what is done about it, and what is left?",
        (
            Sheet("Risks in words", ("Risk", "Measure", "What remains"), tuple(rows)),
            Blank("how likely and how severe each remaining risk is for the people concerned"),
        ),
    )


def _measure(facts: Facts, data: str) -> str:
    """What stands between it and the others."""
    line = facts.line(data, OTHERS)
    if line is not None:
        return line.reason
    coin = ", and the device's coin" if data == "label" else ""
    return f"whatever the plan of each job adds{coin}"


def _remains(facts: Facts, data: str, whom: str) -> str:
    """What the ledger says; without one, the menu or the budget."""
    line: Line | None = facts.line(data, whom)
    if line is not None:
        return f"{epsilon(line, letter=True)}: {lines.sure(line)}"
    ceiling = facts.ceiling(data) if whom == OTHERS else (facts.study.menu[-1], 0.0)
    if ceiling is None:
        return "no limit against all of them together"
    most, delta = ceiling
    by = f"with δ = {numbers.delta(delta)}, by the budget" if delta else "by the device"
    return f"ε of at most {most:g}, {by}"


def _counting(facts: Facts) -> str:
    if facts.untrainable:
        return "none but that the software refuses to train under this study"
    if facts.one_domain:
        return "none: no journal is kept where one trust domain holds all records"
    return "a node counts all trainings on a data set, and refuses what exceeds the budget"


def _limits(facts: Facts) -> str:
    """Of the budget, over all trainings."""
    told = []
    for data, name in (("features", "other answers"), ("label", "sensitive answer")):
        limit, delta = facts.budget.limit(data)
        if facts.limited(data):
            told.append(f"{name}: ε of at most {limit:g} with δ = {numbers.delta(delta)}")
        else:
            told.append(f"{name}: no limit by the budget")
    return "; ".join(told)


def _assumed(facts: Facts) -> str:
    """Against how many the budget holds."""
    if facts.study.budget is None:
        return "none: the study sets no budget"
    k = facts.budget.colluding
    return "a budget against " + (f"{k} of {facts.others} others" if k else "all others together")


def _rights(facts: Facts) -> Section:
    study = facts.study
    unknown = "The sensitive answer cannot be corrected: nobody but the person knows it."
    known = (unknown,) if facts.devices else ()
    return Section(
        "rights",
        "What people are told, and may ask for",
        "How are people informed, and what can they demand?",
        (
            _or_blank(
                study,
                said.consent,
                "what people agree to (text and version), or why no consent is asked for",
            ),
            _or_blank(study, said.retention, "how long answers are kept at each organisation"),
            Items(
                (
                    "The page and the client show exactly what would be sent before they send it.",
                    "Until the data set is frozen a report can be erased: by the person, with a "
                    "code that only the device and its receipt know, or by the receiving "
                    "organisation, by the number on the receipt. What training has released cannot "
                    "be called back.",
                    *known,
                )
            ),
            Blank("how people ask for access, erasure or correction, and who answers"),
        ),
    )


def _verdict() -> Section:
    return Section(
        "verdict",
        "Judgement",
        "Who has judged what remains, and when?",
        (
            Blank(
                "the advice of the data protection officer, and the views of the people concerned"
            ),
            Blank(
                "whether the remaining risk is acceptable, who decided it, and on what date it "
                "is looked at again"
            ),
        ),
    )
