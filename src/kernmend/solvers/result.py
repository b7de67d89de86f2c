"""What every solver returns: the recovered data, the history of its iterations and why it stopped."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.model.terms import Parts

logger = logging.getLogger("kernmend")

StopReason: TypeAlias = Literal["converged", "max_iter", "stalled", "interrupted"]
"""`converged`: the objective no longer falls by more than the tolerance, or the residuals are below it. `max_iter`: the
budget is used up. `stalled`: no step lowers the objective any more, though the tolerance is not met: rounding.
`interrupted`: Ctrl-C."""


@dataclass(frozen=True)
class IterationRecord:
    """One iteration: the objective, its three parts, the rank of B, the length of the step, seconds since the start.

    `residual` is by how much the conditions of a minimum are violated, relative; nan where the solver does not know it.
    """

    iteration: int
    objective: float
    low_rank: float
    error: float
    gram: float
    rank: int
    step: float
    seconds: float
    residual: float = float("nan")


Callback: TypeAlias = Callable[[IterationRecord], None]


@dataclass(frozen=True)
class SolverResult:
    """The recovered data, one record per iteration (the start is record 0) and why the solver stopped."""

    A: Array
    history: list[IterationRecord]
    stop_reason: StopReason

    @property
    def objective(self) -> NDArray[np.float64]:
        """F after each iteration, the start included."""
        return np.array([record.objective for record in self.history])

    @property
    def n_iter(self) -> int:
        """Number of iterations done."""
        return len(self.history) - 1

    @property
    def rank(self) -> int:
        """Number of eigenvalues above the cut-off at the end."""
        return self.history[-1].rank


@dataclass
class History:
    """Collects the records of one run, tells the callback, and judges convergence."""

    tol: float
    callback: Callback | None = None
    window: int = 10
    records: list[IterationRecord] = field(default_factory=list)
    _start: float = field(default_factory=time.perf_counter)

    def add(self, parts: Parts, step: float, residual: float = float("nan")) -> None:
        """Store one iteration and pass its record to the log and the callback."""
        record = IterationRecord(
            iteration=len(self.records),
            objective=parts.total,
            low_rank=parts.low_rank,
            error=parts.error,
            gram=parts.gram,
            rank=parts.rank,
            step=step,
            seconds=time.perf_counter() - self._start,
            residual=residual,
        )
        self.records.append(record)
        logger.debug("%s", record)
        if self.callback is not None:
            self.callback(record)

    @property
    def converged(self) -> bool:
        """Whether the last `window` iterations together lowered the objective by less than `tol` of its value."""
        if len(self.records) <= self.window:
            return False
        before, now = self.records[-1 - self.window].objective, self.records[-1].objective
        return before - now <= self.tol * max(abs(now), np.finfo(float).tiny)
