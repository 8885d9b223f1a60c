"""A study as a commented study.toml, and a new one from the few things that only its author knows;
everything else is proposed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pdml.encoding.encoder import VERSION, Attribute
from pdml.encoding.maps import FeatureMap, to_dict
from pdml.planning.training_plan import TrainingPlan
from pdml.study.definition import Study
from pdml.study.schema import trainable
from pdml.study.schema.servers import Topology
from pdml.study.schema.study_file import TABLES, keys_of
from pdml.study.schema.validation import ValidationErrors

SERVERS = ("alice", "bob", "carol")
MENU = (0.4, 1.0, 2.0)
FEATURES_EPSILON = 1.0
LEAK = (
    "TAKEN FROM THE DATA: whoever is extreme or rare shows here. Replace it by what can "
    "be known without any record."
)
_HEAD = """\
# The terms of a study: everybody who takes part has the same file. `pdml study check` finds its
# mistakes, `pdml study show` says in words what it means. Its hash travels with every report and
# every training message, so a change after the first report makes it another study.
"""


def plain(study: Study) -> str:
    """The TOML text without a word of comment: a function of the study alone."""
    document = study.to_dict()
    return "\n".join(text for name in document for text in _write(study, name, document))


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
    document, parts = study.to_dict(), [_HEAD]
    for name, table in TABLES.items():
        comment = "".join(f"# {line}\n" for line in table.comment.splitlines())
        examples = {} if "." in name else keys_of(name, type(study))
        lines = [f"# {key} = {entry.example}\n" for key, entry in examples.items() if entry.example]
        if name in document:
            texts = _write(study, name, document)
            if name == "attributes" and notes:
                above = (notes.get(item["name"], "") for item in document[name])
                pairs = zip(above, texts, strict=True)
                texts = [f"#\n# {note}\n{text}" if note else text for note, text in pairs]
            parts.append(comment + "\n".join(texts))
        elif lines:
            parts.append(f"{comment}# [{name}]\n{''.join(lines)}")
    return "\n".join(parts)


def plan_table(study: Study, plan: TrainingPlan) -> str:
    """The lines by which a study settles a plan."""
    study = replace(study, plan=plan, plan_settings=())
    return _write(study, "plan", study.to_dict())[0]


def _write(study: Study, name: str, document: Mapping[str, Any]) -> list[str]:
    """The text of a table, or of each of several."""
    many = TABLES[name].many
    keys = keys_of(name, type(study))
    times = {key for key, entry in keys.items() if entry.read is ValidationErrors.time}
    header = f"[[{name}]]\n" if many else f"[{name}]\n"
    texts = []
    for table in document[name] if many else [document[name]]:
        values = {key: item if key in times else _value(item) for key, item in table.items()}
        texts.append(header + "".join(f"{key} = {text}\n" for key, text in values.items()))
    return texts


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


def new_study(
    *,
    title: str,
    question: str,
    classes: Sequence[str],
    attributes: Sequence[Attribute],
    servers: Sequence[str] = SERVERS,
    id: str = "",
    menu: Sequence[float] = MENU,
    default: float | None = None,
    accept_weak: bool = False,
    topology: str = Topology.RING,
    features_epsilon: float = FEATURES_EPSILON,
    labels_epsilon: float | None = None,
    missing_values: Sequence[str] = (),
    maps: Sequence[FeatureMap] = (),
    notices: Mapping[str, Mapping[str, Any]] | None = None,
) -> Study:
    """A study of what only its author knows; `render` writes it with comments.

    Parameters
    ----------
    title : str
        What people read first.
    question : str
        The question whose answer is kept secret.
    classes : sequence of str
        Its possible answers.
    attributes : sequence of Number or Category
        What the model predicts from, with ranges, typical values and levels that can be known
        without a record.
    servers : sequence of str
        Names, or NAME=URL; a name alone gets a placeholder for its address.
    id : str
        A short name, by default from the title.
    menu : sequence of float
        Epsilons to choose from, ascending.
    default : float, optional
        The one suggested, by default the middle of the menu.
    accept_weak : bool
        Take epsilons above 2.944438, which hardly protect.
    topology : str
        Who talks to whom: "ring" or "complete".
    features_epsilon, labels_epsilon : float
        The budget: the most that all other servers together may learn about one person from all
        trainings.
    missing_values : sequence of str
        What stands for no answer in tables.
    maps : sequence of maps
        Further features (`pdml.encoding.maps`).
    notices : mapping, optional
        The tables ``organiser``, ``notice`` and ``consent`` (`pdml.study.participant_notice`),
        without which nobody may be asked by it.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        With every mistake.
    UntrainableStudy
        If nobody could ever train under it.
    """
    limits = {"features": features_epsilon, "labels": labels_epsilon}
    document = {
        "study": {"id": id or _slug(title), "title": title},
        "label": {
            "question": question,
            "classes": list(classes),
            "epsilon": {
                "menu": list(menu),
                "default": menu[len(menu) // 2] if default is None else default,
                "accept_weak": accept_weak,
            },
        },
        "encoder": {"version": VERSION, "missing_values": list(missing_values)},
        "attributes": [attribute.to_dict() for attribute in attributes],
        **({"maps": [to_dict(feature_map) for feature_map in maps]} if maps else {}),
        **(notices or {}),
        "servers": [server_table(text) for text in servers],
        "topology": {"kind": topology},
        "budget": {row: {"epsilon": most} for row, most in limits.items() if most is not None},
    }
    study = Study.from_document(document, "what was asked for")
    trainable.check(study)
    return study


def server_table(text: str) -> dict[str, str]:
    """One of [[servers]] from NAME or NAME=URL."""
    name, _, url = text.partition("=")
    return {"name": name, "url": url or f"https://{name}.example"}


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:63].strip("-") or "study"
