"""What a study means in words that are true at every ε and for any number of classes, and what can
be said against its file.

With ε and K classes a device sends the true answer with probability k = e^ε/(e^ε + K - 1), and each
other one with (1 - k)/(K - 1). Whoever held all K equally likely is then k sure of the one that was
sent; whoever held two of them equally likely and had ruled out the rest, e^ε/(1 + e^ε). Other
beliefs end elsewhere: what is sent multiplies the odds between two answers by at most e^ε. The page
says the same words (`device.js`); a test compares them.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from math import isinf
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pdml.accounting import Budget, randomized_attributes
from pdml.accounting.kinds import Adversary, Data
from pdml.encoding.attributes import NO_ANSWER, Category
from pdml.encoding.declarations import forecast_clipping
from pdml.encoding.encoder import Attribute, Number
from pdml.encoding.maps import Bins, FeatureMap, Fourier, Products, Splines, Squares
from pdml.errors import BudgetExceeded, StudyError
from pdml.formatting import numbers
from pdml.mechanisms.label_flip import WORD, is_weak, threshold
from pdml.numerics.admm.labels import keep_weight
from pdml.study import participant_notice
from pdml.study.definition import Study
from pdml.study.schema import trainable
from pdml.study.schema.toml_lines import Path as Key
from pdml.study.schema.toml_lines import line_of, parse, read_text
from pdml.tables import quote_names

WEAK = "This level protects you hardly at all."
# What rows of a ledger are about. That of features is about replacing a record, label and all.
SUBJECTS: dict[str, str] = {
    Data.LABEL: "the sensitive answer",
    Data.FEATURES: "all answers together, the sensitive one included",
    randomized_attributes.TOGETHER: "the sensitive answer and all randomised ones together",
}


def subject(data: str, questions: Mapping[str, str]) -> str:
    """What a row of a ledger is about; ``questions``: how people are asked, by attribute."""
    if data in SUBJECTS:
        return SUBJECTS[data]
    by_attribute = {
        randomized_attributes.named(name): question for name, question in questions.items()
    }
    return f"the answer to “{by_attribute[data]}”"


def share(part: Fraction) -> str:
    """A probability in tenths of a percent; neither 0% nor 100%, which would be promises."""
    tenths = (2000 * part.numerator + part.denominator) // (2 * part.denominator)
    if tenths < 1:
        return "under 0.1%"
    return "over 99.9%" if tenths > 999 else f"{tenths // 10}.{tenths % 10}%"


def keep_probability(micro_epsilon: int, classes: int) -> Fraction:
    """How often the true answer is sent."""
    return 1 - Fraction(threshold(micro_epsilon, classes), WORD)


def certainty(micro_epsilon: int) -> Fraction:
    """How sure of what was sent somebody becomes who held it and one other equally likely."""
    return keep_probability(micro_epsilon, 2)


def meaning(micro_epsilon: int, classes: Sequence[str]) -> str:
    """What one ε of the menu means to the person who chooses it."""
    others = len(classes) - 1
    truth = keep_probability(micro_epsilon, len(classes))
    sent, other_share = share(truth), share((1 - truth) / others)
    if others == 1:
        no, yes = classes
        sentence = (
            f"If your answer is “{yes}”, “{yes}” is sent with a chance of {sent} and “{no}” with "
            f"{other_share}, and the other way round. Somebody who held both equally likely is "
            f"then {sent} sure of the one that was sent."
        )
    else:
        sentence = (
            f"Your true answer is sent with a chance of {sent}, each of the {others} others with "
            f"{other_share}. Somebody who held all {others + 1} equally likely is then {sent} "
            "sure of the one that was sent; somebody who wavered between two of them only, and "
            f"sees one of these, {share(certainty(micro_epsilon))}."
        )
    return f"{sentence} {WEAK}" if is_weak(micro_epsilon) else sentence


def domain(attribute: Attribute) -> str:
    """Which answers an attribute allows; of a sensitive one what a report can tell."""
    if attribute.epsilon is not None:
        menu = ", ".join(f"{epsilon:g}" for epsilon in attribute.epsilon.menu)
        levels = quote_names(attribute.choices).replace("'", "")
        return f"{levels}; only after randomised response, with epsilon {menu}"
    if not isinstance(attribute, Number):
        return quote_names(attribute.choices).replace("'", "")
    text = f"{attribute.low:g} to {attribute.high:g}{', whole' if attribute.whole else ''}"
    average, spread = attribute.scale
    text += f"; most people {average:g} ± {spread:g}"
    return f"{text}; or {NO_ANSWER}" if attribute.missing else text


def weakness(micro_epsilon: int) -> str:
    """Why a study must accept such an ε by name, for those who write and run it."""
    sure = share(certainty(micro_epsilon))
    why = f"somebody who held two answers equally likely becomes {sure} sure"
    return f"epsilon {micro_epsilon / 1e6:g} protects hardly anybody: {why}"


def weaknesses(menu: Sequence[int]) -> list[str]:
    """`weakness` of every ε of a menu that hardly protects."""
    return [weakness(micro_epsilon) for micro_epsilon in filter(is_weak, menu)]


def answer_text(value: float | str | None) -> str:
    """An answer that `Study.decode` gave back."""
    if value is None:
        return NO_ANSWER
    return value if isinstance(value, str) else f"{value:.15g}"


def describe_map(feature_map: FeatureMap) -> str:
    """What a map makes of the answers, as the end of a sentence."""
    match feature_map:
        case Squares():
            return f"the square of {_named(feature_map.columns)}"
        case Products():
            return "the product of " + ", of ".join(f"{a} and {b}" for a, b in feature_map.pairs)
        case Splines():
            return f"how near {_named(feature_map.columns)} is to each of five values"
        case Bins():
            return f"in which of {feature_map.count} intervals lies {_named(feature_map.columns)}"
        case Fourier():
            return (
                f"{feature_map.count} waves of {_named(feature_map.columns)}, in directions "
                "that all know"
            )


def _named(columns: Sequence[str]) -> str:
    return ", ".join(columns) if columns else "every number that is sent as it is"


def describe_study(study: Study) -> dict[str, Any]:
    """What people who are asked, and organisations that sign, want to know, as plain values.

    Parameters
    ----------
    study : Study

    Returns
    -------
    dict
        ``hash``, ``width``; how often rows will be ``clipped``; what each ε of the ``menu`` means;
        the ``influence`` of one report at most; the ``plan``, and the ``ledger`` of a job by it
        with as few records as the study allows (None without a plan).
    """
    classes = len(study.classes)
    floor = float(keep_weight(study.menu[0], classes))
    plan = study.plan
    return {
        "hash": study.hash,
        "width": study.width,
        "clipped": forecast_clipping(study.encoder).to_dict(),
        "menu": [
            {
                "epsilon": epsilon,
                "millionths": micro,
                "true_answer": float(keep_probability(micro, classes)),
                "certainty": float(certainty(micro)),
                "weak": is_weak(micro),
                "meaning": meaning(micro, study.classes),
            }
            for epsilon, micro in zip(study.menu, study.epsilon_micro, strict=True)
        ],
        "influence": {
            "weight": floor,
            "records": study.min_records,
            "cap": floor / study.min_records,
        },
        "plan": None if plan is None else plan.to_dict(),
        "ledger": None if plan is None else trainable.worst_case_ledger(study, plan).to_dict(),
    }


def menu_cost(study: Study) -> str:
    """What a menu of several ε costs, in a sentence; "" without such a menu or a plan."""
    if study.plan is None or len(study.menu) == 1:
        return ""
    colluding = (study.budget or Budget()).colluding
    whole, alike = (
        trainable.worst_case_ledger(study, study.plan, epsilons=epsilons)
        .row(Data.FEATURES, Adversary.OTHERS, colluding=colluding)
        .epsilon
        for epsilons in (study.menu, (study.default_epsilon,))
    )
    if isinf(whole):
        return ""
    share = f"epsilon {numbers.significant(alike)} of {numbers.significant(whole)}"
    start = "the plan's noise protects whoever is worst off on the menu"
    if alike > _CHEAP * whole:
        return (
            f"{start}, and costs little: where everybody chooses {study.default_epsilon:g}, "
            f"features spend {share}"
        )
    return (
        f"{start}: where everybody chooses {study.default_epsilon:g}, features spend {share}, so "
        "that the rest of the noise protects nobody; a shorter menu costs less"
    )


_CHEAP = 0.9  # of what is planned for: who asks for the rest would gain little
MANY_FEATURES = 1_000  # above, training in the shape of the paper becomes slow and its noise large

LintMessage = tuple[int, str]  # line and sentence


@dataclass(frozen=True, kw_only=True)
class LintResult:
    """What a file is, and every message about it, by line. By a study with mistakes nobody may be
    asked, or nobody may train."""

    study: Study | None
    mistakes: tuple[LintMessage, ...]
    warnings: tuple[LintMessage, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        messages = {"mistakes": self.mistakes, "warnings": self.warnings}
        return {name: [{"line": n, "text": t} for n, t in them] for name, them in messages.items()}


def examine(path: Path, *, test: bool = False, now: datetime | None = None) -> LintResult:
    """Find every mistake of a study's file in one go.

    Parameters
    ----------
    path : Path
        The file.
    test : bool
        Nobody is asked by it: it need not say what people must be told.
    now : datetime, optional
        When people would be asked; by the machine's clock if it is left out.

    Returns
    -------
    LintResult
        The study, if it is one, with mistakes and warnings by line.

    Raises
    ------
    InvalidInput
        If the file cannot be opened, and for nothing else.
    """
    source = os.fspath(path)
    try:
        text = read_text(path)
        document, where = parse(text, source)
    except StudyError as error:
        return LintResult(study=None, mistakes=error.mistakes)
    if mistakes := Study.mistakes_in(document):
        return LintResult(study=None, mistakes=_by_line(mistakes, where))
    study = Study.from_text(text, source)
    refused = trainable.mistakes(study)
    warnings = _by_line(_warnings(study, untrainable=bool(refused)), where)
    refused += [] if test else participant_notice.mistakes(study, now or datetime.now(UTC))
    return LintResult(study=study, mistakes=_by_line(refused, where), warnings=warnings)


def _by_line(
    messages: Sequence[tuple[Key, str]], where: Mapping[Key, int]
) -> tuple[LintMessage, ...]:
    lines = ((line_of(key, where), text) for key, text in messages)
    return tuple(sorted(lines, key=itemgetter(0)))


def _warnings(study: Study, *, untrainable: bool) -> list[tuple[Key, str]]:
    """What is allowed but unwise; ``untrainable``: nobody could train under it anyway."""
    warnings: list[tuple[Key, str]] = []
    for i, server in enumerate(study.servers):
        if (urlsplit(server.url).hostname or "").endswith(".example"):
            text = f"{server.url} is a placeholder: no contributor can reach it"
            warnings.append((("servers", i, "url"), text))
    for i, micro_epsilon in enumerate(study.epsilon_micro):
        if is_weak(micro_epsilon):
            warnings.append((("label", "epsilon", "menu", i), weakness(micro_epsilon)))
    for i, attribute in enumerate(study.encoder.attributes):
        if isinstance(attribute, Category) and len(attribute.choices) == 1:
            why = "everybody gives the same answer, which tells nothing: add others, or drop it"
            text = f"“{attribute.name}” has one level: {why}"
            warnings.append((("attributes", i, "levels"), text))
    if study.width > MANY_FEATURES:
        size = f"{16 * study.width // 3:,} bytes of them and the constant"
        text = f"{study.encoder.n_features:,} features are many: every report has {size}"
        warnings.append((("attributes",), text))
    if study.plan is not None and study.budget is not None and not untrainable:
        try:
            trainable.worst_case_ledger(study, study.plan).check(study.budget)
        except BudgetExceeded as error:
            why = f"with {study.min_records:,} records per server (min_records), {error}"
            warnings.append((("plan",), f"the plan does not keep to the budget: {why}"))
    return warnings
