"""The estimator: scikit-learn's contract, the names that users see, bad input, odd data."""

import logging
import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from cases import RationalQuadratic
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernmend import KernelLowRank, KernelRecovery
from kernmend.datasets import make_circle
from kernmend.datasets.corruption import uniform_outliers
from kernmend.model.errors import KernelError
from kernmend.model.kernels import RBF
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty
from kernmend.repair.joint import Problem
from kernmend.solvers import solve_reduced

pytestmark = pytest.mark.filterwarnings("ignore::kernmend.NothingMendedWarning")  # of data in which nothing is wrong
PAPER = {"gamma": 1.0, "lam": 0.3, "rho": 1e4}
both = pytest.mark.parametrize("make", [KernelRecovery, KernelLowRank])
SOLVERS = ["reduced", "alternating", "alternating-parallel"]


def corrupted_circle(seed=0, n=60):
    surface = make_circle(n, random_state=seed)
    X, bad = uniform_outliers(surface.X, 0.1, random_state=seed + 1)
    return surface, X, bad


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [KernelLowRank(kernel="poly", solver="alternating-parallel", max_iter=20)],
    expected_failed_checks=lambda est: dict.fromkeys(
        ["check_outliers_fit_predict", "check_outliers_train"],
        "a fit moves all rows together, transform each one by itself",
    ),
)
def test_scikit_learn_contract(estimator, check):
    """Of the default as well, in test_common.py."""
    check(estimator)


def test_attributes_of_the_contract():
    surface, X, bad = corrupted_circle()
    est = KernelLowRank(**PAPER)
    A = est.fit_transform(X)
    np.testing.assert_array_equal(A, est.recovered_)
    assert A.shape == X.shape
    assert est.objective_.shape == (est.n_iter_ + 1,)
    assert np.all(np.diff(est.objective_) <= 1e-12 * est.objective_[0])
    assert est.stop_reason_ == "converged"
    assert (est.gamma_, est.lam_, est.rho_) == (1.0, 0.3, 1e4)
    assert 0 < est.rank_ < len(X)
    assert est.outlier_scores_.shape == (len(X),)
    assert est.outliers_.dtype == bool
    assert [r.objective for r in est.history_] == est.objective_.tolist()
    far = bad & (surface.distance(X) > 0.1)
    assert est.outliers_[far].all()
    assert not est.outliers_[~bad].any()
    assert est.outlier_scores_[far].min() > est.outlier_scores_[~bad].max()
    np.testing.assert_array_equal(KernelLowRank(**PAPER).fit_predict(X), np.where(est.outliers_, -1, 1))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_kernel_with_every_solver_mends_and_never_rises(solver, kernel):
    _, X, _ = corrupted_circle(n=40)
    est = KernelLowRank(kernel=kernel, gamma=1.0, coef0=1.0, lam=0.3, rho=1e3, solver=solver, max_iter=20).fit(X)
    assert np.isfinite(est.recovered_).all()
    assert np.all(np.diff(est.objective_) <= 1e-12 * est.objective_[0])
    assert est.objective_[-1] < est.objective_[0]


def test_a_kernel_of_the_users_own():
    surface, X, bad = corrupted_circle()
    est = KernelLowRank(kernel=RationalQuadratic(0.5, 2.0), lam=0.3, rho=1e4).fit(X)
    assert surface.distance(est.recovered_[bad]).mean() < 0.3 * surface.distance(X[bad]).mean()
    assert est.kernel_ == RationalQuadratic(0.5, 2.0)


def test_an_rbf_object_is_the_same_as_its_name():
    _, X, _ = corrupted_circle()
    named = KernelLowRank(**PAPER).fit_transform(X)
    given = KernelLowRank(kernel=RBF(1.0), lam=0.3, rho=1e4).fit_transform(X)
    np.testing.assert_array_equal(named, given)


