"""Covered parts of rows: features that go together, entries filled in with their like, and the second look."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernmend import KernelRecovery
from kernmend.corruption import occlusion
from kernmend.datasets import load_mnist, make_cubic_surface
from kernmend.graphs import similar_features
from kernmend.kernels import RBF, Linear, Polynomial, median_squared_distance
from kernmend.mending import Mender, Settings
from kernmend.metrics import f1_score, snr
from kernmend.second_look import ChangeScorer, look_again


def bumps(n, d, seed, width=4.0):
    """Smooth curves with one bump each: neighbouring features go together."""
    centre = np.random.default_rng(seed).uniform(5, d - 5, (n, 1))
    curves = np.exp(-0.5 * ((np.arange(d) - centre) / width) ** 2)
    return curves + 0.02 * np.random.default_rng(seed + 1).standard_normal((n, d))


def cover(truth, count, length, seed):
    """Set a stretch of the first rows to 1."""
    rng = np.random.default_rng(seed)
    X = truth.copy()
    for i in range(count):
        start = rng.integers(0, truth.shape[1] - length)
        X[i, start : start + length] = 1.0
    return X


# --- features that go together ----------------------------------------------------------------------------------------


@given(st.integers(0, 100), st.integers(1, 9), st.integers(1, 5), st.sampled_from([1, 3, 512]))
def test_neighbours_are_the_most_correlated_features(seed, d, k, block):
    X = np.random.default_rng(seed).standard_normal((12, d))
    graph = similar_features(X, k, 0.2, block).toarray()
    expected = np.zeros((d, d), dtype=bool)
    likeness = np.abs(np.corrcoef(X, rowvar=False)).reshape(d, d)
    np.fill_diagonal(likeness, 0.0)
    for i in range(d):
        for j in np.argsort(-likeness[i])[:k]:
            if likeness[i, j] >= 0.2:
                expected[i, j] = expected[j, i] = True
    np.testing.assert_array_equal(graph, expected)


def test_constant_features_have_no_neighbours():
    X = bumps(30, 20, 0)
    X[:, 3] = 7.0
    graph = similar_features(X).toarray()
    assert not graph[3].any()
    assert not graph[:, 3].any()
    assert graph[9].any()


@pytest.mark.parametrize("kernel", [RBF(0.3), Polynomial(2), Linear()], ids=str)
def test_a_kernel_against_fixed_rows_is_the_same_kernel(kernel):
    rng = np.random.default_rng(0)
    A, L, G = rng.standard_normal((5, 3)) + 100, rng.standard_normal((7, 3)) + 100, rng.standard_normal((5, 7))
    fixed = kernel.against(L)
    K = fixed.gram(A)
    np.testing.assert_allclose(K, kernel.gram(A, L), rtol=1e-10)
    np.testing.assert_allclose(fixed.pullback(A, K, G.copy()), kernel.pullback(A, L, K, G.copy()), rtol=1e-8)


# --- growing ----------------------------------------------------------------------------------------------------------


def mender(truth, count):
    L = truth[count:]
    return Mender(L), RBF(0.1 / median_squared_distance(L))


def test_growing_finds_more_of_what_covers_a_row():
    truth = bumps(220, 60, 1)
    X = cover(truth, 20, 8, 1)
    mend, kernel = mender(truth, 20)
    before, after = (mend.mend(X[:20], Settings(kernel, 1e-6, "entries", 0.7, refit=0.6, grow=grow)) for grow in (0, 2))
    wrong = X[:20] != truth[:20]
    assert ((after != X[:20]) & wrong).sum() >= ((before != X[:20]) & wrong).sum()
    assert snr(truth[:20], after) > snr(truth[:20], before) + 1.0


def test_held_entries_stay_though_their_like_are_wrong():
    truth = bumps(220, 60, 1)
    X = cover(truth, 20, 8, 1)
    mend, kernel = mender(truth, 20)
    free = np.ones_like(X[:20], dtype=bool)
    free[:, ::2] = False
    settings = Settings(kernel, 1e-6, "entries", 1.0, refit=0.6, grow=2)
    A = mend.mend_with_history(X[:20], settings, start=X[:20], free=free)[0]
    np.testing.assert_array_equal(A[~free], X[:20][~free])


def test_a_refit_shared_between_settings_is_what_each_gives_alone():
    truth = bumps(150, 40, 2)
    X = cover(truth, 10, 6, 2)[:10]
    mend, kernel = mender(truth, 10)
    start = mend.start(X, "entries")
    plain = mend.mend(X, Settings(kernel, 1e-5, "entries", 1.0), start=start, max_iter=20)
    for refit, grow in ((0.0, 0), (0.5, 0), (0.5, 2)):
        settings = Settings(kernel, 1e-5, "entries", 1.0, refit, grow)
        np.testing.assert_array_equal(
            mend.refit(plain, X, settings, start=start, max_iter=20), mend.mend(X, settings, max_iter=20)
        )


# --- the second look --------------------------------------------------------------------------------------------------


def test_rows_near_the_line_are_told_apart_by_how_far_mending_moves_them():
    X, truly = occlusion(load_mnist(260, random_state=12), (28, 28), 0.1, random_state=12)
    mend = Mender(X[~truly])
    settings = Settings(RBF(0.1 / median_squared_distance(X)), 1e-6, "entries", 1.0, refit=1.0, grow=2)
    first = np.random.default_rng(0).uniform(0, 1, 260)  # a first score that hardly knows
    first[truly] += 0.6
    flags = first > 1.0
    z, line, _ = look_again(X, first, flags, mend, settings, seed=0)
    assert np.isfinite(line.threshold)
    assert f1_score(truly, z > line.threshold) > f1_score(truly, flags)
    assert f1_score(truly, z > line.threshold) > 0.8
    assert np.isfinite(z).all()


def test_the_order_of_rows_that_were_not_looked_at_is_kept():
    truth = bumps(400, 30, 4)
    X = cover(truth, 20, 5, 4)
    mend, kernel = mender(truth, 20)
    settings = Settings(kernel, 1e-6, "entries", 1.0, refit=1.0)
    first = np.linspace(2, 0, 400)
    z, line, _ = look_again(X, first, first > 1.9, mend, settings, seed=0)
    rest = z[40:]  # a hundred of them were looked at
    assert (rest <= line.threshold).mean() > 0.95
    assert np.count_nonzero(np.diff(rest) <= 1e-12) > 150


def test_a_row_is_not_judged_by_itself():
    """A wrong row among the good ones would be its own proof: mended against a reference with itself it stays."""
    truth = bumps(200, 40, 5)
    X = cover(truth, 1, 8, 5)
    kernel = RBF(0.1 / median_squared_distance(X))
    settings = Settings(kernel, 1e-7, "entries", 0.35, refit=0.6)
    with_itself = ChangeScorer(Mender(X), settings).score(X[:1])[0]
    z, _, _ = look_again(X, np.linspace(1, 0, 200), np.zeros(200, dtype=bool), Mender(X), settings, seed=0)
    assert z[0] == z.max()
    assert ChangeScorer(Mender(X[1:]), settings).score(X[:1])[0] > 1.2 * with_itself


def test_covered_digits():
    truth = load_mnist(300, random_state=11)
    X, bad = occlusion(truth, (28, 28), 0.1, random_state=11)
    est = KernelRecovery().fit(X)
    assert est.error_ == "entries"
    assert f1_score(bad, est.outliers_) > 0.9
    assert snr(truth[bad], est.recovered_[bad]) > snr(truth[bad], X[bad]) + 6.0
    np.testing.assert_array_equal(est.outliers_, est.outlier_scores_ > est.threshold_)
    np.testing.assert_array_equal(est.recovered_[~est.outliers_], X[~est.outliers_])
    np.testing.assert_allclose(est.transform(X), est.recovered_, atol=1e-12)
    np.testing.assert_array_equal(est.predict(X) == -1, est.outliers_)


def test_new_rows_are_looked_at_again_only_where_the_first_score_is_not_low(monkeypatch):
    truth = load_mnist(600, random_state=13)
    X, bad = occlusion(truth, (28, 28), 0.1, random_state=13)
    est = KernelRecovery().fit(X[:400])
    judge, new = est._rows.judge, X[400:]
    looked = []
    score = ChangeScorer.score
    monkeypatch.setattr(ChangeScorer, "score", lambda self, X: looked.append(len(X)) or score(self, X))
    z = judge.standardised_scores(new)
    all_of_them = judge.flags.line.standardise(score(judge.change, new))
    assert sum(looked) < 0.5 * len(new)
    near = judge.first.standardised_scores(new) >= judge.places.limit
    np.testing.assert_allclose(z[near], all_of_them[near], rtol=1e-3, atol=1e-3)
    assert (z[~near] <= est.threshold_).all()
    assert np.mean((z > est.threshold_) == (all_of_them > est.threshold_)) > 0.97
    assert f1_score(bad[400:], z > est.threshold_) > 0.85


@pytest.mark.parametrize("seed", range(2))
def test_one_wrong_cell_of_a_table_is_mended_and_the_others_of_its_row_stay(seed):
    truth = make_cubic_surface(300, 10, random_state=seed)
    rng = np.random.default_rng(seed)
    X = truth.copy()
    rows, columns = np.arange(30), rng.integers(0, 10, 30)
    X[rows, columns] += 6 * truth.std(axis=0)[columns] * rng.choice([-1, 1], 30)
    est = KernelRecovery().fit(X)
    assert est.error_ == "entries"
    assert f1_score(np.arange(300) < 30, est.outliers_) > 0.95
    left, was = (np.linalg.norm(A[:30] - truth[:30], axis=1) for A in (est.recovered_, X))
    assert np.median(left / was) < 0.02
    assert left.mean() < 0.2 * was.mean()
    assert (est.recovered_[:30] != X[:30]).sum() <= 60  # 30 are wrong, 300 there


def test_whole_wrong_rows_of_a_table_are_told_from_wrong_cells():
    truth = make_cubic_surface(300, 6, random_state=0)
    X = truth.copy()
    X[:30] = np.random.default_rng(0).uniform(truth.min(axis=0), truth.max(axis=0), (30, 6))
    assert KernelRecovery().fit(X).error_ == "rows"
