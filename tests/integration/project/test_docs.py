"""The docs stay true: their Python runs, their links lead somewhere, what they name exists."""

import ast
import re
import runpy
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
import pytest
from federation import NAMES, freeze, study_of

from pdml.research.baselines import task
from pdml.research.datasets import catalogue
from pdml.study import Study, messages
from pdml.study.schema import template
from pdml.training import sums_release

ROOT = Path(__file__).parents[3]
SOURCES = {".py", ".js", ".html", ".j2", ".toml", ".yaml", ".service", ".env"}
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_readme_s_lines_run(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    study = study_of()
    (tmp_path / "study.toml").write_text(template.render(study))
    (tmp_path / "data").mkdir()
    for name in NAMES:
        freeze(study, name, tmp_path / "data" / name)
    monkeypatch.chdir(tmp_path)
    assert len(blocks) == 2
    for code in blocks:
        (tmp_path / "lines.py").write_text(code)
        runpy.run_path("lines.py")
    shown = capsys.readouterr().out
    assert float(re.findall(r"accuracy (0\.\d+)", shown)[0]) > 0.95
    assert shown.count("all other servers together") == 2 and "at most" in shown
    assert (tmp_path / "model.json").exists() and (tmp_path / "study-model.json").exists()


def without_code(text: str) -> str:
    return re.sub(r"^ *```.*?```", "", text, flags=re.M | re.S)


def prose_blocks(text: str) -> list[str]:
    """Paragraphs and list items; no code, tables, headings or HTML."""
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\. ))", without_code(text))
    prose = [block for block in blocks if not re.match(r"\s*[|#<]|\n*    ", block)]
    return [block for block in prose if block.strip()]


