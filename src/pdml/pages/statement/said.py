"""What only the organiser can say about a study: one function for each, and the one place to teach
where a study says it.

Today study.toml has no place for any of these, so that each answers "" and the statement leaves a
blank. Whoever adds `[organiser]`, `[notice]`, `consent`, sensitive attributes or languages to the
study returns them here, and every form of the statement has them.
"""

from pdml.study import Study
from pdml.study.encoder import Attribute

LANGUAGE = "en"  # of the statement's own sentences


def organiser(study: Study) -> str:
    """Who answers for the study, with address and contact: `[organiser]`."""
    return ""


def data_protection_contact(study: Study) -> str:
    """Whom people ask about their data: `[organiser]`."""
    return ""


def purpose(study: Study) -> str:
    """What the model is for: `[notice]`."""
    return ""


def legal_basis(study: Study) -> str:
    """On what the processing rests: `[notice]`."""
    return ""


def retention(study: Study) -> str:
    """How long answers are kept, and what ends that: `[notice]`."""
    return ""


def consent(study: Study) -> str:
    """What people agree to, and its version: `consent`."""
    return ""


def randomised(study: Study, attribute: Attribute) -> str:
    """How an answer beside the label is randomised on the device, where it is sensitive; "" where
    it is sent as it was given."""
    if attribute.epsilon is None:
        return ""
    menu = ", ".join(f"{each:g}" for each in attribute.epsilon.menu)
    return f"randomised by the device, with an epsilon that the person chooses ({menu})"


def languages(study: Study) -> str:
    """In which languages people are asked: `[[languages]]`."""
    return ""
