"""10,000 bad files: each is read and written again, or refused by a FileError; no other error, no crash, no hang.

Sound files of every format are changed in a few bytes, cut, or spliced; some are random bytes under a sound ending or
mark. HDF5 and zarr are read by one process that lives through the test, and is started again when a file kills it.
"""

import faulthandler
import sys
import zipfile
from io import BytesIO

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from kernmend.io import FileError, _containers, read

X = np.random.default_rng(0).normal(size=(5, 3)).round(3)
BAD_FILES = {
    "csv": 2500,
    "npy": 1400,
    "npz": 1100,
    "mat": 1600,
    "parquet": 500,
    "zip": 700,
    "images": 1000,
    "h5": 600,
    "mat73": 200,
    "zarr": 400,
}
SECONDS = 300
"""After this long in one test the traceback of the file that hangs is shown and the tests end."""


def test_there_are_ten_thousand():
    assert sum(BAD_FILES.values()) == 10_000


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


def sound_files(folder):
    """Return for each format some sound examples, {name: bytes} each."""
    out = {kind: BytesIO() for kind in ("npy", "npz", "mat", "mat-plain", "parquet")}
    np.save(out["npy"], X)
    np.savez_compressed(out["npz"], X=X, y=np.arange(3))
    for name, compress in (("mat", True), ("mat-plain", False)):
        scipy.io.savemat(out[name], {"a": "word", "X": X, "s": {"k": [1, 2]}}, do_compression=compress)
    pd.DataFrame(X, columns=list("abc")).assign(word=list("vwxyz")).to_parquet(out["parquet"])
    raw = {name: file.getvalue() for name, file in out.items()}
    table = b'\xef\xbb\xbfid,x,"y"\r\na,1.5,2\r\nb,,"3"\r\n'
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
    kinds = [
        ("png", "PNG"),
        ("gif", "GIF"),
        ("bmp", "BMP"),
        ("jpg", "JPEG"),
        ("tif", "TIFF"),
        ("ppm", "PPM"),
        ("webp", "WEBP"),
    ]
    return {
        "csv": [{"": table}, {"": b"1;2,5\n3;4\n"}, {"": "\ufeffx\ty\n1\t2\n".encode("utf-16-le")}],
        "npy": [{"": raw["npy"]}],
        "npz": [{"": raw["npz"]}],
        "mat": [{"": raw["mat"]}, {"": raw["mat-plain"]}],
        "parquet": [{"": raw["parquet"]}],
        "zip": [{"": packed({"0.png": image("PNG"), "1.png": image("PNG", 1)})}],
        "images": [{f"{i}.{ending}": image(kind, i) for i in range(2)} for ending, kind in kinds],
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


@pytest.fixture
def lasting_worker(monkeypatch):
    lasting = LastingWorker(_containers.Worker)
    monkeypatch.setattr(_containers, "Worker", lambda: lasting)
    monkeypatch.setattr(_containers, "SECONDS", 5.0)
    yield lasting
    lasting.close()


@pytest.fixture
def not_for_ever():
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.usefixtures("lasting_worker", "not_for_ever")
@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_files(tmp_path, kind):
    sound = sound_files(tmp_path)[kind]
    ending = {"mat73": "mat", "images": "folder"}.get(kind, kind)
    path, target = tmp_path / f"bad.{ending}", tmp_path / f"out.{ending}"
    outcomes = []

    def put(files):
        for name, raw in files.items():
            place = path / name if name else path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(raw)

    for files in sound:  # unharmed they are read
        put(files)
        assert read(path).X.size
        if path.is_dir():
            path.rename(tmp_path / f"sound {len(list(tmp_path.iterdir()))}")

    @settings(max_examples=BAD_FILES[kind], suppress_health_check=list(HealthCheck))
    @given(st.integers(0, len(sound) - 1), st.integers(0, 5), harms)
    def try_one(which, member, harms):
        files = dict(sound[which])
        name = sorted(files)[member % len(files)]
        folder = tmp_path / f"{which}"
        nonlocal path
        if name:
            path = folder.with_suffix(f".{ending}")
        put(files | {name: harmed(files[name], harms)})
        try:
            data = read(path)
            A = data.X.copy()
            A[0, 0] = 1
            data.write(target, A, force=True)
            outcomes.append("")
        except FileError as error:
            outcomes.append(str(error))

    try_one()
    assert len(outcomes) >= BAD_FILES[kind]
    assert any(outcomes)
    assert not any("\n" in words for words in outcomes)
