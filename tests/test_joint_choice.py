"""What `KernelLowRank` chooses by itself, and when it does nothing."""

from dataclasses import replace

import numpy as np
import pytest

import kernmend
from kernmend import KernelLowRank, NothingMendedWarning
from kernmend.datasets import make_circle, make_cubic_surface, make_surface
from kernmend.datasets.corruption import uniform_outliers
from kernmend.detect import Detector
from kernmend.linalg.coordinates import Span
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.errors import EntryError, KernelError
from kernmend.model.kernels import RBF, Polynomial
from kernmend.model.tuning import pulls
from kernmend.repair import joint_choice, joint_hidden, joint_plan, joint_trial
from kernmend.repair.calibrate import HELD_OUT
from kernmend.repair.completion import wide_gamma
from kernmend.repair.joint import ENTRIES_WIDTH, Problem, schatten_lam, solve_nuclear, solve_schatten
from kernmend.repair.joint_choice import (
    choose,
    path_cost,
    polynomial_kernels,
    rbf_kernels,
)
from kernmend.repair.joint_entries import PAIRS, find_entries
from kernmend.repair.joint_hidden import column_units, cost_of_hidden
from kernmend.repair.joint_trial import START, Trial, inject, mend_first, start_of
from kernmend.repair.mender import Mender, Settings


def circle(seed=0, n=80):
    surface = make_circle(n, random_state=seed)
    X, _ = uniform_outliers(surface.X, 0.1, random_state=seed + 1)
    return surface, X, surface.distance(X) > 0.1


