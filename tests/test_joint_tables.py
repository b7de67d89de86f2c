"""`KernelLowRank` with errors of entries on tables: clean ones stay, bounds and units of columns do not mislead it."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from kernmend import KernelLowRank, NothingMendedWarning
from kernmend.datasets import make_cubic_surface
from kernmend.detect import Detector
from kernmend.model.errors import EntryError, RowError
from kernmend.model.kernels import RBF, auto_gamma
from kernmend.repair.calibrate import in_order
from kernmend.repair.completion import wide_gamma
from kernmend.repair.joint import ENTRIES_WIDTH, Problem, schatten_lam
from kernmend.repair.joint_check import FEWEST_INJECTED, copy_with_errors, gains, surely_gains
from kernmend.repair.joint_hidden import cost_of_hidden
from kernmend.repair.joint_plan import Plan, replaced_entries
from kernmend.repair.joint_trial import Trial
from kernmend.repair.learn import CHANGED


def table(seed=0, n=120, spread=1.0):
    """Rows near a plane in six columns, a few with one wrong entry; the last column has a spread of its own."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 6)) + 0.05 * rng.standard_normal((n, 6))
    X = truth.copy()
    X[np.arange(6), np.arange(6)] += 10.0
    sizes = np.array([1.0] * 5 + [spread])
    return truth * sizes, X * sizes, sizes


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_clean_tables_stay_bit_for_bit_with_errors_of_entries(load):
    """The Schatten path took a quarter of the entries of iris for wrong; one row of wine looks wrong, and all moved."""
    X = load().data
    with pytest.warns(NothingMendedWarning):
        est = KernelLowRank(error="entries").fit(X)
    np.testing.assert_array_equal(est.recovered_, X)


def test_entries_outside_of_bounds_are_moved_into_them_and_the_others_of_clean_data_stay():
    X = load_iris().data
    bounds = (0.3, 6.0)
    with pytest.warns(NothingMendedWarning, match="predicted hardly worse"):
        est = KernelLowRank(error="entries", penalty="schatten", bounds=bounds, max_iter=60).fit(X)
    np.testing.assert_array_equal(est.recovered_, np.clip(X, *bounds))


def test_wrong_entries_are_mended_where_bounds_cut_some_of_them():
    rng = np.random.default_rng(100)
    truth = make_cubic_surface(100, 20, random_state=0)
    X = truth + (rng.random(truth.shape) < 0.3) * rng.standard_normal(truth.shape)
    bounds = truth.min() / 2, truth.max() / 2
    assert np.mean(np.clip(X, *bounds) != X) > 0.01
    inside, clipped = np.clip(truth, *bounds), np.clip(X, *bounds)
    A = KernelLowRank(error="entries", bounds=bounds, max_iter=60, tol=1e-4).fit(X).recovered_
    assert np.sum((A - inside) ** 2) < 0.2 * np.sum((clipped - inside) ** 2)


