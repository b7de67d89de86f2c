"""10,000 bad files, made from sound ones of every format: a few bytes changed, cut, spliced, or random.

`try_files` reads each and writes it again, and counts how that ended: nothing but a FileError may come of it. Nothing
is left of a file that is refused while it is written, and what was written is read as what it should be, in the
benchmark. The tests do a half of them, `python -m benchmarks files --damaged` all.
"""

import gzip
import json
import shutil
import zipfile
from contextlib import contextmanager
from io import BytesIO

import h5py
import numpy as np
import openpyxl
import pandas as pd
import pyarrow
import scipy.io
import tifffile
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from pyarrow import feather

from kernmend.io import FileError, _containers, read

X = np.random.default_rng(0).normal(size=(5, 3)).round(3)
BAD_FILES = {
    "csv": 1500,
    "gz": 200,
    "gz inside": 200,
    "csv.zip": 200,
    "xlsx": 400,
    "xlsx inside": 900,
    "jsonl": 700,
    "parquet": 400,
    "feather": 500,
    "npy": 600,
    "npz": 700,
    "mat": 800,
    "nc": 600,
    "h5": 400,
    "mat73": 150,
    "zarr": 300,
    "zip": 400,
    "images": 600,
    "tif": 450,
}
"""How many of each kind; "inside" are sound archives of bad files."""
ENDINGS = {"mat73": "mat", "images": "folder", "gz inside": "gz", "xlsx inside": "xlsx"}


def image(kind, i=0, **options):
    out = BytesIO()
    Image.fromarray(np.full((4, 3, 3), 9 * i, dtype=np.uint8)).save(out, format=kind, **options)
    return out.getvalue()


def packed(members):
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


PACKERS = {"gz inside": lambda members: gzip.compress(members["a"]), "xlsx inside": packed}
"""How the members of an archive, of which one is harmed, become a file."""
TABLE = b'\xef\xbb\xbfid,x,"y",z\r\na,1.5,2,$3.10\r\nb,,"3",$4.00\r\nc,ERR,4,$1\r\n'


def workbook():
    book = openpyxl.Workbook()
    for i, row in enumerate([["name", "x", "y"], *X.tolist()]):
        book.active.append(row if not i else [f"r{i}", *row[:2], f"=B{i}"])
    out = BytesIO()
    book.save(out)
    return out.getvalue()


