"""Lexicographic order: that of sorting by every column."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernmend.linalg.distances import lexicographic, same_as_before


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), d=st.integers(1, 90), kinds=st.integers(1, 3))
def test_the_order_is_that_of_all_columns(seed, n, d, kinds):
    """Columns of few kinds of values, NaN among them, and equal rows: the first columns do not tell rows apart."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, kinds, (n, d)).astype(float)
    rows[:, : d // 2] = 1.0
    rows[rng.random((n, d)) < 0.1] = np.nan
    rows = rows[rng.integers(0, n, n)]
    np.testing.assert_array_equal(lexicographic(rows), np.lexsort(rows.T[::-1]))


@given(seed=st.integers(0, 2**32 - 1))
def test_rows_that_are_equal_to_the_one_before(seed):
    rows = np.random.default_rng(seed).integers(0, 2, (40, 2)).astype(float)
    rows[rows == 0] = np.nan
    expected = [np.array_equal(a, b, equal_nan=True) for a, b in zip(rows[1:], rows[:-1], strict=True)]
    np.testing.assert_array_equal(same_as_before(rows), expected)
