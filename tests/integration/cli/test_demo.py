"""`pdml demo`, as somebody's first contact with PDML."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from running import PDML, run

from pdml import load_model


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def on_a_terminal(arguments: list[str], **environment: str) -> bytes:
    """Everything a person sees."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", **environment}
    child = subprocess.Popen(
        [*PDML, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=env
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert child.wait() == 0
    return seen


def test_shows_tables_and_writes_both_files(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, out, err = run(capsys, "demo", "--rounds", "20")
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert len(re.findall(r"^  server \d+ +700 +\d +9\d\.\d%$", out, re.MULTILINE)) == 10
    private, open_ = (
        float(re.search(rf"{name} +([\d.]+)%", out)[1])
        for name in ("released model", "without privacy")
    )  # type: ignore[index]
    assert 95 < private <= open_ < 99
    assert re.search(
        r"^  the collecting organisation +73\.1% +1\.00 +unprotected", out, re.MULTILINE
    )
    assert "consensus" in out and "Simulated" in out
    assert {str(path) for path in Path("pdml-demo").iterdir()} == {
        "pdml-demo/report.html",
        "pdml-demo/model.json",
    }
    assert out.splitlines()[-2:] == [
        "report  pdml-demo/report.html",
        "model   pdml-demo/model.json",
    ]
    report = Path("pdml-demo/report.html").read_text()
    assert "<svg" in report and "Simulation" in report and "server 10" in report
    model = load_model("pdml-demo/model.json")
    assert (
        len(model.feature_names) == 20
        and model.provenance["noise_source"] == "simulated"
        and model.provenance["leaks"] == []
    )


def test_the_features_are_protected_too(capsys: pytest.CaptureFixture[str]) -> None:
    """The demo is what everybody gets who sets nothing."""
    code, out, _ = run(capsys, "demo", "--json")
    found = json.loads(out)
    spent = {
        (line["data"], line["adversary"]): line["epsilon"] for line in found["privacy"]["rows"]
    }
    assert code == 0
    assert spent["label", "own server"] == 1.0
    assert spent["label", "other servers"] < 1
    assert 0.9 < spent["features", "other servers"] <= 1
    assert spent["features", "own server"] == "inf"
    assert (
        found["accuracy"] > 0.95
        and found["accuracy_without_privacy"] > 0.97
        and len(found["servers"]) == 10
    )


def test_without_settings_it_is_one_exchange(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "demo")
    assert (code, err) == (0, "") and "one exchange of sums" in out
    private, open_ = (
        float(re.search(rf"{name} +([\d.]+)%", out)[1])
        for name in ("released model", "without privacy")
    )  # type: ignore[index]
    assert 95 < private <= open_ < 99 and "not measured" not in out


def test_repeats_itself_to_the_byte_and_replaces_its_own_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = []
    for seed in ("7", "7", "8"):
        assert run(capsys, "demo", "--seed", seed, "--rounds", "5")[0] == 0
        files.append(Path("pdml-demo/model.json").read_bytes())
    assert files[0] == files[1] != files[2]


@pytest.mark.parametrize("name", ["model.json", "report.html"])
def test_spares_the_files_of_others(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(name).write_text("mine")
    code, out, err = run(capsys, "demo", "--out", ".")
    assert (
        code == 1
        and out == ""
        and err.startswith("pdml: ")
        and err.count("\n") == 1
        and "--out" in err
    )
    assert Path(name).read_text() == "mine" and len(list(Path().iterdir())) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--epsilon", "0"],
        ["--epsilon", "nan"],
        ["--epsilon", "1e-9"],
        ["--rounds", "0"],
        ["--out", "file/x"],
    ],
)
def test_refuses_in_one_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("")
    code, out, err = run(capsys, "demo", *arguments)
    assert (
        code == 1
        and out == ""
        and re.fullmatch(r"pdml: [^\n]+\n", err)
        and "mistake in pdml" not in err
    )
    assert not Path("pdml-demo").exists()


def test_without_any_label_privacy(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "demo", "--epsilon", "inf", "--rounds", "5", "--json")
    assert code == 0 and json.loads(out)["privacy"]["rows"][0]["epsilon"] == "inf"


def test_draws_a_bar_on_a_terminal_and_honours_no_color() -> None:
    seen = on_a_terminal(["demo"])
    assert b"rounds" in seen and "━".encode() in seen and b"\x1b[1;36m" in seen
    plain = on_a_terminal(["demo"], NO_COLOR="1")
    assert b"released model" in plain and not re.search(rb"\x1b\[[\d;]*3[0-7]m", plain)
