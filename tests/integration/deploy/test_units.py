"""The units are what systemd understands, and as closed as the documentation says."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from running import run

ROOT = Path(__file__).parents[3]
UNITS = ROOT / "deploy" / "systemd"
NAMES = ("pdml-collect@alice", "pdml-collect-purge@alice", "pdml-node@alice", "pdml-relay")

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze (Debian: systemd)"
)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as they lie on a machine, with a program that exists and an instance named
    alice.
    """
    units = tmp_path / "units"
    shutil.copytree(UNITS, units)
    for file in units.glob("*.service"):
        text = file.read_text()
        assert "ExecStart=/opt/pdml/bin/pdml " in text
        file.write_text(text.replace("/opt/pdml/bin/pdml", "/bin/true"))
    for file in [*units.glob("*@.service"), *units.glob("*@.timer")]:
        shutil.copy(file, units / file.name.replace("@", "@alice"))
    return units


def analyse(units: Path, *arguments: str) -> str:
    """What systemd-analyze says; warnings and errors of the units alone go to its standard
    error.
    """
    done = subprocess.run(
        ["systemd-analyze", *arguments],
        capture_output=True,
        text=True,
        env={"SYSTEMD_UNIT_PATH": f"{units}:", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


@needs_systemd
@pytest.mark.parametrize("name", NAMES)
def test_systemd_understands_the_unit(installed: Path, name: str) -> None:
    analyse(installed, "verify", str(installed / f"{name}.service"))


@needs_systemd
def test_systemd_understands_the_timer_and_when_it_runs(installed: Path) -> None:
    """It starts the service of the same name, which may run every night: before the end of
    retention it succeeds."""
    analyse(installed, "verify", str(installed / "pdml-collect-purge@alice.timer"))
    timer = (UNITS / "pdml-collect-purge@.timer").read_text()
    (when,) = re.findall(r"^OnCalendar=(.*)$", timer, flags=re.M)
    assert "Next elapse" in analyse(installed, "calendar", when)
    assert "Persistent=true" in timer and (UNITS / "pdml-collect-purge@.service").exists()
    assert "--due" in commands()["pdml-collect-purge@.service"]


@needs_systemd
@pytest.mark.parametrize("name", NAMES)
def test_the_exposure_is_as_low_as_documented(installed: Path, name: str) -> None:
    said = analyse(
        installed, "security", "--offline=true", "--no-pager", str(installed / f"{name}.service")
    )
    exposure = float(re.findall(r"exposure level for \S+: ([\d.]+)", said)[0])
    assert exposure < 2.0
    assert f"{exposure:g}" in (ROOT / "docs" / "guide/deploy.md").read_text()
    (installed / "pdml-.service.d" / "hardening.conf").unlink()
    said = analyse(
        installed, "security", "--offline=true", "--no-pager", str(installed / f"{name}.service")
    )
    assert float(re.findall(r"exposure level for \S+: ([\d.]+)", said)[0]) > 5, (
        "the hardening comes from the shared drop-in"
    )


def commands() -> dict[str, list[str]]:
    """What every unit and every container runs, as arguments of pdml."""
    found = {}
    for file in UNITS.glob("*.service"):
        (line,) = re.findall(r"^ExecStart=/opt/pdml/bin/pdml (.*)$", file.read_text(), flags=re.M)
        env = dict(re.findall(r"^(\w+)=(.*)$", (UNITS / "collect.env").read_text(), flags=re.M))
        line = (
            line.replace("%i", "alice")
            .replace("${STUDY}", env["STUDY"])
            .replace("$OPTIONS", env["OPTIONS"])
        )
        found[file.name] = line.split()
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    for name, service in services.items():
        if "command" in service:
            found[name] = [
                re.sub(r"\$\{ORGANISATION:[^}]*\}", "alice", word) for word in service["command"]
            ]
    return found


@pytest.mark.parametrize("where", sorted(commands()))
def test_what_is_started_exists(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that are not there: one sentence and exit code 1. A command or an option that is not
    there would be usage, 2.
    """
    code, _, err = run(capsys, *commands()[where])
    assert code == 1 and err.startswith("pdml: ") and "mistake in pdml" not in err, err


def test_containers_may_do_no_more_than_units() -> None:
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    for name in ("collector", "node", "relay"):
        part = services[name]
        assert (
            part["read_only"] is True
            and part["cap_drop"] == ["ALL"]
            and part["security_opt"] == ["no-new-privileges:true"]
        )
    assert "ports" not in services["node"], "nothing listens at a node"
    image = (ROOT / "deploy" / "Containerfile").read_text()
    assert re.search(r"^USER 10001:10001$", image, flags=re.M) and "--require-hashes" in image
