"""Types shared by the numerical modules."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
"""A real floating array, float32 or float64."""
