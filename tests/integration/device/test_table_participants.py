"""A table of people by one call."""

from pathlib import Path

import pytest
from recording import Recorder, refusal

from pdml.device.simulated_participants import submit_table
from pdml.errors import InvalidInput, NotDelivered
from pdml.study import Study
from pdml.study.messages import decode_report

ROWS = "".join(f"{18 + i % 80},male,south,yes,1\n" for i in range(120))


@pytest.fixture
def people(tmp_path: Path) -> Path:
    file = tmp_path / "people.csv"
    file.write_text("age,sex,region,ill,eps\n" + ROWS)
    return file


def test_a_crowd_is_sent_once(study: Study, recorder: Recorder, people: Path) -> None:
    heard = []
    how = {"label_column": "ill", "epsilon_column": "eps"}
    first = submit_table(
        study, recorder.url, people, **how, progress=lambda done, of: heard.append((done, of))
    )
    first.check()
    assert (first.rows, first.tally.stored, heard[-1]) == (120, 120, (120, 120))
    reports = [decode_report(line) for body in recorder.bodies for line in body.splitlines()]
    assert {report.epsilon for report in reports} == {1_000_000} and len(reports) == 120
    again = submit_table(study, recorder.url, people, **how)
    assert (again.tally.stored, again.tally.stored_before) == (0, 120)


def test_what_was_refused_is_told_and_kept(study: Study, recorder: Recorder, people: Path) -> None:
    recorder.answer = refusal("closed")
    played = submit_table(study, recorder.url, people, label_column="ill")
    assert played.tally.by_code() == {"closed": 120}
    assert len(played.files["failures"].read_bytes().splitlines()) == 120
    with pytest.raises(NotDelivered, match="120 reports are not stored"):
        played.check()


def test_nothing_is_drawn_for_what_cannot_be_sent(study: Study, people: Path) -> None:
    url = "https://alice.example"
    for place, how in (
        ("http://alice.example", {"label_column": "ill"}),
        (url, {"label_column": ""}),
        (url, {"label_column": "ill", "epsilon_column": "eps", "epsilon": 1.0}),
        (url, {"label_column": "ill", "epsilon": 3.0}),
        (url, {"label_column": "sex"}),
    ):
        with pytest.raises(InvalidInput):
            submit_table(study, place, people, **how)
    assert list(people.parent.iterdir()) == [people]
