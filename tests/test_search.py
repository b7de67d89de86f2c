"""The search: never worse than the default by its own criterion, the same in parallel, interruptible."""

import numpy as np
import pytest

from kernmend import KernelLowRank, KernelRecovery, RecoverySearch, RobustPCA
from kernmend.datasets import make_circle, make_surface
from kernmend.datasets.corruption import uniform_outliers


def outliers(seed=0, n=150):
    surface = make_surface("sphere", n, random_state=seed)
    X, bad = uniform_outliers(surface.X, 0.1, low=-2.0, high=2.0, random_state=seed + 1)
    return surface, X, bad


def test_the_first_candidate_is_the_default_and_the_best_is_no_worse():
    surface, X, _ = outliers()
    search = RecoverySearch(n_iter=12, n_splits=2).fit(X)
    default = KernelRecovery().fit(X)
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == 13
    assert search.cv_results_["params"][0] == {
        "gamma": default.gamma_,
        "lam": default.lam_,
        "rho": default.rho_,
        "error": default.error_,
    }
    assert search.best_score_ == scores.max()
    assert search.best_params_ == search.cv_results_["params"][int(np.argmax(scores))]
    assert search.cv_results_["rank_test_score"][int(np.argmax(scores))] == 1
    assert (search.gamma_, search.lam_, search.error_) == tuple(
        search.best_params_[k] for k in ("gamma", "lam", "error")
    )
    np.testing.assert_array_equal(search.outliers_, default.outliers_)
    np.testing.assert_array_equal(search.recovered_[~search.outliers_], X[~search.outliers_])
    left = surface.distance(search.recovered_[search.outliers_]).mean()
    assert left < 0.3 * surface.distance(X[search.outliers_]).mean()


def test_in_parallel_the_same():
    _, X, _ = outliers(1, 80)
    one, two = (RecoverySearch(n_iter=3, n_splits=2, n_jobs=jobs, random_state=3).fit(X) for jobs in (1, 2))
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], rtol=1e-6)
    np.testing.assert_allclose(one.recovered_, two.recovered_, atol=1e-6)


def test_what_is_given_is_kept():
    _, X, _ = outliers(2, 100)
    estimator = KernelRecovery(gamma=0.3, error="kernel", lam=0.2)
    search = RecoverySearch(estimator=estimator, n_iter=4, n_splits=1).fit(X)
    assert all((p["gamma"], p["error"], p["lam"]) == (0.3, "kernel", 0.2) for p in search.cv_results_["params"])
    assert len({p["rho"] for p in search.cv_results_["params"]}) == 5


def test_single_wrong_cells_need_no_search():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 8)) + 0.05 * rng.standard_normal((80, 8))
    X[3, 5] += 20.0
    search = RecoverySearch(n_iter=3).fit(X)
    assert search.outliers_.nonzero()[0].tolist() == [3]
    assert not search.whole_rows_.any()
    assert search.best_params_ == search.cv_results_ == {}


def test_clean_data_needs_no_search():
    X = make_circle(80, random_state=0).X
    search = RecoverySearch(n_iter=3).fit(X)
    assert search.best_params_ == search.cv_results_ == {}
    np.testing.assert_array_equal(search.recovered_, X)


def test_ctrl_c_keeps_the_best_so_far(monkeypatch):
    _, X, _ = outliers(3, 100)

    def stopping(stop):
        seen = []

        def cost(costs, settings):
            if len(seen) == stop:
                raise KeyboardInterrupt
            seen.append(settings)
            return [each.parts(settings) for each in costs]

        return cost

    monkeypatch.setattr("kernmend.estimators._search._cost", stopping(3))
    with pytest.warns(UserWarning, match="the best of 3 of 9 settings"):
        search = RecoverySearch(n_iter=8, n_splits=1).fit(X)
    assert search.stop_reason_ == "interrupted"
    assert len(search.cv_results_["params"]) == 3
    assert np.isfinite(search.recovered_).all()


@pytest.mark.parametrize("estimator", [RobustPCA(), KernelLowRank()])
def test_other_estimators_are_refused(estimator):
    with pytest.raises(ValueError, match="estimator must be a KernelRecovery, got"):
        RecoverySearch(estimator=estimator).fit(np.eye(4))


@pytest.mark.parametrize("name", ["n_iter", "n_splits"])
def test_counts_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 1, got 0"):
        RecoverySearch(**{name: 0}).fit(np.eye(4))
