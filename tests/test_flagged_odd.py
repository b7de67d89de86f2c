"""KernelRecovery on odd data: missing entries, few rows, equal rows; the summary; every row may move."""

import copy

import numpy as np
import pandas as pd
import pytest
from cases import ERRORS, IGNORE_MAX_ITER, check_sound, f1, fitted, noisy_surface, with_holes
from sklearn.datasets import load_diabetes

from kernmend import KernelLowRank, KernelRecovery
from kernmend.datasets import make_circle, make_cubic_surface
from kernmend.datasets.metrics import snr

# --- missing entries --------------------------------------------------------------------------------------------------


@IGNORE_MAX_ITER
@pytest.mark.parametrize("error", ["auto", *ERRORS])
def test_holes_are_filled_while_wrong_rows_are_mended(error):
    truth, X, bad = noisy_surface(n=120)
    holes = with_holes(X)
    est = KernelRecovery(error=error).fit(holes)
    check_sound(est, holes)
    assert f1(est.outliers_, bad) >= 0.8
    filled = np.isnan(holes) & ~bad[:, np.newaxis]
    assert np.linalg.norm((est.recovered_ - truth)[filled]) < 0.5 * np.linalg.norm(truth[filled])
    assert np.isfinite(est.transform(holes)).all()
    assert np.isfinite(est.score_samples(holes)).all()


@pytest.mark.parametrize("contamination", ["auto", 0.1])
def test_holes_in_clean_rows(contamination):
    X = make_cubic_surface(80, 20, random_state=3)
    holes = with_holes(X, 0.1)
    est = KernelRecovery(contamination=contamination).fit(holes)
    check_sound(est, holes)


def test_a_row_or_a_column_without_any_value_is_named():
    _, X, _ = noisy_surface(n=40, d=3)
    row, column = X.copy(), pd.DataFrame(X, columns=["x", "y", "z"])
    row[7] = np.nan
    column["y"] = np.nan
    with pytest.raises(ValueError, match="row 7"):
        KernelRecovery().fit(row)
    with pytest.raises(ValueError, match="column 'y'"):
        KernelRecovery().fit(column)
    for est in (KernelRecovery(error="rows"), KernelLowRank(error="rows", gamma=1.0, rho=100.0, lam=1.0)):
        est.fit(X)
        with pytest.raises(ValueError, match=r"row [78]"):
            est.transform(row)


def test_infinity_is_an_error():
    est, _, X, _ = fitted(0)
    X = X.copy()
    X[4, 2] = np.inf
    with pytest.raises(ValueError, match="row 4 has it in column 2"):
        KernelRecovery().fit(X)
    for method in (est.transform, est.predict, est.score_samples, est.decision_function):
        with pytest.raises(ValueError, match="row 4 has it in column 2"):
            method(X)


# --- odd data ---------------------------------------------------------------------------------------------------------


@IGNORE_MAX_ITER
@pytest.mark.parametrize("fraction", [0.01, 0.3])
@pytest.mark.parametrize("d", [3, 20])
def test_little_and_much_contamination(fraction, d):
    truth, X, bad = noisy_surface(1, n=150, d=d, fraction=fraction)
    est = KernelRecovery().fit(X)
    check_sound(est, X)
    if d == 20:
        assert est.outliers_[bad].mean() >= 0.8
        assert est.outliers_[~bad].mean() <= 0.05
        assert snr(truth[bad], est.recovered_[bad]) > snr(truth[bad], X[bad])


@IGNORE_MAX_ITER
@pytest.mark.parametrize("d", [2, 20])
@pytest.mark.parametrize("size", [3, 15])
def test_a_cluster_of_equal_wrong_rows(d, size):
    X = make_cubic_surface(120, d, random_state=2)
    X[:size] = 6.0
    est = KernelRecovery().fit(X)
    check_sound(est, X)
    assert np.isfinite(est.transform(X)).all()


@IGNORE_MAX_ITER
@pytest.mark.parametrize("shape", [(30, 2), (30, 20), (30, 2000), (100, 2), (100, 2000)], ids=str)
def test_few_rows_few_and_many_features(shape):
    n, d = shape
    truth, X, bad = noisy_surface(4, n=n, d=d)
    est = KernelRecovery().fit(X)
    check_sound(est, X)
    assert np.isfinite(est.transform(X)).all()
    if shape == (100, 2000):
        assert f1(est.outliers_, bad) >= 0.8
        assert snr(truth[bad], est.recovered_[bad]) > snr(truth[bad], X[bad])


