"""Dask: landmarks are drawn in one pass over the blocks, and the workers mend the blocks against them.

The client holds the landmarks and, once they are asked for, the scores; never the data. What goes to the workers is the
estimator as the landmarks made it, once to each of them: a block is then mended as it would be in memory.
"""

import copy
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from kernmend._typing import Array
from kernmend._validation import check_infinite, check_missing
from kernmend.large import landmarks
from kernmend.repair.units import resolve_bounds

OF_ROWS = {  # lazy after a fit to a lazy array, with their dtypes
    "recovered_": "f8", "outlier_scores_": "f8", "outliers_": "?", "suspects_": "?", "whole_rows_": "?",
    "entry_outliers_": "?", "unsure_": "?", "half_widths_": "f4",
}  # fmt: skip


# --- fit --------------------------------------------------------------------------------------------------------------


def fit(est: Any, X: Any) -> None:
    """Learn from landmarks of `X`, the same as of the same rows in memory; the attributes of rows are lazy."""
    dask = import_module("dask")
    parts = _parts(X)
    sizes = _sizes(X, parts)
    starts = [0, *np.cumsum(sizes).tolist()]
    learner = est._learner()
    n, most = starts[-1], est._most_landmarks
    drawn = landmarks.draw_landmarks(n, most, learner.seed) if n > most else None
    rows = np.arange(n) if drawn is None else np.sort(drawn)
    cuts = np.searchsorted(rows, starts)
    take, names = dask.delayed(_take, pure=False), _names(X)
    taken = dask.compute(
        *[
            take(part, start, rows[low:high] - start, names)
            for part, start, low, high in zip(parts, starts, cuts, cuts[1:], strict=False)
        ]
    )
    observed = np.any([facts[1] for facts in taken], axis=0)
    check_missing(np.where(observed, 0.0, np.nan)[np.newaxis], names)
    learned = est._validate(_together([facts[0] for facts in taken]), reset=True, ensure_min_samples=2)
    resolve_bounds(est.bounds, learned)  # refused before the work
    with est._far_values(learned):
        if drawn is not None and isinstance(est.landmarks, str):
            order = np.searchsorted(rows, drawn)
            few = np.sort(order[: landmarks.count_landmarks(n, learned[order], learner)])
            learned, rows = learned[few], rows[few]
        est._store(learner.learn(learned))
    est._tell(learned)
    est._of_landmarks = {name: vars(est)[name] for name in OF_ROWS if name in vars(est)}
    del est.entry_scores_  # as large as the data: of rows that are all compared only
    est._landmark_rows, est.n_missing_ = rows, int(sum(facts[2] for facts in taken))
    _make_lazy(est, X, parts, sizes, starts)


def _make_lazy(est: Any, X: Any, parts: Sequence[Any], sizes: Sequence[int], starts: Sequence[int]) -> None:
    """Put lazy arrays in the place of what was found of the landmarks."""
    dask, operator = import_module("dask"), import_module("operator")
    model, mend, pick = share(est), dask.delayed(mend_block, pure=False), dask.delayed(operator.getitem, pure=False)
    mended = [mend(model, part, start) for part, start in zip(parts, starts, strict=False)]
    is_frame = hasattr(X, "to_dask_array")
    frame = dask.delayed(_as_frame, pure=False)
    values = [pick(part, 0) for part in mended]
    if is_frame:
        values = [frame(value, part) for value, part in zip(values, parts, strict=True)]
    est.recovered_ = _like(X, values, sizes)
    for number, (name, dtype) in enumerate(list(_of_rows(est).items())[1:], start=1):
        width = vars(est)[name].shape[1:]
        setattr(est, name, _stack([pick(part, number) for part in mended], sizes, width, dtype))


def _of_rows(est: Any) -> dict[str, str]:
    """Return what is known of each row, with its dtype: half-widths only where intervals were asked for."""
    return {name: dtype for name, dtype in OF_ROWS.items() if name in vars(est)}


def _take(block: Any, start: int, places: Any, names: Any) -> tuple[Any, Any, int]:
    """Return the landmarks of a block, the columns with values, and how many are missing; check it on the way."""
    values = _numbers(block)
    missing = np.isnan(values)
    try:
        check_infinite(values, names)
        if missing.any():
            check_missing(np.vstack([values, np.zeros_like(values[:1])]), names)
    except ValueError as error:
        raise ValueError(f"in the block that begins at row {start}: {error}") from None
    landmarks = block.iloc[places] if hasattr(block, "iloc") else block[places]
    return landmarks, (~missing).any(axis=0), int(missing.sum())


def mend_block(model: Any, block: Any, start: int) -> tuple[Any, ...]:
    """Return the rows of a block mended, and what was found of them, in the order of `OF_ROWS`.

    Landmarks keep what the fit found of them. `start` is the number of the block's first row.
    """
    X = model._validate(block, reset=False) if len(block) else _numbers(block)
    low, high = np.searchsorted(model._landmark_rows, [start, start + len(X)])
    known = {name: getattr(model, name)[low:high].astype(dtype) for name, dtype in _of_rows(model).items()}
    places, recovered = model._landmark_rows[low:high] - start, known.pop("recovered_")
    with model._far_values(X):
        good = model._certainly_good(len(X))
        mended, found, interrupted = landmarks.mend_others(model._rows, X, places, recovered, known, good, first=start)
    if interrupted:
        raise KeyboardInterrupt
    return (mended, *found.values())


# --- the rows of a lazy array, one block at a time --------------------------------------------------------------------


