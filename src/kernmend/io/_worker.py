"""The process that opens HDF5 files and zarr folders, run as a script by `_containers.py`.

The HDF5 library is not safe on damaged files: of 10,000, reading the attributes crashed on 2 and did not end within
30 seconds on 7 (reading numbers: none); it also crashes when a file cannot grow. So no HDF5 file is opened in the
user's process: this one does it, with a limit on its memory, and may die. It takes requests as lines of JSON, each
followed by the bytes of an array if one is to be written, and answers in the same way.

Zarr folders are opened here as well, for the limit on memory. `_blocks.py` alone also opens them in its own process,
by `zarr_array`, to read and write a block at a time: it asks this process first what a folder holds, and the check of
the codecs is the same.
"""

import json
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

# Names of the zarr codecs that are allowed: those that compress, ...
PACKERS = frozenset(["blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"])
# ... those that only verify, ...
CHECKS = frozenset(["adler32", "crc32", "crc32c", "fletcher32"])
# ... and those that change numbers before they are compressed.
FILTERS = frozenset(["astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize", "shuffle"])
SAFE_CODECS = PACKERS | CHECKS | FILTERS | {"bytes", "transpose", "sharding_indexed"}
"""All codecs that are allowed. Pickle is not among them, since zarr would run what it holds."""


def limit(memory: int) -> None:
    """Let the system refuse more memory than a sound file needs, and write no core dump."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.RLIM_INFINITY))


def hdf5_list(path: str) -> dict[str, Any]:
    """Return shape, type, bytes of a chunk and MATLAB class of each data set, by name, that is in the file itself."""
    h5py: Any = import_module("h5py")
    found: dict[str, Any] = {}

    def note(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset) or name.startswith("#") or item.is_virtual or item.external:
            return
        shape = () if item.shape is None else item.shape
        matlab = item.attrs.get("MATLAB_class", b"")
        empty = "MATLAB_empty" in item.attrs
        chunk = math.prod(item.chunks or (0,)) * item.dtype.itemsize
        kind = "V" if empty or matlab == b"char" or item.dtype.hasobject else item.dtype.str
        word = matlab.decode("latin-1") if isinstance(matlab, bytes) else ""
        found[name] = [list(map(int, shape)), kind if item.dtype.kind != "V" else "V1", int(chunk), word]

    with h5py.File(path, "r") as file:
        file.visititems(note)
    return found


def hdf5_read(path: str, name: str) -> Any:
    """Return the values of one data set."""
    h5py: Any = import_module("h5py")
    with h5py.File(path, "r") as file:
        return file[name][...]


def hdf5_write(path: str, name: str, array: Any) -> None:
    """Put other values in a data set."""
    h5py: Any = import_module("h5py")
    with h5py.File(path, "r+") as file:
        file[name][...] = array


def _codecs(part: Any) -> set[str]:
    """Return the names of all codecs in the description of an array, nested ones too."""
    if isinstance(part, list | tuple):
        return set().union(*map(_codecs, part))
    if not isinstance(part, dict):
        return set()
    own = {str(part[key]).lower().removeprefix("numcodecs.") for key in ("name", "id") if key in part}
    return own.union(*(_codecs(value) for value in part.values()))


def zarr_array(path: str, name: str, mode: str) -> Any:
    """Return an array of a zarr folder, open; ValueError if it uses a codec that is not safe."""
    zarr: Any = import_module("zarr")
    root = zarr.open(path, mode=mode, use_consolidated=False)
    array = root if name == "/" else root[name]
    facts = json.loads(json.dumps(array.metadata.to_dict(), default=str))
    used = _codecs([facts.get(key) for key in ("codecs", "compressor", "filters")])
    if not used <= SAFE_CODECS:
        raise ValueError(f"it uses {', '.join(sorted(used - SAFE_CODECS))}, which is not read for safety")
    return array


def zarr_list(path: str) -> dict[str, Any]:
    """Return shape, type and bytes of a chunk of each array, by name; a folder that is one array names it `/`."""
    zarr: Any = import_module("zarr")
    root = zarr.open(path, mode="r", use_consolidated=False)
    arrays = {"/": root} if isinstance(root, zarr.Array) else dict(root.members(max_depth=None))
    found = {}
    for name, array in arrays.items():
        if isinstance(array, zarr.Array):
            block = array.shards or array.chunks
            kind = array.dtype.str if array.dtype.kind in "bfiucSUMm" else "V1"
            found[name] = [list(array.shape), kind, math.prod(block) * array.dtype.itemsize, ""]
    return found


def zarr_read(path: str, name: str) -> Any:
    """Return the values of one array."""
    return np.asarray(zarr_array(path, name, "r")[...])


def zarr_write(path: str, name: str, array: Any) -> None:
    """Put other values in an array; chunks in which nothing changes are not written."""
    there = zarr_array(path, name, "r+")
    old = np.asarray(there[...])
    where = np.nonzero(~((old == array) | ((old != old) & (array != array))))
    there.vindex[where] = array[where]


ACTIONS: dict[str, Callable[..., Any]] = {
    "hdf5 list": hdf5_list,
    "hdf5 read": hdf5_read,
    "hdf5 write": hdf5_write,
    "zarr list": zarr_list,
    "zarr read": zarr_read,
    "zarr write": zarr_write,
}


def answer(request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the answer to a request: its head for JSON, and the bytes of an array; an error is an answer too."""
    extra = []
    if "shape" in request:
        extra = [np.frombuffer(data, request["dtype"]).reshape(request["shape"])]
    try:
        result = ACTIONS[request["do"]](*request["args"], *extra)
    except ImportError as error:
        return {"missing": error.name}, b""
    except MemoryError:
        return {"error": "it needs too much memory", "errno": None}, b""
    except Exception as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return {"error": text[:200], "errno": getattr(error, "errno", None)}, b""
    if isinstance(result, np.ndarray):
        raw = result.tobytes()
        return {"shape": result.shape, "dtype": result.dtype.str, "size": len(raw)}, raw
    return {"value": result}, b""


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    for line in requests:
        request = json.loads(line)
        limit(request["memory"])
        head, data = answer(request, requests.read(request.get("size", 0)))
        answers.write(json.dumps(head).encode() + b"\n" + data)
        answers.flush()


if __name__ == "__main__":
    main()
