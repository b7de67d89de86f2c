"""Values at the ends of what floats can hold: mended like others, or refused by name; never a warning or a crash."""

import numpy as np
import pytest
from cases import IGNORE_MAX_ITER
from circle_file import WRONG, frame
from test_common import data, every

from kernmend import KernelRecovery, RecoverySearch

pytestmark = pytest.mark.usefixtures("quick_calibration")
X = frame()[["x", "y"]].to_numpy()


@pytest.mark.parametrize("value", [1e308, -1e308, np.finfo(float).max, 1e200, 1e155])
@pytest.mark.parametrize("scale", ["auto", None, "columns"])
def test_a_cell_far_out(value, scale):
    Y = X.copy()
    Y[20, 1] = value
    est = KernelRecovery(scale=scale).fit(Y)
    assert np.flatnonzero(est.outliers_).tolist() == sorted([*WRONG, 20])
    np.testing.assert_allclose(np.hypot(*est.recovered_.T), 1, atol=0.06)
    np.testing.assert_array_equal(np.delete(est.recovered_, [*WRONG, 20], axis=0), np.delete(X, [*WRONG, 20], axis=0))
    assert est.predict(Y)[20] == -1
    assert np.isfinite(est.transform(Y)).all()
    assert np.isfinite(est.score_samples(Y)).all()


@pytest.mark.parametrize("factor", [1e200, 1e307, 1e-200])
def test_all_values_far_from_one(factor):
    plain, far = KernelRecovery(scale="columns").fit(X), KernelRecovery().fit(factor * X)
    np.testing.assert_array_equal(far.outliers_, plain.outliers_)
    np.testing.assert_allclose(far.recovered_ / factor, plain.recovered_, atol=1e-5)
    if factor > 1:
        with pytest.raises(ValueError, match=r"scale=None compares values of about .*: say 'auto'"):
            KernelRecovery(scale=None).fit(factor * X)


@pytest.mark.parametrize("unsure", ["mend", "keep", "blank"])
def test_what_became_of_cells_far_out_is_told(unsure):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((120, 2)) @ rng.standard_normal((2, 5)) + 0.05 * rng.standard_normal((120, 5))
    Y[3, 2], Y[100], Y[7, 1] = 1e200, [-1e180, 1e160, 3.0, 4.0, 5.0], np.nan
    est = KernelRecovery(unsure=unsure).fit(Y)
    assert est.unsure_.any()
    assert {3, 7, 100} <= set(est.changes_.records["row"].tolist()) == set(est.changes_of(Y).records["row"].tolist())
    assert "1e+200" in str(est.explain(3))
    assert len(est.explain(100).cells) >= 2
    assert est.report_data()["scores"]["flagged"]


def test_the_search():
    Y = X.copy()
    Y[20, 1] = 1e308
    assert RecoverySearch(n_iter=2).fit(Y).outliers_[20]


@every
@IGNORE_MAX_ITER
def test_other_methods_refuse_it_by_name(make):
    est = make()
    if est._allow_far:
        return
    Y = data()[1].copy()
    Y[7, 1] = 1e200
    with pytest.raises(ValueError, match="X contains values that are too large: row 7 has it in column 1"):
        est.fit(Y)
    with pytest.raises(ValueError, match="X contains values that are too small: the largest is 1e-200"):
        est.fit(np.where(data()[1] == 0, 0.0, 1e-200))


@every
@IGNORE_MAX_ITER
@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_squares_that_single_precision_does_not_hold(make, factor):
    Y = data(n=40, d=6)[1].astype(np.float32)
    plain, far = (make(max_iter=30) if "max_iter" in make().get_params() else make() for _ in range(2))
    plain.fit(Y.astype(np.float64))
    far.fit(np.float32(factor) * Y)
    np.testing.assert_array_equal(far.outliers_, plain.outliers_)
    np.testing.assert_allclose(far.recovered_ / factor, plain.recovered_, atol=0.02 * np.abs(Y).max())


@every
@IGNORE_MAX_ITER
def test_masked_entries_are_missing(make):
    X = data(n=40, d=6)[1]
    masked = np.ma.masked_array(np.where(np.eye(*X.shape, dtype=bool), 1e6, X), np.eye(*X.shape, dtype=bool))
    est = make()
    if not est._allow_nan:
        with pytest.raises(ValueError, match="X contains NaN: row 0 has it in column 0, and 5 more"):
            est.fit(masked)
        return
    expected = make().fit(np.where(masked.mask, np.nan, X)).recovered_
    np.testing.assert_array_equal(est.fit(masked).recovered_, expected)
