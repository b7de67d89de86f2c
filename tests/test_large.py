"""Landmarks: most rows are mended against some of them, in blocks."""

import tracemalloc

import numpy as np
import pytest

from benchmarks.landmarks import swiss_roll
from kernmend import KernelRecovery
from kernmend.datasets import make_circle, make_cubic_surface
from kernmend.datasets.corruption import gaussian_noise, uniform_outliers
from kernmend.datasets.metrics import f1_score, snr
from kernmend.large import landmarks as _large
from kernmend.linalg.distances import median_squared_distance
from kernmend.model.kernels import RBF
from kernmend.repair.row_mender import RowMender


def noisy(n=1200, d=20, seed=0):
    truth = make_cubic_surface(n, d, random_state=seed)
    return truth, *gaussian_noise(truth, 0.1, random_state=seed)


def test_landmarks_are_drawn_only_where_there_are_more_rows():
    for landmarks, n, drawn in ((None, 3000, None), (100, 100, None), ("auto", 2000, None), ("auto", 2001, 2000)):
        est = KernelRecovery(landmarks=landmarks)
        picked = est._pick_landmarks(np.random.default_rng(0).standard_normal((n, 9)), est._learner())
        assert (picked is None) if drawn is None else picked.size == drawn == _large.AUTO_LANDMARKS
    rows = _large.draw_landmarks(50, 20, 3)
    assert np.unique(rows).size == 20
    np.testing.assert_array_equal(rows, _large.draw_landmarks(50, 20, 3))
    np.testing.assert_array_equal(rows[:10], _large.draw_landmarks(50, 10, 3))  # fewer are the first of them


def test_one_row_more_changes_at_most_one_landmark():
    for n in (50, 51, 400):
        few, many = (set(_large.draw_landmarks(rows, 20, 3)) for rows in (n, n + 1))
        assert len(few - many) <= 1


def picked(X):
    return KernelRecovery()._pick_landmarks(X, KernelRecovery()._learner())


def test_the_number_of_landmarks_follows_from_the_data():
    """A curve is spanned by few rows, also where some are wrong; rows that fill their space are not."""
    rng = np.random.default_rng(8)
    curve = swiss_roll(5000)[0]
    cloud = rng.standard_normal((5000, 20))
    assert picked(curve).size == _large.LEAST_LANDMARKS
    assert picked(cloud).size == _large.AUTO_LANDMARKS
    holes = np.where(rng.random(curve.shape) < 0.1, np.nan, curve)
    assert picked(holes).size == _large.LEAST_LANDMARKS
    holes[np.arange(5000), rng.integers(0, 3, 5000)] = np.nan  # no row lacks nothing: nobody knows
    assert picked(holes).size == _large.AUTO_LANDMARKS


def test_one_row_more_changes_few_of_the_landmarks_that_are_picked(monkeypatch):
    monkeypatch.setattr(_large, "LEAST_LANDMARKS", 300)
    monkeypatch.setattr(_large, "AUTO_LANDMARKS", 800)
    X = swiss_roll(2001)[0]
    assert picked(X[:800]) is None
    sizes = []
    for n in (801, 1000, 1299, 1300, 2000):
        few, many = set(picked(X[:n])), set(picked(X[: n + 1]))
        assert len(few ^ many) <= 30
        sizes.append(len(few))
    assert sizes[:2] == [799, 600]  # one fewer for each row more
    assert 300 < sizes[-1] < 600  # down to what is enough


def test_enough_is_where_most_rows_are_in_the_span_of_those_before(monkeypatch):
    """By brute force: the residual of each probe after a regression on the first m landmarks."""
    monkeypatch.setattr(_large, "LEAST_LANDMARKS", 20)
    X = swiss_roll(1000)[0]
    m = _large.enough(X, KernelRecovery()._learner())
    L, probes = X[: -_large.PROBES], X[-_large.PROBES :]
    kernel = RBF(10.0 / median_squared_distance(L))

    def far(m):
        K, k = kernel.gram(L[:m]) + _large.RIDGE * np.eye(m), kernel.gram(L[:m], probes)
        return np.sort(1.0 - np.sum(k * np.linalg.solve(K, k), axis=0))[int(_large.NEAREST_SHARE * _large.PROBES) - 1]

    assert 20 < m < len(L)
    assert far(m) <= _large.IN_SPAN < far(m - 1)


@pytest.mark.usefixtures("quick_calibration")
def test_the_end_of_a_roll_is_not_lost():
    """Landmarks are drawn at random: the outer end of a swiss roll is a hundredth of the rows, and of them."""
    X, wrong, _, rare = swiss_roll(4000)
    flags = KernelRecovery(interval=None).fit(X).outliers_
    assert f1_score(wrong, flags) > 0.85
    assert flags[~wrong].mean() < 0.01
    assert flags[rare & ~wrong].mean() < 0.1


