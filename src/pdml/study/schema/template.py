"""A study as a commented study.toml, for people to go on with."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pdml.planning.training_plan import TrainingPlan
from pdml.study.definition import Study

_HEAD = """\
# The contract of a study: everybody who takes part has the same file. `pdml study check` finds its
# mistakes, `pdml study show` says in words what it means. Its hash travels with every report and
# every training message, so a change after the first report makes it another study.
"""
_COMMENTS = {
    "study": "",
    "organiser": """\
# Who answers for the study: people read it first, and it stands on their receipt.
""",
    "notice": """\
# What people are told of what becomes of their answers. When retention comes, collection services
# erase all reports, as if everybody had withdrawn.
""",
    "consent": """\
# What people tick before they answer. Every report carries the version, and the sha256 of the text.
""",
    "label": """\
# What people keep secret: chance decides on the device what is sent in its place. The smaller
# epsilon, the more seldom it is the true answer. The first on the menu is the floor, because a
# report with a small epsilon weighs more in training. Above 2.944438 a report can make people more
# than 95% sure: a study that wants that says accept_weak = true.
""",
    "encoder": """\
# How answers become features. missing_values = ["NA", "?"] says what stands for no answer in
# tables, besides an empty cell.
""",
    "attributes": """\
# What the model predicts from. The own server can read these answers. Ranges and levels are decided
# beforehand, never taken from people's records: answers outside a range are moved to its ends,
# other levels cannot be given. A number with whole = true takes no fractions.
# Most people lie within typical ± spread (by default the middle of the range and a sixth of its
# width): the nearer to the truth, the better the model. Write what you expect without looking.
# People may skip a question with missing = "typical" (a number) or missing = "level" (a category).
""",
    "maps": """\
# Further features that devices make of the answers; the own server can read these, too.
""",
    "servers": """\
# Who collects and trains. The order numbers the servers.
""",
    "topology": """\
# Who talks to whom in training: edges = [["a", "b"], ...], or kind = "ring" or "complete".
""",
    "budget": """\
# The most that all other servers together may learn about one person, from all trainings; a job
# that would exceed it is refused. It must end: limit features (or labels, below the menu's floor).
# colluding = k limits what any k of them together may learn, instead of all: only for sums.
""",
    "plan": """\
# How to train. `pdml plan` proposes settings that meet a budget.
""",
    "languages": """\
# The texts in other languages, for the form. Each says all that the study says in its own; names,
# classes and levels stay what they are in reports and tables.
""",
    "relay": """\
# Where nodes meet; the fingerprint is that of the public key in its certificate.
""",
}

_PEOPLE = ("organiser", "notice", "consent")
_UPPER = (*_PEOPLE, "label", "encoder", "attributes", "maps", "languages")
_TIMES = ("opens", "closes", "retention")

_LATER = {
    "organiser": """\
# [organiser]
# name = "..."
# address = "..."
# contact = "..."
# data_protection_contact = "..."
""",
    "notice": """\
# [notice]
# purpose = "..."
# legal_basis = "..."
# who_sees = "..."
# retention = 2030-01-01T00:00:00Z
# link = "https://..."
""",
    "consent": """\
# [consent]
# text = "..."
# version = "1"
""",
    "budget": """\
# [budget]
# features = { epsilon = 1, delta = 1e-6 }
""",
    "plan": """\
# [plan]
# rounds = 30
""",
}


def plain(study: Study) -> str:
    """The TOML text without a word of comment: a function of the study alone."""
    document = study.to_dict()
    parts = [_table("study", document["study"])]
    for key in (*_UPPER, "servers", "topology", "budget", "plan", "relay"):
        if isinstance(document.get(key), list):
            parts += [_table(f"[{key}]", item) for item in document[key]]
        elif key in document:
            parts.append(_table(key, document[key]))
    return "\n".join(parts)


def render(study: Study, notes: Mapping[str, str] | None = None) -> str:
    """The TOML text with comments, for people to go on with.

    Parameters
    ----------
    study : Study
    notes : mapping, optional
        Warnings to stand above attributes, by name.

    Returns
    -------
    str
        `Study.from_text` gives the study back.
    """
    document = study.to_dict()
    parts = [_HEAD, _table("study", document["study"])]
    for key in _PEOPLE:
        parts.append(_COMMENTS[key] + _written(key, document))
    for key in ("label", "encoder"):
        if key in document:
            parts.append(_COMMENTS[key] + _table(key, document[key]))
    for key in ("attributes", "maps", "languages", "servers"):
        if key not in document:
            continue
        tables = []
        for item in document[key]:
            note = (notes or {}).get(item["name"], "") if key == "attributes" else ""
            tables.append((f"#\n# {note}\n" if note else "") + _table(f"[{key}]", item))
        parts.append(_COMMENTS[key] + "\n".join(tables))
    for key in ("topology", "budget", "plan"):
        parts.append(_COMMENTS[key] + _written(key, document))
    if "relay" in document:
        parts.append(_COMMENTS["relay"] + _table("relay", document["relay"]))
    return "\n".join(parts)


def plan_table(study: Study, plan: TrainingPlan) -> str:
    """The lines by which a study settles a plan."""
    return _table("plan", replace(study, plan=plan, plan_settings=()).to_dict()["plan"])


def _written(key: str, document: Mapping[str, Any]) -> str:
    """A table, or how it would look."""
    return _table(key, document[key]) if key in document else _LATER[key]


def _table(header: str, values: Mapping[str, Any]) -> str:
    lines = (
        f"{key} = {value if key in _TIMES else _value(value)}\n" for key, value in values.items()
    )
    return f"[{header}]\n" + "".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, (str, bool)):
        return json.dumps(value, ensure_ascii=False)  # JSON's escapes are TOML's
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return repr(value)
