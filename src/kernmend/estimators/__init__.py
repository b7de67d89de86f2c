"""Estimators: they validate, build the objective, call a solver and store what it found."""

from kernmend.estimators._kernel_recovery import KernelRecovery

__all__ = ["KernelRecovery"]
