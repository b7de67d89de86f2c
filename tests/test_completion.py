"""Missing entries: distances, start values, and what the Schatten path makes of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.impute import KNNImputer
from sklearn.metrics.pairwise import nan_euclidean_distances

from kernmend import KernelLowRank
from kernmend._validation import check_missing
from kernmend.linalg.distances import (
    median_observed_squared_distance,
    median_squared_distance,
    observed_squared_distances,
    squared_distances,
)
from kernmend.model.errors import RowError
from kernmend.model.kernels import RBF, Polynomial
from kernmend.model.objective import Objective
from kernmend.model.penalties import NuclearPenalty, SchattenPenalty
from kernmend.repair.completion import complete, fill_missing, wide_gamma
from kernmend.repair.joint import entry_lam, schatten_stages

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(2, 8)


def with_holes(seed, n, d, share=0.3):
    """Every row and every column keeps a value."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    holes = rng.random((n, d)) < share
    holes[np.arange(max(n, d)) % n, np.arange(max(n, d)) % d] = False
    X[holes] = np.nan
    return X


@given(seed=seeds, n=sizes, d=sizes, share=st.sampled_from([0.0, 0.3, 0.7]), offset=st.sampled_from([0.0, 1e4]))
def test_distances_against_scikit_learn(seed, n, d, share, offset):
    X = with_holes(seed, n, d, share) + offset
    expected = np.nan_to_num(nan_euclidean_distances(X - offset, squared=True), nan=np.inf)
    np.testing.assert_allclose(observed_squared_distances(X), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(observed_squared_distances(X[:2], X), expected[:2], rtol=1e-6, atol=1e-7)


def test_distances_without_holes_are_the_plain_ones():
    X = with_holes(0, 7, 3, share=0.0)
    np.testing.assert_allclose(observed_squared_distances(X), squared_distances(X), atol=1e-12)
    assert median_observed_squared_distance(X) == pytest.approx(median_squared_distance(X), rel=1e-12)


def test_median_distance_hardly_depends_on_the_holes():
    X = np.random.default_rng(0).standard_normal((200, 20))
    holes = np.random.default_rng(1).random(X.shape) < 0.5
    observed = median_observed_squared_distance(np.where(holes, np.nan, X))
    assert observed == pytest.approx(median_squared_distance(X), rel=0.1)
    assert median_observed_squared_distance(np.full((4, 2), 3.0)) == 0.0


@given(seed=seeds, n=st.integers(3, 12), d=sizes, k=st.integers(1, 6))
def test_fill_against_scikit_learn(seed, n, d, k):
    X = with_holes(seed, n, d)
    distances = observed_squared_distances(X)
    filled = fill_missing(X, n_neighbors=k)
    holes = np.isnan(X)
    np.testing.assert_array_equal(filled[~holes], X[~holes])
    assert np.isfinite(filled).all()
    comparable = [(i, j) for i, j in np.argwhere(holes) if np.isfinite(distances[i, ~holes[:, j]]).sum() >= k]
    expected = KNNImputer(n_neighbors=k).fit_transform(X)
    for i, j in comparable:
        assert filled[i, j] == pytest.approx(expected[i, j], abs=1e-9)


def test_median_where_no_row_can_be_compared():
    X = np.array([[1.0, np.nan], [np.nan, 2.0], [np.nan, 4.0], [np.nan, 9.0]])
    np.testing.assert_array_equal(fill_missing(X)[0], [1.0, 4.0])


def test_whole_rows_and_columns_are_named():
    X = np.ones((4, 3))
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match="nothing is observed in column 1: drop it, or give it at least one value"):
        check_missing(X)
    with pytest.raises(ValueError, match="nothing is observed in column 'height'"):
        check_missing(X, ["age", "height", "weight"])
    X = np.ones((9, 3))
    X[2:] = np.nan
    with pytest.raises(ValueError, match=r"rows 2, 3, 4, 5, 6 and 2 more: drop them, or give each at least one"):
        fill_missing(X)


def test_fill_in_blocks_is_the_same(monkeypatch):
    X = with_holes(3, 40, 6)
    whole = fill_missing(X)
    monkeypatch.setattr("kernmend.linalg.distances._BLOCK_ELEMENTS", 100)
    np.testing.assert_array_equal(fill_missing(X), whole)
    assert fill_missing(X.astype(np.float32)).dtype == np.float32


# --- the Schatten path ----------------------------------------------------------------------------------------------


