import numpy as np
import pytest
from cases import IGNORE_MAX_ITER, RationalQuadratic, with_holes
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernmend import RobustKernelPCA
from kernmend.datasets import make_circle, make_cubic_surface
from kernmend.datasets.corruption import gaussian_noise, uniform_outliers
from kernmend.datasets.metrics import mean_shift
from kernmend.linalg.distances import median_squared_distance
from kernmend.model.errors import BoundedEntryError, BoundedRowError, SquaredError
from kernmend.model.kernels import RBF, Linear, Polynomial
from kernmend.repair.completion import fill_missing
from kernmend.solvers import solve_fixed_subspace, solve_subspace
from kernmend.solvers.subspace import fit_subspace, move_rows

MODELS = [SquaredError, BoundedRowError, BoundedEntryError]
ERRORS = ["noise", "rows", "entries"]
KERNELS = [RBF(0.4), Polynomial(3.0, 1.0), Linear(), RationalQuadratic(0.5)]


def corrupted_circle(seed=0, n=100):
    surface = make_circle(n, random_state=seed)
    X, bad = uniform_outliers(surface.X, 0.1, random_state=seed + 1)
    return surface, X, bad


def numerical_gradient(function, A, h=1e-6):
    out = np.zeros_like(A)
    for index in np.ndindex(A.shape):
        step = np.zeros_like(A)
        step[index] = h
        out[index] = (function(A + step) - function(A - step)) / (2 * h)
    return out


@parametrize_with_checks([RobustKernelPCA(error="entries", joint=False, contamination=0.1)])  # the default: test_common
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# --- the parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@given(seed=st.integers(0, 2**32 - 1), mu=st.floats(0.1, 10))
def test_gradients_of_the_error_models(model, seed, mu):
    rng = np.random.default_rng(seed)
    X, A = with_holes(rng.standard_normal((4, 3)), 0.3, seed % 1000), rng.standard_normal((4, 3))
    error = model(X, mu)
    value, gradient = error.evaluate(A)
    values, _ = error.evaluate_rows(A)
    np.testing.assert_allclose(value, values.sum())
    np.testing.assert_allclose(gradient, numerical_gradient(lambda Z: error.evaluate(Z)[0], A), atol=1e-5 / mu**2)
    assert np.all(gradient[np.isnan(X)] == 0)
    some = np.array([2, 0])
    np.testing.assert_allclose(error.rows(some).evaluate_rows(A[some])[0], values[some])


@pytest.mark.parametrize("model", [BoundedRowError, BoundedEntryError])
def test_a_gross_error_costs_one_at_most(model):
    X = np.zeros((1, 1))
    far, half, none = (model(X, 2.0).evaluate(np.array([[size]]))[0] for size in (1e9, 2.0, 0.0))
    assert (far, half, none) == (pytest.approx(1.0), pytest.approx(0.5), 0.0)


