"""Small problems for the solver tests, and a slow F that shares no code with kernmend."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernmend.model.errors import KernelError
from kernmend.model.kernels import RBF, Kernel, Linear, Polynomial, RadialKernel
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty, similarity_target
from kernmend.solvers import solve_alternating, solve_parallel, solve_reduced

SOLVERS = {"reduced": solve_reduced, "alternating": solve_alternating, "alternating-parallel": solve_parallel}
ROUNDING = 1e-12  # relative: what a sum of a few hundred float64 terms may rise by without the objective rising


@dataclass(frozen=True)
class RationalQuadratic(RadialKernel):
    """k(a, b) = (1 + |a - b|^2 / (2 alpha))^-alpha, as a user would write it."""

    alpha: float = 1.5

    def profile(self, t):
        return (1.0 + t / (2.0 * self.alpha)) ** -self.alpha

    def slope(self, k):
        return -0.5 * k ** (1.0 + 1.0 / self.alpha)

    def gap(self, t):
        # f(0) - f(t) as a difference rounds at 1e-16 / mu of E, which shows in the 13th digit of a small F.
        return -np.expm1(-self.alpha * np.log1p(t / (2.0 * self.alpha)))


# --- data -----------------------------------------------------------------------------------------------------------


def circle(n, seed, outlier_share=0.1, offset=0.0):
    """Return points on the unit circle, a share of them replaced by uniform ones in [-1.5, 1.5]^2: X, truth, outliers.

    The truth of an outlier is the point of the circle that it replaced. `offset` shifts all of it.
    """
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    truth = np.column_stack([np.cos(angle), np.sin(angle)])
    outliers = np.zeros(n, dtype=bool)
    outliers[rng.choice(n, round(outlier_share * n), replace=False)] = True
    X = truth.copy()
    X[outliers] = rng.uniform(-1.5, 1.5, (outliers.sum(), 2))
    return X + offset, truth + offset, outliers


def off_circle(A):
    """Distance of each row from the unit circle."""
    return np.abs(np.linalg.norm(A, axis=1) - 1.0)


# --- one problem per kernel -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """A kernel, the same kernel as a plain function of two rows, data and parameters."""

    kernel: Kernel
    k: Callable[[np.ndarray, np.ndarray], float]
    X: np.ndarray
    lam: float = 0.3
    rho: float = 100.0

    @property
    def mu(self):
        return 1e-3 * float(np.sqrt(np.mean([self.k(x, x) for x in self.X])))

    def objective(self, X=None, penalty=None, dtype=np.float64):
        X = (self.X if X is None else X).astype(dtype)
        return Objective(
            kernel=self.kernel,
            penalty=NuclearPenalty(self.rho) if penalty is None else penalty,
            error=KernelError(self.kernel, X, self.mu),
            lam=self.lam,
        )

    def slow(self, A, M=None):
        """F(A, B) in its three parts, at the best B or at a given M = B'B."""
        return slow_parts(self.k, A, self.X, self.lam, self.rho, self.mu, M)


def problems():
    """Return one small problem per kernel, by name."""
    X = circle(24, seed=0)[0]
    positive = circle(24, seed=0, offset=2.0)[0]  # all inner products are positive
    return {
        "rbf": Problem(RBF(1.0), lambda a, b: np.exp(-np.sum((a - b) ** 2)), X),
        "poly2": Problem(Polynomial(2.0, 1.0), lambda a, b: (a @ b + 1.0) ** 2, X),
        "poly1.5": Problem(Polynomial(1.5, 0.5), lambda a, b: max(a @ b + 0.5, 0.0) ** 1.5, positive),
        "linear": Problem(Linear(), lambda a, b: a @ b, X),
        "rational": Problem(RationalQuadratic(1.5), lambda a, b: (1.0 + np.sum((a - b) ** 2) / 3.0) ** -1.5, X),
    }


PROBLEMS = problems()


# --- the slow F -----------------------------------------------------------------------------------------------------


def slow_gram(k, A, B=None):
    B = A if B is None else B
    return np.array([[k(a, b) for b in B] for a in A])


def slow_b_step(s, rho):
    """Return argmin_{g >= 0} rho/2 (s - g^2)^2 + g for one eigenvalue, by NumPy's polynomial roots."""
    roots = np.roots([1.0, 0.0, -s, 0.5 / rho])
    candidates = [0.0] + [root.real for root in roots if abs(root.imag) < 1e-9 and root.real > 0]
    return min(candidates, key=lambda g: 0.5 * rho * (s - g * g) ** 2 + g)


def slow_rank(k, A, rho):
    """Return the number of eigenvalues that the B-step keeps."""
    return sum(slow_b_step(s, rho) > 0 for s in np.linalg.eigvalsh(slow_gram(k, A)))


def slow_parts(k, A, X, lam, rho, mu, M=None):
    """Return (|B|_*, lam sum_i sqrt(h_i + mu^2), rho/2 |B'B - K(A)|_F^2), eq. (relax) of the paper."""
    A, X = A.astype(np.float64), X.astype(np.float64)
    K = slow_gram(k, A)
    error = lam * sum(np.sqrt(max(k(a, a) + k(x, x) - 2.0 * k(a, x), 0.0) + mu**2) for a, x in zip(A, X, strict=True))
    if M is None:
        s, U = np.linalg.eigh(K)
        B = np.array([slow_b_step(value, rho) for value in s])[:, np.newaxis] * U.T
        M = B.T @ B
        low_rank = np.linalg.svd(B, compute_uv=False).sum()
    else:
        low_rank = np.sqrt(np.maximum(np.linalg.eigvalsh(M), 0.0)).sum()
    return low_rank, error, 0.5 * rho * np.sum((M - K) ** 2)


def slow_gradient(problem, A, step=1e-5):
    """Return the gradient of F at the best B in `A`, by central differences."""
    out = np.zeros_like(A)
    for index in np.ndindex(A.shape):
        shift = np.zeros_like(A)
        shift[index] = step
        out[index] = (sum(problem.slow(A + shift)) - sum(problem.slow(A - shift))) / (2.0 * step)
    return out


# --- starts ---------------------------------------------------------------------------------------------------------


def clipped(K):
    """Return the nearest positive semidefinite matrix: a Gram matrix of fractional degree need not be one."""
    s, U = np.linalg.eigh(K)
    return (U * np.maximum(s, 0.0)) @ U.T


def start(problem, init):
    """Return (A0, start target): "data", "zeros" as in the paper, with B'B = K(X), or a random array."""
    if init == "data":
        return problem.X, None
    if init == "zeros":
        return np.zeros_like(problem.X), similarity_target("K(X)", clipped(problem.kernel.gram(problem.X)), problem.rho)
    rng = np.random.default_rng(1)
    return problem.X + 0.3 * rng.standard_normal(problem.X.shape), None
