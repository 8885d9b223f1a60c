"""Answers beside the label that devices randomise: how a statement names them, and what their coins
alone promise.
"""

from math import inf

from pdml.accounting import randomized_attributes
from pdml.accounting.ledger import ADVERSARIES, DATA
from pdml.encoding.encoder import Attribute
from pdml.statement.document import Sheet
from pdml.study import Study, Wording, study_summary

OTHERS = ADVERSARIES[1]


def question_text(study: Study, attribute: Attribute) -> str:
    """How a question is put to people."""
    return study.wording.get(attribute.name, Wording()).label or attribute.name


def kinds(study: Study) -> tuple[str, ...]:
    """The rows that a ledger of the study has: label, features, each randomised answer, and these
    together with the label.
    """
    return (
        *DATA,
        *randomized_attributes.names([attribute.name for attribute in study.encoder.sensitive]),
    )


def describe_data(study: Study, data: str, adversary: str = OTHERS) -> str:
    """What a row is about, in words. That of features is about a whole record, of which whoever
    receives it reads what is not randomised.
    """
    if data == "features" and adversary != OTHERS and study.encoder.clear:
        return in_clear(study)
    questions = {
        attribute.name: question_text(study, attribute) for attribute in study.encoder.sensitive
    }
    return study_summary.subject(data, questions)


def in_clear(study: Study) -> str:
    """The answers that are sent as they were given."""
    return "the other answers" + (" that are not randomised" if study.encoder.sensitive else "")


def title(text: str) -> str:
    """The same at the beginning of a line; what people wrote stays as it is."""
    return text[:1].upper() + text[1:]


def largest_epsilon(study: Study, data: str) -> float:
    """The largest ε that what devices do leaves to anybody, whatever is trained; infinite where
    something is sent as it was given.
    """
    limits = {
        randomized_attributes.named(attribute.name): _largest(attribute)
        for attribute in study.encoder.sensitive
    }
    if data in limits:
        return limits[data]
    if data == "features":
        data = randomized_attributes.TOGETHER  # a record's label is replaced with it
        if study.encoder.clear:
            return inf
    return study.menu[-1] + (
        sum(limits.values()) if data == randomized_attributes.TOGETHER else 0.0
    )


def _largest(attribute: Attribute) -> float:
    return inf if attribute.epsilon is None else attribute.epsilon.menu[-1]


def menus(study: Study) -> tuple[Sheet, ...]:
    """What a person chooses, for each randomised answer."""
    sheets = []
    for attribute in study.encoder.sensitive:
        assert attribute.epsilon is not None
        menu = zip(attribute.epsilon.menu, attribute.epsilon.millionths, strict=True)
        rows = tuple(
            (
                chosen(value, attribute.epsilon.default),
                study_summary.meaning(micro, attribute.choices),
            )
            for value, micro in menu
        )
        caption = (
            "What a person chooses for "
            f"{describe_data(study, randomized_attributes.named(attribute.name))}"
        )
        sheets.append(Sheet(caption, ("ε", "What it means"), rows))
    return tuple(sheets)


def chosen(value: float, suggested: float) -> str:
    """One ε of a menu."""
    return f"{value:g}" + (" (suggested)" if value == suggested else "")


def list_questions(study: Study) -> str:
    """The randomised answers by their questions; "" where there are none."""
    return ", ".join(
        f"“{question_text(study, attribute)}”" for attribute in study.encoder.sensitive
    )
