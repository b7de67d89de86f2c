"""Objects as JSON and arrays, and back: only plain data and kernmend's own classes, so that reading runs nothing.

What JSON cannot say is a dict with the key "@": `{"@": "float", "value": "inf"}`. Arrays are kept apart, by number.
Classes are found by name in a fixed table, never imported by what a file says. What is written of an object, and what
may be read, is said by its class (`schema`): a dataclass by its fields, from which it is made again; an estimator by
its parameters and its `_saved`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from kernmend.model.errors import ERROR_MODELS

KIND = "@"
MODULES = (
    "kernmend.model.kernels",
    "kernmend.repair.mender",
    "kernmend.detect.columns",
    "kernmend.detect.scores",
    "kernmend.detect.detector",
    "kernmend.detect.entries",
    "kernmend.detect.groups",
    "kernmend.detect.rows",
    "kernmend.solvers.result",
    "kernmend.solvers.reference",
    "kernmend.repair.row_mender",
    "kernmend.repair.units",
)
OTHERS = {
    "sklearn.decomposition": ("KernelPCA",),
    "sklearn.preprocessing": ("KernelCenterer",),
}
SAVED = {  # of classes that have no `_saved`: what they hold besides their parameters
    "KernelPCA": (
        "n_features_in_",
        "X_fit_",
        "gamma_",
        "eigenvalues_",
        "eigenvectors_",
        "dual_coef_",
        "X_transformed_fit_",
        "_centerer",
    ),
    "KernelCenterer": ("n_features_in_", "K_fit_rows_", "K_fit_all_"),
}
ARRAY_KINDS = "biufc"  # numbers and bools: no objects, no structures


class EncodingError(ValueError):
    """Something that cannot be written, or was not written here."""


@cache
def known_classes() -> dict[str, type]:
    """Return the classes that a file may name: the estimators, and what they are made of."""
    estimators = import_module("kernmend.estimators")
    found = {name: getattr(estimators, name) for name in estimators.__all__}
    for name in MODULES:
        found |= {
            key: value
            for key, value in vars(import_module(name)).items()
            if isinstance(value, type) and value.__module__ == name
        }
    for name, classes in OTHERS.items():
        found |= {key: getattr(import_module(name), key) for key in classes}
    return found


@cache
def schema(cls: Any) -> tuple[str, ...]:
    """Return the names of the attributes that a file holds of an object; EncodingError if the class has no such list.

    Caches are not among them: a cached property, or what `__post_init__` works out, is made again.
    """
    if is_dataclass(cls):
        return tuple(field.name for field in fields(cls) if field.init)
    names = (*getattr(cls, "_saved", ()), *SAVED.get(cls.__name__, ()))
    if not names:
        raise EncodingError(f"nothing says what of a {cls.__name__} a model file holds")
    return (*cls._get_param_names(), *names, "_sklearn_output_config")  # the last is what `set_output` was told


class Encoder:
    """Turns objects into what JSON can say; the arrays met on the way are in `arrays`, each once."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._places: dict[int, int] = {}  # of arrays, by id: `arrays` keeps them alive

    def __call__(self, value: Any, where: str) -> Any:
        """Return `value` for JSON; EncodingError, with `where` it stands, if it is neither data nor of our classes."""
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, np.generic):
            return {KIND: "scalar", "array": self._array(np.asarray(value), where)}
        if isinstance(value, float) and not math.isfinite(value):
            return {KIND: "float", "value": str(value)}
        if value is None or type(value) in (bool, int, float, str):
            return value
        if type(value) is list:
            return self._list(value, where)
        if type(value) is tuple:
            return {KIND: "tuple", "items": self._list(value, where)}
        if type(value) is bytes:
            return {KIND: "bytes", "hex": value.hex()}
        if type(value) is dict:
            keys, values = self._list(list(value), where), self._list(list(value.values()), where)
            return {KIND: "dict", "keys": keys, "values": values}
        return self._object(value, where)

    def _list(self, values: Sequence[Any], where: str) -> Any:
        """Return a list; many rows of one length, or many bytes, as one array."""
        first = values[0] if len(values) > 1 else None
        if type(first) is bytes and first and {(type(v), len(v)) for v in values} == {(bytes, len(first))}:
            rows = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
            return {KIND: "many bytes", "array": self._array(rows, where)}
        if isinstance(first, np.ndarray) and first.ndim == 1 and first.dtype.kind in ARRAY_KINDS:
            same = {(v.dtype.str, v.shape) if isinstance(v, np.ndarray) else None for v in values}
            if same == {(first.dtype.str, first.shape)}:
                return {KIND: "many rows", "array": self._array(np.stack(values), where)}
        return [self(value, where) for value in values]

    def _array(self, value: "np.ndarray[Any, Any]", where: str) -> Any:
        if value.dtype.kind not in ARRAY_KINDS:  # names of columns are arrays of objects
            if value.ndim == 1 and all(isinstance(item, str) for item in value):
                return {KIND: "strings", "items": [str(item) for item in value], "object": value.dtype.kind == "O"}
            raise EncodingError(f"{where} is an array of {value.dtype}, which a model file cannot hold")
        if id(value) not in self._places:
            self._places[id(value)] = len(self.arrays)
            self.arrays.append(value)
        backwards = [axis for axis, stride in enumerate(value.strides) if stride < 0]
        return {KIND: "array", "name": str(self._places[id(value)]), "backwards": backwards}

    def _object(self, value: Any, where: str) -> Any:
        if isinstance(value, np.random.RandomState):
            return {KIND: "random", "state": self(value.get_state(legacy=False), where)}
        if isinstance(value, np.dtype) and value.kind in ARRAY_KINDS:
            return {KIND: "dtype", "name": value.str}
        if sparse.issparse(value):
            rows: Any = value.tocsr()  # type: ignore[attr-defined]
            parts = {name: self(getattr(rows, name), where) for name in ("data", "indices", "indptr")}
            return {KIND: "sparse", "shape": list(map(int, rows.shape)), **parts}
        if isinstance(value, type) and value in ERROR_MODELS.values():
            return {KIND: "error model", "name": getattr(value, "name", "")}
        name = type(value).__name__
        if known_classes().get(name) is not type(value):
            raise EncodingError(
                f"{where} is a {name} of {type(value).__module__}: a model file holds numbers, texts, arrays and "
                "kernmend's own classes only, so that reading one never runs foreign code"
            )
        cls: Any = type(value)
        state = {key: self(vars(value)[key], f"{where}.{key}") for key in schema(cls) if key in vars(value)}
        return {KIND: "object", "class": name, "state": state}


