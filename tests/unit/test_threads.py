"""Linear algebra in one thread, whatever was allowed before."""

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from pdml._threads import single_thread


def blas_threads() -> set[int]:
    assert np.linalg  # whose libraries are asked
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_tests_themselves_run_in_one_thread() -> None:
    assert blas_threads() == {1}


def test_one_thread_inside_and_as_many_as_before_afterwards() -> None:
    with threadpool_limits(2):
        assert blas_threads() == {2}
        with single_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {2}
