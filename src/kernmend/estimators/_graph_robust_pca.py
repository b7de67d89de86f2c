"""Robust PCA on graphs: neighbours should be alike, some entries are wrong."""

import numbers
from typing import Any, ClassVar

import numpy as np

from kernmend._typing import Array
from kernmend._validation import check_auto, check_choice, check_common, check_count
from kernmend.estimators._base import MOVED, Recovery, parameters
from kernmend.estimators._linear import solve_nuclear, typical
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.graphs import GraphTerm, TwoGraphs, check_graph, neighbour_graph, normalised_laplacian
from kernmend.model.terms import EntryTerm, Term, row_lengths
from kernmend.repair.completion import fill_missing
from kernmend.solvers import Callback, SolverResult, solve_fista

# The default lam times sqrt(max(n, d)). With 1, that of Robust PCA, half of an image that is not of low rank is error.
LAM = 3.0
# Force of the graph on an entry that differs from its neighbours by a typical amount, as a share of lam.
GRAPH_SHARE = 0.3
# Singular value, as a share of the largest one, above which it counts for the rank of data that has no exact one.
RANK_CUT = 1e-3


@parameters
class GraphRobustPCA(Recovery):
    """Split the data into a part that is smooth on a graph of the samples and low-rank, and a few wrong entries.

        minimise |L|_* + lam |S|_1 + gamma tr(L' Phi L)   subject to  L + S = X on the observed entries

    Phi is the normalised Laplacian of a graph whose nodes are the samples (Shahid et al., 2015: GRPCA). With
    `penalty="graphs"` a second graph, Psi, of the features takes the place of the nuclear norm; then nothing needs a
    singular value decomposition (Shahid et al., 2016: FRPCAG):

        minimise lam |X - L|_1 + gamma tr(L' Phi L) + feature_gamma tr(L Psi L').

    Both are convex. There is no `transform`: a new sample is not a node of the graph. float32 data is worked on in
    float32, at half the cost.

    Parameters
    ----------
    penalty : {"nuclear", "graphs"}, default="nuclear"
        What makes L simple besides the graph of the samples: the nuclear norm, or the graph of the features. "graphs"
        is many times faster, and better for images and other data whose features have neighbours.
    lam : float or "auto", default="auto"
        Price of an error. "auto" is 3 / sqrt(max(n_samples, n_features)), or 1 with penalty="graphs".
    gamma, feature_gamma : float or "auto", default="auto"
        Weights of the graphs, >= 0. An entry gives way where gamma times twice its difference from its neighbours, in
        the sense of Phi X, is above lam. "auto" is 0.3 lam / (2 r), r the root mean square of Phi X (of X Psi).
        `gamma=0` with the nuclear norm is `RobustPCA`.
    n_neighbors : int, default=5
        Of a node in a graph that is not given. Weights are exp(-d^2 / s^2), s the mean distance of neighbours.
    contamination : float or "auto", default="auto"
        Share of the rows to flag, fewer where equal scores would be divided: rows without error are not flagged.
        "auto" flags rows whose error is far larger than that of the others.
    max_iter : int, default=1000
        Iterations of the solver.
    verbose : int, default=0
        1 shows a progress bar.
    tol : float, default=1e-4
        Stop when the optimality residual is below it. With the nuclear norm that is the larger of two: the primal one
        as a share of the length of the data, the dual one of that of the multipliers. With penalty="graphs" it is the
        length of the generalised gradient, as a share of lam sqrt(n_samples n_features).

    Attributes
    ----------
    recovered_ : ndarray of shape (n_samples, n_features)
        L: the mended data, missing entries filled in.
    entry_outliers_ : ndarray of bool, shape (n_samples, n_features)
        The wrong entries: those of S above 1 % of a typical entry.
    outlier_scores_ : ndarray of shape (n_samples,)
        Length of the row's part of S, as a share of a typical row's length.
    outliers_ : ndarray of bool, shape (n_samples,)
        `outlier_scores_ > threshold_`.
    threshold_ : float
        median + 5 (median - 15.87th percentile) of the scores, at least 0.01; or what gives the share asked for.
    laplacian_, feature_laplacian_ : sparse array
        Phi and Psi; the second only with penalty="graphs".
    lam_, gamma_, feature_gamma_ : float
        The values that were used.
    objective_ : ndarray of shape (n_iter_ + 1,)
        The objective after each iteration, and at the start: L = 0, or L = X with penalty="graphs", where it never
        rises but by rounding.
    history_ : list of IterationRecord
        One record per iteration, with the optimality `residual`.
    n_iter_ : int
    stop_reason_ : {"converged", "max_iter", "stalled", "interrupted"}
        "stalled" only with penalty="graphs": rounding lets no step lower the objective.
    rank_ : int
        Of L; with penalty="graphs" the number of its singular values above 0.1 % of the largest.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from kernmend import GraphRobustPCA
    >>> angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    >>> truth = np.column_stack([np.cos(k * angle + k) for k in range(1, 21)])
    >>> X = truth.copy()
    >>> X[7, 3] += 4.0
    >>> est = GraphRobustPCA().fit(X)
    >>> bool(abs(est.recovered_[7, 3] - truth[7, 3]) < 1.0)
    True
    >>> int(est.outlier_scores_.argmax())
    7
    """

    penalty: str = "nuclear"
    lam: float | str = "auto"
    gamma: float | str = "auto"
    feature_gamma: float | str = "auto"
    n_neighbors: int = 5
    contamination: float | str = "auto"
    max_iter: int = 1000
    tol: float = 1e-4
    verbose: int = 0

    _saved: ClassVar[tuple[str, ...]] = (
        *Recovery._saved,
        *("lam_", "gamma_", "feature_gamma_", "laplacian_", "feature_laplacian_", "entry_outliers_"),
    )
    _rules: ClassVar[dict[str, str]] = {
        "lam": "by the number of rows and columns",
        "gamma": "a cell that differs from its neighbours by a typical amount feels 0.3 lam",
        "feature_gamma": "a cell that differs from its neighbours by a typical amount feels 0.3 lam",
    }

    def fit(self, X: Any, y: Any = None, *, graph: Any = None, feature_graph: Any = None) -> "GraphRobustPCA":
        """Mend `X`; the result is in `recovered_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The corrupted data; NaN means missing, inf is an error.
        y : None
            Ignored; there for the pipelines of scikit-learn.
        graph : array-like or sparse of shape (n_samples, n_samples), optional
            Symmetric weights >= 0 of a graph of the samples, such as `sklearn.neighbors.kneighbors_graph` gives after
            `(W + W.T) / 2`. By default the nearest neighbours in `X`.
        feature_graph : array-like or sparse of shape (n_features, n_features), optional
            The same of the features, with penalty="graphs".

        Returns
        -------
        GraphRobustPCA
            The estimator itself, fitted.
        """
        self._check_parameters()
        self._forget()
        X = self._validate(X, reset=True, ensure_min_samples=2)
        if feature_graph is not None and self.penalty != "graphs":
            raise ValueError("feature_graph belongs to penalty='graphs'")
        filled = fill_missing(X) if np.isnan(X).any() else X
        automatic = 1.0 if self.penalty == "graphs" else LAM / float(np.sqrt(max(X.shape)))
        self.lam_ = automatic if isinstance(self.lam, str) else float(self.lam)
        self.laplacian_ = self._laplacian("graph", graph, X)
        self.gamma_ = self._weight(self.gamma, self.laplacian_ @ filled)
        term = EntryTerm.of(X, self.lam_)
        with self._progress("mending", self.max_iter) as callback:
            if self.penalty == "graphs":
                self.feature_laplacian_ = self._laplacian("feature_graph", feature_graph, filled.T)
                self.feature_gamma_ = self._weight(self.feature_gamma, self.feature_laplacian_ @ filled.T)
                result = self._solve_graphs(term, filled, callback)
            else:
                result = self._solve_nuclear(term, filled, callback)
        self._keep(result, X.dtype)
        if self.penalty == "graphs":
            self.rank_ = _rank(result.A)
        self._score(term.residual(result.A), filled)
        self._tell(X)
        return self

    def _check_parameters(self) -> None:
        check_choice("penalty", self.penalty, ("nuclear", "graphs"))
        check_auto("lam", self.lam)
        for name in ("gamma", "feature_gamma"):
            value = getattr(self, name)
            if not (isinstance(value, numbers.Real) and float(value) == 0):
                check_auto(name, value)
        check_count("n_neighbors", self.n_neighbors)
        check_common(self)

    def _laplacian(self, name: str, graph: Any, nodes: Array) -> Any:
        """Return the Laplacian of the given graph, or of the nearest neighbours among the rows of `nodes`."""
        weights = neighbour_graph(nodes, self.n_neighbors) if graph is None else check_graph(name, graph, len(nodes))
        return normalised_laplacian(weights)

    def _weight(self, given: float | str, differences: Array) -> float:
        if not isinstance(given, str):
            return float(given)
        size = float(np.sqrt(np.mean(np.square(differences))))
        return GRAPH_SHARE * self.lam_ / (2.0 * size) if size > 0 else 0.0

    def _solve_nuclear(self, term: EntryTerm, X: Array, callback: Callback | None) -> SolverResult:
        blocks: list[Term] = [term]
        if self.gamma_ > 0:
            blocks.append(GraphTerm(self.laplacian_, self.gamma_))
        options = {"max_iter": self.max_iter, "tol": self.tol, "callback": callback}
        return solve_nuclear(X, blocks, options)[0]

    def _solve_graphs(self, term: EntryTerm, start: Array, callback: Callback | None) -> SolverResult:
        smooth = TwoGraphs(self.laplacian_, self.gamma_, self.feature_laplacian_, self.feature_gamma_)
        return solve_fista(
            smooth,
            term,
            start,
            smooth.lipschitz or 1.0,
            size=self.lam_ * float(np.sqrt(start.size)),
            max_iter=self.max_iter,
            tol=self.tol,
            callback=callback,
        )

    def _score(self, errors: Array, X: Array) -> None:
        """Store what is wrong, by the size of the errors beside that of the data."""
        length = typical(row_lengths(X))
        self.outlier_scores_ = row_lengths(errors)[:, 0] / length
        self._flag_large()
        self.entry_outliers_ = np.abs(errors) > MOVED * length / float(np.sqrt(X.shape[1]))


def _rank(A: Array) -> int:
    s = eigenpairs(A @ A.T if A.shape[0] <= A.shape[1] else A.T @ A)[0]
    return int(np.count_nonzero(s > RANK_CUT**2 * max(float(s[-1]), np.finfo(np.float64).tiny)))
