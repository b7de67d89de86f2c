"""What rows are, by their shape and the names of their columns: pictures, curves, or lines of a table."""

import re
from typing import Any

import numpy as np

PICTURES, CURVES, TABLE = "pictures", "curves", "table"
# Number of columns, with names that count up, from which on a row is a curve.
ORDERED_COLUMNS = 8
# Number of columns without names from which on a row is a curve.
MANY_COLUMNS = 16


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
