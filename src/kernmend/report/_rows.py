"""The rows before and after: which ones to show, and whether as pictures, curves or a table."""

import math
import re
from itertools import pairwise
from typing import Any

import numpy as np

from kernmend._typing import Array
from kernmend.io._arrays import checked_shape
from kernmend.repair.units import spreads
from kernmend.report._given import Given, Rows, rounded

PICTURES, CURVES, TABLE = "pictures", "curves", "table"
# Number of columns, with names that count up, from which on a row is a curve.
ORDERED_COLUMNS = 8
# Number of columns without names from which on a row is a curve.
MANY_COLUMNS = 16
# Largest number of columns that a table shows.
WIDE_TABLE = 40
# Largest number of points of a curve.
CURVE_POINTS = 400
# Largest number of pixels along the edge of a picture; larger ones are made smaller.
PICTURE_SIDE = 96
# Largest number of values of all rows shown, before and after: about 3 MB as text.
MAX_VALUES = 350_000
# Numbers of significant digits: of values that are drawn, and of those in a table.
DRAWN_DIGITS, READ_DIGITS = 6, 12
# Change of a cell, as a share of the spread of its column, above which it is marked.
MARKED = 0.01


def choose_view(columns: tuple[str, ...] | None, n_columns: int, image_shape: Any) -> str:
    """Return how rows are best looked at.

    >>> choose_view(("400 nm", "410 nm", "420 nm") + tuple(f"{w} nm" for w in range(430, 500, 10)), 10, None)
    'curves'
    >>> choose_view(("height", "weight", "age"), 3, None)
    'table'
    """
    if image_shape is not None:
        return PICTURES
    if columns is None:
        return CURVES if n_columns >= MANY_COLUMNS else TABLE
    return CURVES if n_columns >= ORDERED_COLUMNS and count_up(columns) else TABLE


def count_up(columns: tuple[str, ...]) -> bool:
    """Return whether the names are one text around a number that rises, or falls, from each to the next."""
    parts = [re.fullmatch(r"(\D*?)(-?\d+(?:\.\d+)?)(\D*)", name.strip()) for name in columns]
    if not all(parts):
        return False
    around = {(part.group(1), part.group(3)) for part in parts if part}
    steps = np.diff([float(part.group(2)) for part in parts if part])
    return len(around) == 1 and bool((steps > 0).all() or (steps < 0).all())


def check_image_shape(image_shape: Any, n_columns: int) -> tuple[int, ...] | None:
    """Return the shape of the images as a tuple, None for none; ValueError if the rows do not have it."""
    if image_shape is None:
        return None
    try:
        shape = checked_shape(image_shape)
    except ValueError:
        shape = ()
    if not shape or math.prod(shape) != n_columns:
        raise ValueError(
            f"image_shape must be (height, width) or (height, width, 3) with a product of {n_columns}, the number of "
            f"columns, got {image_shape!r}"
        )
    return shape


