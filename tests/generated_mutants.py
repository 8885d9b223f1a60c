"""Mistakes that nobody chose: the operators of cosmic-ray, one mistake at each place of the code
that carries proofs. `make mutants-generated` plants a sample of them in copies of the code and
writes docs/evaluation/mutants.md: how many the unit tests catch, and every other with the reason
why no test can. Reasons are kept from the page that is there; without one a mistake is a task, and
this ends with 1.

    python tests/generated_mutants.py [--sample 600] [--seed 0] [--jobs 2]
    python tests/generated_mutants.py --again       those that the page names; it stays as it is

A mistake meets the tests that run its statement, of the file that mirrors its module first, then
the quickest, until they have cost a minute without it. Whoever needs ten times as long has noticed.
"""

import argparse
import ast
import hashlib
import importlib
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from textwrap import fill
from typing import Any
from xml.etree import ElementTree

from mutants import ROOT, TIMEOUT, Copy, Mutant, Verdict
from uncovered import functions

PAGE = ROOT / "docs" / "evaluation" / "mutants.md"
MUTATED = ("accounting", "mechanisms", "numerics/sums")
TESTS = ("accounting", "mechanisms", "numerics")  # of tests/unit
PYTEST = ("-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-m", "not slow")
QUICK = ("--hypothesis-profile", "fast")
SECONDS = 60.0  # of tests for one mistake
GIGABYTES = 8
# What tests import of others: each mistake is planted in a fork of a process that has done so.
IMPORTED = (
    "pytest", "hypothesis", "numpy.testing", "scipy.stats", "scipy.optimize",
    "scipy.integrate", "scipy.sparse", "scipy.linalg", "sklearn.linear_model", "numba", "msgspec",
    "pandas", "dp_accounting.pld", "cryptography.hazmat.primitives.asymmetric.ed25519", "selenium.webdriver",
)  # fmt: skip
# Whether numbers are identical is chance, and floats have no bits: nothing would run.
POINTLESS = re.compile(
    "(Eq|NotEq|Lt|LtE|Gt|GtE)_Is(Not)?$|_Invert$|(UAdd|USub)_Not$"
    "|(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)_(RShift|LShift|BitOr|BitAnd|BitXor)$"
    "|(RShift|LShift|BitOr|BitAnd|BitXor)_(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)$"
)
HEAD = """\
# Generated mistakes

`make mutants-generated` plants mistakes that nobody chose, by the operators of cosmic-ray: another
operator, another number, a condition turned round, a loop that does not run, a decorator that is
missing. At each place of `accounting`, `mechanisms` and `numerics/sums` it plants one, and runs the
unit tests that run that statement. A mistake that no test catches stands here with the reason, or
it is a task. The mistakes that people chose are in `tests/mutants.toml`.

"""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where mistakes can be planted: operators with the number of the node that they change."""

    file: str
    function: str
    digest: str  # places are drawn in its order
    choices: list[tuple[Any, int, int]]


@dataclass(frozen=True, kw_only=True)
class Mistake:
    file: str
    function: str
    line: int
    old: str  # the line
    new: str
    source: str  # the whole file with the mistake

    @property
    def row(self) -> "Row":
        file = Path(self.file).relative_to("src").as_posix()
        return file, self.function, cell(self.old), cell(self.new)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "¦").replace("`", "'")


def find_places(file: str, source: str, seed: int) -> Iterator[Place]:
    """A place is drawn by its function and its line, whatever stands elsewhere."""
    import parso
    from cosmic_ray.ast import ast_nodes
    from cosmic_ray.operators.provider import OperatorProvider

    provider, nodes = OperatorProvider(), list(ast_nodes(parso.parse(source)))
    kinds = [provider[name] for name in provider if not provider[name].arguments()]
    kinds = [kind for kind in kinds if not POINTLESS.search(kind.__name__)]
    choices: dict[Any, list[tuple[Any, int, int]]] = defaultdict(list)
    for kind in kinds:
        for number, node in enumerate(nodes):
            for index, span in enumerate(kind().mutation_positions(node)):
                if not is_signature(node):
                    choices[span].append((kind(), number, index))
    around, lines = list(functions(source)), source.splitlines()
    seen = Counter[str]()
    for (start, _), each in sorted(choices.items(), key=lambda item: item[0]):
        names = [name for first, last, name in around if first <= start[0] <= last]
        function = names[-1] if names else ""
        key = f"{seed} {file} {function} {lines[start[0] - 1]} {start[1]}"
        seen[key] += 1
        digest = hashlib.sha256(f"{key} {seen[key]}".encode()).hexdigest()
        yield Place(file=file, function=function, digest=digest, choices=each)


def is_signature(node: Any) -> bool:
    """Nobody runs types, and the star of a signature is no product."""
    if node.parent is not None and node.parent.type == "parameters":
        return True
    while node.parent is not None:
        siblings = node.parent.children
        before = siblings[max(0, siblings.index(node) - 1)]
        typed = node.parent.type in ("annassign", "tfpdef", "funcdef") and node.type != "suite"
        if typed and getattr(before, "value", "") in (":", "->"):
            return True
        node = node.parent
    return False


def mistake_at(place: Place, source: str) -> Mistake | None:
    """The one that the draw names, or the next that is Python; None if no other is."""
    import parso
    from cosmic_ray.ast import ast_nodes

    turn, lines = int(place.digest, 16) % len(place.choices), source.splitlines()
    for operator, number, index in place.choices[turn:] + place.choices[:turn]:
        tree = parso.parse(source)
        node = list(ast_nodes(tree))[number]
        siblings, changed = node.parent.children, operator.mutate(node, index)
        at = siblings.index(node)
        siblings[at : at + 1] = [changed] if changed is not None else []
        mutated = str(tree.get_code())
        with suppress(SyntaxError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(mutated, place.file, "exec")
            pairs = enumerate(zip(lines, mutated.splitlines(), strict=False))
            line, (old, new) = next((k, pair) for k, pair in pairs if pair[0] != pair[1])
            return Mistake(
                file=place.file, function=place.function, line=line + 1, old=old, new=new, source=mutated
            )  # fmt: skip
    return None


# Which tests run a line


@dataclass(frozen=True)
class Coverage:
    """Of each file the tests that run a line, and how long each test takes."""

    lines: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def tests(self, mistake: Mistake, source: str) -> list[str]:
        """Those that run its statement, or its module where it runs on import."""
        lines = self.lines.get(mistake.file, {})
        first, last = statement(source, mistake.line)
        chosen = {test for line in range(first, last + 1) for test in lines.get(line, ())}
        chosen = chosen or {test for tests in lines.values() for test in tests}
        mirror = f"/test_{Path(mistake.file).stem}.py::"
        ordered = sorted(chosen, key=lambda test: (mirror not in test, self.seconds.get(test, 1.0)))
        kept, total = [], 0.0
        for test in ordered:
            total += self.seconds.get(test, 1.0)
            kept += [test] * (total <= SECONDS or not kept)
        return kept


def statement(source: str, line: int) -> tuple[int, int]:
    """The lines of the smallest statement around a line, without those of its body."""
    best = (line, line)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if line <= last and (best == (line, line) or node.lineno >= best[0]):
                best = (node.lineno, max(last, node.lineno))
    return best


def measure(jobs: int) -> Coverage:
    """Run all unit tests of the packages once, without a mistake."""
    from coverage import CoverageData

    with tempfile.TemporaryDirectory() as folder:
        data, times = Path(folder) / "data", Path(folder) / "times.xml"
        packages = [f"--cov=pdml.{name.replace('/', '.')}" for name in MUTATED]
        command = [
            sys.executable,
            "-m",
            "pytest",
            *PYTEST,
            *QUICK,
            "-n",
            str(jobs),
            "--dist",
            "loadfile",
        ]
        command += ["--cov-context=test", "--cov-report=", f"--junitxml={times}", *packages]
        command += [f"tests/unit/{name}" for name in TESTS]
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(data)}, check=True
        )
        measured = CoverageData(str(data))
        measured.read()
        lines = {
            Path(file).relative_to(ROOT).as_posix(): {
                line: sorted({context.partition("|")[0] for context in contexts} - {""})
                for line, contexts in measured.contexts_by_lineno(file).items()
            }
            for file in measured.measured_files()
        }
        cases = ElementTree.parse(times).iter("testcase")
        seconds = {
            f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}": float(
                case.attrib["time"]
            )
            for case in cases
        }
    return Coverage(lines, seconds)


# One mistake


class ForkedCopy(Copy):
    """pytest runs in a fork of this process, which has imported whatever is not ours."""

    def __init__(self, root: Path, folder: Path, tests: Sequence[str] = ()) -> None:
        super().__init__(root, folder)
        self.good = {"time", "import"}  # without a mistake there is enough of both
        for name in IMPORTED:
            with suppress(ImportError):
                importlib.import_module(name)
        assert "pdml" not in sys.modules
        if self._pytest(["--collect-only", *tests]).returncode:
            raise SystemExit((self.folder / "output").read_text()[-2_000:])

    def _pytest(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        output = self.folder / "output"
        child = os.fork()
        if not child:
            self._become_pytest(output, arguments)
        deadline = time.monotonic() + TIMEOUT
        while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > deadline:
                os.killpg(child, 9)
            time.sleep(0.02)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        stdout = output.read_text(errors="replace")
        if code not in (0, 1):  # without it all tests can be collected
            code, stdout = 1, f"FAILED {'time' if code < 0 else 'import'}\n"
        return subprocess.CompletedProcess([], code, stdout, "")

    def _become_pytest(self, output: Path, arguments: Sequence[str]) -> None:
        code = 3
        try:
            os.setsid()
            with output.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (int(10 * SECONDS), int(10 * SECONDS) + 5))
            resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTES << 30, GIGABYTES << 30))
            os.chdir(self.folder)
            os.environ.update(self.env)
            sys.path.insert(0, str(self.folder / "src"))
            import pytest

            code = int(pytest.main(["--assert=plain", *QUICK, *arguments]))
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)


_copy: ForkedCopy


def _start(root: Path, folder: Path, tests: Sequence[str]) -> None:
    global _copy
    _copy = ForkedCopy(root, Path(tempfile.mkdtemp(dir=folder)), tests)


def _attempt(mutant: Mutant) -> Verdict:
    return _copy.attempt(mutant)


def plant(mutants: Sequence[Mutant], *, root: Path = ROOT, jobs: int = 2) -> Iterator[Verdict]:
    """Every mistake in turn, ``jobs`` at a time, each in a copy of its own."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    with (
        tempfile.TemporaryDirectory(prefix="pdml-mutants-") as place,
        ProcessPoolExecutor(jobs, get_context("spawn"), _start, (root, Path(place), tests)) as pool,
    ):
        yield from pool.map(_attempt, mutants)


