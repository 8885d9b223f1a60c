"""What only the organiser can say about a study: one function for each, and the one place to teach
where a study says it.

A study says who asks, for what and until when in `[organiser]`, `[notice]` and `[consent]`. Where
it does not, the answer is "" and the statement leaves a blank.
"""

from pdml.study import Study

LANGUAGE = "en"  # of the statement's own sentences


def organiser(study: Study) -> str:
    """Who answers for the study, with address and contact: `[organiser]`."""
    who = study.organiser
    return "" if who is None else f"{who.name}, {who.address}; contact: {who.contact}"


def data_protection_contact(study: Study) -> str:
    """Whom people ask about their data: `[organiser]`."""
    return "" if study.organiser is None else study.organiser.for_data_protection


def purpose(study: Study) -> str:
    """What the model is for: `[notice]`."""
    return "" if study.notice is None else study.notice.purpose


def legal_basis(study: Study) -> str:
    """On what the processing rests: `[notice]`."""
    return "" if study.notice is None else study.notice.legal_basis


def retention(study: Study) -> str:
    """How long answers are kept, and what ends that: `[notice]`."""
    if study.notice is None:
        return ""
    return (
        f"Collection services keep reports until {study.notice.retention:%Y-%m-%d %H:%M} UTC, and "
        "then erase them. One that is off then erases them when it is next used, and if more than "
        "a week has passed since its last use, when its operator has confirmed the date. Data "
        "sets that were handed to training before are copies, which each organisation deletes "
        "itself."
    )


def consent(study: Study) -> str:
    """What people agree to, and its version: `[consent]`."""
    if study.consent is None:
        return ""
    agreed = study.consent
    return f"People tick, in version {agreed.version}: “{agreed.text.strip()}”"


def languages(study: Study) -> str:
    """In which languages people are asked: `[study] language` and `[[languages]]`."""
    named = [study.language, *(texts.code for texts in study.languages)]
    return ", ".join(filter(None, named))
