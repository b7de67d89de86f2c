import warnings

import numpy as np
import pytest
from cases import with_holes
from convex import cp, low_rank, solve, wrong_entries
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import laplacian
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernmend import GraphRobustPCA, RobustPCA
from kernmend.datasets import load_mnist
from kernmend.datasets.corruption import occlusion
from kernmend.datasets.metrics import snr
from kernmend.model.graphs import GraphTerm, TwoGraphs, neighbour_graph, normalised_laplacian
from kernmend.model.terms import EntryTerm
from kernmend.solvers import solve_fista

EXACT = {"tol": 1e-8, "max_iter": 50_000}


def tiny(seed=0, n=9, d=7):
    return wrong_entries(low_rank(n, d, 2, seed), 0.1, seed=seed + 1)[0]


def random_graph(n, seed):
    W = np.triu(np.random.default_rng(seed).random((n, n)), 1)
    W[W < 0.5] = 0.0
    return W + W.T


def smooth_data(n=80, d=20, seed=0):
    """Rows along a closed curve, so that neighbours are alike; 5 % of the entries wrong."""
    angle = np.sort(np.random.default_rng(seed).uniform(0, 2 * np.pi, n))
    truth = np.column_stack([np.cos((k % 3 + 1) * angle + k) for k in range(d)])
    X, wrong = wrong_entries(truth, 0.05, seed=seed + 1)
    return truth, X, wrong


