"""KernelRecovery as users meet it: wrong rows found and mended, the others untouched, new rows, parameters."""

import pickle

import numpy as np
import pandas as pd
import pytest
from cases import ERRORS, RationalQuadratic, check_sound, f1, fitted, noisy_surface, with_holes
from sklearn.base import clone
from sklearn.datasets import load_iris

from kernmend import KernelRecovery
from kernmend.datasets import make_circle, make_cubic_surface, make_surface
from kernmend.datasets.corruption import gaussian_noise, uniform_outliers
from kernmend.datasets.metrics import snr
from kernmend.model.kernels import RBF
from kernmend.model.penalties import cutoff_from_rho

# --- wrong rows are found and mended, the others are left alone -------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_noisy_rows_are_found_and_mended(seed):
    est, truth, X, bad = fitted(seed)
    check_sound(est, X)
    assert f1(est.outliers_, bad) >= 0.9
    assert snr(truth[bad], est.recovered_[bad]) >= snr(truth[bad], X[bad]) + 5.0
    assert est.stop_reason_ == "converged"
    np.testing.assert_array_equal(est.outliers_, est.outlier_scores_ > est.threshold_)


def test_few_others_are_flagged_with_the_noisy_rows():
    found = [(est.outliers_, bad) for est, _, _, bad in map(fitted, range(3))]
    assert np.mean([f1(outliers, bad) for outliers, bad in found]) >= 0.9
    assert all(outliers[bad].all() for outliers, bad in found)


def test_unflagged_rows_come_back_bit_for_bit():
    est, _, X, _ = fitted(0)
    np.testing.assert_array_equal(est.recovered_[~est.outliers_], X[~est.outliers_])
    assert np.all(np.any(est.recovered_[est.outliers_] != X[est.outliers_], axis=1))


def test_float32_rows_come_back_bit_for_bit_in_float32():
    _, X, bad = noisy_surface()
    X = X.astype(np.float32)
    est = KernelRecovery().fit(X)
    assert est.recovered_.dtype == est.transform(X).dtype == np.float32
    check_sound(est, X)
    assert f1(est.outliers_, bad) >= 0.9


@pytest.mark.usefixtures("quick_calibration")
def test_the_input_is_not_overwritten():
    _, X, _ = noisy_surface(n=80)
    holes = with_holes(X)
    for data in (X, holes):
        copy = data.copy()
        KernelRecovery().fit(data).transform(data)
        np.testing.assert_array_equal(data, copy)


def test_points_off_a_circle_are_put_on_it():
    surface = make_circle(150, random_state=1)
    X, _ = uniform_outliers(surface.X, 0.1, random_state=1)
    est = KernelRecovery().fit(X)
    check_sound(est, X)
    far = surface.distance(X) > 0.1
    assert f1(est.outliers_[far | (surface.distance(X) < 1e-9)], far[far | (surface.distance(X) < 1e-9)]) >= 0.9
    assert surface.distance(est.recovered_[far]).mean() < 0.2 * surface.distance(X[far]).mean()


@pytest.mark.parametrize("seed", range(3))
def test_clean_surfaces_are_left_alone(seed):
    X = make_cubic_surface(150, 20, random_state=seed)
    est = KernelRecovery().fit(X)
    check_sound(est, X)
    assert est.outliers_.mean() <= 0.03


def test_the_result_is_the_same_every_time_and_follows_the_order_of_the_rows():
    est, _, X, _ = fitted(0)
    again = clone(est)
    np.testing.assert_array_equal(again.fit_predict(X), np.where(est.outliers_, -1, 1))
    np.testing.assert_array_equal(again.recovered_, est.recovered_)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(KernelRecovery().fit(X[order]).outliers_, est.outliers_[order])


