"""The names and defaults that users see, and no parameter without an effect."""

import inspect
from functools import cache

import numpy as np
import pytest
from cases import IGNORE_MAX_ITER
from test_common import CLASSES, data

from kernmend import (
    GraphRobustPCA,
    KernelLowRank,
    KernelPCADenoiser,
    KernelRecovery,
    LowRankRepresentation,
    OutlierPursuit,
    RecoverySearch,
    RobustKernelPCA,
    RobustPCA,
)
from kernmend.datasets import make_circle
from kernmend.datasets.corruption import uniform_outliers

pytestmark = pytest.mark.usefixtures("quick_settings")

X = uniform_outliers(make_circle(60, random_state=0).X, 0.1, random_state=1).X
TABLE = data(n=40, d=8)[1]  # of two dimensions, a tenth of the rows random
LINEAR = (OutlierPursuit, RobustPCA, LowRankRepresentation, GraphRobustPCA)
BOTH = {
    "kernel": "rbf",
    "gamma": "auto",
    "degree": 2,
    "lam": "auto",
    "rho": "auto",
    "bounds": None,
    "max_iter": 200,
    "tol": 1e-6,
    "random_state": None,
    "verbose": 0,
}
RECOVERY = BOTH | {
    "coef0": 1.0,
    "error": "auto",
    "contamination": "auto",
    "alpha": 0.05,
    "scale": "auto",
    "landmarks": "auto",
    "interval": 0.9,
    "unsure": "mend",
}
LOW_RANK = BOTH | {
    "coef0": "auto",
    "error": "kernel",
    "penalty": "auto",
    "solver": "reduced",
    "init": "auto",
    "scale": None,
}


@pytest.mark.parametrize(("make", "expected"), [(KernelRecovery, RECOVERY), (KernelLowRank, LOW_RANK)])
def test_names_and_defaults(make, expected):
    assert make().get_params() == expected


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (KernelRecovery, ["self", "X", "y", "good", "wrong"]),
        (KernelLowRank, ["self", "X", "y", "gram", "start_gram"]),
    ],
)
def test_what_fit_takes(make, expected):
    taken = inspect.signature(make.fit).parameters
    assert list(taken) == expected
    for name in expected[3:]:
        assert (taken[name].kind, taken[name].default) == (inspect.Parameter.KEYWORD_ONLY, None)


def given(**others):
    """Numbers for what would be chosen, so that a fit is quick."""
    return {"gamma": 1.0, "lam": 0.3, "rho": 1e4} | others


def found(**others):
    """The same for `KernelRecovery`, without intervals."""
    return given(interval=None) | others


@cache
def fitted(make, params):
    return make(**dict(params)).fit(TABLE if make in LINEAR else X)


RIDGE = {"preimage": "ridge"}
SEARCH = {"n_iter": 2, "n_splits": 1}


def linear(**others):
    """The parameters that the linear models share."""
    return {
        "lam": ({}, 0.2, 0.5, "recovered_"),
        "contamination": ({}, "auto", 0.0, "outliers_"),
        "max_iter": ({}, 1000, 3, "n_iter_"),
        "tol": ({}, 1e-6, 1e-2, "n_iter_"),
        **others,
    }


def scores(search):
    return search.cv_results_["mean_test_score"]


