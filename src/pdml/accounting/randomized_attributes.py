"""What can be learnt of randomised answers (docs/concepts/attributes.md).

A device reports a randomised level, once for all trainings: against whoever receives the report
that is ε, pure, and no training weakens it. Against other servers the report is hidden a second
time, as a part of its record: randomised response followed by whatever hides the record. Answers
are randomised independently, so that all together are as private as the sum of their ε, and what
holds for one randomised response holds for any pure mechanism with that sum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from pdml.accounting import bounds, kinds, profiles
from pdml.accounting.events import AnswerFlipped, EventGroups
from pdml.accounting.kinds import Data
from pdml.accounting.per_release_loss import ReleaseLoss
from pdml.accounting.profiles import Profile, Values

TOGETHER = "label and randomised answers"


def named(name: str) -> str:
    """How the row of an answer is called."""
    return f"answer: {name}"


def names(questions: Sequence[str]) -> tuple[str, ...]:
    """Of all rows that answers to these questions have: one for each, and one for all together
    with the label."""
    return (*map(named, questions), TOGETHER) if questions else ()


@dataclass(frozen=True)
class AnswerRow:
    """One row of a ledger: which randomised answers it is about, and whether also the label."""

    name: str
    answers: tuple[AnswerFlipped, ...]
    label: bool = False

    def epsilon(self, sent: EventGroups) -> float:
        """Of all its randomised responses, at one server."""
        return sum(answer.epsilon for answer in self.answers) + (
            sent.epsilon if self.label else 0.0
        )

    def answers_epsilon(self, chosen: Mapping[str, Values]) -> Values:
        """ε of its answers, added up, for people who chose these, by name; the largest where it is
        not known."""
        return sum(chosen.get(answer.name, answer.epsilon) for answer in self.answers)

    def server_epsilon(self, sent: EventGroups) -> float:
        """Against whoever receives the report: nothing is hidden from who randomised the answers,
        nor from who evaluated a model with the true ones."""
        exposed = kinds.server_may_know_labels(sent.by) or bool(sent.counts)
        return inf if exposed else self.epsilon(sent)

    def profile(self, sent: EventGroups, spent: ReleaseLoss, chosen: Values = None) -> Profile:
        """δ(ε) against the other servers, for each kind of person of one server.

        ``chosen``: the ε of each one's answers here, added up. By default everybody has chosen the
        largest, and only whoever is worst off matters.
        """
        record = bounds.against_others(Data.FEATURES, spent, worst=chosen is None)
        if sent.counts:  # they tell of true answers, not of randomised ones
            return record
        total = sum(answer.epsilon for answer in self.answers) if chosen is None else chosen
        if self.label:
            return profiles.better_of(record, self.closed(sent, spent, total))
        levels = 2 if len(self.answers) > 1 else self.answers[0].levels
        return profiles.better_of(record, profiles.joint_profile(total, record, levels))

    def closed(self, sent: EventGroups, spent: ReleaseLoss, total: Values) -> Profile:
        """The same of a row with the label, by closed forms, after each round where ``spent`` has
        them: no bound holds here that has counted the label's randomised response already."""
        record = profiles.better_of(*bounds.closed_forms(Data.FEATURES, spent).values())
        if sent.counts:
            return record
        pure = np.asarray(spent.epsilon) + total
        return profiles.better_of(record, profiles.joint_profile(pure, record))


def rows(sent: Sequence[EventGroups]) -> tuple[AnswerRow, ...]:
    """Of everything that servers have: one for each answer, and one for all together with the
    label."""
    answers = _largest(sent)
    answer_rows = tuple(AnswerRow(named(answer.name), (answer,)) for answer in answers)
    return (*answer_rows, AnswerRow(TOGETHER, answers, label=True)) if answer_rows else ()


def features(sent: Sequence[EventGroups]) -> AnswerRow | None:
    """The row of features, where no server has any of them as they are; None elsewhere.

    The row is about replacing a record (docs/concepts/attributes.md). That replaces its label, too,
    whose ε therefore adds to those of the answers.
    """
    if not sent or any(groups.in_clear for groups in sent):
        return None
    return AnswerRow(Data.FEATURES, _largest(sent), label=True)


def _largest(sent: Sequence[EventGroups]) -> tuple[AnswerFlipped, ...]:
    """Each answer once, with the largest ε of all servers."""
    largest: dict[str, AnswerFlipped] = {}
    for answer in (flip for groups in sent for flip in groups.answers):
        previous = largest.setdefault(answer.name, answer)
        largest[answer.name] = max(previous, answer, key=lambda flip: flip.epsilon)
    return tuple(largest.values())


def against_others(
    data: str, row: AnswerRow | None, sent: Sequence[EventGroups], spent: ReleaseLoss
) -> Profile:
    """δ(ε) of label, features or a row of answers against the other servers, for each kind of
    person of these servers."""
    if row is None:
        return bounds.against_others(data, spent, worst=True)
    return row.profile(_counting(sent), spent)


def closed(
    data: str, row: AnswerRow | None, sent: Sequence[EventGroups], spent: ReleaseLoss
) -> Profile:
    """The same of label or features by closed forms, after each round where ``spent`` has them."""
    if row is None:
        return profiles.better_of(*bounds.closed_forms(data, spent).values())
    return row.closed(_counting(sent), spent, row.answers_epsilon({}))


def _counting(sent: Sequence[EventGroups]) -> EventGroups:
    """Of several servers one that counted true answers, if any did."""
    return next((groups for groups in sent if groups.counts), sent[0])


def within_limit(
    data: str, sent: Sequence[EventGroups], spent: ReleaseLoss, epsilon: float, delta: float
) -> bool:
    """Whether δ(ε) of everybody's label or features is at most ``delta``: by what hides the record,
    or by that and randomised response where every answer went through one."""
    if bounds.within_limit(data, spent, epsilon, delta):
        return True
    row = features(sent) if data == Data.FEATURES else None
    return row is not None and bool(
        (against_others(data, row, sent, spent)(epsilon) <= delta).all()
    )
