"""patch, then revert, gives every format back, whatever its numbers are and whichever changes are made."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from test_change_logs import found, mended, whole_content

from kernmend.io import patch, read, revert
from kernmend.io.changes import make_log

NUMBERS = st.one_of(st.floats(-1e6, 1e6, width=32), st.just(np.nan), st.sampled_from([0.0, -0.0, 1e300, 5e-324, 0.1]))
PIXELS = st.integers(0, 255)
CHANGES = st.dictionaries(st.tuples(st.integers(0, 5), st.integers(0, 3)), NUMBERS, min_size=1, max_size=6)


def write(path, kind, X):
    """Write numbers as a file of a kind; as pixels in images."""
    import h5py
    import pandas as pd
    import scipy.io
    import tifffile
    import zarr
    from PIL import Image

    frame = pd.DataFrame(X, columns=list("abcd"))
    if kind in ("parquet", "feather"):
        getattr(frame, f"to_{kind}")(path)
    elif kind == "xlsx":
        frame.to_excel(path, index=False)
    elif kind in ("npy", "npz"):
        {"npy": np.save, "npz": np.savez_compressed}[kind](path, X)
    elif kind == "mat":
        scipy.io.savemat(path, {"X": X})
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file["X"] = X
    elif kind == "nc":
        with scipy.io.netcdf_file(path, "w") as file:
            file.createDimension("row", len(X))
            file.createDimension("column", X.shape[1])
            file.createVariable("X", "f8", ("row", "column"))[:] = X
    elif kind == "zarr":
        zarr.create_array(path, data=X, chunks=(2, 3))
    elif kind == "tif":
        with tifffile.TiffWriter(path) as file:
            for page in X.astype(np.uint8).reshape(-1, 2, 2):
                file.write(page, contiguous=False, photometric="minisblack")
    else:
        path.mkdir()
        for i, page in enumerate(X.astype(np.uint8).reshape(-1, 2, 2)):
            Image.fromarray(page).save(path / f"{i}.png")


def content(path):
    """Return the bytes of a file, or of all files of a folder."""
    if path.is_file():
        return path.read_bytes()
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


@pytest.mark.parametrize(
    "kind", ["npy", "npz", "mat", "h5", "nc", "zarr", "parquet", "feather", "xlsx", "tif", "images"]
)
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_numbers_of_any_format_come_back(tmp_path_factory, kind, data):
    folder = tmp_path_factory.mktemp("trip")
    pictures = kind in ("tif", "images")
    X = data.draw(arrays(float, (6, 4), elements=PIXELS.map(float) if pictures else NUMBERS))
    X[0] = [1.5, 2.5, 3.5, 4.5] if not pictures else X[0]  # each column has a number
    if kind == "xlsx":  # a row of a workbook without any number is none; one that loses its last number stays one
        X[:, 3] = np.nan_to_num(X[:, 3])
    path = folder / f"in.{kind}"
    write(path, kind, X)
    layout = {"columns": list("abcd")} if kind in ("parquet", "feather", "xlsx") else {}
    source = read(path, **layout)
    cells = data.draw(CHANGES)
    if kind in ("xlsx", "parquet") and data.draw(st.booleans()):  # a row that loses all it has
        cells |= {(row, j): np.nan for row in [data.draw(st.integers(0, 5))] for j in range(4)}
    if pictures:
        cells = {at: abs(np.nan_to_num(value)) % 256 for at, value in cells.items()}
    A = mended(source, cells)
    log = make_log(source, A, found(source))
    some = np.array(data.draw(st.lists(st.booleans(), min_size=len(log), max_size=len(log))), dtype=bool)
    dataclasses.replace(log, accepted=some).write(folder / "log.csv")
    made = patch(path, folder / "log.csv", folder / f"made.{kind}").path
    back = revert(made, folder / "log.csv", folder / f"back.{kind}").path
    np.testing.assert_array_equal(read(back, **layout).X, source.X)
    assert whole_content(back) == whole_content(path)
    if kind in ("images", "zarr", "parquet", "mat", "xlsx"):  # of these the same program wrote both
        assert content(back) == content(path)
