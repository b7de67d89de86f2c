"""Solvers: pure functions from an objective and a start to a `SolverResult`. No solver sees an estimator."""

from collections.abc import Callable

from kernmend.solvers.admm import Block, solve_admm, solve_rows
from kernmend.solvers.alternating import solve_alternating, solve_parallel
from kernmend.solvers.fista import solve_fista
from kernmend.solvers.preimage import solve_preimage
from kernmend.solvers.reduced import solve_reduced
from kernmend.solvers.result import Callback, IterationRecord, SolverResult, StopReason
from kernmend.solvers.subspace import solve_fixed_subspace, solve_subspace

SOLVERS: dict[str, Callable[..., SolverResult]] = {
    "reduced": solve_reduced,
    "alternating": solve_alternating,
    "alternating-parallel": solve_parallel,
}
"""Those of the joint model, by the names that `solver=` accepts."""

__all__ = [
    "SOLVERS",
    "Block",
    "Callback",
    "IterationRecord",
    "SolverResult",
    "StopReason",
    "solve_admm",
    "solve_alternating",
    "solve_fista",
    "solve_fixed_subspace",
    "solve_parallel",
    "solve_preimage",
    "solve_reduced",
    "solve_rows",
    "solve_subspace",
]
