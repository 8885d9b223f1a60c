"""Who takes part: the servers with their public keys (both or neither), their links, the relay."""

import base64
import re
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from urllib.parse import urlsplit

from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import (
    Key,
    ValidationErrors,
    as_fields,
    declared_keys,
    format_path,
    key,
    read_table,
)
from pdml.tables import quote_names

MOST_SERVERS = 1_000
SEALING_BYTES = 1216  # ML-KEM-768 (1184) and X25519 (32)
_ADDRESS = re.compile(r"(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?):(\d{1,5})", re.ASCII)

Edges = tuple[tuple[str, str], ...]


class LinkRule(StrEnum):
    """Links that are made by a rule."""

    RING = "ring"
    COMPLETE = "complete"


TOPOLOGY = {
    "edges": Key(help="Pairs of names of servers."),
    "kind": Key(help=f"Instead of them: {' or '.join(f'`{kind}`' for kind in LinkRule)}."),
}


def _sealing(errors: ValidationErrors, path: Path, value: object) -> str:
    try:
        raw = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
        good = len(raw) == SEALING_BYTES and base64.b64encode(raw).decode() == value
    except (Base64Error, ValueError):
        good = False
    if good:
        return str(value)
    errors.reject(path, f"be {SEALING_BYTES:,} bytes in base64, as a node's card has them", value)
    return ""


def _address(errors: ValidationErrors, path: Path, value: object) -> str:
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) and len(value) <= 300 else None
    if match is not None and 0 < int(match[1]) < 65536:
        return str(value)
    errors.reject(path, "be HOST:PORT in lower case, such as relay.example:4222", value)
    return ""


@dataclass(frozen=True)
class ServerEntry:
    """One server: its name, the address of its collection service, and its node's public keys."""

    name: str = key("Spelt like the study's id.", ValidationErrors.name)
    url: str = key(
        "Its collection service: `https`, or `http` on the same machine only.", ValidationErrors.url
    )
    # Ed25519, 64 hexadecimal digits
    signing_key: str = key(
        "The public key of its node; `pdml study add-server` takes both.",
        ValidationErrors.digits,
        default="",
    )
    # of HPKE (ML-KEM-768, then X25519), base64
    sealing_key: str = key(
        "The public key with which others seal messages for it.", _sealing, default=""
    )


@dataclass(frozen=True)
class Relay:
    """Where nodes meet. ``fingerprint`` is the sha256 of its certificate's public key, or ""."""

    address: str = key("HOST:PORT.", _address)
    fingerprint: str = key(
        "The sha256 of its certificate's public key; left out, any authority of the system "
        "vouches.",
        ValidationErrors.digits,
        default="",
    )

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


def read_servers(errors: ValidationErrors, value: object) -> tuple[ServerEntry, ...]:
    """The servers; names, addresses and keys all differ."""
    entries: dict[str, ServerEntry] = {}
    origins: set[tuple[str, str, int]] = set()
    earlier_keys: set[str] = set()
    why = "one server alone has nobody to hide from"
    for at, item in errors.tables("servers", value, least=2, most=MOST_SERVERS, why=why):
        table = read_table(errors, at, item, declared_keys(ServerEntry))
        name, url = table.get("name", ""), table.get("url", "")
        if url and _origin(url) in origins:
            why = "one machine in two roles would hold what two were to keep apart"
            must = "differ from the other servers' in host or port, not in its path alone"
            errors.reject((*at, "url"), must, url, why)
        origins |= {_origin(url)} if url else set()
        _check_keys(errors, at, table, earlier_keys)
        if name and name in entries:
            errors.reject((*at, "name"), "differ from the names of the other servers", name)
        elif name:
            values = as_fields(ServerEntry, table)
            entries[name] = ServerEntry(**{"url": url} | values)
    return tuple(entries.values())


def _origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port, as a browser compares them."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, (parts.hostname or "").rstrip("."), port


def _check_keys(
    errors: ValidationErrors, at: Path, table: Mapping[str, str], earlier: set[str]
) -> None:
    keys = {name: table[name] for name in ("signing_key", "sealing_key") if name in table}
    if len(keys) == 1:
        both = "a server must have both a signing_key and a sealing_key, or neither"
        errors.add(at, f"{both}: `pdml study add-server` writes them")
    for name, text in keys.items():
        if text and text in earlier:
            must = "differ from the keys of the other servers"
            errors.reject((*at, name), must, text[:16] + "...")
        earlier.add(text)


def read_topology(errors: ValidationErrors, value: object, names: Sequence[str]) -> Edges:
    """Each link once, in the order of the servers."""
    at: Path = ("topology",)
    table = read_table(errors, at, value, TOPOLOGY)
    if isinstance(value, Mapping) and len(table) != 1:
        errors.add(at, f"topology must have either edges or a kind ({' or '.join(LinkRule)})")
    elif "kind" in table:
        if table["kind"] not in list(LinkRule):
            kinds = " or ".join(repr(str(kind)) for kind in LinkRule)
            why = "anything else is written as edges"
            errors.reject((*at, "kind"), f"be {kinds}", table["kind"], why)
        elif table["kind"] == LinkRule.COMPLETE:
            return tuple(combinations(names, 2))
        elif len(names) > 1:
            return _ordered(zip(names, (*names[1:], names[0]), strict=True), names)
    elif "edges" in table:
        return _edges(errors, (*at, "edges"), table["edges"], names)
    return ()


def _edges(errors: ValidationErrors, at: Path, value: object, names: Sequence[str]) -> Edges:
    if not isinstance(value, (list, tuple)) or not value:
        errors.reject(at, "be a list of pairs of servers", value)
        return ()
    before, servers = len(errors.mistakes), set(names)
    links: set[frozenset[str]] = set()
    for i, pair in enumerate(value):
        two = isinstance(pair, (list, tuple)) and len(pair) == 2
        if not two or not all(isinstance(end, str) for end in pair):
            errors.reject((*at, i), "be a pair of names of servers", pair)
            continue
        for j, end in enumerate(pair):
            if end not in servers:
                hint = errors.suggest(end, names)
                errors.reject((*at, i, j), "be the name of a server", end, hint)
        if pair[0] == pair[1]:
            errors.reject((*at, i), "link two different servers", pair)
        elif set(pair) <= servers:
            if frozenset(pair) in links:
                errors.reject((*at, i), "link servers that are not linked yet", pair)
            links.add(frozenset(pair))
    edges = _ordered((tuple(pair) for pair in links), names)
    # a misspelt name would be reported twice
    if len(errors.mistakes) == before and (lonely := _cut_off(names, edges)):
        lost = f"but {quote_names(lonely)} cannot be reached from {names[0]!r}"
        errors.add(at, f"{format_path(at)} must connect all servers, {lost}")
    return edges


def _cut_off(names: Sequence[str], edges: Edges) -> list[str]:
    """The servers that the first one cannot reach."""
    linked: dict[str, set[str]] = {name: set() for name in names}
    for a, b in edges:
        linked[a].add(b)
        linked[b].add(a)
    reached: set[str] = set()
    front = list(names[:1])
    while front:
        name = front.pop()
        reached.add(name)
        front += linked[name] - reached
    return [name for name in names if name not in reached]


def _ordered(edges: Iterable[Sequence[str]], names: Sequence[str]) -> Edges:
    """Each link once, servers in the study's order: the same graph is the same text."""
    index = {name: i for i, name in enumerate(names)}
    pairs = sorted({(min(index[a], index[b]), max(index[a], index[b])) for a, b in edges})
    return tuple((names[a], names[b]) for a, b in pairs)
