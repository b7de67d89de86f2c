"""What reading and writing a table take of memory: at most four times the file, mended numbers included."""

import tracemalloc

import numpy as np
import pytest

from kernmend.io import read, without_empty

KINDS = {
    "plain": (5_000, 20, "{:.6f}", ","),
    "wide": (150, 1000, "{:.6f}", ","),
    "few rows": (48, 4000, "{:.6f}", ","),
    "one column": (150_000, 1, "{:.6f}", ","),
    "letters outside Latin-1": (10_000, 20, "{:.3f} €", ";"),
    "quotes": (5_000, 20, '"{:.6f}"', ","),
}
"""Rows, columns, the format of a number, and the delimiter."""


def made(path, kind, *, empty=False):
    n, d, format, delimiter = KINDS[kind]
    rows = [delimiter.join(map(format.format, row)) for row in np.random.default_rng(0).normal(size=(n, d)).tolist()]
    if empty:
        rows[7] = delimiter * (d - 1)
        rows[8] = delimiter.join(["x", *[""] * (d - 1)])
    path.write_text("\n".join([delimiter.join(f"c{j}" for j in range(d)), *rows, ""]))
    return path


def peak(path, target):
    """Return the most memory that was taken at one time, over the size of the file."""
    tracemalloc.start()
    try:
        data = without_empty(read(path))
        A = data.X.copy()
        A[::50] += 1
        data.write(target, A, force=True)
        return tracemalloc.get_traced_memory()[1] / path.stat().st_size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_four_times_the_file_suffice(tmp_path, kind):
    (tmp_path / "warm.csv").write_text("x,y\n1.5,2\n4,6\n2,9\n")
    peak(tmp_path / "warm.csv", tmp_path / "out.csv")  # imports and patterns are not counted
    assert peak(made(tmp_path / "a.csv", kind), tmp_path / "out.csv") <= 4


def test_rows_that_are_set_aside_cost_one_more_copy_of_the_numbers_at_most(tmp_path):
    path = made(tmp_path / "a.csv", "plain", empty=True)
    assert len(without_empty(read(path)).X) == KINDS["plain"][0] - 2
    assert peak(path, tmp_path / "out.csv") <= 4
