"""Parquet: types, nulls, index and metadata stay."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from kernmend.io import FileError, read

NAN = float("nan")


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "when": pd.date_range("2024-01-01", periods=4, tz="Europe/Berlin"),
            "x": np.array([1.5, NAN, 3.0, 4.0]),
            "count": np.array([1, 2, 3, 2**62 + 1]),
            "byte": np.array([0, 255, 3, 4], dtype=np.uint8),
            "maybe": pd.array([1, None, 3, 4], dtype="Int32"),
            "single": np.array([0.5, 1, 2, 3], dtype=np.float32),
            "yes": [True, False, True, False],
            "kind": pd.Categorical(["a", "b", "a", "b"]),
        },
        index=pd.Index(["p", "q", "r", "s"], name="key"),
    )


def test_all_but_the_mended_cells_stays(tmp_path, frame):
    frame.attrs["made by"] = "hand"
    frame.to_parquet(tmp_path / "in.parquet", compression="gzip")
    data = read(tmp_path / "in.parquet")
    assert data.columns == ("x", "count", "byte", "maybe", "single")
    assert data.passed == ("when", "yes", "kind", "key")
    assert data.row_labels == ("p", "q", "r", "s")
    assert data.integer.tolist() == [False, True, True, True, False]
    assert data.X.dtype == np.float64
    A = data.X.copy()
    A[0, 1], A[0, 2], A[1, 3], A[1, 0] = 7.6, 300, 1.7, 2.25
    data.write(tmp_path / "out.parquet", A)
    expected = frame.copy()
    expected.iloc[0, 2], expected.iloc[0, 3], expected.iloc[1, 4], expected.iloc[1, 1] = 8, 255, 2, 2.25
    again = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(again, expected)
    assert again.attrs == {"made by": "hand"}
    one, two = (pq.ParquetFile(tmp_path / f"{name}.parquet") for name in ("in", "out"))
    assert one.schema_arrow.equals(two.schema_arrow, check_metadata=True)
    assert two.metadata.row_group(0).column(0).compression == "GZIP"


def test_null_and_nan_are_both_missing_and_stay_what_they_are(tmp_path):
    pq.write_table(pa.table({"x": pa.array([1.0, None, NAN, 4.0])}), tmp_path / "in.parquet")
    data = read(tmp_path / "in.parquet")
    assert_array_equal(data.X, [[1], [NAN], [NAN], [4]])
    data.write(tmp_path / "out.parquet", np.array([[NAN], [NAN], [NAN], [5]]))
    column = pq.read_table(tmp_path / "out.parquet").column("x")
    assert column.is_null().to_pylist() == [True, True, False, False]
    assert column[3].as_py() == 5


def test_polars_float32_and_row_groups(tmp_path):
    frame = pl.DataFrame({"a": [0.5, 1.5, 2.5], "b": [1.0, 2.0, 3.0], "c": ["p", "q", "r"]})
    frame = frame.with_columns(pl.col("a", "b").cast(pl.Float32))
    frame.write_parquet(tmp_path / "in.pq", row_group_size=2)
    data = read(tmp_path / "in.pq")
    assert data.X.dtype == np.float32
    A = data.X.copy()
    A[2, 1] = 0.1
    data.write(tmp_path / "out.pq", A)
    again = pl.read_parquet(tmp_path / "out.pq")
    assert again.equals(frame.with_columns(b=pl.Series([1.0, 2.0, 0.1], dtype=pl.Float32)))
    sizes = [pq.ParquetFile(tmp_path / f"{name}.pq").metadata.num_row_groups for name in ("in", "out")]
    assert sizes[0] == sizes[1]


def test_columns_missing_numbers_and_images(tmp_path):
    pq.write_table(pa.table({"a": [1, -999], "b": [3, 4], "c": ["x", "y"]}), tmp_path / "in.parquet")
    data = read(tmp_path / "in.parquet", columns=["a"], missing=[-999])
    assert_array_equal(data.X, [[1], [NAN]])
    assert data.passed == ("b", "c")
    assert read(tmp_path / "in.parquet", image_shape=(2, 1)).image_shape == (2, 1)
    with pytest.raises(FileError, match="column 'c' is string, not numbers"):
        read(tmp_path / "in.parquet", columns=["c"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"c": ["x"]}, "no columns of numbers"),
        ({"a": pa.array([], pa.float64())}, "no rows of numbers"),
    ],
)
def test_nothing_to_mend(tmp_path, content, message):
    pq.write_table(pa.table(content), tmp_path / "in.parquet")
    with pytest.raises(FileError, match=message):
        read(tmp_path / "in.parquet")


def test_few_bytes_that_claim_many_rows_are_refused(tmp_path):
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(30_000_000, dtype=np.int8)), pa.array([1.0]))
    pq.write_table(pa.table({"a": same, "b": same}), tmp_path / "in.parquet")
    assert (tmp_path / "in.parquet").stat().st_size < 10**6
    with pytest.raises(FileError, match=r"refused, its .* bytes claim to hold 480,000,000"):
        read(tmp_path / "in.parquet")


def test_a_schema_that_does_not_fit_the_columns_does_not_end_the_process(tmp_path):
    """Of a column that may have nulls the schema says otherwise: pyarrow aborts when asked how it is packed."""
    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": [1.5, 2.5, 4.0], "b": [2.0, 3.0, 5.0]}).to_parquet(path)
    raw = path.read_bytes()
    optional = b"\x15\x0a\x25\x02\x18\x01a"  # a double, may be null, of the name a
    assert optional in raw
    path.write_bytes(raw.replace(optional, optional.replace(b"\x02", b"\x2d")))
    with pytest.raises(FileError, match="not a sound Parquet file"):
        read(path)
