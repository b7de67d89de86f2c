"""The formulas of the kernel model written once more, slowly: plain loops, nothing from kernmend.

Kernels are given by name and parameters: `("rbf", {"gamma": 2.0})`, `("poly", {"degree": 3, "coef0": 1.0})`,
`("linear", {})`.
"""

import math

import numpy as np


def kernel_value(name, params, a, b):
    """k(a, b) of two vectors."""
    if name == "rbf":
        return math.exp(-params["gamma"] * math.fsum((float(p) - float(q)) ** 2 for p, q in zip(a, b, strict=True)))
    dot = math.fsum(float(p) * float(q) for p, q in zip(a, b, strict=True))
    if name == "poly":
        return (dot + params["coef0"]) ** params["degree"]
    if name == "linear":
        return dot
    raise ValueError(name)


def gram(name, params, X, Y=None):
    """k(x_i, y_j), one pair at a time."""
    Y = X if Y is None else Y
    return np.array([[kernel_value(name, params, x, y) for y in Y] for x in X])


def feature_distances(name, params, A, X):
    """h_i = k(a_i, a_i) + k(x_i, x_i) - 2 k(a_i, x_i)."""

    def k(p, q):
        return kernel_value(name, params, p, q)

    return np.array([k(a, a) + k(x, x) - 2.0 * k(a, x) for a, x in zip(A, X, strict=True)])


def error_value(name, params, A, X, mu):
    """sum_i sqrt(h_i + mu^2)."""
    return math.fsum(math.sqrt(h + mu * mu) for h in feature_distances(name, params, A, X))


def nuclear_norm_of_root(M):
    """|B|_* of any B with B'B = M: the sum of the square roots of the eigenvalues of M."""
    return math.fsum(math.sqrt(max(float(s), 0.0)) for s in np.linalg.eigvalsh(M))


def frobenius_squared(R):
    """|R|_F^2, entry by entry."""
    return math.fsum(float(r) ** 2 for r in np.ravel(R))


def objective_f(name, params, A, X, M, *, lam, rho, mu):
    """F(A, B) of eq. (relax) for B'B = M, in its three parts (low_rank, error, gram)."""
    residual = M - gram(name, params, A)
    return nuclear_norm_of_root(M), lam * error_value(name, params, A, X, mu), 0.5 * rho * frobenius_squared(residual)


def scalar_cost(g, s, rho):
    """rho/2 (s - g^2)^2 + g."""
    return 0.5 * rho * (s - g * g) ** 2 + g


def scalar_minimiser(s, rho, points=2001):
    """argmin_{g >= 0} of `scalar_cost`: every local minimum of a fine grid, refined by ternary search; the best wins.

    Above sqrt(s) both terms grow, so the grid ends there.
    """
    if s <= 0.0:
        return 0.0
    grid = [math.sqrt(s) * i / (points - 1) for i in range(points)]
    cost = [math.inf, *(scalar_cost(g, s, rho) for g in grid), math.inf]
    candidates = [0.0]
    for i in range(points):
        if cost[i + 1] <= cost[i] and cost[i + 1] <= cost[i + 2]:
            low, high = grid[max(i - 1, 0)], grid[min(i + 1, points - 1)]
            for _ in range(120):
                left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
                if scalar_cost(left, s, rho) <= scalar_cost(right, s, rho):
                    high = right
                else:
                    low = left
            candidates.append(0.5 * (low + high))
    return min(candidates, key=lambda g: scalar_cost(g, s, rho))


def psi(K, rho):
    """Psi(K) = sum_i min_{g >= 0} rho/2 (s_i - g^2)^2 + g, over all eigenvalues."""
    eigenvalues = [float(s) for s in np.linalg.eigvalsh(K)]
    return math.fsum(scalar_cost(scalar_minimiser(s, rho), s, rho) for s in eigenvalues)


def best_m(K, rho):
    """The M = B'B that attains `psi`."""
    s, U = np.linalg.eigh(K)
    M = np.zeros_like(K)
    for value, u in zip(s, U.T, strict=True):
        M += scalar_minimiser(float(value), rho) ** 2 * np.outer(u, u)
    return M


def objective_phi(name, params, A, X, *, lam, rho, mu):
    """Phi(A) = Psi(K(A)) + lam E(A; X)."""
    return psi(gram(name, params, A), rho) + lam * error_value(name, params, A, X, mu)


def numerical_gradient(function, A, step=1e-3):
    """Gradient of a scalar function of an array by the five-point central difference; error of order step^4."""
    A = np.array(A, dtype=np.float64)
    gradient = np.zeros_like(A)
    for index in np.ndindex(*A.shape):
        moved = A.copy()

        def at(offset, index=index, moved=moved):
            moved[index] = A[index] + offset
            return function(moved)

        gradient[index] = (at(-2 * step) - 8 * at(-step) + 8 * at(step) - at(2 * step)) / (12 * step)
    return gradient


def directional_derivative(function, A, direction, step=1e-4):
    """d/dt function(A + t direction) at t = 0, by the five-point central difference."""
    at = [function(A + multiple * step * direction) for multiple in (-2, -1, 1, 2)]
    return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)


def random_rotation(seed, d):
    """An orthogonal matrix."""
    Q, R = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))
    return Q * np.sign(np.diag(R))
