"""Error models: what it costs to move a sample.

An error model knows the observed data. `evaluate(A)` gives the value of E(A; X) and its gradient, `evaluate_rows(A)` row by row.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kernmend._typing import Array
from kernmend.kernels import Kernel


class ErrorModel(Protocol):
    """E(A; X), the middle term of the objective."""

    @property
    def X(self) -> Array:
        """The observed data."""

    def rows(self, index: slice) -> "ErrorModel":
        """Return the same model of some of the rows only."""

    def evaluate_rows(self, A: Array) -> tuple[Array, Array]:
        """Return what each row adds to E(A; X), and the gradient in A."""

    def evaluate(self, A: Array) -> tuple[float, Array]:
        """Return E(A; X), the sum over the rows, and its gradient in A."""

    def residuals(self, A: Array) -> Array:
        """Return how far each sample has moved, in the units of the model."""

    def majoriser(self, A: Array) -> Array | None:
        """Return w with E(B) <= E(A) + sum_i w_i (|b_i - x_i|^2 - |a_i - x_i|^2) for all B; None if unknown."""


@dataclass(frozen=True)
class KernelError:
    """E(A; X) = sum_i sqrt(|phi(a_i) - phi(x_i)|^2 + mu^2): a few samples are wrong, measured in the kernel space.

    `mu` rounds off the kink at a_i = x_i; it is the distance below which a sample counts as not moved.
    """

    kernel: Kernel
    X: Array
    mu: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.mu) and self.mu > 0):
            raise ValueError(f"mu must be a positive number, got {self.mu!r}")

    def rows(self, index: slice) -> "KernelError":
        """Return the same model of some of the rows only."""
        return KernelError(self.kernel, self.X[index], self.mu)

    def evaluate_rows(self, A: Array) -> tuple[Array, Array]:
        h, gradient = self.kernel.distances(A, self.X)
        root: Array = np.sqrt(h + self.mu**2)
        gradient *= (0.5 / root)[:, np.newaxis]
        return root, gradient

    def evaluate(self, A: Array) -> tuple[float, Array]:
        values, gradient = self.evaluate_rows(A)
        return float(values.sum()), gradient

    def residuals(self, A: Array) -> Array:
        root: Array = np.sqrt(self.kernel.distances(A, self.X)[0])
        return root

    def majoriser(self, A: Array) -> Array | None:
        # sqrt is concave, so its tangent majorises: beta_i / 2 of eq. (sub1expHQUpdate2) times the kernel's own
        # weight, which for the Gaussian is 2 gamma p_i of (sub1expHQUpdate1). The paper prints twice this (DESIGN 3.1).
        weight = self.kernel.majoriser(A, self.X)
        if weight is None:
            return None
        scaled: Array = 0.5 * weight / np.sqrt(self.kernel.distances(A, self.X)[0] + self.mu**2)
        return scaled
