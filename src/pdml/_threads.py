"""Linear algebra in one thread: the same bits on every machine, and no threads that wait for one
another where matrices are small or cores are taken.
"""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


def single_thread() -> AbstractContextManager[object]:
    """A context in which BLAS and OpenMP compute with one thread; afterwards as before.

    To look for their libraries takes 3 ms of processor time, a tenth of an exchange of sums: it is
    done again only when a module was imported, because libraries come with modules.
    """
    limited: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1)
    return limited


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    return ThreadpoolController()
