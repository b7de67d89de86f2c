"""Columns in units of their own."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernmend
from kernmend import KernelLowRank, KernelRecovery
from kernmend.datasets.metrics import f1_score
from kernmend.repair.units import Units, spreads

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
