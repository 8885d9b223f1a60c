"""What people are told before they are asked: read with every mistake, part of the hash, and asked
for before anybody is.
"""

import hashlib
import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from example_study import ASKING, STUDY, TEXT, TOLD

from pdml.encoding.encoder import Category, Encoder, Number
from pdml.errors import InvalidInput, MissingNotice, StudyError
from pdml.study import Study, participant_notice
from pdml.study.schema.template import plain, render
from pdml.study.study_summary import examine

CONSENT = "I have read the notice, and I agree that my answers are used for this study."


def test_what_the_tables_say() -> None:
    study = Study.from_text(TEXT + TOLD)
    assert study.organiser and study.notice and study.consent
    assert study.organiser.for_data_protection == "privacy@hospital.example"
    assert replace(study.organiser, data_protection_contact="").for_data_protection == (
        "study@hospital.example"
    )
    assert study.notice.retention == datetime(2036, 1, 1, tzinfo=UTC)
    assert study.notice.link == "https://hospital.example/notice"
    assert study.consent.digest == hashlib.sha256(CONSENT.encode()).hexdigest()


def test_a_study_without_them_keeps_its_bytes() -> None:
    """The names of the tables leave no trace where nothing is said."""
    assert not any(name.encode() in STUDY.canonical() for name in ("organiser", "notice"))
    assert replace(ASKING, organiser=None, notice=None, consent=None).hash == STUDY.hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1 Long Street", "2 Long Street"),
        ("study@", "studies@"),
        ("privacy@", "data@"),
        ("who is at risk.", "who is ill."),
        ("Your consent.", "The law."),
        ("sees every answer", "sees each answer"),
        ("2036-01-01T01:00:00+01:00", "2036-01-01T01:00:00Z"),
        ("/notice", "/notice-2"),
        ("I have read", "I read"),
        ("2026-03", "2026-04"),
    ],
)
def test_the_hash_sees_whatever_people_are_told(old: str, new: str) -> None:
    assert old in TOLD
    changed = Study.from_text(TEXT + TOLD.replace(old, new))
    assert changed.hash != Study.from_text(TEXT + TOLD).hash
    for text in (plain(changed), render(changed)):
        assert Study.from_text(text) == changed
    assert Study.from_canonical(changed.canonical()) == changed


@pytest.mark.parametrize(
    ("old", "new", "output"),
    [
        ('contact = "study@hospital.example"\n', "", "organiser.contact is missing"),
        ('"City Hospital"', '""', "organiser.name must be text"),
        ("contact =", "kontact =", "did you mean 'contact'"),
        ("2036-01-01T01:00:00+01:00", "2036-01-01", "must be a time with its zone"),
        ("2036-01-01T01:00:00+01:00", "2026-06-01T00:00:00Z", "be later than study.closes"),
        ("https://hospital", "http://hospital", "notice.link must begin with https://"),
        ('"2026-03"', "1", "consent.version must be 1 to 16 letters"),
        ('"2026-03"', '"a\\"b"', "consent.version must be 1 to 16 letters"),
        (f'"{CONSENT}"', '" \\n"', "consent.text must say something"),
        ("[consent]", "[[consent]]", "consent must be a table"),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, output: str) -> None:
    assert old in TOLD
    with pytest.raises(StudyError, match=output.replace(".", r"\.")):
        Study.from_text(TEXT + TOLD.replace(old, new, 1))


@pytest.mark.parametrize("missing", ["organiser", "notice", "consent"])
def test_nobody_is_asked_by_a_study_that_does_not_tell(missing: str) -> None:
    participant_notice.check(ASKING)
    with pytest.raises(MissingNotice, match=rf"has no \[{missing}\], and.*--test") as refused:
        participant_notice.check(replace(ASKING, **{missing: None}))
    assert isinstance(refused.value, InvalidInput) and len(refused.value.reasons) == 1
    again = pickle.loads(pickle.dumps(refused.value))
    assert (again.study, str(again)) == (ASKING.id, str(refused.value))


def test_nobody_is_asked_after_the_end_but_the_study_stays_readable(tmp_path: Path) -> None:
    end = datetime(2036, 1, 1, tzinfo=UTC)
    file = tmp_path / "study.toml"
    file.write_text(render(ASKING))
    before = examine(file, now=end - timedelta(seconds=1))
    assert before.mistakes == ()
    participant_notice.check(ASKING, end - timedelta(seconds=1))
    participant_notice.check(ASKING)  # for whoever verifies or exports
    after = examine(file, now=end)
    ((line, output),) = after.mistakes
    assert file.read_text().splitlines()[line - 1].startswith("retention = 2036")
    assert "is erased at 2036-01-01 00:00 UTC (notice.retention), which has passed" in output
    assert after.study == ASKING and examine(file, now=end, test=True).mistakes == ()
    with pytest.raises(MissingNotice, match="which has passed: nobody may be asked"):
        participant_notice.check(ASKING, end)


def test_the_machine_s_clock_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(TEXT.replace("2026", "2020") + TOLD.replace("2036-01", "2021-01"))
    ((_, output),) = examine(file).mistakes
    assert "which has passed" in output


def test_all_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(TEXT)
    ((line, output),) = examine(file).mistakes
    assert line == 1 and "has no [organiser], [notice], [consent], and people" in output
    assert participant_notice.mistakes(STUDY) == [((), output)]
    assert examine(file, test=True).mistakes == ()
    file.write_text(TEXT + TOLD)
    assert examine(file).mistakes == ()


def test_a_category_with_one_level_is_warned_of(tmp_path: Path) -> None:
    """Where people may leave it out there are two answers."""
    file, one = tmp_path / "study.toml", Category(name="country", levels=("here",))
    for attribute, said in ((one, True), (replace(one, missing="level"), False)):
        encoder = Encoder(attributes=(Number(name="age", low=18, high=100), attribute))
        file.write_text(render(replace(ASKING, encoder=encoder, wording={})))
        output = [text for _, text in examine(file).warnings]
        assert any("“country” has one level: everybody" in text for text in output) == said