@pytest.mark.usefixtures("quick_calibration")
def test_one_row_more_changes_few_flags():
    X = swiss_roll(1201)[0]
    one, more = (KernelRecovery(landmarks=600, interval=None).fit(X[:n]).outliers_ for n in (1200, 1201))
    assert (one != more[:1200]).mean() < 0.005


def test_blocks_cover_all_rows_once():
    parts = [np.arange(11)[rows] for rows in _large.blocks(11, 4)]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(11))
    assert [part.size for part in parts] == [4, 4, 3]


def test_blocks_of_a_part_are_cut_where_those_of_all_rows_are():
    whole = {rows.stop for rows in _large.blocks(23, 4)}
    for first, n in [(0, 23), (3, 9), (4, 8), (5, 2), (6, 17), (22, 1), (9, 0)]:
        parts = list(_large.blocks(n, 4, first=first))
        np.testing.assert_array_equal(np.concatenate([np.arange(n)[rows] for rows in parts] or [[]]), np.arange(n))
        assert {first + rows.stop for rows in parts[:-1]} <= whole


def test_rows_that_are_no_landmarks_are_found_and_mended():
    truth, X, bad = noisy()
    est = KernelRecovery(landmarks=300, random_state=0).fit(X)
    full = KernelRecovery(landmarks=None, random_state=0).fit(X)
    assert est.recovered_.shape == X.shape
    assert f1_score(bad, est.outliers_) > 0.95
    assert snr(truth[bad], est.recovered_[bad]) > snr(truth[bad], full.recovered_[bad]) - 3.0
    assert snr(truth[bad], est.recovered_[bad]) > snr(truth[bad], X[bad]) + 3.0
    np.testing.assert_array_equal(est.recovered_[~est.outliers_], X[~est.outliers_])
    np.testing.assert_array_equal(est.outliers_, est.outlier_scores_ > est.threshold_)
    assert est._rows.mender.L.shape[0] < 300


@pytest.mark.usefixtures("quick_calibration")
def test_the_size_of_the_blocks_does_not_matter(monkeypatch):
    _, X, _ = noisy(600)
    whole = KernelRecovery(landmarks=200, tol=1e-9).fit(X)
    blocks = _large.blocks
    monkeypatch.setattr(_large, "blocks", lambda n, **first: blocks(n, 37, **first))
    parts = KernelRecovery(landmarks=200, tol=1e-9).fit(X)
    # Rounding depends on the batch and on the processor, and along a flat valley of the objective steps make more of
    # it: 2e-4 on some processors where rows end at a tol of 1e-8.
    np.testing.assert_allclose(parts.recovered_, whole.recovered_, atol=1e-4)
    np.testing.assert_array_equal(parts.outliers_, whole.outliers_)


def test_missing_entries_outside_the_landmarks_are_filled_in():
    X = make_circle(400, random_state=0).X
    X, _ = uniform_outliers(X, 0.05, random_state=0)
    X[5, 0] = X[120, 1] = X[333, 0] = np.nan
    est = KernelRecovery(landmarks=150).fit(X)
    assert np.isfinite(est.recovered_).all()
    np.testing.assert_allclose(np.hypot(*est.recovered_[[5, 120, 333]].T), 1.0, atol=0.01)


@pytest.mark.usefixtures("quick_calibration")
def test_float32_stays_float32():
    _, X, _ = noisy(500)
    est = KernelRecovery(landmarks=150).fit(X.astype(np.float32))
    assert est.recovered_.dtype == np.float32
    assert est.transform(X.astype(np.float32)).dtype == np.float32


def test_wrong_cells_outside_the_landmarks_are_marked():
    truth = make_cubic_surface(900, 10, random_state=0)
    rng = np.random.default_rng(0)
    X, wrong = truth.copy(), np.zeros(truth.shape, dtype=bool)
    wrong[rng.permutation(900)[:90], rng.integers(0, 10, 90)] = True
    X[wrong] += 6 * truth.std()
    est = KernelRecovery(landmarks=300).fit(X)
    assert est.whole_rows_.sum() <= 2
    assert f1_score(wrong, est.entry_outliers_) > 0.9


@pytest.mark.usefixtures("quick_calibration")
@pytest.mark.parametrize(("interval", "limit"), [(None, 2.2), (0.9, 3.2)])
def test_float32_has_no_copy_of_all_rows_in_float64(interval, limit):
    """What more rows take more is the result, not much else; `half_widths_` are float32 and as large as the data."""
    X = gaussian_noise(make_cubic_surface(8000, 100, random_state=0), 0.02, random_state=0)[0].astype(np.float32)
    peaks = []
    for n in (4000, 8000):
        tracemalloc.start()
        KernelRecovery(landmarks=300, error="rows", interval=interval).fit(X[:n])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # A copy in float64 would be 2 more; `entry_outliers_`, a byte for each entry, is 0.25 of the 2.2.
    assert peaks[1] - peaks[0] < limit * X[4000:].nbytes