def two_surfaces(share, seed=0, n=60, d=12):
    """Two curved surfaces, of full linear rank together, and a mask of holes."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(2):
        Z = rng.uniform(-1.0, 1.0, (n, 2))
        P1, P2, P3 = rng.standard_normal((3, d, 2))
        parts.append(Z @ P1.T + 0.5 * Z**2 @ P2.T + 0.5 * Z**3 @ P3.T)
    truth = np.vstack(parts)
    return truth, rng.random(truth.shape) < share


def relative(A, truth):
    return np.linalg.norm(A - truth) / np.linalg.norm(truth)


def never_rises(objective):
    return np.all(np.diff(objective) <= 1e-12 * np.abs(objective[:-1]))


@pytest.mark.parametrize("seed", [0, 1])
def test_completion_is_far_better_than_neighbours(seed):
    truth, holes = two_surfaces(0.3, seed)
    X = np.where(holes, np.nan, truth)
    result = complete(X)
    np.testing.assert_array_equal(result.A[~holes], truth[~holes])
    assert never_rises(result.objective)  # over all rounds: a smaller eps is a smaller objective
    neighbours = relative(fill_missing(X)[holes], truth[holes])
    assert relative(result.A[holes], truth[holes]) < 0.25 * neighbours


def test_completion_takes_no_eigendecomposition(monkeypatch):
    """A step takes a Cholesky factor: a decomposition of hundreds of rows in each takes three times as long."""
    truth, holes = two_surfaces(0.3)
    monkeypatch.setattr(np.linalg, "eigh", None)
    monkeypatch.setattr("kernmend.linalg.eigen.eigh", None)
    result = complete(np.where(holes, np.nan, truth))
    assert result.n_iter > 10
    assert relative(result.A[holes], truth[holes]) < 0.2


def test_completion_takes_any_kernel():
    truth, holes = two_surfaces(0.3)
    X = np.where(holes, np.nan, truth)
    kernel = Polynomial(2, 0.15 * median_observed_squared_distance(X))
    short = complete(X, kernel=kernel, max_iter=40)
    np.testing.assert_array_equal(short.A[~holes], truth[~holes])
    assert short.n_iter == 40
    exact = complete(X, kernel=kernel)
    assert relative(exact.A[holes], truth[holes]) < 0.02  # of exactly low rank in that kernel's space


def test_completion_of_complete_data_is_the_data():
    X = two_surfaces(0.0)[0]
    result = complete(X)
    np.testing.assert_array_equal(result.A, X)
    assert result.stop_reason == "converged"


@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_wrong_entries_are_mended_in_any_units(scale, missing):
    rng = np.random.default_rng(0)
    truth = two_surfaces(0.0)[0][:60]
    wrong = rng.random(truth.shape) < 0.1
    X = scale * np.where(wrong, truth + rng.standard_normal(truth.shape), truth)
    holes = rng.random(truth.shape) < missing
    est = KernelLowRank(error="entries").fit(np.where(holes, np.nan, X))
    assert never_rises(est.objective_)
    assert relative(est.recovered_ / scale, truth) < 0.35 * relative(X / scale, truth)


def test_rules_scale_with_the_data():
    X = with_holes(0, 30, 5)
    assert wide_gamma(10.0 * X, 0.2) == pytest.approx(wide_gamma(X, 0.2) / 100.0)
    assert entry_lam(10.0 * X) == pytest.approx(entry_lam(X) / 10.0)
    assert wide_gamma(np.ones((3, 2)), 0.2) == entry_lam(np.ones((3, 2))) == 1.0


def test_path_needs_its_penalty_and_counts_in_units():
    objective = Objective(RBF(1.0), SchattenPenalty(0.3), RowError(np.ones((3, 2)), 1.0), 0.0)
    last, stages = schatten_stages(objective, (1e-1, 1e-3), unit=2.0, round_iter=7)
    assert last.penalty == SchattenPenalty(0.3, 2e-3)
    assert [(stage.objective.penalty, stage.max_iter) for stage in stages] == [(SchattenPenalty(0.3, 0.2), 7)]
    with pytest.raises(TypeError, match="SchattenPenalty, not NuclearPenalty"):
        schatten_stages(replace(objective, penalty=NuclearPenalty(1.0)), (1e-1,))


def test_float32_comes_back_as_float32_with_the_accuracy_of_float64():
    truth, holes = two_surfaces(0.3)
    X = np.where(holes, np.nan, truth).astype(np.float32)
    A = complete(X, max_iter=60).A
    assert A.dtype == np.float32
    np.testing.assert_array_equal(A[~holes], X[~holes])
    np.testing.assert_allclose(A, complete(X.astype(np.float64), max_iter=60).A, atol=1e-6)
