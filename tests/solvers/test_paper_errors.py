"""What the paper gets wrong, point by point as in docs/method.md: one test or more for each.

Labels such as eq. (relax) and (sub1expHQUpdate3) are the paper's own.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from problems import PROBLEMS, ROUNDING, SOLVERS, circle, off_circle, slow_b_step, slow_gradient, start
from scipy.optimize import root

from kernmend.linalg.eigen import TopEigenpairs
from kernmend.model.errors import KernelError
from kernmend.model.kernels import RBF, Linear, Polynomial
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty
from kernmend.solvers import solve_alternating, solve_parallel, solve_reduced

each_solver = pytest.mark.parametrize("solver", SOLVERS)


def slow_target(K, rho):
    """Return (B'B, |B|_*) at the minimiser of eq. (sub2)."""
    s, U = np.linalg.eigh(K)
    g = np.array([slow_b_step(value, rho) for value in s])
    return (U * g**2) @ U.T, g.sum()


def rises(values):
    return int(np.count_nonzero(np.diff(values) > ROUNDING * np.abs(values[:-1])))


# --- 1 --------------------------------------------------------------------------------------------------------------


@dataclass
class GaussianAlgorithm:
    """Algorithm 1 with a Gaussian kernel from A = 0 and B'B = K(X), its A-steps by small enough gradient steps.

    The row problem is `gram_weight` rho/2 sum_j (m_ij - k_ij)^2 + `error_weight` lam beta_i p_i gamma |a_i - x_i|^2.
    Eq. (sub1expHQ), times lam, has the weights 1 and 2: those of F are 2, because a pair (i, j) is in the symmetric
    residual twice, and 1, because the tangent of a square root has a factor 1/2.
    """

    X: np.ndarray
    lam: float
    rho: float
    gram_weight: float
    error_weight: float
    gamma: float = 1.0
    mu: float = 1e-3

    def __post_init__(self):
        self.A = np.zeros_like(self.X)
        self.M = np.exp(-self.gamma * np.sum((self.X[:, np.newaxis] - self.X) ** 2, axis=2))
        self.nuclear = np.sqrt(np.maximum(np.linalg.eigvalsh(self.M), 0.0)).sum()

    def gram(self):
        return np.exp(-self.gamma * np.sum((self.A[:, np.newaxis] - self.A) ** 2, axis=2))

    def objective(self, lam):
        h = 2.0 - 2.0 * np.exp(-self.gamma * np.sum((self.A - self.X) ** 2, axis=1))
        return self.nuclear + lam * np.sqrt(h + self.mu**2).sum() + 0.5 * self.rho * np.sum((self.M - self.gram()) ** 2)

    def row_problem(self, i):
        """Return eq. (sub1expHQUpdate3) of row i and its gradient as functions, and the weight of |a - x|^2."""
        x, others, m = self.X[i], np.delete(self.A, i, axis=0), np.delete(self.M[i], i)
        p = np.exp(-self.gamma * np.sum((self.A[i] - x) ** 2))  # (sub1expHQUpdate1)
        beta = 1.0 / np.sqrt(2.0 - 2.0 * p + self.mu**2)  # (sub1expHQUpdate2)
        weight = self.error_weight * self.lam * beta * p * self.gamma
        stiffness = 0.5 * self.gram_weight * self.rho

        def value(a):
            k = np.exp(-self.gamma * np.sum((a - others) ** 2, axis=1))
            return stiffness * np.sum((m - k) ** 2) + weight * np.sum((a - x) ** 2)

        def gradient(a):
            k = np.exp(-self.gamma * np.sum((a - others) ** 2, axis=1))
            return 4.0 * self.gamma * stiffness * ((m - k) * k) @ (a - others) + 2.0 * weight * (a - x)

        return value, gradient, weight

    def update_row(self, i):
        value, gradient, weight = self.row_problem(i)
        for _ in range(5):
            a, slope = self.A[i], gradient(self.A[i])
            delta, here = 0.5 / weight, value(a)
            while delta > 1e-20 and value(a - delta * slope) > here - 0.5 * delta * slope @ slope:
                delta *= 0.5
            if delta > 1e-20:
                self.A[i] = a - delta * slope

    def run(self, n_sweeps, factors):
        """Return F with each factor of lam after each half-step, one column per factor."""
        history = [[self.objective(factor * self.lam) for factor in factors]]
        for _ in range(n_sweeps):
            for i in range(len(self.X)):
                self.update_row(i)
            history.append([self.objective(factor * self.lam) for factor in factors])
            self.M, self.nuclear = slow_target(self.gram(), self.rho)
            history.append([self.objective(factor * self.lam) for factor in factors])
        return np.array(history).T


def test_1_factor_four():
    """Printed: (sub1expHQUpdate1)-(sub1expHQUpdate3) minimise eq. (relax). True: they minimise it with 4 lam for lam.

    The pairs of the symmetric residual are counted once instead of twice, and the linearised root lacks its 1/2. With
    both put right, and in our solver, F itself never rises.
    """
    X = circle(40, seed=0)[0]
    lam, rho = 0.3, 100.0
    factors = (1.0, 4.0)
    printed = GaussianAlgorithm(X, lam, rho, gram_weight=1.0, error_weight=2.0).run(20, factors)
    assert rises(printed[0]) >= 1
    assert rises(printed[1]) == 0

    right = GaussianAlgorithm(X, lam, rho, gram_weight=2.0, error_weight=1.0).run(20, factors)
    assert rises(right[0]) == 0

    problem = replace(PROBLEMS["rbf"], X=X, lam=lam, rho=rho)
    for solve in (solve_alternating, solve_parallel):
        A, target = start(problem, "zeros")
        ours = solve(problem.objective(), A, start=target, max_iter=20, tol=0.0).objective
        assert ours[0] == pytest.approx(printed[0][0], rel=1e-5)
        assert rises(ours) == 0


@pytest.mark.parametrize(
    ("gram_weight", "error_weight", "share", "factor"), [(1.0, 2.0, 0.5, 4.0), (2.0, 1.0, 1.0, 1.0)]
)
def test_1_gradient_of_the_printed_step(gram_weight, error_weight, share, factor):
    """Printed: a step of row i lowers F. True: its gradient is half of that of F with 4 lam; the right one is F's."""
    X = circle(12, seed=0)[0]
    algorithm = GaussianAlgorithm(X, 0.3, 100.0, gram_weight, error_weight)
    algorithm.A = X + 0.3 * np.random.default_rng(0).standard_normal(X.shape)
    step = 1e-6
    for i in range(12):
        printed = algorithm.row_problem(i)[1](algorithm.A[i])
        of_f = np.zeros(2)
        for j in range(2):
            values = []
            for sign in (1.0, -1.0):
                algorithm.A[i, j] += sign * step
                values.append(algorithm.objective(factor * 0.3))
                algorithm.A[i, j] -= sign * step
            of_f[j] = (values[0] - values[1]) / (2.0 * step)
        np.testing.assert_allclose(printed, share * of_f, rtol=1e-6, atol=1e-5)


# --- 2 --------------------------------------------------------------------------------------------------------------

DEGREE, COEF0, MU = 2.0, 1.0, 0.1


def polynomial_terms(A, X):
    """Return tau_a, tau_x and delta of eqs. (sub1ployHQUpdate1)-(sub1ployHQUpdate2), as columns."""
    aa, ax, xx = (np.sum(u * v, axis=1, keepdims=True) + COEF0 for u, v in ((A, A), (A, X), (X, X)))
    h = aa**DEGREE + xx**DEGREE - 2.0 * ax**DEGREE
    return aa ** (DEGREE - 1.0), ax ** (DEGREE - 1.0), 1.0 / np.sqrt(h + MU**2)


def printed_error_gradient(A, X):
    """Gradient in a_i of 2 d delta_i (tau_a a_i - tau_x x_i)'(a_i - x_i), the tau and delta held."""
    tau_a, tau_x, delta = polynomial_terms(A, X)
    return 2.0 * DEGREE * delta * (2.0 * tau_a * A - (tau_a + tau_x) * X)


def true_error_gradient(A, X):
    """Gradient in a_i of sqrt(h_i + mu^2): d delta_i (tau_a a_i - tau_x x_i)."""
    tau_a, tau_x, delta = polynomial_terms(A, X)
    return DEGREE * delta * (tau_a * A - tau_x * X)


def gram_gradient(A, M, rho, pair_weight):
    """Gradient of rho/2 (pair_weight sum_{j != i} r_ij^2 + r_ii^2) in a_i, r = M - K."""
    base = A @ A.T + COEF0
    pull = DEGREE * base ** (DEGREE - 1.0) * (base**DEGREE - M)
    diagonal = np.diag(pull)[:, np.newaxis] * A
    return rho * (pair_weight * (pull @ A - diagonal) + 2.0 * diagonal)


def test_2_polynomial_step():
    """Printed: the error term may be replaced by 2 d delta (tau_a a - tau_x x)'(a - x). True: its gradient is another.

    With tau and delta held it is 2 tau_a a - (tau_a + tau_x) x up to a factor, where that of F is
    2 (tau_a a - tau_x x): another direction, so that no choice of lam mends it. Ours is that of F.
    """
    X = circle(8, seed=1, outlier_share=0.25)[0]
    A = X + np.random.default_rng(0).standard_normal(X.shape)
    printed, true = printed_error_gradient(A, X), true_error_gradient(A, X)
    cosines = np.sum(printed * true, axis=1) / np.linalg.norm(printed, axis=1) / np.linalg.norm(true, axis=1)
    assert cosines.min() < 0.99

    model = KernelError(Polynomial(DEGREE, COEF0), X, MU)
    ours = model.evaluate(A)[1]
    np.testing.assert_allclose(ours, true, rtol=1e-10)
    differences = np.zeros_like(A)
    for index in np.ndindex(A.shape):
        shift = np.zeros_like(A)
        shift[index] = 1e-6
        differences[index] = (model.evaluate(A + shift)[0] - model.evaluate(A - shift)[0]) / 2e-6
    np.testing.assert_allclose(ours, differences, atol=1e-7)


def test_2_fixed_point_of_the_printed_polynomial_step_is_not_stationary():
    """Printed: Algorithm 1 converges to a stationary point. True: where its polynomial step rests, F has a slope."""
    X = circle(8, seed=1, outlier_share=0.25)[0]
    lam, rho = 1.0, 1.0

    def printed_step(flat):  # lam times the gradient of (sub1expHQ) for polynomials, B at its minimum
        A = flat.reshape(X.shape)
        M = slow_target((A @ A.T + COEF0) ** DEGREE, rho)[0]
        return (gram_gradient(A, M, rho, pair_weight=1.0) + lam * printed_error_gradient(A, X)).ravel()

    found = root(printed_step, X.ravel(), tol=1e-12)
    A = found.x.reshape(X.shape)
    assert np.linalg.norm(printed_step(found.x)) < 1e-8  # here the printed algorithm rests

    kernel = Polynomial(DEGREE, COEF0)
    objective = Objective(kernel, NuclearPenalty(rho), KernelError(kernel, X, MU), lam)
    M = slow_target(kernel.gram(A), rho)[0]
    gram, error = gram_gradient(A, M, rho, pair_weight=2.0), true_error_gradient(A, X)
    np.testing.assert_allclose(objective.evaluate(A)[1], gram + lam * error, atol=1e-9)
    # Not even with another lam is it a stationary point: the best one leaves a tenth of the Gram term's gradient.
    best_lam = max(0.0, -np.vdot(gram, error) / np.vdot(error, error))
    assert np.linalg.norm(gram + best_lam * error) > 0.1 * np.linalg.norm(gram)

    end = solve_reduced(objective, A, tol=1e-12, max_iter=3000)
    assert end.objective[-1] < end.objective[0] * (1.0 - 1e-3)
    assert np.linalg.norm(objective.evaluate(end.A)[1]) < 1e-4 * np.linalg.norm(gram)


# --- 3 --------------------------------------------------------------------------------------------------------------


def f_of_b(B, K, rho):
    return np.linalg.svd(B, compute_uv=False).sum() + 0.5 * rho * np.sum((B.T @ B - K) ** 2)


def random_orthogonal(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def minimising_b(K, rho):
    """Return a square root of our B-step's M, and |B|_* as the B-step reports it."""
    target = NuclearPenalty(rho).b_step(K, TopEigenpairs())
    s, U = np.linalg.eigh(target.M)
    return np.sqrt(np.maximum(s, 0.0))[:, np.newaxis] * U.T, target


def test_3_not_strongly_convex():
    """Printed (proof of Theorem 1): F(A, .) is rho-strongly convex. True: not even convex, since it depends on B'B.

    B and QB have the same F for every orthogonal Q. Strong convexity would put F at their middle lower by
    rho/8 |B - QB|^2; it is higher.
    """
    rng = np.random.default_rng(0)
    rho = 10.0
    K = RBF(1.0).gram(circle(20, seed=0)[0])
    B, _ = minimising_b(K, rho)
    for Q in [-np.eye(20), *(random_orthogonal(rng, 20) for _ in range(5))]:
        here, there, middle = (f_of_b(C, K, rho) for C in (B, Q @ B, 0.5 * (B + Q @ B)))
        assert there == pytest.approx(here, rel=1e-10)
        assert np.linalg.norm(B - Q @ B) > 1.0
        assert middle > here + 1e-3  # convexity alone asks for middle <= here


@pytest.mark.parametrize("rho", [0.1, 1.0, 10.0, 1e4])
def test_3_b_step_is_a_global_minimiser(rho):
    """What Theorem 1 needs and is true: no B, near or far, has a lower F(A, .) than the B-step's."""
    rng = np.random.default_rng(1)
    K = RBF(1.0).gram(circle(15, seed=0)[0])
    B, target = minimising_b(K, rho)
    lowest = f_of_b(B, K, rho)
    assert target.low_rank + 0.5 * rho * np.sum((target.M - K) ** 2) == pytest.approx(lowest, rel=1e-6)
    s, U = np.linalg.eigh(K)
    candidates = [np.zeros_like(K), np.sqrt(np.maximum(s, 0.0))[:, np.newaxis] * U.T]
    for size in (1e-6, 1e-3, 1e-1, 1.0):
        candidates += [B + size * rng.standard_normal(B.shape) for _ in range(20)]
        candidates += [B * (1.0 + size * rng.standard_normal((15, 1))) for _ in range(20)]
    for keep in range(1, 15):  # truncations, with any singular values
        V = U[:, -keep:]
        candidates += [rng.uniform(0.5, 1.2, (keep, 1)) * np.sqrt(np.maximum(s[-keep:, np.newaxis], 0.0)) * V.T]
        candidates += [rng.standard_normal((keep, 15))]
    assert min(f_of_b(C, K, rho) for C in candidates) >= lowest * (1.0 - 1e-9)


# --- 4 --------------------------------------------------------------------------------------------------------------


def test_4_zero_start_has_no_gram_gradient():
    """Printed: A = 0 at the start. True: where all rows coincide the Gram term does not pull, whatever B is."""
    rng = np.random.default_rng(0)
    G = rng.standard_normal((12, 12))
    G = G + G.T
    zeros, equal = np.zeros((12, 3)), np.tile(rng.standard_normal(3), (12, 1))
    for kernel in (RBF(1.0), PROBLEMS["rational"].kernel, Linear(), Polynomial(2.0, 1.0)):
        gradient = kernel.gradient(zeros, kernel.gram(zeros), G.copy())
        np.testing.assert_allclose(gradient, 0.0, atol=1e-13)
    for kernel in (RBF(1.0), PROBLEMS["rational"].kernel):
        gradient = kernel.gradient(equal, kernel.gram(equal), G.copy())
        np.testing.assert_allclose(gradient, 0.0, atol=1e-13)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_4_zero_start_ends_worse_than_the_data(seed):
    """Printed: A = 0 at the start. True: the paper's algorithm ends far better from A = X, our default.

    One row after the other: from zeros even the good samples end far from where they were, and F is far higher. All
    rows at once: the outliers end farther from the circle.
    """
    X, _, outliers = circle(60, seed)
    rows = replace(PROBLEMS["rbf"], X=X, lam=0.3, rho=100.0)
    from_data, from_zeros = (end_of(rows, solve_alternating, init, max_iter=15) for init in ("data", "zeros"))
    inliers_moved = [np.linalg.norm(r.A - X, axis=1)[~outliers].mean() for r in (from_data, from_zeros)]
    assert inliers_moved[0] < 0.01
    assert inliers_moved[1] > 0.2
    assert from_zeros.objective[-1] > 1.1 * from_data.objective[-1]

    together = replace(rows, lam=0.1)
    from_data, from_zeros = (end_of(together, solve_parallel, init, max_iter=60) for init in ("data", "zeros"))
    assert off_circle(from_zeros.A[outliers]).mean() > off_circle(from_data.A[outliers]).mean() + 0.1


def end_of(problem, solve, init, max_iter):
    A, target = start(problem, init)
    return solve(problem.objective(), A, start=target, max_iter=max_iter, tol=0.0)


# --- 5 --------------------------------------------------------------------------------------------------------------


def test_5_fractional_degree_says_what_it_needs():
    """Printed: degree 1.5, no condition. True: (a'b + c)^1.5 needs a'b + c >= 0; the error names rows and remedy."""
    X = np.array([[1.0, 0.0], [0.5, 0.5], [-2.0, 0.0]])
    with pytest.raises(ValueError, match=r"rows 0 and 2 give -1.*coef0 to at least 2"):
        Polynomial(1.5, 1.0).check(X)
    Polynomial(1.5, 2.0).check(X)
    Polynomial(2.0, 1.0).check(X)


@dataclass(frozen=True)
class WatchedPolynomial(Polynomial):
    """Keeps the smallest base that it was asked for."""

    smallest: list = field(default_factory=list)

    def gram(self, X, Y=None):
        self.smallest.append(float((X @ (X if Y is None else Y).T).min()) + self.coef0)
        return super().gram(X, Y)


@each_solver
def test_5_fractional_degree_never_becomes_nan(solver):
    """Iterates that leave the region a'b + c >= 0 on their way meet a base of 0, not a NaN."""
    angle = np.linspace(0.0, 0.5 * np.pi, 16)  # a quarter of a circle: its ends are orthogonal, the base just 0
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[5] = [2.0, 0.0]
    kernel = WatchedPolynomial(1.5, 0.0)
    kernel.check(X)
    objective = Objective(kernel, NuclearPenalty(100.0), KernelError(kernel, X, 1e-3), 0.1)
    A = X + 0.3 * np.random.default_rng(0).standard_normal(X.shape)
    result = SOLVERS[solver](objective, A, max_iter=40, tol=0.0)
    assert min(kernel.smallest) < -0.01
    assert np.isfinite(result.A).all()
    assert np.isfinite(result.objective).all()
    assert rises(result.objective) == 0
    for record in result.history:
        assert np.isfinite([record.low_rank, record.error, record.gram, record.step]).all()


def test_5_fractional_degree_gradient_outside_the_region():
    """Where the base is negative k and its gradient are 0, and F is still what its gradient says."""
    problem = PROBLEMS["poly1.5"]
    A = problem.X - 2.0  # around the origin: half of the products are negative
    assert (A @ A.T + 0.5).min() < -0.5
    ours = problem.objective().evaluate(A)[1]
    np.testing.assert_allclose(ours, slow_gradient(problem, A), rtol=1e-5, atol=1e-4)


# --- 6 --------------------------------------------------------------------------------------------------------------


def far_outlier(gamma):
    """A circle of 60 points, one of them moved to (6, 0)."""
    X = circle(60, seed=0, outlier_share=0.0)[0]
    X[0] = [6.0, 0.0]
    return X, Objective(RBF(gamma), NuclearPenalty(1e4), KernelError(RBF(gamma), X, 1e-3), 0.3)


def low_rank_pull(objective, A):
    """Length of the low-rank term's gradient in each row."""
    K = objective.kernel.gram(A)
    G = objective.penalty.evaluate(K, objective.eigen).gradient
    return np.linalg.norm(objective.kernel.gradient(A, K, G), axis=1)


def test_6_far_outliers():
    """Not in the paper: a narrow Gaussian does not reach far outliers, k -> 0 and its gradient with it.

    A wide one does. From the wide kernel's result the narrow one goes on, to a lower F than from the data.
    """
    X, narrow = far_outlier(gamma=1.0)
    pull = low_rank_pull(narrow, X)
    assert pull[0] < 1e-8 * np.median(pull)
    stuck = solve_reduced(narrow, X, max_iter=500)
    assert np.linalg.norm(stuck.A[0] - X[0]) < 1e-6

    X, wide = far_outlier(gamma=0.03)
    pull = low_rank_pull(wide, X)
    assert pull[0] > np.median(pull)
    reached = solve_reduced(wide, X, max_iter=500)
    assert off_circle(reached.A[:1])[0] < 0.1
    assert np.linalg.norm(reached.A[1:] - X[1:], axis=1).mean() < 0.01

    path = solve_reduced(narrow, reached.A, max_iter=500)
    assert off_circle(path.A[:1])[0] < 0.05
    assert path.objective[-1] < stuck.objective[-1]