def two_graphs_by_cvxpy(X, lam, weight, phi, feature_weight, psi):
    seen = np.isfinite(X)
    L = cp.Variable(X.shape)
    smooth = weight * _quadratic(L, phi) + feature_weight * _quadratic(L.T, psi)
    error = cp.sum(cp.abs(cp.multiply(seen.astype(float), L) - np.where(seen, X, 0.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accuracy = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
        value = cp.Problem(cp.Minimize(lam * error + smooth)).solve(solver=cp.CLARABEL, **accuracy)
    return float(value), L.value


def _quadratic(L, phi):
    """tr(L' phi L), as CVXPY can take it."""
    s, U = np.linalg.eigh(phi)
    return cp.sum_squares((U * np.sqrt(np.maximum(s, 0.0))).T @ L)


@parametrize_with_checks([GraphRobustPCA(penalty="graphs")])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# --- graphs ---------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 25), k=st.integers(1, 6))
def test_neighbour_graphs(seed, n, k):
    X = np.random.default_rng(seed).standard_normal((n, 3))
    W = neighbour_graph(X, k).toarray()
    np.testing.assert_array_equal(W, W.T)
    assert np.all(W >= 0)
    assert np.all(np.diag(W) == 0)
    joined = kneighbors_graph(X, min(k, n - 1)).toarray() > 0
    np.testing.assert_array_equal(W > 0, joined | joined.T)
    phi = normalised_laplacian(W).toarray()
    np.testing.assert_allclose(phi, laplacian(W, normed=True), atol=1e-12)
    s = np.linalg.eigvalsh(phi)
    assert s[0] > -1e-10
    assert s[-1] < 2 + 1e-10
    shifted, scaled = (neighbour_graph(Z, k).toarray() for Z in (X + 5.0, 1e3 * X))
    np.testing.assert_allclose(shifted, W, atol=1e-9)
    np.testing.assert_allclose(scaled, W, atol=1e-9)


def test_missing_entries_do_not_stop_the_graph():
    X = np.random.default_rng(0).standard_normal((30, 6))
    plain, holes = neighbour_graph(X, 4).toarray(), neighbour_graph(with_holes(X, 0.05), 4).toarray()
    assert np.mean((plain > 0) == (holes > 0)) > 0.9
    never = np.full((4, 2), np.nan)
    never[:2, 0], never[2:, 1] = [0.0, 1.0], [0.0, 1.0]  # two pairs without a common feature
    assert (neighbour_graph(never, 2).toarray() > 0).sum() == 4


@given(seed=st.integers(0, 2**32 - 1), t=st.floats(0.01, 10), weight=st.floats(0.01, 10))
def test_prox_of_the_graph_term(seed, t, weight):
    V = np.random.default_rng(seed).standard_normal((8, 3))
    phi = normalised_laplacian(random_graph(8, seed))
    A = GraphTerm(phi, weight).prox(V.copy(), t)
    np.testing.assert_allclose(
        A - V + 2.0 * t * weight * (phi @ A), 0.0, atol=1e-9
    )  # the gradient of what it minimises
    np.testing.assert_allclose(GraphTerm(phi, weight).value(A), weight * np.trace(A.T @ phi.toarray() @ A), rtol=1e-9)


def test_gradient_and_lipschitz_constant_of_two_graphs():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 8, 5))
    smooth = TwoGraphs(normalised_laplacian(random_graph(8, 1)), 0.7, normalised_laplacian(random_graph(5, 2)), 1.3)
    value, gradient = smooth(A)
    h = 1e-6
    numerical = np.zeros_like(A)
    for index in np.ndindex(A.shape):
        step = np.zeros_like(A)
        step[index] = h
        numerical[index] = (smooth(A + step)[0] - smooth(A - step)[0]) / (2 * h)
    np.testing.assert_allclose(gradient, numerical, atol=1e-6)
    assert value >= 0
    assert np.linalg.norm(gradient - smooth(B)[1]) <= smooth.lipschitz * np.linalg.norm(A - B)


# --- against CVXPY --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize(("lam", "gamma"), [(0.4, 0.1), (0.8, 0.5)])
def test_nuclear_form_against_cvxpy(seed, holes, lam, gamma):
    X = with_holes(tiny(seed), 0.1, seed) if holes else tiny(seed)
    W = random_graph(len(X), seed)
    est = GraphRobustPCA(lam=lam, gamma=gamma, **EXACT).fit(X, graph=W)
    phi = laplacian(W, normed=True)
    value, L = solve(X, lam, "entries", extra=lambda A: gamma * _quadratic(A, phi))
    assert est.objective_[-1] == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(est.recovered_, L, atol=1e-4)
    assert est.stop_reason_ == "converged"
    assert est.history_[-1].residual <= est.tol
    seen = np.isfinite(X)
    direct = (
        np.linalg.norm(est.recovered_, "nuc")
        + lam * np.abs(X - est.recovered_)[seen].sum()
        + gamma * np.trace(est.recovered_.T @ phi @ est.recovered_)
    )
    assert direct == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("weights", [(0.3, 0.4), (2.0, 1.0), (1.0, 0.0), (0.0, 1.0)])
def test_form_with_two_graphs_against_cvxpy(seed, holes, weights):
    X = with_holes(tiny(seed), 0.1, seed) if holes else tiny(seed)
    W, V = random_graph(X.shape[0], seed), random_graph(X.shape[1], seed + 7)
    gamma, feature_gamma = weights
    est = GraphRobustPCA(penalty="graphs", gamma=gamma, feature_gamma=feature_gamma, **EXACT)
    est.fit(X, graph=W, feature_graph=V)
    phi, psi = (laplacian(weights, normed=True) for weights in (W, V))
    value, L = two_graphs_by_cvxpy(X, 1.0, gamma, phi, feature_gamma, psi)
    assert est.objective_[-1] == pytest.approx(value, rel=1e-6)
    assert est.stop_reason_ == "converged"
    assert est.history_[-1].residual <= est.tol
    assert np.all(np.diff(est.objective_) <= 1e-12 * est.objective_[0])
    if min(weights) > 0 and not holes:  # else the minimum need not be a single point
        np.testing.assert_allclose(est.recovered_, L, atol=1e-4)


@pytest.mark.parametrize("lam", [0.2, 0.5])
@pytest.mark.parametrize("holes", [False, True])
def test_without_a_graph_it_is_robust_pca(lam, holes):
    truth = low_rank(40, 20, 2, 0)
    X = wrong_entries(truth)[0]
    X = with_holes(X) if holes else X
    options = {"lam": lam, "tol": 1e-8, "max_iter": 2000}
    np.testing.assert_allclose(
        GraphRobustPCA(gamma=0, **options).fit_transform(X), RobustPCA(**options).fit_transform(X), atol=1e-5
    )


def test_without_graphs_nothing_changes():
    X = tiny()
    est = GraphRobustPCA(penalty="graphs", gamma=0, feature_gamma=0).fit(X)
    np.testing.assert_array_equal(est.recovered_, X)
    assert est.stop_reason_ == "converged"


def test_a_heavy_graph_makes_connected_rows_equal():
    X = np.random.default_rng(0).standard_normal((6, 4))
    W = np.kron(np.eye(2), 1.0 - np.eye(3))  # two triangles
    options = {"penalty": "graphs", "gamma": 1e3, "feature_gamma": 0, "tol": 1e-7, "max_iter": 200_000}
    L = GraphRobustPCA(**options).fit(X, graph=W).recovered_
    for rows in (slice(0, 3), slice(3, 6)):
        np.testing.assert_allclose(L[rows], np.broadcast_to(np.median(X[rows], axis=0), (3, 4)), atol=1e-2)


# --- the solver -----------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), weight=st.floats(0.01, 100))
def test_fista_never_rises(seed, weight):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 5))
    smooth = TwoGraphs(
        normalised_laplacian(random_graph(12, seed)), weight, normalised_laplacian(random_graph(5, seed)), 1.0
    )
    result = solve_fista(smooth, EntryTerm.of(X, 1.0), rng.standard_normal(X.shape), smooth.lipschitz, size=1.0)
    assert np.all(np.diff(result.objective) <= 1e-12 * result.objective[0])
    assert result.stop_reason in ("converged", "max_iter", "stalled")


def test_running_out_of_iterations_warns():
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        GraphRobustPCA(penalty="graphs", max_iter=3, tol=1e-12).fit(smooth_data()[1])


