"""A result that an earlier version made, elsewhere: it is read and checked as ever."""

from pathlib import Path
from shutil import copytree

import pytest
from results import sentences, verified

from pdml.node.job.job_result import RESULT

VECTORS = Path(__file__).parents[2] / "vectors"
DIGEST = "a2aa856b5c348ca76a398f51508c638c317e05d61294db1519ab3257a8e9fe6b"


def test_what_was_made_before_is_accepted_to_the_byte():
    """If pages or models changed: tests/vectors/make_result.py says what to do."""
    assert sentences(VECTORS / "result-1") == ""
    verification = verified(VECTORS / "result-1")
    assert (verification.job, verification.rounds, len(verification.servers)) == ("second", 3, 4)
    assert verification.study == DIGEST
    assert verification.unchecked == () == tuple(verification.to_dict()["unchecked"])


@pytest.mark.parametrize("allow_unchecked", [False, True])
def test_the_name_of_another_form_admits_no_page(tmp_path, allow_unchecked):
    folder = copytree(VECTORS / "result-1", tmp_path / "result")
    model, page = folder / "model.json", folder / "report.html"
    model.write_text(model.read_text().replace(RESULT, "pdml-result/2"))
    page.write_text("All is well.")
    verification = verified(folder, allow_unchecked=allow_unchecked)
    text = "; ".join(problem.sentence for problem in verification.problems)
    assert "model.json is not what the statements give: it has version 2 of the format" in text
    assert "report.html is not what the statements give: it was changed" in text
