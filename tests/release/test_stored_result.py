"""A result that an earlier version made, elsewhere: it is read and checked as ever."""

from pathlib import Path
from shutil import copytree

import pytest
from results import sentences, verified

from pdml.release.consortium import RESULT

VECTORS = Path(__file__).parents[1] / "vectors"
DIGEST = "a2aa856b5c348ca76a398f51508c638c317e05d61294db1519ab3257a8e9fe6b"


@pytest.mark.parametrize(("folder", "unchecked"), [("result", ("report.html",)), ("result-2", ())])
def test_what_was_made_before_is_accepted_to_the_byte(folder, unchecked):
    """If pages or models changed: tests/vectors/make_result.py says what to do."""
    assert sentences(VECTORS / folder) == ""
    found = verified(VECTORS / folder)
    assert (found.job, found.rounds, len(found.servers)) == ("second", 3, 4)
    assert found.study == DIGEST
    assert found.unchecked == unchecked == tuple(found.to_dict()["unchecked"])


def test_only_the_page_of_an_earlier_form_is_left_unchecked(tmp_path):
    """And whoever gives a result an earlier form's name gains no more than that."""
    folder = copytree(VECTORS / "result-2", tmp_path / "result")
    model, page = folder / "model.json", folder / "report.html"
    model.write_text(model.read_text().replace(RESULT, "pdml-result/1"))
    page.write_text("All is well.")
    assert verified(folder).ok and verified(folder).unchecked == ("report.html",)
    text = model.read_text()
    model.write_text(text.replace('"norm_bound": 1.0', '"norm_bound": 2.0'))
    assert "model.json is not what the statements give: it was changed" in sentences(folder)
    model.write_text(text)
    page.unlink()
    assert "report.html cannot be read" in sentences(folder)
