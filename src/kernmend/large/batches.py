"""Rows that come in batches: a bounded set of landmarks that follows slow drift."""

from typing import Any

import numpy as np

from kernmend._typing import Array
from kernmend.large import dask as _dask
from kernmend.large import landmarks as _large

FRESH = 0.25  # of the landmarks: what one batch replaces at most, so that no batch alone says what is normal
MUCH = 0.2  # by which the share of flagged rows must differ from what it was to choose everything anew
FEW = 20  # rows, whose share says little


def follow(est: Any, X: Any, recalibrate: bool) -> None:
    """Score and mend a batch against the landmarks, then let some of its good rows take the place of the oldest."""
    if est.repair != "flagged" or est.landmarks is None:
        raise ValueError("partial_fit needs repair='flagged' and a number of landmarks, or 'auto'")
    if _dask.is_lazy(X):
        raise ValueError("partial_fit takes rows in memory: call it with X.compute() of one block after the other")
    most = _large.AUTO_LANDMARKS if isinstance(est.landmarks, str) else int(est.landmarks)
    begun = "_rows" in vars(est) and est._rows.detector is not None
    X = est._validate(X, reset=not begun, **({} if begun else {"ensure_min_samples": 2}))
    seen = vars(est).get("n_samples_seen_", 0)
    _dask.forget(est)
    rng = np.random.default_rng([est._seed(), seen])
    if not begun:
        est._fit_flagged(X)
        _settle(est, _draw(est._rows.mender.L, most, rng))
        est._tell(X)
    else:
        _take_in(est, X, most, recalibrate, rng)
        est._remember(X)
    est.n_samples_seen_ = seen + len(X)


def _take_in(est: Any, X: Array, most: int, recalibrate: bool, rng: np.random.Generator) -> None:
    """Mend a batch, and change the landmarks."""
    rows = np.ascontiguousarray(est._units.enter(X), dtype=np.float64)
    L = _draw(est._rows.mender.L, most, rng)
    recovered, found = _mend(est, X)
    first = est._usual_share == 0 and found["outliers_"].any()  # nothing to choose by until now
    if recalibrate or first or _differs(float(found["outliers_"].mean()), est._usual_share, len(X)):
        est._learn(np.vstack([L, _draw(rows, most, rng)]))
        L = L[~est.outliers_[: len(L)]]
        recovered, found = _mend(est, X)
    est.recovered_ = recovered.astype(X.dtype)
    for name, values in found.items():
        setattr(est, name, values)
    wrong = found["outliers_"]
    good = rows[~wrong & ~np.isnan(rows).any(axis=1)]
    fresh = _draw(good, max(1, int(FRESH * most)), rng)
    _settle(est, np.vstack([L, fresh])[-most:])


def _differs(share: float, usual: float, n: int) -> bool:
    return n >= FEW and abs(share - usual) > MUCH


def _mend(est: Any, X: Array) -> tuple[Array, dict[str, Any]]:
    """Return rows mended, a block at a time, and what was found of them."""
    parts = [est._mend_rows(X[some]) for some in _large.blocks(len(X))]
    found = {name: np.concatenate([part[1][name] for part in parts]) for name in parts[0][1]}
    return np.concatenate([part[0] for part in parts]), found


def _draw(rows: Array, most: int, rng: np.random.Generator) -> Array:
    """Return at most so many of the rows, drawn at random, in their order."""
    return rows if len(rows) <= most else rows[np.sort(rng.choice(len(rows), most, replace=False))]


def _settle(est: Any, L: Array) -> None:
    """Make `L` the good rows. Settings and threshold stay; what scores are typical is seen from `L` itself."""
    old = est._rows
    if len(L) == len(old.mender.L) and (L == old.mender.L).all():
        return
    mender = est._mender(L, np.zeros(len(L), dtype=bool))
    est._rows = old.moved_to(mender)
