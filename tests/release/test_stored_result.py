"""A result that an earlier version made, elsewhere: it is read and checked as ever."""

from pathlib import Path

from results import sentences, verified

STORED = Path(__file__).parents[1] / "vectors" / "result"


def test_what_was_made_before_is_accepted_to_the_byte():
    """If pages or models changed: tests/vectors/make_result.py says what to do."""
    assert sentences(STORED) == ""
    found = verified(STORED)
    assert (found.job, found.rounds, len(found.servers)) == ("second", 3, 4)
    digest = "a2aa856b5c348ca76a398f51508c638c317e05d61294db1519ab3257a8e9fe6b"
    assert found.study == digest