@pytest.mark.parametrize("model", [SquaredError, BoundedRowError])
@given(seed=st.integers(0, 2**32 - 1))
def test_majorisers_lie_above(model, seed):
    X, A, B = np.random.default_rng(seed).standard_normal((3, 5, 2)) * 3
    error = model(X, 1.3)
    w = error.majoriser(A)
    bound = w * (np.square(B - X).sum(axis=1) - np.square(A - X).sum(axis=1))
    assert np.all(error.evaluate_rows(B)[0] <= error.evaluate_rows(A)[0] + bound + 1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradient_of_the_distance_from_the_subspace(kernel):
    rng = np.random.default_rng(0)
    L, A = rng.standard_normal((15, 3)), rng.standard_normal((4, 3))
    subspace = fit_subspace(kernel, L, 2)
    dist2, gradient = subspace.squared_rows(A)
    expected = numerical_gradient(lambda Z: subspace.squared_rows(Z)[0].sum(), A)
    np.testing.assert_allclose(gradient, expected, atol=1e-5 * max(1.0, np.abs(expected).max()))
    assert np.all(dist2 >= 0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_subspace_leaves_the_smallest_eigenvalues(kernel):
    Z = np.random.default_rng(1).standard_normal((20, 3))
    s = np.linalg.eigvalsh(kernel.gram(Z))[::-1]
    for rank in (1, 3):
        dist2, _ = fit_subspace(kernel, Z, rank).squared_rows(Z)
        np.testing.assert_allclose(dist2.sum(), s[rank:].sum(), atol=1e-8 * s[0])


# --- the solver -----------------------------------------------------------------------------------------------------


def minimise(kernel, X, error, C, rank, refit, **budget):
    """Return the result with a subspace that follows the rows, or with that of the given ones, and the subspace."""
    if refit:
        return solve_subspace(kernel, X, error, C, rank, **budget)
    subspace = fit_subspace(kernel, X, rank)
    return solve_fixed_subspace(subspace, X, error, C, **budget), subspace


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("refit", [True, False])
@given(seed=st.integers(0, 1000), C=st.floats(0.1, 100), rank=st.integers(1, 8))
def test_the_objective_never_rises_and_is_what_it_says(model, refit, seed, C, rank):
    _, X, _ = corrupted_circle(seed, 30)
    kernel, error = RBF(0.7), model(X, 0.3)
    result, subspace = minimise(kernel, X, error, C, rank, refit, max_iter=80)
    assert np.all(np.diff(result.objective) <= 1e-10 * result.objective[0])
    assert subspace.rank == rank
    if refit:
        tail = np.linalg.eigvalsh(kernel.gram(result.A))[: len(X) - rank].sum()
    else:
        tail = fit_subspace(kernel, X, rank).squared_rows(result.A)[0].sum()
    np.testing.assert_allclose(result.objective[-1], error.evaluate(result.A)[0] + C * tail, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("refit", [True, False])
def test_the_end_is_stationary(refit):
    _, X, _ = corrupted_circle(0, 40)
    kernel, error, C, rank = RBF(0.5), SquaredError(X, 1.0), 2.0, 6
    result, subspace = minimise(kernel, X, error, C, rank, refit, max_iter=40_000, tol=1e-13)
    assert result.stop_reason == "converged"
    first, last = (record.residual for record in (result.history[0], result.history[-1]))
    assert last < 1e-4 < first

    def objective(Z):
        if refit:
            return error.evaluate(Z)[0] + C * np.linalg.eigvalsh(kernel.gram(Z))[: len(X) - rank].sum()
        return error.evaluate(Z)[0] + C * subspace.squared_rows(Z)[0].sum()

    gradient = numerical_gradient(objective, result.A)
    assert np.linalg.norm(gradient) / objective(result.A) == pytest.approx(last, abs=1e-5)


def test_rows_stay_without_a_subspace_and_reach_it_without_an_error():
    _, X, _ = corrupted_circle(0, 50)
    subspace = fit_subspace(RBF(0.5), X, 5)
    error = SquaredError(X, 1.0)
    np.testing.assert_allclose(move_rows(subspace, X, error, 1e-12)[0], X, atol=1e-9)
    free = move_rows(subspace, X, error, 1e6, max_iter=500, tol=1e-10)[0]
    before, after = (np.median(subspace.squared_rows(A)[0]) for A in (X, free))
    assert after < 0.7 * before
    assert np.all(subspace.squared_rows(free)[0] <= subspace.squared_rows(X)[0] + 1e-9)


# --- on data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_outliers_of_a_circle_go_to_it_and_good_points_stay(seed):
    surface, X, bad = corrupted_circle(seed)
    est = RobustKernelPCA().fit(X)
    assert est.error_ == "rows"
    before, after = (surface.distance(A[bad]).mean() for A in (X, est.recovered_))
    assert after < 0.35 * before
    assert mean_shift(X[~bad], est.recovered_[~bad]) < 0.01
    assert np.all(np.diff(est.objective_) <= 1e-10 * est.objective_[0])
    assert not est.outliers_[~bad].any()
    assert est.outliers_.sum() >= 4
    np.testing.assert_array_equal(est.outliers_, est.outlier_scores_ > est.threshold_)
    assert f"{est.outliers_.sum()} of 100 rows flagged" in est.summary()


def test_finding_the_subspace_anew_is_better_for_gross_errors():
    shares = []
    for joint in (True, False):
        ratio = []
        for seed in range(4):
            surface, X, bad = corrupted_circle(seed)
            Z = RobustKernelPCA(joint=joint).fit_transform(X)
            ratio.append(surface.distance(Z[bad]).mean() / surface.distance(X[bad]).mean())
        shares.append(np.mean(ratio))
    assert shares[0] < shares[1]


@pytest.mark.parametrize("joint", [True, False])
@IGNORE_MAX_ITER
def test_the_model_does_not_follow_what_becomes_of_its_data(joint):
    _, X, _ = corrupted_circle(0)
    changed, new = X.copy(), X[:5] + 0.01
    est, expected = (RobustKernelPCA(joint=joint, max_iter=20, tol=1e-2).fit(each) for each in (changed, X))
    changed[...] = 0.0
    np.testing.assert_array_equal(est.transform(new), expected.transform(new))
    assert not np.shares_memory(est._L, changed)


@pytest.mark.parametrize("error", ERRORS)
@IGNORE_MAX_ITER
def test_new_rows_with_missing_entries_start_at_the_nearest_mended_rows(error):
    _, X, _ = corrupted_circle(0)
    est = RobustKernelPCA(error=error, max_iter=20, tol=1e-2).fit(X)
    new = np.where(np.arange(2) == np.arange(6)[:, np.newaxis] % 2, np.nan, X[:6])
    one_by_one = np.vstack([fill_missing(np.vstack([est._L, row]))[-1] for row in new])
    np.testing.assert_allclose(est._fill(new), one_by_one, rtol=1e-9)


@pytest.mark.parametrize("error", ERRORS)
def test_missing_entries_are_filled_in(error):
    truth = make_cubic_surface(100, 12, random_state=0)
    X = with_holes(truth, 0.1)
    est = RobustKernelPCA(error=error, n_components=0.98).fit(X)
    holes = np.isnan(X)
    assert np.isfinite(est.recovered_).all()
    mean = np.where(holes, np.nanmean(X, axis=0), X)
    assert np.square(est.recovered_ - truth)[holes].sum() < 0.5 * np.square(mean - truth)[holes].sum()
    assert np.isfinite(est.score_samples(X)).all()
    assert not np.isnan(est.transform(X)).any()


def test_wrong_entries_of_some_rows():
    truth = make_cubic_surface(150, 20, random_state=0)
    rng = np.random.default_rng(1)
    wrong = np.zeros(truth.shape, dtype=bool)
    wrong[:15] = rng.random((15, 20)) < 0.15
    X = np.where(wrong, truth + 3 * rng.standard_normal(truth.shape) * truth.std(), truth)
    est = RobustKernelPCA().fit(X)
    assert est.error_ == "entries"
    assert np.square(est.recovered_ - truth)[:15].sum() < 0.6 * np.square(X - truth).sum()
    assert np.square(est.recovered_ - truth)[15:].sum() < 0.03 * np.square(X - truth).sum()
    assert est.outlier_scores_[:15].mean() > est.outlier_scores_[15:].mean()


def test_noise_falls():
    truth = make_cubic_surface(150, 10, random_state=0)
    X = truth + 0.2 * truth.std() * np.random.default_rng(1).standard_normal(truth.shape)
    Z = RobustKernelPCA(error="noise").fit_transform(X)
    assert np.square(Z - truth).sum() < 0.8 * np.square(X - truth).sum()


def test_new_rows_come_one_by_one_and_go_to_the_surface():
    surface, X, _ = corrupted_circle()
    est = RobustKernelPCA().fit(X)
    new = np.array([[1.2, 0.9], [1.3, 0.2], [-0.7, -0.7], [0.0, np.nan]])
    Z = est.transform(new)
    alone = np.vstack([est.transform(row[np.newaxis]) for row in new])
    np.testing.assert_allclose(Z, alone, atol=1e-6)
    assert surface.distance(Z[:2]).max() < 0.15
    good = make_circle(30, random_state=5).X
    assert mean_shift(good, est.transform(good)) < 0.02
    scores = est.score_samples(np.vstack([good, new[:2]]))
    assert scores[:-2].mean() > scores[-2:].max()
    np.testing.assert_array_equal(est.predict(new[:2]) == -1, est.decision_function(new[:2]) < 0)


def test_a_fixed_subspace_mends_seen_rows_as_new_ones():
    _, X, _ = corrupted_circle()
    est = RobustKernelPCA(joint=False, error="noise", tol=1e-9).fit(X)
    np.testing.assert_allclose(est.transform(X), est.recovered_, atol=1e-3)


def test_the_order_and_the_units_of_the_data_do_not_matter():
    _, X, _ = corrupted_circle()
    order = np.random.default_rng(0).permutation(len(X))
    Z = RobustKernelPCA().fit_transform(X)
    np.testing.assert_allclose(RobustKernelPCA().fit_transform(X[order]), Z[order], atol=1e-3)
    np.testing.assert_allclose(RobustKernelPCA().fit_transform(1e3 * X) / 1e3, Z, atol=1e-3)


def test_bounds_hold():
    _, X, _ = corrupted_circle()
    est = RobustKernelPCA(bounds=(-1.0, 1.0)).fit(X)
    assert np.abs(est.recovered_).max() <= 1.0
    assert np.abs(est.transform(X * 1.2)).max() <= 1.0
    far = {bounds: RobustKernelPCA(bounds=bounds).fit(X).transform(3.0 * X) for bounds in (None, "data")}
    outside = {bounds: np.any((X.min(axis=0) > Z) | (X.max(axis=0) < Z)) for bounds, Z in far.items()}
    assert outside == {None: True, "data": False}


@pytest.mark.parametrize("kernel", ["poly", "linear", RationalQuadratic(0.5)])
def test_other_kernels(kernel):
    surface, X, bad = corrupted_circle()
    est = RobustKernelPCA(kernel=kernel, n_components=5 if kernel == "poly" else "auto").fit(X)
    assert np.isfinite(est.recovered_).all()
    assert np.all(np.diff(est.objective_) <= 1e-10 * est.objective_[0])
    if kernel == "poly":
        assert surface.distance(est.recovered_[bad]).mean() < 0.5 * surface.distance(X[bad]).mean()


def test_what_was_given_is_used():
    X, _ = gaussian_noise(make_cubic_surface(60, 5, random_state=0), random_state=0)
    est = RobustKernelPCA(gamma=0.2, C=3.0, sigma=0.5, n_components=7, contamination=0.1).fit(X)
    assert (est.gamma_, est.C_, est.sigma_, est.rank_, est.outliers_.sum()) == (0.2, 3.0, 0.5, 7, 6)
    few, many = (RobustKernelPCA(n_components=share).fit(X).rank_ for share in (0.5, 0.95))
    assert 1 < few < many
    automatic = RobustKernelPCA().fit(X)
    assert automatic.gamma_ == pytest.approx(1 / median_squared_distance(X))


@IGNORE_MAX_ITER
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "X", [np.ones((10, 3)), np.array([[0.0], [1.0]]), np.repeat(np.eye(3), 4, axis=0), np.zeros((61, 7))]
)
def test_odd_data_is_left_in_place(error, X):
    est = RobustKernelPCA(error=error, max_iter=20).fit(X)
    np.testing.assert_allclose(est.recovered_, X, atol=0.02)
    assert np.isfinite(est.outlier_scores_).all()
    assert not est.outliers_.any()


def test_float32_stays_float32():
    _, X, _ = corrupted_circle()
    est = RobustKernelPCA().fit(X.astype(np.float32))
    assert est.recovered_.dtype == np.float32
    assert est.transform(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"error": "kernel"}, "error must be one of"),
        ({"C": 0.0}, "C must be"),
        ({"sigma": -1.0}, "sigma must be"),
        ({"kernel": "cosine"}, "kernel must be one of"),
        ({"n_components": 0.0}, "n_components"),
        ({"bounds": (1.0, 0.0)}, "bounds"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        RobustKernelPCA(**parameters).fit(np.eye(5))
