"""What an operator decides stands in the control database, once, and for the offer that was named."""

import secrets
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from joined import join, people, spend

from pdml.errors import InvalidInput
from pdml.node.job.training_data import import_table
from pdml.node.operator import offers as commands
from pdml.node.operator.status import read_status
from pdml.node.storage import control_db
from pdml.node.storage.control_db import (
    Attempt,
    CommandKind,
    ControlDatabase,
    OfferState,
)
from pdml.node.storage.node_dir import NodeDirectory

ENDED = [
    (who, state)
    for who in ("bob", "mallory")
    for state in (OfferState.DONE, OfferState.FAILED, OfferState.REFUSED)
]


def put(home: NodeDirectory, **changes: Any) -> Attempt:
    """Another offer that waits."""
    drawn = secrets.token_hex(16)
    fields = {"job": "first", "terms": "c", "offerer": "bob", "state": OfferState.PENDING}
    terms = {"attempt": drawn, "offer": drawn.encode(), "sentence": "", **fields, **changes}
    attempt = Attempt(**terms)
    ControlDatabase(home.folder).put(attempt)
    return attempt


@pytest.fixture
def asked(tmp_path: Path) -> NodeDirectory:
    """A node that is asked about the job "first"."""
    home = join(tmp_path)
    put(home, attempt="a" * 32)
    return home


def states(home: NodeDirectory) -> list[tuple[str, str]]:
    return [(each.offerer, each.state) for each in commands.offers(home)]


def test_an_offer_is_answered_once(asked: NodeDirectory) -> None:
    commands.accept(asked, "first")
    (found,) = commands.offers(asked)
    assert (found.job, found.offerer, found.state) == ("first", "bob", OfferState.ALLOWED)
    for decide in (commands.accept, commands.refuse):
        with pytest.raises(InvalidInput, match="no offer of a job 'first' waits"):
            decide(asked, "first")


@pytest.mark.parametrize("decide", [commands.accept, commands.refuse])
@pytest.mark.parametrize("who", ["mallory", "bob"])
def test_a_name_that_two_offers_have_is_refused_and_a_digest_is_not(
    asked: NodeDirectory, decide: Any, who: str
) -> None:
    (bobs,) = commands.offers(asked)
    other = put(asked, offerer=who)
    with pytest.raises(InvalidInput, match="name one by its digest") as refusal:
        decide(asked, "first")
    for each in (bobs, other):
        assert f"{each.digest} is {each.offerer}'s offer of first" in str(refusal.value)
    assert [state for _, state in states(asked)] == [OfferState.PENDING] * 2
    assert decide(asked, bobs.digest[:12]) == bobs
    assert [state for _, state in states(asked)][1] == OfferState.PENDING
    assert decide(asked, "first") == other  # the only one that still waits


def test_a_job_whose_name_is_another_offers_digest_is_no_way_to_be_accepted_for_it(
    asked: NodeDirectory,
) -> None:
    (bobs,) = commands.offers(asked)
    put(asked, offerer="mallory", job=bobs.digest[:12])
    put(asked, offerer="mallory", job=bobs.digest)
    with pytest.raises(InvalidInput, match="name one by its digest"):
        commands.accept(asked, bobs.digest[:12])
    assert commands.accept(asked, bobs.digest) == bobs
    assert states(asked)[0] == ("bob", OfferState.ALLOWED)


def test_a_few_digits_are_no_digest(asked: NodeDirectory) -> None:
    (bobs,) = commands.offers(asked)
    for digits in ("", bobs.digest[:7]):
        with pytest.raises(InvalidInput, match="none with such a digest"):
            commands.accept(asked, digits)


def test_what_was_found_is_decided_and_nothing_in_its_place(asked: NodeDirectory) -> None:
    """Whatever an offerer does between the moment of reading and that of the answer."""
    (bobs,) = commands.offers(asked)
    table = ControlDatabase(asked.folder)
    table._db.change("UPDATE attempts SET offer = ?", (b"other terms",))
    assert not table.decide(bobs, OfferState.ALLOWED)
    assert states(asked) == [("bob", OfferState.PENDING)]