def wide(seed=0, n=40, d=100):
    """Rows near a plane in many dimensions, a tenth of them with noise."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))
    X, bad = truth.copy(), np.arange(n) < n // 10
    X[bad] += 2.0 * rng.standard_normal((int(bad.sum()), d))
    return truth, X, bad


@pytest.fixture(scope="module")
def mended():
    surface, X, bad = circle()
    return surface, X, bad, KernelLowRank(max_iter=1000).fit(X)


def test_outliers_of_a_circle_return_to_it(mended):
    surface, X, bad, est = mended
    assert surface.distance(est.recovered_[bad]).mean() < 0.05 * surface.distance(X[bad]).mean()
    assert np.linalg.norm((est.recovered_ - X)[~bad], axis=1).mean() < 0.02
    assert est.choice_cost_ < 0.3


def test_a_fit_does_not_return_outliers_that_a_trial_brings_back_to_where_they_were():
    surface = make_circle(80, random_state=4)
    X, _ = uniform_outliers(surface.X, 0.1, low=-1.5, high=1.5, random_state=104)
    bad = surface.distance(X) > 0.1
    est = KernelLowRank().fit(X)
    left = surface.distance(est.recovered_[bad]).mean() / surface.distance(X[bad]).mean()
    assert left < 0.1  # 0.4 from two thirds of the way


def test_outliers_of_a_sphere_are_mended_as_rows():
    """One of three entries changed brings them back to it, far from where they were: all stayed."""
    surface = make_surface("sphere", random_state=73)
    X, _ = uniform_outliers(surface.X, 0.1, random_state=173)
    bad = surface.distance(X) > 0.1
    A = KernelLowRank(tol=1e-4).fit(X).recovered_
    assert surface.distance(A[bad]).mean() < 0.1 * surface.distance(X[bad]).mean()


def test_summary_and_report_say_how_it_was_chosen(mended):
    _, _, _, est = mended
    assert "How it was chosen: the best of" in est.summary()
    assert f"leaves {100 * est.choice_cost_:.0f} % of what doing nothing leaves" in est.summary()
    facts = {fact["name"]: fact["why"] for fact in est.report_data()["parameters"]}
    assert "settings on injected errors" in facts["gamma"]
    assert "coef0" not in facts  # of another kernel: nothing was chosen of it


@pytest.mark.parametrize("error", ["kernel", "rows", "entries", "auto"])
def test_clean_data_comes_back_bit_for_bit_with_a_warning(error, tmp_path):
    X = make_circle(60, random_state=3).X
    with pytest.warns(NothingMendedWarning, match="nothing was mended: no"):
        est = KernelLowRank(error=error).fit(X)
    np.testing.assert_array_equal(est.recovered_, X)
    assert not est.outliers_.any()
    assert (est.lam_, est.rho_) == (None, None)
    assert "Nothing was mended: no" in est.summary()
    assert "nothing was mended: no" in str(est.report_data()["parameters"])
    new = X[:5] + 0.3
    loaded = kernmend.load(est.save(tmp_path / "model"))
    for each in (est, loaded):
        np.testing.assert_array_equal(each.transform(new), new)
        assert (each.predict(new) == 1).all()


@pytest.mark.parametrize(
    "given", [{"gamma": 0.7}, {"lam": 0.2}, {"rho": 1e4}, {"kernel": "poly", "coef0": 0.5}], ids=str
)
@pytest.mark.filterwarnings("ignore::kernmend.NothingMendedWarning")
def test_what_is_given_stays(given):
    est = KernelLowRank(tol=1e-3, **given).fit(circle()[1])
    for name in given.keys() - {"kernel"}:
        assert getattr(est, f"{name}_") == given[name] or est.lam_ is None


def test_a_wide_matrix_is_mended_and_its_good_rows_stay():
    truth, X, _ = wide()
    est = KernelLowRank(tol=1e-4).fit(X)
    assert np.sum((est.recovered_ - truth) ** 2) < 0.3 * np.sum((X - truth) ** 2)


@pytest.mark.parametrize("kernel", [RBF(1e-3), Polynomial(2, 50.0)], ids=repr)
def test_coordinates_of_the_span_change_nothing_but_time(kernel, monkeypatch):
    _, X, _ = wide()
    problem = Problem.of(X, kernel, KernelError)
    budget = {"rho": 1e2 if isinstance(kernel, RBF) else 1e-6, "lam": 0.7, "max_iter": 30, "tol": 0.0}
    assert problem.span() is not None
    within = solve_nuclear(problem, **budget)
    monkeypatch.setattr(Span, "of", lambda L: None)
    without = solve_nuclear(problem, **budget)
    assert within.objective[-1] < within.objective[0]
    np.testing.assert_allclose(within.objective, without.objective, rtol=1e-6)


def test_a_start_outside_of_the_span_is_kept():
    _, X, _ = wide()
    start = X + np.random.default_rng(1).standard_normal(X.shape)
    problem = Problem.of(X, RBF(1e-3), KernelError)
    first = solve_nuclear(problem, rho=10.0, lam=0.5, init=start, max_iter=1)
    direct = KernelLowRank(gamma=1e-3, rho=10.0, lam=0.5, init=start, bounds=(-1e9, 1e9), max_iter=1)
    with pytest.warns(UserWarning, match="not converged"):
        assert direct.fit(X).objective_[0] == pytest.approx(first.objective[0])


@pytest.mark.parametrize("make", [circle, wide])
def test_doing_nothing_costs_one_and_the_truth_of_injected_rows_nothing(make):
    X = make()[1]
    detector, found = Detector.fit(X)
    trial = Trial.of(X, found.rows, detector, 0)
    assert trial.untouched > 0
    assert trial.left(trial.rows) == trial.untouched
    if trial.near is None:
        assert trial.left(trial.truth) == 0.0
    np.testing.assert_array_equal(trial.rows[~trial.wrong], trial.truth[~trial.wrong])


def test_the_choice_is_the_best_of_what_was_tried_and_the_same_again():
    X = wide()[1]
    first, again = (choose(X, kernels=rbf_kernels(X), errors=[KernelError], seed=3) for _ in range(2))
    assert first.cost <= 1.05 * min(first.tried.values())
    assert (first.rho, first.lam, first.kernel, first.cost) == (again.rho, again.lam, again.kernel, again.cost)


def test_where_no_setting_is_worth_it_the_reason_has_the_cost_of_the_best(monkeypatch):
    X = wide()[1]
    kept = KernelLowRank(tol=1e-4).fit(X)
    monkeypatch.setattr(joint_choice, "WORTH", 0.5 * kept.choice_cost_)
    with pytest.warns(NothingMendedWarning):
        est = KernelLowRank(tol=1e-4).fit(X)
    np.testing.assert_array_equal(est.recovered_, X)
    assert (est.choice_cost_, est.lam_, est.rho_) == (kept.choice_cost_, None, None)
    assert f"leaves {100 * est.choice_cost_:.0f} %" in est.summary()
    facts = {fact["name"]: fact["why"] for fact in est.report_data()["parameters"]}
    assert f"leaves {100 * est.choice_cost_:.0f} %" in facts["gamma"]


def test_lam_follows_the_pulls_on_good_rows_where_there_are_more_than_in_a_trial():
    truth, X, bad = wide(n=500)
    choice = choose(X, kernels=rbf_kernels(X), errors=[KernelError])
    np.testing.assert_array_equal(choice.flags, bad)
    f = np.minimum(pulls(*eigenpairs(choice.kernel.gram(X)), choice.rho), 1.0)
    assert np.median(f[~bad]) < choice.lam < np.median(f[bad])
    assert choice.lam == pytest.approx(np.sqrt(np.median(f[~bad]) * np.median(f[bad])))
    assert choice.lam < min(setting.force for setting in choice.tried)
    assert "midway between the pulls" in choice.reason
    given = {"kernel": choice.kernel, "rho": choice.rho, "init": choice.opening.start(X, bad), "tol": 1e-4}
    left = {lam: np.sum((KernelLowRank(lam=lam, **given).fit(X).recovered_ - truth) ** 2) for lam in (choice.lam, 0.97)}
    assert left[choice.lam] < 0.06 * np.sum((X - truth) ** 2)
    assert left[0.97] > 2 * left[choice.lam]  # that of the trial


@pytest.fixture(scope="module")
def covered():
    """Rows near a plane, a tenth of them with a block of wrong entries, and the model with errors of entries."""
    truth = wide()[0]
    X, block = truth.copy(), np.zeros(truth.shape, dtype=bool)
    for row in range(4):
        block[row, 20 * row : 20 * row + 12] = True
    X[block] = 8.0
    return truth, X, block, KernelLowRank(error="auto", tol=1e-4).fit(X)


def test_wrong_entries_are_filled_in_and_the_others_of_their_rows_stay(covered):
    truth, X, block, est = covered
    assert est.error_ == "entries"
    assert "wrong entries filled in before" in est.reason_
    assert np.sum((est.recovered_ - truth) ** 2) < 0.02 * np.sum((X - truth) ** 2)
    assert est.entry_outliers_[block].mean() > 0.95
    assert est.entry_outliers_[~block].mean() < 0.02
    np.testing.assert_array_equal(np.flatnonzero(est.outliers_), np.arange(4))


def test_new_rows_with_wrong_entries_are_mended_after_saving_too(covered, tmp_path):
    truth, X, block, est = covered
    loaded = kernmend.load(est.save(tmp_path / "model"))
    for each in (est, loaded):
        A = each.transform(X[:6])
        assert np.sum((A - truth[:6]) ** 2) < 0.1 * np.sum((X - truth)[:6] ** 2)
        assert np.abs(A - X[:6])[~block[:6]].max() < 0.5


def test_polynomial_kernels_of_a_fractional_degree_are_defined_on_the_rows():
    X = np.random.default_rng(0).standard_normal((20, 3))
    for kernel in polynomial_kernels(X, 1.5):
        kernel.check(X)


def test_entries_of_a_surface_can_be_told_and_those_of_noise_cannot():
    truth = make_cubic_surface(80, 10, random_state=1)
    noise = np.random.default_rng(0).standard_normal((80, 10))
    costs = [path_cost(X, RBF(0.2 / np.median(np.sum((X[1:] - X[:-1]) ** 2, axis=1))), EntryError, None, 0)
             for X in (truth, noise)]  # fmt: skip
    assert costs[0] < 0.2
    assert costs[1] > 0.6


def path(X):
    """Return the problem of rows, what the Schatten path makes of it, and its lam."""
    problem, lam = Problem.of(X, RBF(wide_gamma(X, ENTRIES_WIDTH)), EntryError), schatten_lam(X, EntryError)
    return problem, solve_schatten(problem, lam=lam, round_iter=30, max_iter=150, tol=1e-5).A, lam


def test_hidden_entries_are_predicted_well_where_the_others_are_grossly_wrong(monkeypatch):
    rng = np.random.default_rng(3)
    truth = make_cubic_surface(100, 20, random_state=3)
    wrong = truth + (rng.random(truth.shape) < 0.3) * rng.standard_normal(truth.shape)
    plane = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 6)) + 0.3 * rng.standard_normal((100, 6))
    wrong[rng.random(wrong.shape) < 0.03] = np.nan
    monkeypatch.setattr(joint_hidden, "PATH_ROWS", 90)
    monkeypatch.setattr(joint_hidden, "HIDDEN_ITERATIONS", 30)
    costs = []
    for X in (wrong, plane):
        problem, A, lam = path(X)
        costs.append(cost_of_hidden(problem, A, joint_plan.replaced_entries(X, A), lam, 0))
    assert costs[0] < 0.5 * joint_plan.TOLD
    assert costs[1] > joint_plan.TOLD
    assert cost_of_hidden(problem, A, np.zeros(A.shape, dtype=bool), lam, 0) == np.inf


def test_units_of_columns():
    X = np.column_stack([np.arange(7.0), 100.0 * np.arange(7.0), np.ones(7)])
    X[0, 0] = np.nan
    np.testing.assert_allclose(column_units(X), [1.5 + 1.0 / 3.0, 200.0, 1.0])


@pytest.mark.parametrize(("make", "share"), [(circle, 1.0), (wide, START)])
def test_wrong_rows_start_on_their_way_to_where_they_are_mended_once(make, share, monkeypatch):
    X = make()[1]
    detector, found = Detector.fit(X)
    trial = Trial.of(X, found.rows, detector, 0)
    mender, wrong = Mender(X[~found.rows]), X[found.rows]
    moved, mended = (each(mender, wrong, trial.first) - wrong for each in (start_of, mend_first))
    np.testing.assert_allclose(moved, share * mended, atol=1e-12)
    assert np.linalg.norm(mended) > 0
    monkeypatch.setattr(joint_trial, "MANY_ROWS", len(X) - 1)
    np.testing.assert_array_equal(start_of(mender, wrong, trial.first) - wrong, mended)


def test_the_path_of_many_rows_has_to_be_asked_for(monkeypatch):
    X = make_cubic_surface(80, 10, random_state=0)
    auto, asked = (
        joint_plan.Planner("rbf", "auto", 2.0, "auto", "auto", "auto", "entries", penalty, False, 0)
        for penalty in ("auto", "schatten")
    )
    assert not auto._path(X, None).nothing
    monkeypatch.setattr(joint_plan, "PATH_ROWS", 79)
    plan = auto._path(X, None)
    assert plan.nothing
    assert "too many rows" in plan.reason
    assert not asked._path(X, None).nothing


def test_the_path_of_columns_of_amounts_has_to_be_asked_for():
    """Most entries of wages and sales in units of their own changed, to five times the error of doing nothing."""
    X = make_cubic_surface(80, 10, random_state=0)
    X[:, 0] = np.exp(2.0 * np.random.default_rng(0).standard_normal(80))
    auto, asked = (
        joint_plan.Planner("rbf", "auto", 2.0, "auto", "auto", "auto", "entries", penalty, False, 0)
        for penalty in ("auto", "schatten")
    )
    assert "amounts" in auto._path(X, None).reason
    assert "amounts" not in asked._path(X, None).reason


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize(("n", "d", "seed"), [(100, 20, 72), (100, 20, 11), (80, 10, 11), (100, 6, 12)])
def test_a_clean_surface_comes_back_bit_for_bit_with_errors_of_entries(n, d, seed, kernel):
    X = make_cubic_surface(n, d, random_state=seed)
    with pytest.warns(NothingMendedWarning):
        np.testing.assert_array_equal(KernelLowRank(error="entries", kernel=kernel).fit_transform(X), X)


@pytest.mark.parametrize(
    ("share", "left", "shape"), [(0.02, 0.5, (80, 10)), (0.3, 0.5, (80, 10)), (0.5, 0.4, (100, 20))]
)
def test_few_and_many_wrong_entries_of_a_surface_are_mended(share, left, shape):
    """Half of 80 x 10 was mended too, by a fifth; hidden entries do not tell it from a clean table any more."""
    truth = make_cubic_surface(*shape, random_state=13)
    rng = np.random.default_rng(113)
    X = truth + (rng.random(truth.shape) < share) * rng.standard_normal(truth.shape)
    A = KernelLowRank(error="entries").fit_transform(X)
    assert np.linalg.norm(A - truth) < left * np.linalg.norm(X - truth)


def test_a_given_gram_needs_all_parameters():
    with pytest.raises(ValueError, match="a given gram needs a number for lam and rho and gamma"):
        KernelLowRank().fit(np.eye(4), gram=np.eye(4))


def test_an_interrupted_choice_changes_nothing(monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("kernmend.repair.joint_plan.choose", interrupt)
    X = circle()[1]
    with pytest.warns(UserWarning, match="interrupted") as told:
        est = KernelLowRank().fit(X)
    assert {warning.category for warning in told} == {UserWarning, NothingMendedWarning}
    assert est.stop_reason_ == "interrupted"
    np.testing.assert_array_equal(est.recovered_, X)


def covered_curves(seed=0):
    """Return smooth rows, a tenth of them with a third of their entries set to one value, and which rows these are."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(0.0, 1.0, 48)
    truth = np.sin(2.0 * np.pi * (grid + rng.random((150, 1)))) * rng.uniform(0.5, 1.0, (150, 1))
    X, bad = truth.copy(), np.arange(150) < 15
    for row in np.flatnonzero(bad):
        begin = rng.integers(32)
        X[row, begin : begin + 8] = 1.5
    return truth, X, bad


