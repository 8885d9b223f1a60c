"""The short form of torture: the real service is killed under load and comes back."""

from torture import FAULTS, torture


def test_kills_lose_nothing_and_count_nothing_twice(tmp_path):
    result = torture(tmp_path, kills=12, seed=7)
    faults = {what: result.pop(what) for what in FAULTS}
    assert not any(faults.values()), faults
    assert (
        result["kills"] == 12
        and result["acknowledged"] == result["sent"] > 120
        and result["withdrawn"] > 5
    )


def test_kills_in_front_of_postgresql(tmp_path, postgres_database):
    result = torture(tmp_path, kills=5, seed=8, database=postgres_database)
    faults = {what: result.pop(what) for what in FAULTS}
    assert not any(faults.values()), faults
    assert result["acknowledged"] == result["sent"] > 50