def test_an_offer_that_ended_meanwhile_is_said_to_have(
    asked: NodeDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bobs,) = commands.offers(asked)
    monkeypatch.setattr(commands, "find", lambda home, offer: bobs)
    ControlDatabase(asked.folder).move(bobs.attempt, OfferState.FAILED, "it was not begun in time")
    with pytest.raises(InvalidInput, match="bob's offer of job first waits no more"):
        commands.accept(asked, bobs.digest)
    assert states(asked) == [("bob", OfferState.FAILED)]


def test_who_is_accepted_begins_anew_and_who_is_refused_does_not(asked: NodeDirectory) -> None:
    put(asked, job="second")
    table = ControlDatabase(asked.folder)
    for who, job in (("bob", "may"), ("bob", "june"), ("bob", "june"), ("mallory", "may")):
        table.add_unfinished(who, job)
    commands.refuse(asked, "first")
    assert ControlDatabase(asked.folder).unfinished() == {
        "bob": ["june", "may"],
        "mallory": ["may"],
    }
    commands.accept(asked, "second")
    assert table.unfinished() == {"mallory": ["may"]}
    table.remove_unfinished("may")
    assert table.unfinished() == {}


@pytest.mark.parametrize(
    ("why", "told"),
    [("", "its operator refused"), ("not\x1b[2J before\nMonday", "not [2J before Monday")],
)
def test_the_reason_of_a_refusal_is_one_plain_line(
    asked: NodeDirectory, why: str, told: str
) -> None:
    commands.refuse(asked, "first", why)
    (found,) = commands.offers(asked)
    assert (found.state, found.sentence) == (OfferState.REFUSED, told)


def test_only_a_job_that_goes_on_is_stopped(asked: NodeDirectory) -> None:
    assert commands.stop(asked) == "first"
    (command,) = ControlDatabase(asked.folder).pop_commands()
    assert (command.kind, command.attempt) == (CommandKind.STOP, "a" * 32)
    commands.refuse(asked, "first")
    with pytest.raises(InvalidInput, match="is in no job"):
        commands.stop(asked)


@pytest.mark.parametrize("state", [OfferState.ACCEPTED, OfferState.BEGUN])
def test_the_job_that_a_node_is_in_is_stopped_whatever_waits(
    asked: NodeDirectory, state: str
) -> None:
    put(asked, attempt="b" * 32, job="under-way", state=state)
    put(asked, job="later", offerer="alice", state=OfferState.ALLOWED)
    assert commands.stop(asked) == "under-way"
    assert [command.attempt for command in ControlDatabase(asked.folder).pop_commands()] == [
        "b" * 32
    ]
    assert read_status(asked).attempt.job == "under-way"


def test_a_job_runs_only_while_the_node_is_in_it(tmp_path: Path) -> None:
    home = join(tmp_path)
    import_table(home, people(), label="diagnosed", epsilon=2.0, randomise=True)
    home = NodeDirectory.open(home.folder)
    spend(home)
    attempt = put(home, job="job", state=OfferState.BEGUN)
    states = []
    for state in (OfferState.BEGUN, OfferState.FAILED):
        ControlDatabase(home.folder).move(attempt.attempt, state)
        states += [job["state"] for job in read_status(home).to_dict()["jobs"]]
    assert states == ["running", "stopped"]


def test_nobody_makes_a_node_forget_what_has_ended(
    asked: NodeDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused offers cost their member nothing: a flood of them pushed out all that had ended."""
    monkeypatch.setattr(control_db, "_MOST_ENDED", 3)
    ended = [put(asked, offerer=who, state=state) for who, state in ENDED]
    for state in (OfferState.REFUSED, OfferState.FAILED):
        for _ in range(10):
            put(asked, offerer="mallory", state=state)
    kept = commands.offers(asked)
    of_mallory = [each.state for each in kept if each.offerer == "mallory"]
    assert sorted(of_mallory) == [OfferState.FAILED] * 3 + [OfferState.REFUSED] * 3  # the last ones
    assert [each for each in ended if each.offerer == "bob"] == kept[1:4]
    assert kept[0].state == OfferState.PENDING
    for _ in range(10):
        put(asked, offerer="bob", state=OfferState.REFUSED)
    states_of_bob = [each.state for each in commands.offers(asked) if each.offerer == "bob"]
    assert states_of_bob[:3] == [OfferState.PENDING, OfferState.DONE, OfferState.FAILED]
