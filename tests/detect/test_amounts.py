"""Columns of amounts: which they are, and their logarithms as numbers that can be taken back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernmend.detect import Detector
from kernmend.detect.columns import Logarithms, robust_sd

seeds = st.integers(0, 2**32 - 1)


def amounts(rng, n=200, spread=1.0):
    """Return columns of two amounts and of one that is none."""
    return np.column_stack([rng.lognormal(3.0, spread, n), rng.lognormal(-2.0, spread, n), rng.normal(0.0, 1.0, n)])


@given(seed=seeds, n=st.integers(150, 300))
def test_amounts_are_told_from_other_columns(seed, n):
    np.testing.assert_array_equal(
        Logarithms.of(amounts(np.random.default_rng(seed), n)).offset > 0, [True, True, False]
    )


@given(seed=seeds)
def test_leaving_takes_entering_back(seed):
    rng = np.random.default_rng(seed)
    X = amounts(rng)
    logs = Logarithms.of(X)
    new = np.vstack([X, [[-999.0, 0.0, 5.0], [0.0, -1e-6, -5.0], [1e9, 1e-9, 0.0]]])
    np.testing.assert_allclose(logs.leave(logs.enter(new)), new, rtol=1e-9, atol=1e-12)


@given(seed=seeds, factor=st.floats(1e-3, 1e3))
def test_other_units_do_not_matter(seed, factor):
    X = amounts(np.random.default_rng(seed))
    one, other = Logarithms.of(X), Logarithms.of(factor * X)
    np.testing.assert_allclose(factor * one.enter(X), other.enter(factor * X), rtol=1e-8, atol=1e-9 * factor)


@given(seed=seeds)
def test_order_and_spread_stay(seed):
    X = amounts(np.random.default_rng(seed))
    X[3, 0] = -999.0
    T = Logarithms.of(X).enter(X)
    np.testing.assert_array_equal(np.argsort(X, axis=0, kind="stable"), np.argsort(T, axis=0, kind="stable"))
    np.testing.assert_allclose(robust_sd(T), robust_sd(X), rtol=1e-9)


def test_amounts_of_any_size():
    """Ratios that no float holds have logarithms, and these lead back."""
    rng = np.random.default_rng(0)
    X = 10.0 ** rng.uniform(-160, 150, (150, 1))
    logs = Logarithms.of(X)
    assert logs.offset > 0
    T = logs.enter(np.vstack([X, [[-1e150]], [[0.0]]]))
    assert np.isfinite(T).all()
    np.testing.assert_allclose(logs.leave(T[:150]), X, rtol=1e-9)
    assert T[151] == 0.0
    assert T[150] < T.min(initial=0.0, where=T[150] < T)


def test_logarithms_have_one_slope_at_zero():
    logs = Logarithms.of(amounts(np.random.default_rng(0)))
    steps = np.array([-1e-7, 0.0, 1e-7])[:, np.newaxis] * np.ones(3)
    below, above = np.diff(logs.enter(steps), axis=0)
    np.testing.assert_allclose(below, above, rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_codes_for_missing_values_do_not_hide_amounts(seed):
    """A tenth of a column at -999, or some zeros, leave it one of amounts; other negative values do not."""
    rng = np.random.default_rng(seed)
    x = rng.lognormal(3.0, 0.8, 300)
    with_code, with_zeros, with_losses = (
        np.where(rng.uniform(size=300) < 0.1, other, x) for other in (-999.0, 0.0, -x)
    )
    found = Logarithms.of(np.column_stack([with_code, with_zeros, with_losses])).offset > 0
    np.testing.assert_array_equal(found, [True, True, False])


def test_columns_without_amounts_come_back_as_they_are():
    X = np.random.default_rng(0).normal(size=(100, 3))
    logs = Logarithms.of(X)
    assert logs.enter(X) is X
    assert logs.leave(X) is X
    mostly_zero = np.where(np.arange(100) % 3 == 0, np.random.default_rng(1).lognormal(size=100), 0.0)
    assert not Logarithms.of(np.column_stack([np.ones(100), mostly_zero])).offset.any()


def orders(seed, n=300):
    """Return orders: how many, the price of one, and what they cost together."""
    rng = np.random.default_rng(seed)
    count, price = rng.integers(1, 20, n), rng.lognormal(2.5, 0.8, n).round(2)
    return np.column_stack([count, price, (count * price).round(2)]).astype(float)


@pytest.mark.parametrize("seed", range(3))
def test_products_of_columns_are_known(seed):
    """Good orders are hardly flagged however large they are (5 to 9 % of them without logarithms), wrong ones are."""
    X = orders(seed)
    assert Detector.fit(X)[1].rows.mean() <= 0.02
    X[10, 2] *= 10.0
    X[20, 1] *= 100.0
    found = Detector.fit(X)[1]
    assert found.rows[[10, 20]].all()
    assert np.delete(found.rows, [10, 20]).mean() <= 0.02


@pytest.mark.parametrize("seed", range(3))
def test_what_is_filled_in_is_positive(seed):
    X = orders(seed)
    X[5, 1], X[6, 2] = -999.0, 1e6
    found = Detector.fit(X)[1]
    assert found.entries[5, 1]
    assert (found.filled > 0).all()
    np.testing.assert_array_equal(found.filled[~found.entries], X[~found.entries])
