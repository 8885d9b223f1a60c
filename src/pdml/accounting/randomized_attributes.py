"""What can be learnt of answers that went through coins of their own (docs/attributes.md).

A device reports a level that chance has decided, once for all trainings: against whoever receives
the report that is ε, pure, and no training weakens it. Against other servers the report is hidden a
second time, as a part of its record: randomised response followed by whatever hides the record.
Coins are independent, so that all answers together are as private as the sum of their ε, and
everything that holds for one coin holds for any pure mechanism with that sum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from pdml.accounting import bounds, profiles, provenance
from pdml.accounting.event_groups import Split
from pdml.accounting.events import AnswerFlipped
from pdml.accounting.per_release_loss import Exposure
from pdml.accounting.profiles import Profile, Values

TOGETHER = "label and randomised answers"


def named(name: str) -> str:
    """How the row of an answer is called."""
    return f"answer: {name}"


def names(asked: Sequence[str]) -> tuple[str, ...]:
    """Of all rows that answers to these questions have: one for each, and one for all together
    with the label.
    """
    return (*map(named, asked), TOGETHER) if asked else ()


@dataclass(frozen=True)
class Row:
    """One row of a ledger: which coins stand before it, and whether the label is a part of it."""

    name: str
    answers: tuple[AnswerFlipped, ...]
    label: bool = False

    def epsilon(self, sent: Split) -> float:
        """Of all its coins, at one server."""
        return sum(each.epsilon for each in self.answers) + (sent.epsilon if self.label else 0.0)

    def coins(self, chosen: Mapping[str, Values]) -> Values:
        """ε of its answers, added up, for people who chose these, by name; the largest where it is
        not known."""
        return sum(chosen.get(each.name, each.epsilon) for each in self.answers)

    def chosen(self, chosen: Mapping[str, float]) -> "Row":
        """The same for somebody who chose these ε, by name."""
        each = (one._replace(epsilon=chosen.get(one.name, one.epsilon)) for one in self.answers)
        return replace(self, answers=tuple(each))

    def own_epsilon(self, sent: Split) -> float:
        """Against whoever receives the report: coins hide nothing from who tossed them, nor from
        who evaluated a model with the true answers.
        """
        seen = provenance.is_seen(sent.by) or bool(sent.counts)
        return inf if seen else self.epsilon(sent)

    def profile(self, sent: Split, spent: Exposure, chosen: Values = None) -> Profile:
        """δ(ε) against the other servers, for each kind of person of one server.

        ``chosen``: the ε of each one's answers here, added up. By default everybody has chosen the
        largest, and only whoever is worst off matters.
        """
        record = bounds.against_others("features", spent, worst=chosen is None)
        if sent.counts:  # they tell of true answers, which no coin hides
            return record
        total = sum(each.epsilon for each in self.answers) if chosen is None else chosen
        if self.label:
            return profiles.better_of(record, self.closed(sent, spent, total))
        levels = 2 if len(self.answers) > 1 else self.answers[0].levels
        return profiles.better_of(record, profiles.joint_profile(total, record, levels))

    def closed(self, sent: Split, spent: Exposure, total: Values) -> Profile:
        """The same of a row with the label, by closed forms, after each round where ``spent`` has
        them: behind all coins no bound holds that has counted the label's already.
        """
        record = profiles.better_of(*bounds.closed("features", spent).values())
        if sent.counts:
            return record
        coins = np.asarray(spent.epsilon) + total
        return profiles.better_of(record, profiles.joint_profile(coins, record))


def rows(sent: Sequence[Split]) -> tuple[Row, ...]:
    """Of everything that servers have: one for each answer, and one for all together with the
    label.
    """
    asked = _largest(sent)
    each = tuple(Row(named(answer.name), (answer,)) for answer in asked)
    return (*each, Row(TOGETHER, asked, label=True)) if each else ()


def features(sent: Sequence[Split]) -> Row | None:
    """The row of features, where no server has any of them as they are; None elsewhere.

    The row is about replacing a record (docs/attributes.md). That replaces its label, too, whose
    coin therefore adds to those of the answers.
    """
    if not sent or any(each.in_clear for each in sent):
        return None
    return Row("features", _largest(sent), label=True)


def _largest(sent: Sequence[Split]) -> tuple[AnswerFlipped, ...]:
    """Each answer once, with the largest ε of all servers."""
    largest: dict[str, AnswerFlipped] = {}
    for answer in (each for one in sent for each in one.answers):
        known = largest.setdefault(answer.name, answer)
        largest[answer.name] = max(known, answer, key=lambda each: each.epsilon)
    return tuple(largest.values())


def against_others(data: str, row: Row | None, sent: Sequence[Split], spent: Exposure) -> Profile:
    """δ(ε) of label, features or a row of answers against the other servers, for each kind of
    person of these servers.
    """
    if row is None:
        return bounds.against_others(data, spent, worst=True)
    return row.profile(_counting(sent), spent)


def closed(data: str, row: Row | None, sent: Sequence[Split], spent: Exposure) -> Profile:
    """The same of label or features by closed forms, after each round where ``spent`` has them."""
    if row is None:
        return profiles.better_of(*bounds.closed(data, spent).values())
    return row.closed(_counting(sent), spent, row.coins({}))


def _counting(sent: Sequence[Split]) -> Split:
    """Of several servers one that counted true answers, if any did."""
    return next((each for each in sent if each.counts), sent[0])


def keeps(data: str, sent: Sequence[Split], spent: Exposure, epsilon: float, delta: float) -> bool:
    """Whether δ(ε) of everybody's label or features is at most ``delta``: by what hides the record,
    or by that and coins where every answer went through one.
    """
    if bounds.keeps(data, spent, epsilon, delta):
        return True
    row = features(sent) if data == "features" else None
    return row is not None and bool(
        (against_others(data, row, sent, spent)(epsilon) <= delta).all()
    )
