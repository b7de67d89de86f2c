"""A whole default fit against one eigendecomposition of its Gram matrix, and against `OutlierPursuit()`.

Each data set runs in a process of its own, with one thread, so that its peak memory is its own and other processes on
the machine do not count. COIL-20 needs KERNMEND_DATA, the folder with coil20_32.npz.
"""

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.default import corrupt, image_cases
from kernmend import KernelRecovery, OutlierPursuit
from kernmend.datasets.metrics import f1_score, snr
from kernmend.paper.experiments import get
from kernmend.paper.machine import peak_megabytes, reset_peak
from kernmend.paper.matrices import make_matrix

KINDS = {"noise": "Gaussian (energy)", "occlusion": "occlusion"}
CASES = {
    f"{data}, {kind}": f"{data}, {label}, [0, 1]" for data in ("MNIST", "COIL-20") for kind, label in KINDS.items()
}
PURSUIT_SEEDS = (60, 61, 62)  # those of `benchmarks default`
REPEATS = 3  # fits of both, in turn, whose CPU times are compared
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def run() -> None:
    print(
        "CPU seconds with one thread; `eigh` is one numpy.linalg.eigh of the Gram matrix of all rows, in the same run."
    )
    print("Rows of the decompositions are those that kernmend asked for.\n")
    print("| data | n × d | eigh s | fit s | ratio | peak GB | eigendecompositions of so many rows | F1 | dB |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in CASES:
        if name.startswith("COIL") and "KERNMEND_DATA" not in os.environ:
            print("(COIL-20 left out: set KERNMEND_DATA to the folder with coil20_32.npz)")
            break
        _in_a_process(name)
    print("\nBeside `OutlierPursuit()`, MNIST 400 × 784 with noise, CPU seconds: medians of fits in turn. Goal: 1.\n")
    print("| seed | OutlierPursuit() | KernelRecovery() | ratio |")
    print("|---|---|---|---|", flush=True)
    _in_a_process("pursuit")


def _in_a_process(name: str) -> None:
    """Print the lines of one part, from a process of its own with one thread."""
    subprocess.run([sys.executable, "-m", "benchmarks.cost", name], check=True, env=os.environ | ONE_THREAD)


def measure(name: str) -> None:
    """Print the line of one data set."""
    warnings.simplefilter("ignore")
    case = next(case for case in get("denoise").cases if case.label == CASES[name])
    data = make_matrix(case.data, case.corruption, 0, Path(os.environ.get("KERNMEND_DATA", ".")))
    reset_peak()
    with counted() as sizes:
        start = time.process_time()
        est = KernelRecovery(landmarks=None).fit(data.X)
        fit = time.process_time() - start
    peak = peak_megabytes() / 1024
    K = est.kernel_.gram(data.X.astype(np.float64, copy=False))
    start = time.process_time()
    np.linalg.eigh(K)
    eigh = time.process_time() - start
    many = ", ".join(f"{sizes.count(size)} × {size}" for size in sorted(set(sizes)))
    print(
        f"| {name} | {data.X.shape[0]} × {data.X.shape[1]} | {eigh:.2f} | {fit:.2f} | {fit / eigh:.1f} | {peak:.2f} | "
        f"{many} | {f1_score(data.rows, est.outliers_):.2f} | "
        f"{snr(data.truth[data.rows], est.recovered_[data.rows]):.2f} |",
        flush=True,
    )


def beside_pursuit() -> None:
    """Print the lines of the second table."""
    warnings.simplefilter("ignore")
    digits = next(image_cases())
    for seed in PURSUIT_SEEDS:
        X = corrupt(digits, "noise", seed)[1].X
        times = np.array([[seconds(OutlierPursuit, X), seconds(KernelRecovery, X)] for _ in range(REPEATS)])
        (pursuit, ours), ratio = np.median(times, axis=0), np.median(times[:, 1] / times[:, 0])
        print(f"| {seed} | {pursuit:.2f} | {ours:.2f} | {ratio:.2f} |", flush=True)


def seconds(method: type, X: np.ndarray) -> float:
    """Return the CPU seconds of one default fit."""
    start = time.process_time()
    method().fit(X)
    return time.process_time() - start


@contextmanager
def counted() -> Iterator[list[int]]:
    """Write down the rows of every matrix that is decomposed; `spectral` alone calls eigen-solvers."""
    sizes: list[int] = []
    eigh = np.linalg.eigh

    def counting(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sizes.append(K.shape[0])
        s, U = eigh(K)
        return s, U

    with patch("numpy.linalg.eigh", counting):
        yield sizes


if __name__ == "__main__":
    beside_pursuit() if sys.argv[1] == "pursuit" else measure(sys.argv[1])
