"""Rows at the end that sum up a table: known by arithmetic, kept byte for byte, and said. Good rows are none."""

import json
import zipfile

import numpy as np
import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from office import LENGTH, MASS, SHARE, N

from kernmend.io import patch, read, revert
from kernmend.io._number_format import NumberFormat
from kernmend.io._summaries import summary_rows
from kernmend.io.changes import Found, make_log

X = np.column_stack([LENGTH, MASS, SHARE])
SUM, MEAN = X.sum(axis=0).round(2), X.mean(axis=0).round(2)
KEPT = "not measured, kept as it is."


def table(rows, *last):
    return "name,length,mass,share\n" + "".join(
        f"{name},{','.join('' if np.isnan(value) else f'{value:.2f}' for value in row)}\n"
        for name, row in [*((f"r{i}", row) for i, row in enumerate(rows)), *last]
    )


LASTS = {
    "sum": ([("Total", SUM)], f"The last row is the sum of those above: {KEPT}"),
    "mean without a word": ([("", MEAN)], f"The last row is the mean of those above: {KEPT}"),
    "another word": ([("r40", SUM)], f"The last row is the sum of those above: {KEPT}"),
    "one column is not summed up": ([("Total", [*SUM[:2], 17.0])], f"The last row is the sum of those above: {KEPT}"),
    "sums and a mean": ([("Total", [*SUM[:2], MEAN[2]])], f"The last row is the sum of those above: {KEPT}"),
    "one number": ([("Total", [SUM[0], np.nan, np.nan])], f"The last row is the sum of those above: {KEPT}"),
    "four rows": (
        [("Sum", SUM), ("Mean", MEAN), ("Max", X.max(axis=0)), ("Std. dev.", X.std(axis=0, ddof=1))],
        "The last 4 rows are sum, mean, largest and standard deviation of those above: not measured, kept as they are.",
    ),
    "an empty row between": ([("", [np.nan] * 3), ("Total", SUM)], f"The last row is the sum of those above: {KEPT}"),
    "only the word": ([("Total", [1500.0, 61.0, 50.0])], None),
    "the largest without the word": ([("r40", X.max(axis=0))], None),
    "one number of three": ([("r40", [SUM[0], 61.0, 50.0])], None),
}


@pytest.mark.parametrize("kind", LASTS)
def test_rows_that_sum_up_are_kept(tmp_path, kind):
    last, note = LASTS[kind]
    path = tmp_path / "a.csv"
    path.write_text(table(X, *last))
    data = read(path)
    assert data.notes[:1] == (() if note is None else (note,))
    assert len(data.X) == N + (len(last) if note is None else 0)
    A = data.X.copy()
    A[3] = 5
    new = data.write(tmp_path / "b.csv", A)
    old, lines = path.read_text().splitlines(), new.read_text().splitlines()
    assert [i for i in range(len(old)) if old[i] != lines[i]] == [4]
    log = make_log(data, A, Found(np.zeros(len(A)), np.zeros(len(A), dtype=bool), None))
    assert patch(path, log, tmp_path / "patched.csv").path.read_bytes() == new.read_bytes()
    assert revert(new, log, tmp_path / "back.csv").path.read_bytes() == path.read_bytes()


def test_whole_numbers_above_a_mean_stay_whole(tmp_path):
    counts = np.array([[3 * i % 17, 7 * i % 23 + 100] for i in range(20)])
    rows = [f"{a},{b}" for a, b in [*counts.tolist(), counts.mean(axis=0).tolist()]]
    (tmp_path / "a.csv").write_text("\n".join(["a,b", *rows]) + "\n")
    data = read(tmp_path / "a.csv")
    assert data.integer.all()
    assert_array_equal(data.X, counts)


def test_a_word_in_a_column_of_few_numbers(tmp_path):
    rows = [f"{2018 + i},{a},{b}" for i, (a, b) in enumerate(X[:5, :2])]
    sums = X[:5, :2].sum(axis=0).round(2)
    (tmp_path / "a.csv").write_text("\n".join(["year,length,mass", *rows, f"Total,{sums[0]},{sums[1]}"]))
    data = read(tmp_path / "a.csv")
    assert data.columns == ("year", "length", "mass")
    assert len(data.X) == 5


def test_json_lines(tmp_path):
    rows = [{"name": f"r{i}", "x": a, "y": b} for i, (a, b) in enumerate(X[:, :2].tolist())]
    rows.append({"name": "total", "x": float(SUM[0]), "y": float(SUM[1])})
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = read(tmp_path / "a.jsonl")
    assert_array_equal(data.X, X[:, :2])
    written = data.write(tmp_path / "b.jsonl", data.X + 1).read_text().splitlines()
    assert written[-1] == json.dumps(rows[-1])


def test_workbooks(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["name", "x", "y"])
    for i, row in enumerate(X[:, :2].tolist()):
        book.active.append([f"r{i}", *row])
    book.active.append(["Total", *SUM[:2].tolist()])
    book.save(tmp_path / "a.xlsx")
    data = read(tmp_path / "a.xlsx")
    assert_array_equal(data.X, X[:, :2])
    again = data.write(tmp_path / "b.xlsx", data.X + 1)
    parts = []
    for path in (tmp_path / "a.xlsx", again):
        with zipfile.ZipFile(path) as archive:
            parts.append(archive.read("xl/worksheets/sheet1.xml").decode().split("<row")[-1])
    assert parts[0] == parts[1]


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1), st.integers(4, 60), st.integers(1, 6), st.integers(0, 4), st.integers(0, 300))
def test_random_rows_are_no_sums(seed, n, d, decimals, spread):
    """Not even small whole numbers: chances multiply to less than one in 10,000 where a row is taken for a sum."""
    rows = np.random.default_rng(seed).normal(5, 1 + spread, (n, d)).round(decimals)
    assert summary_rows(rows, [NumberFormat()] * d, lambda _: ["r"]) == (n, [])


@pytest.mark.parametrize("n", [5, 300])
def test_rows_mostly_of_zeros_and_columns_that_repeat_each_other_are_no_means(n):
    """A row of zeros is near the mean of each column, as most rows are; copies of a column agree together."""
    rng = np.random.default_rng(0)
    words = (rng.random((n, 400)) < 0.02).astype(float)
    words[-1] = 0
    assert summary_rows(words, [NumberFormat()] * 400, lambda _: ["r"]) == (n, [])
    copies = np.repeat(rng.integers(0, 5, (n, 1)), 9, axis=1).astype(float)
    copies[-1] = copies[:-1].mean().round()
    assert summary_rows(copies, [NumberFormat()] * 9, lambda _: ["r"]) == (n, [])


@given(st.integers(0, 2**32 - 1), st.integers(4, 60), st.integers(2, 6), st.booleans())
def test_sums_and_means_of_rounded_numbers_are_found(seed, n, d, mean):
    """They are of the numbers before they were rounded, and one column is wrong, which is why the file is mended."""
    full = np.random.default_rng(seed).normal(5, 300, (n, d + 2))
    last = full.mean(axis=0) if mean else full.sum(axis=0)
    rows = np.vstack([full, last]).round(2)
    rows[1, 0] = -9999
    found = summary_rows(rows, [NumberFormat()] * (d + 2), lambda _: ["r"])
    assert found == (n, ["mean" if mean else "sum"])
