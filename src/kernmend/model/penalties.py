"""Penalties of the rank: what the Gram matrix of the data costs.

A penalty is a small frozen class; `evaluate(K, eigen)` gives its value, its two parts and its gradient in K.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kernmend._typing import Array
from kernmend.linalg.cholesky import log_det_and_inverse
from kernmend.linalg.eigen import LeadingSubspace, TopEigenpairs, eigenpairs, eigenvalues

# Eigenvalue, in units of eps, below which `SchattenPenalty` of many rows is replaced by its tangent. At 0.25 the value
# is too high by at most 0.7 % of n eps^(p/2).
TAIL_CUT = 0.25

# --- the B-step of eq. (sub2), in closed form -----------------------------------------------------------------------


def cutoff_from_rho(rho: float) -> float:
    """Return the eigenvalue below which the B-step drops an eigenvector: s* = 1.5 rho^(-2/3)."""
    return float(1.5 * rho ** (-2.0 / 3.0))


def rho_from_cutoff(cutoff: float) -> float:
    """Return the rho whose B-step drops the eigenvalues up to `cutoff`: rho = (1.5 / s*)^1.5."""
    return float((1.5 / cutoff) ** 1.5)


def shrink_eigenvalues(s: Array, rho: float) -> Array:
    """Return argmin_{g >= 0} rho/2 (s_i - g^2)^2 + g for each eigenvalue, the singular values of B, eq. (sub2solution).

    The stationary points solve g^3 - s g + 1/(2 rho) = 0; the largest root beats g = 0 exactly when
    s > 1.5 rho^(-2/3).
    """
    g = np.zeros_like(s)
    kept = s > cutoff_from_rho(rho)
    top = s[kept]
    # This is (3/s)^1.5 / (4 rho), in an order of operations that cannot overflow for tiny s and rho.
    angle = np.arccos(-0.25 * (3.0 / (top * rho ** (2.0 / 3.0))) ** 1.5) / 3.0
    g[kept] = 2.0 * np.sqrt(top / 3.0) * np.cos(angle)
    return g


# --- penalties ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpectralTerm:
    """What a penalty says of one Gram matrix: value = low_rank + gram, and the gradient in K (an array to consume)."""

    low_rank: float
    gram: float
    rank: int
    gradient: Array


class SpectralPenalty(Protocol):
    """A function of the Gram matrix that is small where the matrix has low rank."""

    def evaluate(self, K: Array, eigen: TopEigenpairs) -> SpectralTerm:
        """Return the penalty of `K`, its parts and its gradient."""


@dataclass(frozen=True)
class GramTarget:
    """A matrix M = B'B held fixed, with |B|_* and rank: the penalty is |B|_* + rho/2 |M - K|_F^2.

    With it, the objective is that of the A-step, eq. (sub1), times lam: alpha there is rho / lam. It is also the
    paper's recovery from a given similarity.
    """

    M: Array
    rho: float
    low_rank: float
    rank: int

    def evaluate(self, K: Array, eigen: TopEigenpairs) -> SpectralTerm:
        """Return the penalty of `K`; no eigenvalue is needed."""
        residual = K - self.M
        gram = 0.5 * self.rho * float(np.vdot(residual, residual))
        residual *= self.rho
        return SpectralTerm(self.low_rank, gram, self.rank, residual)

    def b_step(self, K: Array, eigen: TopEigenpairs) -> "GramTarget":
        """Return itself: a given similarity does not follow the data."""
        return self


@dataclass(frozen=True)
class NuclearPenalty:
    """min_B |B|_* + rho/2 |B'B - K|_F^2, the low-rank part of eq. (relax) with B eliminated.

    As rho grows, B'B comes closer to K, and the minimum to |phi(A)|_* of eq. (Auxiliary).
    """

    rho: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.rho) and self.rho > 0):
            raise ValueError(f"rho must be a positive number, got {self.rho!r}")

    def b_step(self, K: Array, eigen: TopEigenpairs) -> GramTarget:
        """Return the target M = B'B with B the minimiser of eq. (sub2), given by eq. (sub2solution).

        Only B'B is returned: B itself is not unique, and the A-step does not need it.
        """
        s, U = eigen(K, cutoff_from_rho(self.rho))
        g = shrink_eigenvalues(s, self.rho)
        M: Array = (U * (g * g)) @ U.T
        return GramTarget(M, self.rho, float(g.sum(dtype=np.float64)), int(g.size))

    def evaluate(self, K: Array, eigen: TopEigenpairs) -> SpectralTerm:
        """Return the value at the minimising B and, by the envelope theorem, the gradient rho (K - M).

        The value is that of F at the M found, computed from K - M itself: it is an honest value of F however well the
        eigenpairs have converged, and does not suffer from the cancellation of |K|_F^2 - sum s^2.
        """
        target = self.b_step(K, eigen)
        residual = np.subtract(K, target.M, out=target.M)
        gram = 0.5 * self.rho * float(np.vdot(residual, residual))
        residual *= self.rho
        return SpectralTerm(target.low_rank, gram, target.rank, residual)


@dataclass(frozen=True)
class SchattenPenalty:
    """sum_i (s_i + eps)^(p/2) over the eigenvalues of K: the Schatten-p norm of B, to the p, smoothed by eps.

    The smaller `p`, the nearer to the rank; `eps` is the eigenvalue below which nothing is gained any more. It is a
    function with many minima where `eps` is small: start with a large one (`schatten_stages` of `repair.joint`).

    Up to `dense_below` rows it takes all eigenpairs. Above, those over `TAIL_CUT` eps, and below that cut the tangent
    there in place of the root: still concave with a continuous derivative, so what is minimised is one function, which
    lies above the exact one by at most 0.7 % of n eps^(p/2), and the sum over the tail needs only its trace.
    """

    p: float = 0.5
    eps: float = 1e-5
    dense_below: int = 1500

    def __post_init__(self) -> None:
        if not 0 < self.p <= 2:
            raise ValueError(f"p must be a number in (0, 2], got {self.p!r}")
        if not (np.isfinite(self.eps) and self.eps > 0):
            raise ValueError(f"eps must be a positive number, got {self.eps!r}")

    def evaluate(self, K: Array, eigen: TopEigenpairs) -> SpectralTerm:
        """Return the value, and the gradient U diag(p/2 (s + eps)^(p/2 - 1)) U'. The rank counts s > eps."""
        n, q = K.shape[0], 0.5 * self.p
        if n <= self.dense_below:
            s, U = eigenpairs(K)
            cut, tail_slope = 0.0, 0.0
        else:
            cut = TAIL_CUT * self.eps
            s, U = eigen(K, cut)
            tail_slope = q * (cut + self.eps) ** (q - 1.0)
        shifted = np.maximum(s, 0.0).astype(np.float64, copy=False) + self.eps
        value = float(np.sum(shifted**q))
        if s.size < n:
            left = float(np.trace(K, dtype=np.float64)) - float(s.sum(dtype=np.float64))
            value += (n - s.size) * ((cut + self.eps) ** q - tail_slope * cut) + tail_slope * left
        slopes = q * shifted ** (q - 1.0) - tail_slope  # All of one sign: the slope of the tail is the largest.
        root = U * np.sqrt(np.abs(slopes)).astype(K.dtype, copy=False)
        gradient: Array = root @ root.T  # Half of the work of a general product.
        if tail_slope > 0:
            np.negative(gradient, out=gradient)
            gradient.flat[:: n + 1] += tail_slope
        return SpectralTerm(value, 0.0, int(np.count_nonzero(s > self.eps)), gradient)