# --- on data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", ["nuclear", "graphs"])
@pytest.mark.parametrize("seed", range(2))
def test_wrong_entries_of_smooth_data(penalty, seed):
    truth, X, wrong = smooth_data(seed=seed)
    est = GraphRobustPCA(penalty=penalty).fit(X)
    before, after = (np.abs(A - truth)[wrong].mean() for A in (X, est.recovered_))
    assert after < 0.5 * before
    assert np.abs(est.recovered_ - truth)[~wrong].mean() < 0.12
    assert est.entry_outliers_[wrong].mean() > 0.9
    most = np.argsort(wrong.sum(axis=1))[-5:]
    assert est.outlier_scores_[most].mean() > 1.5 * np.median(est.outlier_scores_)


@pytest.mark.parametrize("penalty", ["nuclear", "graphs"])
def test_missing_entries_are_filled_in(penalty):
    truth, _, _ = smooth_data()
    X = with_holes(truth, 0.1)
    est = GraphRobustPCA(penalty=penalty).fit(X)
    holes = np.isnan(X)
    assert np.isfinite(est.recovered_).all()
    assert not est.entry_outliers_[holes].any()
    assert np.abs(est.recovered_ - truth)[holes].mean() < 0.3 * np.abs(truth)[holes].mean()


@pytest.mark.parametrize("penalty", ["nuclear", "graphs"])
def test_occluded_digits_are_mended_and_the_others_kept(penalty):
    truth = load_mnist(150, random_state=0)
    X, bad = occlusion(truth, (28, 28), random_state=1)
    A = GraphRobustPCA(penalty=penalty).fit_transform(X)
    assert snr(truth[bad], A[bad]) > snr(truth[bad], X[bad]) + 2.0
    assert snr(truth[~bad], A[~bad]) > 10.0


def test_a_given_graph_is_used_sparse_or_dense():
    _, X, _ = smooth_data()
    W = np.eye(80, k=1) + np.eye(80, k=-1)
    dense, sparse = (GraphRobustPCA().fit(X, graph=graph).recovered_ for graph in (W, csr_array(W)))
    np.testing.assert_array_equal(dense, sparse)
    assert not np.allclose(dense, GraphRobustPCA().fit(X).recovered_, atol=1e-3)
    est = GraphRobustPCA(n_neighbors=3).fit(X)
    np.testing.assert_allclose(est.laplacian_.toarray(), normalised_laplacian(neighbour_graph(X, 3)).toarray())
    np.testing.assert_array_equal(GraphRobustPCA().fit_transform(X, graph=W), dense)


@pytest.mark.parametrize("penalty", ["nuclear", "graphs"])
def test_units_do_not_matter(penalty):
    _, X, _ = smooth_data()
    plain, large = (GraphRobustPCA(penalty=penalty, tol=1e-6).fit(scale * X) for scale in (1.0, 1e3))
    np.testing.assert_allclose(large.recovered_ / 1e3, plain.recovered_, atol=1e-4)


@pytest.mark.parametrize("penalty", ["nuclear", "graphs"])
@pytest.mark.parametrize("X", [np.ones((10, 3)), np.zeros((4, 2)), np.array([[0.0], [1.0]])])
def test_odd_data_is_left_in_place(penalty, X):
    est = GraphRobustPCA(penalty=penalty).fit(X)
    np.testing.assert_allclose(est.recovered_, X, atol=1e-3)
    assert np.isfinite(est.outlier_scores_).all()
    assert not est.outliers_.any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": "schatten"}, "penalty must be one of"),
        ({"lam": 0.0}, "lam must be"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"feature_gamma": "much"}, "feature_gamma must be"),
        ({"n_neighbors": 0}, "n_neighbors must be"),
        ({"contamination": 0.7}, "contamination must be"),
        ({"tol": -1.0}, "tol must be"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        GraphRobustPCA(**parameters).fit(np.eye(5))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.ones((4, 4)), "graph must be of shape"),
        (-np.ones((5, 5)), "graph must have finite weights >= 0"),
        (np.full((5, 5), np.nan), "graph must have finite weights >= 0"),
        (np.triu(np.ones((5, 5))), "graph must be symmetric"),
    ],
)
def test_graphs_are_checked(graph, message):
    with pytest.raises(ValueError, match=message):
        GraphRobustPCA().fit(np.eye(5), graph=graph)


def test_a_graph_of_features_needs_its_form():
    with pytest.raises(ValueError, match="feature_graph belongs to penalty='graphs'"):
        GraphRobustPCA().fit(np.eye(5), feature_graph=np.ones((5, 5)))


@pytest.mark.parametrize("penalty", ["nuclear", "graphs"])
def test_float32_is_worked_on_in_float32_and_ends_at_the_same_minimum(penalty):
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 90)  # no two pairs are as far apart as each other
    X = np.column_stack([np.cos(k * angle + k) for k in range(1, 31)])
    X[::9, ::4] += 2.0
    double, single = (GraphRobustPCA(penalty=penalty).fit(X.astype(dtype)) for dtype in (np.float64, np.float32))
    assert single.recovered_.dtype == np.float32
    assert single.stop_reason_ == "converged"
    assert single.objective_[-1] == pytest.approx(double.objective_[-1], rel=2e-3)
    np.testing.assert_allclose(single.recovered_, double.recovered_, atol=0.02)
