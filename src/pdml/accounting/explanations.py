"""Why a row of the ledger says what it says, in words."""

from math import isinf

from pdml.accounting import bounds, kinds
from pdml.accounting.event_groups import EventGroups
from pdml.accounting.kinds import Adversary, Data
from pdml.accounting.randomized_attributes import AnswerRow

_HIDES = {
    bounds.THETA: "iterate noise over all rounds sent",
    bounds.ETA: "objective noise, once for all rounds",
    bounds.BOTH: "both noises together",
    bounds.WHOLE: "iterate noise over all rounds sent",
    bounds.ONCE: "label part counted once, the rest in every round",
    bounds.RESPONSE: "label part counted once, with the device's randomised response",
}
RESTS_ON = (
    "This rests on a stream cipher and on keys that their owners keep to themselves, and on the "
    "others having added their noise."
)
_SERVER_REASONS = {
    Adversary.OWN: "the collecting organisation receives them: no protection",
    Adversary.TOGETHER: "no protection",
}


COUNTED = (
    "the collecting organisation has the true label, with which it evaluated the model: "
    "no protection"
)


def features_against_server(adversary: str) -> str:
    """Why features have no protection against whoever receives them."""
    return _SERVER_REASONS[Adversary(adversary)]


def answers_against_server(row: AnswerRow, by: str, epsilon: float) -> str:
    """How randomised answers stand against whoever receives the report; ``by``: who randomised
    them (`kinds.RANDOMISED_BY`).
    """
    if isinf(epsilon):
        return "the collecting organisation may have had the true answers: no protection"
    count, how = len(row.answers) + row.label, kinds.randomiser_reason(by, epsilon, alone=True)
    return how if count == 1 else f"{count} randomised responses added up, each {how}"


def answers_against_others(row: AnswerRow, sent: EventGroups, colluding: int | None) -> str:
    """What hides randomised answers from the other servers."""
    if not sent.released and not sent.sums and not sent.counts:
        return "nothing was sent"
    if sent.counts:
        return "what hides the record alone: it was evaluated with its true answers"
    many = (
        "its randomised response"
        if len(row.answers) + row.label == 1
        else "all its randomised responses together"
    )
    among = [1 if colluding is None else release.hidden_among - colluding for release in sent.sums]
    hidden = f", in the total of {min(among)} servers" if sent.sums and min(among) > 1 else ""
    return f"{many}, then what hides the record{hidden}"


def exchanges(count: int) -> str:
    """So many exchanges of sums."""
    return "one exchange of sums" if count == 1 else f"{count} exchanges of sums"


def evaluations(count: int) -> str:
    """So many evaluations."""
    return "one evaluation" if count == 1 else f"{count} evaluations"


def against_others(
    data: str, bound: str, epsilon: float, sent: EventGroups, colluding: int | None
) -> str:
    """What hides a label or a record from the other servers."""
    if not sent.released and not sent.sums and not sent.counts:
        return "nothing was sent"
    if isinf(epsilon):
        return "no noise hides it"
    reasons = [_of_training(data, bound, sent, colluding)] if sent.released or sent.sums else []
    if sent.counts:
        reasons.append(
            f"noise on the counts of {evaluations(len(sent.counts))} with the true label"
        )
    return ", and ".join(reasons)


def _of_training(data: str, bound: str, sent: EventGroups, colluding: int | None) -> str:
    if bound == bounds.ALONE:
        return "randomised response alone"
    parts = [_HIDES.get(bound, "noise in all rounds sent")] if sent.released else []
    if sent.sums:
        among = [
            1 if colluding is None else release.hidden_among - colluding for release in sent.sums
        ]
        hidden = f", hidden in the total of {min(among)} servers" if min(among) > 1 else ""
        randomised = bound == bounds.RESPONSE and not isinf(sent.epsilon) and not sent.released
        response = ", with the device's randomised response" if randomised else ""
        parts.append(f"noise on {exchanges(len(sent.sums))}{response}{hidden}")
    if bound == bounds.BY_REPORT:
        parts.append("what each report went into bounded by itself, then added up")
    response = (
        "randomised response, then " if data == Data.LABEL and not isinf(sent.epsilon) else ""
    )
    return response + ", and ".join(parts)