def test_wrong_entries_are_injected_as_they_are_and_errors_of_rows_are_added():
    held, donors = np.zeros((2, 3)) + 5.0, np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mended = donors + np.array([[0.0, 1.0, 0.0], [-2.0, 0.0, 0.0]])
    np.testing.assert_array_equal(inject(held, donors, mended, by_entry=True), [[5.0, 2.0, 5.0], [4.0, 5.0, 5.0]])
    np.testing.assert_array_equal(inject(held, donors, mended, by_entry=False), [[5.0, 4.0, 5.0], [7.0, 5.0, 5.0]])


def test_covered_rows_are_injected_within_the_range_of_the_data_and_mended_against_all_good_rows():
    _, X, _ = covered_curves()
    detector, found = Detector.fit(X)
    trial = Trial.of(X, found.rows, detector, 0)
    assert trial.first.error.by_entry
    wrong = trial.rows[trial.wrong]
    assert (wrong != trial.truth[trial.wrong]).any(axis=1).all()
    assert wrong.max() <= X.max()  # the cover, not the cover on top of a row
    assert len(trial.mender.L) + len(wrong) >= len(trial.rows)
    others = {row.tobytes() for row in trial.mender.L}
    assert all(row.tobytes() in others for row in trial.rows[~trial.wrong])
    assert not any(row.tobytes() in others for row in trial.truth[trial.wrong])


