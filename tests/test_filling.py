"""Missing entries of any number of rows: few are completed together, the others one by one against those."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from kernmend import KernelRecovery
from kernmend.datasets import make_cubic_surface
from kernmend.linalg.cholesky import log_det_and_inverse
from kernmend.linalg.eigen import TopEigenpairs, eigenpairs
from kernmend.model.kernels import RBF
from kernmend.model.penalties import LogDetPenalty
from kernmend.repair import completion
from kernmend.repair.completion import Filler, fill_from, fill_missing, fill_table, fill_without
from kernmend.solvers.reference import Others, Reference


def with_holes(n, d, share, seed=0):
    truth = make_cubic_surface(n, d, random_state=seed)
    holes = np.random.default_rng(seed).random(truth.shape) < share
    holes[holes.all(axis=1), 0] = False
    return truth, holes, np.where(holes, np.nan, truth)


def relative(A, truth):
    return np.linalg.norm(A - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize("n", [1, 9, 64, 65, 150])
def test_log_det_and_inverse_against_numpy(n):
    K = RBF(0.5).gram(np.random.default_rng(0).standard_normal((n, 3)))
    value, inverse = log_det_and_inverse(K, 0.1)
    assert value == pytest.approx(np.linalg.slogdet(K + 0.1 * np.eye(n))[1])
    np.testing.assert_allclose(inverse, np.linalg.inv(K + 0.1 * np.eye(n)), atol=1e-10)
    assert log_det_and_inverse(-K, 0.1)[0] == np.inf


def test_penalty_is_never_negative_falls_with_eps_and_has_its_gradient():
    K = RBF(0.5).gram(np.random.default_rng(0).standard_normal((5, 3)))
    wide, narrow = (LogDetPenalty(eps, 1e-3).evaluate(K, TopEigenpairs()) for eps in (1e-1, 1e-3))
    assert wide.low_rank > narrow.low_rank > 0

    def value(entries):
        return LogDetPenalty(1e-1, 1e-3).evaluate(entries.reshape(5, 5), TopEigenpairs()).low_rank

    numeric = approx_fprime(K.ravel(), lambda k: value((k.reshape(5, 5) + k.reshape(5, 5).T).ravel() / 2), 1e-7)
    np.testing.assert_allclose(wide.gradient.ravel(), numeric, atol=1e-4)
    with pytest.raises(ValueError, match="eps must be"):
        LogDetPenalty(1e-4, 1e-3)


def test_the_objective_of_a_row_is_that_of_all_rows_but_for_a_constant():
    """log det(K + eps I) = log det of the others' + log(dist2(a) + eps)."""
    L = np.random.default_rng(0).standard_normal((12, 3))
    kernel, eps = RBF(0.3), 1e-3
    reference = Reference.with_ridge(kernel, L, *eigenpairs(kernel.gram(L)), eps, 0.0)
    others = log_det_and_inverse(kernel.gram(L), eps)[0]
    for row in np.random.default_rng(1).standard_normal((4, 1, 3)):
        both = log_det_and_inverse(kernel.gram(np.vstack([L, row])), eps)[0]
        dist2, gradient = reference.squared_rows(row)
        assert both - others == pytest.approx(np.log(dist2[0] + eps), abs=1e-9)
        numeric = approx_fprime(row[0], lambda a: reference.squared_rows(a[np.newaxis])[0][0], 1e-7)
        np.testing.assert_allclose(gradient[0], numeric, atol=1e-5)


def test_fill_from_is_the_mean_of_the_nearest_rows():
    L = with_holes(40, 6, 0.0)[0]
    X = with_holes(15, 6, 0.4, seed=1)[2]
    one_by_one = [fill_missing(np.vstack([L, row]))[-1] for row in X]
    np.testing.assert_allclose(fill_from(L, X), one_by_one, atol=1e-12)


def test_the_first_step_of_filling_is_the_standard_error_of_the_start(monkeypatch):
    """That of the mean of the nearest rows in the missing entries; where these are equal, not quite nothing."""
    L = np.array([[0.0, 1.0], [0.1, 2.0], [9.0, 5.0], [9.1, 5.0]])
    steps = []

    def keep(reference, A, free, *, scale, **budget):
        steps.append(scale)
        return A

    monkeypatch.setattr(completion, "move_into_span", keep)
    monkeypatch.setattr(completion, "N_NEIGHBORS", 2)
    Filler(L, scale=4.0).fill(np.array([[0.0, np.nan], [9.0, np.nan]]))
    np.testing.assert_allclose(steps[0], [np.std([1.0, 2.0]) / np.sqrt(2), 4.0 * completion.LEAST_STEP])


