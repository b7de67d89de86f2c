"""Tails of good values: against integrals and scipy.stats, calibrated on fresh values; mixtures that were injected."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from kernmend.detect.tails import FEWEST, SIDE, EntryTail, LogGamma, TwoGroups, without_end_group

seeds = st.integers(0, 2**32 - 1)
SKEWNESSES = [-1.0, -0.5, -0.1, -0.02, 0.0, 0.02, 0.1, 0.5, 1.0, 2.0]
DEEP = 280 * np.log(10)  # u where the chance gives way to its asymptote

# --- LogGamma ---------------------------------------------------------------------------------------------------------


def log_integral(distribution, low, high, count=200_001):
    """Log of the integral of the density, by Simpson's rule in logarithms: at any depth of the tail."""
    x, step = np.linspace(low, high, count, retstep=True)
    weights = np.full(count, 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return logsumexp(distribution.log_density(x), b=weights * step / 3.0)


def tail_end(distribution, start):
    """Where the chance is e^40 less than at the start."""
    step = np.geomspace(1e-3, 1e5, 500)
    return start + step[np.flatnonzero(distribution.u(start + step) > distribution.u(np.array([start])) + 40)[0]]


@pytest.mark.parametrize("q", SKEWNESSES)
def test_the_density_integrates_to_one(q):
    distribution = LogGamma(0.3, np.log(0.7), q)
    reach = 0.7 * (15.0 + 30.0 * abs(q))  # the longer tail is that of e^(w / q)
    assert log_integral(distribution, 0.3 - reach, 0.3 + reach) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("q", SKEWNESSES)
@pytest.mark.parametrize("w", [-3.0, -1.0, 0.0, 1.0, 3.0, 6.0])
def test_u_is_that_of_the_integrated_upper_tail(q, w):
    distribution = LogGamma(-0.2, np.log(1.5), q)
    x = -0.2 + 1.5 * w
    got = float(distribution.u(np.array([x]))[0])
    if got < DEEP:
        assert got == pytest.approx(-log_integral(distribution, x, tail_end(distribution, x)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("q", [q for q in SKEWNESSES if q] + [-0.0101, 0.0101])
def test_u_does_not_jump_where_the_asymptote_takes_over(q):
    distribution = LogGamma(0.0, 0.0, q)
    low, high = 0.0, 2e3
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if distribution.u(np.array([middle]))[0] <= DEEP else (low, middle)
    before, after = distribution.u(np.array([low, high]))
    assert before <= after <= 1.003 * before
    assert after == pytest.approx(-log_integral(distribution, high, tail_end(distribution, high)), rel=3e-3)


@pytest.mark.parametrize("q", [-0.0101, 0.0101])
def test_the_density_goes_over_to_the_normal_one_as_its_series_says(q):
    w = np.linspace(-5.0, 5.0, 41)
    got = LogGamma(0.0, 0.0, q).log_density(w)
    np.testing.assert_array_less(np.abs(got - (stats.norm.logpdf(w) - q * w**3 / 6)), q**2 * (w**4 / 20 + 0.2))


def test_u_goes_over_to_the_normal_one():
    w = np.linspace(-5.0, 5.0, 41)
    normal = LogGamma(0.0, 0.0, 0.0).u(w)
    np.testing.assert_allclose(normal, -stats.norm.logsf(w), rtol=1e-10)
    np.testing.assert_array_equal(LogGamma(0.0, 0.0, 0.009).u(w), normal)
    left, right = (LogGamma(0.0, 0.0, q).u(w) for q in (-0.0101, 0.0101))
    second_order = 0.0101**2 * (w**6 / 60 + 4)  # the term odd in q cancels
    np.testing.assert_array_less(np.abs(0.5 * (left + right) - normal), second_order * normal)
    np.testing.assert_allclose(right, normal, rtol=0.02, atol=2e-3)


@given(
    q=st.floats(0.05, 2.0),
    location=st.floats(-3.0, 3.0),
    log_scale=st.floats(-3.0, 3.0),
    mirror=st.booleans(),
    seed=seeds,
)
def test_it_is_the_logarithm_of_a_gamma_variable(q, location, log_scale, mirror, seed):
    scale, sign = np.exp(log_scale), -1.0 if mirror else 1.0
    x = location + scale * np.random.default_rng(seed).uniform(-4.0, 4.0, 20)
    k = q**-2
    y = sign * (x - location) * q / scale + np.log(k)
    known = stats.loggamma(k)
    distribution = LogGamma(location, log_scale, sign * q)
    tail = known.cdf(y) if mirror else known.sf(y)
    seen = tail > 1e-200
    np.testing.assert_allclose(distribution.u(x)[seen], -np.log(tail[seen]), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(distribution.log_density(x), known.logpdf(y) + np.log(q / scale), rtol=1e-8, atol=1e-6)


@pytest.mark.parametrize("q", [*SKEWNESSES, -0.0101, 0.0101])
def test_u_is_monotone_and_finite_however_far_out(q):
    far = np.concatenate([np.linspace(0.0, 100.0, 5001), np.geomspace(101.0, 1e150, 300)])
    x = np.concatenate([-far[:0:-1], far])
    u = LogGamma(0.1, 0.0, q).u(x)
    assert np.isfinite(u).all()
    assert (np.diff(u) >= -1e-12).all()
    assert u[0] == pytest.approx(0.0, abs=1e-12)
    assert u[-1] > 600
    assert np.isfinite(LogGamma(0.1, 0.0, q).log_density(x)).all()


# --- EntryTail --------------------------------------------------------------------------------------------------------


def in_robust_units(X):
    centre = np.median(X, axis=0)
    return (X - centre) / (1.4826 * np.median(np.abs(X - centre), axis=0))


def symmetric(half):
    return np.concatenate([half, -half])


@given(seed=seeds, shape=st.floats(0.6, 2.5), scale=st.floats(0.01, 100.0))
def test_a_tail_goes_through_its_quantiles_before_the_correction(seed, shape, scale):
    half = scale * np.random.default_rng(seed).exponential(size=400) ** shape
    fitted = EntryTail.of([symmetric(half)])  # both sides are the same: no shape is drawn to another
    before = replace(fitted, N=np.full(2, 1e12))
    quantiles = np.quantile(half, SIDE)[:, np.newaxis]
    chance = 0.5 * (1.0 - np.array(SIDE))
    for sign in (1.0, -1.0):
        np.testing.assert_allclose(before.u(sign * quantiles)[:, 0], -np.log(chance), rtol=1e-8)
    assert (fitted.u(quantiles) < before.u(quantiles)).all()


def test_a_tail_is_heavier_where_fewer_values_tell_it():
    half = stats.norm.isf((np.arange(40) + 0.5) / 80)
    tails = [EntryTail.of([symmetric(np.tile(half, times))]) for times in (1, 10, 100)]
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
    beyond = np.mean(EntryTail.of(list(Z[:2000].T)).u(Z[2000:]) > -np.log(p))
    assert p / factor < beyond < p * factor


def test_u_grows_with_the_deviation_and_is_finite_at_the_end_of_the_numbers():
    tail = EntryTail.of(list(in_robust_units(np.random.default_rng(0).standard_normal((200, 3))).T))
    D = np.repeat(np.concatenate([[0.0], np.geomspace(1e-3, 1e300, 400)])[:, np.newaxis], 3, axis=1)
    for sign in (1.0, -1.0):
        u = tail.u(sign * D)
        assert np.isfinite(u).all()
        assert (np.diff(u, axis=0) >= 0).all()
        assert (u[0] == 0).all()


@given(seed=seeds, factor=st.sampled_from([1e-3, 7.0, 1e3]))
def test_u_does_not_depend_on_the_units(seed, factor):
    D = np.random.default_rng(seed).standard_normal((60, 4))
    np.testing.assert_allclose(
        EntryTail.of(list(factor * D.T)).u(factor * D), EntryTail.of(list(D.T)).u(D), rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("column", [np.zeros(30), np.ones(1), np.array([0.0, 1.0]), np.r_[np.zeros(50), 1.0, -2.0]])
def test_columns_that_tell_next_to_nothing(column):
    u = EntryTail.of([column]).u(column[:, np.newaxis])
    assert np.isfinite(u).all()
    assert (u[column == 0] == 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_tenth_of_a_column_at_minus_999_is_beyond_the_threshold(seed):
    X = np.random.default_rng(seed).standard_normal((300, 4))
    X[:30, 1] = -999.0
    u = EntryTail.of(list(in_robust_units(X).T)).u(in_robust_units(X))
    threshold = np.log(3 * 300 / 0.05) + np.log(4)
    assert (u[:30, 1] > threshold).all()
    assert np.sum(u > threshold) == 30


def test_an_end_group_is_taken_away_and_a_third_of_a_column_is_not():
    near, far = np.linspace(1.0, 3.0, 90), np.full(10, 999.0)
    np.testing.assert_array_equal(without_end_group(np.concatenate([far, near]), 15), near)
    third = np.concatenate([np.linspace(1.0, 3.0, 60), np.full(30, 999.0)])
    np.testing.assert_array_equal(without_end_group(third, 0.15 * 90), third)
    half = np.concatenate([near[:45], np.full(45, 999.0)])
    np.testing.assert_array_equal(without_end_group(half, 90), half)


@given(seed=seeds, n=st.integers(1, 60), most=st.integers(0, 20))
def test_no_more_is_taken_away_than_allowed_and_only_beyond_a_gap(seed, n, most):
    values = np.random.default_rng(seed).pareto(0.3, n) + 1e-3
    left, ordered = without_end_group(values, most), np.sort(values)
    np.testing.assert_array_equal(left, ordered[: left.size])
    assert left.size >= n - most
    if left.size < n:
        assert ordered[left.size] > 3 * left[-1]


# --- TwoGroups --------------------------------------------------------------------------------------------------------

LEAST = 0.1


def injected_group(seed, n=400, share=0.1, location=3.0):
    """Scores of good rows, of wrong ones, and of injected rows like the wrong ones."""
    rng = np.random.default_rng(seed)
    wrong = round(share * n)
    return 0.5 * rng.standard_normal(n - wrong), location + 0.5 * rng.standard_normal(wrong), rng


@pytest.mark.parametrize("share", [0.03, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_an_injected_group_is_found_with_its_share(seed, share):
    good, wrong, rng = injected_group(seed, share=share)
    groups = TwoGroups.of(np.concatenate([good, wrong]), 3.0 + 0.5 * rng.standard_normal(300), least=LEAST)
    assert groups.gain > 4.0
    assert groups.share == pytest.approx(share, abs=0.01 + 0.1 * share)
    assert groups.middle + groups.unit * groups.null.location == pytest.approx(0.0, abs=0.15)
    threshold = groups.threshold(0.9)
    assert np.mean(good > threshold) < 0.01
    assert np.mean(wrong > threshold) > 0.95


@pytest.mark.parametrize("seed", range(3))
def test_a_group_apart_is_found_where_injected_rows_are_elsewhere(seed):
    good, wrong, rng = injected_group(seed, location=8.0)
    groups = TwoGroups.of(np.concatenate([good, wrong]), 2.0 + 0.3 * rng.standard_normal(300), least=LEAST)
    assert groups.share == pytest.approx(0.1, abs=0.02)
    assert good.max() < groups.threshold(0.9) < wrong.min()


@pytest.mark.parametrize("seed", range(5))
def test_one_group_has_no_threshold_and_finite_u(seed):
    good, _, rng = injected_group(seed, share=0.0)
    groups = TwoGroups.of(good, 3.0 + 0.5 * rng.standard_normal(300), least=LEAST)
    assert groups.share == 0.0
    assert groups.threshold(0.9) == np.inf
    assert np.isfinite(groups.u(np.array([-1e6, *good, 1e6]))).all()


def test_where_asked_for_or_with_few_scores_there_is_one_group():
    good, wrong, rng = injected_group(0)
    both, injected = np.concatenate([good, wrong]), 3.0 + 0.5 * rng.standard_normal(300)
    assert TwoGroups.of(both, injected, least=LEAST).share > 0
    assert TwoGroups.of(both, injected, least=LEAST, only_one=True).threshold(0.5) == np.inf
    few = np.concatenate([good[: FEWEST - 3], wrong[:2]])
    assert TwoGroups.of(few, injected, least=LEAST).threshold(0.5) == np.inf


def test_a_group_apart_needs_no_injected_rows():
    good, wrong, _ = injected_group(0, location=8.0)
    groups = TwoGroups.of(np.concatenate([good, wrong]), least=LEAST)
    assert groups.share == pytest.approx(0.1, abs=0.02)
    assert good.max() < groups.threshold(0.9) < wrong.min()


@pytest.mark.parametrize("seed", range(3))
def test_the_threshold_grows_with_how_sure_one_is(seed):
    good, wrong, rng = injected_group(seed, share=0.15, location=2.0)
    groups = TwoGroups.of(np.concatenate([good, wrong]), 2.0 + 0.7 * rng.standard_normal(300), least=LEAST)
    thresholds = [groups.threshold(sure) for sure in np.linspace(0.01, 0.999, 60)]
    assert np.isfinite(thresholds).all()
    assert thresholds == sorted(thresholds)
    assert thresholds[0] < thresholds[-1]


@pytest.mark.parametrize("seed", range(3))
def test_chances_of_scores_are_those_of_fresh_ones(seed):
    rng = np.random.default_rng(seed)
    fitted, fresh = (np.log(rng.chisquare(6, n) / 6) for n in (500, 200_000))
    u = TwoGroups.of(fitted, least=LEAST).u(fresh)
    for p in (0.1, 0.01, 0.001):
        assert p / 3 < np.mean(u > -np.log(p)) < p * 3


@pytest.mark.parametrize("shift", [-20.0, 0.1, 7.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_shift_of_the_scores_moves_the_threshold_only(seed, shift):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(30)
    groups, moved = TwoGroups.of(scores, least=LEAST), TwoGroups.of(scores + shift, least=LEAST)
    np.testing.assert_allclose(moved.u(scores + shift), groups.u(scores), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("scores", [np.zeros(1), np.zeros(2), np.zeros(40), np.r_[np.zeros(40), 60.0]])
@pytest.mark.parametrize("injected", [np.zeros(300), np.full(300, -70.0), np.full(300, 5.0)])
def test_scores_without_spread(scores, injected):
    groups = TwoGroups.of(scores, injected, least=LEAST)
    assert np.isfinite(groups.u(scores)).all()
    assert not np.isnan(groups.threshold(0.9))
    assert (np.diff(groups.u(np.sort(scores))) >= 0).all()
