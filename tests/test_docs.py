"""The docs stay true: their Python runs, their links lead somewhere, what they name exists."""

import re
import runpy
from pathlib import Path

import pytest
from federation import NAMES, freeze, study_of

from pdml.study.schema import template

ROOT = Path(__file__).parents[1]
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


def prose_blocks(text: str) -> list[str]:
    """Paragraphs and list items; no code, tables, headings or HTML."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    blocks = re.split(r"\n\s*\n|\n(?=\s*[-*|#\d])", text)
    return [block for block in blocks if not re.match(r"\s*[|#<]|\n*    ", block)]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name
)
def test_no_block_of_prose_is_above_a_hundred_words(page):
    assert len(prose_blocks("one\n\n    code\n\n- two\n- three\n")) == 3
    long = [
        block.strip()[:60] for block in prose_blocks(page.read_text()) if len(block.split()) > 100
    ]
    assert long == []


def test_the_ten_lines_of_the_site_run(capsys):
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/guide/data-scientist.md").read_text(), flags=re.S
    )
    exec(code, {})
    shown = capsys.readouterr().out
    assert float(re.findall(r"accuracy (0\.\d+)", shown)[0]) > 0.95 and "features" in shown


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
        if "://" not in target and "reference/" not in target:  # made by `make docs`, strictly
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_make_targets_and_tests_named_in_the_docs_exist(page):
    text = page.read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z-]+)", text):
        assert re.search(rf"^{target}:", makefile, flags=re.M), f"{page.name} names make {target}"
    for path in re.findall(r"`(tests/[\w/]+\.py)`", text):
        assert (ROOT / path).exists(), f"{page.name} names {path}"