@dataclass(frozen=True)
class LogDetPenalty:
    """log det(K + eps I) - n log(least): what `SchattenPenalty` becomes, but for a factor, as p falls to 0.

    A Cholesky factorisation is enough for it, where p > 0 takes eigenpairs. With `least`, the smallest eps of a path,
    it is never below 0, and falls with eps. Of one row alone, all others fixed, it is log(dist^2 + eps) plus a
    constant, with the distance of phi(a) from the span of the others, ridge eps.
    """

    eps: float
    least: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.eps) and self.eps >= self.least > 0):
            raise ValueError(f"eps must be a positive number, at least {self.least!r}, got {self.eps!r}")

    def evaluate(self, K: Array, eigen: TopEigenpairs) -> SpectralTerm:
        """Return the value, and the gradient (K + eps I)^-1. The rank is not counted: it is that of all rows."""
        n = K.shape[0]
        value, inverse = log_det_and_inverse(K, self.eps)
        return SpectralTerm(value - n * float(np.log(self.least)), 0.0, n, inverse.astype(K.dtype, copy=False))


@dataclass(frozen=True)
class TailPenalty:
    """weight times the sum of all but the largest eigenvalues of K: what the best subspace leaves of the samples.

    `leading` finds that subspace and says how many dimensions it has; it is warm-started from one call to the next.
    """

    weight: float
    leading: LeadingSubspace

    def evaluate(self, K: Array, eigen: TopEigenpairs) -> SpectralTerm:
        """Return the value at the subspace found, and, by the envelope theorem, the gradient weight (I - U U')."""
        left, _, U = self.leading(K)
        gradient: Array = U @ U.T
        gradient *= -self.weight
        gradient.flat[:: K.shape[0] + 1] += self.weight
        return SpectralTerm(self.weight * left, 0.0, self.leading.count, gradient)


PENALTIES: dict[str, type[SpectralPenalty]] = {"nuclear": NuclearPenalty, "schatten": SchattenPenalty}
"""The penalties that `penalty=` can name; the second on a path of falling eps."""


def similarity_target(name: str, M: Array, rho: float) -> GramTarget:
    """Return the target for a given similarity; ValueError, with its `name`, where it is not positive semidefinite.

    |B|_* is the sum of the roots of its eigenvalues for every B with B'B = M, eq. (prop1).
    """
    s = eigenvalues(M)
    tolerance = 1e3 * float(np.finfo(M.dtype).eps) * M.shape[0] * max(float(np.abs(s).max()), 1e-300)
    if s[0] < -tolerance:
        raise ValueError(
            f"{name} must be positive semidefinite, but its smallest eigenvalue is {s[0]:.3g} (largest {s[-1]:.3g}): a "
            "similarity can be made so by clipping its negative eigenvalues"
        )
    positive = s[s > tolerance]  # The roots of rounding errors would add up.
    return GramTarget(M, rho, float(np.sqrt(positive).sum()), int(positive.size))
