"""Exit codes, streams and signals of the command line as a whole."""

import contextlib
import os
import pickle
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from running import PDML, run

from pdml import errors
from pdml.cli import StopSignal, outputs
from pdml.errors import InvalidInput

COMMANDS = ("demo", "train", "predict")


def fail_with(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_help_lists_the_commands_and_imports_nothing_heavy() -> None:
    heavy = (
        "numpy",
        "scipy",
        "sklearn",
        "networkx",
        "matplotlib",
        "numba",
        "msgspec",
        "rich",
        "pyarrow",
    )
    code = (
        f"import sys; from pdml.cli.commands import app; print(*(name for name in {heavy} if "
        "name in sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == ""
    )
    answer = subprocess.run([*PDML, "--help"], capture_output=True, text=True)
    assert answer.returncode == 0 and answer.stderr == ""
    assert all(re.search(rf"^  {name} ", answer.stdout, re.MULTILINE) for name in COMMANDS)
    assert "Exit codes" in answer.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, command, "--help")
    assert (code, err) == (0, "")
    assert "Example" in out and f"\n    pdml {command} " in out and "--json" in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_examples_of_the_help_run_as_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people = ["age,sex,diagnosis"] + [
        f"{18 + i % 60},{'fe' * (i % 3 > 0)}male,{'yes' if i % 60 > 30 else 'no'}"
        for i in range(400)
    ]
    for name in ("people.csv", "others.csv"):
        Path(name).write_text("\n".join(people))
    for command in ("train", "predict", "demo"):
        text = run(capsys, command, "--help")[1].replace("\\\n", " ")
        examples = re.findall(rf"^    pdml ({command} .*)$", text, re.MULTILINE)
        assert examples
        for example in examples:
            if "study.toml" in example:  # needs a consortium: the tutorial's test has one
                continue
            force = ["--force"] if Path("model.json").exists() and command == "train" else []
            code, _, err = run(capsys, *shlex.split(example), *force)
            assert code == 0 and "pdml:" not in err, example  # a slow machine tells its progress
    assert Path("predictions.csv").exists() and Path("gentle/report.html").exists()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--version")
    assert code == 0 and re.fullmatch(r"pdml \d+\.\d+\S*\n", out)


@pytest.mark.parametrize(
    "arguments",
    [
        ["trian"],
        ["train"],
        ["train", "x.csv"],
        ["demo", "--rounds", "many"],
        ["demo", "--wrong"],
        ["predict"],
    ],
)
def test_usage_errors_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == 2 and out == "" and "Usage: pdml" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InvalidInput("rounds must be positive,\ngot 0"), "pdml: rounds must be positive, got 0\n"),
        (
            PermissionError(13, "Permission denied", "a/b"),
            "pdml: cannot use a/b: permission denied\n",
        ),
        (OSError("odd"), "pdml: the system refused: odd\n"),
        (MemoryError(), "pdml: this needs more memory than there is\n"),
    ],
)
def test_errors_become_one_sentence(
    error: Exception,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outputs, "check", fail_with(error))
    assert run(capsys, "demo") == (1, "", sentence)


def test_a_mistake_of_ours_is_admitted_without_quoting_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "check", fail_with(TypeError("Alice is ill")))
    code, out, err = run(capsys, "demo")
    assert code == 1 and out == "" and err.count("\n") == 1
    assert (
        "TypeError" in err
        and "--traceback" in err
        and "Alice" not in err
        and "Traceback" not in err
    )


@pytest.mark.parametrize("where", ["before", "after", "environment"])
def test_a_traceback_is_shown_on_request(
    where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "check", fail_with(TypeError("inside")))
    if where == "environment":
        monkeypatch.setenv("PDML_TRACEBACK", "1")
    arguments = {
        "before": ["--traceback", "demo"],
        "after": ["demo", "--traceback"],
        "environment": ["demo"],
    }[where]
    code, _, err = run(capsys, *arguments)
    assert code == 1 and "Traceback" in err and "TypeError: inside" in err


@pytest.mark.parametrize(
    ("stop", "code", "sentence"),
    [
        (StopSignal(signal.SIGINT), 130, "pdml: interrupted; nothing was written\n"),
        (StopSignal(signal.SIGTERM), 143, "pdml: stopped; nothing was written\n"),
    ],
)
def test_a_signal_ends_it_politely(
    stop: BaseException,
    code: int,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outputs, "written", [])
    monkeypatch.setattr(outputs, "check", fail_with(stop))
    assert run(capsys, "demo") == (code, "", sentence)


