"""Wrong entries: expectations against ridge regressions solved one by one, injected ones found, others left alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernmend.detect.detector import robust_sd
from kernmend.detect.entries import CLIP, LEAST, RIDGE, Conditional, EntryDetector, ManyEntries, mean_score
from kernmend.detect.scores import NEAREST

seeds = st.integers(0, 2**32 - 1)
shapes = st.sampled_from([(30, 4), (12, 6), (8, 8), (7, 15), (3, 5)])


def correlated(seed, n, d, rank=3, noise=0.3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + noise * rng.standard_normal((n, d))


def in_robust_units(X):
    return (X - np.median(X, axis=0)) / robust_sd(X)


def with_holes(Z, seed, share=0.2):
    """NaN in place of some entries; the first of each row stays."""
    rng = np.random.default_rng(seed)
    holes = rng.uniform(size=Z.shape) < share
    holes[:, 0] = False
    return np.where(holes, np.nan, Z)


def standardised(Z):
    """What the regressions are fitted to: clipped, mean and spread of what is seen, holes at the mean."""
    clipped = np.clip(Z, -CLIP, CLIP)
    mean = np.nanmean(clipped, axis=0)
    centred = np.where(np.isnan(Z), 0.0, clipped - mean)
    sd = np.sqrt(np.mean(centred**2, axis=0))
    return centred / sd, mean, sd


def brute(Z, row, left_out=None):
    """E[each entry | the seen others of its row], by a ridge regression of its own, without one fitted row."""
    n, d = Z.shape
    V, mean, sd = standardised(Z)
    V = V if left_out is None else np.delete(V, left_out, axis=0)
    lam = RIDGE * (1 + 10 * d / n)
    v = (row - mean) / sd
    out = np.empty(d)
    for j in range(d):
        others = np.flatnonzero(~np.isnan(row) & (np.arange(d) != j))
        A = V[:, others]
        slopes = np.linalg.solve(A.T @ A / n + lam * np.eye(others.size), A.T @ V[:, j] / n)
        out[j] = slopes @ v[others]
    return out * sd + mean


@given(seed=seeds, shape=shapes, holes=st.booleans())
def test_expectations_of_fitted_rows_are_those_without_the_row(seed, shape, holes):
    Z = correlated(seed, *shape)
    Z = with_holes(Z, seed) if holes and len(Z) > 3 else Z
    got = Conditional.of(Z).predict(Z, np.arange(len(Z)))
    expected = [brute(Z, row, i) for i, row in enumerate(Z)]
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8)


@given(seed=seeds, shape=shapes, holes=st.booleans())
def test_expectations_of_new_rows(seed, shape, holes):
    Z, new = np.split(correlated(seed, shape[0] + 5, shape[1]), [shape[0]])
    new = with_holes(new, seed) if holes else new
    np.testing.assert_allclose(Conditional.of(Z).predict(new), [brute(Z, row) for row in new], rtol=1e-6, atol=1e-8)


def test_some_of_the_fitted_rows_in_any_order():
    Z = with_holes(correlated(0, 20, 5), 0)
    others, some = Conditional.of(Z), np.array([7, 2, 15])
    np.testing.assert_allclose(others.predict(Z[some], some), others.predict(Z, np.arange(20))[some], rtol=1e-12)


@given(seed=seeds)
def test_woodbury_is_the_inverse(seed):
    Z = correlated(seed, 6, 9)
    V = standardised(Z)[0]
    lam = RIDGE * (1 + 10 * 9 / 6)
    everything = np.arange(9)
    np.testing.assert_allclose(
        Conditional.of(Z).some(everything), np.linalg.inv(V.T @ V / 6 + lam * np.eye(9)), rtol=1e-8, atol=1e-9
    )


def test_constant_columns_and_columns_without_entries_expect_their_middle():
    Z = correlated(0, 20, 4)
    Z[:, 1] = 0.0
    Z[:, 2] = np.nan
    got = Conditional.of(Z).predict(Z, np.arange(20))
    np.testing.assert_allclose(got[:, [1, 2]], 0.0, atol=1e-12)
    assert np.isfinite(got).all()


def test_what_is_filled_in_is_the_expectation_plus_its_mean_error_in_the_nearest_rows():
    Z = correlated(0, 40, 5)
    others, row = Conditional.of(Z), Z[3].copy()
    row[[1, 4]] = np.nan
    seen = ~np.isnan(row)
    v, V = (row - others.mean) / others.sd, (Z - others.mean) / others.sd
    distances = np.square(V[:, seen] - v[seen]).sum(axis=1)
    nearest = [i for i in np.argsort(distances) if i != 3][:NEAREST]
    hidden = np.where(seen, Z[nearest], np.nan)
    errors = np.average((Z[nearest] - others.predict(hidden))[:, ~seen], axis=0, weights=1.0 / distances[nearest])
    filled = others.filled(row[np.newaxis], Z)[0]
    np.testing.assert_allclose(filled[~seen], others.predict(row[np.newaxis])[0, ~seen] + errors, rtol=1e-10)
    np.testing.assert_array_equal(filled[seen], (v * others.sd + others.mean)[seen])


def test_what_is_filled_in_follows_a_curve():
    t = np.random.default_rng(0).uniform(-1.0, 1.0, 300)
    Z = np.column_stack([t, t**2, t**3])
    hidden = Z.copy()
    hidden[:, 1] = np.nan
    others = Conditional.of(Z)
    linear, filled = others.predict(hidden)[:, 1], others.filled(hidden, Z)[:, 1]
    assert np.abs(filled - Z[:, 1]).mean() < 0.1 * np.abs(linear - Z[:, 1]).mean()


# --- the detector -----------------------------------------------------------------------------------------------------


def threshold(n, d):
    return float(np.log(3 * n * d / 0.05))


def fitted(Z):
    return EntryDetector.fit(Z, np.zeros(Z.shape[1], dtype=bool), threshold(*Z.shape))


@pytest.mark.parametrize("shape", [(60, 8), (30, 50)])
def test_what_a_fit_knows_of_its_rows(shape):
    """The marginal u of each entry, and its error given the others of its row that are not far out, leave-one-out."""
    Z = in_robust_units(correlated(3, *shape))
    Z[4, 2] = 1e4
    detector, known = fitted(Z)
    left = np.where(detector.marginal.u(Z) > detector.threshold, np.nan, Z)
    assert np.isnan(left[4, 2])
    expected = left - detector.others.predict(left, np.arange(len(Z)))
    np.testing.assert_array_equal(known.marginal_u, detector.marginal.u(Z))
    np.testing.assert_array_equal(known.errors, expected)
    np.testing.assert_array_equal(np.maximum(known.marginal_u, known.conditional_u), detector.find(Z, known)[0])
    assert known.conditional_u[4, 2] == 0.0
    np.testing.assert_allclose(known.conditional_u, detector._u_of_errors(expected))
    later = detector.deviations(Z[:5] + 0.1)
    np.testing.assert_array_equal(np.maximum(later.marginal_u, later.conditional_u), detector.find(Z[:5] + 0.1)[0])


@pytest.mark.parametrize("seed", range(5))
def test_an_entry_wrong_only_given_its_row_is_found_and_mended(seed):
    X = correlated(seed, 300, 20, rank=2, noise=0.1)
    Z, noise = in_robust_units(X), 0.1 / robust_sd(X)
    clean, at = Z.copy(), (np.arange(10), np.arange(10))
    Z[at] -= 15.0 * noise[:10] * np.sign(Z[at])  # towards the middle: far given the row, not in the column
    detector, known = fitted(Z)
    u, wrong, filled = detector.find(Z, known)
    assert (detector.marginal.u(Z)[at] < detector.threshold).all()
    assert wrong[at].all()
    np.testing.assert_array_equal(u[:10].argmax(axis=1), np.arange(10))
    assert not wrong[10:].any()
    assert (u[at] > detector.threshold).all()
    np.testing.assert_array_equal(filled[~wrong], Z[~wrong])
    assert (np.abs(filled[at] - clean[at]) < 5.0 * noise[:10]).all()


@pytest.mark.parametrize("seed", range(5))
def test_two_wrong_entries_of_a_row_do_not_hide_each_other(seed):
    X = correlated(seed, 300, 20, rank=2, noise=0.1)
    X[0, [2, 7]] += (1.5, -6.0)
    detector, known = fitted(in_robust_units(X))
    _, wrong, _ = detector.find(in_robust_units(X), known)
    assert set(np.flatnonzero(wrong[0])) == {2, 7}


@pytest.mark.parametrize("seed", range(5))
def test_clean_entries_are_left_alone(seed):
    Z = in_robust_units(correlated(seed, 300, 8))
    detector, known = fitted(Z)
    u, wrong, filled = detector.find(Z, known)
    assert wrong.sum() == 0
    np.testing.assert_array_equal(filled, Z)
    assert np.isfinite(u).all()
    assert (u >= 0).all()


def test_what_is_filled_in_lies_among_the_entries_of_the_column():
    Z = in_robust_units(correlated(1, 100, 6))
    detector, new = fitted(Z)[0], np.full((4, 6), 1e6)
    new[0, 0] = 0.0
    _, wrong, filled = detector.find(new)
    assert wrong.sum() == 23
    assert (filled <= Z.max(axis=0)).all()
    assert (filled >= Z.min(axis=0)).all()


def test_columns_of_equal_entries_have_no_conditional_tail():
    Z = correlated(2, 200, 5, noise=0.05)
    Z[:, 4] = 0.0
    Z[:3, 4] = 1.0
    equal = np.arange(5) == 4
    detector, known = EntryDetector.fit(Z, equal, threshold(200, 5))
    u, wrong, _ = detector.find(Z, known)
    assert not wrong[:, 4].any()
    np.testing.assert_array_equal(u[3:, 4], 0.0)


def test_an_entry_that_is_as_expected_is_not_blamed_for_another():
    """A column that the others nearly determine has tiny errors, of which the largest are many of their spreads."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((300, 5))
    Z[:, 4] = Z[:, 0] + 1e-6 * rng.standard_t(1, 300)
    detector = fitted(Z)[0]
    new = Z[:20].copy()
    new[:, 2] = 15.0
    wrong = detector.find(new)[1]
    assert wrong[:, 2].all()
    off = np.abs(new - detector.others.predict(np.where(np.arange(5) == 2, np.nan, new)))
    assert not wrong[off < LEAST].any()


