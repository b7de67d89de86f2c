"""What a result says about where and with what it was made, and how much memory it took."""

import hashlib
import os
import platform
import resource
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and the packages that matter."""
    out = {"python": platform.python_version()}
    for name in ("kernmend", "numpy", "scipy", "scikit-learn", "joblib"):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = "unknown"
    return out | {"code": code_digest()}


def code_digest() -> str:
    """Return a short name of the library's source, the experiments left out: other code, other results."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if "paper" not in path.name and "paper" not in path.parent.name:
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


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
