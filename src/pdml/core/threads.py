"""Linear algebra in one thread: where many small matrices would only wait for one another, and
where the same bits are wanted with any number of threads.
"""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """A context in which NumPy and SciPy compute in one thread.

    Returns
    -------
    context manager
    """
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1)
    return limited


@cache
def _libraries() -> Any:
    """Looking for them takes five milliseconds; both are loaded by now, and no other is meant."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