def test_what_counts_as_changed_is_the_best_of_all_pairs_against_the_good_rows():
    truth, X, bad = covered_curves(1)
    first = Settings(RBF(0.1 / np.median(np.sum((X[1:] - X[:-1]) ** 2, axis=1))), 1e-6, EntryError, 1.0)
    mender = Mender(truth[~bad])

    def left(A):
        return float(np.sum((A - truth[bad]) ** 2))

    settings, filled = find_entries(mender, X[bad], first, left)
    costs = {
        (refit, grow): left(mend_first(mender, X[bad], replace(first, refit=refit, grow=grow))) for refit, grow in PAIRS
    }
    assert costs[settings.refit, settings.grow] == pytest.approx(min(costs.values()))
    assert left(filled) == pytest.approx(min(costs.values()))


def test_what_counts_as_changed_is_chosen_on_all_rows_that_were_held_out(monkeypatch):
    _, X, _ = covered_curves()
    detector, found = Detector.fit(X)
    trial = Trial.of(X, found.rows, detector, 0)
    count = int(trial.wrong.sum())
    assert len(trial.injected) == len(trial.held) == int(HELD_OUT * (~found.rows).sum()) > count
    np.testing.assert_array_equal(trial.injected[:count], trial.rows[trial.wrong])
    np.testing.assert_array_equal(trial.held[:count], trial.truth[trial.wrong])
    seen = []

    def spy(mender, rows, first, left):
        seen.append((rows, left(trial.held)))
        return find_entries(mender, rows, first, left)

    monkeypatch.setattr(joint_choice, "find_entries", spy)
    settings, rows = joint_choice.Search(trial, tuple(rbf_kernels(X)), None, None).entries
    np.testing.assert_array_equal(seen[0][0], trial.injected)
    assert seen[0][1] == 0.0
    np.testing.assert_array_equal(rows[~trial.wrong], trial.rows[~trial.wrong])
    np.testing.assert_array_equal(rows[trial.wrong], mend_first(trial.mender, trial.injected, settings)[:count])
