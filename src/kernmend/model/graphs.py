"""Graphs over samples or features: weights of nearest neighbours, their normalised Laplacian, penalties by it."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from scipy.sparse import coo_array, csr_array, issparse
from scipy.sparse.csgraph import laplacian
from sklearn.neighbors import NearestNeighbors

from kernmend._typing import Array
from kernmend.linalg.distances import observed_squared_distances
from kernmend.linalg.eigen import eigenpairs
from kernmend.model.terms import Term

Laplacian: TypeAlias = Any
"""A sparse symmetric positive semidefinite array; the stubs of SciPy's sparse arrays are too narrow to say so."""
# Features that go with each: the pixels above, below and on both sides of one.
SIMILAR = 4
# Least absolute correlation of features that go together: of 100 rows, those of noise stay below it, 3 / sqrt(100).
CORRELATED = 0.3
# Features whose correlations with all others are held at a time.
BLOCK = 512


def neighbour_graph(X: Array, n_neighbors: int) -> Any:
    """Return the symmetric weights of the graph that joins each row with its nearest ones; NaN means missing.

    A pair at the distance d weighs exp(-d^2 / s^2), s the mean distance of neighbours; half of it where only one of the
    two counts the other among its nearest.

    >>> import numpy as np
    >>> neighbour_graph(np.array([[0.0], [1.0], [5.0], [6.0]]), 1).toarray().round(3)
    array([[0.   , 0.368, 0.   , 0.   ],
           [0.368, 0.   , 0.   , 0.   ],
           [0.   , 0.   , 0.   , 0.368],
           [0.   , 0.   , 0.368, 0.   ]])
    """
    n = X.shape[0]
    k = min(n_neighbors, n - 1)
    if k == 0:
        return csr_array((n, n), dtype=np.float64)
    if np.isnan(X).any():
        pairs = observed_squared_distances(X)
        np.fill_diagonal(pairs, np.inf)
        columns = np.argpartition(pairs, k - 1, axis=1)[:, :k]
        distances = np.sqrt(np.take_along_axis(pairs, columns, axis=1))
    else:
        distances, columns = NearestNeighbors(n_neighbors=k).fit(X).kneighbors()
    met = np.isfinite(distances)  # Rows without a common feature have no distance.
    width = float(distances[met].mean()) if met.any() else 0.0
    weights = np.exp(-np.square(distances / (width or 1.0)), where=met, out=np.zeros_like(distances))
    rows = np.repeat(np.arange(n), k)
    W = coo_array((weights.ravel().astype(np.float64), (rows, columns.ravel().astype(np.intp))), shape=(n, n)).tocsr()
    return csr_array((W + W.T) * 0.5)


def similar_features(X: Array, n_neighbors: int = SIMILAR) -> Any:
    """Return the graph that joins each feature with those it is correlated with most, if by `CORRELATED` or more.

    A feature that never changes has no neighbours. Correlations are computed a block at a time, never all at once.

    >>> import numpy as np
    >>> t = np.linspace(0, 1, 20)
    >>> similar_features(np.column_stack([t, np.ones(20), 1 - t, np.cos(40 * t)]), 1).toarray().astype(int)
    array([[0, 0, 1, 0],
           [0, 0, 0, 0],
           [1, 0, 0, 0],
           [0, 0, 0, 0]])
    """
    d = X.shape[1]
    k = min(n_neighbors, d - 1)
    if k == 0:
        return csr_array((d, d), dtype=bool)
    centred = X - X.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    changes = length > 1e-6 * length.max(initial=0.0)
    np.divide(centred, length, out=centred, where=changes)
    centred[:, ~changes] = 0.0
    pairs = []
    for start in range(0, d, BLOCK):
        likeness = np.abs(centred[:, start : start + BLOCK].T @ centred)
        features = np.arange(likeness.shape[0])
        likeness[features, start + features] = 0.0
        others = np.argpartition(likeness, -k, axis=1)[:, -k:]
        alike = np.take_along_axis(likeness, others, axis=1) >= CORRELATED
        pairs.append(np.column_stack([np.broadcast_to(start + features[:, None], alike.shape)[alike], others[alike]]))
    joined = np.concatenate(pairs)
    graph = coo_array((np.ones(len(joined), dtype=bool), (joined[:, 0], joined[:, 1])), shape=(d, d)).tocsr()
    return csr_array(graph + graph.T)


def normalised_laplacian(W: Any) -> Laplacian:
    """Return I - D^(-1/2) W D^(-1/2), D the sums of the weights; a row of zeros for a node without neighbours.

    >>> import numpy as np
    >>> normalised_laplacian(np.array([[0.0, 2.0], [2.0, 0.0]])).toarray()
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    phi: Laplacian = laplacian(csr_array(W, dtype=np.float64), normed=True)
    return csr_array(phi)


def check_graph(name: str, graph: Any, n_nodes: int) -> Any:
    """Return weights as a sparse array; ValueError unless they are finite, symmetric, >= 0 and one row per node."""
    given: Any = graph if issparse(graph) else np.asarray(graph, dtype=np.float64)
    if given.shape != (n_nodes, n_nodes):
        raise ValueError(f"{name} must be of shape {(n_nodes, n_nodes)}, got {given.shape}")
    W: Any = csr_array(given, dtype=np.float64)
    if not np.isfinite(W.data).all() or (W.data < 0).any():
        raise ValueError(f"{name} must have finite weights >= 0, got {W.data[~(W.data >= 0) | np.isinf(W.data)][0]}")
    top = float(W.data.max(initial=0.0))
    if float(np.abs((W - W.T).data).max(initial=0.0)) > 1e-6 * top:
        raise ValueError(f"{name} must be symmetric: pass (W + W.T) / 2 if that is meant")
    return W


@dataclass
class GraphTerm(Term):
    """weight tr(A' Phi A) of a Laplacian Phi over the rows: neighbours should be alike. For `solvers.admm`.

    The prox is (I + 2 t weight Phi)^(-1) V, by the eigenvectors of Phi, so that a new t needs no new factorisation.
    """

    part: ClassVar[Literal["low_rank", "error", "gram"]] = "gram"
    laplacian: Laplacian
    weight: float
    _eigen: tuple[Array, Array] | None = field(default=None, init=False, repr=False)

    def value(self, A: Array) -> float:  # noqa: D102
        return self.weight * float(np.vdot(A, self.laplacian @ A))

    def prox(self, V: Array, t: float) -> Array:  # noqa: D102
        if self._eigen is None:
            self._eigen = eigenpairs(self.laplacian.toarray().astype(V.dtype, copy=False))
        s, U = self._eigen
        damped = U.T @ V
        damped /= (1.0 + 2.0 * t * self.weight * s)[:, np.newaxis].astype(V.dtype, copy=False)
        out: Array = U @ damped
        return out


@dataclass(frozen=True)
class TwoGraphs:
    """weight tr(Z' Phi Z) + feature_weight tr(Z Psi Z'), of rows and columns: what `solvers.fista` calls smooth."""

    laplacian: Laplacian
    weight: float
    feature_laplacian: Laplacian
    feature_weight: float

    def __call__(self, Z: Array) -> tuple[float, Array]:
        """Return the value at Z and the gradient."""
        half: Array = self.weight * (self.laplacian @ Z)
        half += self.feature_weight * (self.feature_laplacian @ Z.T).T
        return float(np.vdot(Z, half)), 2.0 * half

    @property
    def lipschitz(self) -> float:
        """A bound on the Lipschitz constant of the gradient: a normalised Laplacian has no eigenvalue above 2."""
        return 4.0 * (self.weight + self.feature_weight)
