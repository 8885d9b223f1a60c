"""A real PostgreSQL for tests and measurements, started and stopped here."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


def postgres_binaries() -> Path | None:
    """The folder of initdb and pg_ctl, which Debian does not put on PATH."""
    found = shutil.which("pg_ctl")
    if found:
        return Path(found).parent
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3])
    )
    return folders[-1].parent if folders else None


@contextlib.contextmanager
def postgres_server(folder: Path) -> Iterator[str]:
    """A real PostgreSQL with its data in ``folder``, reached by a socket there; yields the start of
    an address.

    PostgreSQL refuses to run as root, so that root runs it as the user postgres or, without one, as
    nobody.
    """
    binaries = postgres_binaries()
    assert binaries is not None
    prefix: list[str] = []
    if os.geteuid() == 0:
        import pwd

        user = (
            "postgres" if any(each.pw_name == "postgres" for each in pwd.getpwall()) else "nobody"
        )
        for parent in (folder, *folder.parents[:-1]):
            if parent == Path("/tmp"):
                break
            parent.chmod(parent.stat().st_mode | 0o011)
        shutil.chown(folder, user)
        prefix = [
            "setpriv",
            f"--reuid={user}",
            f"--regid={pwd.getpwnam(user).pw_gid}",
            "--clear-groups",
            "--",
        ]
    data = folder / "data"

    def run(*command: str) -> None:
        done = subprocess.run([*prefix, *command], capture_output=True, cwd=folder, text=True)
        assert done.returncode == 0, done.stderr + done.stdout

    run(
        str(binaries / "initdb"),
        "-D",
        str(data),
        "-U",
        "pdml",
        "--auth=trust",
        "--no-sync",
        "-E",
        "UTF8",
    )
    options = (
        f"-k {folder} -c listen_addresses= -c max_connections=30 -c "
        "shared_buffers=64MB -c log_min_duration_statement=-1"
    )
    # Not through a pipe, which the server would inherit and keep open.
    done = subprocess.run(
        [
            *prefix,
            str(binaries / "pg_ctl"),
            "-D",
            str(data),
            "-o",
            options,
            "-l",
            str(folder / "log"),
            "-w",
            "start",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    )
    try:
        assert done.returncode == 0, (folder / "log").read_text()
        yield f"postgresql://pdml@/{{}}?host={folder}"
    finally:
        run(str(binaries / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
