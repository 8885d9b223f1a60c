"""Write docs/evaluation/coverage.md: the lines of the packages that carry proofs which no test
runs, each with the reason why that is so.

    python tests/uncovered.py coverage.json

Reasons are kept from the page that is there, by the file, the function and the line's text; "..."
in place of the text, or of both, is one reason for all that has no other. One that begins with
"timing:" stays on the page when its lines happen to run. Without a reason a line is a task, and
this ends with 1.
"""

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evaluation/coverage.md"
PACKAGES = ("numerics", "mechanisms", "accounting", "node")
ALL, TIMING = "...", "timing:"
HEAD = """\
# What no test runs

Made by `make coverage` from the tests that it names. There is no percentage to reach: it would be
reached by tests that prove nothing. Instead every line of `numerics`, `mechanisms`, `accounting` and
`node` that no test runs stands here with the reason; `...` stands for all lines of a function or a
file that have no reason of their own. Processes that tests start are measured, unless they are
killed; what numba compiles is not. Lines whose reason is timing run in some measurements: then they
are counted as 0.

| file | function | first line | lines | why |
|---|---|---|---|---|
"""
Place = tuple[str, str, str]  # file, function, text


def reasons() -> dict[Place, str]:
    """Why, from the page as it stands."""
    rows = PAGE.read_text().splitlines() if PAGE.exists() else []
    cells = [
        re.fullmatch(r"\| `(.+?)` \| `(.*?)` \| `(.*)` \| \d+ \| (.*) \|", row) for row in rows
    ]
    return {(each[1], each[2], each[3]): each[4].strip() for each in cells if each}


def functions(source: str) -> Iterator[tuple[int, int, str]]:
    """(first line, last line, name) of each function, outer ones before inner ones."""

    def within(node: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                if not isinstance(child, ast.ClassDef):
                    yield child.lineno, child.end_lineno or child.lineno, name
                yield from within(child, f"{name}.")
            else:
                yield from within(child, prefix)

    return within(ast.parse(source), "")


def uncovered(measured: dict) -> Iterator[tuple[Place, int]]:
    """Where each block begins that did not run, and how many lines it has."""
    for name, result in sorted(measured["files"].items()):
        match = re.search(rf"src/(pdml/(?:{'|'.join(PACKAGES)})/.*)", name)
        if not match or not result["missing_lines"]:
            continue
        source = (ROOT / "src" / match[1]).read_text()
        lines, known = source.splitlines(), list(functions(source))
        numbered = enumerate(result["missing_lines"])
        for _, block in groupby(numbered, key=lambda pair: pair[1] - pair[0]):
            numbers = [number for _, number in block]
            text = lines[numbers[0] - 1].strip()
            if text.endswith("("):  # what is raised, or returned, begins in the next line
                text += lines[numbers[0]].strip()
            around = [each for first, last, each in known if first <= numbers[0] <= last]
            text = text.replace("|", "¦").replace("`", "'")
            yield (match[1], around[-1] if around else "", text), len(numbers)


def main(report: Path) -> int:
    known, found = reasons(), Counter[Place]()
    for place, count in uncovered(json.loads(report.read_text())):
        file, function, _ = place
        for wider in (place, (file, function, ALL), (file, ALL, ALL)):
            if known.get(wider):
                found[wider] += count
                break
        else:
            found[place] += count
    found.update({place: 0 for place, why in known.items() if why.startswith(TIMING)})
    rows = [
        f"| `{file}` | `{function}` | `{text}` | {count} | {known.get((file, function, text), '')} |\n"
        for (file, function, text), count in sorted(found.items())
    ]
    PAGE.write_text(HEAD + "".join(rows))
    tasks = sum(not known.get(place) for place in found)
    print(f"{PAGE.relative_to(ROOT)}: {len(rows)} entries, {tasks} without a reason")
    return int(tasks > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
