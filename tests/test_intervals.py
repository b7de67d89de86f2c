"""Intervals of mended values: the conformal quantile, scales, coverage on exchangeable data, unsure values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from kernmend import KernelRecovery, load
from kernmend.datasets import make_circle
from kernmend.repair import conformal
from kernmend.repair.conformal import Fitted, Trial, conformal_quantile
from kernmend.repair.row_mender import (
    FLOOR,
    MISSING,
    NEAREST,
    WHOLE,
    Intervals,
    column_factors,
    own_intervals,
    scales,
    some_rows,
)
from kernmend.repair.units import Units

pytestmark = pytest.mark.usefixtures("module_settings")


def table(seed=0, n=150, d=6):
    """Return a table whose columns follow three hidden ones, and the same with wrong cells, wrong rows and holes."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d)) + 0.2 * rng.standard_normal((n, d))
    X, rows = truth.copy(), rng.permutation(n)
    X[rows[:8], rng.integers(0, d, 8)] += 12.0 * rng.choice([-1.0, 1.0], 8)
    X[rows[8:11]] += 9.0 * rng.standard_normal((3, d))
    X[rows[30:50], rng.integers(0, d, 20)] = np.nan
    return truth, X


@pytest.fixture(scope="module")
def known(module_settings):
    """A default fit to `table()`, shared by tests that only read it."""
    return KernelRecovery().fit(table()[1])


# --- the quantile -----------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_the_quantile_is_the_one_of_its_rank(residuals, level):
    residuals = np.array(residuals)
    rank = int(np.ceil(np.round((residuals.size + 1) * level, 9)))
    brute = np.sort(residuals)[rank - 1] if rank <= residuals.size else np.inf
    assert conformal_quantile(residuals, level) == brute


@given(st.lists(st.integers(1, 4), min_size=5, max_size=20), st.randoms(use_true_random=False))
def test_a_weight_is_a_number_of_equal_residuals(weights, random):
    """Repeating residuals is weighting them, but for the one residual more, which has the mean weight."""
    values = np.array([random.random() for _ in weights])
    repeated, level = np.repeat(values, weights), 0.8
    with_weights = conformal_quantile(values, level, np.array(weights, dtype=float))
    mean = np.mean(weights)
    total = sum(weights) + mean
    brute = next((v for v in np.unique(values) if np.sum(repeated <= v) >= level * total * (1 - 1e-12)), np.inf)
    assert with_weights == brute


def test_a_conformal_quantile_covers_at_its_level():
    rng = np.random.default_rng(0)
    draws = rng.exponential(size=(4000, 31))
    covered = [
        new <= conformal_quantile(known, 0.9) for *known, new in map(np.array, draws) for known in [np.array(known)]
    ]
    assert 0.885 < np.mean(covered) < 0.925  # at least 0.9, at most 0.9 + 1 / 31, and three standard errors


def test_without_residuals_nothing_is_known():
    assert conformal_quantile(np.zeros(0), 0.9) == np.inf


# --- the scale --------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 5))
def test_a_scale_is_the_spread_of_the_nearest_rows(seed, n, d):
    rng = np.random.default_rng(seed)
    A, L, spreads = rng.standard_normal((3, d)), rng.standard_normal((n, d)), rng.uniform(0.5, 2.0, d)
    for row, found in zip(A, scales(A, L, spreads), strict=True):
        near = np.argsort(np.square(L - row).sum(axis=1))[:NEAREST]
        brute = np.sqrt(np.mean(np.square(L[near] - row), axis=0) + (FLOOR * spreads) ** 2)
        np.testing.assert_allclose(found, brute, rtol=1e-9)


def test_a_row_is_not_its_own_neighbour():
    L = np.random.default_rng(0).standard_normal((50, 3))
    own = scales(L, L, L.std(axis=0))
    for i in (0, 7, 49):
        np.testing.assert_allclose(own[i], scales(L[[i]], np.delete(L, i, axis=0), L.std(axis=0))[0])


