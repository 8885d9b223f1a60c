"""What the site takes from the code: commands, public names, problem codes, events and settings.

mkdocs calls `on_files` and `on_post_build`; the tests call `pages`. Nothing here is written twice:
whatever the code says of itself is what the site says.
"""

import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click
from markdown.extensions import Extension

DOCS = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))
import troubleshooting  # noqa: E402, beside this file, wherever that is loaded from

PACKAGES = {
    "pdml": "What most programs need.",
    "pdml.planning": "Plans: every letter of the paper, and what it will spend.",
    "pdml.accounting": "Who can learn what: events, profiles, the ledger, budgets.",
    "pdml.study": "The contract of a study, its messages and its frozen data sets.",
    "pdml.device": "A person's device.",
    "pdml.collector": "One organisation's service.",
    "pdml.node": "One organisation's node in training.",
    "pdml.training": "What a training gives.",
    "pdml.simulation": "All parties in one process: estimators, tables, studies.",
    "pdml.consortium": "What organisations make together: results and their verification.",
    "pdml.model": "What leaves the system: models, evaluations, exports.",
    "pdml.statement": "The privacy statement and DPIA.",
    "pdml.encoding": "From answers to rows.",
    "pdml.pages": "What people look at.",
    "pdml.audit": "Attacks on the real code.",
    "pdml.research.datasets": "Data for experiments.",
    "pdml.research.paper": "The paper: its table and figures, measured again.",
    "pdml.research.bounds": "The paper's bounds, and sharper ones.",
    "pdml.numerics": "Numerics: graphs, losses, the solver.",
    "pdml.tables": "Tables of records, read from files.",
}

INNER = ("pdml.numerics", "pdml.encoding", "pdml.tables")  # shown as far as calls take or return it


@cache
def pages() -> dict[str, str]:
    """Every generated page, by its path in the site."""
    return {
        "reference/commands.md": commands(),
        "reference/python.md": python(),
        **{f"reference/{package}.md": package_page(package) for package in PACKAGES},
        "reference/problems.md": problems(),
        "reference/troubleshooting.md": troubleshooting.page(),
        "reference/events.md": events(),
        "reference/study.md": settings(),
    }


class Asterisks(Extension):
    """Formulas are full of underscores: only asterisks emphasise."""

    def extendMarkdown(self, md: Any) -> None:
        md.delimiters.remove("_")


def on_config(config: Any) -> None:
    config["markdown_extensions"].append(Asterisks())


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    sys.path.insert(0, str(Path(__file__).parent))  # mkdocs takes away what a hook has added
    import examples

    for path, content in {**pages(), **examples.files()}.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_post_build(config: Any) -> None:
    import gallery
    from mkdocs.exceptions import PluginError

    site = Path(config["site_dir"])
    gallery.make(site / "gallery")
    for page in site.rglob("*.html"):
        if found := loaded_from_elsewhere(page.read_text(encoding="utf-8")):
            raise PluginError(f"{page.relative_to(site)} loads {', '.join(found)}")


def loaded_from_elsewhere(html: str) -> list[str]:
    """What a browser would fetch from another host to show a page; links are only followed."""
    tags = re.findall(r"<(?:script|link|img|iframe|source|video|audio|object|embed)\b[^>]*>", html)
    inside = re.findall(r"@import[^;]*|url\([^)]*\)", html)
    hosts = r"(?:https?:)?//[^\s\"'>)]+"
    return [address for text in (*tags, *inside) for address in re.findall(hosts, text)]


# Commands


def command_tree() -> "list[tuple[str, click.Command]]":
    """Every command with its full name, groups included."""
    import typer

    from pdml.cli.commands import app

    found: list[tuple[str, click.Command]] = []

    def walk(name: str, command: Any) -> None:
        found.append((name, command))
        for child in sorted(getattr(command, "commands", {})):
            walk(f"{name} {child}", command.commands[child])

    walk("pdml", typer.main.get_command(app))
    return found


