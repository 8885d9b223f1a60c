"""A study as a commented study.toml: a new one, and lines added to one that people wrote.

Every edit is read back: the study with exactly that change comes out, or one sentence why not.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from os import PathLike, fspath
from typing import Any

from pdml.encoding.encoder import VERSION, Attribute
from pdml.encoding.maps import FeatureMap, to_dict
from pdml.errors import InvalidInput
from pdml.files import atomic_write
from pdml.planning.training_plan import TrainingPlan
from pdml.study.definition import Study
from pdml.study.schema import trainable
from pdml.study.schema.servers import LinkRule, Relay, ServerEntry
from pdml.study.schema.study_file import TABLES, keys_of
from pdml.study.schema.toml_lines import Path, parse, read_text
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
    topology: str = LinkRule.RING,
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
        What the model predicts from, with ranges, averages and levels that can be known
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
        The budget: the most that all other servers together may learn about one person.
    missing_values : sequence of str
        What stands for no answer in tables.
    maps : sequence of maps
        Further features (`pdml.encoding.maps`).
    notices : mapping, optional
        The tables ``organiser``, ``notice`` and ``consent``, without which nobody may be asked.

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


def pin_servers(text: str, entries: Sequence[ServerEntry], *, revision: bool, source: str) -> str:
    """The text with the keys of these servers; a server that is new needs a ``url``."""
    before = study = Study.from_text(text, source)
    for entry in entries:
        positions = {server.name: i for i, server in enumerate(study.servers)}
        if entry.name in positions:
            index = positions[entry.name]
            old = study.servers[index]
            if old.signing_key and old != replace(entry, url=old.url) and not revision:
                raise InvalidInput(
                    f"{source} pins other keys for {entry.name} already: --revision "
                    "replaces them, once the others agree"
                )
            entry = replace(entry, url=entry.url or old.url)
            keys = {"signing_key": entry.signing_key, "sealing_key": entry.sealing_key}
            text = _set(text, ("servers", index), keys, source)
            wanted = (*study.servers[:index], entry, *study.servers[index + 1 :])
            study = _read_back(text, replace(study, servers=wanted), source)
        else:
            text, study = _append_server(text, entry, source)
    if revision and study != before:
        text = _set(text, ("study",), {"replaces": before.hash}, source)
        study = _read_back(text, replace(study, replaces=before.hash), source)
    return text


def pin_in_file(
    file: str | PathLike[str], entries: Sequence[ServerEntry], *, revision: bool = False
) -> Study:
    """Pin servers' public keys in a study's file, which is replaced in one step.

    Parameters
    ----------
    file : path
        The study.
    entries : sequence of ServerEntry
        What `Card.entry` makes of a card.
    revision : bool
        The study is in use: name what this revision replaces.

    Returns
    -------
    Study
        As it is then.

    Raises
    ------
    InvalidInput
        If a server would be changed that has keys already, and this is no revision.
    """
    source = fspath(file)
    text = pin_servers(read_text(file), entries, revision=revision, source=source)
    study = Study.from_text(text, source)
    atomic_write(file, text)
    return study


def set_relay(text: str, relay: Relay, *, revision: bool, source: str) -> str:
    """The text with this relay; another one that stands there is replaced only by a revision."""
    study = Study.from_text(text, source)
    if study.relay == relay:
        return text
    if study.relay is None:
        text = f"{text.rstrip()}\n\n[relay]\n"
    elif not revision:
        raise InvalidInput(
            f"{source} names the relay {study.relay.address} with another certificate or address: "
            "--revision replaces it, once the others agree"
        )
    text = _set(text, ("relay",), asdict(relay), source)
    wanted = replace(study, relay=relay)
    if revision:
        text = _set(text, ("study",), {"replaces": study.hash}, source)
        wanted = replace(wanted, replaces=study.hash)
    _read_back(text, wanted, source)
    return text


def _append_server(text: str, entry: ServerEntry, source: str) -> tuple[str, Study]:
    document, _ = parse(text, source)
    if not entry.url:
        raise InvalidInput(f"{source} has no server {entry.name!r}: give its --url to add it")
    if "kind" not in document.get("topology", {}):
        raise InvalidInput(
            f"{source} has no server {entry.name!r}, and its links are listed one by one: "
            "add its [[servers]] table and its edges by hand, then pin the card"
        )
    path = ("servers", len(document["servers"]))
    text = _set(f"{text.rstrip()}\n\n[[servers]]\n", path, asdict(entry), source)
    return text, Study.from_text(text, source)


def _set(text: str, table: Path, values: dict[str, str], source: str) -> str:
    """Lines ``key = "value"`` in a table that has lines of its own, instead of those that stand
    there. An empty value only removes."""
    _, where = parse(text, source)
    lines = text.split("\n")
    header = where.get(table, 0)
    named = [line for path, line in where.items() if path[:-1] == table]
    name = f"[[{table[0]}]]" if len(table) > 1 else f"[{table[0]}]"
    if not header or header in named or not lines[header - 1].lstrip().startswith("["):
        raise InvalidInput(
            f"{source} is written in a way that no line can be added to: write {name} with a "
            "line for each key"
        )
    old = (where[*table, key] for key in values if (*table, key) in where)
    for line in sorted(old, reverse=True):
        del lines[line - 1]
    lines[header:header] = [f"{key} = {json.dumps(text)}" for key, text in values.items() if text]
    return "\n".join(lines)


def _read_back(text: str, wanted: Study, source: str) -> Study:
    if Study.from_text(text, source) != wanted:
        raise InvalidInput(
            f"{source} is written in a way that cannot be changed line by line: edit it by hand"
        )
    return wanted
