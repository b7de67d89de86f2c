"""What a result says about where and with what it was made, and how much memory it took."""

import ast
import hashlib
import os
import platform
import resource
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import kernmend
from kernmend._methods import METHODS


@cache
def versions(estimator: str = "") -> dict[str, str]:
    """Return the versions of Python, of packages that matter and of the code that an estimator runs; without, all."""
    out = {"python": platform.python_version()}
    for name in ("kernmend", "numpy", "scipy", "scikit-learn", "joblib"):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = "unknown"
    return out | {"code": code_digest(estimator)}


@cache
def code_digest(estimator: str = "") -> str:
    """Return a short name of the source that an estimator runs: other code, other results.

    Without an estimator it is all of the library but the experiments.
    """
    root = Path(__file__).parents[1]
    if estimator in METHODS.values():
        paths = _imported(root.parent, getattr(kernmend, estimator).__module__)
    else:
        paths = {p for p in root.rglob("*.py") if "paper" not in p.name and "paper" not in p.parent.name}
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _imported(source: Path, module: str) -> set[Path]:
    """Return the files that a module of kernmend imports when it is loaded, its own among them."""
    found: dict[str, Path] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        path = source / name.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if name in found or not path.exists():
            continue
        found[name] = path
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernmend."):
                names = [f"{node.module}.{each.name}" for each in node.names]  # a module, or something of one
                todo += [each if (source / each.replace(".", "/")).with_suffix(".py").exists() else str(node.module)
                         for each in names]  # fmt: skip
    return set(found.values())


@cache
def machine() -> dict[str, str | int]:
    """Return the processor, the cores and the number of BLAS threads asked for."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text(errors="replace").splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    return {"processor": model, "cores": os.cpu_count() or 1, "system": platform.system(), "threads": threads}


def reset_peak() -> None:
    """Forget the peak of this process's memory, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_megabytes() -> float:
    """Return the peak memory of this process in MB, since `reset_peak`; where that does not work, since its start."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return round(int(line.split()[1]) / 1024.0, 1)
    except OSError:
        pass
    unit = 1024.0**2 if sys.platform == "darwin" else 1024.0
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
