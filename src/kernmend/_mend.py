"""`kernmend.mend`: arrays, DataFrames and files mended in one call."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernmend import estimators
from kernmend._methods import METHODS
from kernmend._typing import Array
from kernmend._validation import check_infinite
from kernmend.estimators._summary import by_chance
from kernmend.estimators._summary import summary as in_words
from kernmend.io import ChangeLog, Dataset, read, without_empty
from kernmend.io._dataset import differing
from kernmend.io._number_format import describe
from kernmend.io._text import texts_of
from kernmend.io.changes import Found, kept_rows, make_log, words_on_kept, worst_rows
from kernmend.io.frames import Table, as_table, row_name, settle
from kernmend.io.known import LABELS, Known, known_in_file, known_rows
from kernmend.large.dask import gathered

KNOW_GOOD_ROWS = ("kernel", "search")  # methods that take rows known to be good


@dataclass(frozen=True, repr=False)
class Mended:
    """What `mend` found and did.

    Attributes
    ----------
    data : array or DataFrame
        The mended data, of the type of the input; for a file, the matrix of its numbers. Where `unsure="blank"` leaves
        integers blank, an array of them becomes one of floats, and a column of pandas one of its "Int64".
    flags : ndarray of bool, shape (n_samples,)
        The rows that count as wrong.
    scores : ndarray of shape (n_samples,)
        How wrong each row looks; higher is worse.
    suspects : ndarray of bool, shape (n_samples,)
        The rows that are unusual and were not changed.
    estimator : Recovery
        The fitted estimator, with everything else: `save`, `transform` for new rows, `report_data`.

    Examples
    --------
    >>> import kernmend
    >>> from kernmend.datasets import make_circle
    >>> X = make_circle(60).X
    >>> X[7] = [0.4, 0.4]
    >>> mended = kernmend.mend(X)
    >>> int(mended.flags.sum()), len(mended.changes)
    (1, 2)
    """

    data: Any
    flags: NDArray[np.bool_]
    scores: Array
    suspects: NDArray[np.bool_]
    estimator: Any
    _source: Any = field(repr=False)
    _settled: Array = field(repr=False)

    def __repr__(self) -> str:
        from kernmend.report import notebook

        return f"<Mended: {notebook.as_line(self)}>"

    def _repr_html_(self) -> str:
        from kernmend.report import notebook

        among = np.zeros(len(self.flags), dtype=bool)
        ranked = np.lexsort((-self.scores, ~self.flags, ~self.changed.any(axis=1)))
        among[ranked[: notebook.ROWS]] = True
        return notebook.as_html(self, make_log(self._source, self._settled, self._found, among))

    def plot(self) -> Any:
        """Return a matplotlib figure of the scores and a map of the data, with the worst images if rows are images.

        Returns
        -------
        matplotlib.figure.Figure
            A new figure; `pyplot.show()` shows it outside notebooks.
        """
        from kernmend.report import notebook

        return notebook.figure(self)

    def summary(self) -> str:
        """Return in plain words what was found and what was chosen.

        Returns
        -------
        str
            A few lines of text.
        """
        out = [in_words(gathered(self.estimator), partial(row_name, self._source))]
        out += words_on_kept(self._source, self._kept)
        if self._source.passed:
            why = self._source.why_passed
            passed = [f"{name} ({why[name]})" if name in why else name for name in self._source.passed]
            out.append(f"Passed through untouched: {', '.join(passed)}.")
        return "\n".join([*out, *getattr(self._source, "notes", ())])

    def report(self, path: Any, *, title: str | None = None, force: bool = False) -> Path:
        """Write one HTML page that shows what was found and what was done; return its path.

        Parameters
        ----------
        path : str or Path
            Where to write it.
        title : str, optional
            Heading of the page; by default the name of the file.
        force : bool, default=False
            Overwrite a file that is there already; without it this is an error.

        Returns
        -------
        Path
            Where it was written.
        """
        from kernmend.report import Applied, listed_passed, report_data, telling_of, write_page

        source = self._source
        facts = {name: getattr(source, name) for name in ("columns", "row_labels", "image_shape")}
        if not isinstance(source, Dataset):
            page = self.estimator.report_data(**facts)
            page["columns"] |= listed_passed(passed_over(source))
            return write_page(page, Path(path), title=title, force=force)
        # What the file has: rounded as it writes its numbers.
        found = Applied(self._settled, self.flags, self.scores, self.suspects)
        told = telling_of(self.estimator, source.X, found, entries=True)
        page = report_data(told, file=file_facts(source, self._settled, self._found), **facts)
        return write_page(page, Path(path), title=title or source.source.name, force=force)

    def write(self, path: Any, *, force: bool = False) -> Path:
        """Write the mended data in the format and layout of the file that it came from; return the path.

        Parameters
        ----------
        path : str or Path
            Where to write it.
        force : bool, default=False
            Overwrite a file that is there already; without it this is an error.

        Returns
        -------
        Path
            Where it was written.
        """
        if not isinstance(self._source, Dataset):
            raise ValueError("the data did not come from a file: write .data by what made it (to_csv, np.save, ...)")
        self._source.write(Path(path), self._settled, force=force)
        return Path(path)

    def write_changes(self, path: Any, *, force: bool = False) -> Path:
        """Write the change log as a csv that a person can edit and `kernmend patch` applies; return its path.

        Parameters
        ----------
        path, force : str or Path, bool, default=False
            As in `write`.

        Returns
        -------
        Path
            Where the csv is.
        """
        return self.changes.write(path, force=force)

    @property
    def changes(self) -> ChangeLog:
        """Which cells were changed, from what to what, with interval and reason; for a file, in its own text."""
        return make_log(self._source, self._settled, self._found)

    @property
    def _found(self) -> Found:
        """What was found of rows and cells."""
        from kernmend.report import cell_records

        return Found(self.scores, self.flags, cell_records(self.estimator))

    @property
    def _kept(self) -> list[int]:
        """The flagged rows in which nothing was changed, the worst first."""
        return kept_rows(self._found, np.atleast_1d(self.changed.any(axis=1)))

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Which entries of the numbers are not what they were, filled in ones among them."""
        return differing(self._settled, self._source.X)