class Decoder:
    """The way back; `array` gives the array of a name."""

    def __init__(self, array: Callable[[str], "np.ndarray[Any, Any]"]) -> None:
        self._array = array

    def __call__(self, value: Any) -> Any:
        """Return the object; EncodingError if it cannot have been written by `Encoder`."""
        if isinstance(value, list):
            return [self(item) for item in value]
        if not isinstance(value, dict):
            return value
        kind = value.get(KIND)
        read = self._READERS.get(kind) if isinstance(kind, str) else None
        if read is None:
            raise EncodingError(f"there is nothing of the kind {kind!r}")
        return read(self, value)

    def _read_dict(self, value: Any) -> Any:
        return dict(zip(self(value["keys"]), self(value["values"]), strict=True))

    def _read_random(self, value: Any) -> Any:
        out = np.random.RandomState()
        out.set_state(self(value["state"]))
        return out

    def _read_sparse(self, value: Any) -> Any:
        parts = tuple(self(value[name]) for name in ("data", "indices", "indptr"))
        out = sparse.csr_array(parts, shape=tuple(value["shape"]))
        out.check_format(full_check=True)  # indices beyond the shape would read foreign memory
        return out

    def _read_object(self, value: Any) -> Any:
        cls = _class(value["class"])
        names, state = set(schema(cls)), value["state"]
        if state.keys() - names:
            raise EncodingError(f"{value['class']} has no {min(state.keys() - names)!r}")
        of_fields = is_dataclass(cls)
        if of_fields and (lacks := {field.name for field in fields(cls) if field.init} - state.keys()):
            raise EncodingError(f"a {value['class']} without {min(lacks)!r}")
        parts = {name: self(part) for name, part in state.items()}
        if of_fields:
            return cls(**parts)
        out = cls.__new__(cls)
        vars(out).update(parts)
        return out

    _READERS: dict[str, Callable[["Decoder", Any], Any]] = {  # noqa: RUF012
        "array": lambda self, value: np.flip(self._array(value["name"]), value["backwards"]),
        "scalar": lambda self, value: self(value["array"])[()],
        "float": lambda self, value: float(value["value"]),
        "tuple": lambda self, value: tuple(self(value["items"])),
        "bytes": lambda self, value: bytes.fromhex(value["hex"]),
        "many bytes": lambda self, value: [row.tobytes() for row in self(value["array"])],
        "many rows": lambda self, value: list(self(value["array"])),
        "dict": _read_dict,
        "strings": lambda self, value: np.array(list(map(str, value["items"])), object if value["object"] else str),
        "random": _read_random,
        "error model": lambda self, value: ERROR_MODELS[str(value["name"])],
        "dtype": lambda self, value: np.dtype(str(value["name"])),
        "sparse": _read_sparse,
        "object": _read_object,
    }


def _class(name: Any) -> Any:
    if not isinstance(name, str) or name not in known_classes():
        raise EncodingError(f"{name!r} is not a class that a model is made of")
    return known_classes()[name]