# The page

Row = tuple[str, str, str, str]  # file, function, line, line with the mistake


def reasons() -> dict[Row, str]:
    """Why no test catches it, from the page as it stands."""
    rows = PAGE.read_text().splitlines() if PAGE.exists() else []
    cells = [
        re.fullmatch(r"\| `(.+?)` \| `(.*?)` \| `(.*?)` \| `(.*?)` \| (.*) \|", row) for row in rows
    ]
    return {(each[1], each[2], each[3], each[4]): each[5].strip() for each in cells if each}


def write_page(figures: str, counts: dict[str, Counter[bool]], missed: Sequence[Mistake]) -> int:
    """How many rows have no reason."""
    known = reasons()
    lines = ["| package | planted | caught | not caught |", "|---|---|---|---|"]
    for package, count in counts.items():
        lines.append(f"| `{package}` | {count.total()} | {count[True]} | {count[False]} |")
    lines += [
        "",
        "| file | function | line | with the mistake | why no test catches it |",
        "|---|---|---|---|---|",
    ]
    for row in sorted(mistake.row for mistake in missed):
        lines.append("| " + " | ".join(f"`{text}`" for text in row) + f" | {known.get(row, '')} |")
    PAGE.write_text(f"{HEAD}{fill(figures, 100)}\n\n" + "\n".join(lines) + "\n")
    return sum(not known.get(mistake.row) for mistake in missed)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--sample", type=int, default=600, help="mistakes; 0 plants one at each place"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--again", action="store_true")
    asked = parser.parse_args()
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for package in MUTATED
        for path in sorted((ROOT / "src" / "pdml" / package).rglob("*.py"))
    }
    places = sorted(
        (
            place
            for file, source in sources.items()
            for place in find_places(file, source, asked.seed)
        ),
        key=lambda place: place.digest,
    )
    drawn = places if asked.again else places[: asked.sample or None]
    found = [mistake_at(place, sources[place.file]) for place in drawn]
    chosen = [mistake for mistake in found if mistake]
    if asked.again:
        known = reasons()
        chosen = [mistake for mistake in chosen if mistake.row in known]
    coverage = measure(asked.jobs)
    mutants = [
        Mutant(
            name=f"{mistake.old.strip()} -> {mistake.new.strip()}", file=mistake.file,
            old=sources[mistake.file], new=mistake.source,
            why="", tests=tuple(coverage.tests(mistake, sources[mistake.file])),
        )
        for mistake in chosen
    ]  # fmt: skip
    counts: dict[str, Counter[bool]] = {package: Counter() for package in MUTATED}
    missed = []
    verdicts = plant(mutants, jobs=asked.jobs)
    for mistake, mutant, verdict in zip(chosen, mutants, verdicts, strict=True):
        (package,) = [name for name in MUTATED if mistake.file.startswith(f"src/pdml/{name}/")]
        counts[package][verdict.caught] += 1
        missed += [mistake] * (not verdict.caught)
        word, name = "caught" if verdict.caught else "MISSED", Path(mistake.file).name
        print(f"{word}  {name} {mistake.function}: {mutant.name}", flush=True)
        print(
            f"        {verdict.seconds:.1f} s, {len(mutant.tests)} tests, {verdict.by[:120]}",
            flush=True,
        )
    caught = sum(count[True] for count in counts.values())
    command = f"make mutants-generated SAMPLE={asked.sample} SEED={asked.seed}"
    commit = subprocess.check_output(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True
    ).strip()
    figures = (
        f"`{command}` on {time.strftime('%Y-%m-%d', time.gmtime())} at {commit}: {len(chosen):,} of {len(places):,} "
        f"places, {caught:,} mistakes caught, {len(missed):,} not."
    )
    print(figures)
    if asked.again:
        return 0
    return int(write_page(figures, counts, missed) > 0)


if __name__ == "__main__":
    sys.exit(main())