@cache
def fitted_to_the_circle(make):
    """A fit to the circle in its own units, shared by tests that only read it."""
    return make(error="rows", tol=1e-10).fit(corrupted_circle()[1])


@both
@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_automatic_parameters_follow_the_units_of_the_data(make, scale, shift):
    _, X, _ = corrupted_circle()
    plain = fitted_to_the_circle(make)
    other = make(error="rows", tol=1e-10).fit(X * scale + shift * scale)
    assert other.gamma_ * scale**2 == pytest.approx(plain.gamma_)
    assert other.rho_ == pytest.approx(plain.rho_, rel=1e-6)
    assert other.lam_ * scale == pytest.approx(plain.lam_, rel=1e-6)
    np.testing.assert_allclose((other.recovered_ / scale) - shift, plain.recovered_, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_defaults_leave_clean_data_alone(seed):
    rng = np.random.default_rng(seed)
    sphere = rng.standard_normal((150, 3))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    for X in (make_circle(100, random_state=seed).X, sphere):
        est = KernelRecovery().fit(X)
        assert est.outliers_.mean() <= 0.03
        assert np.linalg.norm(est.recovered_ - X, axis=1).mean() < 0.005


def test_given_similarity_recovers_the_sample():
    surface, X, bad = corrupted_circle()
    K = RBF(1.0).gram(surface.X)
    est = KernelLowRank(gamma=1.0, lam=0.05, rho=10.0).fit(X, gram=K)
    assert np.linalg.norm(est.recovered_[bad] - surface.X[bad], axis=1).mean() < 0.1
    assert np.linalg.norm(X[bad] - surface.X[bad], axis=1).mean() > 0.5
    assert np.all(np.diff(est.objective_) <= 1e-12 * est.objective_[0])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_papers_start_and_a_start_gram(solver):
    _, X, _ = corrupted_circle(n=30)
    common = {**PAPER, "rho": 100.0, "solver": solver, "max_iter": 30}
    zeros = KernelLowRank(**common, init="zeros").fit(X)
    given = KernelLowRank(**common, init=np.zeros_like(X)).fit(X, start_gram=RBF(1.0).gram(X))
    np.testing.assert_allclose(zeros.objective_, given.objective_)
    assert np.all(np.diff(zeros.objective_) <= 1e-12 * zeros.objective_[0])
    assert np.abs(zeros.recovered_).max() > 0.1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_dataframes_stay_dataframes():
    _, X, _ = corrupted_circle()
    frame = pd.DataFrame(X, columns=["east", "north"], index=[f"row{i}" for i in range(len(X))])
    out = KernelLowRank(**PAPER).set_output(transform="pandas").fit_transform(frame)
    assert isinstance(out, pd.DataFrame)
    assert out.columns.tolist() == ["east", "north"]
    assert out.index.equals(frame.index)
    piped = make_pipeline(StandardScaler(), KernelLowRank()).set_output(transform="pandas").fit_transform(frame)
    assert piped.columns.tolist() == ["east", "north"]


def test_clone_pickle_repr():
    _, X, _ = corrupted_circle()
    est = KernelLowRank(**PAPER).fit(X)
    again = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(again.recovered_, est.recovered_)
    np.testing.assert_array_equal(clone(est).fit(X).recovered_, est.recovered_)
    assert repr(est) == "KernelLowRank(gamma=1.0, lam=0.3, rho=10000.0)"


def test_float32_stays_float32_and_agrees_with_float64():
    _, X, _ = corrupted_circle()
    exact = KernelLowRank(**PAPER).fit(X)
    single = KernelLowRank(**PAPER).fit(X.astype(np.float32))
    assert single.recovered_.dtype == np.float32
    np.testing.assert_array_equal(single.outliers_, exact.outliers_)
    # What F determines agrees: rows that are not wrong, and how far the others are from the circle. Where on it they
    # are is known to the root of what F is known to: the end in float64 moves by 0.006 too if tol goes down.
    good = ~exact.outliers_
    np.testing.assert_allclose(single.recovered_[good], exact.recovered_[good], atol=3e-4)
    radii = [np.linalg.norm(est.recovered_, axis=1) for est in (single, exact)]
    np.testing.assert_allclose(*radii, atol=1e-3)
    np.testing.assert_allclose(single.recovered_, exact.recovered_, atol=0.03)


def test_float32_falls_until_its_gradient_is_rounding():
    """SciPy calls a step that changes nothing the end: in float32 one that is shorter than the rounding of A."""
    _, X, _ = corrupted_circle()
    kernel, penalty = RBF(PAPER["gamma"]), NuclearPenalty(PAPER["rho"])
    exact, single = (
        Objective(kernel, penalty, Problem.of(data, kernel, KernelError).error(), PAPER["lam"])
        for data in (X, X.astype(np.float32))
    )
    A = solve_reduced(single, X.astype(np.float32), scale=Problem.of(X, kernel, KernelError).sizes.scale).A
    assert A.dtype == np.float32
    (_, gradient), (_, rounded) = exact.evaluate(A.astype(np.float64)), single.evaluate(A)
    assert np.linalg.norm(gradient) < 4 * np.linalg.norm(rounded - gradient)  # 5.2 times where it stopped before
    parts = exact.parts(KernelLowRank(**PAPER).fit(X.astype(np.float32)).recovered_.astype(np.float64))
    assert parts.total < KernelLowRank(**PAPER).fit(X).objective_[-1] * (1 + 1e-5)


def test_float32_with_a_cutoff_below_its_rounding_is_computed_in_float64():
    _, X, _ = corrupted_circle()
    X = X.astype(np.float32)
    est = KernelLowRank(gamma=1.0, lam=0.3, rho=1e9).fit(X)
    wide = KernelLowRank(gamma=1.0, lam=0.3, rho=1e9).fit(X.astype(np.float64))
    assert est.recovered_.dtype == np.float32
    np.testing.assert_allclose(est.recovered_, wide.recovered_, atol=1e-6)


def test_running_out_of_iterations_warns_and_says_what_to_do():
    _, X, _ = corrupted_circle()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        est = KernelLowRank(**PAPER, max_iter=3).fit(X)
    assert est.stop_reason_ == "max_iter"
    assert est.n_iter_ == 3


def test_one_log_line_tells_what_was_found(caplog):
    _, X, _ = corrupted_circle()
    with caplog.at_level(logging.INFO, logger="kernmend"):
        est = KernelLowRank(**PAPER).fit(X)
    (record,) = caplog.records
    assert f"{est.outliers_.sum()} of 60 rows flagged" in record.message


def test_interruption_keeps_the_best_so_far(monkeypatch):
    from kernmend.model.objective import Objective

    _, X, _ = corrupted_circle()
    calls = []
    evaluate = Objective.evaluate

    def interrupted(self, A):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return evaluate(self, A)

    monkeypatch.setattr(Objective, "evaluate", interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        est = KernelLowRank(**PAPER).fit(X)
    assert est.stop_reason_ == "interrupted"
    assert est.objective_[-1] < est.objective_[0]
    assert np.isfinite(est.recovered_).all()


# --- odd data -------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("value", [0.0, 3.7, 1e8])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_constant_data(make, kernel, value):
    X = np.full((20, 3), value)
    est = make(kernel=kernel).fit(X)
    assert np.isfinite(est.recovered_).all()
    assert not est.outliers_.any()
    np.testing.assert_allclose(est.recovered_, X, rtol=0.02)


@both
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize(
    "shape", [(2, 1), (2, 5), (3, 500), (40, 2), (40, 1)], ids=["2x1", "2x5", "3x500", "40x2", "40x1"]
)
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_odd_shapes_and_scales(make, shape, scale, kernel):
    X = scale * np.random.default_rng(0).standard_normal(shape)
    est = make(kernel=kernel, max_iter=30).fit(X)
    assert np.isfinite(est.recovered_).all()
    assert np.isfinite(est.objective_).all()
    assert est.objective_[-1] <= est.objective_[0] * (1 + 1e-12)


def test_duplicated_rows_and_a_constant_column():
    _, X, _ = corrupted_circle()
    X = np.column_stack([np.vstack([X, X]), np.full(2 * len(X), 5.0)])
    est = KernelLowRank(**PAPER).fit(X)
    half = len(X) // 2
    np.testing.assert_allclose(est.recovered_[:half], est.recovered_[half:], atol=1e-3)
    np.testing.assert_allclose(est.recovered_[:, 2], 5.0, atol=1e-9)


# --- bad input ------------------------------------------------------------------------------------------------------


@both
def test_the_bad_cell_is_named(make):
    _, X, _ = corrupted_circle()
    frame = pd.DataFrame(X.copy(), columns=["temp", "wind"])  # before pandas 3 it would write to X
    frame.iloc[17, 0] = np.inf
    with pytest.raises(ValueError, match=r"inf: row 17 has it in column 'temp'\. Put"):
        make().fit(frame)
    X[3, 1] = X[5, 0] = -np.inf
    with pytest.raises(ValueError, match="inf: row 3 has it in column 1, and 1 more"):
        make().fit(X)


@both
@pytest.mark.parametrize(
    ("X", "match"),
    [
        (np.ones((4, 2)) * 1j, "Complex data not supported"),
        (np.array([["a", "b"], ["c", "d"]]), "could not convert string to float"),
        (np.ones(5), "Expected 2D array"),
        (np.ones((0, 3)), "0 sample"),
        (np.ones((3, 0)), "0 feature"),
        (np.ones((1, 3)), "1 sample"),
    ],
    ids=["complex", "strings", "1-D", "no samples", "no features", "one sample"],
)
def test_bad_data(make, X, match):
    with pytest.raises(ValueError, match=match):
        make().fit(X)


OF_BOTH = [
    ({"lam": 0.0}, "lam must be a positive number or 'auto', got 0.0"),
    ({"lam": "big"}, "lam must be"),
    ({"rho": -1}, "rho must be"),
    ({"gamma": np.nan}, "gamma must be"),
    ({"gamma": np.inf}, "gamma must be"),
    ({"gamma": True}, "gamma must be"),
    ({"kernel": "poly", "degree": 0.5}, "degree must be a number >= 1"),
    ({"kernel": "poly", "coef0": -1.0}, "coef0 must be a number >= 0"),
    ({"kernel": "sigmoid"}, "kernel must be one of 'rbf', 'poly', 'linear'"),
    ({"error": "typo"}, "error must be one of"),
    ({"max_iter": 0}, "max_iter must be an integer >= 1"),
    ({"max_iter": 1.5}, "max_iter must be an integer >= 1"),
    ({"tol": -1e-3}, "tol must be a number >= 0"),
    ({"scale": True}, "scale must be"),
    ({"bounds": (1.0, 0.0)}, "bounds must have low <= high"),
    ({"bounds": (None, 1.0)}, "bounds must have low <= high, two numbers"),
    ({"bounds": "auto"}, "bounds must be None, 'data' or a pair"),
    ({"bounds": (0.0, 1.0, 2.0)}, "bounds must be None, 'data' or a pair"),
]
OF_LOW_RANK = [
    ({"solver": "fast"}, "solver must be one of"),
    ({"init": "ones"}, "init must be one of"),
    ({"init": np.zeros((2, 2))}, "an init array must be finite and of the shape of X"),
]


@pytest.mark.parametrize(
    ("make", "parameters", "match"),
    [(make, *case) for make in (KernelRecovery, KernelLowRank) for case in OF_BOTH]
    + [(KernelLowRank, *case) for case in OF_LOW_RANK]
    + [
        (KernelRecovery, {"contamination": 0.7}, "contamination must be"),
        (KernelRecovery, {"alpha": 0.0}, "alpha must"),
    ],
)
def test_bad_parameters(make, parameters, match):
    _, X, _ = corrupted_circle()
    with pytest.raises(ValueError, match=match):
        make(**parameters).fit(X)


@both
def test_an_error_that_is_no_error_model(make):
    with pytest.raises(TypeError, match=r"subclass of kernmend\.model\.errors\.RowSum"):
        make(error=int).fit(np.eye(3))


@both
def test_bounds_are_refused_before_the_work(make, monkeypatch):
    monkeypatch.setattr("kernmend.repair.learn.Detector", None)
    monkeypatch.setattr("kernmend.estimators._kernel_low_rank.Planner", None)
    with pytest.raises(ValueError, match="bounds must have low <= high"):
        make(bounds=(1.0, 0.0)).fit(corrupted_circle()[1])


@pytest.mark.parametrize(
    ("params", "fit", "match"),
    [
        ({"init": np.zeros((3, 3))}, {}, r"of the shape of X, \(60, 2\), got \(3, 3\)"),
        ({"init": np.full((60, 2), np.nan)}, {}, "an init array must be finite"),
        ({}, {"start_gram": np.eye(3)}, "start_gram must have one row and one column per sample"),
        ({"penalty": "schatten"}, {"start_gram": np.eye(60)}, "belongs to the nuclear penalty"),
    ],
)
def test_a_start_is_refused_before_the_work(params, fit, match, monkeypatch):
    monkeypatch.setattr("kernmend.estimators._kernel_low_rank.Planner", None)
    with pytest.raises(ValueError, match=match):
        KernelLowRank(**params).fit(corrupted_circle()[1], **fit)


@pytest.mark.parametrize("scale", [None, "columns", "rows", [0.5, 30.0, 1.0, 7.0]])
def test_a_start_is_in_the_units_of_the_data(scale):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((40, 2)) @ rng.standard_normal((2, 4))) * [1.0, 50.0, 2.0, 10.0]
    X[3] += 90.0
    known = {"gamma": 0.1, "lam": 0.3, "rho": 1e3, "scale": scale, "max_iter": 20, "tol": 0.1}
    by_name, by_array = (KernelLowRank(init=init, **known).fit(X) for init in ("data", X))
    np.testing.assert_array_equal(by_array.objective_, by_name.objective_)
    np.testing.assert_array_equal(by_array.recovered_, by_name.recovered_)


@both
def test_a_kernel_that_is_no_kernel(make):
    with pytest.raises(TypeError, match="subclass of"):
        make(kernel=lambda a, b: a @ b).fit(np.eye(3))


@both
def test_a_negative_base_under_a_fractional_degree(make):
    _, X, _ = corrupted_circle()
    with pytest.raises(ValueError, match=r"degree=1.5 is fractional .* raise coef0 to at least"):
        make(kernel="poly", degree=1.5, coef0=0.0).fit(X)
    est = make(kernel="poly", degree=1.5, coef0=10.0).fit(X)
    assert np.isfinite(est.recovered_).all()


@pytest.mark.parametrize("name", ["gram", "start_gram"])
@pytest.mark.parametrize(
    ("gram", "match"),
    [
        (np.eye(3), r"must have one row and one column per sample, \(4, 4\), got \(3, 3\)"),
        (np.triu(np.ones((4, 4))), "must be symmetric"),
        (np.diag([1.0, 1.0, 1.0, -1.0]), "must be positive semidefinite"),
        (np.diag([1.0, 1.0, 1.0, np.nan]), "nan at row 3, column 3"),
    ],
    ids=["shape", "asymmetric", "indefinite", "nan"],
)
def test_bad_grams(name, gram, match):
    with pytest.raises(ValueError, match=f"{name}.* {match}|{name} has {match}"):
        KernelLowRank(**PAPER).fit(np.random.default_rng(0).standard_normal((4, 2)), **{name: gram})
