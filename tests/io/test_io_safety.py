"""Files that lie, break or may not be read: one clear line each."""

import gzip
import json
import os
import stat
import struct
import sys
import zipfile
import zlib

import h5py
import numpy as np
import pytest
import scipy.io
import zarr
from io_samples import FILES, X, refused, save
from PIL import Image

from kernmend.io import FileError, _containers, _files, read

# What is there


@pytest.mark.parametrize("ending", ["csv", "npy", "parquet", "zip", "dat"])
def test_an_empty_file(tmp_path, ending):
    (tmp_path / f"a.{ending}").touch()
    refused(tmp_path / f"a.{ending}", "the file is empty")


def test_nothing_there_and_things_that_are_no_files(tmp_path):
    refused(tmp_path / "none.csv", "no such file or folder")
    os.mkfifo(tmp_path / "pipe.csv")
    refused(tmp_path / "pipe.csv", "neither a file nor a folder")
    refused(tmp_path / ("a" * 300), "File name too long")
    with pytest.raises(FileError, match="not the name of a file"):
        read("a\0b")


def test_an_empty_folder_and_one_without_images(tmp_path):
    refused(tmp_path, "the folder is empty")
    (tmp_path / "a.txt").write_text("words")
    refused(tmp_path, "holds no images")


@pytest.mark.parametrize("kind", FILES)
def test_the_wrong_ending(tmp_path, kind):
    path = save(tmp_path, kind)
    other = tmp_path / ("in.npy" if kind != "npy" else "in.csv")
    path.rename(other)
    refused(other, f"ends in {other.suffix} but its content is .*: give it the right ending")
    assert read(other.rename(tmp_path / "in.unknown")).X.size > 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npy", bytes(range(256)), "ends in .npy but is not a NumPy array file"),
        ("a.zarr", b"words", "ends in .zarr but its content is a text table"),
        ("a.bin", bytes(range(256)), "of no kind that is read here: npy, npz"),
        ("a.csv.gz", b"\x1f\x8b\x08\x00" + bytes(20), "not a sound gzip file"),
        ("a.csv.xz", b"\xfd7zXZ" + bytes(20), "is compressed with xz: unpack it first"),
        (
            "a.npy.gz",
            gzip.compress(b"\x93NUMPY" + bytes(99), mtime=1),
            "what is packed in it is no text table: unpack it first",
        ),
        ("a.csv.gz", gzip.compress(b"", mtime=1), "the file in it is empty"),
        ("a.json", b'[{"x": 1}, {"x": 2}]', "is JSON, but not one object a line: store it as JSON lines"),
        ("a.txt", b'{\n "x": [1]\n}', "is JSON, but not one object a line"),
        ("a.json", b'{"x": 1,\n "y": 2}', "is JSON, but not one object a line"),
        ("a.jsonl", b'{"x": 1}\n{"x": 1, "x": 2}\n', r"line 2 is no object of JSON \(a key is there twice\)"),
        ("a.jsonl", b'{"x": 1}\n{"x": 2} 3\n', "line 2 is no object of JSON"),
        ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(20), "is one image: give a folder or zip"),
        ("a.pkl", b"\x80\x04\x95" + bytes(20), "is a pickle, which is not read for safety"),
    ],
)
def test_other_kinds_of_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name, message)


def test_an_office_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "x")
    refused(tmp_path / "a.xlsx", "is an Office file without a workbook: save the table as csv")


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind not in ("csv", "jsonl")])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_truncated(tmp_path, kind, share):
    path = save(tmp_path, kind)
    os.truncate(path, int(share * path.stat().st_size))
    refused(path, "cut short|damaged")


def test_a_truncated_npy_says_how_much_is_there(tmp_path):
    path = save(tmp_path, "npy")
    os.truncate(path, path.stat().st_size - 10)
    refused(path, "cut short, 86 of 96 bytes are there")


# Zips that lie


def zip_with(path, name="0.png", content=b"", method=zipfile.ZIP_DEFLATED, **facts):
    with zipfile.ZipFile(path, "w", method) as archive:
        info = zipfile.ZipInfo(name)
        info.compress_type = method
        for key, value in facts.items():
            setattr(info, key, value)
        archive.writestr(info, content)
    return path


