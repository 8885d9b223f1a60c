"""The short form of torture: the real service is killed under load and comes back."""

import pytest
from torture import FAULTS, torture


@pytest.mark.slow
def test_fifty_kills_lose_nothing_and_count_nothing_twice(tmp_path):
    result = torture(tmp_path, kills=50, seed=7)
    faults = {what: result.pop(what) for what in FAULTS}
    assert not any(faults.values()), faults
    assert result["kills"] == 50 and result["acknowledged"] == result["sent"] > 500 and result["withdrawn"] > 30


@pytest.mark.slow
def test_kills_in_front_of_postgresql(tmp_path, postgres_database):
    result = torture(tmp_path, kills=5, seed=8, database=postgres_database)
    faults = {what: result.pop(what) for what in FAULTS}
    assert not any(faults.values()), faults
    assert result["acknowledged"] == result["sent"] > 50