@pytest.mark.parametrize("n", [80, 120])
def test_clear_outliers_among_few_rows(n):
    _, X, bad = noisy_surface(n=n)
    assert f1(KernelRecovery().fit(X).outliers_, bad) >= 0.8


@IGNORE_MAX_ITER
@pytest.mark.parametrize("contamination", ["auto", 0.1, 0.5])
@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_tiny_n(n, contamination):
    X = np.random.default_rng(n).standard_normal((n, 3))
    est = KernelRecovery(contamination=contamination).fit(X)
    check_sound(est, X)
    assert np.isfinite(est.transform(X)).all()


@IGNORE_MAX_ITER
@pytest.mark.parametrize("contamination", ["auto", 0.1])
def test_equal_rows(contamination):
    X = np.full((20, 3), 2.5)
    est = KernelRecovery(contamination=contamination).fit(X)
    check_sound(est, X)
    np.testing.assert_allclose(est.recovered_, X, rtol=1e-3)
    np.testing.assert_allclose(est.transform(X), X, rtol=1e-3)


# --- the summary ------------------------------------------------------------------------------------------------------


def test_the_summary_of_a_clear_case():
    est, _, _, _ = fitted(0)
    text = est.summary()
    count = est.outliers_.sum()
    assert text.startswith(f"{count} of 150 rows flagged, {100 * count / 150:.1f} %: good rows are as far out")
    worst = int(np.argmax(est.outlier_scores_))
    assert f"as far out: {worst} (one in " in text
    assert "Caution" not in text
    assert "Chosen: RBF(gamma=" in text
    assert f"error {est.error_!r}" in text
    assert "rank" in text
    assert est.error_ == "rows"
    rows, cells = est.whole_rows_.sum(), est.entry_outliers_[~est.whole_rows_].sum()
    assert f"{rows} rows replaced as a whole{f', and {cells} cell' if cells else '.'}" in text
    other = copy.copy(est)
    other.error_ = "entries"  # then a row that is wrong as a whole keeps most of its cells
    assert f"{est.entry_outliers_.sum()} of {est.entry_outliers_.size} cells replaced." in other.summary()


def test_the_summary_of_clean_data():
    est = KernelRecovery().fit(make_circle(100).X)
    text = est.summary()
    words = "0 of 100 rows flagged, 0.0 %: good rows are as far out in less than one in "
    assert text.startswith(words)
    cases = float(text.removeprefix(words).partition(" ")[0].replace(",", ""))
    assert cases == pytest.approx(10.0**est.threshold_, rel=0.01)
    assert 1000.0 < cases <= 6000.0  # 3 n / alpha, or less where a new row is more probably wrong
    assert "Worst rows" not in text
    listed = next(line for line in text.splitlines() if "unusual" in line)
    assert "not changed" in listed
    assert listed.count("one in") == 5
    assert "Caution" not in text


def test_the_summary_names_unusual_rows_below_those_that_are_known_to_be_good():
    est = KernelRecovery().fit(make_circle(60, random_state=0).X)
    est.outliers_, est.suspects_ = np.zeros(60, dtype=bool), np.arange(60) == 3
    est.outlier_scores_ = np.where(np.arange(60) > 40, 5.0, 2.0)  # the user said that those from 41 on are good
    assert "1 more row is unusual and was not changed: 3 (one in 100)." in est.summary()


def test_the_summary_is_cautious():
    X = np.random.default_rng(0).standard_normal((100, 3))
    text = KernelRecovery(contamination=0.1).fit(X).summary()
    assert text.startswith("10 of 100 rows flagged, 10.0 %, the share that was asked for.")
    text = KernelRecovery().fit(X[:20]).summary()
    assert "Caution: 20 rows are too few" in text
    text = KernelRecovery(contamination=0.45).fit(X).summary()
    assert "Caution: over 40 % of the rows are flagged" in text


def test_the_summary_of_the_joint_model():
    _, X, _ = noisy_surface(n=60)
    assert "by how far they moved" in KernelLowRank(max_iter=1000).fit(X).summary()


# --- every row may move -----------------------------------------------------------------------------------------------


def falls_within_stages(est):
    """A path of falling eps changes the objective from stage to stage; it may rise only where one begins."""
    return np.sum(np.diff(est.objective_) > 1e-9 * np.abs(est.objective_[:-1]))