def mend(
    X: Any,
    *,
    method: str = "kernel",
    columns: str | Sequence[str] | None = None,
    image_shape: tuple[int, ...] | None = None,
    missing: Any = (),
    keep: str | Sequence[str] = (),
    layout: Mapping[str, Any] | None = None,
    good: Any = None,
    labels: str | None = None,
    **params: Any,
) -> Mended:
    """Find what is wrong in a data set and mend it.

    Parameters
    ----------
    X : array-like, pandas or polars DataFrame, or path
        Rows are samples; NaN is missing and filled in. Columns of a DataFrame or a file that are not numbers are passed
        through. A path is of any file that `kernmend mend` reads.
    method : str, default="kernel"
        "kernel" (`KernelRecovery`), "search" (`RecoverySearch`), "joint" (`KernelLowRank`), "robust-pca" (`RobustPCA`),
        "outlier-pursuit" (`OutlierPursuit`), "low-rank" (`LowRankRepresentation`), "graph" (`GraphRobustPCA`),
        "kernel-pca" (`KernelPCADenoiser`) or "robust-kernel-pca" (`RobustKernelPCA`).
    columns : str or sequence of str, optional
        The columns of a DataFrame or a file to look at; all others are passed through.
    image_shape : (height, width) or (height, width, 3), optional
        If the rows are flattened images: the report shows them as pictures.
    missing : str, number or a sequence of them, optional
        What means a missing value in a file, besides empty cells, NA, NaN and null.
    keep : str or sequence of str, optional
        Columns of a DataFrame or a file that stay as they are; "a..d" are those from a to d.
    layout : dict, optional
        Of a file of text what is not to be found out: "header" (bool), "delimiter", "decimal", "thousands", "encoding".
    good : array-like, DataFrame or path, optional
        More rows of the same columns, known to be good: `X` is held against them. For "kernel" and "search"; what comes
        back is about `X` alone.
    labels : str, optional
        A column of a DataFrame or a file that says "good" or "wrong" of the rows that you know, and nothing of others:
        good ones are never flagged, wrong ones never learned from. For "kernel" and "search".
    **params
        Parameters of the estimator, such as `contamination=0.1` or `error="entries"`.

    Returns
    -------
    Mended
        With `data` of the type of `X`, `flags`, `scores`, `suspects`, `estimator`, `summary()`, `report(path)`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernmend
    >>> angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 200)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> X[[7, 80]] = [[0.4, 0.4], [2.0, 1.0]]
    >>> mended = kernmend.mend(X)
    >>> np.flatnonzero(mended.flags)
    array([ 7, 80])
    >>> bool(abs(np.linalg.norm(mended.data, axis=1) - 1).max() < 0.05)
    True
    """
    if (texts_of(missing) or layout) and not any(isinstance(source, (str, os.PathLike)) for source in (X, good)):
        raise ValueError("missing and layout are for files: in X put NaN where a value is missing")
    options = {"columns": columns, "image_shape": image_shape, "missing": missing, "keep": keep, **(layout or {})}
    source = _as_source(X, **options)
    estimator = make_estimator(method, params, source.bounds)
    reference = None if good is None else good_rows(good, source, method, **options)
    return fit(estimator, source, reference, None if labels is None else known(X, source, labels, method))


