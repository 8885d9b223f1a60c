"""Answers as people give them, each accepted or refused by itself; the page does the same."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pdml.encoding.device_encoding import answer
from pdml.encoding.encoder import Attribute, Number
from pdml.errors import DataError, InvalidInput
from pdml.files import read_named
from pdml.formats import decode
from pdml.mechanisms.label_flip import MILLION, micro
from pdml.study import Study
from pdml.tables import quote, quote_names

_DIGITS = re.compile(r"[-+]?(\d+([.,]\d*)?|[.,]\d+)", re.ASCII)  # as in encoding.js
# Arabic keyboards have digits of their own, eastern ones others, and a decimal sign.
_ARABIC = str.maketrans("٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹٫", "01234567890123456789.")


def check_answers(study: Study, answers: Mapping[str, object]) -> dict[str, float | str | None]:
    """Those answers that are given, as `Study.encode` takes them; others may still be missing."""
    attributes = {attribute.name: attribute for attribute in study.attributes}
    if unknown := [name for name in answers if name not in attributes]:
        names = quote_names(list(attributes))
        must = f"answers must be to the study's questions ({names})"
        raise DataError(f"{must}, got one to {unknown[0]!r}")
    return {name: _check_answer(attributes[name], value) for name, value in answers.items()}


def _check_answer(attribute: Attribute, value: object) -> float | str | None:
    if attribute.missing and (value is None or (isinstance(value, str) and not value.strip())):
        return None
    if not isinstance(attribute, Number):
        answer(attribute, value)
        return str(value).strip()
    name = attribute.name
    if isinstance(value, str):
        text = value.strip().translate(_ARABIC)
        if not _DIGITS.fullmatch(text):
            raise DataError(f"{name!r} must be a number in digits, such as 34, got {quote(value)}")
        if attribute.whole and set(text) & set(".,"):  # 34,000 means a thousand times more to some
            must = f"{name!r} must be a whole number, without a fraction"
            raise DataError(f"{must}, got {quote(value)}")
        value = float(text.replace(",", "."))
    answer(attribute, value)
    number = float(value)  # type: ignore[arg-type]  # `_check_answer` took it
    if not attribute.low <= number <= attribute.high:
        must = f"{name!r} must lie in [{attribute.low:g}, {attribute.high:g}]"
        raise DataError(f"{must}, got {number:g}: the study declares no other value")
    return number


def read(file: Path) -> dict[str, Any]:
    """Answers by name from a JSON file; `check_answers` says whether they will do."""
    data = read_named(file)
    try:
        answers: Any = decode(data)
    except msgspec.DecodeError:
        answers = None
    if not isinstance(answers, dict):
        must = f'{file} must be a JSON object of answers by name, such as {{"age": 34}}'
        raise DataError(f"{must}, got something else")
    return answers


def on_menu(study: Study, epsilon: float) -> int:
    """An ε of the study's menu in millionths, or a refusal."""
    if not 0 < epsilon < float("inf") or (millionths := micro(epsilon)) not in study.epsilon_micro:
        menu = ", ".join(f"{choice:g}" for choice in study.menu)
        must = f"epsilon must be on the study's menu ({menu})"
        raise InvalidInput(f"{must}, got {epsilon:g}", setting="epsilon")
    return millionths


def on_menus(study: Study, epsilons: Mapping[str, float]) -> dict[str, int]:
    """The ε of each sensitive attribute in millionths, by default what its menu suggests."""
    sensitive = study.encoder.sensitive
    menus = {attribute.name: attribute.epsilon for attribute in sensitive if attribute.epsilon}
    if unknown := [name for name in epsilons if name not in menus]:
        names = quote_names(list(menus)) if menus else "none in this study"
        must = f"epsilons must be of sensitive questions ({names})"
        raise InvalidInput(f"{must}, got one of {unknown[0]!r}", setting="epsilons")
    millionths = {}
    for name, menu in menus.items():
        epsilon = epsilons.get(name, menu.default)
        if not 0 < epsilon < float("inf") or micro(epsilon) not in menu.millionths:
            choices = ", ".join(f"{choice:g}" for choice in menu.menu)
            must = f"epsilon of {name!r} must be on its menu ({choices})"
            raise InvalidInput(f"{must}, got {epsilon:g}", setting="epsilons")
        millionths[name] = micro(epsilon)
    return millionths


def to_draw(
    study: Study, answers: Mapping[str, object], epsilons: Mapping[str, int]
) -> list[tuple[int, int, int]]:
    """The true level of each sensitive answer, its ε in millionths, and the number of levels."""
    chosen = on_menus(study, {name: value / MILLION for name, value in epsilons.items()})
    draws = []
    for attribute in study.encoder.sensitive:
        if attribute.name not in answers:
            raise DataError(f"every question must be answered, got no answer to {attribute.name!r}")
        level = int(attribute.position(np.array([answer(attribute, answers[attribute.name])]))[0])
        draws.append((level, chosen[attribute.name], len(attribute.choices)))
    return draws


def class_index(study: Study, label: str) -> int:
    """The index of one of the study's classes; a refusal does not repeat somebody's answer."""
    if label not in study.classes:
        classes = ", ".join(map(repr, study.classes))
        raise InvalidInput(f"label must be one of {classes}, got something else", setting="label")
    return study.classes.index(label)


def invitation(text: str) -> str:
    """The token of an invitation, bare or at the end of its link; "" for none."""
    token = text.rpartition("#t=")[2].strip()
    if token and not re.fullmatch("[0-9a-f]{32}", token):
        must = "token must be 32 hex digits, or a link that ends in #t= and these"
        raise InvalidInput(must, setting="token")
    return token


def consent(study: Study, *, agreed: bool) -> dict[str, str]:
    """A person's consent as fields of a report. Raises `InvalidInput` if one is asked for and not
    given."""
    if study.consent is None:
        return {}
    if not agreed:
        raise InvalidInput(
            f"agreed must be True, got {agreed}: the study asks people to agree to version "
            f"{study.consent.version} of its consent before they answer",
            setting="agreed",
        )
    return {"consent": study.consent.digest, "consent_version": study.consent.version}
