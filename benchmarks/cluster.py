"""A zarr array larger than the memory of the workers that mend it, one of which is killed in the middle.

python -m benchmarks.cluster FOLDER [--gigabytes 5] [--memory 1GB]; as one of all benchmarks the folder is that of
KERNMEND_SCRATCH, which is to hold twice the data.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np

from kernmend import KernelRecovery
from kernmend.datasets.metrics import f1_score, snr

D, CHUNK, WRONG, LANDMARKS = 2000, 1000, 0.02, 500
SAMPLE = 6  # chunks to look at, and blocks to mend again


def chunk(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of a cubic surface in 2,000 dimensions, the same with some rows noisy, and which are."""
    mix = np.random.default_rng(0).standard_normal((9, D)) / 3
    rng = np.random.default_rng([1, number])
    t = rng.uniform(-1, 1, (CHUNK, 2))
    powers = [
        t[:, part].prod(axis=1)
        for degree in (1, 2, 3)
        for part in map(list, combinations_with_replacement((0, 1), degree))
    ]
    truth = (np.column_stack(powers) @ mix).astype(np.float32)
    wrong = rng.random(CHUNK) < WRONG
    X = truth + wrong[:, np.newaxis] * rng.standard_normal(truth.shape).astype(np.float32)
    return truth, X, wrong


def make(path: Path, n_chunks: int) -> None:
    import zarr

    array = zarr.create_array(path, shape=(n_chunks * CHUNK, D), chunks=(CHUNK, D), dtype="f4", compressors=None)
    for number in range(n_chunks):
        array[number * CHUNK : (number + 1) * CHUNK] = chunk(number)[1]


def mend(source: Path, target: Path, memory: str) -> tuple[float, float, bool]:
    """Run `kernmend mend`, kill a worker; return minutes, the most that a worker took, and whether one was killed."""
    import psutil

    command = [sys.executable, "-m", "kernmend", "mend", source, "-o", target, "--workers", 2, "--memory", memory]
    started, peak, killed = time.perf_counter(), 0, False
    with subprocess.Popen([*map(str, command), "--landmarks", str(LANDMARKS)]) as process:
        while process.poll() is None:
            workers = {}
            for child in psutil.Process(process.pid).children(recursive=True):
                try:
                    workers[child] = child.memory_info().rss
                except psutil.Error:
                    continue
            peak = max([peak, *workers.values()])
            if not killed and workers and _written(target) > 0.3:
                os.kill(max(workers, key=workers.__getitem__).pid, 9)
                killed = True
            time.sleep(0.1)
    if process.returncode:
        sys.exit(f"kernmend mend ended with {process.returncode}")
    return (time.perf_counter() - started) / 60, peak / 1e6, killed


def _written(target: Path) -> float:
    """Return the share of the chunks that the workers have written: they are younger than the last one copied."""
    folders = list(target.parent.glob(f".{target.name}.*.part/out/c"))
    if not folders:
        return 0.0
    try:
        files = list(folders[0].glob("*/*"))
        born = folders[0].parent.stat().st_ctime  # its attributes are copied when all files are there
        return sum(file.stat().st_mtime > born for file in files) / max(len(files), 1)
    except FileNotFoundError:  # it got its name
        return 0.0


def mended_again(source: Path, numbers: list[int]) -> list[np.ndarray]:
    """Return some blocks, as a fit in this process mends them."""
    import dask

    from kernmend.cli.cluster import _array
    from kernmend.io._blocks import open_blocks

    blocks, data = open_blocks(source)
    with dask.config.set(scheduler="synchronous"):
        est = KernelRecovery(landmarks=LANDMARKS).fit(_array(blocks, data.X))
        return [est.recovered_.blocks[k].compute() for k in numbers]


def measure(folder: Path, gigabytes: float, memory: str) -> None:
    import zarr

    from kernmend.io._blocks import open_blocks

    source, target = folder / "big.zarr", folder / "clean.zarr"
    n_chunks = round(gigabytes * 1e9 / (4 * CHUNK * D))
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    make(source, n_chunks)
    minutes, peak, killed = mend(source, target, memory)
    out = zarr.open(target)
    sizes = open_blocks(source)[0].sizes
    numbers = np.linspace(0, len(sizes) - 1, SAMPLE).astype(int).tolist()
    starts = np.cumsum([0, *sizes])
    again = mended_again(source, numbers)
    same = [np.array_equal(out[starts[k] : starts[k + 1]], block) for k, block in zip(numbers, again, strict=True)]
    scores = []
    for k in np.linspace(0, n_chunks - 1, SAMPLE).astype(int).tolist():
        truth, X, wrong = chunk(k)
        A = out[k * CHUNK : (k + 1) * CHUNK]
        scores.append((f1_score(wrong, (A != X).any(axis=1)), snr(truth[wrong], X[wrong]), snr(truth[wrong], A[wrong])))
    found, before, after = np.mean(scores, axis=0)
    size = f"{n_chunks * CHUNK * D * 4 / 1e9:.2f} GB, {n_chunks * CHUNK} × {D} float32"
    print(f"{size}, {100 * WRONG:.0f} % of the rows wrong")
    print(f"2 workers of {memory}, one killed in the middle: {'yes' if killed else 'no, it was too quick'}\n")
    print("| minutes | peak of a worker | blocks as without the kill | F1 of the flags | SNR before | after |")
    print("|---|---|---|---|---|---|")
    found = f"{found:.3f} | {before:.1f} dB | {after:.1f} dB"
    print(f"| {minutes:.1f} | {peak:.0f} MB | {sum(same)} of {len(same)} | {found} |")


def run() -> None:
    folder = os.environ.get("KERNMEND_SCRATCH")
    if folder is None:
        sys.exit("say where there is room for 10 GB: KERNMEND_SCRATCH=/some/folder")
    measure(Path(folder), 5.0, "1GB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--memory", default="1GB")
    arguments = parser.parse_args()
    measure(arguments.folder, arguments.gigabytes, arguments.memory)