def commands() -> str:
    text = [
        "# Commands",
        "",
        "Made from the commands themselves: `pdml COMMAND --help` says the same.",
        "",
    ]
    for name, command in command_tree():
        text += [
            f"{'##' if name.count(' ') < 2 else '###'} {name} {{#{name.replace(' ', '-')}}}",
            "",
        ]
        text += [_help(command), ""]
        rows = [row for row in map(_option, command.params) if row]
        if rows:
            text += ["| option | | default |", "|---|---|---|", *rows, ""]
    return "\n".join(text)


def _help(command: Any) -> str:
    """The help text; what it sets in lines of its own stays so."""
    parts, out = inspect.cleandoc(command.help or "").split("\n\n"), []
    for part in parts:
        if part.startswith("\b"):
            body = part.removeprefix("\b").strip("\n").replace("\\\\\n", "\\\n")
            out.append(f"```text\n{inspect.cleandoc(body)}\n```")
        else:
            out.append(_escaped(part.replace("\f", "")))
    return "\n\n".join(out)


def _option(parameter: Any) -> str:
    if getattr(parameter, "hidden", False):
        return ""
    names = (
        (parameter.metavar or parameter.name).upper()
        if parameter.param_type_name == "argument"
        else ", ".join(parameter.opts + parameter.secondary_opts)
    )
    default = parameter.default
    shown = (
        ""
        if callable(default) or default in (None, False, "", (), []) or "UNSET" in repr(default)
        else f"`{_default(default)}`"
    )
    words = _escaped(" ".join((getattr(parameter, "help", None) or "").split()))
    return f"| `{names}` | {words} | {shown} |"


def _default(value: Any) -> str:
    return str(getattr(value, "value", value)).replace("|", "\\|")


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|")


# Python


def calls() -> dict[str, list[str]]:
    """By command, the full names of what it calls: the table of docs/reference/calls.md."""
    text = (DOCS / "reference" / "calls.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(pdml [^`]+)` \| (.*) \|$", text, flags=re.M)
    return {command: re.findall(r"`(pdml\.[\w.]+)`", cell) for command, cell in rows}


def public_names() -> dict[str, list[tuple[str, str]]]:
    """By package, each public name with the full name of what it stands for: what it offers,
    what commands call, and the classes that those take or return.
    """
    found: dict[str, dict[str, str]] = {package: {} for package in PACKAGES}
    for package in (package for package in PACKAGES if package not in INNER):
        for name in getattr(import_module(package), "__all__", ()):
            found[package][_full(f"{package}.{name}")] = name
    called = [resolve_name(name) for names in calls().values() for name in names]
    for value in (*called, *(kind for call in called for kind in _taken_and_returned(call))):
        owner, _, method = value.__qualname__.rpartition(".")
        full = f"{value.__module__}.{owner if method and owner else value.__qualname__}"
        package = next((r for r in PACKAGES if r != "pdml" and full.startswith(f"{r}.")), "")
        if package:
            found[package].setdefault(full, full.rpartition(".")[2])
    return {
        package: [(name, full) for full, name in names.items()] for package, names in found.items()
    }


def _full(name: str) -> str:
    """Where what a name stands for is defined."""
    value = resolve_name(name)
    home = getattr(value, "__module__", "") if callable(value) else ""
    return f"{home}.{value.__qualname__}" if home.startswith("pdml") else name


def _taken_and_returned(call: Any) -> Iterator[type]:
    try:
        todo = list(typing.get_type_hints(call).values()) if inspect.isroutine(call) else []
    except NameError:  # a class that only type checkers import there
        todo = []
    while todo:
        hint = todo.pop()
        todo += hint if isinstance(hint, list) else typing.get_args(hint)
        if inspect.isclass(hint) and hint.__module__.startswith("pdml."):
            yield hint


def python() -> str:
    text = ["# Python", "", "| where | what |", "|---|---|"]
    text += [f"| [`{package}`]({package}.md) | {words} |" for package, words in PACKAGES.items()]
    text += ["", "## Every command is a call", "", "| command | call |", "|---|---|"]
    for command, names in calls().items():
        links = ", ".join(f"[`{name}`][{_full(name)}]" for name in names)
        text.append(f"| [`{command}`](commands.md#{command.replace(' ', '-')}) | {links} |")
    return "\n".join(text)


