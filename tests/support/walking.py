"""How the acceptance tests walk: real processes, the product's own defaults, and nothing but the
commands that people type.
"""

import os
import pty
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

PDML = (sys.executable, "-c", "from pdml.cli import main; main()")
PATIENCE = 180.0  # seconds: for a machine that does a hundred other things


def poll(done: Callable[[], bool], what: str) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, f"{what} has not come about in {PATIENCE:.0f} s"
        time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Ports of this machine on which nobody listens."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


TOLD = """
[organiser]
name = "Institute for Sleep"
address = "1 Long Street, Ghent"
contact = "sleep@institute.example"
[notice]
purpose = "To find out who falls asleep at work."
legal_basis = "Your consent."
who_sees = "The organisation whose page you use sees age and shift."
retention = 2090-01-01T00:00:00Z
[consent]
text = "I agree that my answers are used."
version = "1"
"""


def write_study(walk: "Walk", ports: Mapping[str, int], *words: object) -> None:
    """study.toml from the header of a table, with what people are told."""
    (walk.folder / "header.csv").write_text("age,shift,asleep\n40,day,no\n")
    servers = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in ports.items())
    table = ("--from-csv", "header.csv", "--label", "asleep", "--classes", "no,yes")
    ranges = ("--range", "age=18:70:40:15:whole", "--levels", "shift=day,evening,night")
    title = ("--title", "Sleep", "--question", "Have you fallen asleep at work?")
    walk.pdml("study", "new", *table, *ranges, *title, "--servers", servers, "--yes", *words)
    with open(walk.folder / "study.toml", "a") as file:
        file.write(TOLD)


def start_consortium(
    walk: "Walk", names: Sequence[str], *, plan: str = "", join: Sequence[object] = ()
) -> None:
    """Nodes of these names in one study, each with 600 people of a table, and their relay, all
    running. ``plan``: appended to the study; ``join``: more words to `pdml node join`.
    """
    write_study(walk, dict(zip(names, free_ports(len(names)), strict=True)))
    with open(walk.folder / "study.toml", "a") as file:
        file.write(plan)
    for name in names:
        walk.pdml("node", "init", name, "--name", name)
    walk.pdml("study", "add-server", "study.toml", *(f"{name}/{name}.card" for name in names))
    (port,) = free_ports(1)
    walk.pdml("relay", "config", "study.toml", "--out", "relay", "--address", f"127.0.0.1:{port}")
    shifts = ("day", "evening", "night")
    rows = [f"{18 + i % 50},{shifts[i % 3]},{'yes' if i % 3 else 'no'}" for i in range(600)]
    (walk.folder / "people.csv").write_text("\n".join(["age,shift,asleep", *rows]) + "\n")
    for name in names:
        walk.pdml("node", "join", name, "study.toml", *join)
        table = ("--csv", "people.csv", "--label", "asleep", "--epsilon", 1, "--randomise")
        walk.pdml("node", "data", name, *table)
    walk.start("relay", "run", "relay")
    for name in names:
        walk.start("node", "run", name)


class Walk:
    """Somebody in an empty folder, who types commands; `close` ends what runs in the background."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "100"}
        self._stack = ExitStack()

    def pdml(self, *arguments: object, code: int = 0) -> str:
        """One command: what it prints, once it has ended with ``code``; of one that fails what it
        says on standard error.
        """
        done = subprocess.run(
            [*PDML, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == code, f"pdml {arguments}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stderr if code else done.stdout

    def start(self, *arguments: object, ready: str = "") -> subprocess.Popen[bytes]:
        """A command in the background, once it has said ``ready``; its words are in a log."""
        log = self.folder / f"{'-'.join(str(part) for part in arguments[:3])}.log"
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [*PDML, *map(str, arguments)],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self._stack.callback(self.stop, process)

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            return ready in log.read_text()

        poll(is_ready, f"{ready!r} in {log.name}")
        return process

    @staticmethod
    def stop(process: subprocess.Popen[bytes]) -> None:
        """End a command as a service manager does."""
        process.terminate()
        process.wait(PATIENCE)

    def converse(self, *arguments: object, answers: Sequence[tuple[str, str]]) -> str:
        """One command in a terminal of its own: each answer is typed once its question stands
        there. All that was on the screen.
        """
        screen, terminal = pty.openpty()
        process = subprocess.Popen(
            [*PDML, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        shown, seen = "", 0
        try:
            for question, answer in answers:
                while (place := shown.find(question, seen)) < 0:
                    more = _read(screen)
                    assert more, f"{question!r} was not asked: {shown}"
                    shown += more
                seen = place + len(question)
                os.write(screen, f"{answer}\n".encode())
            while more := _read(screen):
                shown += more
            assert process.wait(PATIENCE) == 0, shown
        finally:
            process.kill()
            process.wait()
            os.close(screen)
        return shown

    def close(self) -> None:
        """End everything that was started here."""
        self._stack.close()


def _read(screen: int) -> str:
    """What comes next on a terminal's screen; nothing once its last process has ended."""
    ready, _, _ = select.select([screen], [], [], PATIENCE)
    assert ready, f"nothing was said for {PATIENCE:.0f} s"
    try:
        return os.read(screen, 65536).decode(errors="replace")
    except OSError:  # Linux's way to say that nobody holds the other end
        return ""