def not_definite(K):
    raise np.linalg.LinAlgError


@pytest.mark.parametrize("factor", [np.linalg.cholesky, not_definite])
@pytest.mark.parametrize("ridge", [1e-2, 1e-4])
def test_the_span_of_the_others_is_that_without_the_row(ridge, factor, monkeypatch):
    monkeypatch.setattr(np.linalg, "cholesky", factor)
    L = make_cubic_surface(30, 6, random_state=0)
    kernel, A, left_out = RBF(0.05), L[:8] + 0.1, np.array([0, 1, 2, 3, 9, 9, 20, 29])
    others = Others.of(kernel, L, ridge, left_out)
    dist2, gradient = others.squared_values(A)
    slopes = gradient(slice(None))
    for i, without in enumerate(left_out):
        rest = np.delete(L, without, axis=0)
        reference = Reference.with_ridge(kernel, rest, *eigenpairs(kernel.gram(rest)), ridge, 0.0)
        value, slope = reference.squared_rows(A[[i]])
        np.testing.assert_allclose(dist2[i], value[0], rtol=1e-6)
        np.testing.assert_allclose(slopes[i], slope[0], rtol=1e-5, atol=1e-8)
        np.testing.assert_allclose(others.rows(np.array([i])).squared_values(A[[i]])[0][0], dist2[i])


@pytest.mark.parametrize("size", [1e-6, 1e-8])
def test_rows_that_hardly_differ_beside_their_rounding_are_filled_in(size):
    rng = np.random.default_rng(0)
    L = np.where(np.arange(60) % 2, 5.0, -5.0)[:, np.newaxis] + size * rng.standard_normal((60, 8))
    kernel = RBF(completion.COMPLETION_WIDTH / (4.0 * size) ** 2)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(kernel.gram(L) + completion.EPS * np.eye(60))  # by rounding: distances are of |x| = 5
    X = np.where(np.arange(8) == 3, np.nan, L[:10])
    filled = fill_without(L, 4.0 * size, X, np.arange(10))
    np.testing.assert_allclose(filled, L[:10], atol=10.0 * size)


def test_a_row_is_filled_in_without_itself():
    """As if the row were not among the others: what it was before entries were hidden must not be seen."""
    truth = make_cubic_surface(80, 6, random_state=0)
    rng = np.random.default_rng(0)
    X = np.where(rng.random((20, truth.shape[1])) < 0.1, np.nan, truth[:20])
    scale = Filler.against(truth).scale
    filled = fill_without(truth, scale, X, np.arange(20))
    alone = np.vstack([Filler(np.delete(truth, i, axis=0), scale).fill(X[[i]]) for i in range(20)])
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    np.testing.assert_allclose(filled, alone, atol=0.02 * truth.std())


@pytest.mark.parametrize(("share", "better"), [(0.02, 0.3), (0.3, 0.3)])
def test_more_rows_than_are_completed_together(monkeypatch, share, better):
    """With few holes there are complete rows to begin with; with many every row has one."""
    monkeypatch.setattr(completion, "TOGETHER", 120)
    truth, holes, X = with_holes(400, 12, share)
    assert (share < 0.1) == ((~holes.any(axis=1)).sum() >= completion.ENOUGH)
    A, interrupted = fill_table(X)
    assert not interrupted
    np.testing.assert_array_equal(A[~holes], truth[~holes])
    assert relative(A[holes], truth[holes]) < better * relative(fill_missing(X)[holes], truth[holes])


def test_rows_are_completed_together_where_complete_ones_are_too_few_to_fill_in_others(monkeypatch):
    """On four curved surfaces at once the error falls fast with the number of rows."""
    rng = np.random.default_rng(0)
    truth = np.vstack([make_cubic_surface(60, 12, random_state=seed) for seed in range(4)])
    holes = rng.random(truth.shape) < 0.08
    X = np.where(holes, np.nan, truth)
    calls = completed_together(monkeypatch)
    together = fill_table(X)
    assert calls == [240]
    monkeypatch.setattr(completion, "WORTH_IT", 0.0)
    in_batches = fill_table(X)
    assert calls == [240]
    assert relative(together.A[holes], truth[holes]) < 0.5 * relative(in_batches.A[holes], truth[holes])


def test_noisy_rows_are_filled_in_against_the_complete_ones(monkeypatch):
    """More rows would not make out what noise hides."""
    truth, _, X = with_holes(900, 8, 0.25)
    noise = 0.1 * truth.std() * np.random.default_rng(1).standard_normal(truth.shape)
    calls = completed_together(monkeypatch)
    fill_table(X + noise)
    assert not calls


