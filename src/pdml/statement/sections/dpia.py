"""The annex for whoever assesses the impact on data protection: what the study and the ledger can
say, and a blank for everything that only the organiser can.
"""

from collections.abc import Callable

from pdml.formatting import numbers
from pdml.statement import organiser_fields
from pdml.statement.document import Blank, Items, Part, Section, Sheet
from pdml.statement.facts import Facts
from pdml.statement.sections import randomised_response
from pdml.statement.sections.residual_risk import risks
from pdml.study import Study


def assessment(facts: Facts) -> tuple[Section, ...]:
    """Purposes, necessity, who sees what, risks, measures, and what remains."""
    return (_processing(facts), _necessity(facts), risks(facts), _rights(facts), _verdict())


def _or_blank(study: Study, field: Callable[[Study], str], what: str, before: str = "") -> Part:
    """What the study says, after words of ours, or a blank."""
    return f"{before}{field(study)}" if field(study) else Blank(what)


def _processing(facts: Facts) -> Section:
    study = facts.study
    parts: list[Part] = [
        f"The study is called “{study.title}”."
        + (f" It says of itself: “{study.description.strip()}”" if study.description else ""),
        _or_blank(
            study,
            organiser_fields.organiser,
            "who is responsible (controller), with address",
            "Responsible for it, as the study says: ",
        ),
        _or_blank(
            study,
            organiser_fields.data_protection_contact,
            "the contact for data protection",
            "The contact for data protection: ",
        ),
        _or_blank(
            study,
            organiser_fields.purpose,
            "the purpose of the processing, and what the model is for",
            "The purpose, as people are told: ",
        ),
        _or_blank(
            study,
            organiser_fields.legal_basis,
            "the legal basis, also for special categories of data",
            "The legal basis, as people are told: ",
        ),
        Sheet(
            "The organisations that receive reports, as the study names them",
            ("Organisation", "Address of its service"),
            tuple((server.name, server.url) for server in study.servers),
        ),
        "Personal data are: the answer to the sensitive question, randomised as this statement "
        f"says, the other answers{_of_which(study)}, the hour of the report, and whatever the "
        "network shows. They "
        "lie with the organisation that received them; what training releases of them is covered "
        "by the figures of this statement.",
        Blank(
            f"whether the answer to “{study.question}”, or any other answer, belongs to a "
            "special category of personal data"
        ),
        _or_blank(
            study,
            organiser_fields.languages,
            "in which languages people are asked and informed",
            "The study’s texts are in these languages: ",
        ),
    ]
    question = "What is done, by whom, and for what?"
    return Section("processing", "The processing", question, tuple(parts))


def _of_which(study: Study) -> str:
    """Which of the other answers chance decides."""
    return (
        f" (randomised as well: {randomised_response.list_questions(study)})"
        if study.encoder.sensitive
        else ""
    )


def _necessity(facts: Facts) -> Section:
    per_answer = " for each randomised answer" if facts.study.encoder.sensitive else ""
    questions = numbers.count(len(facts.study.attributes) + 1, "question")
    return Section(
        "necessity",
        "Necessity and proportion",
        "Is it necessary, and in proportion to the purpose?",
        (
            f"People are asked {questions}. A report holds the answers, the ε that was "
            f"chosen{per_answer}, a "
            "random number and, where people are invited, the invitation.",
            "For this training one trust domain held the records of all organisations."
            if facts.single_domain
            else "Between nodes no organisation sends records to another.",
            Blank("why the purpose needs each of these questions, and why less would not do"),
            Blank(
                "how many people are to be asked, who they are, and whether any of them is in "
                "a weak position towards the organisation"
            ),
        ),
    )


def _rights(facts: Facts) -> Section:
    study = facts.study
    secret = "sensitive answer" if not study.encoder.sensitive else "true answer behind a coin"
    unknown = f"The {secret} cannot be corrected: nobody but the person knows it."
    correction_note = (unknown,) if facts.devices else ()
    return Section(
        "rights",
        "What people are told, and may ask for",
        "How are people informed, and what can they demand?",
        (
            _or_blank(
                study,
                organiser_fields.consent,
                "what people agree to (text and version), or why no consent is asked for",
            ),
            _or_blank(
                study, organiser_fields.retention, "how long answers are kept at each organisation"
            ),
            Items(
                (
                    "The page and the client show exactly what would be sent before they send it.",
                    "Until the data set is frozen a report can be erased: by the person, with a "
                    "code that only the device and its receipt know, or by the receiving "
                    "organisation, by the number on the receipt. What training has released cannot "
                    "be called back.",
                    *correction_note,
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
