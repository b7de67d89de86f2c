"""Data, kernels and checks that several test files share."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from kernmend import KernelRecovery
from kernmend.datasets import make_cubic_surface
from kernmend.datasets.corruption import gaussian_noise
from kernmend.model.kernels import RadialKernel

ERRORS = ["rows", "entries", "kernel"]
IGNORE_MAX_ITER = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@dataclass(frozen=True)
class RationalQuadratic(RadialKernel):
    """k = (1 + gamma |a - b|^2 / alpha)^(-alpha), the kernel of docs/new_kernel.md: one that is not built in."""

    gamma: float = 1.0
    alpha: float = 1.0

    def profile(self, t):
        return (1.0 + self.gamma * t / self.alpha) ** -self.alpha

    def slope(self, k):
        return -self.gamma * k ** (1.0 + 1.0 / self.alpha)


def noisy_surface(seed=0, n=150, d=20, fraction=0.1):
    truth = make_cubic_surface(n, d, random_state=seed)
    X, bad = gaussian_noise(truth, fraction, random_state=seed)
    return truth, X, bad


def with_holes(X, share=0.05, seed=0):
    out = X.copy()
    holes = np.random.default_rng(seed).random(X.shape) < share
    holes[np.arange(len(X)), np.random.default_rng(seed + 1).integers(0, X.shape[1], len(X))] = False
    out[holes] = np.nan
    return out


@cache
def fitted(seed):
    """A default fit, shared by tests that only read it."""
    truth, X, bad = noisy_surface(seed)
    return KernelRecovery().fit(X), truth, X, bad


def f1(found, truth):
    return 2.0 * np.sum(found & truth) / (found.sum() + truth.sum())


def check_sound(est, X):
    """What holds of every fit of `KernelRecovery`."""
    assert est.recovered_.shape == X.shape
    assert np.isfinite(est.recovered_).all()
    assert np.isfinite(est.outlier_scores_).all()
    kept = ~est.outliers_[:, np.newaxis] & ~np.isnan(X)
    np.testing.assert_array_equal(est.recovered_[kept], X[kept])
    assert np.all(np.diff(est.objective_) <= 1e-12 * abs(est.objective_[0]))
    assert est.objective_.shape == (est.n_iter_ + 1,)
    assert 0 < est.rank_ <= len(X)
    assert est.lam_ > 0
    assert est.rho_ > 0
    assert f"{est.outliers_.sum()} of {len(X)} rows flagged" in est.summary()