def test_the_truth_of_a_row_is_left_out():
    rng = np.random.default_rng(0)
    L, spreads = rng.standard_normal((50, 3)), np.ones(3)
    A = L[[7, 9]] + 0.01
    found = scales(A, L, spreads, np.array([7, -1]))
    np.testing.assert_allclose(found[0], scales(A[:1], np.delete(L, 7, axis=0), spreads)[0])
    np.testing.assert_allclose(found[1], scales(A[1:], L, spreads)[0])


def test_columns_that_others_say_nothing_of_have_large_factors():
    rng = np.random.default_rng(0)
    known = rng.standard_normal((200, 1)) + 0.1 * rng.standard_normal((200, 4))
    factors = column_factors(np.column_stack([known, rng.standard_normal(200), np.ones(200)]))
    assert factors[4] > 2 * factors[:4].max()
    assert np.isfinite(factors).all()


def test_an_infinite_quantile_is_an_infinite_interval_of_constant_columns_too():
    L = np.ones((20, 2))
    intervals = Intervals.against(L, 0.9, np.array([np.inf, 1.0, 1.0, 2.0]), np.ones(4), np.ones(2))
    half = intervals.half_widths(np.ones((2, 2)), np.array([WHOLE, MISSING]))
    assert np.isinf(half[0]).all()
    assert (half[1] == 0).all()
    assert intervals.unsure(half).tolist() == [[True, True], [False, False]]


# --- intervals of columns ---------------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_the_interval_of_a_column_holds_one_more_value_at_the_level(n, level):
    """The chance is the share of the n + 1 ranks of one more value that lie within; never below the level."""
    low, high = own_intervals(np.arange(1.0, n + 1.0)[::-1, np.newaxis], level)
    if np.isinf(low[0]):
        assert np.isinf(high[0])
        assert (n - 1) / (n + 1) < level  # not even the range does
        return
    within = (high[0] - low[0]) / (n + 1)
    assert level - 1e-9 <= within < level + 2.0 / (n + 1) + 1e-9
    assert low[0] - 1 == n - high[0]


def test_the_interval_of_a_column_of_equal_values_is_its_range():
    low, high = own_intervals(np.column_stack([np.arange(101.0), np.r_[np.zeros(100), 5.0]]), 0.9)
    np.testing.assert_allclose(high - low, [92.0, 5.0])


@given(st.integers(0, 10_000), st.integers(1, 40), st.sampled_from([0.6, 0.9]))
def test_with_limits_only_those_within_them_count(seed, n, level):
    rng = np.random.default_rng(seed)
    values, limits, weights = rng.integers(1, 8, n) / 2.0, rng.integers(1, 8, n) / 2.0, rng.uniform(0.5, 2.0, n)
    unit = weights / weights.mean()

    def enough(q):
        counted = limits >= q
        return unit[counted & (values <= q)].sum() >= level * (unit[counted].sum() + 1.0) * (1 - 1e-12)

    brute = next((q for q in np.unique(values) if enough(q)), np.inf)
    assert conformal_quantile(values, level, weights, limits) == brute


def test_an_unsure_value_has_the_interval_of_its_column():
    """In a plane a point beside a curve may come from anywhere on it; the bounds are those of the curve."""
    rng = np.random.default_rng(0)
    X = make_circle(300, random_state=0).X * [1.0, 100.0]
    X[:20] = rng.uniform(-1.5, 1.5, (20, 2)) * [1.0, 100.0]
    est = KernelRecovery().fit(X)
    records = est.changes_.records
    unsure = est.unsure_[records["row"], records["column"]]
    assert unsure.mean() > 0.9
    low, high = own_intervals(X[~est.outliers_], 0.9)
    some = records[unsure]
    np.testing.assert_allclose(some["low"], np.minimum(low[some["column"]], some["new"]), rtol=1e-6)
    np.testing.assert_allclose(some["high"], np.maximum(high[some["column"]], some["new"]), rtol=1e-6)


