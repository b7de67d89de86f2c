"""Files that hold many arrays in a library's own structure: HDF5, MATLAB 7.3 (which is HDF5) and zarr.

One array is mended; to write, the whole file is copied and that array is put into the copy, so that all else stays.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import Any, ClassVar

import numpy as np

from kernmend.io._arrays import Entry, array_dataset, pick
from kernmend.io._cells import Raw
from kernmend.io._dataset import Dataset, Format, Request
from kernmend.io._files import FileError, check_expansion, copy, files_below, missing_package

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
MATLAB73 = (b"\x00\x02IM", b"\x02\x00MI")
SCRIPT = Path(__file__).with_name("_worker.py")
# Seconds that a request may take, however small the array is.
SECONDS = 30.0
# Bytes per second that it may take longer for.
BYTES_PER_SECOND = 4 * 2**20
# Bytes of memory that the process may take besides the array; it needs about an eighth of this.
SPARE_MEMORY = 2**30
# Number of copies of the array that it may take as well. A chunk may unpack to more than it claims, hence the limit.
COPIES = 4


class Worker:
    """A separate process that opens files which may crash it, see `_worker.py`; a context manager."""

    def __enter__(self) -> "Worker":
        command = [sys.executable, "-P", str(SCRIPT)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, path: Path, do: str, *args: str, array: Raw | None = None, size: int = 0) -> Any:
        """Return the answer to a request, a value or an array; FileError if there is none.

        `do` is one of `_worker.ACTIONS`, `size` the number of bytes of the array, or more.
        """
        memory = SPARE_MEMORY + COPIES * size
        request: dict[str, Any] = {"do": do, "args": [str(path.absolute()), *args], "memory": memory}
        data = b""
        if array is not None:
            data = array.tobytes()
            request |= {"shape": array.shape, "dtype": array.dtype.str, "size": len(data)}
        clock = Timer(SECONDS + size / BYTES_PER_SECOND, self.process.kill)
        clock.start()
        try:
            head, raw = self._exchange(json.dumps(request).encode() + b"\n" + data)
        except (OSError, ValueError) as error:
            if array is not None:  # the HDF5 library also crashes when the disk is full
                raise FileError(f"{path.parent}: cannot be written to: look whether the disk is full") from error
            raise FileError(f"{path}: damaged so that reading it crashes or never ends: make it again") from error
        finally:
            clock.cancel()
        if "missing" in head:
            raise missing_package(head["missing"], do.partition(" ")[0])
        if head.get("errno"):
            raise OSError(head["errno"], os.strerror(head["errno"]))
        if "error" in head:
            raise FileError(f"{path}: cannot be used ({head['error']}): it is damaged or of an unusual kind")
        return np.frombuffer(raw, head["dtype"]).reshape(head["shape"]) if "shape" in head else head["value"]

    def _exchange(self, message: bytes) -> tuple[dict[str, Any], bytes]:
        """Send a request; return the head of the answer and the bytes of its array."""
        there, back = self.process.stdin, self.process.stdout
        if there is None or back is None:
            raise OSError("no pipes")
        there.write(message)
        there.flush()
        head = json.loads(back.readline())
        raw = back.read(head.get("size", 0))
        if len(raw) != head.get("size", 0):
            raise OSError("it died while answering")
        return head, raw


class Container(Format):
    """What the three formats have in common: how an array is chosen, read and put into a copy."""

    several = True
    library: ClassVar[str]
    transposed: ClassVar[bool] = False

    def read(self, ask: Request) -> Dataset:
        """Return the data set of the only matrix, or of the named array."""
        packed = _size(ask.path)
        turn = -1 if self.transposed else 1
        with Worker() as worker:
            listed = worker.ask(ask.path, f"{self.library} list")
            entries = {
                name: Entry(tuple(shape[::turn]), np.dtype(kind)) for name, (shape, kind, _, _) in listed.items()
            }
            name = pick(entries, ask)
            size = max(entries[name].nbytes, listed[name][2])
            check_expansion(ask.path, packed, size)
            stored = worker.ask(ask.path, f"{self.library} read", name, size=size)
        array = stored.T if self.transposed else stored
        if listed[name][3] == "logical":
            array = array.astype(bool)

        def save(temporary: Path, new: Raw) -> None:
            copy(ask.path, temporary)
            changed = (new.T if self.transposed else new).astype(stored.dtype)
            with Worker() as worker:
                worker.ask(temporary, f"{self.library} write", name, array=changed, size=size)

        return array_dataset(array, ask, format=self.name, save=save, passed=listed, member=name)


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; symbolic links are refused there."""
    if not path.is_dir():
        return path.stat().st_size
    return sum((path / name).stat().st_size for name in files_below(path))


class Hdf5(Container):
    """HDF5, also as netCDF 4 and pandas write it."""

    name = "hdf5"
    words = "an HDF5 file"
    endings = (".h5", ".hdf5", ".hdf", ".he5", ".nc")
    library = "hdf5"

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether HDF5's mark is at the beginning, or after a block of 512 bytes for the user."""
        return head.startswith(HDF5_MAGIC) or head[512:520] == HDF5_MAGIC


class Matlab73(Container):
    """MATLAB -v7.3: HDF5 after a header, with the axes in reverse order."""

    name = "mat"
    words = "a MATLAB 7.3 file"
    endings = (".mat",)
    library = "hdf5"
    transposed = True

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether MATLAB's header stands before HDF5."""
        return head[124:128] in MATLAB73 and head[512:520] == HDF5_MAGIC


class Zarr(Container):
    """A zarr folder, format 2 or 3."""

    name = "zarr"
    words = "a zarr folder"
    endings = (".zarr",)
    library = "zarr"

    def sees(self, path: Path, head: bytes) -> bool:
        """Return whether the folder describes itself as zarr does."""
        return not head and any((path / name).is_file() for name in ("zarr.json", ".zarray", ".zgroup"))
