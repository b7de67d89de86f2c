"""The objective of the paper's model, put together from a kernel, a penalty of the rank and an error model.

Problem (NLRPCA) is to recover A from X = A + E. Low-rank recovery in the data space, eq. (eq:rpca), becomes

    minimise over A:  |phi(A)|_* + lam |phi(A) - phi(X)|_{2,1}          eq. (eq:generalform)

with the feature map phi of a kernel. With B, which stands for phi(A), that is eq. (Auxiliary), and with the constraint
B'B = K(A) relaxed to a penalty eq. (relax). Here rows are samples; the paper writes the transpose.
"""

from dataclasses import dataclass, field

from kernmend._typing import Array
from kernmend.linalg.eigen import TopEigenpairs
from kernmend.model.errors import ErrorModel
from kernmend.model.kernels import Kernel
from kernmend.model.penalties import SpectralPenalty
from kernmend.model.terms import Parts


@dataclass(frozen=True)
class Objective:
    """Phi(A) = Psi(K(A)) + lam E(A; X), which is F(A, B) of eq. (relax) at the best B.

    The paper alternates between A and B. B has a closed form, so it is eliminated here: Psi is the minimum over B.
    `eigen` carries the eigenvectors of one evaluation to the next, which changes the time, and the result only within
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
