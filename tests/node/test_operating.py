"""What an operator decides stands on the desk, once, and for the offer that was named."""

import secrets
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from joined import join, people, spend

from pdml.errors import InvalidInput
from pdml.node import desk, operating
from pdml.node.account import look
from pdml.node.home import Home
from pdml.node.importing import import_table
from pdml.node.questions import STOP

ENDED = [
    (who, state) for who in ("bob", "mallory") for state in (desk.DONE, desk.FAILED, desk.REFUSED)
]


def put(home: Home, **changes: Any) -> desk.Attempt:
    """Another offer that waits."""
    drawn = secrets.token_hex(16)
    fields = {"job": "first", "contract": "c", "offerer": "bob", "state": desk.ASKED}
    terms = {"attempt": drawn, "offer": drawn.encode(), "sentence": "", **fields, **changes}
    attempt = desk.Attempt(**terms)
    desk.Desk(home.folder).put(attempt)
    return attempt


@pytest.fixture
def asked(tmp_path: Path) -> Home:
    """A node that is asked about the job "first"."""
    home = join(tmp_path)
    put(home, attempt="a" * 32)
    return home


def states(home: Home) -> list[tuple[str, str]]:
    return [(each.offerer, each.state) for each in operating.offers(home)]


def test_an_offer_is_answered_once(asked: Home) -> None:
    operating.accept(asked, "first")
    (found,) = operating.offers(asked)
    assert (found.job, found.offerer, found.state) == ("first", "bob", desk.ALLOWED)
    for decide in (operating.accept, operating.refuse):
        with pytest.raises(InvalidInput, match="no offer of a job 'first' waits"):
            decide(asked, "first")


@pytest.mark.parametrize("decide", [operating.accept, operating.refuse])
@pytest.mark.parametrize("who", ["mallory", "bob"])
def test_a_name_that_two_offers_have_is_refused_and_a_digest_is_not(
    asked: Home, decide: Any, who: str
) -> None:
    (bobs,) = operating.offers(asked)
    other = put(asked, offerer=who)
    with pytest.raises(InvalidInput, match="name one by its digest") as refusal:
        decide(asked, "first")
    for each in (bobs, other):
        assert f"{each.digest} is {each.offerer}'s offer of first" in str(refusal.value)
    assert [state for _, state in states(asked)] == [desk.ASKED] * 2
    assert decide(asked, bobs.digest[:12]) == bobs
    assert [state for _, state in states(asked)][1] == desk.ASKED
    assert decide(asked, "first") == other  # the only one that still waits


def test_a_job_whose_name_is_another_offers_digest_is_no_way_to_be_accepted_for_it(
    asked: Home,
) -> None:
    (bobs,) = operating.offers(asked)
    put(asked, offerer="mallory", job=bobs.digest[:12])
    put(asked, offerer="mallory", job=bobs.digest)
    with pytest.raises(InvalidInput, match="name one by its digest"):
        operating.accept(asked, bobs.digest[:12])
    assert operating.accept(asked, bobs.digest) == bobs
    assert states(asked)[0] == ("bob", desk.ALLOWED)


def test_a_few_digits_are_no_digest(asked: Home) -> None:
    (bobs,) = operating.offers(asked)
    for digits in ("", bobs.digest[:7]):
        with pytest.raises(InvalidInput, match="none with such a digest"):
            operating.accept(asked, digits)


def test_what_was_found_is_decided_and_nothing_in_its_place(asked: Home) -> None:
    """Whatever an offerer does between the moment of reading and that of the answer."""
    (bobs,) = operating.offers(asked)
    table = desk.Desk(asked.folder)
    table._db.change("UPDATE attempts SET offer = ?", (b"other terms",))
    assert not table.decide(bobs, desk.ALLOWED)
    assert states(asked) == [("bob", desk.ASKED)]


def test_an_offer_that_ended_meanwhile_is_said_to_have(
    asked: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bobs,) = operating.offers(asked)
    monkeypatch.setattr(operating, "find", lambda home, offer: bobs)
    desk.Desk(asked.folder).move(bobs.attempt, desk.FAILED, "it was not begun in time")
    with pytest.raises(InvalidInput, match="bob's offer of job first waits no more"):
        operating.accept(asked, bobs.digest)
    assert states(asked) == [("bob", desk.FAILED)]


def test_who_is_accepted_begins_anew_and_who_is_refused_does_not(asked: Home) -> None:
    put(asked, job="second")
    table = desk.Desk(asked.folder)
    for who, job in (("bob", "may"), ("bob", "june"), ("bob", "june"), ("mallory", "may")):
        table.add_unfinished(who, job)
    operating.refuse(asked, "first")
    assert desk.Desk(asked.folder).unfinished() == {"bob": ["june", "may"], "mallory": ["may"]}
    operating.accept(asked, "second")
    assert table.unfinished() == {"mallory": ["may"]}
    table.remove_unfinished("may")
    assert table.unfinished() == {}


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


@pytest.mark.parametrize("state", [desk.ACCEPTED, desk.BEGUN])
def test_the_job_that_a_node_is_in_is_stopped_whatever_waits(asked: Home, state: str) -> None:
    put(asked, attempt="b" * 32, job="under-way", state=state)
    put(asked, job="later", offerer="alice", state=desk.ALLOWED)
    assert operating.stop(asked) == "under-way"
    assert [wish.about for wish in desk.Desk(asked.folder).take_wishes()] == ["b" * 32]
    assert look(asked).attempt.job == "under-way"


def test_a_job_runs_only_while_the_node_is_in_it(tmp_path: Path) -> None:
    home = join(tmp_path)
    import_table(home, people(), label="diagnosed", epsilon=2.0, randomise=True)
    home = Home.open(home.folder)
    spend(home)
    attempt = put(home, job="job", state=desk.BEGUN)
    states = []
    for state in (desk.BEGUN, desk.FAILED):
        desk.Desk(home.folder).move(attempt.attempt, state)
        states += [job["state"] for job in look(home).to_dict()["jobs"]]
    assert states == ["running", "stopped"]


def test_nobody_makes_a_node_forget_what_has_ended(
    asked: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused offers cost their member nothing: a flood of them pushed out all that had ended."""
    monkeypatch.setattr(desk, "_KEPT", 3)
    ended = [put(asked, offerer=who, state=state) for who, state in ENDED]
    for state in (desk.REFUSED, desk.FAILED):
        for _ in range(10):
            put(asked, offerer="mallory", state=state)
    kept = operating.offers(asked)
    of_mallory = [each.state for each in kept if each.offerer == "mallory"]
    assert sorted(of_mallory) == [desk.FAILED] * 3 + [desk.REFUSED] * 3  # the last ones
    assert [each for each in ended if each.offerer == "bob"] == kept[1:4]
    assert kept[0].state == desk.ASKED
    for _ in range(10):
        put(asked, offerer="bob", state=desk.REFUSED)
    states_of_bob = [each.state for each in operating.offers(asked) if each.offerer == "bob"]
    assert states_of_bob[:3] == [desk.ASKED, desk.DONE, desk.FAILED]
