"""Write docs/coverage.md: the lines of the rooms that carry proofs which no test runs, each with the
reason why that is so.

    python tests/uncovered.py coverage.json

Reasons are kept from the file that is there, by the line's text. Without a reason a line is a task,
and this ends with 1.
"""

import json
import re
import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "coverage.md"
ROOMS = ("core", "mechanisms", "accounting", "node")
HEAD = """\
# What no test runs

Made by `make coverage` from the tests that it names. There is no percentage to reach: it would be reached by tests that prove nothing. Instead every line of
`core`, `mechanisms`, `accounting` and `node` that no test runs stands here with the reason. Processes that tests start are not measured, nor what numba compiles.

| file | first line | lines | why |
|---|---|---|---|
"""


def reasons() -> dict[tuple[str, str], str]:
    """(file, text): why, from the page as it stands."""
    rows = PAGE.read_text().splitlines() if PAGE.exists() else []
    cells = [re.fullmatch(r"\| `(.+?)` \| `(.*)` \| \d+ \| (.*) \|", row) for row in rows]
    return {(each[1], each[2]): each[3].strip() for each in cells if each}


def uncovered(measured: dict) -> list[tuple[str, str, int]]:
    """(file, text of the first line, how many lines) of each block that did not run."""
    found = []
    for name, told in sorted(measured["files"].items()):
        room = re.search(rf"src/(pdml/(?:{'|'.join(ROOMS)})/.*)", name)
        if not room or not told["missing_lines"]:
            continue
        lines = (ROOT / "src" / room[1]).read_text().splitlines()
        numbered = enumerate(told["missing_lines"])
        for _, block in groupby(numbered, key=lambda pair: pair[1] - pair[0]):
            numbers = [number for _, number in block]
            text = lines[numbers[0] - 1].strip().replace("|", "¦").replace("`", "'")
            found.append((room[1], text, len(numbers)))
    return found


def main(report: Path) -> int:
    known, tasks, rows = reasons(), 0, []
    for file, text, count in uncovered(json.loads(report.read_text())):
        why = known.get((file, text), "") or known.get((file, "..."), "")
        tasks += not why
        rows.append((file, text, count, why))
    whole = {file: why for (file, text), why in known.items() if text == "..."}
    for file, why in whole.items():  # one reason for all of a file
        count = sum(row[2] for row in rows if row[0] == file and row[3] == why)
        rows = [row for row in rows if row[0] != file or row[3] != why]
        rows += [(file, "...", count, why)] if count else []
    table = [
        f"| `{file}` | `{text}` | {count} | {why} |\n" for file, text, count, why in sorted(rows)
    ]
    PAGE.write_text(HEAD + "".join(table))
    print(f"{PAGE.relative_to(ROOT)}: {len(rows)} entries, {tasks} without a reason")
    return int(tasks > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
