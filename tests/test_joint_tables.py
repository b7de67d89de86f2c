"""`KernelLowRank` with errors of entries on tables: clean ones stay, bounds and units of columns do not mislead it."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from kernmend import KernelLowRank, NothingMendedWarning
from kernmend.datasets import make_cubic_surface
from kernmend.detect import Detector
from kernmend.model.errors import EntryError, RowError
from kernmend.model.kernels import RBF, auto_gamma
from kernmend.repair import joint_check
from kernmend.repair.calibrate import in_order
from kernmend.repair.completion import wide_gamma
from kernmend.repair.joint import ENTRIES_WIDTH, Problem, schatten_lam
from kernmend.repair.joint_check import ERRORS, Copy, surely_gains
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


@pytest.mark.filterwarnings("ignore::kernmend.NothingMendedWarning")
def test_one_natural_row_far_out_is_not_mended_beside_small_errors():
    """It was put among the others, at many times what the errors had been."""
    truth, X, _ = table()
    X[truth != X] -= 5.0
    X[50, 2] = truth[50, 2] = 300.0
    A = KernelLowRank(error="entries").fit(X).recovered_
    assert np.sum((A - truth) ** 2) <= 1.05 * np.sum((X - truth) ** 2)


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


def judged(X, A, flags, mend, bounds=None):
    """Return the copy on which a fit is judged, what that should be, and the plan that follows from mending it."""
    plan, copies = Plan(Problem.of(X, RBF(0.1), RowError), 1.0, 1.0, cost=0.5, flags=flags), []

    def solve(again):
        copies.append(again.problem.X)
        return mend(again.problem.X, truth)

    truth = in_order(X[~flags])
    plan = plan.checked(A, bounds, solve)
    return copies[0], truth, plan


def grossly_wrong():
    """Return rows of which eight are wrong, these with the truth in their place, and which they are."""
    rng = np.random.default_rng(0)
    truth, flags = rng.standard_normal((60, 3)), np.arange(60) < 8
    return truth + np.where(flags[:, np.newaxis], 8.0 * rng.choice([-1.0, 1.0], (60, 3)), 0.0), truth, flags


def test_a_fit_is_judged_by_a_copy_with_what_it_took_off_wrong_rows_in_good_ones():
    X, truth, flags = grossly_wrong()
    copy, good, plan = judged(X, truth, flags, lambda copy, good: good)
    assert not plan.nothing
    assert copy.shape == (52, 3)
    wrong = (copy != good).any(axis=1)
    assert wrong.sum() == 8
    np.testing.assert_allclose(np.sort((copy - good)[wrong], axis=0), np.sort((X - truth)[flags], axis=0))


def test_of_many_rows_a_part_is_tried_with_as_large_a_share_of_errors(monkeypatch):
    X, truth, flags = grossly_wrong()
    monkeypatch.setattr(joint_check, "MANY_ROWS", 26)
    for copy in Copy.several(X, truth, flags, None, 0):
        assert len(copy.rows) == 26
        assert len(copy.wrong) == 4


def test_few_errors_are_tried_on_several_copies_in_other_rows():
    X, truth, _ = grossly_wrong()
    copies = list(Copy.several(X, truth, np.arange(60) < 3, None, 0))
    assert len(copies) == -(-ERRORS // 3)
    assert len(np.unique([copy.wrong for copy in copies])) > 3
    for copy in copies:
        np.testing.assert_allclose((copy.rows - copy.truth)[copy.wrong], (X - truth)[:3])


def test_there_are_as_many_errors_in_a_copy_as_rows_that_look_wrong():
    """Rounded up, 3 of 297 times 297 were 4: a fit of 300 rows failed."""
    X = np.random.default_rng(0).standard_normal((300, 2))
    copy = next(Copy.several(X, X + 1.0, np.arange(300) < 3, None, 0))
    assert len(copy.wrong) == 3


@pytest.mark.parametrize(("gains", "count"), [([1.0, 1.0, 1.0], 1), ([1.0, 0.0, 0.0], -(-ERRORS // 3))])
def test_further_copies_are_tried_only_until_the_verdict_is_clear(gains, count):
    """Sixteen fits of a copy took up to 22 times the time of a fit with all given."""
    X, truth, _ = grossly_wrong()
    flags, copies = np.arange(60) < 3, []
    plan = Plan(Problem.of(X, RBF(0.1), RowError), 1.0, 1.0, cost=0.5, flags=flags)
    good = in_order(X[~flags])

    def solve(again):
        copies.append(again.problem.X)
        wrong = np.flatnonzero((copies[-1] != good).any(axis=1))
        wrong = wrong[
            np.argsort([np.argmin(np.abs(truth[:3] - X[:3] + e).sum(axis=1)) for e in (copies[-1] - good)[wrong]])
        ]
        out = copies[-1].copy()
        out[wrong] += np.array(gains)[:, np.newaxis] * (good - out)[wrong]
        return out

    assert plan.checked(truth, None, solve).nothing == (count > 1)
    assert len(copies) == count


@pytest.mark.parametrize(("rows", "nothing"), [(0, False), (4, False), (44, True)])
def test_good_rows_of_the_copy_that_move_are_harm_unless_they_are_fewer_than_the_wrong_ones(rows, nothing):
    X, truth, flags = grossly_wrong()

    def mend(copy, good):
        out = good.copy()
        out[np.flatnonzero((copy == good).all(axis=1))[:rows]] += 6.0
        return out

    plan = judged(X, truth, flags, mend)[2]
    assert plan.nothing == nothing
    assert ("errors at known places" in plan.reason) == nothing


def test_a_gain_on_one_row_alone_is_not_sure():
    """One natural row far out, taken for wrong and brought back, made up for whatever was done to the others."""
    X, _, flags = grossly_wrong()
    A = np.where(flags[:, np.newaxis], X + 0.1, X)
    A[0] = X[0] + 500.0
    plan = judged(X, A, flags, lambda copy, good: good)[2]
    assert plan.nothing


def test_entries_outside_of_bounds_do_not_count_and_all_others_do():
    """Bounds that cut entries of good rows left out these rows, or all of the data."""
    X, truth, flags = grossly_wrong()
    bounds = np.full(3, -1.0), np.full(3, 1.0)
    cut = (truth < -1.0) | (truth > 1.0)
    assert cut[~flags].any(axis=1).mean() > 0.5
    for harm, nothing in ((0.0, False), (8.0, True)):
        plan = judged(X, truth, flags, lambda copy, good, harm=harm: np.clip(good, *bounds) + harm, bounds)[2]
        assert plan.nothing == nothing


def test_a_row_may_return_to_any_place_on_its_surface_but_all_rows_together_come_nearer_to_the_truth():
    angle = np.linspace(0.0, 2.0 * np.pi, 100, endpoint=False)
    truth = np.column_stack([np.cos(angle), np.sin(angle)])
    rows = truth.copy()
    rows[:10] *= 1.5
    copy, elsewhere = Copy(rows, truth, np.arange(10)), truth.copy()
    elsewhere[:10] = truth[50:60]
    assert surely_gains([copy.gains(elsewhere, 1.0, None, along=True)])
    assert not surely_gains([copy.gains(elsewhere, 1.0, None)])


def test_a_gain_is_sure_over_the_errors():
    equal, one = np.full(8, 2.0), np.eye(8)[0]
    assert surely_gains([(equal, 0.0)])
    assert not surely_gains([(equal, -16.0)])
    assert not surely_gains([(one, 0.0)])
    assert not surely_gains([(one, 0.0), (one, 0.0)])  # the same errors again say no more of others
    assert surely_gains([(one[:1], 0.0)])
    assert not surely_gains([(one[:1], 0.0), (-2.0 * one[:1], 0.0)])


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