def package_page(package: str) -> str:
    text = [f"# {package}", "", PACKAGES[package], ""]
    shown = {
        full
        for before in list(PACKAGES)[: list(PACKAGES).index(package)]
        for full in _fulls(before)
    }
    for name, full in public_names()[package]:
        text += [f"- [`{name}`][{full}]" if full in shown else f"::: {full}", ""]
    return "\n".join(text)


def _fulls(package: str) -> set[str]:
    return {full for _, full in public_names()[package]}


# Tables


def problems() -> str:
    from pdml.node.job.job_result import KINDS
    from pdml.study.messages import PROBLEMS

    text = [
        "# Problem codes",
        "",
        "## Of a collection service",
        "",
        "Every refusal is a problem document (RFC 9457) with one of these codes, which never "
        "change their meaning.",
        "",
        "| code | status | what it says |",
        "|---|---|---|",
        *(f"| `{code}` | {kind.status} | {kind.title} |" for code, kind in PROBLEMS.items()),
        "",
        "## Of a result",
        "",
        "`pdml verify --json` names every problem of a result by its kind.",
        "",
        "| kind | what it says |",
        "|---|---|",
        *(f"| `{kind}` | {words} |" for kind, words in KINDS.items()),
    ]
    return "\n".join(text)


def event_classes() -> tuple[Any, ...]:
    from pdml.accounting import events

    return typing.get_args(events.Event)


def events() -> str:
    text = [
        "# Events of the ledger",
        "",
        "What was released, as frozen records. Journals and models keep them by name, so that none "
        "is ever removed and none changes its meaning.",
        "",
    ]
    for kind in event_classes():
        text += [f"## {kind.__name__}", "", _escaped(inspect.getdoc(kind) or ""), ""]
        text += ["| field | type | default |", "|---|---|---|"]
        for field in dataclasses.fields(kind):
            missing = "" if field.default is dataclasses.MISSING else f"`{field.default!r}`"
            shown = getattr(field.type, "__name__", str(field.type)).replace("|", "\\|")
            text.append(f"| `{field.name}` | `{shown}` | {missing} |")
        text.append("")
    return "\n".join(text)


def settings() -> str:
    """Of a study, and of the plan in it."""
    from pdml import Study, TrainingPlan
    from pdml.study.schema.study_file import TABLES, keys_of

    text = ["# Settings of a study", "", "All of them are public. Anything else is refused.", ""]
    for table in ("", *(name for name in TABLES if name != "plan")):
        text += [f"## {_heading(table)}", "", "| key | | |", "|---|---|---|"]
        for name, key in keys_of(table, Study).items():
            needed = "required" if key.required and not key.only else ""
            text.append(f"| `{name}` | {_escaped(key.help)} | {needed} |")
        text.append("")
    text += [
        "## [plan]",
        "",
        "In Python [`TrainingPlan`][pdml.planning.training_plan.TrainingPlan].",
    ]
    text.append("")
    text += ["| key | | by default |", "|---|---|---|"]
    says = explained(TrainingPlan)
    for field in dataclasses.fields(TrainingPlan):
        text.append(f"| `{field.name}` | {_escaped(says[field.name])} | `{field.default!r}` |")
    return "\n".join([*text, ""])


def _heading(table: str) -> str:
    from pdml.study.schema.study_file import TABLES

    name, _, inner = table.partition(".")
    if not name:
        return "The tables"
    heading = f"[[{name}]]" if TABLES[name].many else f"[{name}]"
    return f"{heading} {inner}" if inner else heading


def explained(documented: Any) -> dict[str, str]:
    """Each parameter with what a docstring's section says of it."""
    text = inspect.getdoc(documented) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, flags=re.M | re.S)
    entries = re.split(r"^(?=\S)", section[1] if section else "", flags=re.M)
    found = {}
    for entry in filter(None, entries):
        names, _, words = entry.partition("\n")
        for name in names.partition(" :")[0].split(","):
            found[name.strip(" *")] = " ".join(words.split())
    return found