@pytest.mark.usefixtures("quick_calibration")
def test_a_share_asked_for_is_about_that_of_all_rows():
    _, X, _ = noisy(900)
    est = KernelRecovery(landmarks=300, contamination=0.2).fit(X)
    assert abs(est.outliers_.mean() - 0.2) < 0.08


@pytest.mark.parametrize("lazy", [False, True], ids=["in memory", "dask"])
def test_a_share_of_nothing_flags_nothing_and_only_fills_in(lazy):
    """Rows that are no landmarks are often farther out than any landmark."""
    X = noisy(700)[1]
    X[::9, 2] = np.nan
    given = pytest.importorskip("dask.array").from_array(X, chunks=(150, X.shape[1])) if lazy else X
    est = KernelRecovery(landmarks=200, contamination=0).fit(given)
    A, flags, scores = (np.asarray(each) for each in (est.recovered_, est.outliers_, est.outlier_scores_))
    assert not flags.any()
    np.testing.assert_array_equal(A[~np.isnan(X)], X[~np.isnan(X)])
    assert not np.isnan(A).any()
    if not lazy:
        assert scores.max() <= est.threshold_
        np.testing.assert_array_equal(est.predict(X), 1)
        np.testing.assert_array_equal(est.transform(X)[~np.isnan(X)], X[~np.isnan(X)])
        scored, found, threshold, _ = KernelRecovery(landmarks=200, contamination=0)._find_only(X)
        assert not found.any()
        assert scored.max() <= threshold
    wrong = np.arange(len(X)) == 5
    assert (KernelRecovery(landmarks=200, contamination=0).fit(X, wrong=wrong).outliers_ == wrong).all()


@pytest.mark.usefixtures("quick_calibration")
def test_no_array_of_n_by_n():
    """5,200 rows by 5,200 would be 216 MB."""
    truth = make_cubic_surface(5200, 8, random_state=0)
    X, bad = gaussian_noise(truth, 0.05, random_state=0)
    tracemalloc.start()
    est = KernelRecovery(landmarks=400, error="rows").fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6
    assert f1_score(bad, est.outliers_) > 0.7


@pytest.mark.usefixtures("quick_calibration")
def test_ctrl_c_between_blocks_keeps_what_is_done(monkeypatch):
    _, X, bad = noisy(900)
    blocks = _large.blocks
    monkeypatch.setattr(_large, "blocks", lambda n, **first: blocks(n, 200, **first))
    done = []

    def interrupted(self, X, *known):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(len(X))
        return mend_rows(self, X, *known)

    mend_rows = RowMender.mend
    monkeypatch.setattr(RowMender, "mend", interrupted)
    with pytest.warns(UserWarning, match="interrupted: what was being chosen is the best so far"):
        est = KernelRecovery(landmarks=200).fit(X)
    assert est.stop_reason_ == "interrupted"
    assert np.isfinite(est.recovered_).all()
    assert 0 < (est.outliers_ & bad).sum() < bad.sum()


@pytest.mark.parametrize("landmarks", [0, -3, 2.5, "some"])
def test_bad_landmarks(landmarks):
    with pytest.raises((ValueError, TypeError), match="landmarks must be"):
        KernelRecovery(landmarks=landmarks).fit(noisy(50)[1])


@pytest.mark.usefixtures("quick_calibration")
def test_inspecting_many_rows_scores_them_as_the_fit_does():
    _, X, _ = noisy(700)
    est = KernelRecovery(landmarks=250, error="rows")
    z, flags, threshold, suspects = est._find_only(X)
    est.fit(X)
    np.testing.assert_allclose(z, est.outlier_scores_, atol=1e-8)
    np.testing.assert_array_equal(flags, est.outliers_)
    np.testing.assert_array_equal(suspects, est.suspects_)
    assert threshold == est.threshold_


def test_landmarks_of_data_made_with_the_same_seed_are_spread_over_it():
    """With the seed of the data itself, the landmarks would be the rows with the largest angles."""
    n = 3000
    angle = 2.0 * np.pi * np.random.default_rng(0).random(n)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    landmarks = _large.draw_landmarks(n, 500, 0)
    assert abs(X[landmarks].mean(axis=0)).max() < 0.15
    assert KernelRecovery(landmarks=500).fit(X).outliers_.mean() < 0.01