def known(X: Any, source: Table | Dataset, labels: str, method: str) -> Known:
    """Return which rows a column says to be good, or wrong; ValueError if it does not, or the method cannot know."""
    if method not in KNOW_GOOD_ROWS:
        raise ValueError(f"labels are for the methods {' and '.join(KNOW_GOOD_ROWS)}, not for {method}")
    if isinstance(source, Dataset):
        return known_in_file(source, labels)
    if source.columns is None or labels not in source.passed:
        raise ValueError(f"labels must name a column of X that is not made of numbers, got {labels!r}")
    return known_rows(list(X[labels]), labels, "X")


def _as_source(X: Any, *, columns: Any, image_shape: Any, keep: Sequence[str], **of_text: Any) -> Table | Dataset:
    if isinstance(X, (str, os.PathLike)):
        return without_empty(read(Path(X), columns=columns, image_shape=image_shape, keep=keep, **of_text))
    return as_table(X, columns, image_shape, keep)


def good_rows(good: Any, source: Table | Dataset, method: str, **options: Any) -> Array:
    """Return rows known to be good with the columns of `source`, by name where both have names, else ValueError.

    `good` is an array, a DataFrame or a path; `options` are those with which `source` was read.
    """
    name = str(good) if isinstance(good, (str, os.PathLike)) else "good"
    if method not in KNOW_GOOD_ROWS:
        raise ValueError(f"good rows are for the methods {' and '.join(KNOW_GOOD_ROWS)}, not for {method}")
    rows = _as_source(good, **options)
    if rows.columns is not None and source.columns is not None and rows.columns != source.columns:
        unknown = [column for column in source.columns if column not in rows.columns + rows.passed]
        if unknown:
            raise ValueError(f"{name} has no column {unknown[0]!r}, which the data have")
        rows = _as_source(good, **options | {"columns": source.columns, "keep": ()})  # the others are not looked at
        places = [(rows.columns or ()).index(column) for column in source.columns]
        X = rows.X[:, np.array(places)]
    else:
        X = rows.X
    if np.ndim(X) != 2 or not len(X) or X.shape[1] != source.X.shape[1]:
        raise ValueError(f"{name} must be rows of {source.X.shape[1]} numbers, as the data are, got {np.shape(X)}")
    try:
        check_infinite(X, source.columns)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return X.astype(source.X.dtype, copy=False)


