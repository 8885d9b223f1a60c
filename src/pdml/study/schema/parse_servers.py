"""Who takes part: the servers with their public keys, and the relay between them, as a document
holds them.

Keys are optional, because collecting and training in one trust domain need none; a server has both
or neither.
"""

import base64
import re
from binascii import Error as Base64Error
from dataclasses import dataclass
from urllib.parse import urlsplit

from pdml.study.schema import fields
from pdml.study.schema.toml_lines import Path
from pdml.study.schema.validation import ABSENT, ValidationErrors

SEALING_BYTES = 1216  # ML-KEM-768 (1184) and X25519 (32)
_DIGITS = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ADDRESS = re.compile(r"(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?):(\d{1,5})", re.ASCII)


@dataclass(frozen=True)
class ServerEntry:
    """One server: its name in the study, the address of its collection service, and its node's
    public keys.
    """

    name: str
    url: str
    signing_key: str = ""  # Ed25519, 64 hexadecimal digits
    sealing_key: str = ""  # of HPKE (ML-KEM-768, then X25519), base64


@dataclass(frozen=True)
class Relay:
    """Where nodes meet. ``fingerprint`` is the sha256 of its certificate's public key; "": any
    authority of the system vouches.
    """

    address: str  # HOST:PORT
    fingerprint: str = ""

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


def read_servers(f: ValidationErrors, value: object, most: int) -> tuple[ServerEntry, ...]:
    """The servers; names, addresses and keys all differ."""
    entries: dict[str, ServerEntry] = {}
    origins: set[tuple[str, str, int]] = set()
    taken: set[str] = set()
    why = "one server alone has nobody to hide from"
    for at, item in f.tables("servers", value, least=2, most=most, why=why):
        table = f.table(at, item, *fields.of("servers"))
        name = f.name((*at, "name"), table["name"]) if "name" in table else ""
        url = f.url((*at, "url"), table["url"]) if "url" in table else ""
        if url and _origin(url) in origins:
            why = "one machine in two roles would hold what two were to keep apart"
            must = "differ from the other servers' in host or port, not in its path alone"
            f.reject((*at, "url"), must, url, why)
        origins |= {_origin(url)} if url else set()
        entry = ServerEntry(name, url, *_keys(f, at, table, taken))
        if name and name in entries:
            f.reject((*at, "name"), "differ from the names of the other servers", name)
        elif name:
            entries[name] = entry
    return tuple(entries.values())


def _origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port, as a browser compares them."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, (parts.hostname or "").rstrip("."), port


def _keys(
    f: ValidationErrors, at: Path, table: dict[str, object], earlier: set[str]
) -> tuple[str, str]:
    checks = {"signing_key": fingerprint, "sealing_key": _sealing}
    keys = {key: check(f, (*at, key), table[key]) for key, check in checks.items() if key in table}
    if len(keys) == 1:
        f.add(
            at,
            "a server must have both a signing_key and a sealing_key, or neither: `pdml "
            "study add-server` writes them",
        )
    for key, text in keys.items():
        if text and text in earlier:
            f.reject((*at, key), "differ from the keys of the other servers", text[:16] + "...")
        earlier.add(text)
    return keys.get("signing_key", ""), keys.get("sealing_key", "")


def fingerprint(f: ValidationErrors, path: Path, value: object) -> str:
    """64 hexadecimal digits: a key, a hash, a fingerprint."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return value
    f.reject(path, "be 64 hexadecimal digits, letters in lower case", value)
    return ""


def _sealing(f: ValidationErrors, path: Path, value: object) -> str:
    try:
        raw = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
        good = len(raw) == SEALING_BYTES and base64.b64encode(raw).decode() == value
    except (Base64Error, ValueError):
        good = False
    if good:
        return str(value)
    f.reject(path, f"be {SEALING_BYTES:,} bytes in base64, as a node's card has them", value)
    return ""


def read_relay(f: ValidationErrors, value: object) -> Relay | None:
    """The relay, if the study names one."""
    if value is ABSENT:
        return None
    table = f.table(("relay",), value, *fields.of("relay"))
    address = table.get("address", "")
    place = (
        _ADDRESS.fullmatch(address) if isinstance(address, str) and len(address) <= 300 else None
    )
    if "address" in table and (place is None or not 0 < int(place[1]) < 65536):
        f.reject(
            ("relay", "address"), "be HOST:PORT in lower case, such as relay.example:4222", address
        )
        address = ""
    pin = (
        fingerprint(f, ("relay", "fingerprint"), table["fingerprint"])
        if "fingerprint" in table
        else ""
    )
    return Relay(str(address), pin)
