"""Independent jobs: the same results in this process and in several."""

import pytest

from pdml.errors import InvalidInput
from pdml.research.processes import run_parallel


@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_progress_is_told_and_order_is_kept(jobs):
    result = []
    found = run_parallel(
        divmod, [(k, 3) for k in range(8)], jobs, lambda done, of: result.append((done, of))
    )
    assert found == [divmod(k, 3) for k in range(8)]
    assert result[0] == (0, 8) and result[-1] == (8, 8) and result == sorted(result)


def _refuse(k):
    raise InvalidInput(f"{k} is refused")


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_job_refuses_reads_as_it_was_said(jobs):
    with pytest.raises(InvalidInput, match=r"^[01] is refused$"):
        run_parallel(_refuse, [(0,), (1,)], jobs)


def test_nothing_to_do_is_done():
    assert run_parallel(divmod, [], 4) == []