@pytest.mark.parametrize(
    "name", ["../a.png", "a/../../b.png", "/etc/a.png", "..\\a.png", "C:/a.png", "\\\\host\\a.png"]
)
@pytest.mark.parametrize("ending", ["zip", "npz"])
def test_names_that_lead_outside(tmp_path, name, ending):
    refused(zip_with(tmp_path / f"a.{ending}", name), "refused, the name .* leads outside")


def test_a_link_in_a_zip(tmp_path):
    path = zip_with(tmp_path / "a.zip", content=b"/etc/passwd", external_attr=(stat.S_IFLNK | 0o777) << 16)
    refused(path, "0.png in it is a symbolic link")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_methods_of_packing(tmp_path, method):
    refused(zip_with(tmp_path / "a.zip", content=b"abc", method=method), "packed by an unusual method")


def test_an_encrypted_zip(tmp_path):
    path = zip_with(tmp_path / "a.zip", content=b"abc")
    raw = path.read_bytes().replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")
    path.write_bytes(raw)
    refused(path, "is encrypted: unpack it first")


def test_the_same_name_twice(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.png", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.png", b"2")
    refused(tmp_path / "a.zip", "have the same name")


@pytest.mark.parametrize("ending", ["zip", "npz"])
def test_a_zip_bomb_that_says_so(tmp_path, ending):
    path = zip_with(tmp_path / f"a.{ending}", "X.npy" if ending == "npz" else "0.png", bytes(_files.FREE_BYTES + 1))
    refused(path, r"refused, its .* bytes claim to hold 268,435,457")


def test_a_zip_bomb_of_many_small_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "FREE_BYTES", 10**5)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(50):
            archive.writestr(f"{i}.png", bytes(10**5))
    refused(tmp_path / "a.zip", "claim to hold 5,000,000")


def test_a_zip_bomb_that_hides_its_size(tmp_path):
    """Both headers claim ten bytes; what is packed is 300 MB, of which ten are unpacked."""
    import tracemalloc

    size = 300 * 2**20
    path = zip_with(tmp_path / "a.zip", content=bytes(size))
    raw = path.read_bytes()
    assert raw.count(struct.pack("<I", size)) == 2
    path.write_bytes(raw.replace(struct.pack("<I", size), struct.pack("<I", 10)))
    tracemalloc.start()
    refused(path, "not a sound zip archive")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


def test_a_damaged_array_that_only_passes_through_is_seen_when_reading(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, y=np.full(5, 7, dtype=np.int8))
    raw = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(raw.replace(bytes([7] * 5), bytes([8] * 5)))
    refused(tmp_path / "a.npz", "Bad CRC-32 for file 'y.npy'")


def test_a_bomb_in_a_mat_file(tmp_path):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"X": np.zeros((40_000, 1000))}, do_compression=True)
    refused(path, "claim to hold 320,000")


def test_a_chunk_of_hdf5_that_unpacks_to_more_than_it_says(tmp_path, monkeypatch):
    """74 kB are declared, 400 MB are packed: the process that unpacks them may not take so much.

    HDF5 1.14.2 writes no such chunk where fewer than 64 kB are declared, and says in other words what failed.
    """
    shape = (96, 96)
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(bytes(2**20)) for _ in range(400)) + packer.flush()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("X", shape, "f8", chunks=shape, compression="gzip")
        data.id.write_direct_chunk((0, 0), packed)
    monkeypatch.setattr(_containers, "SPARE_MEMORY", 400 * 2**20)
    refused(tmp_path / "a.h5", "filter returned failure|memory allocation failed|too much memory|crashes")


