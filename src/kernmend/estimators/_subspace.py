"""What the estimators of a kernel subspace share: their parameters, scores and flags."""

import numbers
from typing import ClassVar

import numpy as np

from kernmend._typing import Array
from kernmend._validation import check_auto, check_choice, check_common, check_kernel, real
from kernmend.detect.detector import ALPHA, LOG10
from kernmend.detect.groups import TwoGroups
from kernmend.detect.rows import SURE
from kernmend.estimators._base import NewRowsRecovery, Recovery, parameters
from kernmend.model import tuning
from kernmend.model.kernels import Kernel, make_kernel

# Least spread of the logarithms of good distances: where most rows lie in the subspace, these differ by rounding.
LEAST = 0.1


@parameters
class SubspaceRecovery(NewRowsRecovery):
    """Base of estimators that find a subspace of the kernel space, and score rows by a distance: `_distances`."""

    kernel: str | Kernel = "rbf"
    gamma: float | str = "auto"
    degree: float = 2
    coef0: float = 1.0
    n_components: int | float | str = "auto"
    contamination: float | str = "auto"
    max_iter: int = 200
    tol: float = 1e-6
    verbose: int = 0

    _share: ClassVar[float]
    """Of the variance, which n_components="auto" keeps."""
    _saved: ClassVar[tuple[str, ...]] = (*Recovery._saved, "kernel_", "gamma_", "_groups")

    def _score_rows(self, X: Array) -> Array:
        return self._scores(self._distances(X.astype(np.float64, copy=False)))

    def _distances(self, X: Array) -> Array:
        """Return how far off each row is, squared, and above 0."""
        raise NotImplementedError

    def _flag(self, distances: Array, least: float = 0.0) -> None:
        """Store the scores and which are too high: those that form a group of their own, or the given share.

        No row with a distance (squared) up to `least` is flagged, unless a share is given.
        """
        self._groups = TwoGroups.of(_log(distances), least=LEAST)
        self.outlier_scores_ = self._scores(distances)
        chance = float(np.log10(distances.size / ALPHA))
        sure = float(self._groups.u(np.array([self._groups.threshold(SURE)]))[0]) / LOG10
        self._set_flags(max(min(sure, chance), float(self._scores(np.array([least]))[0])))

    def _scores(self, distances: Array) -> Array:
        """Return -log10 of the chance of a good row being as far off."""
        return self._groups.u(_log(distances)) / LOG10

    def _make_kernel(self, X: Array, width: float = 1.0) -> Kernel:
        return make_kernel(self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0, width=width)

    def _count_components(self, variances: Array) -> int:
        """Return how many components are wanted, by the rule, the number or the share that was given."""
        if isinstance(self.n_components, str):
            return tuning.auto_components(variances, self._share)
        if isinstance(self.n_components, numbers.Integral):
            return min(int(self.n_components), variances.size)
        return tuning.components_of_share(variances, self.n_components)

    def _check_parameters(self) -> None:
        """Raise ValueError or TypeError that names the parameter, what it must be and what it is."""
        check_kernel(self)
        check_auto("gamma", self.gamma)
        count = self.n_components
        if isinstance(count, str):
            check_choice("n_components", count, ("auto",))
        elif not (0 < real(count) < 1 or (real(count) >= 1 and isinstance(count, numbers.Integral))):
            raise ValueError(
                f"n_components must be 'auto', an integer >= 1 or a share of variance between 0 and 1, got {count!r}"
            )
        check_common(self)


def _log(distances: Array) -> Array:
    out: Array = np.log(np.maximum(distances, np.finfo(np.float64).tiny))
    return out
