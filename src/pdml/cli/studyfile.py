"""A study file with all that can be said against it: its own rules, the plan's, the budget's."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pdml.contribute import words
from pdml.errors import BudgetExceeded, InvalidInput, StudyError
from pdml.mechanisms.label_flip import is_weak
from pdml.study import Study, rules
from pdml.study.contract import line_of, parse, read_text
from pdml.study.lines import Path as Key
from pdml.train import trainable
from pdml.train.plan import TrainingPlan

MANY_FEATURES = 1_000  # above, training in the shape of the paper becomes slow and its noise large

Told = tuple[int, str]  # line and sentence


@dataclass(frozen=True, kw_only=True)
class Examined:
    """What a file is, and everything that was found in it, by line.

    A study with mistakes is one by which people could be asked, and under which nobody may train.
    """

    study: Study | None
    mistakes: tuple[Told, ...]
    warnings: tuple[Told, ...] = ()


def examine(path: Path) -> Examined:
    """Every mistake in one go; a file that cannot be opened is the only thing that is raised."""
    source = os.fspath(path)
    try:
        text = read_text(path)
        document, where = parse(text, source)
    except StudyError as error:
        return Examined(study=None, mistakes=error.mistakes)
    _, mistakes = rules.read(document)
    servers = document.get("servers")
    told = {key[:2] for key, _ in mistakes}
    for key, sentence in _plan_mistakes(
        document.get("plan"), len(servers) if isinstance(servers, list) else 0
    ):
        if key not in told:
            mistakes.append((key, sentence))
    if mistakes:
        return Examined(study=None, mistakes=_by_line(mistakes, where))
    study = Study.from_text(text, source)
    plan = trainable.plan_of(study)
    try:
        if plan is not None:
            plan.loss_for(len(study.classes))
    except InvalidInput as error:
        return Examined(study=None, mistakes=_by_line([(("plan", "loss"), f"plan.{error}")], where))
    refused = trainable.mistakes(study)
    warnings = _by_line(_warnings(study, told=bool(refused)), where)
    return Examined(study=study, mistakes=_by_line(refused, where), warnings=warnings)


def _by_line(told: Sequence[tuple[Key, str]], where: Mapping[Key, int]) -> tuple[Told, ...]:
    return tuple(
        sorted(((line_of(key, where), text) for key, text in told), key=lambda item: item[0])
    )


def _plan_mistakes(plan: object, servers: int) -> list[tuple[Key, str]]:
    """Values of the right type that are no settings: each by itself, so that all are told."""
    if not isinstance(plan, Mapping):
        return []
    found: list[tuple[Key, str]] = []
    for name, value in plan.items():
        if name not in rules.PLAN or not _has_type(value, *rules.PLAN[name]):
            continue  # the rules of the study tell it
        if isinstance(value, list) and len(value) != servers:
            found.append(
                (
                    ("plan", name),
                    f"plan.{name} must be one number or one per server ({servers} of them), "
                    f"got {len(value)}",
                )
            )
        try:
            TrainingPlan.from_dict({name: value})
        except InvalidInput as error:
            found.append((("plan", name), f"plan.{error}"))
    return found


def _has_type(value: object, kind: type, each: bool) -> bool:
    if each and isinstance(value, list):
        return all(_has_type(part, kind, False) for part in value)
    return not isinstance(value, bool) and isinstance(
        value, (int, float) if kind is float else kind
    )


def _warnings(study: Study, *, told: bool) -> list[tuple[Key, str]]:
    """What is allowed but unwise; ``told``: that nobody could train under it is known already."""
    found: list[tuple[Key, str]] = []
    for i, server in enumerate(study.servers):
        if (urlsplit(server.url).hostname or "").endswith(".example"):
            found.append(
                (
                    ("servers", i, "url"),
                    f"{server.url} is a placeholder: no contributor can reach it",
                )
            )
    for i, micro_epsilon in enumerate(study.epsilon_micro):
        if is_weak(micro_epsilon):
            found.append((("label", "epsilon", "menu", i), words.weakness(micro_epsilon)))
    if study.width > MANY_FEATURES:
        found.append(
            (
                ("attributes",),
                f"{study.width:,} features are many: every report has "
                f"{16 * study.width // 3:,} bytes of them",
            )
        )
    plan = trainable.plan_of(study)
    if plan is not None and study.budget is not None and not told:
        try:
            trainable.planned(study, plan).check(study.budget)
        except BudgetExceeded as error:
            why = f"with {study.min_records:,} records per server (min_records), {error}"
            found.append((("plan",), f"the plan does not keep to the budget: {why}"))
    return found


def as_json(told: tuple[Told, ...]) -> list[dict[str, Any]]:
    return [{"line": line, "text": text} for line, text in told]