def completed_together(monkeypatch):
    """Return a list that gets the number of the rows whenever some are completed together."""
    calls, complete = [], completion.complete

    def counted(X, **options):
        calls.append(len(X))
        return complete(X, **options)

    monkeypatch.setattr(completion, "complete", counted)
    return calls


def test_rows_that_others_are_filled_in_against_are_filled_in_against_all_of_them(monkeypatch):
    """The first rows with holes have only the complete ones before them: a second time they have all others."""
    truth = make_cubic_surface(300, 12, random_state=0)
    rng = np.random.default_rng(0)
    truth = truth + 0.02 * truth.std() * rng.standard_normal(truth.shape)
    holes = rng.random(truth.shape) < 0.12
    X = np.where(holes, np.nan, truth)
    assert completion.ENOUGH <= (~holes.any(axis=1)).sum() < 100
    calls = completed_together(monkeypatch)
    A = fill_table(X).A
    some = np.flatnonzero(holes.any(axis=1))
    scale = float(np.sqrt(completion.median_observed_squared_distance(X)))
    again = fill_without(A, scale, X[some], some)  # from the nearest rows: where it begins hardly matters
    assert relative(A[some], again) < 0.02
    np.testing.assert_array_equal(A[~holes], truth[~holes])
    monkeypatch.setattr(completion, "fill_without", lambda L, scale, X, left_out, *, start: start)
    monkeypatch.setattr(completion, "_are_enough", lambda L, others: True)
    once = fill_table(X).A
    assert relative(A[holes], truth[holes]) < 0.95 * relative(once[holes], truth[holes])
    assert not calls


def test_one_row_more_changes_little():
    truth, holes, X = with_holes(301, 8, 0.02)
    most, all_rows = fill_table(X[:-1])[0], fill_table(X)[0]
    assert relative(all_rows[:-1], most) < 1e-3
    assert relative(all_rows[holes], truth[holes]) < 0.1


def test_a_row_does_not_depend_on_the_others_of_its_batch(monkeypatch):
    L = with_holes(200, 8, 0.0)[0]
    X = with_holes(60, 8, 0.2, seed=1)[2]
    filler = Filler.against(L)
    whole = filler.fill(X)
    monkeypatch.setattr(completion, "BLOCK", 7)
    np.testing.assert_allclose(filler.fill(X), whole, atol=1e-5)
    monkeypatch.setattr(completion, "TOGETHER", 50)
    assert len(Filler.against(L).L) == 50


def test_new_rows_are_filled_in_as_those_of_the_fit():
    truth, holes, X = with_holes(300, 8, 0.05)
    est = KernelRecovery(contamination=0.0).fit(X[:200])
    filled = est.transform(X[200:])
    missing = holes[200:]
    np.testing.assert_array_equal(filled[~missing], truth[200:][~missing])
    assert relative(filled[missing], truth[200:][missing]) < 0.1


@pytest.mark.parametrize("part", ["together", "one by one"])
def test_ctrl_c_fills_the_rest_from_the_nearest_rows(monkeypatch, part):
    monkeypatch.setattr(completion, "TOGETHER", 100)
    truth, holes, X = with_holes(260, 8, 0.02 if part == "one by one" else 0.4)

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(completion, "move_into_span", stop)
    if part == "together":
        monkeypatch.setattr("kernmend.repair.completion.LogDetPenalty.evaluate", stop_after(3))
    A, interrupted = fill_table(X)
    assert interrupted
    assert np.isfinite(A).all()
    np.testing.assert_array_equal(A[~holes], truth[~holes])


def stop_after(n):
    """Return an evaluation that Ctrl-C ends when it is called for the n-th time."""
    evaluate, calls = LogDetPenalty.evaluate, []

    def evaluation(self, K, eigen):
        calls.append(None)
        if len(calls) > n:
            raise KeyboardInterrupt
        return evaluate(self, K, eigen)

    return evaluation


def test_progress_counts_all_rows(monkeypatch):
    from contextlib import contextmanager

    monkeypatch.setattr(completion, "BLOCK", 50)
    seen = []

    @contextmanager
    def counting(description, total, label):
        assert (description, total, label) == ("filling in", 300, "")
        yield lambda done, share: seen.append((done, share))

    fill_table(with_holes(300, 6, 0.05)[2], counting=counting)
    assert seen == sorted(seen, key=lambda each: each[0])
    assert 0 < seen[-1][0] <= 300