def members_of(raw):
    with zipfile.ZipFile(BytesIO(raw)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def netcdf(folder):
    with scipy.io.netcdf_file(folder / "a.nc", "w") as file:
        file.createDimension("t", None)
        file.createDimension("k", 3)
        file.createVariable("X", "f4", ("t", "k"))[:] = X
        file.createVariable("t", "i2", ("t",))[:] = np.arange(len(X))
        file.variables["X"].units = "mm"
    return (folder / "a.nc").read_bytes()


def stack(**options):
    out = BytesIO()
    with tifffile.TiffWriter(out) as file:
        for i in range(3):
            file.write(np.full((4, 3), 9 * i, dtype=np.uint16), contiguous=False, photometric="minisblack", **options)
    return out.getvalue()


def deep_png(i):
    from test_io_images import deep_png

    return deep_png(np.full((4, 3, 3), 999 * i, dtype=np.uint16), [4, 3, 2, 1])


def sound_files(folder):
    """Return for each format some sound examples, {name: bytes} each."""
    out = {kind: BytesIO() for kind in ("npy", "npz", "mat", "mat-plain", "parquet", "feather", "zstd")}
    np.save(out["npy"], X)
    np.savez_compressed(out["npz"], X=X, y=np.arange(3))
    for name, compress in (("mat", True), ("mat-plain", False)):
        scipy.io.savemat(out[name], {"a": "word", "X": X, "s": {"k": [1, 2]}}, do_compression=compress)
    frame = pd.DataFrame(X, columns=list("abc")).assign(word=list("vwxyz"))
    frame.to_parquet(out["parquet"])
    for name, codec in (("feather", "uncompressed"), ("zstd", "zstd")):
        feather.write_feather(pyarrow.Table.from_pandas(frame), out[name], compression=codec)
    raw = {name: file.getvalue() for name, file in out.items()}
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("g/X", data=X, chunks=(2, 3), compression="gzip", shuffle=True).attrs["unit"] = "mm"
    with h5py.File(folder / "b.h5", "w", userblock_size=512) as file:
        file["X"] = X
        file["X"].attrs["MATLAB_class"] = np.bytes_("double")
    header = b"MATLAB 7.3".ljust(124) + b"\x00\x02IM"
    stores = []
    for version in (2, 3):
        zarr.create_array(folder / f"{version}", data=X, chunks=(3, 3), zarr_format=version)
        files = [path for path in (folder / f"{version}").rglob("*") if path.is_file()]
        stores.append({str(path.relative_to(folder / f"{version}")): path.read_bytes() for path in sorted(files)})
    kinds = [("png", "PNG"), ("gif", "GIF"), ("bmp", "BMP"), ("jpg", "JPEG"), ("tif", "TIFF"), ("ppm", "PPM")]
    kinds.append(("webp", "WEBP"))
    rows = "".join(json.dumps({"a": i, "x": x, "y": None, "z": [y]}) + "\n" for i, (x, y, _) in enumerate(X.tolist()))
    book = workbook()
    inside = {name: content for name, content in members_of(book).items() if "theme" not in name}
    return {
        "csv": [{"": TABLE}, {"": b"1;2,5\n3;4\n"}, {"": "\ufeffx\ty\n1\t2\n".encode("utf-16-le")}],
        "gz": [{"": gzip.compress(TABLE)}],
        "gz inside": [{"a": TABLE}],
        "csv.zip": [{"": packed({"a.csv": TABLE, "b": b"text"})}],
        "xlsx": [{"": book}],
        "xlsx inside": [inside],
        "jsonl": [{"": rows.encode()}],
        "parquet": [{"": raw["parquet"]}],
        "feather": [{"": raw["feather"]}, {"": raw["zstd"]}],
        "npy": [{"": raw["npy"]}],
        "npz": [{"": raw["npz"]}],
        "mat": [{"": raw["mat"]}, {"": raw["mat-plain"]}],
        "nc": [{"": netcdf(folder)}],
        "zip": [{"": packed({"0.png": image("PNG"), "1.png": image("PNG", 1)})}],
        "images": [
            *({f"{i}.{ending}": image(kind, i) for i in range(3)} for ending, kind in kinds),
            {f"{i}.png": deep_png(i) for i in range(3)},
        ],
        "tif": [{"": stack()}, {"": stack(compression="zlib", predictor=True)}],
        "h5": [{"": (folder / "a.h5").read_bytes()}],
        "mat73": [{"": header + (folder / "b.h5").read_bytes()[128:]}],
        "zarr": stores,
    }


places = st.integers(0, 2**16).map(lambda i: (i + 1) * 40503 % 2**16)  # Hypothesis likes 0, here all places are equal
values = st.one_of(st.sampled_from([0, 1, 127, 128, 255]), st.integers(0, 255))
change = st.tuples(st.just("set"), places, values)
cut = st.tuples(st.just("cut"), places, st.just(0))
copy = st.tuples(st.just("copy"), places, st.integers(1, 40))
drop = st.tuples(st.just("drop"), places, st.integers(1, 40))
noise = st.tuples(st.just("noise"), places, st.binary(max_size=200))
several = st.lists(change, min_size=1, max_size=6)
harms = st.one_of(
    *(several, several, several, several, st.lists(st.one_of(change, copy, drop), min_size=1, max_size=4)),
    *(st.tuples(cut), st.tuples(noise)),
)


def harmed(raw, harms):
    for what, place, value in harms:
        at = place * len(raw) >> 16
        if what == "set":
            raw = raw[:at] + bytes([value]) + raw[at + 1 :]
        elif what == "cut":
            raw = raw[:at]
        elif what == "copy":
            raw = raw[:at] + raw[at : at + value] * 2 + raw[at + value :]
        elif what == "drop":
            raw = raw[:at] + raw[at + value :]
        else:
            raw = raw[: place * 64 >> 16] + value
    return raw


class LastingWorker:
    """One process for all files; another when it has died."""

    def __init__(self, start):
        self.start, self.worker, self.deaths = start, None, 0

    def __enter__(self):
        if self.worker is None or self.worker.process.poll() is not None:
            self.close()
            self.worker = self.start().__enter__()
        return self.worker

    def __exit__(self, kind, error, _):
        if error is not None and "crashes or never ends" in str(error):
            self.deaths += 1
            self.close()

    def close(self):
        if self.worker is not None:
            self.worker.__exit__()
            self.worker = None


@contextmanager
def lasting_worker():
    """HDF5 and zarr are read by one process that lives through the test, and is started again when a file kills it."""
    start, seconds = _containers.Worker, _containers.SECONDS
    lasting = LastingWorker(start)
    _containers.Worker, _containers.SECONDS = (lambda: lasting), 5.0
    try:
        yield
    finally:
        _containers.Worker, _containers.SECONDS = start, seconds
        lasting.close()


def remove(path):
    """Take a file or a folder away."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def check_written(data, A, target):
    """Raise AssertionError if a file that was written is not read as numbers of the same shape."""
    again = read(target)
    assert again.X.shape == A.shape, f"{A.shape} became {again.X.shape}"
    exact = again.format not in ("images", "zip")  # pixels are whole numbers, and some kinds lose a little
    assert not exact or again.X[0, 0] == 1 or data.integer.all(), f"1 became {again.X[0, 0]}"


def try_files(folder, kind, count, *, again=False):
    """Return what came of so many bad files of a kind: the words of the refusal, "" where one was written again.

    `again` reads what was written once more.
    """
    sound = sound_files(folder)[kind]
    ending = ENDINGS.get(kind, kind)
    path, target = folder / f"bad.{ending}", folder / f"out.{ending}"
    outcomes = []

    def put(files):
        if kind in PACKERS:
            files = {"": PACKERS[kind](files)}
        for name, raw in files.items():
            place = path / name if name else path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(raw)

    for files in sound:  # unharmed they are read
        put(files)
        assert read(path).X.size
        if path.is_dir():
            path.rename(folder / f"sound {len(list(folder.iterdir()))}")

    @settings(
        max_examples=count, suppress_health_check=list(HealthCheck), derandomize=True, database=None, deadline=None
    )
    @given(st.integers(0, len(sound) - 1), st.integers(0, 30), harms)
    def try_one(which, member, harms):
        files = dict(sound[which])
        name = sorted(files)[member % len(files)]
        nonlocal path
        if name and kind not in PACKERS:
            path = (folder / f"{which}").with_suffix(f".{ending}")
        put(files | {name: harmed(files[name], harms)})
        before = set(folder.iterdir())
        try:
            data = read(path)
            A = data.X.copy()
            A[0, 0] = 1
            data.write(target, A, force=True)
            outcomes.append("")
        except FileError as error:
            outcomes.append(str(error))
            assert set(folder.iterdir()) <= before | {path}, "a refused file left something behind"
        else:
            if again:
                check_written(data, A, target)
            remove(target)

    with lasting_worker():
        try_one()
    return outcomes
