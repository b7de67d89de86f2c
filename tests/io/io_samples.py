"""Small sound files of each kind, and what is asked of a refusal."""

import zipfile

import h5py
import numpy as np
import pytest
import scipy.io
import zarr
from PIL import Image

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


KINDS = ["csv", "parquet", "npy", "npz", "mat", "h5", "zarr", "images", "zip"]
FILES = [kind for kind in KINDS if kind not in ("zarr", "images")]
