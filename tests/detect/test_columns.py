"""Tails of good entries: through their quantiles, calibrated on fresh values."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from kernmend.detect.columns import SIDE, EntryTail, without_end_group

seeds = st.integers(0, 2**32 - 1)

# --- EntryTail --------------------------------------------------------------------------------------------------------


def in_robust_units(X):
    centre = np.median(X, axis=0)
    return (X - centre) / (1.4826 * np.median(np.abs(X - centre), axis=0))


def symmetric(half):
    return np.concatenate([half, -half])


def left(values, most):
    """Return the values of one column that are left, sorted."""
    ordered = np.sort(values)[np.newaxis]
    return ordered[0, : without_end_group(ordered, np.array([len(values)]), np.array([float(most)]))[0]]


@given(seed=seeds, shape=st.floats(0.6, 2.5), scale=st.floats(0.01, 100.0))
def test_a_tail_goes_through_its_quantiles_before_the_correction(seed, shape, scale):
    half = scale * np.random.default_rng(seed).exponential(size=400) ** shape
    assume(left(half, 120).size == 400)  # an end group, 0.15 of both sides at most, does not set the quantiles
    fitted = EntryTail.of(symmetric(half)[:, np.newaxis])  # both sides are the same: no shape is drawn to another
    before = replace(fitted, N=np.full(2, 1e12))
    quantiles = np.quantile(half, SIDE)[:, np.newaxis]
    chance = 0.5 * (1.0 - np.array(SIDE))
    for sign in (1.0, -1.0):
        np.testing.assert_allclose(before.u(sign * quantiles)[:, 0], -np.log(chance), rtol=1e-8)
    assert (fitted.u(quantiles) < before.u(quantiles)).all()


def test_a_tail_is_heavier_where_fewer_values_tell_it():
    half = stats.norm.isf((np.arange(40) + 0.5) / 80)
    tails = [EntryTail.of(symmetric(np.tile(half, times))[:, np.newaxis]) for times in (1, 10, 100)]
    far = np.array([[4.0], [8.0], [16.0]])
    for fewer, more in pairwise(tails):
        np.testing.assert_allclose(fewer.q, more.q, rtol=0.03)
        assert (fewer.u(far) < more.u(far)).all()


DRAWS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "lognormal": lambda rng, shape: rng.lognormal(size=shape),
}


@pytest.mark.parametrize("p", [0.01, 0.001])
@pytest.mark.parametrize("name", DRAWS)
def test_chances_are_those_of_fresh_values(name, p):
    """One value has two sides: 2 p at the most where both have a tail. The lognormal one is heavier than believed."""
    rng, factor = np.random.default_rng(0), 4.0 if name == "lognormal" else 2.2
    X = DRAWS[name](rng, (2000, 8))
    Z = in_robust_units(np.concatenate([X, DRAWS[name](rng, (50_000, 8))]))
    beyond = np.mean(EntryTail.of(Z[:2000]).u(Z[2000:]) > -np.log(p))
    assert p / factor < beyond < p * factor


def test_u_grows_with_the_deviation_and_is_finite_at_the_end_of_the_numbers():
    tail = EntryTail.of(in_robust_units(np.random.default_rng(0).standard_normal((200, 3))))
    D = np.repeat(np.concatenate([[0.0], np.geomspace(1e-3, 1e300, 400)])[:, np.newaxis], 3, axis=1)
    for sign in (1.0, -1.0):
        u = tail.u(sign * D)
        assert np.isfinite(u).all()
        assert (np.diff(u, axis=0) >= 0).all()
        assert (u[0] == 0).all()


@given(seed=seeds, factor=st.sampled_from([1e-3, 7.0, 1e3]))
def test_u_does_not_depend_on_the_units(seed, factor):
    D = np.random.default_rng(seed).standard_normal((60, 4))
    np.testing.assert_allclose(EntryTail.of(factor * D).u(factor * D), EntryTail.of(D).u(D), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("column", [np.zeros(30), np.ones(1), np.array([0.0, 1.0]), np.r_[np.zeros(50), 1.0, -2.0]])
def test_columns_that_tell_next_to_nothing(column):
    u = EntryTail.of(column[:, np.newaxis]).u(column[:, np.newaxis])
    assert np.isfinite(u).all()
    assert (u[column == 0] == 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_tenth_of_a_column_at_minus_999_is_beyond_the_threshold(seed):
    X = np.random.default_rng(seed).standard_normal((300, 4))
    X[:30, 1] = -999.0
    u = EntryTail.of(in_robust_units(X)).u(in_robust_units(X))
    threshold = np.log(3 * 300 / 0.05) + np.log(4)
    assert (u[:30, 1] > threshold).all()
    assert np.sum(u > threshold) == 30


def test_missing_deviations_do_not_count():
    rng = np.random.default_rng(0)
    D = rng.standard_normal((80, 5))
    shorter = EntryTail.of(D[:60])
    D[60:] = np.nan
    for name in ("q", "shape", "share", "N"):
        np.testing.assert_array_equal(getattr(EntryTail.of(D), name), getattr(shorter, name))
    assert (EntryTail.of(D).u(D)[60:] == 0).all()


def test_an_end_group_is_taken_away_and_a_third_of_a_column_is_not():
    near, far = np.linspace(1.0, 3.0, 90), np.full(10, 999.0)
    np.testing.assert_array_equal(left(np.concatenate([far, near]), 15), near)
    third = np.concatenate([np.linspace(1.0, 3.0, 60), np.full(30, 999.0)])
    np.testing.assert_array_equal(left(third, 0.15 * 90), third)
    half = np.concatenate([near[:45], np.full(45, 999.0)])
    np.testing.assert_array_equal(left(half, 90), half)


@given(seed=seeds, n=st.integers(1, 60), most=st.integers(0, 20))
def test_no_more_is_taken_away_than_allowed_and_only_beyond_a_gap(seed, n, most):
    values = np.random.default_rng(seed).pareto(0.3, n) + 1e-3
    kept, ordered = left(values, most), np.sort(values)
    np.testing.assert_array_equal(kept, ordered[: kept.size])
    assert kept.size >= n - most
    if kept.size < n:
        assert ordered[kept.size] > 3 * kept[-1]