# --- new rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_transform_of_the_training_rows_gives_what_fit_found(seed):
    est, _, X, _ = fitted(seed)
    out = est.transform(X)
    np.testing.assert_array_equal(out[~est.outliers_], X[~est.outliers_])
    np.testing.assert_allclose(out[est.outliers_], est.recovered_[est.outliers_], atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_predict_and_the_scores_agree_with_each_other_and_with_fit(seed):
    est, _, X, _ = fitted(seed)
    predicted, scores, decisions = est.predict(X), est.score_samples(X), est.decision_function(X)
    np.testing.assert_array_equal(predicted, np.where(est.outliers_, -1, 1))
    np.testing.assert_array_equal(predicted == -1, decisions < 0)
    np.testing.assert_allclose(decisions - scores, est.threshold_)


def test_new_rows_of_the_surface_pass_and_wrong_ones_are_mended():
    truth = make_cubic_surface(250, 20, random_state=5)
    X, _ = gaussian_noise(truth[:150], 0.1, random_state=5)
    est = KernelRecovery().fit(X)
    new, bad = gaussian_noise(truth[150:], 0.2, random_state=6)
    assert f1(est.predict(new) == -1, bad) >= 0.9
    out = est.transform(new)
    passed = est.predict(new) == 1
    np.testing.assert_array_equal(out[passed], new[passed])
    assert snr(truth[150:][bad], out[bad]) >= snr(truth[150:][bad], new[bad]) + 5.0


def test_new_rows_do_not_depend_on_the_batch():
    est, _, _, _ = fitted(0)
    new = gaussian_noise(make_cubic_surface(20, 20, random_state=0), 0.5, random_state=9)[0]
    alone = np.vstack([est.transform(x[np.newaxis]) for x in new])
    # Rounding depends on the batch, and along a flat valley of the objective steps make more of it.
    np.testing.assert_allclose(est.transform(new), alone, atol=2e-3)
    np.testing.assert_allclose(est.score_samples(new), [est.score_samples(x[np.newaxis])[0] for x in new], rtol=1e-6)


def test_new_rows_with_holes_do_not_depend_on_the_batch():
    est, _, X, _ = fitted(0)
    new = with_holes(X[:20] + 0.01)
    alone = np.vstack([est.transform(x[np.newaxis]) for x in new])
    # Rounding depends on the batch, and along a flat valley of the objective steps make more of it.
    np.testing.assert_allclose(est.transform(new), alone, atol=2e-3)


@pytest.mark.parametrize("error", ERRORS)
def test_new_rows_with_holes_are_filled(error):
    truth, X, _ = noisy_surface(n=100)
    est = KernelRecovery(error=error).fit(X)
    holes = with_holes(truth[:30], 0.15)
    out = est.transform(holes)
    assert np.isfinite(out).all()
    passed = (est.predict(holes) == 1)[:, np.newaxis] & ~np.isnan(holes)
    np.testing.assert_array_equal(out[passed], holes[passed])
    missing = np.isnan(holes)
    assert np.linalg.norm((out - truth[:30])[missing]) < 0.5 * np.linalg.norm(truth[:30][missing])


def test_holes_in_a_new_row_leave_its_other_entries_alone_even_outside_the_bounds():
    _, X, _ = noisy_surface(n=100)
    est = KernelRecovery(bounds=(-0.5, 0.5)).fit(X)
    good = X[~est.outliers_][:10].copy()
    good[:, 3] = np.nan
    passed = est.predict(good) == 1
    assert passed.any()
    out = est.transform(good)[passed]
    np.testing.assert_array_equal(np.delete(out, 3, axis=1), np.delete(good[passed], 3, axis=1))


def test_pickle_keeps_transform():
    est, _, X, _ = fitted(0)
    again = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(again.transform(X), est.transform(X))
    np.testing.assert_array_equal(again.predict(X), est.predict(X))
    assert again.summary() == est.summary()


def test_transform_keeps_frames():
    _, X, _ = noisy_surface(n=60, d=3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    out = KernelRecovery().set_output(transform="pandas").fit(frame).transform(frame.iloc[:5])
    assert out.columns.tolist() == ["a", "b", "c"]


# --- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_contamination_is_a_share(share):
    _, X, _ = noisy_surface(n=100)
    est = KernelRecovery(contamination=share).fit(X)
    check_sound(est, X)
    assert est.outliers_.sum() == round(100 * share)
    if share:
        assert est.outlier_scores_[est.outliers_].min() >= est.outlier_scores_[~est.outliers_].max()
        np.testing.assert_array_equal(est.outliers_, est.outlier_scores_ > est.threshold_)
    if share <= 0.1:  # what it cuts off must stand apart for the good rows to look good without it
        np.testing.assert_array_equal(est.predict(X), np.where(est.outliers_, -1, 1))
    kept = ~est.outliers_  # too high a share still keeps the training rows
    np.testing.assert_array_equal(est.transform(X)[kept], X[kept])


@pytest.mark.parametrize("bounds", [(-0.5, 0.5), "data", (np.full(20, -1.0), np.full(20, 0.7))])
def test_mended_rows_stay_in_bounds(bounds):
    _, X, _ = noisy_surface()
    est = KernelRecovery(bounds=bounds).fit(X)
    check_sound(est, X)
    good = X[~est.outliers_]
    low, high = (good.min(axis=0), good.max(axis=0)) if isinstance(bounds, str) else bounds
    mended = est.recovered_[est.outliers_]
    assert len(mended)
    assert np.all((mended >= low) & (mended <= high))
    again = est.transform(X[est.outliers_])
    np.testing.assert_allclose(again, mended, atol=1e-6)


@pytest.mark.parametrize(
    "bounds", ["range", (1.0, 0.0), (0.0,), 3.0, (np.zeros(3), np.ones(3)), (np.nan, 1.0)], ids=str
)
def test_bad_bounds(bounds):
    _, X, _ = noisy_surface(n=40)
    with pytest.raises(ValueError, match="bounds must"):
        KernelRecovery(bounds=bounds).fit(X)


@pytest.mark.usefixtures("quick_calibration")
@pytest.mark.parametrize("error", ["auto", *ERRORS])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", RationalQuadratic(0.05)], ids=str)
def test_every_kernel_with_every_error_model(kernel, error):
    truth, X, bad = noisy_surface(n=100)
    est = KernelRecovery(kernel=kernel, error=error, max_iter=500, tol=1e-4).fit(X)
    check_sound(est, X)
    assert est.error_ in ERRORS
    assert est.error_ == error or error == "auto"
    assert snr(truth[bad], est.recovered_[bad]) > snr(truth[bad], X[bad])
    assert np.isfinite(est.transform(X[:5] + 0.1)).all()


@pytest.mark.parametrize("error", ERRORS)
def test_given_numbers_are_kept(error):
    _, X, _ = noisy_surface(n=120)
    est = KernelRecovery(gamma=0.07, lam=0.02, rho=1e4, error=error).fit(X)
    check_sound(est, X)
    assert (est.gamma_, est.lam_, est.error_) == (0.07, 0.02, error)
    assert est.rho_ == pytest.approx(1e4)
    good = X[~est.outliers_]
    assert est.rank_ == np.sum(np.linalg.eigvalsh(RBF(0.07).gram(good)) > cutoff_from_rho(1e4))


def test_a_huge_lam_leaves_the_rows_where_they_are():
    _, X, _ = noisy_surface(n=120)
    est = KernelRecovery(lam=1e6, error="rows").fit(X)
    np.testing.assert_allclose(est.recovered_, X, atol=1e-3)


# --- wrong entries ----------------------------------------------------------------------------------------------------


def spiked_surface(seed, size):
    truth = make_cubic_surface(150, 20, random_state=seed)
    rng = np.random.default_rng(seed)
    spikes = np.zeros(truth.shape, dtype=bool)
    for row in rng.choice(150, 15, replace=False):
        spikes[row, rng.choice(20, 2, replace=False)] = True
    X = truth.copy()
    X[spikes] += size * rng.choice([-1.0, 1.0], spikes.sum())
    return truth, X, spikes


@pytest.mark.parametrize(("seed", "size"), [(0, 0.7), (0, 1.5), (0, 50.0), (1, 0.7), (1, 1.5), (1, 50.0)])
def test_spikes_are_marked(seed, size):
    truth, X, spikes = spiked_surface(seed, size)
    est = KernelRecovery().fit(X)
    check_sound(est, X)
    assert est.error_ == "entries"
    assert f1(est.outliers_, spikes.any(axis=1)) >= 0.9
    assert est.entry_outliers_.shape == X.shape
    assert not est.entry_outliers_[~est.outliers_].any()
    assert est.entry_outliers_[spikes].mean() >= 0.9
    assert spikes[est.entry_outliers_].mean() >= 0.5
    wrong = spikes.any(axis=1)
    assert snr(truth[wrong], est.recovered_[wrong]) > snr(truth[wrong], X[wrong]) + 30.0


def test_spikes_are_mended_alike_whether_entries_are_asked_for_or_chosen():
    _, X, _ = spiked_surface(1, 0.7)
    chosen, asked = (KernelRecovery(error=error).fit(X) for error in ("auto", "entries"))
    np.testing.assert_array_equal(asked.recovered_, chosen.recovered_)
    np.testing.assert_array_equal(asked.entry_outliers_, chosen.entry_outliers_)


@pytest.mark.parametrize("far", [5.0, 1e3, 1e6])
def test_rows_that_are_far_away_are_brought_back(far):
    """From there no kernel pulls: mending must not begin at the row itself."""
    surface = make_circle(150, random_state=0)
    X = surface.X.copy()
    X[:10] = far * np.random.default_rng(1).standard_normal((10, 2))
    est = KernelRecovery().fit(X)
    assert est.outliers_[:10].all()
    assert est.outliers_.sum() <= 12
    assert surface.distance(est.recovered_[:10]).max() < 0.1
    np.testing.assert_allclose(est.transform(X[:10]), est.recovered_[:10], atol=1e-6)


@pytest.mark.parametrize("error", ERRORS)
def test_entries_are_marked_in_flagged_rows_only(error):
    _, X, _ = noisy_surface(n=60)
    est = KernelRecovery(error=error).fit(X)
    assert est.outliers_.any()
    assert est.entry_outliers_[est.outliers_].any(axis=1).all()
    assert not est.entry_outliers_[~est.outliers_].any()
    assert est.entry_scores_.shape == X.shape
    assert np.isfinite(est.entry_scores_).all()


def test_only_wrong_entries_are_changed_where_single_entries_are_wrong():
    truth = load_iris(return_X_y=True)[0]
    X, rng = truth.copy(), np.random.default_rng(0)
    rows = rng.permutation(150)[:6]
    X[rows, rng.integers(0, 4, 6)] += 6.0
    est = KernelRecovery().fit(X)
    wrong = truth != X
    np.testing.assert_array_equal(est.entry_outliers_, wrong)
    np.testing.assert_array_equal(est.recovered_ != X, wrong)
    assert np.abs(est.recovered_ - truth)[wrong].max() < 1.0


@pytest.mark.parametrize("name", ["sphere", "cubic"])
def test_seen_rows_with_missing_entries_come_out_as_in_the_fit(name):
    rng = np.random.default_rng(0)
    if name == "cubic":
        X = make_cubic_surface(150, 20, random_state=0)
        X[:15] += rng.standard_normal((15, 20))
    else:
        X, _ = uniform_outliers(make_surface("sphere", 150, random_state=1).X, 0.1, low=-2.0, high=2.0, random_state=1)
    X[np.arange(0, 150, 4), rng.integers(0, X.shape[1], 38)] = np.nan
    est = KernelRecovery().fit(X)
    assert (est.outliers_ & np.isnan(X).any(axis=1)).any()
    out = est.transform(X)
    seen = ~np.isnan(X) & ~est.outliers_[:, np.newaxis]
    np.testing.assert_array_equal(out[seen], est.recovered_[seen])
    # `fit` fills in all rows together, `transform` each against the good ones: they differ by less than they err.
    holes = np.isnan(X) & ~est.outliers_[:, np.newaxis]
    spread = np.broadcast_to(np.nanstd(X, axis=0), X.shape)[holes]
    assert np.median(np.abs(out - est.recovered_)[holes] / spread) < 0.05
    np.testing.assert_array_equal(est.predict(X) == -1, est.outliers_)


def test_a_second_fit_forgets_the_entries_of_the_first():
    truth = make_cubic_surface(300, 10, random_state=0)
    rng = np.random.default_rng(0)
    X = truth.copy()
    X[np.arange(30), rng.integers(0, 10, 30)] += 6 * truth.std()
    est = KernelRecovery().fit(X)
    assert est.error_ == "entries"
    assert est.entry_outliers_.shape == X.shape
    X = truth[:200].copy()
    X[:20] += rng.standard_normal((20, 10))
    est.fit(X)
    assert est.error_ == "rows"
    assert est.entry_outliers_.shape == est.entry_scores_.shape == X.shape
    np.testing.assert_array_equal(est.entry_outliers_.any(axis=1), est.outliers_)
