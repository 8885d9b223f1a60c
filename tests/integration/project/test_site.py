"""The site's reference is made from the code: here is what the code must say of itself."""

import importlib.util
import inspect
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from pkgutil import resolve_name
from typing import ClassVar, NoReturn

import pytest
from example_study import TEXT, TOLD
from markdown import Markdown

from pdml import Study, TrainingPlan, errors
from pdml.node.job.job_result import KINDS
from pdml.study.messages import PROBLEMS
from pdml.study.schema import study_file
from pdml.study.schema.study_file import TABLES, keys_of
from pdml.study.schema.validation import ValidationErrors

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SITE = ROOT / "docs" / "_site" / "reference.py"
_spec = importlib.util.spec_from_file_location("site_reference", SITE)
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)

NAMES = [
    (package, name, full)
    for package, names in reference.public_names().items()
    for name, full in names
]
COMMANDS = reference.command_tree()
LEAVES = [name for name, command in COMMANDS if not hasattr(command, "commands")]
CALLED = {call for called in reference.calls().values() for call in called}
CALLS = sorted(
    name
    for name in {*CALLED, *(full for *_, full in NAMES)}
    if inspect.isroutine(resolve_name(name))
)
PAGES = reference.pages()


def untold(call) -> list[str]:
    """What a function takes or returns and its docstring does not say."""
    known = {"self", "cls", *reference.explained(call)}
    signature = inspect.signature(call)
    lacking = [name for name in signature.parameters if name not in known]
    returns = signature.return_annotation not in (None, NoReturn, inspect.Signature.empty)
    result = re.search(r"^Returns\n---", inspect.getdoc(call) or "", flags=re.M)
    return lacking + (["what it returns"] if returns and not result else [])


@pytest.mark.parametrize(("package", "name", "full"), NAMES, ids=lambda value: str(value))
def test_every_public_name_says_what_it_is(package, name, full):
    value = resolve_name(full)
    if inspect.isclass(value) or inspect.isroutine(value):
        said = (inspect.getdoc(value) or "").partition("\n\n")[0]
        own = not said.startswith(f"{value.__name__}(")  # that of a dataclass which has none
        assert own and len(said.split()) > 2, f"{full} has no docstring"
    assert any(f"::: {full}\n" in page for page in PAGES.values())


@pytest.mark.parametrize("call", CALLS)
def test_every_call_says_what_it_takes_and_returns(call):
    assert untold(resolve_name(call)) == [], call


def test_a_parameter_that_nobody_explains_is_noticed():
    def result(a: int, *, b: str = "") -> int:
        """Adds.

        Parameters
        ----------
        a : int
            One.

        Returns
        -------
        int
        """

    assert untold(result) == ["b"]
    result.__doc__ = "Adds."
    assert untold(result) == ["a", "b", "what it returns"]


def test_every_command_is_a_call():
    assert set(reference.calls()) == set(LEAVES)
    assert all(reference.calls().values())
    assert all(f"`{call}`" in PAGES["reference/python.md"] for call in CALLED)


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=lambda value: str(value))
def test_every_command_and_option_says_what_it_does(name, command):
    page = PAGES["reference/commands.md"]
    assert f"{{#{name.replace(' ', '-')}}}" in page
    assert len((command.help or "").split()) > 3, f"{name} has no help"
    if not hasattr(command, "commands"):
        assert re.search(r"Example", command.help), f"{name} --help has no example"
    for parameter in command.params:
        if parameter.param_type_name == "option" and parameter.name != "help":
            assert parameter.help, f"{name} {parameter.opts[0]} has no help"
            assert f"`{parameter.opts[0]}" in page


def test_every_problem_event_and_setting_is_there():
    for code, kind in PROBLEMS.items():
        assert f"| `{code}` | {kind.status} | {kind.title} |" in PAGES["reference/problems.md"]
        assert len(kind.title.split()) > 2, code
    for kind, words in KINDS.items():
        assert f"| `{kind}` | {words} |" in PAGES["reference/problems.md"]
        assert len(words.split()) > 2, kind
    for event in reference.event_classes():
        assert f"## {event.__name__}" in PAGES["reference/events.md"]
        assert all(f"`{field.name}`" in PAGES["reference/events.md"] for field in fields(event))
        assert not event.__doc__.startswith(f"{event.__name__}("), "a dataclass's own docstring"
    for field in fields(TrainingPlan):
        assert f"| `{field.name}` | " in PAGES["reference/study.md"]
        assert len(reference.explained(TrainingPlan)[field.name].split()) > 2, field.name


