"""What `benchmarks real` measures: methods, each given a sample, and figures about rows and entries.

Ours is told nothing. PyOD's detectors have their own defaults and are told how many rows are wrong: that many of the
highest scores are their flags, since they have no flags of their own.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from benchmarks.real_sample import Sample, robust_sd
from kernmend import KernelRecovery
from kernmend.datasets.metrics import auc, f1_score

Found = dict[str, Any]
Method = Callable[[Sample], Found]
DIGITS = 4  # of the figures in the store
NOT_FINITE = "scores are not finite"
FAR = 5.0  # robust sd of the univariate rule


def measure(method: str, sample: Sample) -> Found:
    """Return the figures of a method on a sample, and the CPU seconds; what it cannot do counts as nothing found."""
    start = time.process_time()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = METHODS[method](sample)
        except Exception as error:  # a method that cannot do this set
            words = f"{type(error).__name__}: {error}".split("\n")[0][:120]
            found = nothing_found(sample.bad, ranks=method not in WITHOUT_SCORES) | {"error": words}
            found["cpu"] = time.process_time() - start
    return rounded(found)


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return round(float(value), DIGITS) if isinstance(value, float | np.floating) else value


# --- figures --------------------------------------------------------------------------------------------------------


def row_figures(bad: np.ndarray, flags: np.ndarray) -> Found:
    """Return how good the flags of rows are; of clean data only which share is flagged."""
    good = {"good_flagged": float(flags[~bad].mean()) if (~bad).any() else None}
    if not bad.any():
        return good
    precision = float(bad[flags].mean()) if flags.any() else None
    return good | {"f1": f1_score(bad, flags), "recall": float(flags[bad].mean()), "precision": precision}


def score_figures(bad: np.ndarray, scores: np.ndarray) -> Found:
    """Return how good the order of rows is, and the F1 of as many of the highest scores as there are wrong rows."""
    if not np.isfinite(scores).all():
        raise ValueError(NOT_FINITE)
    if not bad.any():
        return {}
    told = np.zeros(bad.size, dtype=bool)
    told[np.argsort(-scores, kind="stable")[: int(bad.sum())]] = True
    return {"f1_told": f1_score(bad, told), "auc": auc(bad, scores), "ap": float(average_precision_score(bad, scores))}


def entry_figures(sample: Sample, entries: np.ndarray | None, recovered: np.ndarray) -> Found:
    """Return precision and recall of entries, what is `left` of the errors, and the `damage` to good entries.

    Both are in robust standard deviations of the columns of the truth: the median over the wrong entries, and the mean
    over the good ones. Entries count as flagged where they were changed, if a method does not say.
    """
    if sample.truth is None or sample.entries is None:
        return {}
    wrong, changed = sample.entries, recovered != sample.X
    entries = changed if entries is None else entries
    off = np.abs(recovered - sample.truth) / robust_sd(sample.truth)
    good_rows = changed[~sample.bad]
    out = {"damage": float(off[~wrong].mean()), "good_changed": float(good_rows.any(axis=1).mean())}
    if wrong.any():
        precision = float(wrong[entries].mean()) if entries.any() else None
        out |= {"entry_precision": precision, "entry_recall": float(entries[wrong].mean())}
        out |= {"left": float(np.median(off[wrong]))}
    return out


def nothing_found(bad: np.ndarray, *, ranks: bool = True) -> Found:
    """Return the figures of a method that failed: no row is found, and the order, if it has one, is as good as any."""
    if not bad.any():
        return {}
    order = {"f1_told": 0.0, "auc": 0.5, "ap": float(bad.mean())}
    return {"f1": 0.0, "recall": 0.0} | (order if ranks else {})


# --- methods --------------------------------------------------------------------------------------------------------


def kernmend(sample: Sample) -> Found:
    """Return the figures of `KernelRecovery()`; where there are clean rows, fitted to these."""
    start = time.process_time()
    if sample.train is None:
        est = KernelRecovery().fit(sample.X)
        flags, scores, recovered = est.outliers_, est.outlier_scores_, est.recovered_
        entries = getattr(est, "entry_outliers_", None)
    else:
        est = KernelRecovery().fit(sample.train)
        flags, scores, entries = est.predict(sample.X) == -1, -est.score_samples(sample.X), None
        recovered = est.transform(sample.X)
    cpu = time.process_time() - start
    out = row_figures(sample.bad, flags) | entry_figures(sample, entries, recovered)
    if not np.isfinite(scores).all():  # counts as a failure; what the flags are worth is kept beside it
        seen = out | score_figures(sample.bad, np.nan_to_num(scores))
        return nothing_found(sample.bad) | {"error": NOT_FINITE, "cpu": cpu, "as_flagged": seen}
    return out | score_figures(sample.bad, scores) | {"cpu": cpu}


def pyod(module: str, name: str, **settings: Any) -> Method:
    def method(sample: Sample) -> Found:
        make = getattr(__import__(f"pyod.models.{module}", fromlist=[name]), name)
        start = time.process_time()
        detector = make(**settings).fit(sample.X if sample.train is None else sample.train)
        scores = detector.decision_scores_ if sample.train is None else detector.decision_function(sample.X)
        cpu = time.process_time() - start
        return score_figures(sample.bad, scores) | {"cpu": cpu}

    return method


def ddc(sample: Sample) -> Found:
    """Return the figures of "detecting deviating cells" as robpy has it; a row is flagged if a cell of it is."""
    import pandas as pd
    from robpy.outliers.ddc import DDC

    start = time.process_time()
    X = pd.DataFrame(sample.X)
    est = DDC().fit(X)
    entries = np.asarray(est.cellwise_outliers_, dtype=bool)
    recovered = np.where(entries, np.asarray(est.rescaled_predictions_), sample.X)
    cpu = time.process_time() - start
    return row_figures(sample.bad, entries.any(axis=1)) | entry_figures(sample, entries, recovered) | {"cpu": cpu}


def univariate(sample: Sample) -> Found:
    """Return the figures of the rule that an entry is wrong if it is more than 5 robust sd off the median."""
    start = time.process_time()
    known = sample.X if sample.train is None else sample.train
    centre = np.median(known, axis=0)
    z = np.abs(sample.X - centre) / robust_sd(known)
    entries = z > FAR
    cpu = time.process_time() - start
    out = row_figures(sample.bad, entries.any(axis=1))
    out |= entry_figures(sample, entries, np.where(entries, centre, sample.X))
    return out | score_figures(sample.bad, z.max(axis=1)) | {"cpu": cpu}


TOLD: dict[str, Method] = {
    "IForest": pyod("iforest", "IForest", random_state=0),
    "KNN": pyod("knn", "KNN"),
    "LOF": pyod("lof", "LOF"),
    "ECOD": pyod("ecod", "ECOD"),
}
WITHOUT_SCORES = ("DDC",)  # flags only
METHODS: dict[str, Method] = {"kernmend": kernmend, **TOLD, "DDC": ddc, "robust z > 5": univariate}


def applies(method: str, group: str, kind: str) -> bool:
    """Return whether a method has something to do: those that are told the share nothing in clean data."""
    if method == "DDC":
        return group == "tables"
    return method not in TOLD or not kind.startswith("clean")
