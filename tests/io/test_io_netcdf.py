"""Damaged NetCDF 3: data that lie upon the header or upon other data are refused: writing would spoil those."""

import struct

import numpy as np
import pytest
import scipy.io
from io_samples import refused

from kernmend.io import read
from kernmend.io._netcdf import variables


def saved(path, *, growing):
    with scipy.io.netcdf_file(path, "w") as file:
        file.createDimension("t", None if growing else 5)
        file.createDimension("k", 3)
        file.createVariable("X", "f4", ("t", "k"))[:] = np.arange(15).reshape(5, 3) ** 2
        file.createVariable("t", "i4", ("t",))[:] = np.arange(5)
    return path.read_bytes()


@pytest.mark.parametrize("growing", [True, False])
@pytest.mark.parametrize("other", ["header", "data"])
def test_data_upon_other_data_are_refused(tmp_path, growing, other):
    path = tmp_path / "a.nc"
    raw = saved(path, growing=growing)
    assert read(path).X.shape == (5, 3)
    begins = {name: one.begin for name, one in variables(raw).items()}
    place = 8 if other == "header" else begins["t"]
    at = raw.index(struct.pack(">I", begins["X"]))
    path.write_bytes(raw[:at] + struct.pack(">I", place) + raw[at + 4 :])
    refused(path, "begin inside the header or inside others|upon each other|cut short")
