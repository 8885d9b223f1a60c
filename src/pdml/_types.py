"""Names for the shapes that travel between packages."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Matrix = Any  # a 2-D float array or a scipy CSR matrix: see `numerics.admm.rows`