def test_a_sparse_hdf5_file_that_claims_much(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", shape=(10**6, 10**4), dtype="f4", chunks=(1, 10**4))
    refused(tmp_path / "a.h5", "claim to hold 40,000,000,000")


@pytest.mark.parametrize("chunks", [(1000, 1000), (10**5, 10**5)])
def test_a_zarr_folder_that_claims_much(tmp_path, chunks):
    shape = (10**6, 10**5) if chunks[0] == 1000 else (10, 10)
    zarr.create_array(tmp_path / "a.zarr", shape=shape, chunks=chunks, dtype="f8")
    refused(tmp_path / "a.zarr", "claim to hold [89]0+,|claim to hold 8")


# Things that would run or lead elsewhere


def test_pickles_in_zarr_are_not_run(tmp_path):
    """Format 2 knows a filter that unpickles each chunk."""
    import pickle

    class Bad:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    folder = tmp_path / "a.zarr"
    zarr.create_array(folder, data=X, chunks=X.shape, zarr_format=2, compressors=None)
    facts = json.loads((folder / ".zarray").read_text())
    (folder / ".zarray").write_text(json.dumps(facts | {"filters": [{"id": "pickle", "protocol": 5}]}))
    (folder / "0.0").write_bytes(pickle.dumps(Bad()))
    refused(folder, "pickle")
    assert not (tmp_path / "ran").exists()


def test_only_known_codecs_of_zarr_are_run(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=X, zarr_format=2, compressors=None)
    facts = json.loads((tmp_path / "a.zarr/.zarray").read_text())
    (tmp_path / "a.zarr/.zarray").write_text(json.dumps(facts | {"filters": [{"id": "base64"}]}))
    refused(tmp_path / "a.zarr", "uses base64, which is not read for safety")


def test_links_in_folders(tmp_path):
    secret = tmp_path / "secret.png"
    Image.fromarray(np.zeros((3, 3), dtype=np.uint8)).save(secret)
    images = save(tmp_path, "images")
    (images / "2.png").symlink_to(secret)
    refused(images, "holds a symbolic link, 2.png")
    store = save(tmp_path, "zarr")
    (store / "more").symlink_to(tmp_path)
    refused(store, "holds a symbolic link, more")


def test_hdf5_that_takes_numbers_from_other_files_is_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(96))
    save(tmp_path, "h5").rename(tmp_path / "other.h5")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("raw", (4, 3), "f8", external=[(str(tmp_path / "secret"), 0, 96)])
        file["link"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "X")
        layout = h5py.VirtualLayout((4, 3), "f8")
        layout[...] = h5py.VirtualSource(str(tmp_path / "other.h5"), "X", (4, 3))
        file.create_virtual_dataset("virtual", layout)
    refused(tmp_path / "a.h5", "holds no array of real numbers; it holds none")
    refused(f"{tmp_path}/a.h5::link", "holds no array 'link'")


def test_a_file_that_kills_or_stops_the_library(tmp_path, monkeypatch):
    """The process that reads dies, or never answers: here simulated by one that does so."""
    path = save(tmp_path, "h5")
    script = tmp_path / "_worker.py"
    monkeypatch.setattr(_containers, "SCRIPT", script)
    script.write_text("import os; os.abort()")
    refused(path, "damaged so that reading it crashes or never ends")
    script.write_text("import time; time.sleep(1000)")
    monkeypatch.setattr(_containers, "SECONDS", 0.2)
    refused(path, "damaged so that reading it crashes or never ends")


@pytest.mark.parametrize(("kind", "package"), [("parquet", "pyarrow"), ("images", "PIL")])
def test_a_package_that_is_not_installed(tmp_path, monkeypatch, kind, package):
    path = save(tmp_path, kind)
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(FileError, match=r"needs (pyarrow|pillow): pip install \1"):
        read(path)


def test_a_package_that_the_worker_does_not_find(tmp_path, monkeypatch):
    path = save(tmp_path, "h5")
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake/h5py.py").write_text("raise ImportError('not here', name='h5py')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))
    with pytest.raises(FileError, match=r"reading hdf5 needs h5py: pip install h5py"):
        read(path)


def test_a_packed_variable_that_hides_its_size(tmp_path):
    """The tag says little, zlib holds 300 MB: no more than the tag says is unpacked."""
    inner = struct.pack("<IIIIII", 6, 8, 6, 0, 5, 8) + struct.pack("<ii", 2, 2) + struct.pack("<HH4s", 1, 1, b"X")
    inner += struct.pack("<II", 9, 32) + bytes(32)
    packed = zlib.compress(struct.pack("<II", 14, len(inner)) + inner + bytes(300 * 2**20))
    head = b"by hand".ljust(124) + b"\x00\x01IM"
    (tmp_path / "a.mat").write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)
    assert read(tmp_path / "a.mat").X.tolist() == [[0, 0], [0, 0]]