def test_every_error_problem_and_kind_has_advice():
    troubleshooting = reference.troubleshooting
    known, page = troubleshooting.advice(), PAGES["reference/troubleshooting.md"]
    names = {"errors": troubleshooting.error_classes(), "problems": PROBLEMS, "results": KINDS}
    for part, kinds in names.items():
        assert set(kinds) == set(known[part]), part
        assert all(len(words.split()) > 2 or words == "Nothing." for words in known[part].values())
        assert all(f"| `{name}` |" in page for name in kinds)
    tree = errors.__doc__ or ""
    drawn = set(re.findall(r"(\w+) {2,}", tree)) | {"PDMLError"}
    assert drawn == {k for k, v in names["errors"].items() if v.__module__ == errors.__name__} - {
        *troubleshooting.WARNINGS
    }
    sentences = troubleshooting.sentences()
    assert len(sentences) > 100
    assert [words for kind, words in sentences if not troubleshooting.advice_for(kind, words)] == []
    texts = [words for _, words in sentences]
    for pattern in known["sentences"]:
        assert any(re.search(pattern, words) for words in texts), pattern


class Remembering(ValidationErrors):
    """What is asked of each table, by its name in `TABLES`."""

    asked: ClassVar[dict[str, set[str]]] = {}

    def table(self, path, value, required, optional=()):
        name = ".".join(part for part in path if isinstance(part, str))
        self.asked.setdefault(name, set()).update(required, optional)
        return super().table(path, value, required, optional)


def test_every_setting_of_a_study_is_explained(monkeypatch):
    """Whatever the rules look for in a file stands in the reference, and nothing else does."""
    monkeypatch.setattr(study_file, "ValidationErrors", Remembering)
    document = tomllib.loads(TEXT + TOLD) | {"relay": {"address": "relay.example:4222"}}
    document["budget"] |= {"labels": {"epsilon": 0.1}}
    document |= {"encoder": {"version": 1}, "maps": [{"map": "squares"}]}
    texts = {"notice": {}, "consent": {}, "attributes": [{"name": "age"}]}
    document |= {"languages": [{"code": "de"} | texts]}
    study_file.read(document, Study)
    tables = {name: keys_of(name, Study) for name in ("", *TABLES)}
    assert Remembering.asked == {name: set(keys) for name, keys in tables.items()}
    assert set(tables.pop("plan")) == set(study_file.SETTINGS)
    for keys in tables.values():
        for name, key in keys.items():
            assert len(key.help.split()) > 1 or key.help == "HOST:PORT.", name
            assert f"| `{name}` | {key.help} |" in PAGES["reference/study.md"]


@pytest.mark.parametrize(
    "foreign",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        "<iframe src='http://a.example'></iframe>",
        "<style>@import 'https://a.example/x.css';</style>",
        "<style>b { background: url(https://a.example/x.png) }</style>",
    ],
)
def test_a_page_that_loads_from_elsewhere_is_refused(foreign):
    own = '<link href="a.css"><script src="../b.js"></script><a href="https://nats.io">a link</a>'
    assert reference.loaded_from_elsewhere(own) == []
    assert len(reference.loaded_from_elsewhere(own + foreign)) == 1


OPTIONS = {
    name: {opt for parameter in command.params for opt in parameter.opts + parameter.secondary_opts}
    for name, command in COMMANDS
}
OPTIONS["pdml train"] |= OPTIONS["pdml train people.csv"] | OPTIONS["pdml train study.toml"]
OPTIONS["pdml contribute"] |= OPTIONS["pdml contribute study.toml"]


def unknown(text: str) -> list[str]:
    """Commands and options in code that the command line does not have."""
    code = "\n".join(
        re.findall(r"```.*?```|`pdml [^`]*`|^    pdml [^\n]*", text, flags=re.M | re.S)
    )
    found = []
    for line in re.findall(r"(?<!from )\bpdml [a-z][^`|;&#)\n]*", code.replace("\\\n", " ")):
        words, name = line.split(), "pdml"
        while (
            len(words) > name.count(" ") + 1 and f"{name} {words[name.count(' ') + 1]}" in OPTIONS
        ):
            name += f" {words[name.count(' ') + 1]}"
        given = {word.partition("=")[0].strip("[],.:") for word in words if word.startswith("--")}
        if name == "pdml" or given - OPTIONS[name] - {"--help"}:
            found.append(line)
    return found


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_options_that_the_docs_name_exist(page):
    assert unknown(page.read_text(encoding="utf-8")) == []


def test_a_command_or_option_that_is_gone_is_noticed():
    assert (
        unknown("`pdml verify result --study study.toml`, `pdml train people.csv --label y`") == []
    )
    gone = "`pdml verify result --cluster`, `pdml assess m`\n```sh\npdml node run \\\n    --colour\n```"
    assert len(unknown(gone)) == 3


def test_underscores_of_formulas_survive():
    text = (ROOT / "docs" / "proofs/privacy.md").read_text(encoding="utf-8").split("\n\n")[2]
    shown = Markdown(extensions=[reference.Asterisks()]).convert(text)
    assert text.count("_") == shown.count("_") > 10 and "<strong>Neighbours</strong>" in shown