# For each parameter: the others, two values of it, and what of a fit has to differ between them.
EFFECTS = {
    KernelRecovery: {
        "kernel": (found(), "rbf", "linear", "recovered_"),
        "gamma": (found(), 1.0, 3.0, "recovered_"),
        "degree": (found(kernel="poly"), 2, 3, "recovered_"),
        "coef0": (found(kernel="poly"), 1.0, 3.0, "recovered_"),
        "lam": (found(), 0.3, 0.9, "recovered_"),
        "rho": (found(), 1e4, 1e2, "recovered_"),
        "error": (found(), "rows", "kernel", "recovered_"),
        "contamination": (found(), "auto", 0.3, "outliers_"),
        "alpha": (found(), 0.05, 1.0, "threshold_"),
        "bounds": (found(), None, (-0.5, 0.5), "recovered_"),
        "scale": (found(), None, (1.0, 3.0), "recovered_"),
        "landmarks": (found(), None, 40, "outlier_scores_"),
        "interval": (given(), 0.9, 0.5, "half_widths_"),
        "unsure": (given(), "mend", "keep", "recovered_"),
        "max_iter": (found(), 200, 1, "n_iter_"),
        "tol": (found(), 1e-6, 0.5, "n_iter_"),
        "random_state": (found(landmarks=40), 0, 1, "outlier_scores_"),
    },
    KernelLowRank: {
        "kernel": (given(), "rbf", "linear", "recovered_"),
        "gamma": (given(), 1.0, 3.0, "recovered_"),
        "degree": (given(kernel="poly", coef0=1.0), 2, 3, "recovered_"),
        "coef0": (given(kernel="poly"), 1.0, 3.0, "recovered_"),
        "lam": (given(), 0.3, 0.9, "recovered_"),
        "rho": (given(), 1e4, 1e2, "recovered_"),
        "error": (given(), "kernel", "rows", "recovered_"),
        "penalty": (given(rho="auto", error="entries"), "nuclear", "schatten", "recovered_"),
        "solver": (given(max_iter=5), "reduced", "alternating", "recovered_"),
        "init": (given(), "data", "zeros", "objective_"),
        "bounds": (given(), None, (-0.5, 0.5), "recovered_"),
        "scale": (given(), None, (1.0, 3.0), "recovered_"),
        "max_iter": (given(), 200, 3, "n_iter_"),
        "tol": (given(), 1e-6, 0.5, "n_iter_"),
        "random_state": ({}, 0, 1, "choice_cost_"),
    },
    OutlierPursuit: linear(noise=({}, 0.0, 0.1, "recovered_")),
    RobustPCA: linear(noise=({}, 0.0, 0.1, "recovered_"), rank=({}, None, 1, "recovered_")),
    LowRankRepresentation: linear(dictionary=({}, None, tuple(map(tuple, TABLE[:20])), "coefficients_")),
    GraphRobustPCA: linear(
        penalty=({}, "nuclear", "graphs", "recovered_"),
        gamma=({}, 0.1, 1.0, "recovered_"),
        feature_gamma=({"penalty": "graphs"}, 0.1, 1.0, "recovered_"),
        n_neighbors=({}, 5, 2, "recovered_"),
    ),
    KernelPCADenoiser: {
        "kernel": (RIDGE, "rbf", "linear", "recovered_"),
        "gamma": ({}, 1.0, 3.0, "recovered_"),
        "degree": (RIDGE | {"kernel": "poly"}, 2, 3, "recovered_"),
        "coef0": (RIDGE | {"kernel": "poly"}, 1.0, 3.0, "recovered_"),
        "n_components": ({}, 2, 5, "rank_"),
        "contamination": ({}, "auto", 0.3, "outliers_"),
        "max_iter": ({}, 200, 2, "n_iter_"),
        "tol": ({}, 1e-6, 1e-2, "n_iter_"),
        "preimage": ({}, "fixed-point", "ridge", "recovered_"),
        "alpha": (RIDGE, 0.01, 1.0, "recovered_"),
    },
    RobustKernelPCA: {
        "kernel": ({}, "rbf", "linear", "recovered_"),
        "gamma": ({}, 1.0, 3.0, "recovered_"),
        "degree": ({"kernel": "poly", "n_components": 2}, 2, 3, "recovered_"),
        "coef0": ({"kernel": "poly", "n_components": 2}, 1.0, 3.0, "recovered_"),
        "n_components": ({}, 2, 5, "rank_"),
        "contamination": ({}, "auto", 0.3, "outliers_"),
        "max_iter": ({}, 500, 2, "n_iter_"),
        "tol": ({}, 1e-4, 1e-1, "n_iter_"),
        "error": ({}, "rows", "noise", "recovered_"),
        "C": ({}, 0.1, 10.0, "recovered_"),
        "sigma": ({}, 0.1, 1.0, "recovered_"),
        "joint": ({}, True, False, "recovered_"),
        "bounds": ({}, None, (-0.5, 0.5), "recovered_"),
    },
    RecoverySearch: {
        "estimator": (SEARCH, KernelRecovery(error="rows"), KernelRecovery(error="kernel"), "recovered_"),
        "n_iter": (SEARCH, 2, 4, scores),
        "n_splits": (SEARCH, 1, 2, scores),
        "random_state": (SEARCH, 0, 1, scores),
    },
}
# What changes how the work is done, and nothing of the result.
WITHOUT = {"verbose", "n_jobs"}
CASES = [
    pytest.param(make, name, *case, id=f"{make.__name__}-{name}")
    for make, cases in EFFECTS.items()
    for name, case in cases.items()
]


