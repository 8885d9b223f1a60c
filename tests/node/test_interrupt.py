"""`pdml train --engine flare` on a terminal: a bar for each node, and Ctrl-C stops the job at every node so that it can go on."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from federation import PLAN, Federation, study_of

from pdml.study import template

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flare")]

PDML = str(Path(sys.executable).with_name("pdml"))
NAMES, ROUNDS = ("alice", "bob"), 150


@pytest.fixture
def federation(tmp_path):
    made = Federation(tmp_path / "federation", study_of(NAMES, plan=replace(PLAN, rounds=ROUNDS)))
    try:
        made.start()
        made.desks.close()
        yield made
    finally:
        made.close()


def on_a_terminal(command, until, timeout=120):
    """Run until the screen shows ``until``, then press Ctrl-C; the exit code, and all that was shown."""
    screen, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    running = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True)
    os.close(terminal)
    shown, pressed, deadline = "", False, time.monotonic() + timeout
    while time.monotonic() < deadline:
        ready, _, _ = select.select([screen], [], [], 1.0)
        try:
            shown += os.read(screen, 65536).decode(errors="replace") if ready else ""
        except OSError:  # the terminal's other end is closed
            break
        if not pressed and re.search(until, shown):
            pressed = True
            running.send_signal(signal.SIGINT)
    os.close(screen)
    return running.wait(10), shown


def test_ctrl_c_stops_the_job_and_resume_ends_it(federation, tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(template.render(federation.study))
    train = [PDML, "train", str(study), "--engine", "flare", "--admin", str(federation.kits["admin"])]
    train += ["--job", "long", "--out", str(tmp_path / "result")]
    code, shown = on_a_terminal(train, rf"\b[1-9]\d*/{ROUNDS}\b")
    assert code == 128 + signal.SIGINT, shown
    assert all(name in shown for name in NAMES)
    assert "job long is stopped at every node; to go on: --job long --resume" in shown and not (tmp_path / "result").exists()
    resumed = subprocess.run([*train, "--resume", "--json"], capture_output=True, text=True, timeout=240)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["job"] == "long"
    status = subprocess.run([PDML, "node", "status", str(federation.kits["alice"]), "--json"], capture_output=True, text=True, timeout=60)
    (job,) = json.loads(status.stdout)["jobs"]
    assert (job["job"], job["round"]) == ("long", ROUNDS)