def test_columns_whose_spreads_are_far_apart_are_judged_each_in_its_own_unit():
    """In one unit, that of the widest column, it hides what becomes of the others."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4)) * [1.0, 1.0, 1.0, 1000.0]
    A = X + 0.1 * rng.standard_normal(X.shape)
    np.testing.assert_array_equal(replaced_entries(X, A).mean(axis=0) > 0.5, [True, True, True, False])
    alike = X / [1.0, 1.0, 1.0, 1000.0]
    unit = CHANGED * np.sqrt(1.0 / auto_gamma(alike) / 4)
    moved = alike + np.outer(np.ones(50), [0.9, 1.1, -0.9, -1.1]) * unit
    changed = replaced_entries(alike, moved)
    np.testing.assert_array_equal(changed, np.tile([False, True, False, True], (50, 1)))


def test_rows_at_the_ends_of_a_plane_are_not_drawn_inwards():
    """The Schatten path moved good entries of clean tables by up to 4, and left spikes of 10 where they were."""
    truth, X, _ = table()
    with pytest.warns(NothingMendedWarning):
        np.testing.assert_array_equal(KernelLowRank(error="entries").fit_transform(truth), truth)
    A = KernelLowRank(error="entries").fit(X).recovered_
    assert np.sum((A - truth) ** 2) < 0.01 * np.sum((X - truth) ** 2)


def test_wrong_entries_of_few_columns_are_injected_where_the_truth_is_known():
    X = table()[1]
    detector, found = Detector.fit(X)
    trial = Trial.of(X, found.rows, detector, 0)
    assert trial.first.error.by_entry
    assert trial.near is None
    assert trial.left(trial.truth) == 0.0
    different = trial.rows[trial.wrong] != trial.truth[trial.wrong]
    assert different.any(axis=1).all()
    assert different.mean() < 0.5


@pytest.mark.filterwarnings("ignore::kernmend.NothingMendedWarning")  # one error of six is seen in that unit
def test_good_entries_stay_where_one_column_is_far_wider_than_the_others():
    """What becomes of the others was not seen in the unit of the widest."""
    truth, X, sizes = table(spread=300.0)
    A = KernelLowRank(error="entries").fit(X).recovered_
    good = truth == X
    assert np.abs((A - X) / sizes)[good].max() < 0.2


def test_errors_are_counted_in_units_of_columns_whose_spreads_are_far_apart():
    X = table(spread=300.0)[1]
    detector, found = Detector.fit(X)
    trial = Trial.of(X, found.rows, detector, 0)
    assert trial.unit[5] > 10 * trial.unit[:5].max()
    off = trial.rows.copy()
    off[trial.wrong] = trial.truth[trial.wrong]
    off[0] += trial.unit
    assert trial.left(off) == pytest.approx(6.0)
    alike = table()[1]
    assert Trial.of(alike, Detector.fit(alike)[1].rows, detector, 0).unit == 1.0


def injected(X, A, flags, **given):
    """Return the copy with errors of a plan, and the plan that comes of what is made of that copy."""
    plan = Plan(Problem.of(X, RBF(0.1), RowError), 1.0, 1.0, cost=0.5, flags=flags)
    seen = {}

    def solve(again):
        seen["copy"] = again.problem.X
        seen["truth"] = in_order(X[~flags])
        return given["mend"](seen["copy"], seen["truth"])

    return seen, plan.checked(A, given.get("bounds"), solve)


def grossly_wrong(seed=0):
    """Return rows of which five are wrong, these with the truth in their place, and which they are."""
    rng = np.random.default_rng(seed)
    truth, flags = rng.standard_normal((60, 3)), np.arange(60) < 5
    X = truth.copy()
    X[flags] += 8.0 * rng.choice([-1.0, 1.0], (5, 3))
    return X, truth, flags


def test_the_fit_is_judged_on_a_copy_with_its_errors_in_good_rows():
    X, truth, flags = grossly_wrong()
    seen, plan = injected(X, truth, flags, mend=lambda copy, clean: clean)
    assert not plan.nothing
    assert seen["copy"].shape == (55, 3)
    wrong = (seen["copy"] != seen["truth"]).any(axis=1)
    assert wrong.sum() == FEWEST_INJECTED
    errors = np.unique(np.round((seen["copy"] - seen["truth"])[wrong], 9), axis=0)
    np.testing.assert_allclose(np.abs(errors), 8.0)


def test_good_rows_that_move_count_as_harm():
    X, truth, flags = grossly_wrong()
    _, plan = injected(X, truth, flags, mend=lambda copy, clean: clean + 4.0)
    assert plan.nothing
    assert "errors at known places" in plan.reason


def test_one_large_error_does_not_decide():
    """One natural row far out made all others look as if they could be mended."""
    X, truth, flags = grossly_wrong()
    A = X.copy()
    A[flags] += 0.01
    A[0] = truth[0] + 500.0
    _, plan = injected(X, A, flags, mend=lambda copy, clean: np.where(np.abs(copy - clean) > 5.0, clean, clean + 0.3))
    assert not plan.nothing  # two of the ten rows get the large one
    copy, clean = copy_with_errors(X, A, flags, None, 0)
    gain = gains(copy, clean, clean, 1.0, None)
    gain[np.argsort(gain)[:-1]] = 0.0
    assert not surely_gains(gain)


def test_entries_outside_of_bounds_do_not_count_and_the_others_do():
    """Given bounds switched the last look at good rows off where they cut any entry of these."""
    X, truth, flags = grossly_wrong()
    bounds = np.full(3, -1.0), np.full(3, 1.0)
    for harm, nothing in ((0.0, False), (4.0, True)):
        _, plan = injected(
            X, truth, flags, bounds=bounds, mend=lambda copy, clean, harm=harm: np.clip(clean, *bounds) + harm
        )
        assert plan.nothing == nothing


def test_columns_that_can_hardly_be_predicted_do_not_pass_for_wrong_entries():
    """Pooled over columns, entries of the others are predicted far better than those that change."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-1, 1, (80, 1))
    X = np.hstack([t, t**2, t**3, 1 - t, np.sin(2 * t), 0.5 * rng.standard_normal((80, 2))])
    changed = np.zeros(X.shape, dtype=bool)
    changed[:, -2:] = rng.random((80, 2)) < 0.8
    kernel = RBF(wide_gamma(X, ENTRIES_WIDTH))
    cost = cost_of_hidden(Problem.of(X, kernel, EntryError), X, changed, schatten_lam(X, EntryError), 0)
    assert cost > 0.6 / changed.mean()
