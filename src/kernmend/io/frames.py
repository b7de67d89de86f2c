"""Arrays and DataFrames as a matrix of floats, and back: same type and columns, untouched values as they were.

Columns that are not numbers are passed through. Where nothing was changed the original value is kept, not its float:
an integer above 2^53 survives.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import narwhals.stable.v2 as narwhals
import numpy as np
from narwhals.stable.v2.dependencies import is_into_dataframe
from numpy.typing import NDArray

from kernmend._typing import Array
from kernmend._validation import unmasked
from kernmend.io._arrays import checked_shape
from kernmend.io._dataset import differing, settled
from kernmend.io._identifiers import measured
from kernmend.io._text import texts_of, unique

# Most characters of the name of a row in a sentence.
LABEL_LENGTH = 24
# Values of a column of texts that are tried as numbers, at most.
TRIED = 100
# Why a column of numbers that are written as texts is passed over.
TEXTS = "numbers as texts, which pandas.to_numeric reads"


@dataclass(frozen=True)
class Table:
    """Data without a file as a matrix, with names and types. `restore` turns a mended matrix into the type it had."""

    X: Array
    restore: Callable[[Array], Any] = lambda A: A
    columns: tuple[str, ...] | None = None
    row_labels: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    bounds: tuple[float, float] | None = None
    integer: NDArray[np.bool_] | None = None
    passed: tuple[str, ...] = ()
    why_passed: Mapping[str, str] = field(default_factory=dict)
    """Why a column is passed over, by its name; of those that are not made of numbers nothing is said."""
    rows: NDArray[np.intp] | None = None
    """The numbers of the rows among those of the data, where some are left out."""
    formats: ClassVar[None] = None
    cells: ClassVar[None] = None


def row_name(source: Any, row: int) -> str:
    """Return the number of a row in its file or table, with its name where it has one.

    `source` has `row_labels`, and `rows` where rows of the file without any number are left out.
    """
    number = str(row if source.rows is None else source.rows[row])
    label = number if source.row_labels is None else source.row_labels[row]
    if label == number:
        return number
    return f"{number} · {label if len(label) <= LABEL_LENGTH else label[: LABEL_LENGTH - 1] + '…'}"


def as_table(
    X: Any,
    columns: Sequence[str] | None = None,
    image_shape: tuple[int, ...] | None = None,
    keep: Sequence[str] = (),
) -> Table:
    """Return a pandas or polars DataFrame, or an array, as a table.

    `columns` names those of a DataFrame to mend, `keep` those to leave as they are.
    """
    table = _as_table(X, None if columns is None else texts_of(columns), texts_of(keep))
    if image_shape is None:
        return table
    shape = checked_shape(image_shape)
    if np.shape(table.X)[1:] != (math.prod(shape),):
        said = "x".join(map(str, shape))
        raise ValueError(f"an image of {said} has {math.prod(shape)} values, X is {np.shape(table.X)}")
    return replace(table, image_shape=shape)


def _as_table(X: Any, columns: Sequence[str] | None, keep: Sequence[str]) -> Table:
    """Return a DataFrame or an array as a table, without the shape of images."""
    module = type(X).__module__.partition(".")[0]
    if module == "pandas" and hasattr(X, "iloc") and X.ndim == 2:
        kinds = [_kind(X.iloc[:, j]) for j in range(X.shape[1])]
        return _measured(partial(_of_pandas, X), unique([*map(str, X.columns)]), kinds, columns, keep)
    if module not in ("numpy", "builtins", "pandas") and is_into_dataframe(X):
        frame = narwhals.from_native(X, eager_only=True)
        kinds = ["number" if kind.is_float() or kind.is_integer() else "" for kind in frame.schema.values()]
        return _measured(partial(_of_frame, frame), list(frame.columns), kinds, columns, keep)
    if columns is not None or keep:
        raise ValueError("columns are chosen by name: X must be a DataFrame or a file")
    if isinstance(X, (Mapping, set, frozenset, bytes)) or np.ndim(X) == 0:
        raise ValueError(f"X must be rows of numbers, a DataFrame or the path of a file, got a {type(X).__name__}")
    if hasattr(X, "toarray"):
        raise ValueError("X is a sparse matrix, and every entry counts here: pass X.toarray()")
    if isinstance(X, np.ma.MaskedArray):
        X = unmasked(X)
    return _of_array(np.asarray(X) if isinstance(X, (list, tuple)) or hasattr(X, "__array__") else X)


def _measured(
    make: Callable[[Sequence[int]], Table],
    names: Sequence[str],
    kinds: Sequence[str],
    columns: Sequence[str] | None,
    keep: Sequence[str],
) -> Table:
    """Return a DataFrame as a table without columns to keep, empty ones and, if none were asked for, identifiers.

    `make` makes it of the columns with given numbers, without their names; `names` and `kinds` are those of all
    columns. Names differ: the second "x" is "x (2)", as it is in a file.
    """
    keep = [name for one in keep for name in _named(one, names)]
    why = {name: TEXTS for name, kind in zip(names, kinds, strict=True) if kind == "texts"}
    if "number" not in kinds:
        hint = f": {names[kinds.index('texts')]!r} holds {TEXTS}" if why else ""
        raise ValueError(f"there is no column of numbers to mend{hint}")
    chosen = _choose(names, kinds, columns)
    table = make(chosen)
    if not len(table.X):
        raise ValueError("X has columns and no rows")
    if columns is None:
        present: list[bool] = np.asarray(~np.isnan(table.X).all(axis=0)).tolist()
        stay = np.array([full and names[j] not in keep for j, full in zip(chosen, present, strict=True)])
        why |= {names[j]: "to be kept" if full else "empty" for j, full in zip(chosen, present, strict=True)}
        if stay.any() and table.integer is not None:
            some = [names[j] for j, one in zip(chosen, stay, strict=True) if one]
            stay[stay], identifiers = measured(some, table.X[:, stay], table.integer[stay])
            why |= identifiers
        if not stay.all():
            chosen = [j for j, one in zip(chosen, stay, strict=True) if one]
            table = make(chosen)
    passed = tuple(name for j, name in enumerate(names) if j not in set(chosen))
    why = dict.fromkeys(passed, "not asked for") if columns is not None else {n: why[n] for n in passed if n in why}
    return replace(table, columns=tuple(names[j] for j in chosen), passed=passed, why_passed=why)


def _kind(column: Any) -> str:
    """Return "number" for a column of pandas that holds numbers, "texts" for numbers written as texts, else nothing."""
    import pandas as pd

    if pd.api.types.is_float_dtype(column.dtype) or pd.api.types.is_integer_dtype(column.dtype):
        return "number"  # neither bool nor complex
    if not (pd.api.types.is_object_dtype(column.dtype) or pd.api.types.is_string_dtype(column.dtype)):
        return ""
    inside = pd.api.types.infer_dtype(column, skipna=True)
    if inside in ("floating", "integer", "mixed-integer-float"):
        return "number"
    some = column.dropna().head(TRIED)
    written = inside == "string" and len(some) and pd.to_numeric(some, errors="coerce").notna().all()
    return "texts" if written else ""


def _named(column: str, known: Sequence[str]) -> Sequence[str]:
    """Return the columns that a name, or first..last, stands for; ValueError if there are none."""
    first, _, last = column.partition("..")
    if column in known:
        return [column]
    if first in known and last in known and known.index(first) <= known.index(last):
        return known[known.index(first) : known.index(last) + 1]
    raise ValueError(f"there is no column {column!r} to keep")


def settle(A: Array, table: Any) -> Array:
    """Return mended values as they can be given back: integers rounded, changed values within the natural range."""
    return settled(A, table.X, table.integer, table.bounds, table.formats)


def _of_array(X: Any) -> Table:
    """Return an array as a table; one that is no matrix of numbers as it is, to be refused later."""
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "iufbOUS":
        return Table(X)  # the estimator says what is wrong with it
    if X.dtype.kind in "bOUS":
        return Table(X.astype(np.float64))
    if X.dtype.kind == "f":
        values = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        return Table(values, lambda A: A.astype(X.dtype, copy=False))
    limits = _limits(X.dtype)

    def restore(A: Array) -> Any:
        if np.isnan(A).any():  # which no array of integers holds
            return A.copy()
        out = X.copy()
        where = differing(A, values)
        out[where] = _integers(A[where], limits)
        return out

    values = X.astype(np.float64)
    return Table(values, restore, integer=np.ones(X.shape[1], dtype=bool))


def _whole(column: Any) -> bool:
    """Return whether a column of pandas holds whole numbers by its type, or as objects."""
    import pandas as pd

    kind = column.dtype
    as_objects = pd.api.types.is_object_dtype(kind) and pd.api.types.infer_dtype(column, skipna=True) == "integer"
    return bool(pd.api.types.is_integer_dtype(kind) or as_objects)


def _of_pandas(X: Any, chosen: Sequence[int]) -> Table:
    """Return the columns of a pandas DataFrame with the given numbers, which hold numbers, as a table."""
    import pandas as pd

    parts = [X.iloc[:, j] for j in chosen]
    values = _matrix(
        [part.to_numpy(dtype=np.float64, na_value=np.nan) for part in parts],
        single=all(part.dtype == np.float32 for part in parts),
    )

    def restore(A: Array) -> Any:
        out = X.copy()
        for j, part, new, old in zip(chosen, parts, A.T, values.T, strict=True):
            if (where := differing(new, old)).any():
                dtype: Any = part.dtype
                if np.isnan(new).any() and isinstance(dtype, np.dtype) and dtype.kind in "iu":  # holds no NaN
                    dtype = dtype.name.replace("int", "Int").replace("u", "U")
                out.isetitem(j, pd.Series(_merged(part, new, where), index=X.index, dtype=dtype))
        return out

    integer = np.array([_whole(part) for part in parts])
    plain = isinstance(X.index, pd.RangeIndex)
    labels = None if plain else tuple(map(str, X.index))
    return Table(values, restore, row_labels=labels, integer=integer)


def _of_frame(frame: Any, chosen: Sequence[int]) -> Table:
    """Return the columns with the given numbers of a DataFrame of narwhals, of polars or pyarrow, as a table.

    Those of pandas go another way: here their nullable types would become others, and names may not be double.
    """
    names = frame.columns
    parts = [frame[names[j]] for j in chosen]
    values = _matrix(
        [part.to_numpy().astype(np.float64) for part in parts],  # a cast of Arrow refuses integers above 2^53
        single=all(part.dtype == narwhals.Float32 for part in parts),
    )

    def restore(A: Array) -> Any:
        new = [
            narwhals.new_series(
                part.name, _merged(part, column, differing(column, old)), part.dtype, backend=frame.implementation
            )
            for part, column, old in zip(parts, A.T, values.T, strict=True)
        ]
        return frame.with_columns(new).to_native()

    integer = np.array([part.dtype.is_integer() for part in parts])
    return Table(values, restore, integer=integer)


def _merged(part: Any, new: Array, where: NDArray[np.bool_]) -> list[Any]:
    """Return the values of a column, those that changed replaced."""
    out: list[Any] = part.to_list()
    values = new[where].tolist()
    limits = _limits(part.dtype)
    if limits is not None or (str(part.dtype) == "object" and _whole(part)):
        values = _integers(new[where], limits)
    for position, value in zip(np.flatnonzero(where), values, strict=True):
        out[position] = value
    return out


def _limits(dtype: Any) -> tuple[int, int] | None:
    """Return the range of an integer dtype of NumPy, pandas ("Int64") or polars; None for floats."""
    try:
        info = np.iinfo(str(dtype).lower().partition("[")[0])
    except (TypeError, ValueError):
        return None
    return int(info.min), int(info.max)


def _integers(values: Array, limits: tuple[int, int] | None) -> list[int | None]:
    """Return values rounded to integers within the limits, by default those of 64 bits; None for NaN."""
    low, high = limits or (-(2**63), 2**63 - 1)
    return [None if math.isnan(value) else min(max(round(value), low), high) for value in values.tolist()]


def _matrix(parts: list[Array], *, single: bool) -> Array:
    """Return columns as a matrix, float32 if `single`; ValueError if there are none."""
    if not parts:
        raise ValueError("there is no column of measured numbers to mend")
    return np.column_stack(parts).astype(np.float32 if single else np.float64, copy=False)


def _choose(names: Sequence[str], kinds: Sequence[str], wanted: Sequence[str] | None) -> list[int]:
    """Return the numbers of the columns to mend: all that hold numbers, or those asked for."""
    if wanted is None:
        return [j for j, kind in enumerate(kinds) if kind == "number"]
    for name in wanted:
        if name not in names:
            raise ValueError(f"there is no column {name!r}")
    chosen = [j for j, name in enumerate(names) if name in wanted]
    for j in chosen:
        if kinds[j] != "number":
            held = f"holds {TEXTS}" if kinds[j] == "texts" else "does not hold numbers"
            raise ValueError(f"column {names[j]!r} {held}")
    return chosen
