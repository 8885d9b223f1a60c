"""The risks that the annex on data protection names: what could happen, what is done about it, and
what the ledger says is left.
"""

from math import isinf

from pdml.accounting import LedgerRow
from pdml.accounting.budget import any_of
from pdml.formatting import numbers
from pdml.pages import ledger_table
from pdml.statement.document import Blank, Section, Sheet
from pdml.statement.facts import OTHERS, RECEIVER, TOGETHER, Facts
from pdml.statement.sections import randomised_response
from pdml.statement.sections.guarantee import epsilon, whom
from pdml.study import Study


def risks(facts: Facts) -> Section:
    """What could happen to people, what is done about it, and what is left."""
    study = facts.study
    menu = " to ".join(dict.fromkeys(f"{value:g}" for value in (study.menu[0], study.menu[-1])))
    randomisation = (
        f"randomised before the report leaves the device; ε {menu}, as the person chooses"
    )
    if not facts.devices:
        randomisation = f"randomised with ε {menu}; this statement says above by whom"
    rows = [
        (
            "The receiving organisation learns somebody's sensitive answer",
            randomisation,
            _remains(facts, "label", RECEIVER),
        ),
        *_from_receiver(facts),
        (
            "Other organisations, the relay or a reader of the model learn a sensitive answer",
            _measure(facts, "label"),
            _remains(facts, "label", OTHERS),
        ),
        (
            "The same learn what somebody answered, the sensitive answer included",
            _measure(facts, "features"),
            _remains(facts, "features", OTHERS),
        ),
        *_of_randomised(facts),
        (
            f"The receiving organisation colludes: {whom(TOGETHER)}",
            f"{randomisation}{_likewise(study)}; nothing else",
            _left_together(facts),
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


def _from_receiver(facts: Facts) -> list[tuple[str, str, str]]:
    """What the receiving organisation can do with the other answers."""
    study, stored = facts.study, "sealed storage by “pdml collect” until the data set is frozen"
    risk = "The receiving organisation reads, passes on or loses the other answers"
    if not study.encoder.sensitive:
        return [(risk, f"{stored}; else none here", "all of it: they are sent as they were given")]
    rows = []
    if study.encoder.clear:
        left = "all of it: these are sent as they were given"
        rows.append((f"{risk} that are not randomised", f"{stored}; else none here", left))
    for data in facts.kinds[2:]:
        named = (
            f"The receiving organisation learns {randomised_response.describe_data(study, data)}"
        )
        rows.append(
            (named, "randomised, each by a coin of its own", _remains(facts, data, RECEIVER))
        )
    return rows


def _of_randomised(facts: Facts) -> list[tuple[str, str, str]]:
    """What other organisations can learn of randomised answers."""
    return [
        (
            f"Other organisations, the relay or a reader of the model learn "
            f"{randomised_response.describe_data(facts.study, data)}",
            _measure(facts, data),
            _remains(facts, data, OTHERS),
        )
        for data in facts.kinds[2:]
    ]


def _left_together(facts: Facts) -> str:
    """What remains against all organisations, the receiving one included."""
    rest = "all of it" if facts.study.encoder.clear else _remains(facts, "features", TOGETHER)
    named = randomised_response.describe_data(facts.study, "features", TOGETHER)
    parts = [f"sensitive answer: {_remains(facts, 'label', TOGETHER)}", f"{named}: {rest}"]
    parts += [
        f"{randomised_response.describe_data(facts.study, data)}: {_remains(facts, data, TOGETHER)}"
        for data in facts.kinds[2:]
    ]
    return "; ".join(parts)


def _measure(facts: Facts, data: str) -> str:
    """What stands between it and the others."""
    line = facts.line(data, OTHERS)
    if line is not None:
        return line.reason
    device_note = "" if facts.device_limit(data) is None else ", and the device's coin"
    return f"whatever the plan of each job adds{device_note}"


def _remains(facts: Facts, data: str, adversary: str) -> str:
    """What the ledger says; without one, the menu or the budget."""
    if adversary != OTHERS or facts.assumed is None:
        return _figure(facts, data, adversary)
    few = any_of(facts.assumed, "them")
    return (
        f"against {few}: {_figure(facts, data, adversary, facts.assumed)}; against all of them "
        f"together: {_figure(facts, data, adversary)}"
    )


def _figure(facts: Facts, data: str, adversary: str, colluding: int | None = None) -> str:
    line: LedgerRow | None = facts.line(data, adversary, colluding)
    if line is not None:
        return f"{epsilon(line, letter=True)}: {ledger_table.sure(line)}"
    ceiling = facts.ceiling(data, colluding) if adversary == OTHERS else facts.device_limit(data)
    if ceiling is None:
        return "no limit"
    most, delta = ceiling
    by = f"with δ = {numbers.delta(delta)}, by the budget" if delta else "by the device"
    return f"ε of at most {most:g}, {by}"


def _counting(facts: Facts) -> str:
    if facts.untrainable:
        return "none but that the software refuses to train under this study"
    if facts.single_domain:
        return "none: no journal is kept where one trust domain holds all records"
    return "a node counts all trainings on a data set, and refuses what exceeds the budget"


def _limits(facts: Facts) -> str:
    """Of the budget, over all trainings."""
    limits = []
    for data in ("features", "label"):
        name, (limit, delta) = (
            randomised_response.describe_data(facts.study, data),
            facts.budget.bound(data),
        )
        if not isinf(limit):
            limits.append(f"{name}: ε of at most {limit:g} with δ = {numbers.delta(delta)}")
        else:
            limits.append(f"{name}: no limit by the budget")
    return f"{'; '.join(limits)}, against {facts.budget.whom}"


def _assumed(facts: Facts) -> str:
    """Against how many the budget holds."""
    if facts.study.budget is None:
        return "none: the study sets no budget"
    k = facts.budget.colluding
    return "a budget against " + (
        any_of(k, f"the {facts.others} others") if k else "all others together"
    )


def _likewise(study: Study) -> str:
    return "; other randomised answers likewise" if study.encoder.sensitive else ""