@pytest.mark.parametrize("how", ["anywhere", "moved"])
def test_points_of_a_surface_are_covered_however_they_went_wrong(how):
    """The truth is one of the column, whatever became of the row: four standard errors around 90 %."""
    inside = []
    for seed in range(6):
        rng = np.random.default_rng([seed, 1])
        truth = make_circle(300, random_state=seed).X
        X = truth.copy()
        X[:30] = rng.uniform(-1.5, 1.5, (30, 2)) if how == "anywhere" else truth[:30] * rng.uniform(0.5, 0.8, (30, 1))
        records = KernelRecovery(tol=1e-4).fit(X).changes_.records
        true = truth[records["row"], records["column"]]
        held = (records["low"] <= true) & (true <= records["high"])
        inside += held[records["row"] < 30].tolist()
    assert len(inside) > 250
    assert 0.82 < np.mean(inside) < 0.98


# --- coverage ---------------------------------------------------------------------------------------------------------


def test_coverage_on_exchangeable_data():
    """90 % of the intervals hold the truth, of mended and of filled in values; the bounds are four standard errors."""
    wrong, missing = [], []
    for seed in range(12):
        truth, X = table(seed)
        records = KernelRecovery().fit(X).changes_.records
        true = truth[records["row"], records["column"]]
        inside = (records["low"] <= true) & (true <= records["high"])
        really = ~np.isnan(records["old"]) & (records["old"] != true)
        wrong += inside[really].tolist()
        missing += inside[records["kind"] == "missing"].tolist()
    assert len(wrong) > 150
    assert len(missing) > 200
    assert 0.82 < np.mean(wrong) <= 0.98
    assert 0.82 < np.mean(missing) <= 0.98


def test_a_higher_level_is_wider(known):
    low, high = KernelRecovery(interval=0.6).fit(table()[1]), known
    assert (high._rows.intervals.quantiles >= low._rows.intervals.quantiles).all()
    np.testing.assert_array_equal(low.recovered_, high.recovered_)
    assert (low.half_widths_[low.half_widths_ > 0] <= high.half_widths_[low.half_widths_ > 0]).all()


