import numpy as np
import pytest
from cases import noisy_surface
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernmend import KernelPCADenoiser
from kernmend.datasets import make_circle
from kernmend.datasets.corruption import uniform_outliers
from kernmend.model.kernels import RBF
from kernmend.solvers import solve_preimage


def corrupted_circle(seed=0, n=100):
    surface = make_circle(n, random_state=seed)
    X, bad = uniform_outliers(surface.X, 0.1, random_state=seed + 1)
    return surface, X, bad


def random_targets(seed, n=15, m=6, d=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((m, n)), rng.standard_normal((m, d))


def preimage_error(kernel, L, C, Z):
    """|phi(z_i) - sum_j c_ij phi(l_j)|^2, by its definition: a quadratic form of one big Gram matrix."""
    out = []
    for c, z in zip(C, Z, strict=True):
        weights = np.concatenate([[1.0], -c])
        out.append(weights @ kernel.gram(np.vstack([z, L])) @ weights)
    return np.array(out)


@parametrize_with_checks([KernelPCADenoiser(preimage="ridge", contamination=0.1)])  # the default: test_common
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# --- the ridge is scikit-learn's ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"gamma": 0.7}, {"kernel": "rbf", "gamma": 0.7}),
        (
            {"kernel": "poly", "degree": 3, "coef0": 2.0},
            {"kernel": "poly", "degree": 3, "coef0": 2.0, "gamma": 1.0},
        ),
        ({"kernel": "linear"}, {"kernel": "linear"}),
    ],
)
def test_the_ridge_gives_what_scikit_learn_gives(ours, theirs):
    _, X, _ = corrupted_circle()
    new = make_circle(20, random_state=9).X
    est = KernelPCADenoiser(preimage="ridge", n_components=4, alpha=0.3, **ours).fit(X)
    reference = KernelPCA(n_components=4, fit_inverse_transform=True, alpha=0.3, **theirs).fit(X)
    for rows in (X, new):
        expected = reference.inverse_transform(reference.transform(rows))
        np.testing.assert_allclose(est.transform(rows), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(est.recovered_, est.transform(X), atol=1e-10)
    assert est.n_iter_ == 1
    assert est.stop_reason_ == "converged"


def test_scores_are_by_the_distance_from_the_subspace():
    _, X, _ = corrupted_circle()
    est = KernelPCADenoiser(n_components=4, gamma=0.7).fit(X)
    full = KernelPCA(kernel="rbf", gamma=0.7).fit_transform(X)  # all components: the centred kernel space itself
    expected = np.square(full[:, 4:]).sum(axis=1)
    np.testing.assert_allclose(est._distances(X), expected, atol=1e-9)
    np.testing.assert_array_equal(np.argsort(est.outlier_scores_)[-10:], np.argsort(expected)[-10:])
    np.testing.assert_allclose(-est.score_samples(X), est.outlier_scores_, atol=1e-8)


# --- the fixed point ------------------------------------------------------------------------------------------------


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), gamma=st.floats(0.01, 10))
def test_preimages_are_stationary_and_never_worse_than_the_start(seed, gamma):
    L, C, start = random_targets(seed)
    kernel = RBF(gamma)
    result = solve_preimage(kernel, L, C, start, max_iter=2000, tol=1e-8)
    assert np.isfinite(result.A).all()
    np.testing.assert_allclose(result.objective[-1], preimage_error(kernel, L, C, result.A).sum(), rtol=1e-9)
    assert np.all(np.diff(result.objective) <= 1e-9 * abs(result.objective[0]))
    if result.stop_reason == "converged":
        assert result.history[-1].residual <= 1e-8
        weights = C * kernel.gram(result.A, L)
        g = weights.sum(axis=1)
        gradient = 4.0 * gamma * (g[:, np.newaxis] * result.A - weights @ L)
        moved = (start != result.A).any(axis=1)  # those with nowhere to go stay
        assert np.abs(gradient[moved]).max(initial=0.0) < 1e-5 * gamma


def test_the_gradient_of_the_fixed_point_is_that_of_the_objective():
    L, C, Z = random_targets(3)
    kernel, h = RBF(0.6), 1e-6
    weights = C * kernel.gram(Z, L)
    gradient = 4.0 * 0.6 * (weights.sum(axis=1)[:, np.newaxis] * Z - weights @ L)
    for j in range(Z.shape[1]):
        step = h * np.eye(Z.shape[1])[j]
        ahead, behind = (preimage_error(kernel, L, C, Z + sign * step) for sign in (1, -1))
        np.testing.assert_allclose(gradient[:, j], (ahead - behind) / (2 * h), atol=1e-6)


def test_a_single_image_is_its_own_preimage():
    L = np.random.default_rng(0).standard_normal((20, 3))
    result = solve_preimage(RBF(0.5), L, np.eye(20), L + 0.1, tol=1e-10, max_iter=2000)
    np.testing.assert_allclose(result.A, L, atol=1e-6)
    np.testing.assert_allclose(result.objective[-1], 0.0, atol=1e-9)


@pytest.mark.parametrize("start", [1e3, 1e6, -1e9])
def test_a_start_without_any_weight_goes_to_the_nearest_image(start):
    L = make_circle(50, random_state=0).X
    C = np.zeros((1, 50))
    C[0, :3] = [0.6, 0.5, -0.1]
    result = solve_preimage(RBF(1.0), L, C, np.full((1, 2), start))
    assert np.isfinite(result.A).all()
    assert np.abs(result.A).max() < 2.0
    assert np.isfinite(result.objective).all()


def test_a_target_on_the_other_side_of_everything_leaves_the_row_alone():
    L = make_circle(30, random_state=0).X
    start = np.array([[0.1, 0.2]])
    result = solve_preimage(RBF(1.0), L, np.full((1, 30), -1.0), start)
    np.testing.assert_array_equal(result.A, start)
    assert result.stop_reason == "converged"


