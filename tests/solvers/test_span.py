"""Mending in coordinates of what the good rows span gives what mending in all features gives."""

import numpy as np
import pytest

from kernmend.linalg.coordinates import Span
from kernmend.model.errors import ERROR_MODELS, EntryError, RowError
from kernmend.model.kernels import RBF, Kernel, Linear, Polynomial
from kernmend.repair.mender import Mender, Settings


@pytest.fixture
def rows():
    """Twenty good rows on a curve in 60 features, far from the origin, and five wrong ones."""
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 2 * np.pi, 25)
    curve = np.column_stack([np.cos(t), np.sin(t), np.cos(2 * t)]) @ rng.standard_normal((3, 60)) + 7.0
    wrong = curve[20:] + rng.standard_normal((5, 60))
    return curve[:20], wrong


def in_all_features(mender, X, settings, **options):
    other = Mender(mender.L)
    other._span = None
    return other.mend_with_history(X, settings, **options)


@pytest.mark.parametrize("error", ["rows", "kernel"])
@pytest.mark.parametrize("kernel", [RBF(0.01), Polynomial(2, 1.0), Linear()])
def test_the_same_minimum(rows, kernel, error):
    L, X = rows
    mender, settings = Mender(L), Settings(kernel, 1e-4, ERROR_MODELS[error], 0.3)
    assert mender._within(X, settings, mender.start(X, settings.error), None) is not None
    A, totals, converged = mender.mend_with_history(X, settings, max_iter=300, tol=1e-10)
    expected, others, _ = in_all_features(mender, X, settings, max_iter=300, tol=1e-10)
    assert converged
    assert totals[0] == pytest.approx(others[0], rel=1e-6)
    assert totals[-1] == pytest.approx(others[-1], rel=1e-4)
    if isinstance(kernel, RBF):
        np.testing.assert_allclose(A, expected, atol=1e-2 * np.abs(X - expected).max())


def test_coordinates_keep_lengths_and_lead_back(rows):
    L, X = rows
    span = Span.of(L)
    within = span.enter(X, L[:5])
    everything = np.vstack([span.coordinates(L), within.start])
    np.testing.assert_allclose(everything @ everything.T, np.vstack([L, L[:5]]) @ np.vstack([L, L[:5]]).T, rtol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(within.X, axis=1), np.linalg.norm(X, axis=1))
    np.testing.assert_allclose(
        np.linalg.norm(within.X[:, np.newaxis] - span.coordinates(L), axis=2),
        np.linalg.norm(X[:, np.newaxis] - L, axis=2),
    )
    np.testing.assert_allclose(within.leave(within.X), X)
    np.testing.assert_allclose(within.leave(within.start), L[:5])


def test_rows_within_the_span_have_nothing_outside(rows):
    L, _ = rows
    within = Span.of(L).enter(L, L)
    np.testing.assert_allclose(within.X[:, -1], 0.0, atol=1e-10)
    np.testing.assert_allclose(within.leave(within.X), L)


def test_equal_and_dependent_rows(rows):
    L, X = rows
    L = np.vstack([L[:5], L[:5], 0.5 * (L[:1] + L[1:2])])
    span = Span.of(L)
    np.testing.assert_allclose(span.coordinates(L)[:, :-1] @ span.basis, L)
    np.testing.assert_allclose(span.enter(X, X).leave(span.enter(X, X).X), X)


def test_a_start_elsewhere_is_not_lost(rows):
    L, X = rows
    assert Span.of(L).enter(X, X + np.random.default_rng(1).standard_normal(X.shape)) is None


def test_where_there_is_nothing_to_gain(rows):
    assert Span.of(rows[0][:, :25]) is None


class Coordinatewise(RBF):
    """A kernel that is not the same when rows are turned."""

    turns = False


def test_only_where_no_single_feature_counts(rows):
    L, X = rows
    mender, plain = Mender(L), Settings(RBF(0.01), 1e-4, RowError, 0.3)
    start, free, holes = mender.start(X, RowError), np.ones(X.shape, dtype=bool), X.copy()
    free[0, 0], holes[0, 0] = False, np.nan
    assert mender._within(X, plain, start, None) is not None
    assert mender._within(X, plain, start, free) is None
    assert mender._within(holes, plain, start, None) is None
    assert mender._within(X, Settings(RBF(0.01), 1e-4, EntryError, 0.3), start, None) is None
    assert mender._within(X, Settings(Coordinatewise(0.01), 1e-4, RowError, 0.3), start, None) is None
    bounded = Mender(L, (L.min(axis=0), L.max(axis=0)))
    assert bounded._within(X, plain, start, None) is None


def test_kernels_that_turn_do(rows):
    L, X = rows
    Q = np.linalg.qr(np.random.default_rng(2).standard_normal((60, 60)))[0]
    for kernel in (RBF(0.01), Polynomial(2, 1.0), Linear()):
        assert kernel.turns
        np.testing.assert_allclose(kernel.gram(X @ Q, L @ Q), kernel.gram(X, L), rtol=1e-9)
    assert not Kernel.turns