@pytest.mark.parametrize(("make", "name", "others", "one", "other", "differs"), CASES)
@IGNORE_MAX_ITER
def test_no_parameter_is_dead(make, name, others, one, other, differs):
    fits = (fitted(make, tuple(sorted((others | {name: value}).items()))) for value in (one, other))
    results = [differs(est) if callable(differs) else getattr(est, differs) for est in fits]
    assert np.shape(results[0]) != np.shape(results[1]) or not np.allclose(*results, rtol=0, atol=1e-5)


@IGNORE_MAX_ITER
@pytest.mark.parametrize("make", [KernelRecovery, KernelLowRank])
def test_what_was_given_is_what_was_used(make):
    X = make_circle(40, random_state=0).X
    X[7] = 0.4
    est = make(gamma=0.7, lam=0.3, rho=12345.0, error="rows", max_iter=20, tol=0.1).fit(X)
    assert (est.gamma_, est.lam_, est.rho_, est.error_) == (0.7, 0.3, 12345.0, "rows")


def test_flags_do_not_depend_on_how_rows_are_mended():
    """As the docstring says: kernel, gamma and what else belongs to mending change no score and no threshold."""
    first = fitted(KernelRecovery, tuple(sorted(found().items())))
    for name in ("kernel", "gamma", "degree", "coef0", "lam", "rho", "error", "bounds", "max_iter", "tol"):
        others, one, other, _ = EFFECTS[KernelRecovery][name]
        for value in (one, other):
            est = fitted(KernelRecovery, tuple(sorted((others | {name: value}).items())))
            np.testing.assert_array_equal(est.outlier_scores_, first.outlier_scores_)
            assert est.threshold_ == first.threshold_


def test_intervals_do_not_change_what_is_mended():
    without, with_them = (
        fitted(KernelRecovery, tuple(sorted(each.items()))) for each in (found(), given(interval=0.9))
    )
    np.testing.assert_array_equal(with_them.recovered_, without.recovered_)
    assert (with_them.half_widths_ > 0).any()
    assert not hasattr(without, "half_widths_")


@pytest.mark.parametrize("make", CLASSES.values(), ids=list(CLASSES))
def test_every_parameter_is_tried(make):
    assert EFFECTS[make].keys() == make().get_params().keys() - WITHOUT


BARS = {"KernelPCADenoiser": "pre-images", "KernelRecovery": "calibrating", "RecoverySearch": "searching"}


@pytest.mark.parametrize("make", CLASSES.values(), ids=list(CLASSES))
@IGNORE_MAX_ITER
@pytest.mark.filterwarnings("ignore::kernmend.NothingMendedWarning")
def test_verbose_shows_a_bar_on_standard_error_and_nothing_else_prints(make, capfd):
    quick = {"n_iter": 1, "n_splits": 1, "lam": 0.3, "gamma": 1.0, "rho": 1e4, "interval": None}
    params = {name: value for name, value in quick.items() if name in make().get_params()}
    for verbose in (0, 1):
        make(verbose=verbose, **params).fit(X)
        out, shown = capfd.readouterr()
        assert out == ""
        assert shown == "" if not verbose else BARS.get(make.__name__, "mending") in shown
