"""Kernels: Gram matrices, and what carries a gradient from Gram space back to the data.

To add one, subclass `RadialKernel` (a function of the squared distance) or `DotProductKernel` (a function of the
inner product) and write its two formulas; a kernel of neither kind subclasses `Kernel`. `docs/new_kernel.md` does it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernmend._typing import Array
from kernmend.linalg.distances import (
    cached_blocks,
    centre_of,
    median_squared_distance,
    row_blocks,
    squared_distances,
    squared_distances_by_norms,
)


class Kernel(ABC):
    """A positive semidefinite kernel k(a, b) that can be differentiated in a.

    Rows are samples. Every method is a pure function of its arguments, but for `pullback`, which may overwrite `G`.
    `turns` says that k stays the same when all rows are turned: it knows of rows only lengths and angles.

    Examples
    --------
    >>> isinstance(RBF(), Kernel)
    True
    """

    turns: ClassVar[bool] = False

    @abstractmethod
    def gram(self, X: Array, Y: Array | None = None) -> Array:
        """Return k(x_i, y_j) as an (n, m) array; `Y=None` means `X`."""

    @abstractmethod
    def diag(self, X: Array) -> Array:
        """Return k(x_i, x_i), without the Gram matrix."""

    @abstractmethod
    def pullback(self, A: Array, B: Array, K: Array, G: Array) -> Array:
        """Return the gradient of sum_ij G_ij k(a_i, b_j) in the rows of `A`, `B` held fixed; may overwrite `G`.

        `K` is `gram(A, B)`. Where `B` is `A` and `G` is symmetric, twice this is the gradient of <G, K(A)>.
        """

    @abstractmethod
    def distances(self, A: Array, X: Array) -> tuple[Array, Array]:
        """Return h_i = |phi(a_i) - phi(x_i)|^2 for each pair of rows, and the gradient of h_i in a_i."""

    def majoriser(self, A: Array, X: Array) -> Array | None:
        """Return w with h(b_i, x_i) <= h(a_i, x_i) + w_i (|b_i - x_i|^2 - |a_i - x_i|^2) for all b; None if unknown.

        Only `solver="alternating"` and `"alternating-parallel"` use it, for the paper's closed-form step: the error
        model replaces the root by its tangent, eq. (aiargmin), and h in it by this bound, eq. (aiargmin3).
        """
        return None

    def check(self, X: Array) -> None:  # noqa: B027 (most kernels have nothing to check)
        """Raise ValueError where the kernel is not defined on the rows of `X`."""

    def diag_gradient(self, A: Array) -> Array:
        """Return the gradient of k(a_i, a_i) in a_i."""
        rows = (A[i : i + 1] for i in range(A.shape[0]))
        return np.vstack([2.0 * self.pullback(a, a, self.gram(a, a), np.ones((1, 1), a.dtype)) for a in rows])

    def gradient(self, A: Array, K: Array, G: Array) -> Array:
        """Return the gradient of <G, K(A)> in `A` for a symmetric `G`; may overwrite `G`."""
        return 2.0 * self.pullback(A, A, K, G)

    def against(self, L: Array) -> "FixedRows":
        """Return the kernel with the rows `L` as its second argument, for many calls."""
        return FixedRows(self, L)


@dataclass(frozen=True)
class FixedRows:
    """`gram(A, L)` and `pullback(A, L, K, G)` of a kernel for rows `L` that stay the same."""

    kernel: Kernel
    L: Array

    def gram(self, A: Array) -> Array:
        """Return k(a_i, l_j)."""
        return self.kernel.gram(A, self.L)

    def pullback(self, A: Array, K: Array, G: Array) -> Array:
        """Return the gradient of sum_ij G_ij k(a_i, l_j) in the rows of `A`, with K = gram(A); may overwrite `G`."""
        return self.kernel.pullback(A, self.L, K, G)


class RadialKernel(Kernel):
    """k(a, b) = f(|a - b|^2). A subclass writes `profile` and `slope`.

    A radial kernel that is positive semidefinite in every dimension has a completely monotone f (Schoenberg), so h is
    concave in the squared distance, and its tangent there is a majoriser: the paper's step from eq. (sub1exp) to
    (sub1expHQ). The paper shows it for the Gaussian by a conjugate function, eq. (HQprop) of
    Proposition (HQProp), which is printed for exp(+gamma |x|^2); the tangent of a concave function needs none and
    serves all radial kernels. That repeating such steps lowers eq. (sub1exp) is what remains of Lemma 1 (lem1): a
    majoriser never lets it rise.

    Examples
    --------
    >>> class Cauchy(RadialKernel):
    ...     profile = staticmethod(lambda t: 1 / (1 + t))
    ...     slope = staticmethod(lambda k: -(k**2))
    >>> Cauchy().gram(np.array([[0.0], [1.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    turns = True

    @abstractmethod
    def profile(self, t: Array) -> Array:
        """Return f(t) of squared distances `t`; may overwrite `t`."""

    @abstractmethod
    def slope(self, k: Array) -> Array:
        """Return f'(t) as a function of k = f(t), so that nobody keeps the distances."""

    def gap(self, t: Array) -> Array:
        """Return f(0) - f(t). Override where the difference loses digits near t = 0."""
        at_zero: Array = self.profile(np.zeros(1, dtype=t.dtype)) - self.profile(t.copy())
        return at_zero

    def gram(self, X: Array, Y: Array | None = None) -> Array:
        return self.profile(squared_distances(X, Y))

    def diag(self, X: Array) -> Array:
        return self.profile(np.zeros(X.shape[0], dtype=X.dtype))

    def diag_gradient(self, A: Array) -> Array:
        return np.zeros_like(A)

    def pullback(self, A: Array, B: Array, K: Array, G: Array) -> Array:
        centre = B.mean(axis=0)  # The sum does not depend on it, but its rounding far from the origin does.
        return self._pullback(A - centre, B - centre, K, G)

    def _pullback(self, A: Array, B: Array, K: Array, G: Array) -> Array:
        """Return what `pullback` returns, for `A` and `B` that are centred already; overwrites both `A` and `G`."""
        for rows in cached_blocks(*K.shape):
            G[rows] *= self.slope(K[rows])
        A *= G.sum(axis=1)[:, np.newaxis]
        A -= G @ B
        A *= 2.0
        return A

    def against(self, L: Array) -> "FixedRows":
        centre = centre_of(L)
        centred = L - centre
        return _CentredRows(self, L, centre, centred, np.einsum("ij,ij->i", centred, centred))

    def distances(self, A: Array, X: Array) -> tuple[Array, Array]:
        difference = np.subtract(A, X, dtype=np.float64)
        t = np.einsum("ij,ij->i", difference, difference)
        k = self.profile(t.copy())
        # For the Gaussian 2 - 2 exp(-gamma |a_i - x_i|^2), what stands under the root of eq. (sub1exp).
        return 2.0 * self.gap(t), (-4.0 * self.slope(k))[:, np.newaxis] * difference

    def majoriser(self, A: Array, X: Array) -> Array | None:
        # For the Gaussian 2 gamma p_i, with p_i = exp(-gamma |a_i - x_i|^2) of eq. (sub1expHQUpdate1): the weight of
        # |a_i - x_i|^2 in eq. (sub1expHQ).
        difference = np.subtract(A, X, dtype=np.float64)
        return -2.0 * self.slope(self.profile(np.einsum("ij,ij->i", difference, difference)))


class DotProductKernel(Kernel):
    """k(a, b) = f(a'b). A subclass writes `profile` and `slope`.

    The error term of eq. (sub1poly) has the gradient d delta_i (tau_a a_i - tau_x x_i), with tau of eq.
    (sub1ployHQUpdate1), the `slope` without its factor d, and delta of eq. (sub1ployHQUpdate2), the inverse of the
    root. The printed step, eq. (sub1ployHQUpdate3), replaces the term by 2 d delta_i (tau_a a_i - tau_x x_i)'(a_i -
    x_i). That is no majoriser, and its gradient is another one, so that the step rests where F has a slope. So there is
    no `majoriser` here, and the solvers follow the true gradient of `distances`.

    Examples
    --------
    >>> class Square(DotProductKernel):
    ...     profile = staticmethod(lambda u: u**2)
    ...     slope = staticmethod(lambda u: 2 * u)
    >>> Square().gram(np.array([[2.0]]), np.array([[3.0]]))
    array([[36.]])
    """

    turns = True

    @abstractmethod
    def profile(self, u: Array) -> Array:
        """Return f(u) of inner products `u`; may overwrite `u`."""

    @abstractmethod
    def slope(self, u: Array) -> Array:
        """Return f'(u); may overwrite `u`."""

    def gram(self, X: Array, Y: Array | None = None) -> Array:
        return self.profile(X @ (X if Y is None else Y).T)

    def diag(self, X: Array) -> Array:
        return self.profile(np.einsum("ij,ij->i", X, X))

    def diag_gradient(self, A: Array) -> Array:
        return (2.0 * self.slope(np.einsum("ij,ij->i", A, A)))[:, np.newaxis] * A

    def pullback(self, A: Array, B: Array, K: Array, G: Array) -> Array:
        for rows in row_blocks(*K.shape):
            G[rows] *= self.slope(A[rows] @ B.T)
        out: Array = G @ B
        return out

    def distances(self, A: Array, X: Array) -> tuple[Array, Array]:
        # Always in float64: three large numbers nearly cancel where a_i is close to x_i.
        A, X = A.astype(np.float64, copy=False), X.astype(np.float64, copy=False)
        aa, ax = np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", A, X)
        # For the polynomial what stands under the root of eq. (sub1poly).
        h = self.profile(aa.copy()) + self.diag(X) - 2.0 * self.profile(ax.copy())
        # Both slopes are tau of eq. (sub1ployHQUpdate1) times d.
        gradient = 2.0 * (self.slope(aa)[:, np.newaxis] * A - self.slope(ax)[:, np.newaxis] * X)
        return np.maximum(h, 0.0), gradient


@dataclass(frozen=True)
class RBF(RadialKernel):
    """The Gaussian kernel k(a, b) = exp(-gamma |a - b|^2).

    Parameters
    ----------
    gamma : float, default=1.0
        The inverse of a squared length.

    Examples
    --------
    >>> from kernmend.model.kernels import RBF
    >>> RBF(1.0).diag(np.array([[3.0, 4.0]]))
    array([1.])
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.gamma) and self.gamma > 0):
            raise ValueError(f"gamma must be a positive number, got {self.gamma!r}")

    def profile(self, t: Array) -> Array:
        t *= -self.gamma
        return np.exp(t, out=t)

    def slope(self, k: Array) -> Array:
        return -self.gamma * k

    def gap(self, t: Array) -> Array:
        out: Array = -np.expm1(-self.gamma * t)
        return out


@dataclass(frozen=True)
class Polynomial(DotProductKernel):
    """k(a, b) = (a'b + coef0)^degree, of any real degree >= 1.

    A fractional degree needs a'b + coef0 >= 0. `check` says so for the data; where an iterate leaves that region on
    the way, the base counts as 0, which keeps k and its gradient continuous.

    Parameters
    ----------
    degree : float, default=2.0
        The power.
    coef0 : float, default=1.0
        The constant, >= 0.

    Examples
    --------
    >>> from kernmend.model.kernels import Polynomial
    >>> Polynomial(2, 1.0).gram(np.array([[2.0]]), np.array([[3.0]]))
    array([[49.]])
    """

    degree: float = 2.0
    coef0: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.degree) and self.degree >= 1):
            raise ValueError(f"degree must be a number >= 1, got {self.degree!r}")
        if not (np.isfinite(self.coef0) and self.coef0 >= 0):
            raise ValueError(f"coef0 must be a number >= 0, got {self.coef0!r}")

    @property
    def _fractional(self) -> bool:
        """Whether the degree is not a whole number."""
        return float(self.degree) != round(self.degree)

    def _power(self, u: Array, exponent: float) -> Array:
        """Return (u + coef0)^exponent, with a negative base as 0 for a fractional degree; overwrites `u`."""
        u += self.coef0
        if self._fractional:
            np.maximum(u, 0.0, out=u)
        if exponent == 1.0:
            return u
        if exponent == 2.0:
            return np.square(u, out=u)
        return np.power(u, exponent, out=u)

    def profile(self, u: Array) -> Array:
        return self._power(u, self.degree)

    def slope(self, u: Array) -> Array:
        if self.degree == 1:
            return np.ones_like(u)
        out = self._power(u, self.degree - 1.0)
        out *= self.degree
        return out

    def check(self, X: Array) -> None:
        if not self._fractional:
            return
        base = X @ X.T
        worst = np.unravel_index(int(base.argmin()), base.shape)
        if base[worst] + self.coef0 < 0:
            raise ValueError(
                f"degree={self.degree} is fractional and needs a'b + coef0 >= 0 for all rows, but rows {worst[0]} and "
                f"{worst[1]} give {base[worst] + self.coef0:.3g}: raise coef0 to at least {-1.01 * base[worst]:.3g}, "
                "shift the data to be non-negative, or use an integer degree"
            )


@dataclass(frozen=True)
class Linear(DotProductKernel):
    """k(a, b) = a'b. With it the objective is a relaxation of the linear model, eq. (eq:rpca).

    Examples
    --------
    >>> Linear().gram(np.array([[2.0]]), np.array([[3.0]]))
    array([[6.]])
    """

    def profile(self, u: Array) -> Array:
        return u

    def slope(self, u: Array) -> Array:
        return np.ones_like(u)

    def pullback(self, A: Array, B: Array, K: Array, G: Array) -> Array:
        out: Array = G @ B
        return out

    def distances(self, A: Array, X: Array) -> tuple[Array, Array]:
        difference = np.subtract(A, X, dtype=np.float64)
        return np.einsum("ij,ij->i", difference, difference), 2.0 * difference

    def majoriser(self, A: Array, X: Array) -> Array | None:
        return np.ones(A.shape[0])


@dataclass(frozen=True)
class _CentredRows(FixedRows):
    """For a radial kernel: the rows, near the origin, and their squared norms, computed once."""

    kernel: RadialKernel
    centre: Array
    centred: Array
    norms: Array

    def gram(self, A: Array) -> Array:
        Ac = A - self.centre
        return self.kernel.profile(
            squared_distances_by_norms(Ac, np.einsum("ij,ij->i", Ac, Ac), self.centred, self.norms)
        )

    def pullback(self, A: Array, K: Array, G: Array) -> Array:
        return self.kernel._pullback(A - self.centre, self.centred, K, G)


def auto_gamma(X: Array) -> float:
    """Return 1 / median |x_i - x_j|^2; 1.0 where all rows are equal."""
    median = median_squared_distance(X)
    return 1.0 / median if median > 0 else 1.0


KERNELS: dict[str, Callable[[float, float, float], Kernel]] = {
    "rbf": lambda gamma, degree, coef0: RBF(gamma),
    "poly": lambda gamma, degree, coef0: Polynomial(degree, coef0),
    "linear": lambda gamma, degree, coef0: Linear(),
}
"""The kernels that `kernel=` can name, made of gamma, degree and coef0."""


def make_kernel(
    kernel: str | Kernel, X: Array, *, gamma: float | str, degree: float, coef0: float, width: float = 1.0
) -> Kernel:
    """Return the kernel of that name for rows X, checked on them, or the kernel itself.

    gamma="auto" is `width` / median squared distance.
    """
    made = kernel
    if not isinstance(made, Kernel):
        width_of_rows = width * auto_gamma(X) if isinstance(gamma, str) else float(gamma)
        made = KERNELS[made](width_of_rows, degree, coef0)
    made.check(X)
    return made
