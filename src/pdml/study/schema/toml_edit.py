"""Lines added to a study.toml that people wrote: keys of servers, the relay. Comments and layout
stay.

Every edit is read back: what comes out is the study with exactly that change, or one sentence
saying why not.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath

from pdml.errors import InvalidInput
from pdml.files import atomic_write
from pdml.study.definition import Study
from pdml.study.schema.servers import Relay, ServerEntry
from pdml.study.schema.toml_lines import Path, parse, read_text


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
    values = {"address": relay.address, "fingerprint": relay.fingerprint}
    if study.relay is None:
        text = _set(f"{text.rstrip()}\n\n[relay]\n", ("relay",), values, source)
    elif not revision:
        raise InvalidInput(
            f"{source} names the relay {study.relay.address} with another certificate or address: "
            "--revision replaces it, once the others agree"
        )
    else:
        text = _set(text, ("relay",), values, source)
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
    values = {
        "name": entry.name,
        "url": entry.url,
        "signing_key": entry.signing_key,
        "sealing_key": entry.sealing_key,
    }
    text = _set(
        f"{text.rstrip()}\n\n[[servers]]\n", ("servers", len(document["servers"])), values, source
    )
    return text, Study.from_text(text, source)


def _set(text: str, table: Path, values: dict[str, str], source: str) -> str:
    """Lines ``key = "value"`` in a table that has lines of its own; those that stand there already
    are replaced.

    An empty value only removes.
    """
    _, where = parse(text, source)
    lines = text.split("\n")
    header = where.get(table, 0)
    named = [line for path, line in where.items() if path[:-1] == table]
    if not header or header in named or not lines[header - 1].lstrip().startswith("["):
        raise InvalidInput(
            f"{source} is written in a way that no line can be added to: write "
            f"{_called(table)} with a line for each key"
        )
    for line in sorted(
        (where[*table, key] for key in values if (*table, key) in where), reverse=True
    ):
        del lines[line - 1]
    lines[header:header] = [
        f"{key} = {json.dumps(value)}" for key, value in values.items() if value
    ]
    return "\n".join(lines)


def _called(table: Path) -> str:
    return f"[[{table[0]}]]" if len(table) > 1 else f"[{table[0]}]"


def _read_back(text: str, wanted: Study, source: str) -> Study:
    if Study.from_text(text, source) != wanted:
        raise InvalidInput(
            f"{source} is written in a way that cannot be changed line by line: edit it by hand"
        )
    return wanted
