"""Small sound files of each kind, and what is asked of a refusal."""

import gzip
import zipfile

import h5py
import numpy as np
import openpyxl
import pyarrow
import pytest
import scipy.io
import tifffile
import zarr
from PIL import Image
from pyarrow import feather

from kernmend.io import FileError, read

X = np.arange(12.0).reshape(4, 3)


def refused(path, message):
    with pytest.raises(FileError, match=message) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert str(path).partition("::")[0] in str(caught.value)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def save(folder, kind):
    """Write a small sound file of a kind."""
    path = folder / f"in.{kind}"
    if kind == "csv":
        path.write_text("x,y,z\n1,2,3\n4,5,6\n")
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(b"x,y,z\n1,2,3\n4,5,6\n"))
    elif kind == "csv.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("in.csv", "x,y,z\n1,2,3\n4,5,6\n")
    elif kind == "xlsx":
        book = openpyxl.Workbook()
        for row in (["x", "y", "z"], [1, 2, 3], [4, 5, 6]):
            book.active.append(row)
        book.save(path)
    elif kind == "jsonl":
        path.write_text('{"x": 1, "y": 2}\n{"x": 3, "y": 4}\n')
    elif kind == "feather":
        feather.write_feather(pyarrow.table({name: X[:, j] for j, name in enumerate("xyz")}), path)
    elif kind == "nc":
        with scipy.io.netcdf_file(path, "w") as file:
            file.createDimension("row", None)
            file.createDimension("column", 3)
            file.createVariable("X", "f8", ("row", "column"))[:] = X
    elif kind == "tif":
        with tifffile.TiffWriter(path) as file:
            for page in np.arange(12, dtype=np.uint8).reshape(3, 2, 2):
                file.write(page, contiguous=False, photometric="minisblack")
    elif kind == "npy":
        np.save(path, X)
    elif kind == "npz":
        np.savez(path, X=X)
    elif kind == "mat":
        scipy.io.savemat(path, {"X": X})
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file["X"] = X
    elif kind == "zarr":
        zarr.create_array(path, data=X)
    elif kind == "parquet":
        import pandas as pd

        pd.DataFrame(X, columns=list("abc")).to_parquet(path)
    elif kind == "zip":
        save(folder, "images")
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(folder / "in.images/0.png", "0.png")
            archive.write(folder / "in.images/1.png", "1.png")
    else:
        path.mkdir(exist_ok=True)
        for i in range(2):
            Image.fromarray(np.full((3, 3), i, dtype=np.uint8)).save(path / f"{i}.png")
    return path


TABLES = ["csv", "csv.gz", "csv.zip", "xlsx", "jsonl", "parquet", "feather"]
KINDS = [*TABLES, "npy", "npz", "mat", "h5", "nc", "zarr", "images", "zip", "tif"]
FILES = [kind for kind in KINDS if kind not in ("zarr", "images")]
