"""How many threads the linear algebra takes."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

# Number of entries up to which a matrix is small: its product with one of `THIN` columns takes milliseconds.
_SMALL = 2_000_000
# Number of columns of a thin matrix.
THIN = 50


def few_threads(n_entries: int) -> AbstractContextManager[Any]:
    """Return a context with one BLAS thread for loops over small matrices, and one without effect for others.

    A second thread saves little there, and where other processes use the cores, the threads wait for each other at
    every call: on 2 busy cores a Robust PCA of 500×500 took 20 s with two threads and 0.2 s with one.
    """
    return _controller().limit(limits=1, user_api="blas") if n_entries <= _SMALL else nullcontext()


@cache
def _controller() -> Any:
    """Return the controller of the thread pools, made once, since finding the pools takes milliseconds."""
    return ThreadpoolController()
