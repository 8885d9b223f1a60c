"""One row of a ledger's table, which rows of coalitions stand in it for people, and the table as
people read it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any

from pdml.accounting import bounds, kinds
from pdml.accounting.events import EventGroups
from pdml.accounting.kinds import Adversary, Data
from pdml.accounting.randomized_attributes import AnswerRow
from pdml.formatting.notebook import Sheet


@dataclass(frozen=True)
class LedgerRow:
    """One row of the ledger: (ε, δ) of a piece of data against an adversary, and why.

    ``certainty`` is how sure the adversary can be of the truth, from even odds, but for a chance of
    δ (`accounting.profiles`). ``colluding`` is how many other servers put together what they see;
    None: all.
    """

    data: str  # of `Data`, or the name of a randomised answer
    adversary: Adversary
    epsilon: float
    delta: float
    reason: str
    certainty: float
    colluding: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON; infinity as the string "inf"."""
        fields: dict[str, object] = {
            "data": self.data,
            "adversary": self.adversary,
            "epsilon": "inf" if isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "certainty": self.certainty,
            "reason": self.reason,
        }
        return fields if self.colluding is None else {**fields, "colluding": self.colluding}


def representative_coalition_sizes(others: int, also: int | None = None) -> list[int]:
    """Numbers of colluding servers that are worth a line for people."""
    sizes = {1, max(1, others // 2), others}
    return sorted(sizes | ({also} if also is not None and 1 <= also <= others else set()))


def merge_rows(table: Sequence[LedgerRow], coalitions: Sequence[LedgerRow]) -> list[LedgerRow]:
    """A table with coalitions in the place of all other servers together, if there are any."""
    rows: list[LedgerRow] = []
    for line in table:
        some = [coalition for coalition in coalitions if coalition.data == line.data]
        rows += some if some and line.adversary == Adversary.OTHERS else [line]
    return rows


COLUMNS = ("data", "against", "epsilon", "delta", "how sure they can be")
ADVERSARY_NAMES = {
    Adversary.OWN: "the collecting organisation",
    Adversary.OTHERS: "all other servers together",
    Adversary.TOGETHER: "all servers together",
}
_CERTAIN = 0.9995  # never rounded up to certainty


def sheet(lines: Iterable[LedgerRow], *, reasons: bool = False) -> Sheet:
    """The table of a ledger."""
    rows = (_cells(line) + ((line.reason,) if reasons else ()) for line in lines)
    return Sheet(columns=COLUMNS + (("why",) if reasons else ()), rows=tuple(rows))


def frame(lines: Iterable[LedgerRow]) -> Any:
    """The table as a pandas DataFrame, numbers as they are."""
    from pdml.extras import needed

    with needed():
        import pandas as pd
    names = ("data", "adversary", "colluding", "epsilon", "delta", "certainty", "reason")
    table = pd.DataFrame([[getattr(line, name) for name in names] for line in lines], columns=names)
    return table.astype({"colluding": "Int64"})


def _cells(line: LedgerRow) -> tuple[str, ...]:
    k = line.colluding
    whom = ADVERSARY_NAMES[line.adversary]
    if k is not None:
        whom = f"any {k} other server{'' if k == 1 else 's'}" + (" together" if k > 1 else "")
    if isinf(line.epsilon):
        return line.data, whom, "no protection", "", "certain"
    sure = "over 99.9%" if line.certainty >= _CERTAIN else f"at most {line.certainty:.1%}"
    return line.data, whom, f"{line.epsilon:.3g}", f"{line.delta:.3g}", sure


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


def features_server_reason(adversary: str) -> str:
    """Why features have no protection against whoever receives them."""
    return _SERVER_REASONS[Adversary(adversary)]


def answers_server_reason(row: AnswerRow, by: str, epsilon: float) -> str:
    """How randomised answers stand against whoever receives the report; ``by``: who randomised
    them (`kinds.RANDOMISED_BY`)."""
    if isinf(epsilon):
        return "the collecting organisation may have had the true answers: no protection"
    count, how = len(row.answers) + row.label, kinds.randomiser_reason(by, epsilon, alone=True)
    return how if count == 1 else f"{count} randomised responses added up, each {how}"


def answers_others_reason(row: AnswerRow, sent: EventGroups, colluding: int | None) -> str:
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
    return f"{many}, then what hides the record{_in_total(sent, colluding, ', in')}"


def _in_total(sent: EventGroups, colluding: int | None, how: str) -> str:
    """That sums are seen in a total only, if they are."""
    if colluding is None or not sent.sums:
        return ""
    honest = min(release.hidden_among for release in sent.sums) - colluding
    return f"{how} the total of {honest} servers" if honest > 1 else ""


def exchanges(count: int) -> str:
    """So many exchanges of sums."""
    return "one exchange of sums" if count == 1 else f"{count} exchanges of sums"


def evaluations(count: int) -> str:
    """So many evaluations."""
    return "one evaluation" if count == 1 else f"{count} evaluations"


def others_reason(
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
        hidden = _in_total(sent, colluding, ", hidden in")
        randomised = bound == bounds.RESPONSE and not isinf(sent.epsilon) and not sent.released
        response = ", with the device's randomised response" if randomised else ""
        parts.append(f"noise on {exchanges(len(sent.sums))}{response}{hidden}")
    if bound == bounds.BY_REPORT:
        parts.append("what each report went into bounded by itself, then added up")
    response = (
        "randomised response, then " if data == Data.LABEL and not isinf(sent.epsilon) else ""
    )
    return response + ", and ".join(parts)
