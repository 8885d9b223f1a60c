"""`pdml data`: fetch, list and path, with sets served by a real server on this machine."""

import hashlib
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from running import PDML, run

from pdml.research.datasets import catalogue
from pdml.research.datasets.catalogue import DataSource, plain

CONTENT = b"1,2\n" * 50_000
FILES = {"one.csv": hashlib.sha256(CONTENT).hexdigest()}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def sets(url: str) -> dict[str, DataSource]:
    def one(path: str) -> DataSource:
        address = plain(f"{url}/{path}", "one.csv", FILES["one.csv"])
        return DataSource(files=FILES, ways=((address,),))

    return {"good": one("one.csv"), "gone": one("gone.csv")}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "one.csv").write_bytes(CONTENT)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "site")))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def folder(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("PDML_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(catalogue, "SOURCES", sets(url))
    return tmp_path / "data"


def test_fetches_once_and_says_where(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "data", "fetch", "good") == (
        0,
        f"good: fetched from {url}/one.csv, 1 files checked in {folder}\n",
        "",
    )
    assert run(capsys, "data", "fetch", "good") == (
        0,
        f"good: here already, 1 files checked in {folder}\n",
        "",
    )
    code, out, err = run(capsys, "data", "fetch", "good", "--force", "--json")
    (answer,) = json.loads(out)["sets"]
    assert (code, err) == (0, "") and answer["downloaded"] and answer["source"] == f"{url}/one.csv"
    assert answer["files"] == [
        {"file": "one.csv", "path": str(folder / "one.csv.gz"), "state": "checked"}
    ]


def test_lists_what_is_here_and_whether_it_is_right(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "data", "list")
    assert (
        code == 0
        and re.search(r"^good +missing +one\.csv$", out, re.M)
        and "pdml data fetch good" in out
    )
    run(capsys, "data", "fetch", "good")
    code, out, _ = run(capsys, "data", "list")
    assert (
        re.search(rf"^good +checked +{folder}/one\.csv\.gz$", out, re.M)
        and "To get good" not in out
    )
    (folder / "one.csv.gz").write_bytes(b"damaged")
    listed = json.loads(run(capsys, "data", "list", "--json")[1])
    assert listed["folder"] == str(folder) and listed["sets"][0]["files"][0]["state"] == "damaged"


def test_path_is_one_line_for_scripts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "data", "path") == (0, f"{folder}\n", "")
    assert json.loads(run(capsys, "data", "path", "--json")[1]) == {
        "folder": str(folder),
        "exists": True,
        "chosen_by_variable": True,
    }


def test_path_without_the_variable_is_the_cache_folder(tmp_path: Path) -> None:
    known = {name: value for name, value in os.environ.items() if name != "PDML_DATA_DIR"}
    known |= {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    answer = subprocess.run(
        [*PDML, "data", "path"], capture_output=True, text=True, env=known, check=True
    ).stdout.strip()
    assert Path(answer).is_relative_to(tmp_path) and Path(answer).name == "pdml"


def test_all_brings_what_it_can_and_says_what_it_cannot(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "data", "fetch", "good")
    for more in ([], ["--json"]):
        code, out, err = run(capsys, "data", "fetch", "all", "--force", *more)
        assert code == 1 and re.fullmatch(
            r"pdml: gone could not be fetched: [^\n]+ answers 404 [^\n]+\n", err
        )
        assert out == (
            "" if more else f"good: fetched from {url}/one.csv, 1 files checked in {folder}\n"
        )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fetch", "iris"], "must be one of 'good', 'gone', 'all', got 'iris'"),
        (["fetch", "gone", "--force"], "gone could not be fetched"),
    ],
)
def test_bad_input_is_one_sentence(
    folder: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "data", *arguments)
    assert (code, out) == (1, "") and re.fullmatch(r"pdml: [^\n]+\n", err) and said in err


@pytest.mark.parametrize("command", ["fetch", "list", "path"])
def test_help_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "data", command, "--help")
    assert (
        code == 0
        and f"\n    pdml data {command}" in out
        and "--json" in out
        and max(map(len, out.splitlines())) <= 80
    )


def test_a_terminal_shows_a_bar_in_bytes(folder: Path, url: str) -> None:
    """A real process in a pseudo-terminal; its standard output stays clean."""
    code = (
        "import sys; from pdml.research.datasets import catalogue; sys.path[:0] = sys.argv[1:3]; "
        "import test_data_command as t\n"
    )
    code += (
        "catalogue.SOURCES = t.sets(sys.argv[3]); from pdml.cli import main; main(['data', "
        "'fetch', 'good'])"
    )
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "PDML_DATA_DIR": str(folder)}
    here = Path(__file__)
    places = [str(here.parent), str(here.parents[2] / "support")]
    command = [sys.executable, "-c", code, *places, url]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            while chunk := os.read(ours, 4096):
                seen += chunk
        except OSError:  # how Linux says that the other end is closed
            pass
        assert process.stdout is not None
        out = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == 0, seen
    assert re.search(rb"one\.csv .*200\.0/200\.0 kB", seen), seen
    assert out == f"good: fetched from {url}/one.csv, 1 files checked in {folder}\n"