def test_new_rows_come_one_by_one():
    _, X, _ = corrupted_circle()
    est = KernelPCADenoiser().fit(X)
    new = np.random.default_rng(0).uniform(-1.5, 1.5, (6, 2))
    alone = np.vstack([est.transform(row[np.newaxis]) for row in new])
    np.testing.assert_allclose(est.transform(new), alone, atol=1e-9)
    np.testing.assert_allclose(est.transform(X), est.recovered_, atol=1e-9)


def test_far_rows_come_back_to_the_data():
    _, X, _ = corrupted_circle()
    est = KernelPCADenoiser().fit(X)
    far = np.array([[1e4, -1e4], [0.0, 50.0]])
    assert np.abs(est.transform(far)).max() < 2.0
    assert est.score_samples(far).max() < est.score_samples(X[~est.outliers_]).mean()


# --- on data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("preimage", "share"), [("fixed-point", 0.4), ("ridge", 0.8)])
@pytest.mark.parametrize("seed", range(3))
def test_outliers_of_a_circle_move_towards_it(preimage, share, seed):
    surface, X, bad = corrupted_circle(seed)
    Z = KernelPCADenoiser(preimage=preimage).fit_transform(X)
    assert surface.distance(Z[bad]).mean() < share * surface.distance(X[bad]).mean()
    assert surface.distance(Z[~bad]).mean() < 0.06


def test_noise_everywhere_falls():
    truth = make_circle(200, random_state=0).X
    X = truth + 0.1 * np.random.default_rng(1).standard_normal(truth.shape)
    Z = KernelPCADenoiser().fit_transform(X)
    assert np.square(Z - truth).sum() < 0.7 * np.square(X - truth).sum()


def test_flags_and_the_given_share():
    _, X, bad = corrupted_circle(1)
    est = KernelPCADenoiser().fit(X)
    assert est.outliers_.sum() >= 5
    assert not est.outliers_[~bad].any()
    np.testing.assert_array_equal(est.outliers_, est.outlier_scores_ > est.threshold_)
    np.testing.assert_array_equal(est.fit_predict(X), np.where(est.outliers_, -1, 1))
    np.testing.assert_array_equal(est.predict(X), np.where(est.outliers_, -1, 1))
    np.testing.assert_array_equal(est.decision_function(X) < 0, est.outliers_)
    assert "flagged" in est.summary()
    assert KernelPCADenoiser(contamination=0.2).fit(X).outliers_.sum() == 20
    assert KernelPCADenoiser(contamination=0.0).fit(X).outliers_.sum() == 0


def test_number_of_components():
    _, X, _ = corrupted_circle()
    assert KernelPCADenoiser(n_components=3).fit(X).rank_ == 3
    few, many = (KernelPCADenoiser(n_components=share).fit(X) for share in (0.5, 0.99))
    assert 1 <= few.rank_ < many.rank_
    variances = many.kernel_pca_.eigenvalues_
    total = KernelPCA(kernel="rbf", gamma=many.gamma_).fit(X).eigenvalues_.sum()
    assert variances.sum() >= 0.99 * total > variances[:-1].sum()
    _, noisy, _ = noisy_surface()
    assert KernelPCADenoiser().fit(noisy).rank_ <= len(noisy) // 8
    assert KernelPCADenoiser(n_components=1000).fit(X).rank_ <= len(X)


@pytest.mark.parametrize("preimage", ["fixed-point", "ridge"])
@pytest.mark.parametrize("X", [np.ones((10, 3)), np.array([[0.0], [1.0]]), np.repeat(np.eye(3), 4, axis=0)])
def test_odd_data_stays_in_its_range(preimage, X):
    est = KernelPCADenoiser(preimage=preimage).fit(X)
    assert X.min() - 0.1 <= est.recovered_.min() <= est.recovered_.max() <= X.max() + 0.1
    assert np.isfinite(est.outlier_scores_).all()
    assert not est.outliers_.any()
    assert np.isfinite(est.transform(X + 0.5)).all()


def test_float32_stays_float32():
    _, X, _ = corrupted_circle()
    single = KernelPCADenoiser().fit(X.astype(np.float32))
    assert single.recovered_.dtype == np.float32
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.recovered_, KernelPCADenoiser().fit_transform(X), atol=1e-4)


def test_an_unfinished_fixed_point_warns():
    _, X, _ = corrupted_circle()
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        est = KernelPCADenoiser(max_iter=1).fit(X)
    assert est.stop_reason_ == "max_iter"
    assert est.objective_.shape == (2,)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"preimage": "magic"}, ValueError, "preimage must be one of"),
        ({"kernel": "poly"}, ValueError, "preimage='ridge'"),
        ({"kernel": RBF(1.0)}, TypeError, "name of a kernel"),
        ({"gamma": -1.0}, ValueError, "gamma must be a positive number"),
        ({"n_components": 0}, ValueError, "n_components"),
        ({"n_components": 1.5}, ValueError, "n_components"),
        ({"n_components": "many"}, ValueError, "n_components"),
        ({"alpha": 0.0}, ValueError, "alpha"),
        ({"contamination": 0.7}, ValueError, "contamination"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"tol": -1.0}, ValueError, "tol"),
    ],
)
def test_parameters_are_checked(parameters, error, message):
    with pytest.raises(error, match=message):
        KernelPCADenoiser(**parameters).fit(np.eye(5))


def test_missing_entries_are_an_error_that_says_what_to_do():
    X = np.eye(5)
    X[2, 3] = np.nan
    with pytest.raises(ValueError, match=r"row 2.*column 3.*KernelRecovery"):
        KernelPCADenoiser().fit(X)