def test_an_interrupt_after_the_work_does_not_deny_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "written", [Path("model.json")])
    monkeypatch.setattr(outputs, "check", fail_with(StopSignal(signal.SIGINT)))
    assert run(capsys, "demo") == (130, "", "pdml: interrupted; already written: model.json\n")


def test_signal_handlers_are_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    run(capsys, "--version")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_reader_that_left_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    answer = subprocess.run([*PDML, "--help"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert answer.stderr == "" and answer.returncode in (0, 1)


def test_a_terminal_without_unicode_is_no_error(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    answer = subprocess.run([*PDML, "demo"], cwd=tmp_path, env=env, capture_output=True)
    assert answer.returncode == 0 and answer.stderr == b"" and b"released model" in answer.stdout


class TestOutputs:
    def test_are_refused_before_the_work(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_text("old")
        outputs.check([file], force=True)
        outputs.check([tmp_path / "new" / "deep" / "x"], force=False)
        for paths, reason in (
            ([file], "exists already: --force"),
            ([tmp_path], "folder or a device"),
            ([file / "x"], "is a file, not a folder"),
            ([tmp_path / "x", tmp_path / "." / "x"], "different names"),
        ):
            with pytest.raises(InvalidInput, match=reason):
                outputs.check(paths, force=False)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_need_a_folder_one_may_write_to(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        with pytest.raises(InvalidInput, match="does not allow it"):
            outputs.check([tmp_path / "x"], force=False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["privacy", "--records", "500", "--features", "9", "--servers", "0"],
            "pdml: --servers must be a whole number",
        ),
        (
            ["privacy", "--records", "500", "--features", "9", "--noise-decay", "2"],
            "pdml: --noise-decay must be a number in",
        ),
        (
            ["privacy", "--records", "500", "--features", "9", "--noise-decay=2"],
            "pdml: --noise-decay must be a number in",
        ),
        (
            ["bound", "--records", "500", "--features", "9", "--penalty", "0"],
            "pdml: --penalty must be a number in",
        ),
        (
            ["bound", "--records", "500", "--features", "9", "--against", "x"],
            "pdml: --against must be one of",
        ),
        (
            ["plan", "--records", "500", "--features", "9", "--topology", "x"],
            "pdml: --topology must be one of",
        ),
        (
            ["train", "people.csv", "--label", "y", "--servers", "0"],
            "pdml: --servers must be a whole number",
        ),
        (
            ["train", "people.csv", "--label", "y", "--noise-decay", "2"],
            "pdml: --noise-decay must be a number in",
        ),
    ],
)
def test_a_setting_is_named_as_it_was_typed(
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("a,y\n" + "1,yes\n0,no\n" * 40)
    more = ["--range", "a=0:1"] if arguments[0] == "train" else []
    code, out, err = run(capsys, *arguments, *more)
    assert (code, out) == (1, "") and err.startswith(sentence) and "_" not in err.split(",")[0]


def test_a_setting_nobody_typed_keeps_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = InvalidInput("n_servers must be a whole number >= 2, got 1", setting="n_servers")
    monkeypatch.setattr("pdml.model.model.load_model", fail_with(error))
    code, _, err = run(capsys, "predict", "model.json", "people.csv")
    assert (code, err) == (1, "pdml: n_servers must be a whole number >= 2, got 1\n")


ERRORS = [
    InvalidInput("rounds must be 1", setting="rounds"),
    errors.MissingValueError("row 3 is empty", column="age", cell="?"),
    errors.StudyError("study.toml", [(3, "a mistake"), (0, "another")]),
    errors.UndeclaredColumns(["age", "sex"], ["age"]),
    errors.UntrainableStudy("flu", ["no budget", "no end"]),
    errors.Equivocation("bob said two things", peer="bob", round=3, evidence=b"both"),
    errors.NotDelivered("refused", code="closed"),
    errors.MissingExtra("scipy", "science"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_when_it_comes_from_another_process(error: errors.PDMLError) -> None:
    copy = pickle.loads(pickle.dumps(error.mark_public()))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for the processes in /proc")
def test_ctrl_c_while_processes_start_is_one_sentence() -> None:
    """A terminal interrupts every process of the command: only the one people talk to may
    answer.
    """
    for wait in (0.0, 0.5):
        child = subprocess.Popen(
            [*PDML, "audit", "--jobs", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while _members(child.pid) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(wait)
        os.killpg(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=60)
        assert err.decode() == "pdml: interrupted; nothing was written\n" and (
            child.returncode,
            out,
        ) == (130, b"")


def _members(group: int) -> int:
    """How many processes a process group has."""
    found = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found += int(stat.read_text().rpartition(")")[2].split()[2]) == group
    return found