def by_rows(est: Any, method: str, X: Any) -> Any:
    """Return lazily what a method of a fitted estimator says of each row."""
    dask = import_module("dask")
    if X.shape[1] != est.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(est).__name__} is expecting {est.n_features_in_} features as input"
        )
    model, apply, parts = share(est), dask.delayed(_apply, pure=False), _parts(X)
    out = [apply(model, method, part) for part in parts]
    sizes = [np.nan] * len(parts) if hasattr(X, "to_dask_array") else X.chunks[0]
    return _like(X, out, sizes) if method == "transform" else _stack(out, sizes, (), "f8")


def _apply(model: Any, method: str, block: Any) -> Any:
    if not len(block):  # scikit-learn refuses such
        return _as_frame(_numbers(block), block) if method == "transform" else np.zeros(0, "f8")
    out = np.asarray(getattr(model, method)(block))
    return _as_frame(out, block) if method == "transform" else out


# --- what an estimator is after a fit to a lazy array -----------------------------------------------------------------


def of_landmarks(est: Any) -> Any:
    """Return the estimator, after a fit to a lazy array with what it found of the landmarks, in memory."""
    if "_of_landmarks" not in vars(est):
        return est
    out = copy.copy(est)
    vars(out).update(est._of_landmarks)
    for name in ("_of_landmarks", "_gathered"):
        vars(out).pop(name, None)
    return out


def gathered(est: Any) -> Any:
    """Return the estimator, after a fit to a lazy array with scores and flags in memory; they are computed once."""
    if "_of_landmarks" not in vars(est):
        return est
    if "_gathered" not in vars(est):
        est._gathered = import_module("dask").compute(est.outlier_scores_, est.outliers_)
    out = copy.copy(est)
    out.outlier_scores_, out.outliers_ = est._gathered
    for name in ("suspects_", "entry_outliers_", "whole_rows_", "unsure_", "half_widths_"):  # lazy, most as large as X
        vars(out).pop(name, None)
    return out


def forget(est: Any) -> None:
    """Remove what only a fit to a lazy array, or one in batches, leaves."""
    for name in ("_of_landmarks", "_gathered", "_landmark_rows", "n_missing_", "n_samples_seen_"):
        vars(est).pop(name, None)


def share(est: Any) -> Any:
    """Return the fitted estimator as a task: on a cluster it is sent now, and lives there as long as it is needed.

    It is a result like others, not scattered data, so that it survives the loss of a worker.
    """
    dask, model = import_module("dask"), of_landmarks(est)
    client = _client()
    if client is None:
        return dask.delayed(model, pure=False, traverse=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")
        return dask.delayed(client.submit(_same, model, pure=False))


def _same(value: Any) -> Any:
    return value


def _client() -> Any:
    """Return the client of the cluster in use; None without one."""
    try:
        return import_module("distributed").get_client()
    except (ImportError, ValueError):
        return None


# --- blocks -----------------------------------------------------------------------------------------------------------


def _parts(X: Any) -> list[Any]:
    """Return blocks of whole rows."""
    if hasattr(X, "to_dask_array"):
        if getattr(X, "ndim", 2) != 2:
            raise ValueError("X must have rows and columns: reshape a dask series with to_frame()")
        for name, dtype in X.dtypes.items():
            if getattr(dtype, "kind", "O") not in "biuf":
                raise ValueError(f"column {name!r} of X does not hold numbers: leave it out")
        return list(X.to_delayed())
    if getattr(X, "ndim", 0) != 2 or not hasattr(X, "rechunk"):
        raise ValueError("X must be a dask array of rows and columns or a dask dataframe")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers, not {X.dtype}")
    return list(X.rechunk({1: -1}).to_delayed().ravel())


def _sizes(X: Any, parts: Sequence[Any]) -> list[int]:
    """Return how many rows each block has; those of a dataframe must be counted."""
    if not hasattr(X, "to_dask_array") and not np.isnan(X.chunks[0]).any():
        return list(X.chunks[0])
    dask = import_module("dask")
    return list(dask.compute(*map(dask.delayed(len, pure=False), parts)))


def _names(X: Any) -> Any:
    return np.array(X.columns, dtype=object) if hasattr(X, "to_dask_array") else None


def _numbers(block: Any) -> Array:
    """Return the values of a block as they will be mended."""
    if hasattr(block, "iloc"):
        values: Array = block.to_numpy(dtype=_float_type(block.dtypes), na_value=np.nan)
        return values
    return np.asarray(block, dtype=_float_type([block.dtype]))


def _float_type(dtypes: Any) -> Any:
    return np.float32 if all(dtype == np.float32 for dtype in dtypes) else np.float64


def _together(parts: Sequence[Any]) -> Any:
    if hasattr(parts[0], "iloc"):
        return import_module("pandas").concat(parts)
    return np.concatenate(parts)


def _as_frame(values: Array, like: Any) -> Any:
    """Return mended values with the index and columns of their block, if it has such."""
    if not hasattr(like, "iloc"):
        return values
    return import_module("pandas").DataFrame(values, index=like.index, columns=like.columns)


def _like(X: Any, parts: Sequence[Any], sizes: Sequence[Any]) -> Any:
    """Return mended blocks as what they come from: an array of the same chunks, a dataframe of the same divisions."""
    if hasattr(X, "to_dask_array"):
        frame = import_module("dask.dataframe")
        meta = X._meta.astype(_float_type(X.dtypes))
        return frame.from_delayed(
            parts, meta=meta, divisions=X.divisions if X.known_divisions else None, verify_meta=False
        )
    return _stack(parts, sizes, (X.shape[1],), _float_type([X.dtype])).rechunk({1: X.chunks[1]})


def _stack(parts: Sequence[Any], sizes: Sequence[Any], width: tuple[int, ...], dtype: Any) -> Any:
    array = import_module("dask.array")
    blocks = [array.from_delayed(part, (size, *width), dtype) for part, size in zip(parts, sizes, strict=True)]
    return array.concatenate(blocks, allow_unknown_chunksizes=True)
