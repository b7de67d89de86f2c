"""npy, npz, mat, HDF5 and zarr: one array is mended, everything else stays."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import zarr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from kernmend.io import FileError, read
from kernmend.io._cells import cast

RNG = np.random.default_rng(0)
FLOATS = RNG.normal(size=(6, 4))
TYPES = ["f2", "f4", "f8", ">f4", "i1", "u1", ">i2", "i4", "i8", "u8", "?"]


def save_npy(path, array):
    np.save(path, array)


def load_npy(path):
    return np.load(path)


def save_npz(path, array):
    np.savez_compressed(path, X=array, y=np.arange(3), text=np.array(["a"]))


def load_npz(path):
    with np.load(path) as found:
        assert found["y"].tolist() == [0, 1, 2]
        assert found["text"].tolist() == ["a"]
        return found["X"]


def save_mat(path, array):
    facts = {"y": np.arange(3.0), "s": {"a": 1}, "word": "text", "X": array, "last": [[1.5]]}
    scipy.io.savemat(path, facts, do_compression=True)


def load_mat(path):
    found = scipy.io.loadmat(path)
    assert found["word"] == ["text"]
    assert found["s"]["a"][0, 0] == 1
    assert found["last"] == 1.5
    return found["X"]


def save_hdf5(path, array):
    with h5py.File(path, "w") as file:
        file.attrs["made"] = "by hand"
        file.create_dataset("deep/X", data=array, chunks=True, compression="gzip").attrs["unit"] = "mm"
        file["y"] = np.arange(3)
        file["names"] = ["a", "b"]


def load_hdf5(path):
    with h5py.File(path) as file:
        assert file.attrs["made"] == "by hand"
        assert file["deep/X"].attrs["unit"] == "mm"
        assert file["deep/X"].compression == "gzip"
        assert file["y"][...].tolist() == [0, 1, 2]
        return file["deep/X"][...]


def save_mat73(path, array):
    """As MATLAB does: a block of 512 bytes before HDF5, axes in reverse order, classes as attributes."""
    with h5py.File(path, "w", userblock_size=512) as file:
        file["X"] = array.T.astype(np.uint8) if array.dtype == bool else array.T
        word = {"f8": "double", "f4": "single", "b1": "logical"}.get(array.dtype.str[1:], array.dtype.name)
        file["X"].attrs["MATLAB_class"] = np.bytes_(word)
        file["word"] = np.array([[116], [101]], dtype=np.uint16)
        file["word"].attrs["MATLAB_class"] = np.bytes_("char")
        file["#refs#/a"] = FLOATS
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def load_mat73(path):
    with h5py.File(path) as file:
        assert file["word"].attrs["MATLAB_class"] == b"char"
        assert path.read_bytes().startswith(b"MATLAB 7.3")
        found = file["X"][...].T
        return found.astype(bool) if file["X"].attrs["MATLAB_class"] == b"logical" else found


def save_zarr(path, array, zarr_format=3):
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    group.attrs["made"] = "by hand"
    group.create_array("X", data=array, chunks=(2, *array.shape[1:]))
    group.create_array("deep/y", data=np.arange(3))


def load_zarr(path):
    group = zarr.open_group(path, mode="r")
    assert group.attrs["made"] == "by hand"
    assert group["deep/y"][...].tolist() == [0, 1, 2]
    return group["X"][...]


def save_zarr2(path, array):
    save_zarr(path, array, zarr_format=2)


FORMATS = {
    "npy": ("npy", save_npy, load_npy),
    "npz": ("npz", save_npz, load_npz),
    "mat": ("mat", save_mat, load_mat),
    "hdf5": ("h5", save_hdf5, load_hdf5),
    "mat73": ("mat", save_mat73, load_mat73),
    "zarr": ("zarr", save_zarr, load_zarr),
    "zarr2": ("zarr", save_zarr2, load_zarr),
}
# A process is started for each of the last four: two types tell what there is to tell.
KINDS = {"npy": TYPES, "npz": ["f4", "u1"], "mat": TYPES[1:], "mat73": ["f8", "?"]}
SOME = [(name, kind) for name in FORMATS for kind in KINDS.get(name, ["f4", "u1"])]


@pytest.mark.parametrize(("name", "kind"), SOME)
def test_types_stay_and_only_mended_cells_change(tmp_path, name, kind):
    ending, save, load = FORMATS[name]
    array = (np.abs(FLOATS) * (1 if kind == "?" else 30)).astype(kind)
    there = tmp_path / f"in.{ending}"
    save(there, array)
    there_as_loaded = load(there)
    data = read(there)
    assert data.X.dtype == (np.float32 if np.dtype(kind).str[1:] in ("f2", "f4") else np.float64)
    assert_array_equal(data.X, array.astype(data.X.dtype))
    assert data.integer.tolist() == [np.dtype(kind).kind != "f"] * 4
    A = data.X.copy()
    A[1, 2], A[5, 0] = 0.75, 1e30
    data.write(tmp_path / f"out.{ending}", A)
    found = load(tmp_path / f"out.{ending}")
    assert found.dtype == there_as_loaded.dtype
    expected = there_as_loaded.copy()
    whole = expected.dtype.kind != "f"
    expected[1, 2] = 1 if whole else 0.75
    if kind == "?":
        assert found[5, 0] == 1
    elif whole:
        assert abs(int(found[5, 0]) - np.iinfo(kind).max) <= 2048  # 2^64 - 1 is not a float
    elif kind == "f2":
        assert found[5, 0] == np.finfo("f2").max
    else:
        assert found[5, 0] == np.array(1e30, dtype=kind)
    expected[5, 0] = found[5, 0]
    assert_array_equal(found, expected)


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_mended_is_the_same_file(tmp_path, name):
    ending, save, _ = FORMATS[name]
    there, here = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    save(there, FLOATS)
    data = read(there)
    assert (data.format, data.source) == (name.rstrip("273") if name != "npz" else "npz", there)
    data.write(here, data.X)
    if there.is_dir():
        names = sorted(path.relative_to(there) for path in there.rglob("*") if path.is_file())
        assert names == sorted(path.relative_to(here) for path in here.rglob("*") if path.is_file())
        assert all((there / name).read_bytes() == (here / name).read_bytes() for name in names)
    else:
        assert there.read_bytes() == here.read_bytes()


def test_untouched_zarr_chunks_are_not_written(tmp_path):
    save_zarr(tmp_path / "in.zarr", FLOATS)
    data = read(tmp_path / "in.zarr")
    A = data.X.copy()
    A[0, 0] = 9
    data.write(tmp_path / "out.zarr", A)
    differ = [
        i
        for i in range(3)
        if (tmp_path / f"in.zarr/X/c/{i}/0").read_bytes() != (tmp_path / f"out.zarr/X/c/{i}/0").read_bytes()
    ]
    assert differ == [0]


@pytest.mark.parametrize("compress", [False, True])
def test_the_rest_of_a_mat_file_stays_byte_for_byte(tmp_path, compress):
    """The objects of MATLAB live at the end, and the header says where: that is moved with them."""
    scipy.io.savemat(tmp_path / "in.mat", {"a": "word", "X": FLOATS, "z": {"k": 1}}, do_compression=compress)
    raw = (tmp_path / "in.mat").read_bytes()
    last = raw.rindex(b"k") if not compress else len(raw) - 10
    (tmp_path / "in.mat").write_bytes(raw[:116] + last.to_bytes(8, "little") + raw[124:])
    data = read(tmp_path / "in.mat")
    A = data.X + 1
    data.write(tmp_path / "out.mat", A)
    new = (tmp_path / "out.mat").read_bytes()
    place = int.from_bytes(new[116:124], "little")
    assert new[place:] == raw[last:]
    assert_array_equal(scipy.io.loadmat(tmp_path / "out.mat")["X"], A)


def test_matlab_stores_whole_doubles_in_bytes(tmp_path):
    """MATLAB writes a double array of small whole numbers as miUINT8; made here by hand, in both byte orders."""
    for order, mark in (("little", b"\x00\x01IM"), ("big", b"\x01\x00MI")):

        def tag(kind, size, order=order):
            return kind.to_bytes(4, order) + size.to_bytes(4, order)

        def words(*numbers, order=order):
            return b"".join(number.to_bytes(4, order) for number in numbers)

        body = tag(6, 8) + words(6, 0) + tag(5, 8) + words(2, 3)
        body += (1 | 1 << 16).to_bytes(4, order) + b"X\0\0\0" + tag(2, 6) + bytes([1, 2, 3, 4, 5, 6, 0, 0])
        path = tmp_path / f"{order}.mat"
        path.write_bytes(b"by hand".ljust(124) + mark + tag(14, len(body)) + body)
        data = read(path)
        assert data.X.tolist() == [[1, 3, 5], [2, 4, 6]] == scipy.io.loadmat(path)["X"].tolist()
        A = data.X.copy()
        A[0, 0] = 0.5
        data.write(tmp_path / f"{order}-out.mat", A)
        assert_array_equal(scipy.io.loadmat(tmp_path / f"{order}-out.mat")["X"], A)


def test_fortran_order_headers_and_tails_of_npy_stay(tmp_path):
    np.save(tmp_path / "in.npy", np.asfortranarray(FLOATS))
    with (tmp_path / "in.npy").open("ab") as file:
        file.write(b"tail")
    data = read(tmp_path / "in.npy")
    data.write(tmp_path / "out.npy", data.X * 2)
    assert_array_equal(np.load(tmp_path / "out.npy"), FLOATS * 2)
    one, two = ((tmp_path / f"{name}.npy").read_bytes() for name in ("in", "out"))
    assert (one[:128], one[-4:]) == (two[:128], two[-4:])


@pytest.mark.parametrize(
    ("shape", "kind", "image_shape", "bounds"),
    [
        ((5,), "f8", None, None),
        ((5, 6), "u1", None, None),
        ((5, 2, 3), "u1", (2, 3), (0, 255)),
        ((5, 2, 3, 1), "u2", (2, 3), (0, 65535)),
        ((5, 2, 2, 3), "f4", (2, 2, 3), None),
        ((5, 2, 2), "?", (2, 2), (0, 1)),
    ],
)
def test_axes(tmp_path, shape, kind, image_shape, bounds):
    array = (RNG.random(shape) * 3).astype(kind)
    np.save(tmp_path / "in.npy", array)
    data = read(tmp_path / "in.npy")
    assert data.X.shape == (5, int(np.prod(shape[1:])))
    assert (data.image_shape, data.bounds) == (image_shape, bounds)
    data.write(tmp_path / "out.npy", np.full(data.X.shape, 70000.0))
    found = np.load(tmp_path / "out.npy")
    assert (found.shape, found.dtype) == (array.shape, array.dtype)
    if bounds:
        assert (found == bounds[1]).all()


def test_flattened_images_columns_and_missing_numbers(tmp_path):
    np.save(tmp_path / "in.npy", np.arange(12, dtype=np.uint8).reshape(2, 6))
    assert read(tmp_path / "in.npy", image_shape=(2, 3, 1)).bounds == (0, 255)
    data = read(tmp_path / "in.npy", columns=[4, 1], missing=[7])
    assert_array_equal(data.X, [[1, 4], [np.nan, 10]])
    assert (data.columns, data.passed[:2]) == (("column 1", "column 4"), ("column 0", "column 2"))
    A = data.X.copy()
    A[1, 0] = 50
    data.write(tmp_path / "out.npy", A)
    assert np.load(tmp_path / "out.npy").ravel().tolist() == [0, 1, 2, 3, 4, 5, 6, 50, 8, 9, 10, 11]
    with pytest.raises(FileError, match="has no column '6'; it has columns 0 to 5"):
        read(tmp_path / "in.npy", columns=[6])


def test_whole_numbers_beyond_floats_stay_exact(tmp_path):
    array = np.array([[2**62 + 1, 1], [5, 2**63 - 1]])
    np.save(tmp_path / "in.npy", array)
    data = read(tmp_path / "in.npy")
    A = data.X.copy()
    A[1, 0] = 6.4
    data.write(tmp_path / "out.npy", A)
    assert np.load(tmp_path / "out.npy").tolist() == [[2**62 + 1, 1], [6, 2**63 - 1]]


def test_whole_numbers_cannot_be_missing(tmp_path):
    np.save(tmp_path / "in.npy", np.arange(4).reshape(2, 2))
    with pytest.raises(FileError, match="cannot mark values as missing in an array of whole numbers"):
        read(tmp_path / "in.npy").write(tmp_path / "out.npy", np.full((2, 2), np.nan))


@given(arrays(np.float64, 8, elements=st.floats(allow_nan=False, allow_infinity=False)), st.sampled_from(TYPES))
def test_cast_rounds_to_the_nearest_number_that_the_type_has(values, kind):
    found = cast(values, np.dtype(kind), Path("x"))
    assert found.dtype == np.dtype(kind)
    if found.dtype.kind in "iu":
        info = np.iinfo(kind)
        exact = [min(max(round(value), info.min), info.max) for value in values.tolist()]
        assert all(abs(int(a) - b) <= 2048 * (b >= 2**62) for a, b in zip(found, exact, strict=True))
    elif found.dtype.kind == "f":
        assert np.isfinite(found).all()


def test_which_array(tmp_path):
    path = tmp_path / "in.npz"
    np.savez(path, X=FLOATS, Z=FLOATS * 2, y=np.arange(6), odd=np.array([object()]))
    with pytest.raises(FileError, match=r"holds several arrays, X 6×4, Z 6×4, y 6: name .* in.npz::X"):
        read(path)
    data = read(f"{path}::Z")
    assert_array_equal(data.X, FLOATS * 2)
    assert (data.member, data.passed, data.source) == ("Z", ("X", "y", "odd"), path)
    with pytest.raises(FileError, match="holds no array 'W'; it holds X 6×4"):
        read(f"{path}::W")
    with pytest.raises(FileError, match=r"in.npz::odd: holds Python objects"):
        read(f"{path}::odd")
    np.save(tmp_path / "a.npy", FLOATS)
    with pytest.raises(FileError, match="holds a single table"):
        read(f"{tmp_path}/a.npy::X")


def test_a_name_with_colons_is_a_file_if_it_is_there(tmp_path):
    (tmp_path / "a::b.csv").write_text("1,2\n3,4\n")
    assert read(tmp_path / "a::b.csv").X.tolist() == [[1, 2], [3, 4]]


def test_a_zarr_array_alone_and_with_shards(tmp_path):
    array = zarr.create_array(tmp_path / "in.zarr", data=FLOATS, chunks=(2, 2), shards=(4, 4))
    array.attrs["unit"] = "mm"
    data = read(tmp_path / "in.zarr")
    assert (data.member, data.passed) == ("/", ())
    A = data.X + 1
    data.write(tmp_path / "out.zarr", A)
    found = zarr.open_array(tmp_path / "out.zarr", mode="r")
    assert (found.shards, found.attrs["unit"]) == ((4, 4), "mm")
    assert_array_equal(found[...], A)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (FLOATS + 1j, "complex numbers"),
        (np.array([{}, 1], dtype=object), "Python objects, which are not read for safety"),
        (np.zeros(3, dtype=[("a", "f8"), ("b", "i4")]), "records of several fields"),
        (np.array(["2024-01-01"], dtype="M8[D]"), "dates"),
        (np.array(["a", "b"]), "text"),
        (np.array(3.0), "has 0 axes"),
        (np.zeros((2, 0)), "the array is empty"),
        (np.zeros((1, 1, 1, 1, 2)), "has 5 axes"),
        (np.zeros((2, 3, 4, 5)), r"colour images are \(n, height, width, 3\)"),
    ],
)
def test_what_is_no_matrix_of_numbers(tmp_path, array, message):
    np.save(tmp_path / "in.npy", array, allow_pickle=True)
    with pytest.raises(FileError, match=message):
        read(tmp_path / "in.npy")


def test_images_have_no_columns_and_their_own_shape(tmp_path):
    np.save(tmp_path / "in.npy", np.zeros((2, 3, 4)))
    with pytest.raises(FileError, match="images have no columns"):
        read(tmp_path / "in.npy", columns=[0])
    with pytest.raises(FileError, match=r"the images are \(3, 4\), not \(4, 3\)"):
        read(tmp_path / "in.npy", image_shape=(4, 3))