def test_errors_are_tried_in_other_columns():
    """What mending leaves of an error leads along the good rows; in the same columns it would not be seen."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3)) @ rng.standard_normal((3, 30)) + 0.05 * rng.standard_normal((90, 30))
    X[:10] += 2.0 * rng.standard_normal((10, 30))
    est = KernelRecovery(error="rows", scale=None).fit(X)
    found = est._rows.judge(X)
    fitted = Fitted(X, X, est._rows.mend(X)[0], found)
    good = np.flatnonzero(~found.rows)
    trial = Trial(est._rows, fitted, good, np.ones(X.shape[1]), 0.9, good[:20], np.random.default_rng(0))
    errors = trial._with_errors(np.arange(10).repeat(2), by_entry=False) - trial.truth
    taken = fitted.X - fitted.mended
    for one, error in zip(errors, taken[:10].repeat(2, axis=0), strict=True):
        assert any(np.allclose(one, np.roll(error, shift)) for shift in range(30))
    span = np.linalg.svd(X[good], full_matrices=False)[2][:3]
    along = np.linalg.norm(errors @ span.T, axis=1) / np.linalg.norm(errors, axis=1)
    before = np.linalg.norm(taken[:10] @ span.T, axis=1) / np.linalg.norm(taken[:10], axis=1)
    assert np.median(along) > 3 * np.median(before)


def test_more_entries_are_tried_than_were_found():
    """Some entries of the wrong row stand in for those that were wrong and not found; never its missing ones."""
    _, X = table()
    rows = KernelRecovery().fit(X)._rows
    inside = rows.enter(X)
    filled = rows.fill(inside)
    found = rows.detector.find(filled)
    good = np.flatnonzero(~found.rows)
    fitted = Fitted(inside, filled, filled, found)
    trial = Trial(rows, fitted, good, np.ones(X.shape[1]), 0.9, good[:30], np.random.default_rng(0))
    drawn = np.resize(np.flatnonzero(rows.partly_wrong(found)), 30)
    wrong, marked = trial._with_entries(drawn), found.entries[drawn]
    changed = wrong != trial.truth
    assert not np.isnan(wrong).any()
    np.testing.assert_array_equal(wrong[marked], inside[drawn][marked])
    np.testing.assert_array_equal(wrong[changed], inside[drawn][changed])
    more = (changed & ~marked).sum() / (~marked).sum()
    assert 0.05 < more < conformal.MORE


def test_entries_that_a_wrong_row_lacks_are_not_hidden_in_the_rows_that_are_tried(known):
    """A missing entry may be marked, since the row was judged with it filled in; it is no error that was seen."""
    X, rows = table()[1], known._row_mender
    inside = rows.enter(X)
    found = rows.judge(X)
    wrong = np.flatnonzero(found.rows)
    inside[wrong[0], 2] = np.nan
    found.entries[wrong[0], 2] = True
    good = np.flatnonzero(~found.rows)
    filled = rows.fill(inside)
    fitted = Fitted(inside, filled, filled, found)
    trial = Trial(rows, fitted, good, np.ones(6), 0.9, good[:9], np.random.default_rng(0))
    tried = trial._with_entries(np.full(9, wrong[0]))
    np.testing.assert_array_equal(tried[:, 2], trial.truth[:, 2])
    assert np.isfinite(tried).all()


def test_rows_in_units_of_their_own_get_them_after_the_error():
    rng = np.random.default_rng(0)
    truth = np.sin(np.linspace(0, 6, 50)) * rng.uniform(1, 9, (8, 1)) + rng.uniform(-5, 5, (8, 1))
    units, X = Units(by_rows=True), truth.copy()
    X[:, 10:35] += 4.0 * np.ptp(truth, axis=1, keepdims=True)
    inside = units.enter(truth)
    again, before = units.again(inside + (X - truth) / units.size(truth), inside)
    np.testing.assert_allclose(again, units.enter(X), atol=1e-9)  # as if the wrong rows had come so
    np.testing.assert_allclose(units.back(before, X), truth, atol=1e-9)
    assert all(one is other for one, other in zip(Units().again(X, truth), (X, truth), strict=True))


def test_rows_that_belong_to_good_ones_are_told_from_rows_by_chance():
    """In many columns small errors lead back to one good row; a point in a plane leads anywhere."""
    rng = np.random.default_rng(0)
    wide = np.sin(rng.uniform(0, 6, (80, 1)) + np.linspace(0, 3, 40))
    near = wide.copy()
    near[:8] += 0.4 * rng.standard_normal((8, 40))
    plane = make_circle(80, random_state=0).X
    plane[:8] = rng.uniform(-1, 1, (8, 2))
    shares = []
    for X in (near, plane):
        est = KernelRecovery(error="rows").fit(X)
        inside = est._rows.enter(X)
        found = est._rows.judge(X)
        good = np.flatnonzero(~found.rows)
        fitted = Fitted(inside, inside, est._rows.mend(X)[0], found)
        trial = Trial(est._rows, fitted, good, np.ones(X.shape[1]), 0.9, good[:20], np.random.default_rng(0))
        flagged = np.flatnonzero(found.rows)
        shares += [trial.by_chance(flagged[np.arange(20) % k]) for k in (len(flagged), 3)]
    assert shares[0] < 0.3
    assert shares[1] < 0.3
    assert shares[2] > 0.5
    assert shares[3] > 0.5


def test_intervals_do_not_depend_on_the_order_of_the_rows(known):
    _, X = table()
    other = KernelRecovery().fit(X[np.random.default_rng(1).permutation(len(X))])
    # Rounding depends on the order, and trials stop where an iteration gains less than 1e-5.
    np.testing.assert_allclose(known._rows.intervals.quantiles, other._rows.intervals.quantiles, rtol=1e-4)


def test_nor_do_they_where_trials_are_held_against_some_of_the_rows(monkeypatch):
    """Rows that all lack nothing: those that are filled in together are drawn by their order."""
    X = np.where(np.isnan(table()[1]), table()[0], table()[1])
    monkeypatch.setattr(conformal, "AGAINST", 90)
    monkeypatch.setattr(conformal, "JUDGED", 60)
    one, other = (KernelRecovery().fit(rows) for rows in (X, X[np.random.default_rng(1).permutation(len(X))]))
    np.testing.assert_allclose(one._rows.intervals.quantiles, other._rows.intervals.quantiles, rtol=1e-4)


@pytest.mark.parametrize(("n", "times"), [(60, conformal.TIMES), (400, 1)])
def test_few_good_rows_are_tried_several_times_with_other_errors(n, times):
    X = table(n=n)[1]
    rows = KernelRecovery(interval=None).fit(X)._rows
    inside, found = rows.enter(X), rows.judge(X)
    filled, good = rows.fill(inside), np.flatnonzero(~found.rows)
    fitted = Fitted(inside, filled, filled, found)
    rng = np.random.default_rng(0)
    trial = Trial(rows, fitted, good, np.ones(X.shape[1]), 0.9, conformal.to_hold_out(fitted, good, rng), rng)
    held, counts = np.unique(trial.held, return_counts=True)
    assert held.size == min(conformal.TRIED, int(conformal.SHARE * len(good)))
    assert (counts == times).all()
    assert not np.isin(filled[held], trial.against.mender.L).all(axis=1).any()
    if times > 1:
        once, again = np.split(trial._with_entries(trial._drawn(rows.partly_wrong(found))), times)
        np.testing.assert_array_equal(*np.split(trial.truth, times))
        assert (once != again).any(axis=1).mean() > 0.5


def test_intervals_scale_with_the_data(known):
    large = KernelRecovery().fit(1024.0 * table()[1])
    np.testing.assert_allclose(large.half_widths_, 1024.0 * known.half_widths_, rtol=1e-3)


@pytest.mark.parametrize(("part", "left"), [("missing", 0), ("residuals", 1)])
def test_ctrl_c_while_intervals_are_calibrated_leaves_the_fit(monkeypatch, known, part, left):
    """Entries are hidden first, so their quantile stays when Ctrl-C ends the trials of errors."""

    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(conformal.Trial, part, interrupt)
    est = KernelRecovery().fit(table()[1])
    np.testing.assert_array_equal(est.recovered_, known.recovered_)
    quantiles = est._rows.intervals.quantiles
    assert np.isinf(quantiles).tolist() == [True, True, True, left == 0]
    wrong = ~np.isnan(est.changes_.records["old"]) if left else slice(None)
    assert est.unsure_[est.changes_.records["row"][wrong], est.changes_.records["column"][wrong]].all()


def test_too_few_good_rows_say_nothing():
    X = np.random.default_rng(0).standard_normal((8, 3))
    X[2, 1] = np.nan
    est = KernelRecovery().fit(X)
    assert np.isinf(est._rows.intervals.quantiles).all()
    assert np.isinf(est.half_widths_[2, 1])
    assert est.unsure_[2, 1]


def test_residuals_of_which_none_counts_say_nothing():
    assert conformal_quantile(np.arange(9.0), 0.5, np.zeros(9)) == np.inf


def test_intervals_stay_within_the_bounds():
    _, X = table()
    X = 1.0 / (1.0 + np.exp(-X))
    records = KernelRecovery(bounds=(0.0, 1.0)).fit(X).changes_.records
    assert records["low"].min() >= 0.0
    assert records["high"].max() <= 1.0
    assert (records["low"] <= records["new"]).all()
    assert (records["new"] <= records["high"]).all()


# --- unsure values ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def doubtful():
    """Return data in which some mended values are not known to better than their column, and others are."""
    _, X = table(3)
    X[:, 5] = np.random.default_rng(0).standard_normal(len(X))  # a column that no other knows of
    X[3, 5] = X[40, 5] = np.nan
    return X


@pytest.fixture(scope="module")
def mended(doubtful, module_settings):
    """A default fit to doubtful data, shared by tests that only read it."""
    return KernelRecovery().fit(doubtful)


def test_unsure_values_are_marked(mended):
    est = mended
    assert est.unsure_[[3, 40], 5].all()
    wide = 2 * est.half_widths_ > est._rows.intervals.highest - est._rows.intervals.lowest
    np.testing.assert_array_equal(est.unsure_, wide & (est.half_widths_ > 0))
    assert not est.unsure_.all()
    reasons = {(r["row"], r["column"]): r["reason"] for r in est.changes_}
    assert all(("unsure" in reason) == est.unsure_[where] for where, reason in reasons.items())


def test_unsure_values_are_left_blank(doubtful, mended, tmp_path):
    blank = KernelRecovery(unsure="blank").fit(doubtful)
    np.testing.assert_array_equal(blank.unsure_, mended.unsure_)
    np.testing.assert_array_equal(blank.recovered_, np.where(mended.unsure_, np.nan, mended.recovered_))
    again = load(blank.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.recovered_, blank.recovered_)
    assert np.isnan(again.transform(doubtful[[3]])[0, 5])


def test_unsure_values_stay(doubtful, mended):
    kept = KernelRecovery(unsure="keep").fit(doubtful)
    np.testing.assert_array_equal(kept.recovered_, np.where(mended.unsure_, doubtful, mended.recovered_))


def test_what_would_have_been_done_is_listed_and_not_accepted(doubtful):
    kept = KernelRecovery(unsure="keep").fit(doubtful)
    records = kept.changes_.records
    np.testing.assert_array_equal(records["accepted"], ~kept.unsure_[records["row"], records["column"]])
    assert 0 < (~records["accepted"]).sum() < len(records)
    mended = KernelRecovery().fit(doubtful)
    assert len(records) == len(mended.changes_)
    proposed = records[~records["accepted"]]
    assert all("left as it is" in reason for reason in proposed["reason"])
    assert (proposed["low"] <= proposed["new"]).all()
    assert (proposed["new"] <= proposed["high"]).all()
    anyway = mended.transform(doubtful)
    # In another batch of rows products round in another way, which iterations make more of.
    np.testing.assert_allclose(proposed["new"], anyway[proposed["row"], proposed["column"]], rtol=1e-5)
    new = kept.changes_of(doubtful).records
    assert (~new["accepted"]).sum() == kept._rows.mend(doubtful)[1]["unsure_"].sum()


@pytest.mark.parametrize("interval", [0.0, 1.0, -1, 90, True, "0.9", np.nan])
def test_levels_are_shares(interval):
    with pytest.raises(ValueError, match="interval must be None or a level between 0 and 1"):
        KernelRecovery(interval=interval).fit(np.eye(5))


def test_unsure_is_one_of_three_and_needs_intervals():
    with pytest.raises(ValueError, match="unsure must be one of 'mend', 'blank', 'keep'"):
        KernelRecovery(unsure="drop").fit(np.eye(5))
    with pytest.raises(ValueError, match="unsure='blank' needs intervals"):
        KernelRecovery(unsure="blank", interval=None).fit(np.eye(5))


def test_no_intervals_are_no_half_widths_and_the_same_values(known):
    """Also where the fit before had them."""
    _, X = table()
    plain = clone(known).fit(X[:40]).set_params(interval=None).fit(X)
    assert not hasattr(plain, "half_widths_")
    assert not plain.unsure_.any()
    np.testing.assert_array_equal(plain.recovered_, known.recovered_)
    assert np.isnan(plain.changes_.records["low"]).all()


def test_some_rows_are_evenly_spaced():
    rows = some_rows(np.arange(1000.0)[:, np.newaxis], 5)
    assert rows.ravel().tolist() == [0.0, 249.0, 499.0, 749.0, 999.0]
