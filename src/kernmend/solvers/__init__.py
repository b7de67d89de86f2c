"""Solvers: pure functions from an objective and a start to a `SolverResult`. No solver sees an estimator."""

from kernmend.solvers._result import Callback, IterationRecord, SolverResult, StopReason
from kernmend.solvers.admm import Block, solve_admm, solve_rows
from kernmend.solvers.alternating import solve_alternating, solve_parallel
from kernmend.solvers.reduced import solve_reduced

__all__ = [
    "Block",
    "Callback",
    "IterationRecord",
    "SolverResult",
    "StopReason",
    "solve_admm",
    "solve_alternating",
    "solve_parallel",
    "solve_reduced",
    "solve_rows",
]
