"""Models on disk: one file of arrays and JSON, without pickle.

A model is a zip file, nothing in it compressed: `model.json` and arrays `0.npy`, `1.npy`, ... Its comment, the last
bytes of the file, is the SHA-256 of all bytes before: a file that was cut or changed is refused before anything is
read. That is against accidents. Against malice stands that a file cannot name anything to run: see `_encoding.py`.
"""

import hashlib
import io
import json
import math
import os
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernmend import __version__
from kernmend.io import FileError, replacing
from kernmend.io._encoding import ARRAY_KINDS, Decoder, Encoder, EncodingError
from kernmend.io._files import first_line
from kernmend.io._model_shapes import check_arrays

# Number of the layout of model files: another one where what a file holds of a class changes.
FORMAT = 7
MARK = b"kernmend model, sha256 "
# Number of hexadecimal digits of the SHA-256 of a file.
_DIGITS = 64


class ModelError(FileError):
    """A model file that cannot be written or read: what is wrong with it, and what to do."""


def save(estimator: BaseEstimator, path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write a fitted estimator to a file that `kernmend.load` reads, and return its path.

    ModelError if it is there already and not `force`, if it cannot be written, or holds what no file can.
    """
    check_is_fitted(estimator)
    target, encode = Path(path), Encoder()
    if target.exists() and not force:
        raise ModelError(f"{target} is there already: say force=True to overwrite it")
    try:
        model = encode(estimator, type(estimator).__name__)
    except EncodingError as error:
        raise ModelError(f"cannot save this model: {error}") from error
    about = {"format": FORMAT, "kernmend": __version__, "class": type(estimator).__name__, "model": model}
    try:
        with replacing(target) as temporary:
            _write(temporary, json.dumps(about, allow_nan=False), encode.arrays)
    except OSError as error:
        raise ModelError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def load(path: str | os.PathLike[str]) -> Any:
    """Return the estimator that `save` wrote: it transforms, predicts and scores as it did then.

    Parameters
    ----------
    path : path
        A file that `est.save(path)` or `kernmend mend --save-model` wrote.

    Returns
    -------
    estimator
        The fitted estimator, of the class that was saved.

    Raises
    ------
    ModelError
        A ValueError: the file is not a model, was cut or changed, or comes from a later kernmend. Nothing in a file
        is ever run.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import kernmend
    >>> X = np.random.default_rng(0).standard_normal((60, 2)) @ [[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]
    >>> est = kernmend.OutlierPursuit().fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = kernmend.load(est.save(pathlib.Path(folder) / "model.kernmend"))
    >>> bool((again.transform(X) == est.transform(X)).all())
    True
    """
    if Path(path).exists() and not Path(path).is_file():
        raise ModelError(f"{path} is not a file")
    try:
        with open(path, "rb") as file:
            _check_digest(path, file)
            return _read(path, file)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error


# --- writing ----------------------------------------------------------------------------------------------------------


def _write(path: Path, text: str, arrays: list["np.ndarray[Any, Any]"]) -> None:
    with path.open("w+b") as file:
        with ZipFile(file, "w", ZIP_STORED) as archive:
            archive.comment = MARK + b"0" * _DIGITS
            archive.writestr(ZipInfo("model.json"), text.encode())  # a fixed date: the same model, the same bytes
            for number, array in enumerate(arrays):
                with archive.open(ZipInfo(f"{number}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, _in_its_order(array), allow_pickle=False)
        size = file.seek(0, os.SEEK_END)
        digest = _digest(file, size - _DIGITS)
        file.seek(size - _DIGITS)
        file.write(digest.encode())


def _in_its_order(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Return the array without gaps, by rows or by columns as it is, and forwards.

    `_encoding` turns it round again: products round differently in another order, and the result should be the same.
    """
    array = np.flip(array, tuple(axis for axis, stride in enumerate(array.strides) if stride < 0))
    by_columns = array.ndim == 2 and array.strides[0] < array.strides[1]
    return np.asfortranarray(array) if by_columns else np.ascontiguousarray(array).reshape(array.shape)


def _digest(file: IO[bytes], size: int) -> str:
    """Return the SHA-256 of the first bytes of a file."""
    out = hashlib.sha256()
    file.seek(0)
    while size > 0 and (block := file.read(min(size, 1 << 20))):
        out.update(block)
        size -= len(block)
    return out.hexdigest()


# --- reading ----------------------------------------------------------------------------------------------------------


def _check_digest(path: Any, file: IO[bytes]) -> None:
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        raise ModelError(f"{path} is empty, not a model")
    tail = len(MARK) + _DIGITS
    file.seek(max(size - tail, 0))
    end = file.read()
    if not end.startswith(MARK):
        file.seek(0)
        start = file.read(200)
        if start.startswith(b"PK") and b"model.json" in start:
            raise ModelError(f"{path} was cut off or changed: write or copy it again")
        raise ModelError(f"{path} is not a kernmend model (est.save and kernmend mend --save-model write those)")
    if _digest(file, size - _DIGITS).encode() != end[len(MARK) :]:
        raise ModelError(f"{path} was changed since it was written: its checksum is wrong; write or copy it again")


def _read(path: Any, file: IO[bytes]) -> Any:
    try:
        with ZipFile(file) as archive:
            about = json.loads(_member(archive, "model.json"))
            version = about["format"]
            if version != FORMAT:
                older = isinstance(version, int) and version < FORMAT
                advice = "fit and save the model again, or use that" if older else "use that or a later one"
                raise ModelError(
                    f"{path} is of format {version!r}, this kernmend ({__version__}) reads {FORMAT}: it was written by "
                    f"kernmend {about.get('kernmend')}, {advice}"
                )
            model = Decoder(lambda name: _array(archive, name))(about["model"])
        _check_model(model, about["class"])
    except ModelError:
        raise
    except Exception as error:  # whatever a hostile file makes the readers of zip, JSON and arrays say
        raise ModelError(f"{path} is not a model that kernmend wrote: {first_line(error)}") from error
    return model


def _member(archive: ZipFile, name: str) -> bytes:
    """Return the bytes of a member. What is stored as it is cannot unfold to more than the file."""
    info = archive.getinfo(name)
    if info.compress_type != ZIP_STORED or info.file_size != info.compress_size:
        raise EncodingError(f"{name} is compressed")
    return archive.read(info)


def _array(archive: ZipFile, name: Any) -> "np.ndarray[Any, Any]":
    """Return an array, its size checked against the bytes that are there before it is made."""
    raw = _member(archive, f"{name}.npy")
    member = io.BytesIO(raw)
    version = np.lib.format.read_magic(member)
    if version != (1, 0):
        raise EncodingError(f"array {name} is of another version")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(member)
    data = memoryview(raw)[member.tell() :]
    if dtype.kind not in ARRAY_KINDS or dtype.hasobject:
        raise EncodingError(f"array {name} is not one of numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise EncodingError(f"array {name} has not the size that it claims")
    return np.frombuffer(data, dtype).copy().reshape(shape, order="F" if by_columns else "C")


def _check_model(model: Any, name: Any) -> None:
    """Raise unless it is a fitted estimator with all its parameters."""
    from kernmend import estimators

    if name not in estimators.__all__ or type(model) is not getattr(estimators, name):
        raise EncodingError(f"{name!r} is not one of kernmend's estimators")
    # A parameter that came after the file was written has its default, which is an attribute of the class.
    needed = {*model._get_param_names(), "recovered_", "outliers_", "n_features_in_"}
    missing = [name for name in sorted(needed) if not hasattr(model, name)]
    if missing:
        raise EncodingError(f"it lacks {', '.join(missing)}")
    check_arrays(model)
