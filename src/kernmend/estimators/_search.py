"""More time for better parameters."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from kernmend._validation import check_count, check_known, check_recovery
from kernmend.estimators._base import Recovery, parameters
from kernmend.estimators._kernel_recovery import KernelRecovery
from kernmend.estimators._trust import Explained
from kernmend.model.errors import RowSum
from kernmend.model.kernels import RBF, Kernel
from kernmend.repair.calibrate import CUTOFFS, REFITS, Calibration, Cost, Evidence, calibrate
from kernmend.repair.mender import Mender, Settings

# Share of the settings that are drawn around the choice that `KernelRecovery` makes by itself.
NEARBY = 0.5
# Standard deviation of the logarithm of each number of such a setting.
STEP = 0.8


@parameters
class RecoverySearch(Explained):
    """`KernelRecovery` with parameters from a longer search, by the criterion that it uses itself, without labels.

    What mending takes off the flagged rows is injected into good rows that were held out, and the parameters that bring
    those back best are taken. `KernelRecovery` does this once and walks from one setting to the next; the search draws
    many settings, half of them around that choice, and judges each on several sets of held-out rows.

    Parameters
    ----------
    estimator : KernelRecovery, default=None
        What to fit; parameters that are not "auto" are kept. None is `KernelRecovery()`.
    n_iter : int, default=40
        Settings to try, besides the choice that the estimator makes by itself.
    n_splits : int, default=3
        Sets of held-out rows that each is tried on.
    n_jobs : int, default=None
        Processes, as in joblib: None is 1, -1 all cores.
    random_state : int, RandomState instance or None, default=None
        Of the settings and the rows. None means 0: always the same result.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    best_estimator_ : KernelRecovery
        Fitted with the best settings. What it has learned (`recovered_`, `outliers_`, ...) is here too.
    best_params_ : dict
        gamma, lam, rho and error of the best settings; empty if no row is wrong as a whole, so that nothing is to be
        chosen.
    best_score_ : float
        Minus the sum of what they leave of the injected error, as a share, and of the share of the threshold that
        mended rows still reach: 0 is perfect.
    cv_results_ : dict
        As in scikit-learn's searches: "params", "mean_test_score", "std_test_score", "rank_test_score". The first is
        the choice that the estimator makes by itself.
    recovered_, outlier_scores_, outliers_, threshold_, suspects_, objective_, n_iter_, stop_reason_, rank_
        As in `KernelRecovery`.
    whole_rows_, half_widths_, unsure_, changes_, explanations_, confidence_, entry_confidence_
        As in `KernelRecovery`.

    Examples
    --------
    >>> from kernmend import RecoverySearch
    >>> from kernmend.datasets.corruption import uniform_outliers
    >>> from kernmend.datasets import make_circle
    >>> X, _ = uniform_outliers(make_circle(80, random_state=0).X, 0.1, random_state=1)
    >>> search = RecoverySearch(n_iter=4, n_splits=2).fit(X)
    >>> bool(search.best_score_ >= search.cv_results_["mean_test_score"][0])
    True
    """

    estimator: KernelRecovery | None = None
    n_iter: int = 40
    n_splits: int = 3
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    _allow_far = True
    _takes_dask = True
    _saved: ClassVar[tuple[str, ...]] = (
        *Recovery._saved,
        *("best_estimator_", "best_params_", "best_score_", "cv_results_"),
        *("kernel_", "gamma_", "lam_", "rho_", "error_", "calibration_error_"),
        *("suspects_", "entry_scores_", "entry_outliers_", "whole_rows_", "unsure_", "half_widths_"),
    )

    def fit(self, X: Any, y: Any = None, *, good: Any = None, wrong: Any = None) -> "RecoverySearch":
        """Find the rows that are wrong, search for the best parameters, and mend.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The corrupted data; NaN means missing, inf is an error.
        y : None
            Ignored; there for the pipelines of scikit-learn.
        good, wrong : array-like of bool, shape (n_samples,), optional
            Rows that you know, as in `KernelRecovery.fit`.

        Returns
        -------
        RecoverySearch
            The estimator itself, fitted.
        """
        for name in ("n_iter", "n_splits"):
            check_count(name, getattr(self, name))
        best = KernelRecovery() if self.estimator is None else clone(self.estimator)
        if not isinstance(best, KernelRecovery):
            raise ValueError(f"estimator must be a KernelRecovery, got {best!r}")
        check_recovery(best)
        self._forget()
        given = self._validate(X, reset=True, ensure_min_samples=2)
        self.cv_results_: dict[str, Any] = {}
        self.best_params_: dict[str, Any] = {}
        self.best_score_ = 0.0
        known = check_known(good, wrong, len(given))
        with self._far_values(given):
            best._learn_from(best._checked(X), *known, choose=self._choose)
        best._remember(given)
        self.best_estimator_ = best
        for name, value in vars(best).items():
            if name.endswith("_"):
                setattr(self, name, value)
        self._remember(given)
        if self.stop_reason_ == "interrupted":
            tried = len(self.cv_results_.get("params", []))
            warnings.warn(f"interrupted: the best of {tried} of {self.n_iter + 1} settings was taken", stacklevel=2)
        return self

    def _choose(
        self, evidence: Evidence, *, kernels: Sequence[Kernel], errors: Sequence[type[RowSum]], seed: int, callback: Any
    ) -> Calibration:
        """Return the best settings; the same call as `calibrate`, which has the first word."""
        first = calibrate(evidence, kernels=kernels, errors=errors, seed=seed, callback=callback)
        if first.interrupted:
            return first
        own = self._seed()
        injections = [evidence.hold_out(own + split) for split in range(1, self.n_splits + 1)]
        costs = [injection.cost(first.settings, whole=first.settings.grow > 0) for injection in injections]
        draws = _draw(first.settings, evidence, kernels, errors, np.random.default_rng(own))
        settings = [first.settings, *(next(draws) for _ in range(self.n_iter))]
        tried = self._try(costs, settings)
        table = np.array([[sum(parts) for parts in each] for each in tried])
        means = table.mean(axis=1)
        best = int(means.argmin())
        described = [_describe(evidence.mender, each) for each in settings[: len(tried)]]
        self.cv_results_ = {
            "params": described,
            "mean_test_score": -means,
            "std_test_score": table.std(axis=1),
            "rank_test_score": means.argsort(kind="stable").argsort(kind="stable") + 1,
        }
        self.best_params_, self.best_score_ = described[best], -float(means[best])
        share = float(np.mean([parts[0] for parts in tried[best]]))
        return Calibration(settings[best], share, len(tried) < len(settings))

    def _try(self, costs: list[Cost], settings: list[Settings]) -> list[list[tuple[float, float]]]:
        """Return the two parts of the cost of each of the settings on each split; fewer than all after Ctrl-C."""
        jobs = (delayed(_cost)(costs, each) for each in settings)
        results = Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs)
        tried: list[list[tuple[float, float]]] = []
        with self._counting("searching", len(settings)) as callback:
            try:
                for each in results:
                    tried.append(each)
                    if callback is not None:
                        callback(len(tried), float(np.mean([sum(parts) for parts in each])))
            except KeyboardInterrupt:
                if not tried:
                    raise
        return tried


def _cost(costs: list[Cost], settings: Settings) -> list[tuple[float, float]]:
    return [cost.parts(settings) for cost in costs]


def _draw(
    first: Settings,
    evidence: Evidence,
    kernels: Sequence[Kernel],
    errors: Sequence[type[RowSum]],
    rng: np.random.Generator,
) -> Iterator[Settings]:
    """Yield random settings without end: near the first ones, or anywhere in the ranges that `calibrate` walks."""

    def number(now: float, values: Sequence[float], near: bool) -> float:
        if near:
            return now * float(np.exp(STEP * rng.standard_normal()))
        return float(np.exp(rng.uniform(np.log(min(values)), np.log(max(values)))))

    while True:
        near = rng.uniform() < NEARBY
        error = first.error if near else errors[int(rng.integers(len(errors)))]
        kernel = first.kernel
        if len(kernels) > 1 and isinstance(kernel, RBF):
            kernel = RBF(number(kernel.gamma, [each.gamma for each in kernels if isinstance(each, RBF)], near))
        refit, grow = REFITS[rng.integers(len(REFITS))] if error.by_entry else (0.0, 0)
        yield replace(
            first,
            kernel=kernel,
            error=error,
            cutoff=first.cutoff if evidence.mender.fixed_cutoff is not None else number(first.cutoff, CUTOFFS, near),
            force=first.force if evidence.mender.fixed_lam is not None else number(first.force, error.forces, near),
            refit=refit,
            grow=grow,
        )


def _describe(mender: Mender, settings: Settings) -> dict[str, Any]:
    return {
        "gamma": getattr(settings.kernel, "gamma", None),
        "lam": mender.lam(settings),
        "rho": mender.rho(settings),
        "error": settings.error.name,
    }