def words(page: Path) -> int:
    """All words of a page but those in blocks of code."""
    return len(re.sub(r"[|]|-{3,}", " ", without_code(page.read_text())).split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_block_of_prose_is_above_a_hundred_words(page):
    assert len(prose_blocks("one\n\n    code\n\n- two\n- three\n")) == 3
    lengths = {block.strip()[:60]: len(block.split()) for block in prose_blocks(page.read_text())}
    assert {block: length for block, length in lengths.items() if length > 100} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_of_prose_end_at_a_hundred_characters(page):
    """Tables have a row in one line, and a link or a command has no place to break."""
    lines = without_code(page.read_text()).splitlines()
    prose = [line for line in lines if not re.match(r"\s*[|<!]|    ", line)]
    assert [line for line in prose if len(line) > 100 and " " in line[:100].strip()] == []


def test_the_docs_are_short(capsys):
    """25,000 words to read before the proofs, blocks of about 25; CI shows the figures."""
    docs = {page: page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    front = [page for page, name in docs.items() if name.parts[0] in ("guide", "concepts")]
    others = [page for page, name in docs.items() if name.parts[0] not in ("proofs", "evaluation")]
    blocks = [len(block.split()) for page in others for block in prose_blocks(page.read_text())]
    first = sum(map(words, [ROOT / "README.md", *front]))
    whole = sum(map(words, [*ROOT.glob("*.md"), *others]))
    readme = len((ROOT / "README.md").read_text().split())
    with capsys.disabled():
        print(
            f"\nREADME {readme} words; with guide and concepts {first:,}; outside proofs and "
            f"evaluation {whole:,}; blocks of prose: median {median(blocks):g}, longest {max(blocks)}"
        )
    assert readme <= 900 and first <= 25_000 and whole <= 40_000
    assert median(blocks) <= 30


def terms(text: str) -> dict[str, str]:
    """The code's name for each term of the glossary; "" where it has none."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|[^|]*\|([^|]*)\|", text, flags=re.M)
    return {term: name.strip().strip("`") for term, name in rows}


@cache
def code_names() -> set[str]:
    """Classes and functions of the package, and members of classes behind their class's name."""
    names = set()
    for file in (ROOT / "src" / "pdml").rglob("*.py"):
        if {"audit", "research"} & set(file.parts):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            for part in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    names.add(f"{node.name}.{part.name}")
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    names.add(f"{node.name}.{part.target.id}")
    return names


VOCABULARY = """
    randomised response, local differential privacy, sufficient statistics, rounds, clipped,
    organisation, server, node, report, statement, privacy statement, DPIA, residual risk,
    controller, data subject, job terms, participant, training data, coordinator, admission,
    control database, operator, local model, secure aggregation by pairwise masks, ledger row,
    adversary, synthetic populations, utility forecast, suggestions, μ-GDP, de-biased label, ADMM,
    objective noise, iterate noise, colluding, wave, majority-class baseline
"""


def test_the_glossary_has_every_word_of_the_vocabulary():
    glossary = terms((ROOT / "docs" / "glossary.md").read_text())
    known = {term.partition(" (")[0] for term in glossary}
    assert {" ".join(term.split()) for term in VOCABULARY.split(",")} <= known
    assert 50 <= len(glossary) <= 90


def test_the_names_of_the_glossary_are_those_of_the_code():
    glossary = terms((ROOT / "docs" / "glossary.md").read_text())
    assert {name for name in glossary.values() if name} - code_names() == set()
    assert "Ledger.rows" in code_names() and "Ledger.said" not in code_names()


def test_the_architecture_fits_two_screens_and_names_functions_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert text.count("\n") <= 110
    ways = text.partition("## From a report")[2].partition("## Rules of the map")[0]
    names = set(re.findall(r"`([A-Za-z_]+(?:\.[a-z_]+)?)`", ways))
    assert len(names) > 25 and names - code_names() - {"report.html", "model.json"} == set()


def test_pages_that_the_code_names_exist():
    folders = [ROOT / name for name in ("src", "tests", "benchmarks", "examples", "deploy")]
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix in SOURCES]
    named = {
        (page, file.name)
        for file in [*files, ROOT / "Makefile", ROOT / "pyproject.toml"]
        for page in re.findall(r"docs/[\w/-]+\.md", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 40
    generated = {"docs/reference/study.md"}
    assert {(p, f) for p, f in named if p not in generated and not (ROOT / p).exists()} == set()


def test_the_sizes_of_the_threat_model_are_those_of_the_code():
    (example, *_) = re.findall(
        r"```toml\n(.*?)```", (ROOT / "docs/guide/study.md").read_text(), flags=re.S
    )
    study = Study.from_text(example)
    sizes: dict[str, list[int]] = {}
    for width in (study.encoder.n_features, 105):
        digits = {"study": study.hash, "id": "0" * 32}
        report = messages.Report(
            version=messages.FORMAT.version,
            nonce="0" * 32,
            epsilon=1_000_000,
            label=0,
            features=messages.pack_features(np.ones(width, np.float32)),
            token="0" * 32,
            consent="0" * 64,
            consent_version=study.consent.version,
            **digits,
        )
        receipt = messages.Receipt(server="alice", digest="0" * 64, hour="2026-03-01T14Z", **digits)
        for name, size in {
            "report": len(messages.encode_report(report)),
            "receipt": len(msgspec.json.encode(receipt)),
            "frozen data set, each record": 4 * width + 4 + 8,
            "release of a round, two classes": 8 * width,
            "row of sums, two classes": 8 * sums_release.length(1, width),
        }.items():
            sizes.setdefault(name, []).append(size)
    page = (ROOT / "docs/concepts/threat-model.md").read_text()
    assert f"| d = {study.encoder.n_features} | d = 105 |" in page
    rows = re.findall(r"^\| (.+?) \|.*?\| ([\d,]+) \| ([\d,]+) \|$", page, flags=re.M)
    result = {name: [int(size.replace(",", "")) for size in two] for name, *two in rows}
    assert result == sizes


def test_the_ten_lines_of_the_site_run(capsys):
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/guide/data-scientist.md").read_text(), flags=re.S
    )
    exec(code, {})
    shown = capsys.readouterr().out
    assert float(re.findall(r"accuracy (0\.\d+)", shown)[0]) > 0.95 and "features" in shown


def test_every_block_of_extending_runs(capsys, monkeypatch):
    """What it registers is gone afterwards."""
    for name in (
        "audit.ATTACKS",
        "accounting.objective_loss.HIDES",
        "mechanisms.objective_noise.FAMILIES",
        "numerics.admm.graph.TOPOLOGIES",
        "numerics.admm.losses.BINARY",
        "research.baselines.BASELINES",
        "research.datasets.catalogue.DATASETS",
    ):
        module, registry = f"pdml.{name}".rsplit(".", 1)
        monkeypatch.setattr(f"{module}.{registry}", copy(getattr(import_module(module), registry)))
    # modules that hold the data sets under a name of their own
    monkeypatch.setattr(task, "DATASETS", catalogue.DATASETS)
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/guide/extending.md").read_text(), flags=re.S
    )
    names = {}
    for code in blocks:
        exec(code, names)
    shown = capsys.readouterr().out
    assert float(re.findall(r"accuracy (0\.\d+)", shown)[0]) > 0.8
    assert float(re.findall(r"centroids (\d+\.\d)", shown)[0]) > 90
    assert names["model"].model_.plan["loss"] == "cosh" and len(blocks) == 7


@pytest.mark.parametrize("name", ["concepts/guarantees.md", "guide/participant.md", "index.md"])
def test_what_is_for_everybody_has_no_greek_letter(name):
    assert re.findall(r"[\u0370-\u03ff\u1f00-\u1fff]", (ROOT / "docs" / name).read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_stars_of_formulas_are_no_emphasis(page):
    """Two w* in one line would be read as the ends of something important."""
    prose = re.sub(r"```.*?```|`[^`]*`|^    .*$", "", page.read_text(), flags=re.M | re.S)
    assert (
        re.findall(r"\w[\u0300-\u036f]?\*[)‖|²·= ,;+][^*\n]*\w[\u0300-\u036f]?\*[)‖|²· ,:-]", prose)
        == []
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        file = (page.parent / target).resolve()
        made = file.parent == ROOT / "docs" / "reference"  # by `make docs`, which is strict
        if "://" not in target and not made:
            assert file.exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_make_targets_and_tests_named_in_the_docs_exist(page):
    text = page.read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z-]+)", text):
        assert re.search(rf"^{target}:", makefile, flags=re.M), f"{page.name} names make {target}"
    for path in re.findall(r"`(tests/[\w/]+\.py)`", text):
        assert (ROOT / path).exists(), f"{page.name} names {path}"


CODE = [file for part in ("src", "tests", "benchmarks") for file in (ROOT / part).rglob("*.*")]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_files_of_the_code_named_in_the_docs_exist(page):
    """By their name, or the end of their path; with a test, they define it."""
    named = re.findall(r"`([\w/]+\.(?:py|js))(?:::(\w+))?`", page.read_text())
    for path, test in named:
        files = [file for file in CODE if file.as_posix().endswith(f"/{path}")]
        assert files, f"{page.name} names {path}"
        assert not test or any(f"def {test}(" in file.read_text() for file in files), test
