"""Columns in units of their own."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernmend
from kernmend import KernelLowRank, KernelRecovery
from kernmend.datasets.metrics import f1_score
from kernmend.repair.units import LEAST_SHAPE, Units, aligned_units, common_shape, row_units, spreads

SIZES = np.array([1e-3, 1.0, 1e4])


def torus(n=300, seed=0):
    """A surface in three columns, a tenth of its rows replaced."""
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(0, 2 * np.pi, (2, n))
    truth = np.column_stack([(2 + np.cos(v)) * np.cos(u), (2 + np.cos(v)) * np.sin(u), np.sin(v)])
    bad = np.arange(n) < n // 10
    X = np.where(bad[:, np.newaxis], rng.uniform(-4, 4, truth.shape), truth)
    return X, bad


@given(st.integers(0, 50), st.sampled_from([np.float64, np.float32]))
def test_what_did_not_change_comes_back_bit_for_bit(seed, dtype):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((6, 3)) * SIZES).astype(dtype)
    X[0, 1] = np.nan
    units = Units.of("columns", X)
    A = units.enter(X).copy()
    A[0, 1] = 2.0
    A[3] += 1.0
    out = units.leave(A, X)
    same = np.ones(X.shape, dtype=bool)
    same[0, 1] = same[3] = False
    np.testing.assert_array_equal(out[same], X[same])
    np.testing.assert_allclose(out[0, 1], 2.0 * units.sizes[1], rtol=1e-6)
    assert out.dtype == dtype


def test_one_far_value_does_not_set_the_unit():
    X = np.random.default_rng(0).standard_normal((200, 2)) * [1.0, 1e5]
    X[3] = 1e12
    np.testing.assert_allclose(spreads(X), [1.0, 1e5], rtol=0.2)


@pytest.mark.parametrize("scale", [[1.0, -1.0, 1.0], [1.0, 2.0], "x", np.nan, [1.0, 0.0, 1.0], True, False])
def test_bad_scales(scale):
    with pytest.raises(ValueError, match="scale must be"):
        KernelRecovery(scale=scale).fit(torus()[0])


@pytest.mark.parametrize("make", [KernelRecovery, KernelLowRank])
def test_units_of_columns_do_not_matter(make):
    X, _ = torus(150)
    given = {"gamma": 0.2, "lam": 0.5, "rho": 10.0} if make is KernelLowRank else {}  # rounding grows in a wider fit
    plain, mixed = (make(scale="columns", max_iter=200, tol=1e-4, **given).fit(Z) for Z in (X, X * SIZES))
    np.testing.assert_array_equal(plain.outliers_, mixed.outliers_)
    np.testing.assert_allclose(mixed.recovered_ / SIZES, plain.recovered_, rtol=1e-4, atol=1e-4)


def test_units_of_columns_do_not_change_what_the_joint_model_chooses():
    X, _ = torus(150)
    plain, mixed = (KernelLowRank(scale="columns", tol=1e-3).fit(Z) for Z in (X, X * SIZES))
    assert (mixed.gamma_, mixed.lam_, mixed.rho_) == pytest.approx((plain.gamma_, plain.lam_, plain.rho_))


def test_mixed_units_mislead_without_a_scale_and_not_with_one():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 200)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    bad = np.arange(200) < 15
    X[bad] = rng.uniform(-0.5, 0.5, (15, 2))
    X = X * [1e-3, 1e4]
    without, given = KernelRecovery(scale=None).fit(X), KernelRecovery(scale="columns").fit(X)
    assert f1_score(bad, given.outliers_) > 0.9
    assert f1_score(bad, without.outliers_) < 0.5
    np.testing.assert_array_equal(KernelRecovery().fit(X).recovered_, given.recovered_)
    np.testing.assert_array_equal(given.recovered_[~given.outliers_], X[~given.outliers_])
    np.testing.assert_array_equal(given.predict(X) == -1, given.outliers_)
    np.testing.assert_allclose(given.transform(X), given.recovered_, rtol=1e-9, atol=1e-12)


def test_bounds_are_in_the_units_of_the_data():
    X, _ = torus()
    est = KernelRecovery(scale=SIZES, bounds=(-3 * SIZES, 3 * SIZES)).fit(X * SIZES)
    A = est.recovered_[est.outliers_]
    assert len(A)
    assert (np.abs(A) <= 3 * SIZES * (1 + 1e-12)).all()


def test_columns_far_apart_are_scaled_in_arrays_tables_and_files_alike(tmp_path):
    X, bad = torus()
    apart = pd.DataFrame(X * SIZES, columns=["mm", "seconds", "euros"])
    mended = kernmend.mend(apart)
    assert mended.estimator._units.name == "columns"
    assert "units of their own" in mended.summary()
    assert not (mended.flags & ~bad).any()
    assert f1_score(bad, mended.flags) > 0.8
    np.save(tmp_path / "apart.npy", X * SIZES)
    for same in (X * SIZES, tmp_path / "apart.npy"):
        np.testing.assert_array_equal(kernmend.mend(same).data, mended.data)
    assert kernmend.mend(pd.DataFrame(X, columns=["x", "y", "z"])).estimator._units.name == "common"
    assert kernmend.mend(apart, scale=None).estimator._units.name == "common"
    assert mended.estimator.report_data()["map"]["before"]


@pytest.mark.parametrize("kind", ["pictures", "spectra"])
def test_missing_values_do_not_change_the_units(kind):
    """A few holes leave a series a series: pictures in a common unit, spectra each in its own."""
    rng = np.random.default_rng(0)
    if kind == "pictures":
        X = np.where(rng.random((60, 64)) < 0.7, 0.0, rng.random((60, 64)) * rng.uniform(0.01, 1.0, 64))
    else:
        X = rng.lognormal(0, 0.6, (60, 1)) * (2.0 + np.sin(np.linspace(0, 9, 64)) + 0.1 * rng.random((60, 1)))
    holes = np.where(rng.random(X.shape) < 0.03, np.nan, X)
    assert Units.of("auto", holes).name == Units.of("auto", X).name == ("common" if kind == "pictures" else "rows")


# --- rows in units of their own ---------------------------------------------------------------------------------------


def curves(n=40, d=120, seed=0):
    """Return smooth curves of one shape with offsets and sizes of their own, and these two as columns."""
    rng = np.random.default_rng(seed)
    at = np.linspace(0, 1, d)
    centres = rng.uniform(0.1, 0.9, 6)
    bands = np.exp(-np.square((at - centres[:, np.newaxis]) / 0.05))
    offset, size = rng.uniform(-5, 5, (n, 1)), rng.lognormal(0, 0.6, (n, 1))
    return offset + size * (np.abs(rng.normal(1.0, 0.1, (n, 6))) @ bands), offset, size


@given(st.integers(0, 100), st.floats(-50, 50), st.floats(0.01, 100))
def test_units_of_a_row_move_and_grow_with_it(seed, move, grow):
    X = curves(5, 40, seed)[0]
    shape = common_shape(X)
    X[0, 3] = np.nan
    offset, size = aligned_units(X, shape)
    other, larger = aligned_units(move + grow * X, shape)
    scale = grow * np.abs(X[1:]).max() + abs(move)
    np.testing.assert_allclose(other, move + grow * offset, atol=1e-7 * scale)
    np.testing.assert_allclose(larger, grow * size, atol=1e-7 * scale)


def test_units_of_a_row_leave_about_the_least_sum_of_absolute_errors():
    from scipy.optimize import linprog

    X = curves()[0]
    shape, d = common_shape(X), X.shape[1]
    rng = np.random.default_rng(1)
    X[:20] += 0.3 * rng.standard_normal((20, d))
    X[20:, 30:45] += 4.0
    offset, size = aligned_units(X, shape)
    A = np.column_stack([np.ones(d), shape, np.eye(d), -np.eye(d)])
    cost = np.concatenate([np.zeros(2), np.ones(2 * d)])
    bounds = [(None, None)] * 2 + [(0, None)] * (2 * d)
    least = np.array([linprog(cost, A_eq=A, b_eq=row, bounds=bounds).fun for row in X[::4]])
    left = np.abs(X - offset - size * shape).sum(axis=1)[::4]
    assert (left >= least * (1 - 1e-9)).all()
    assert (left <= 1.02 * least).all()


def test_an_error_hardly_changes_the_units_of_a_row():
    """Noise makes the spread of a row larger, and what is added to some columns moves its median."""
    truth = curves()[0]
    rng, height = np.random.default_rng(2), np.ptp(truth, axis=1, keepdims=True)
    units = Units.of("rows", truth)
    noisy, raised = truth + 0.3 * height * rng.standard_normal(truth.shape), truth.copy()
    raised[:, 20:40] += 0.6 * height
    for X in (noisy, raised):
        aligned, own = (
            np.abs(np.log(of(X)[1] / of(truth)[1])).mean() + np.mean(np.abs(of(X)[0] - of(truth)[0]) / height)
            for of in (units.of_rows, row_units)
        )
        assert aligned < 0.6 * own


def test_a_row_of_another_shape_has_the_units_of_its_spread():
    X = curves()[0]
    shape, (middle, spread) = common_shape(X), row_units(X)
    other = np.vstack([middle[:3] - spread[:3] * shape, np.full((1, X.shape[1]), 7.0)])
    offset, size = aligned_units(other, shape)
    np.testing.assert_allclose(size, row_units(other)[1])
    assert size[3] == 1.0
    assert np.isfinite(offset).all()
    assert (aligned_units(X, shape)[1] > LEAST_SHAPE * spread).all()


def test_units_of_a_row_do_not_depend_on_the_others():
    X = curves(30)[0]
    X[2, 5:9] = np.nan
    shape = common_shape(X)
    together = aligned_units(X, shape)
    for k in (0, 2, 29):
        for part, alone in zip(together, aligned_units(X[[k]], shape), strict=True):
            np.testing.assert_array_equal(part[[k]], alone)


@pytest.mark.parametrize("kind", ["noise", "band"])
def test_spectra_with_offsets_are_mended_in_the_units_of_the_truth(kind):
    """In units that the error had changed a quarter of the error of bands stayed, and a fifth of that of noise."""
    truth = curves(80, 200, 3)[0]
    truth += 0.005 * np.random.default_rng(4).standard_normal(truth.shape)
    rng, X, bad = np.random.default_rng(5), truth.copy(), np.arange(80) < 12
    for row in np.flatnonzero(bad):
        height = np.ptp(truth[row])
        if kind == "noise":
            X[row] += 0.3 * height * rng.standard_normal(200)
        else:
            at = int(rng.integers(0, 170))
            X[row, at : at + 25] += 0.6 * height
    est = KernelRecovery().fit(X)
    assert est._rows.units.by_rows
    assert f1_score(bad, est.outliers_) > 0.9
    left = np.square(est.recovered_ - truth)[bad].sum() / np.square(X - truth)[bad].sum()
    assert left < 0.06
    new = est.transform(X[:6])
    np.testing.assert_allclose(new, est.recovered_[:6], atol=0.05 * np.ptp(truth))
