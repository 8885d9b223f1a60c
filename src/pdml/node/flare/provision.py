"""Startup kits for every organisation of a study: FLARE's certificates and settings, our keys, and a policy that trusts nobody.

    out/<server>    one per organisation: its certificate, its signing key, its peers' public keys, the study
    out/relay       FLARE's server, which relays what it cannot read
    out/admin       who submits jobs
    out/authority   the certificate authority's private key, for whoever provisions; no node needs it

Guarantees
----------
- A node runs one class, `PDMLExecutor`: jobs cannot bring code (byoc), and no shell command or log leaves a site.
- Private files are readable by their owner alone.
"""

import contextlib
import io
import json
import os
import secrets
import shutil
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nvflare.lighter.constants import CtxKey
from nvflare.lighter.prov_utils import prepare_builders
from nvflare.lighter.provision import prepare_project
from nvflare.lighter.provisioner import Provisioner

from pdml.errors import InvalidInput
from pdml.node import holdings
from pdml.node.flare.site import ADMIN, FOLDER, NODE, RELAY, Config, write_config
from pdml.node.identity import Identity
from pdml.study import Study

USER = "admin@study.invalid"  # FLARE wants names of this shape
EXECUTOR = "pdml.node.flare.executor.PDMLExecutor"
CONTROLLER = "pdml.node.flare.controller.PDMLController"

_RESERVED = ("relay", "admin", "authority", "server", "localhost")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_BUILDERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("workspace.WorkspaceBuilder", {"template_file": ["master_template.yml"]}),
    ("static_file.StaticFileBuilder", {"config_folder": "config", "scheme": "grpc"}),
    ("cert.CertBuilder", {}),
    ("signature.SignatureBuilder", {}),
)
_RIGHTS = {
    "submit_job": "any",
    "clone_job": "none",
    "manage_job": "any",
    "download_job": "any",
    "view": "any",
    "app_command": "any",
    "operate": "o:site",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}


def provision(study: Study, out: Path, *, relay: str = "") -> dict[str, Path]:
    """Write the kits of ``study`` into the new folder ``out``; ``relay`` is HOST:PORT of FLARE's server.

    Without it the relay listens on a free port of this machine, if all servers of the study do.
    """
    holdings.bounded(study)
    host, port = _address(study, relay)
    names = [server.name for server in study.servers]
    for name in names:
        if name in _RESERVED or "." in name:
            raise InvalidInput(
                f"the server's name {name!r} cannot be used for training with FLARE: no dots, and not {', '.join(_RESERVED)}"
            )
    if out.exists():
        raise InvalidInput(f"{out} exists already: new kits would not fit the old ones, so give another folder")
    stage = out.absolute().parent / f".pdml-{secrets.token_hex(8)}-{out.name}"
    try:
        stage.mkdir(mode=0o700, parents=True)
        made = _flare(study, stage, host, port)
        kits = {name: made / name for name in names} | {RELAY: made / host, ADMIN: made / USER}
        keys = _keys(study, kits)
        for name, kit in kits.items():
            role = name if name in (RELAY, ADMIN) else NODE
            _ours(study, kit, Config(role=role, name=USER if role == ADMIN else name, keys=keys))
            _policy(kit, role)
            kit.rename(stage / name)
        _authority(stage, made.parent)
        _close(stage)
        stage.rename(out)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return {name: out / name for name in kits}


def _address(study: Study, relay: str) -> tuple[str, int]:
    if relay:
        host, _, port = relay.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise InvalidInput(f"relay must be HOST:PORT, got {relay!r}")
        return "localhost" if host in _LOOPBACK else host, int(port)
    elsewhere = [server.url for server in study.servers if urlsplit(server.url).hostname not in _LOOPBACK]
    if elsewhere:
        raise InvalidInput(f"relay must be given as HOST:PORT, because not all servers of the study are on this machine: {elsewhere[0]}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "localhost", probe.getsockname()[1]


def _flare(study: Study, stage: Path, host: str, port: int) -> Path:
    """FLARE's own provisioning, without its command line, which also installs things elsewhere."""
    people = [{"name": server.name, "type": "client", "org": _org(server.name)} for server in study.servers]
    project = {
        "api_version": 3,
        "name": _org(study.id),
        "description": study.title,
        "participants": [
            {"name": host, "type": "server", "org": "relay", "fed_learn_port": port, "admin_port": port},
            *people,
            {"name": USER, "type": "admin", "org": "relay", "role": "project_admin"},
        ],
        "builders": [{"path": f"nvflare.lighter.impl.{path}", "args": args} for path, args in _BUILDERS],
    }
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        ctx = Provisioner(str(stage / "flare"), prepare_builders(project)).provision(prepare_project(project))
    if ctx.get(CtxKey.BUILD_ERROR):
        raise InvalidInput(f"FLARE could not make the kits: {said.getvalue().strip().splitlines()[-1]}")
    (stage / "project.json").write_text(json.dumps(project, indent=1))
    return Path(ctx[CtxKey.CURRENT_PROD_DIR])


def _org(name: str) -> str:
    """FLARE's organisations have letters, digits and underscores only."""
    return "".join(c if c.isalnum() else "_" for c in name)


def _keys(study: Study, kits: dict[str, Path]) -> dict[str, str]:
    keys = {}
    for server in study.servers:
        folder = kits[server.name] / FOLDER
        folder.mkdir(mode=0o700)
        keys[server.name] = Identity.create(folder / "node.key").public
    return keys


def _ours(study: Study, kit: Path, config: Config) -> None:
    from pdml.study import template

    folder = kit / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "study.toml").write_text(template.render(study), encoding="utf-8")
    write_config(folder, config)


def _policy(kit: Path, role: str) -> None:
    """The site's own rules, which FLARE puts above what a job asks for."""
    local = kit / "local"
    if role == ADMIN:
        (kit / "transfer").mkdir(mode=0o700, exist_ok=True)
        return
    resources = json.loads((local / "resources.json.default").read_text())
    resources["class_allow_list"] = [EXECUTOR if role == NODE else CONTROLLER]
    if role == NODE:
        resources["allow_log_streaming"] = False
        resources["components"] = [part for part in resources["components"] if part["id"] != "site_log_streamer"]
    (local / "resources.json").write_text(json.dumps(resources, indent=1))
    (local / "authorization.json").write_text(json.dumps({"format_version": "1.0", "permissions": {"project_admin": _RIGHTS}}, indent=1))


def _authority(stage: Path, made: Path) -> None:
    folder = stage / "authority"
    folder.mkdir(mode=0o700)
    (made / "state").rename(folder / "state")
    (stage / "project.json").rename(folder / "project.json")
    shutil.rmtree(stage / "flare")


def _close(stage: Path) -> None:
    """Files 0600 (scripts 0700), folders 0700."""
    for folder, _, files in os.walk(stage):
        os.chmod(folder, 0o700)
        for name in files:
            path = Path(folder, name)
            os.chmod(path, 0o700 if path.suffix == ".sh" else 0o600)
