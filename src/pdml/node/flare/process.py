"""The process of a kit on this machine: started in the background with a log and a pid file, and stopped with its jobs."""

import contextlib
import json
import os
import subprocess
import sys
from typing import NoReturn

import psutil  # type: ignore[import-untyped]

from pdml.errors import InvalidInput
from pdml.files import atomic_write
from pdml.node.flare.site import NODE, RELAY, SIMULATED_NOISE, Site

PID, LOG = "node.pid", "node.log"
_OWNER = 0o077  # what FLARE writes into a kit is its owner's alone

_started: list["subprocess.Popen[bytes]"] = []  # of this process: forgotten children would be complained about


def command(site: Site) -> list[str]:
    """FLARE's own start script, in the foreground and without its supervisor: a service manager does that better."""
    return ["bash", str(site.kit / "startup" / "sub_start.sh"), "--once"]


def environment(simulated_noise: int | None = None) -> dict[str, str]:
    """The script calls python3: it must be the one with this package."""
    found = {name: value for name, value in os.environ.items() if name != SIMULATED_NOISE}
    found["PATH"] = os.path.dirname(sys.executable) + os.pathsep + found.get("PATH", os.defpath)
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        found.setdefault(threads, "1")
    found.setdefault("NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT", "30")  # for the last word of a node whose process died; default 900
    if simulated_noise is not None:
        found[SIMULATED_NOISE] = str(simulated_noise)
    return found


def settle(site: Site) -> None:
    """FLARE wants absolute paths for what the relay stores; a kit learns its place when it is started."""
    if site.config.role != RELAY:
        return
    path = site.kit / "local" / "resources.json"
    resources = json.loads(path.read_text())
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(site.kit / "storage" / "snapshots")
    for part in resources["components"]:
        if part["id"] == "job_manager":
            part["args"]["uri_root"] = str(site.kit / "storage" / "jobs")
    atomic_write(path, json.dumps(resources, indent=1))


def members(site: Site) -> list[psutil.Process]:
    """The kit's process and its jobs' processes, which FLARE starts in sessions of their own: all name the kit as their workspace."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            arguments = process.cmdline()
            if str(site.kit) in arguments and any(part.startswith("nvflare.") for part in arguments):
                found.append(process)
    return found


def running(site: Site) -> int | None:
    """The process id, if the kit's process lives."""
    try:
        process = psutil.Process(int(site.path(PID).read_text()))
        known = any(str(site.kit) in part for part in process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, ValueError, psutil.Error):
        return None
    return process.pid if known else None  # else another program has the number now


def start(site: Site, *, simulated_noise: int | None = None) -> int:
    """Start in the background; it outlives this command."""
    site.must_be(NODE, RELAY)
    if (pid := running(site)) is not None:
        raise InvalidInput(f"{site.name} runs already, as process {pid}")
    settle(site)
    handle = os.open(site.path(LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        started = subprocess.Popen(
            command(site),
            cwd=site.kit,
            env=environment(simulated_noise),
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=_OWNER,
        )
    finally:
        os.close(handle)
    _started.append(started)
    _note(site, started.pid)
    return started.pid


def replace_with(site: Site, *, simulated_noise: int | None = None) -> NoReturn:
    """Become the kit's process: a service manager sees its output and its end."""
    site.must_be(NODE, RELAY)
    if (pid := running(site)) is not None:
        raise InvalidInput(f"{site.name} runs already, as process {pid}")
    settle(site)
    os.umask(_OWNER)
    _note(site, os.getpid())
    os.chdir(site.kit)
    os.execvpe("bash", command(site), environment(simulated_noise))


def _note(site: Site, pid: int) -> None:
    site.path(PID).touch(mode=0o600)
    site.path(PID).write_text(f"{pid}\n")


def stop(site: Site, *, patience: float = 10.0) -> bool:
    """Ask the node and its jobs to end, then end them; False if nothing ran. A node may be stopped at any moment: see the journal."""
    alive = members(site)
    found = bool(alive)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(alive, timeout=patience)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _, alive = psutil.wait_procs(alive, timeout=patience)
    if alive:
        raise InvalidInput(f"process {alive[0].pid} of {site.name} could not be stopped")
    site.path(PID).unlink(missing_ok=True)
    return found
