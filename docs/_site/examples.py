"""The examples as pages: every cell of examples/*.py with what it prints and draws, run while the
site is built. `reference` calls it.
"""

import io
import re
import tempfile
import warnings
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One example after its run: its page, its figures by file name, and its variables."""

    page: str
    figures: dict[str, bytes]
    names: dict[str, Any]


def scripts() -> list[Path]:
    """All examples."""
    return sorted(FOLDER.glob("*.py"))


def cells(script: Path) -> list[tuple[bool, str]]:
    """(is prose, text) of each cell: ``# %% [markdown]`` begins prose, ``# %%`` code."""
    parts = re.split(r"^# %%(.*)\n", script.read_text(encoding="utf-8"), flags=re.M)
    kinds, bodies = parts[1::2], parts[2::2]
    return [
        ("[markdown]" in kind, body.strip("\n")) for kind, body in zip(kinds, bodies, strict=True)
    ]


def run(script: Path) -> Shown:
    """Run an example in an empty folder, cell by cell."""
    import matplotlib

    page, names = [], {"__name__": "__main__"}
    figures: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as place, chdir(place), warnings.catch_warnings():
        matplotlib.use("Agg")
        for prose, text in cells(script):
            if prose:
                page.append(re.sub(r"^# ?", "", text, flags=re.M))
                continue
            said = io.StringIO()
            with redirect_stdout(said):
                exec(compile(text, script.name, "exec"), names)
            page.append(f"```python\n{text}\n```")
            if said.getvalue():
                page.append(f"```text\n{said.getvalue()}```")
            for drawn in sorted(Path(place).glob("*.svg")):
                if drawn.name not in figures:
                    figures[drawn.name] = drawn.read_bytes()
                    page.append(f"![What the lines above draw]({drawn.name})")
    page.append(f"*This page is `examples/{script.name}`, run while the site was built.*")
    return Shown(page="\n\n".join(page) + "\n", figures=figures, names=names)


def files() -> dict[str, str | bytes]:
    """Every page and figure, by its path in the site."""
    made: dict[str, str | bytes] = {}
    for script in scripts():
        shown = run(script)
        made[f"examples/{script.stem}.md"] = shown.page
        made |= {f"examples/{name}": data for name, data in shown.figures.items()}
    return made
