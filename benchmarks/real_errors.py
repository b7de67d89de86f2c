"""Gross errors of tables, as people make them: spikes, units, codes for missing values, exchanged and copied cells."""

import numpy as np

from benchmarks.real_sample import Sample, robust_sd, some_rows

SHARE = 0.05  # of the rows
SEVEN_KINDS = ("spike 10", "spike 5", "times 100", "-999", "exchanged", "drawn", "shift 4")
TABLE_KINDS = (*SEVEN_KINDS, "column -999", "equal 2", "equal 4", "equal 9", "clean")


def corrupt_table(
    table: np.ndarray, kind: str, rng: np.random.Generator, *, share: float = SHARE, units: np.ndarray | None = None
) -> Sample:
    """Return the table with one kind of error in a share of its rows; entries that did not change are not wrong."""
    X, (n, d) = table.copy(), table.shape
    sd = robust_sd(table) if units is None else units
    if kind == "clean":
        return Sample.clean(table)
    if kind == "column -999":
        X[some_rows(n, 0.1, rng), rng.integers(d)] = -999.0
        return Sample.of(table, X)
    if kind.startswith("equal"):
        rows, donors = rng.permutation(n)[: int(kind.split()[1])], table[rng.integers(0, n, d), np.arange(d)]
        X[rows] = donors + 6.0 * sd * rng.choice([-1.0, 1.0], d)
        return Sample.of(table, X)
    rows = some_rows(n, share, rng)
    one = rng.integers(0, d, rows.size)
    if kind.startswith("spike"):
        X[rows, one] += float(kind.split()[1]) * sd[one] * rng.choice([-1.0, 1.0], rows.size)
    elif kind == "times 100":
        X[rows, one] *= 100.0
    elif kind == "-999":
        X[rows, one] = -999.0
    elif kind == "exchanged":
        two = (one + rng.integers(1, d, rows.size)) % d
        X[rows, one], X[rows, two] = table[rows, two], table[rows, one]
    elif kind == "drawn":
        for row in rows:
            where = rng.permutation(d)[: max(1, d // 2)]
            X[row, where] = table[rng.integers(0, n, where.size), where]
    else:
        X[rows] += float(kind.split()[1]) * sd * rng.choice([-1.0, 1.0], (rows.size, d))
    return Sample.of(table, X)
