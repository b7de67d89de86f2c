"""The objective that every solver minimises, put together from a kernel, a spectral penalty and an error model."""

from dataclasses import dataclass, field

from kernmend._typing import Array
from kernmend.linalg.eigen import TopEigenpairs
from kernmend.model.errors import ErrorModel
from kernmend.model.kernels import Kernel
from kernmend.model.penalties import SpectralPenalty


@dataclass(frozen=True)
class Parts:
    """F(A, B) = low_rank + error + gram, the three terms of eq. (relax)."""

    low_rank: float
    error: float
    gram: float
    rank: int

    @property
    def total(self) -> float:
        """The objective itself."""
        return self.low_rank + self.error + self.gram


@dataclass(frozen=True)
class Objective:
    """Phi(A) = Psi(K(A)) + lam E(A; X), which is F(A, B) of eq. (relax) at the best B.

    `eigen` carries the eigenvectors of one evaluation to the next; it changes how fast, never what is computed beyond
    its tolerance.
    """

    kernel: Kernel
    penalty: SpectralPenalty
    error: ErrorModel
    lam: float
    eigen: TopEigenpairs = field(default_factory=TopEigenpairs)

    def evaluate(self, A: Array) -> tuple[Parts, Array]:
        """Return Phi(A), in its parts, and its gradient. Two n×n arrays live at once, three for dot-product kernels."""
        K = self.kernel.gram(A)
        term = self.penalty.evaluate(K, self.eigen)
        gradient = self.kernel.gradient(A, K, term.gradient)
        error, error_gradient = self.error.evaluate(A)
        gradient += self.lam * error_gradient
        return Parts(term.low_rank, self.lam * error, term.gram, term.rank), gradient

    def parts(self, A: Array) -> Parts:
        """Return Phi(A) in its parts, without the gradient."""
        term = self.penalty.evaluate(self.kernel.gram(A), self.eigen)
        return Parts(term.low_rank, self.lam * self.error.evaluate(A)[0], term.gram, term.rank)
