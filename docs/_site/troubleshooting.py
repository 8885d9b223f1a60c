"""The page "Troubleshooting": every error of the code with what to do about it."""

import ast
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SOURCE = FOLDER.parents[1] / "src" / "pdml"
NODE = ("node", "consortium")  # whose sentences operators see
WARNINGS = ("PrivacyUtilityWarning", "ClippingWarning", "UncountedTrainingWarning")


@cache
def advice() -> dict[str, dict[str, str]]:
    return tomllib.loads((FOLDER / "troubleshooting.toml").read_text(encoding="utf-8"))


@cache
def error_classes() -> dict[str, type]:
    """Every error and warning that pdml raises on purpose, by name, bases first."""
    import pdml
    from pdml import errors

    found: dict[str, type] = {"PDMLError": errors.PDMLError}
    for module in pkgutil.walk_packages(pdml.__path__, "pdml."):
        if ".research" not in module.name and "__main__" not in module.name:
            import_module(module.name)

    def walk(kind: type) -> None:
        for child in kind.__subclasses__():
            if child.__module__.startswith("pdml."):
                found.setdefault(child.__name__, child)
                walk(child)

    walk(errors.PDMLError)
    return found | {name: getattr(errors, name) for name in WARNINGS}


def sentences() -> list[tuple[str, str]]:
    """(class, sentence) of what nodes and results are refused with; "…" stands for what varies."""
    found, kinds = set(), error_classes()
    for folder in NODE:
        for file in (SOURCE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    found |= set(_sentence(node.exc))
    return sorted(pair for pair in found if pair[0] in kinds)


def _sentence(call: ast.Call) -> Iterator[tuple[str, str]]:
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        call = call.func.value  # DataError("...").mark_public()
    text = " ".join(_text(call.args[0]).split()) if call.args else ""
    if isinstance(call.func, ast.Name) and len(re.findall(r"\w+", text)) > 2:
        yield call.func.id, text


def _text(node: ast.expr) -> str:
    """The words of a string that is made here."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return "…"


def advice_for(kind: str, sentence: str) -> str:
    known = advice()
    for pattern, words in known["sentences"].items():
        if re.search(pattern, sentence):
            return words
    return known["errors"].get(kind, "")


def page() -> str:
    from pdml.node.job.job_result import KINDS
    from pdml.study.messages import PROBLEMS

    known = advice()
    text = [
        "# Troubleshooting",
        "",
        "Every error, with what to do. Made from the code, so that none is missing. A command that "
        "refuses prints one sentence and ends with exit code 1; 2 is a mistake in its options.",
        "",
        "## Errors in Python",
        "| class | what it says | what to do |",
        "|---|---|---|",
    ]
    for name, kind in error_classes().items():
        words = (inspect.getdoc(kind) or "").partition("\n\n")[0]
        text.append(_row(f"`{name}`", words, known["errors"].get(name, "")))
    text += [
        "",
        "## Problems of a collection",
        "`pdml contribute` and the page name the code; [what it means](problems.md).",
        "",
        "| code | status | what it says | what to do |",
        "|---|---|---|---|",
    ]
    for code, problem in PROBLEMS.items():
        text.append(
            _row(f"`{code}`", str(problem.status), problem.title, known["problems"].get(code, ""))
        )
    text += [
        "",
        "## A result that is refused",
        "`pdml verify --json` names the kind.",
        "",
        "| kind | what it says | what to do |",
        "|---|---|---|",
        *(_row(f"`{k}`", words, known["results"].get(k, "")) for k, words in KINDS.items()),
        "",
        "## Sentences of nodes and results",
        "… stands for a name, a number or a reason.",
        "",
        "| sentence | class | what to do |",
        "|---|---|---|",
        *(_row(words, f"`{kind}`", advice_for(kind, words)) for kind, words in sentences()),
    ]
    return "\n".join(text) + "\n"


def _row(*cells: Any) -> str:
    return "| " + " | ".join(" ".join(c.split()).replace("|", "\\|") for c in cells) + " |"