# --- rows that are far out in many entries ----------------------------------------------------------------------------


def many(entry_u):
    """Rows whose entries have these chances, in no particular place."""
    return ManyEntries.of(np.random.default_rng(0).standard_normal(entry_u.shape), entry_u, np.log(1000.0))


@pytest.mark.parametrize("columns", [5, 50, 500])
def test_a_row_of_good_entries_is_not_far_out(columns):
    u = np.random.default_rng(columns).exponential(size=(300, columns))
    assert (many(u).u(u) == 0.0).all()


@pytest.mark.parametrize("columns", [20, 200])
def test_a_row_is_far_out_though_none_of_its_entries_is(columns):
    """Each entry of the row is one that a good row in twenty has."""
    u = np.random.default_rng(columns).exponential(size=(300, columns))
    u[7] = np.log(20.0)
    found = many(u)
    assert np.flatnonzero(found.u(u)).tolist() == [7]
    assert found.u(u[7:8])[0] > found.limit  # and so is a new one


def test_the_order_of_the_entries_of_a_row_says_nothing_of_it_as_a_whole():
    u = np.random.default_rng(1).exponential(size=(60, 9))
    np.testing.assert_allclose(mean_score(u), mean_score(u[:, ::-1]))
    np.testing.assert_allclose(mean_score(u), np.log(np.mean(u, axis=1)), atol=1e-8)
