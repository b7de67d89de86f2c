"""Error models: what it costs to move a sample.

An error model knows the observed data. `evaluate(A)` gives the value of E(A; X) and its gradient, `evaluate_rows(A)`
row by row. NaN in X means missing: such an entry costs nothing, whatever stands there in A.

To add one, subclass `RowSum`, which carries what else the estimators need of it: a name, how much it is rounded off,
the unit of its weight lam. Pass the class as `error=`, or add it to `ERROR_MODELS` to give it a name that is accepted
everywhere. `docs/new_error.md` does it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend.model.kernels import Kernel

RowIndex: TypeAlias = slice | NDArray[np.integer[Any]] | NDArray[np.bool_]
"""Some of the rows: a slice, their numbers or a mask."""


class ErrorModel(Protocol):
    """E(A; X), the middle term of the objective."""

    @property
    def X(self) -> Array:
        """The observed data."""

    def rows(self, index: RowIndex) -> "ErrorModel":
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
class Sizes:
    """What is large and small in some data: the kernel, a typical distance of rows, a typical length of phi(x)."""

    kernel: Kernel
    scale: float
    length: float

    def steepness(self, rows: Array) -> float:
        """Return how far a row moves in the kernel space for each unit that it moves in the data, near these rows."""
        step = 1e-3 * self.scale
        shift = np.full_like(rows[:1], step / np.sqrt(rows.shape[1]))
        return float(np.sqrt(np.median(self.kernel.distances(rows + shift, rows)[0]))) / step


class RowSum(ABC):
    """Base of the models: sums over rows, with a length `mu` > 0 below which a difference counts as none.

    A subclass is a frozen dataclass with the fields `X` and `mu`, and writes `evaluate_rows`, and `residuals` if it
    measures elsewhere than in the data; the gradient must vanish where X is missing (`_difference` sees to it).

    Examples
    --------
    >>> from kernmend.model.errors import RowError, RowSum
    >>> issubclass(RowError, RowSum)
    True
    """

    X: Array
    mu: float

    name: ClassVar[str]
    """What `error=` calls it."""
    by_entry: ClassVar[bool] = False
    """Whether it tells single wrong entries; else a row is right or wrong as a whole."""
    measured_in_input: ClassVar[bool] = True
    """Whether it measures in the units of the data, not in the kernel space."""
    smoothing: ClassVar[float] = 1e-3
    """mu where rows are mended one by one, as a share of a typical difference."""
    joint_smoothing: ClassVar[float] = 1e-3
    """mu where all rows move together."""
    forces: ClassVar[tuple[float, ...]] = (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
    """Weights that calibration tries, in units of `unit_of_lam`: no pull of the good rows exceeds 1."""
    joint_forces: ClassVar[tuple[float, ...]] = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.75, 0.85, 0.92, 0.97, 0.99)
    """Those that are tried where all rows move together."""

    @classmethod
    def of(cls, X: Array, sizes: Sizes, smoothing: float) -> "RowSum":
        """Return the model of data; `smoothing` is the share of a typical difference that mu is."""
        typical = sizes.scale / np.sqrt(X.shape[1]) if cls.by_entry else sizes.scale
        return cls(X=X, mu=smoothing * typical)  # type: ignore[call-arg]

    @classmethod
    def unit_of_lam(cls, steepness: float, n_features: int) -> float:
        """Return the weight that holds a row as firmly as weight 1 of `KernelError` does."""
        return steepness / float(np.sqrt(n_features)) if cls.by_entry else steepness

    def rows(self, index: RowIndex) -> Any:
        """Return the model of some of the rows only."""
        return replace(self, X=self.X[index])  # type: ignore[type-var]

    def majoriser(self, A: Array) -> Array | None:
        """Return None: no weights are known, and the alternating solver takes another step."""
        return None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.mu) and self.mu > 0):
            raise ValueError(f"mu must be a positive number, got {self.mu!r}")

    @cached_property
    def missing(self) -> NDArray[np.bool_] | None:
        """Which entries of X are NaN; None where none is."""
        missing = np.isnan(self.X)
        return missing if missing.any() else None

    @abstractmethod
    def evaluate_rows(self, A: Array) -> tuple[Array, Array]: ...

    def residuals(self, A: Array) -> Array:
        """Return how far each row has moved in the data: |a_i - x_i|, or sum_j |a_ij - x_ij| if it tells entries."""
        lengths: Array = np.linalg.norm(self._difference(A), ord=1 if self.by_entry else 2, axis=1)
        return lengths

    def evaluate(self, A: Array) -> tuple[float, Array]:
        values, gradient = self.evaluate_rows(A)
        return float(values.sum()), gradient

    def _difference(self, A: Array) -> Array:
        """Return A - X in float64, 0 where X is missing."""
        difference: Array = np.subtract(A, self.X, dtype=np.float64)
        if self.missing is not None:
            difference[self.missing] = 0.0
        return difference


@dataclass(frozen=True)
class RowError(RowSum):
    """E(A; X) = sum_i sqrt(|a_i - x_i|^2 + mu^2): a few samples are wrong, measured in the units of the data.

    Missing entries are left out of the norm.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The data as they are; NaN is missing.
    mu : float
        The difference below which a row counts as not changed.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 3.0], [1.0, np.nan]])
    >>> RowError(X, mu=1e-9).residuals(np.array([[4.0, 0.0], [1.0, 7.0]]))
    array([5., 0.])
    """

    X: Array
    mu: float

    name: ClassVar[str] = "rows"

    def evaluate_rows(self, A: Array) -> tuple[Array, Array]:
        gradient = self._difference(A)
        root: Array = np.sqrt(np.einsum("ij,ij->i", gradient, gradient) + self.mu**2)
        gradient /= root[:, np.newaxis]
        return root, gradient

    def majoriser(self, A: Array) -> Array | None:
        if self.missing is not None:  # the step that uses it has no x_i to go to
            return None
        weight: Array = 0.5 / self.evaluate_rows(A)[0]  # the tangent of the root, which is concave
        return weight


@dataclass(frozen=True)
class EntryError(RowSum):
    """E(A; X) = sum_ij sqrt((a_ij - x_ij)^2 + mu^2): some entries are wrong, such as spikes or dead pixels.

    Missing entries are left out of the sum.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The data as they are; NaN is missing.
    mu : float
        The difference below which an entry counts as not changed.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 3.0], [1.0, np.nan]])
    >>> EntryError(X, mu=1e-9).residuals(np.array([[4.0, 0.0], [1.0, 7.0]]))
    array([7., 0.])
    """

    X: Array
    mu: float

    name: ClassVar[str] = "entries"
    by_entry: ClassVar[bool] = True
    smoothing: ClassVar[float] = 1e-2
    joint_smoothing: ClassVar[float] = 3e-3
    forces: ClassVar[tuple[float, ...]] = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
    joint_forces: ClassVar[tuple[float, ...]] = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6)

    def evaluate_rows(self, A: Array) -> tuple[Array, Array]:
        gradient = self._difference(A)
        root: Array = np.hypot(gradient, self.mu)
        gradient /= root
        if self.missing is not None:
            root[self.missing] = 0.0
        return root.sum(axis=1), gradient


@dataclass(frozen=True)
class KernelError(RowSum):
    """E(A; X) = sum_i sqrt(|phi(a_i) - phi(x_i)|^2 + mu^2): a few samples are wrong, measured in the kernel space.

    A missing entry of x_i takes the value that a_i has there: for a radial kernel the distance is that of the observed
    entries.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : ndarray of shape (n_samples, n_features)
        The data as they are; NaN is missing.
    mu : float
        Rounds off the kink at a_i = x_i: the distance below which a row counts as not moved.

    Examples
    --------
    >>> import numpy as np
    >>> from kernmend.model.kernels import Linear
    >>> KernelError(Linear(), np.zeros((1, 2)), mu=1e-9).residuals(np.array([[3.0, 4.0]]))
    array([5.])
    """

    kernel: Kernel
    X: Array
    mu: float

    name: ClassVar[str] = "kernel"
    measured_in_input: ClassVar[bool] = False
    joint_smoothing: ClassVar[float] = 3e-4

    @classmethod
    def of(cls, X: Array, sizes: Sizes, smoothing: float) -> "KernelError":
        return cls(sizes.kernel, X, smoothing * sizes.length)

    @classmethod
    def unit_of_lam(cls, steepness: float, n_features: int) -> float:
        return 1.0

    def _distances(self, A: Array) -> tuple[Array, Array]:
        """Return h_i and its gradient in a_i, also by way of the entries that x_i takes from a_i."""
        if self.missing is None:
            return self.kernel.distances(A, self.X)
        X = np.where(self.missing, A, self.X)
        h, gradient = self.kernel.distances(A, X)
        by_x = self.kernel.distances(X, A)[1]  # h is symmetric
        gradient[self.missing] += by_x[self.missing]
        return h, gradient

    def evaluate_rows(self, A: Array) -> tuple[Array, Array]:
        h, gradient = self._distances(A)
        root: Array = np.sqrt(h + self.mu**2)  # one over beta of eq. (sub1expHQUpdate2), delta of (sub1ployHQUpdate2)
        gradient *= (0.5 / root)[:, np.newaxis]
        return root, gradient

    def residuals(self, A: Array) -> Array:
        root: Array = np.sqrt(self._distances(A)[0])
        return root

    def majoriser(self, A: Array) -> Array | None:
        # sqrt is concave, so its tangent majorises: beta_i / 2 of eq. (sub1expHQUpdate2) times the kernel's own
        # weight, which for the Gaussian is 2 gamma p_i of (sub1expHQUpdate1). The paper prints twice this.
        weight = None if self.missing is not None else self.kernel.majoriser(A, self.X)
        if weight is None:
            return None
        scaled: Array = 0.5 * weight / np.sqrt(self._distances(A)[0] + self.mu**2)
        return scaled


@dataclass(frozen=True)
class SquaredError(RowSum):
    """E(A; X) = sum_ij (a_ij - x_ij)^2 / mu^2: every entry is a little wrong, by noise of about `mu`.

    >>> import numpy as np
    >>> SquaredError(np.array([[0.0, 3.0]]), mu=2.0).evaluate(np.array([[2.0, 3.0]]))[0]
    1.0
    """

    X: Array
    mu: float

    def evaluate_rows(self, A: Array) -> tuple[Array, Array]:
        difference = self._difference(A) / self.mu
        return np.einsum("ij,ij->i", difference, difference), (2.0 / self.mu) * difference

    def majoriser(self, A: Array) -> Array | None:
        return None if self.missing is not None else np.full(A.shape[0], self.mu**-2.0)


@dataclass(frozen=True)
class BoundedRowError(RowSum):
    """E(A; X) = sum_i t_i / (t_i + mu^2), t_i = |a_i - x_i|^2: a wrong sample costs 1 at most, however far it moves.

    The function of Geman and McClure. `mu` is the distance at which half of that is paid.

    >>> import numpy as np
    >>> BoundedRowError(np.array([[0.0, 3.0]]), mu=2.0).evaluate(np.array([[2.0, 3.0]]))[0]
    0.5
    """

    X: Array
    mu: float

    def evaluate_rows(self, A: Array) -> tuple[Array, Array]:
        gradient = self._difference(A)
        t = np.einsum("ij,ij->i", gradient, gradient)
        whole = t + self.mu**2
        gradient *= (2.0 * np.square(self.mu / whole))[:, np.newaxis]
        return t / whole, gradient

    def majoriser(self, A: Array) -> Array | None:
        if self.missing is not None:
            return None
        weight: Array = np.square(self.mu / (np.square(self.residuals(A)) + self.mu**2))  # concave in t
        return weight


@dataclass(frozen=True)
class BoundedEntryError(RowSum):
    """E(A; X) = sum_ij t_ij / (t_ij + mu^2), t_ij = (a_ij - x_ij)^2: each wrong entry costs 1 at most.

    The function of Geman and McClure. `mu` is the difference at which half of that is paid.

    >>> import numpy as np
    >>> BoundedEntryError(np.array([[0.0, 3.0]]), mu=2.0).evaluate(np.array([[2.0, 3.0]]))[0]
    0.5
    """

    X: Array
    mu: float

    by_entry: ClassVar[bool] = True

    def evaluate_rows(self, A: Array) -> tuple[Array, Array]:
        gradient = self._difference(A)
        t = np.square(gradient)
        whole = t + self.mu**2
        gradient *= 2.0 * self.mu**2 / np.square(whole)
        return (t / whole).sum(axis=1), gradient


ERROR_MODELS: dict[str, type[RowSum]] = {model.name: model for model in (RowError, EntryError, KernelError)}
"""The models that `error=` can name."""


def error_model(error: "str | type[RowSum]") -> type[RowSum]:
    """Return the class of a name, or the class itself.

    >>> error_model("entries") is EntryError
    True
    """
    return ERROR_MODELS[error] if isinstance(error, str) else error