def row_facts(given: Given, rows: Rows, max_rows: int, view: str, image_shape: Any, bounds: Any) -> dict[str, Any]:
    """Return rows, worst first as given, before, after and the difference, reduced to what can be shown."""
    width = _shown_width(view, given.shape[1], image_shape)
    shown = rows[: max(1, min(max_rows, MAX_VALUES // (2 * width)))]
    before, after = given.before(shown), given.after(shown)
    spread = _spread(given.recovered)
    facts: dict[str, Any] = {"view": view, "columns": None, "image_shape": None, "range": None, "positions": None}
    marked = np.isnan(before) | (np.abs(after - before) > MARKED * spread)
    if view == PICTURES:
        before, after, facts["image_shape"] = _pictures(before, after, image_shape)
        facts["range"] = rounded(bounds if bounds is not None else _range(given.recovered))
        marked_rows: list[list[int]] = [[] for _ in shown]
    elif view == CURVES:
        before, after, facts["positions"] = _curves(before, after)
        ends = (0, -1)
        facts["columns"] = [given.columns[end] for end in ends] if given.columns is not None else None
        facts["range"] = rounded(_range(given.recovered))
        marked_rows = [[] for _ in shown]
    else:
        columns = _table_columns(before, after, spread)
        facts["columns"] = [given.columns[j] if given.columns else f"column {j}" for j in columns.tolist()]
        facts["positions"] = columns.tolist()
        facts["spread"] = rounded(spread[columns])
        before, after, marked = before[:, columns], after[:, columns], marked[:, columns]
        marked_rows = [np.flatnonzero(cells).tolist() for cells in marked]
    changes = (np.isnan(given.before(shown)) | (given.before(shown) != given.after(shown))).sum(axis=1).tolist()
    digits = DRAWN_DIGITS if view in (PICTURES, CURVES) else READ_DIGITS
    values = (rounded(some, digits) for some in (before, after, after - before))
    parts = zip(shown.tolist(), changes, marked_rows, *values, strict=True)
    names = ("row", "changed", "marked", "before", "after", "difference")
    return facts | {"shown": [dict(zip(names, part, strict=True)) for part in parts], "n_columns": given.shape[1]}


def _shown_width(view: str, n_columns: int, image_shape: Any) -> int:
    if view == PICTURES:
        step = _step(image_shape)
        return max(1, n_columns // step**2)
    return min(n_columns, CURVE_POINTS if view == CURVES else WIDE_TABLE)


def _step(image_shape: Any) -> int:
    return int(np.ceil(max(image_shape[:2]) / PICTURE_SIDE))


def _pictures(before: Array, after: Array, shape: Any) -> tuple[Array, Array, list[int]]:
    """Return images with the longer side at most `PICTURE_SIDE`, by means over squares of pixels."""
    step, (height, width) = _step(shape), shape[:2]
    if step == 1:
        return before, after, list(shape)
    tall, wide = max(1, height // step), max(1, width // step)

    def smaller(X: Array) -> Array:
        images = X.reshape(len(X), height, width, -1)[:, : tall * step, : wide * step]
        blocks = images.reshape(len(X), tall, min(step, height), wide, min(step, width), -1)
        out: Array = blocks.mean(axis=(2, 4)).reshape(len(X), -1)
        return out

    return smaller(before), smaller(after), [tall, wide, *shape[2:]]


def _curves(before: Array, after: Array) -> tuple[Array, Array, list[int]]:
    """Return at most `CURVE_POINTS` values of each row: of neighbours the one that changed most, to lose no spike."""
    n_columns = before.shape[1]
    edges = np.linspace(0, n_columns, min(n_columns, CURVE_POINTS) + 1).astype(np.intp)
    if len(edges) == n_columns + 1:
        return before, after, list(range(n_columns))
    change = np.nan_to_num(np.abs(after - before), nan=np.inf)
    picks = np.stack([a + change[:, a:b].argmax(axis=1) for a, b in pairwise(edges.tolist())], axis=1)
    centres = ((edges[:-1] + edges[1:] - 1) // 2).tolist()
    return np.take_along_axis(before, picks, axis=1), np.take_along_axis(after, picks, axis=1), centres


def _table_columns(before: Array, after: Array, spread: Array) -> Rows:
    """Return the columns to show, in their order: all, or those that changed most."""
    n_columns = before.shape[1]
    if n_columns <= WIDE_TABLE:
        return np.arange(n_columns)
    change = np.nan_to_num(np.abs(after - before), nan=np.inf) / spread
    return np.sort(np.argsort(-change.max(axis=0, initial=0.0), kind="stable")[:WIDE_TABLE])


def _spread(recovered: Array) -> Array:
    """Return the standard deviation of each column; what most values span where it is 0 or infinite, 1.0 for none.

    Values that were left blank do not count.
    """
    rows = recovered[:: len(recovered) // 2000 + 1].astype(np.float64)
    with np.errstate(over="ignore"):
        out: Array = np.nanstd(rows, axis=0)
    return np.where(np.isfinite(out) & (out > 0), out, spreads(rows))


def _range(recovered: Array) -> list[float]:
    low, high = float(np.nanmin(recovered)), float(np.nanmax(recovered))
    return [low, high] if high > low else [low - 0.5, high + 0.5]