def make_estimator(method: str, params: dict[str, Any], bounds: Any = None) -> Any:
    """Return the estimator of a method; ValueError that names a parameter it does not have.

    `bounds` are the natural range of the data, taken where the method can and no others are given.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    cls = getattr(estimators, METHODS[method])
    known = set(cls().get_params())
    inner: dict[str, Any] = {}
    if method == "search":  # has the parameters of the search, and within it those of `KernelRecovery`
        inside = set(estimators.KernelRecovery().get_params())
        inner = {name: params[name] for name in params.keys() & (inside - known)}
        known |= inside
    unknown = sorted(params.keys() - known)
    if unknown:
        has = ", ".join(sorted(name for name in known if "__" not in name))
        raise ValueError(f"method {method!r} has no parameter {unknown[0]!r}; it has {has}")
    own = {name: value for name, value in params.items() if name not in inner}
    if bounds is not None and "bounds" in known and params.get("bounds") is None:
        (inner if method == "search" else own)["bounds"] = bounds
    if method == "search":
        own["estimator"] = estimators.KernelRecovery(**inner)
    return cls(**own)


def draws(method: str) -> bool:
    """Return whether an estimator draws something at random, and so has a seed."""
    return hasattr(getattr(estimators, METHODS[method]), "random_state")


def check_source(source: Table | Dataset) -> None:
    """Raise ValueError if the data are no matrix, or says where they are infinite by the names that estimators lack."""
    if np.ndim(source.X) != 2:
        shape = "x".join(map(str, np.shape(source.X)))
        raise ValueError(
            f"X must have rows and columns, got {shape}: one column is X.reshape(-1, 1), images as rows are "
            "X.reshape(len(X), -1)"
        )
    if isinstance(source.X, np.ndarray) and source.X.dtype.kind == "f":
        check_infinite(source.X, source.columns)


def fit(estimator: Any, source: Table | Dataset, good: Array | None = None, rows: Known | None = None) -> Mended:
    """Fit the estimator to what was read, and return the result in its shape.

    `good` are more rows, known to be good, to learn from; `rows` says which of the rows are known.
    """
    check_source(source)
    n = len(source.X)
    rows = Known(np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)) if rows is None else rows
    if good is not None:
        share = getattr(estimator, "estimator", estimator).contamination
        if not isinstance(share, str) and share > 0:
            raise ValueError(f"contamination={share} is a share of all rows: leave it out where good rows are given")
        masks = (np.r_[rows.good, np.ones(len(good), dtype=bool)], np.r_[rows.wrong, np.zeros(len(good), dtype=bool)])
        estimator.fit(np.vstack([source.X, good]), good=masks[0], wrong=masks[1] if masks[1].any() else None)
        estimator._keep_first(n)
    elif rows.good.any() or rows.wrong.any():
        estimator.fit(source.X, good=rows.good, wrong=rows.wrong)
    else:
        estimator.fit(source.X)
    if source.columns is not None:  # so that a saved model knows them; without pandas
        estimator.feature_names_in_ = np.array(source.columns, dtype=object)
    if isinstance(source, Table) and source.row_labels is not None:
        estimator._row_names = np.array(source.row_labels, dtype=object)
    if rows.column is not None:
        source = replace(source, why_passed={**source.why_passed, rows.column: LABELS})
    settled = settle(estimator.recovered_, source)
    data = source.restore(settled) if isinstance(source, Table) else settled
    found = estimator.outliers_, estimator.outlier_scores_, _suspects(estimator)
    return Mended(data, *found, estimator, source, settled)


def file_facts(data: Dataset, A: Array, found: Found) -> Any:
    """Return what a report tells of a file that was mended to `A`: its name, its changes, what its columns are."""
    from kernmend.report import MOST_CELLS, FileFacts

    among, total = worst_rows(data, A, found, MOST_CELLS)
    types = tuple(
        "pixel" if data.image_shape is not None else describe(whole, None if data.formats is None else data.formats[j])
        for j, whole in enumerate(data.integer.tolist())
    )
    passed = passed_over(data)
    name = data.source.name if data.member is None else f"{data.source.name}::{data.member}"
    return FileFacts(name, make_log(data, A, found, among), total, types, passed, data.rows, found.records)


def passed_over(source: Table | Dataset) -> tuple[tuple[str, str], ...]:
    """Return the columns that were passed over, each with the reason."""
    return tuple((name, source.why_passed.get(name, "not made of numbers")) for name in source.passed)


def _suspects(estimator: Any) -> NDArray[np.bool_]:
    """Return which rows are unusual and not flagged; none where the method does not say."""
    out: NDArray[np.bool_] = getattr(estimator, "suspects_", np.zeros(len(estimator.outliers_), dtype=bool))
    return out


class Scored(NamedTuple):
    """How wrong each row looks, which are flagged, the threshold, and which are unusual but not flagged.

    `by_chance` says whether scores are -log10 of the chance of a good row being as far out.
    """

    scores: Array
    flags: NDArray[np.bool_]
    threshold: float
    suspects: NDArray[np.bool_]
    by_chance: bool = True


def score(estimator: Any, X: Array) -> Scored:
    """Return what a fit would score and flag. Where rows are scored before they are mended, none is mended."""
    inner = estimator.estimator if isinstance(estimator, estimators.RecoverySearch) else estimator
    if isinstance(inner, estimators.KernelRecovery):
        return Scored(*inner._find_only(X))
    estimator.fit(X)
    found = estimator.outlier_scores_, estimator.outliers_, estimator.threshold_, _suspects(estimator)
    return Scored(*found, by_chance=by_chance(estimator))
