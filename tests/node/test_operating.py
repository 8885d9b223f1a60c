"""What an operator decides stands on the desk, once."""

from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from joined import join

from pdml.errors import InvalidInput
from pdml.node import desk, operating
from pdml.node.home import Home
from pdml.node.questions import STOP


@pytest.fixture
def asked(tmp_path: Path) -> Home:
    """A node that is asked about the job "first"."""
    home = join(tmp_path)
    offer = {"contract": "c", "offerer": "bob", "offer": b"", "sentence": ""}
    desk.Desk(home.folder).put(
        desk.Attempt(attempt="a" * 32, job="first", state=desk.ASKED, **offer)
    )
    return home


def test_an_offer_is_answered_once(asked: Home) -> None:
    operating.accept(asked, "first")
    (found,) = operating.offers(asked)
    assert (found.job, found.offerer, found.state) == ("first", "bob", desk.ALLOWED)
    for decide in (operating.accept, operating.refuse):
        with pytest.raises(InvalidInput, match="no offer of a job 'first' waits"):
            decide(asked, "first")


@pytest.mark.parametrize(
    ("why", "told"),
    [("", "its operator refused"), ("not\x1b[2J before\nMonday", "not [2J before Monday")],
)
def test_the_reason_of_a_refusal_is_one_plain_line(asked: Home, why: str, told: str) -> None:
    operating.refuse(asked, "first", why)
    (found,) = operating.offers(asked)
    assert (found.state, found.sentence) == (desk.REFUSED, told)


def test_only_a_job_that_goes_on_is_stopped(asked: Home) -> None:
    assert operating.stop(asked) == "first"
    (wish,) = desk.Desk(asked.folder).take_wishes()
    assert (wish.what, wish.about) == (STOP, "a" * 32)
    operating.refuse(asked, "first")
    with pytest.raises(InvalidInput, match="is in no job"):
        operating.stop(asked)
