"""Would the tests notice? Plant one mistake at a time in a copy of the code, and run its tests.

    make mutants                                      all of tests/mutants.toml
    .venv/bin/python tests/mutants.py kappa journal   those whose names contain one of the words

A mistake is caught if one of its tests fails, and passes again without the mistake. Tests marked
slow are left out: nobody runs those before a commit. Where ``attacks`` are named, `pdml audit` must
find it too. Ends with 1 if a mistake is missed, or if the list no longer fits the code.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "mutants.toml"
TIMEOUT = 900.0  # seconds for one run of pytest or of the audit, on a busy machine
COPIED = (
    "src",
    "tests",
    "docs",
    "benchmarks",
    "examples",
    "pyproject.toml",
    "Makefile",
    "README.md",
)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One mistake: ``old`` stands once in ``file``; ``new`` takes its place."""

    name: str
    file: str
    old: str
    new: str
    why: str  # it would matter
    tests: tuple[str, ...]  # files, or files::tests
    attacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    caught: bool
    by: str  # the test that caught it, or what went wrong
    seconds: float


def load(path: Path = LIST) -> list[Mutant]:
    entries = tomllib.loads(path.read_text())["mutant"]
    for entry in entries:
        entry |= {key: tuple(entry.get(key, ())) for key in ("tests", "attacks")}
    return [Mutant(**entry) for entry in entries]


def stale(mutant: Mutant, root: Path = ROOT) -> str:
    """Why this mistake can no longer be planted; "" if it can."""
    path = root / mutant.file
    if not path.is_file():
        return f"there is no {mutant.file}"
    count = path.read_text().count(mutant.old)
    if count != 1:
        return f"its old text stands {count} times in {mutant.file}"
    if path.suffix == ".py":
        try:
            compile(path.read_text().replace(mutant.old, mutant.new), mutant.file, "exec")
        except SyntaxError as error:
            return f"its new text is no Python: {error.msg}"
    missing = [test for test in mutant.tests if not (root / test.partition("::")[0]).is_file()]
    return f"there is no {missing[0]}" if missing else ""


class Unclear(Exception):
    """A run that says nothing about the tests, or an attack that found nothing."""


class Copy:
    """A copy of the project that one worker may spoil."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        leave = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
        for name in COPIED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=leave)
            elif source.exists():
                shutil.copy(source, folder / name)
        self.env = {
            **os.environ,
            "PYTHONPATH": str(folder / "src"),  # before the installed package
            "CI": "true",  # a browser or a database that is missing fails
        }
        self.stamp = 1_000_000_000
        self.good: set[str] = set()  # tests that pass without any mistake
        imported = [sys.executable, "-c", "import pdml; print(pdml.__file__)"]
        where = self._run(imported).stdout.strip()
        if not Path(where).is_relative_to(folder):
            raise SystemExit(f"the tests would import {where}, not the copy in {folder}")

    def attempt(self, mutant: Mutant) -> Verdict:
        start = time.monotonic()
        try:
            by = self._planted(mutant)
            fault = f"not by {', '.join(mutant.tests)}" if not by else ""
            if by and by not in self.good:
                fault = f"by {by}, which fails without it as well" if self._failing((by,)) else ""
                self.good.add(by)
        except (subprocess.TimeoutExpired, Unclear) as error:
            by, fault = "", str(error)
        return Verdict(not fault, fault or by, time.monotonic() - start)

    def _planted(self, mutant: Mutant) -> str:
        """The test that fails with the mistake; "" if none does."""
        good = (self.folder / mutant.file).read_text()
        self._write(mutant.file, good.replace(mutant.old, mutant.new))
        try:
            by = self._failing(mutant.tests)
            for attack in mutant.attacks:
                self._found_by(attack)
            return by
        finally:
            self._write(mutant.file, good)

    def _write(self, file: str, text: str) -> None:
        """With an age of its own: by it Python sees that what it has compiled is out of date."""
        self.stamp += 10
        (self.folder / file).write_text(text)
        os.utime(self.folder / file, (self.stamp, self.stamp))

    def _failing(self, tests: Sequence[str]) -> str:
        """The first test that fails."""
        options = ["-x", "-q", "-n", "0", "-m", "not slow", "--tb=no", "-rfE"]
        options += ["-p", "no:cacheprovider", "-p", "no:schemathesis"]  # which takes its time
        ran = self._pytest([*options, *tests])
        found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", ran.stdout, flags=re.M)
        if ran.returncode not in (0, 1) or (ran.returncode == 1) != bool(found):
            raise Unclear(f"pytest ended with {ran.returncode}: {(ran.stdout + ran.stderr)[-500:]}")
        return found[1] if found else ""

    def _pytest(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, "-m", "pytest", *arguments])

    def _found_by(self, attack: str) -> None:
        pdml = [sys.executable, "-c", "from pdml.cli import main; main()"]
        ran = self._run([*pdml, "audit", "--jobs", "1", "--attack", attack])
        if "VIOLATED" not in ran.stdout:
            raise Unclear(f"not by pdml audit --attack {attack} {ran.stderr[-500:]}".strip())

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )


def plant(mutants: Sequence[Mutant], *, root: Path = ROOT, jobs: int = 2) -> list[Verdict]:
    """Every mistake in turn, ``jobs`` at a time, each in a copy of its own; told as they come."""
    with tempfile.TemporaryDirectory(prefix="pdml-mutants-") as place:
        free: SimpleQueue[Copy] = SimpleQueue()
        for k in range(jobs):
            folder = Path(place) / str(k)
            folder.mkdir()
            free.put(Copy(root, folder))

        def one(mutant: Mutant) -> Verdict:
            copy = free.get()
            try:
                verdict = copy.attempt(mutant)
            finally:
                free.put(copy)
            word = "caught" if verdict.caught else "MISSED"
            print(f"{word}  {mutant.name:<44} {verdict.seconds:5.1f} s  {verdict.by}", flush=True)
            return verdict

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, mutants))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Plant mistakes, and see which tests catch them.")
    parser.add_argument("words", nargs="*", help="only mistakes whose names contain one of these")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="at a time")
    asked = parser.parse_args(arguments)
    mutants = [m for m in load() if not asked.words or any(word in m.name for word in asked.words)]
    unfit = [f"STALE   {mutant.name}: {why}" for mutant in mutants if (why := stale(mutant))]
    if unfit:
        print("\n".join(unfit))
        return 1
    start = time.monotonic()
    verdicts = plant(mutants, jobs=asked.jobs)
    missed = sum(not verdict.caught for verdict in verdicts)
    minutes = (time.monotonic() - start) / 60
    caught = len(verdicts) - missed
    print(f"{len(verdicts)} mistakes: {caught} caught, {missed} missed ({minutes:.1f} min).")
    return 1 if missed or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
