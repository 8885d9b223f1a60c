"""A study file with all that can be said against it: its own rules, the plan's, the budget's."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pdml.encoding.attributes import Category
from pdml.errors import BudgetExceeded, StudyError
from pdml.mechanisms.label_flip import is_weak
from pdml.study import Study, participant_notice, study_summary
from pdml.study.schema import trainable
from pdml.study.schema.toml_lines import Path as Key
from pdml.study.schema.toml_lines import line_of, parse, read_text

MANY_FEATURES = 1_000  # above, training in the shape of the paper becomes slow and its noise large

LintMessage = tuple[int, str]  # line and sentence


@dataclass(frozen=True, kw_only=True)
class LintResult:
    """What a file is, and every message about it, by line.

    A study with mistakes is one by which nobody may be asked, or under which nobody may train.
    """

    study: Study | None
    mistakes: tuple[LintMessage, ...]
    warnings: tuple[LintMessage, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            name: [{"line": line, "text": text} for line, text in messages]
            for name, messages in (("mistakes", self.mistakes), ("warnings", self.warnings))
        }


def examine(path: Path, *, test: bool = False, now: datetime | None = None) -> LintResult:
    """Find every mistake of a study's file in one go.

    Parameters
    ----------
    path : Path
        The file.
    test : bool
        Nobody is asked by it: it need not say what people must be told
        (`pdml.study.participant_notice`).
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
    return tuple(
        sorted(((line_of(key, where), text) for key, text in messages), key=lambda item: item[0])
    )


def _warnings(study: Study, *, untrainable: bool) -> list[tuple[Key, str]]:
    """What is allowed but unwise; ``untrainable``: that nobody could train under it is known
    already.
    """
    warnings: list[tuple[Key, str]] = []
    for i, server in enumerate(study.servers):
        if (urlsplit(server.url).hostname or "").endswith(".example"):
            warnings.append(
                (
                    ("servers", i, "url"),
                    f"{server.url} is a placeholder: no contributor can reach it",
                )
            )
    for i, micro_epsilon in enumerate(study.epsilon_micro):
        if is_weak(micro_epsilon):
            warnings.append(
                (("label", "epsilon", "menu", i), study_summary.weakness(micro_epsilon))
            )
    for i, attribute in enumerate(study.encoder.attributes):
        if isinstance(attribute, Category) and len(attribute.choices) == 1:
            why = "everybody gives the same answer, which tells nothing: add others, or drop it"
            warnings.append(
                (("attributes", i, "levels"), f"“{attribute.name}” has one level: {why}")
            )
    if study.width > MANY_FEATURES:
        warnings.append(
            (
                ("attributes",),
                f"{study.encoder.n_features:,} features are many: every report has "
                f"{16 * study.width // 3:,} bytes of them and the constant",
            )
        )
    if study.plan is not None and study.budget is not None and not untrainable:
        try:
            trainable.worst_case_ledger(study, study.plan).check(study.budget)
        except BudgetExceeded as error:
            why = f"with {study.min_records:,} records per server (min_records), {error}"
            warnings.append((("plan",), f"the plan does not keep to the budget: {why}"))
    return warnings
