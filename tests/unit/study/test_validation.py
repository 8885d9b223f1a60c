"""A key of a study file is declared once: a further field is all that a further key needs."""

import importlib.util
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pytest
from example_study import TEXT, TOLD

from pdml import Study
from pdml.errors import StudyError
from pdml.study import Notice
from pdml.study.schema import study_file, template, validation
from pdml.study.schema.validation import ValidationErrors, key, limited_text

SITE = Path(__file__).parents[3] / "docs" / "_site" / "reference.py"


@dataclass(frozen=True, kw_only=True)
class WiderStudy(Study):
    """One more key in [study], by one more field."""

    country: str = key("Where it is asked.", limited_text(20), table="study", default="")
    __hash__ = Study.__hash__


@dataclass(frozen=True, kw_only=True)
class WiderNotice(Notice):
    """Two more keys in [notice], one of them a text that translations say again."""

    review: datetime | None = key(
        "When it is looked at again.",
        ValidationErrors.time,
        default=None,
        example="2029-01-01T00:00:00Z",
    )
    rights: str = key(
        "What people may ask for.", limited_text(80), default="", translation="The same again."
    )


def reference_page(monkeypatch: pytest.MonkeyPatch) -> str:
    """The settings of a study, as the site has them."""
    spec = importlib.util.spec_from_file_location("site_reference_again", SITE)
    assert spec is not None and spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    monkeypatch.setattr("pdml.study.Study", WiderStudy)
    return str(reference.settings())


def with_line(text: str, after: str, line: str) -> tuple[str, int]:
    """The text with one more line, and its number."""
    before, _, rest = text.partition(f"{after}\n")
    return f"{before}{after}\n{line}\n{rest}", before.count("\n") + 2


def test_a_further_key_of_the_study_is_one_field(monkeypatch: pytest.MonkeyPatch) -> None:
    text, line = with_line(TEXT, "[study]", 'country = "NL"')
    study = WiderStudy.from_text(text)
    assert study.country == "NL"
    # canonical form and hash
    assert study.to_dict()["study"]["country"] == "NL"
    assert study.hash != replace(study, country="BE").hash
    assert WiderStudy.from_canonical(study.canonical()) == study
    assert WiderStudy.from_text(TEXT).hash == Study.from_text(TEXT).hash  # left out, no trace
    # mistakes with their line, and what was meant
    for value, sentence in (("3", "study.country must be text in quotes, got 3"),):
        wrong = text.replace('"NL"', value)
        with pytest.raises(StudyError) as caught:
            WiderStudy.from_text(wrong)
        assert caught.value.mistakes == ((line, sentence),)
    with pytest.raises(StudyError) as caught:
        WiderStudy.from_text(text.replace("country", "contry"))
    assert caught.value.mistakes == ((line, "study.contry is unknown: did you mean 'country'?"),)
    with pytest.raises(StudyError, match=r"study\.country is unknown"):
        Study.from_text(text)
    # the file that `pdml study new` writes, and the reference
    for written in (template.render(study), template.plain(study)):
        assert 'country = "NL"\n' in written and WiderStudy.from_text(written) == study
    assert "| `country` | Where it is asked. |  |" in reference_page(monkeypatch)


def test_a_further_key_of_the_notice_is_one_field(monkeypatch: pytest.MonkeyPatch) -> None:
    wider = replace(study_file.TABLES["notice"], record=WiderNotice)
    monkeypatch.setitem(study_file.TABLES, "notice", wider)
    text, line = with_line(TEXT + TOLD, "[notice]", "review = 2028-01-01T12:00:00+01:00")
    study = Study.from_text(text)
    assert isinstance(study.notice, WiderNotice)
    assert study.to_dict()["notice"]["review"] == "2028-01-01T11:00:00Z"
    assert study.hash != Study.from_text(TEXT + TOLD).hash
    assert "review = 2028-01-01T11:00:00Z\n" in template.render(study)
    assert "# review = 2029-01-01T00:00:00Z\n" in template.render(Study.from_text(TEXT))
    with pytest.raises(StudyError) as caught:
        Study.from_text(text.replace("2028-01-01T12:00:00+01:00", "2028-01-01"))
    ((place, sentence),) = caught.value.mistakes
    assert place == line and sentence.startswith("notice.review must be a time with its zone")
    page = reference_page(monkeypatch)
    assert "| `review` | When it is looked at again. |  |" in page
    # a text is asked of translations, too
    assert "| `rights` | The same again. |  |" in page
    with_rights, _ = with_line(text, "[notice]", 'rights = "All."')
    assert Study.from_text(with_rights).texts().notice["rights"] == "All."


def test_what_is_read_is_what_is_written() -> None:
    """Every declared key of a record is read back from its plain form."""
    study = Study.from_text(TEXT + TOLD)
    for record in (study.organiser, study.notice, study.consent, *study.servers):
        keys = validation.declared_keys(type(record))
        errors = ValidationErrors()
        table = validation.read_table(errors, ("x",), validation.plain(record), keys)
        assert errors.mistakes == []
        assert type(record)(**validation.as_fields(type(record), table)) == record
