"""One piece of work: make the matrix, fit the method within its budget, measure."""

import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import kernmend
from kernmend._typing import Array
from kernmend.datasets import metrics
from kernmend.model.graphs import neighbour_graph
from kernmend.model.kernels import RBF, Kernel, Polynomial
from kernmend.paper.machine import machine, peak_megabytes, reset_peak, versions
from kernmend.paper.matrices import Matrix, make_matrix, oracle, to_unit_length
from kernmend.paper.spec import Task
from kernmend.paper.store import Record

# Number of neighbours of the graphs, as in the paper.
NEIGHBOURS = 5
# Number of images that are kept for a gallery.
SHOWN = 8
# Fitted parameters that go into the record of a result.
CHOSEN = ("gamma_", "coef0_", "lam_", "rho_", "error_", "reason_", "choice_cost_", "rank_", "C_", "sigma_")
_cached_matrix = lru_cache(maxsize=1)(make_matrix)  # methods of one case come one after the other


class Budget:
    """What `time_budget` gives: `hit` says whether the time was used up."""

    hit = False


@contextmanager
def time_budget(seconds: float) -> Iterator[Budget]:
    """Interrupt the block like Ctrl-C after so much CPU time: every solver then returns what it has.

    Only in the main thread of a process, on systems with alarms; elsewhere there is no limit.
    """
    budget = Budget()

    def ring(*_: object) -> None:
        budget.hit = True
        raise KeyboardInterrupt

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield budget
        return
    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield budget
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def execute(task: Task, folder: Path | None = None) -> tuple[Record, dict[str, Array] | None]:
    """Return the record of a task, and the arrays of its picture if it has one. A true Ctrl-C passes through."""
    matrix = _cached_matrix(task.data, task.corruption, task.seed, folder)
    record: Record = {
        "key": task.key, "experiment": task.experiment, "case": task.case, "method": task.method.name,
        "estimator": task.method.estimator, "rule": task.method.rule, "params": dict(task.method.params),
        "given": task.method.given, "repetition": task.repetition, "seed": task.seed, "matrix": matrix.digest,
        "corruption": task.corruption.label, "shape": list(matrix.X.shape), "budget": task.method.budget,
        "versions": versions(task.method.estimator), "machine": machine(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip
    if task.method.estimator in ("untouched", "oracle"):
        A = matrix.X if task.method.estimator == "untouched" else _oracle(task, matrix, folder)
        record |= {"metrics": measure(task, matrix, A), "seconds": 0.0, "stop": "", "budget_hit": False}
        return record, _pictures(task, matrix, A)
    return _fit(task, matrix, record)


def _oracle(task: Task, matrix: Matrix, folder: Path | None) -> Array:
    """Return what the oracle makes of the corrupted images, before these are brought to unit length if they are."""
    if not task.data.unit_after:
        return oracle(matrix, task.corruption)
    before = make_matrix(replace(task.data, unit_after=False), task.corruption, task.seed, folder)
    return to_unit_length(oracle(before, task.corruption))


def _fit(task: Task, matrix: Matrix, record: Record) -> tuple[Record, dict[str, Array] | None]:
    """Return the record completed by a fit within its budget, and the arrays of its picture."""
    est = getattr(kernmend, task.method.estimator)(**dict(task.method.params))
    extra = _given(task, matrix)
    reset_peak()
    start, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(), time_budget(task.method.budget) as budget:
        warnings.simplefilter("ignore")
        try:
            est.fit(matrix.X, **extra)
        except KeyboardInterrupt:
            if not budget.hit:
                raise
    record |= {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    record |= {"peak_mb": peak_megabytes(), "budget_hit": budget.hit}
    if not hasattr(est, "outliers_"):
        return record | {"stop": "nothing within the budget", "metrics": {}}, None
    if est.stop_reason_ == "interrupted" and not budget.hit:
        raise KeyboardInterrupt
    chosen = {name: getattr(est, name) for name in CHOSEN if hasattr(est, name)}
    found = measure(task, matrix, est.recovered_)
    found |= {"auc": metrics.auc(matrix.rows, est.outlier_scores_), "f1": metrics.f1_score(matrix.rows, est.outliers_)}
    record |= {"stop": est.stop_reason_, "iterations": est.n_iter_, "chosen": chosen, "metrics": found}
    if task.experiment in ("convergence", "complexity"):
        record |= {"objective": est.objective_.tolist()[:400], "clock": [r.seconds for r in est.history_][:400]}
    return record, _pictures(task, matrix, est.recovered_)


def measure(task: Task, matrix: Matrix, A: Array) -> dict[str, float]:
    """Return the metrics of a recovery, by name; images and points in the plane have different ones."""
    truth, X, bad = matrix.in_double()
    A = A.astype(np.float64, copy=False)
    if task.data.name == "circle":
        off = np.abs(np.linalg.norm(A, axis=1) - 1.0)
        return {"distance": float(off[bad].mean()), "moved": metrics.mean_shift(X[~bad], A[~bad])}
    return metrics.readings(truth, A, bad, peak=float(truth.max()) if task.data.scale == "unit length" else 1.0)


def _given(task: Task, matrix: Matrix) -> dict[str, Any]:
    """Return the keywords that `fit` gets besides the data: a graph, a similarity or a start."""
    what, _, source = task.method.given.partition(" ")
    images = matrix.truth if source == "clean" else matrix.X
    if what == "graph":
        return {"graph": neighbour_graph(images, NEIGHBOURS)}
    if what == "similarity":
        return {"gram": _kernel(task).gram(images)}
    if what == "neighbours":
        return {"gram": neighbour_similarity(_kernel(task), images)}
    if what == "released":
        return {"start_gram": 0.85 * _kernel(task).gram(matrix.X)}
    return {}


def neighbour_similarity(kernel: Kernel, X: Array) -> Array:
    """Return W K W', each row of W the weights of a sample's 5 nearest neighbours: what the graph says it is like.

    In the kernel space every sample is replaced by the mean of its neighbours, so the result is a true Gram matrix.
    """
    W = neighbour_graph(X, NEIGHBOURS).toarray()
    W /= np.maximum(W.sum(axis=1, keepdims=True), 1e-300)
    out: Array = W @ kernel.gram(X) @ W.T
    return (out + out.T) / 2.0


def _kernel(task: Task) -> Kernel:
    """Return the kernel of a task's parameters."""
    params = dict(task.method.params)
    if params.get("kernel", "rbf") == "rbf":
        return RBF(float(params["gamma"]))
    return Polynomial(float(params["degree"]), float(params["coef0"]))


def _pictures(task: Task, matrix: Matrix, A: Array) -> dict[str, Array] | None:
    """Return the arrays of a task's picture; None if none is kept."""
    if not task.keep:
        return None
    if task.data.name == "circle":
        return {"X": matrix.X, "A": A, "rows": matrix.rows.astype(np.float64)}
    shown = np.flatnonzero(matrix.rows)[:SHOWN]
    return {"truth": matrix.truth[shown], "X": matrix.X[shown], "A": A[shown]}