@IGNORE_MAX_ITER
@pytest.mark.parametrize("bounds", [None, "data", (-0.5, 0.5)], ids=str)
@pytest.mark.parametrize("penalty", ["schatten", "nuclear"])
@pytest.mark.parametrize("error", ERRORS)
def test_the_joint_model(error, penalty, bounds):
    _, X, _ = noisy_surface(n=50)
    est = KernelLowRank(error=error, penalty=penalty, bounds=bounds, max_iter=40).fit(X)
    assert np.isfinite(est.recovered_).all()
    assert np.isfinite(est.outlier_scores_).all()
    if penalty == "nuclear":
        assert np.all(np.diff(est.objective_) <= 1e-12 * est.objective_[0])
        assert est.rho_ > 0
    else:
        assert falls_within_stages(est) == 0
        assert est.rho_ is None
    if bounds == (-0.5, 0.5):
        assert np.abs(est.recovered_).max() <= 0.5
    if bounds == "data":
        assert np.all((est.recovered_ >= X.min(axis=0)) & (est.recovered_ <= X.max(axis=0)))
    out = est.transform(X[:4])
    assert np.isfinite(out).all()
    assert np.isfinite(est.score_samples(X[:4])).all()


@IGNORE_MAX_ITER
@pytest.mark.parametrize("error", ERRORS)
def test_the_joint_model_fills_holes(error):
    truth, X, bad = noisy_surface(n=50)
    holes = with_holes(X)
    est = KernelLowRank(error=error, max_iter=60).fit(holes)
    filled = np.isnan(holes) & ~bad[:, np.newaxis]
    from_medians = np.abs(np.nanmedian(holes, axis=0) - truth)[filled].mean()
    for A in (est.recovered_, est.transform(holes)):
        assert np.isfinite(A).all()
        assert np.abs(A - truth)[filled].mean() < 0.2 * from_medians
    assert np.isfinite(est.score_samples(holes)).all()


@IGNORE_MAX_ITER
def test_the_joint_model_scores_a_single_new_row_with_a_hole():
    truth, X, _ = noisy_surface(n=50)
    est = KernelLowRank(error="rows", max_iter=60).fit(X)
    row = X[:1].copy()
    row[0, 3] = np.nan
    assert abs(est.transform(row)[0, 3] - truth[0, 3]) < 0.1 * abs(np.median(X[:, 3]) - truth[0, 3])
    np.testing.assert_allclose(est.score_samples(row), est.score_samples(X[:1]), atol=1e-3)


def test_wrong_entries_of_any_row():
    truth = make_cubic_surface(80, 15, random_state=0)
    rng = np.random.default_rng(0)
    wrong = rng.random(truth.shape) < 0.1
    X = truth + wrong * rng.standard_normal(truth.shape)
    est = KernelLowRank(error="entries", max_iter=1000).fit(X)
    assert snr(truth, est.recovered_) > snr(truth, X) + 8.0
    assert est.entry_outliers_[wrong & (np.abs(X - truth) > 0.5)].mean() > 0.9


def test_combinations_that_make_no_sense():
    _, X, _ = noisy_surface(n=40)
    with pytest.raises(ValueError, match="rho belongs to the nuclear penalty"):
        KernelLowRank(penalty="schatten", rho=100.0).fit(X)
    with pytest.raises(ValueError, match="use solver='reduced'"):
        KernelLowRank(solver="alternating", bounds="data").fit(X)
    with pytest.raises(ValueError, match="use solver='reduced'"):
        KernelLowRank(solver="alternating", penalty="schatten").fit(X)
    with pytest.raises(ValueError, match="belongs to the nuclear penalty"):
        KernelLowRank(penalty="schatten").fit(X, gram=np.eye(40))


def test_cells_at_minus_999_flag_no_good_row():
    """A gain that overflowed to nan once made every comparison False, and up to 60 good rows were flagged."""
    X, rng, bad = load_diabetes().data, np.random.default_rng(0), np.zeros(442, dtype=bool)
    rows = rng.choice(442, 22, replace=False)
    X[rows, rng.integers(0, 10, 22)], bad[rows] = -999.0, True
    est = KernelRecovery().fit(X)
    np.testing.assert_array_equal(est.outliers_, bad)
    assert np.isfinite(est.outlier_scores_).all()
