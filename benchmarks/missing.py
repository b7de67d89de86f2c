"""Missing values: what they cost beside the same fit without, and how well they are filled in.

CPU seconds of one thread; ratios are within one run. Costs are those of `KernelRecovery().fit`, 3 % of the rows wrong,
in a process of its own each, with its peak memory. Errors are relative, on the missing entries, of what the fit fills
in, beside scikit-learn's imputers.

    python -m benchmarks missing [--least ROWS] [--most ROWS] [--picture docs/images/missing.png]
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from benchmarks.entries import cubic_surface, relative_error
from kernmend import KernelRecovery
from kernmend.datasets import make_cubic_surface, make_surface
from kernmend.paper.machine import peak_megabytes

SIZES = ((1000, 5), (3000, 30), (5000, 5), (20_000, 50), (100_000, 50))
SHARES = (0.0, 0.02, 0.1)
LIMITS = {0.02: 2.0, 0.1: 3.0}  # times the fit without
CURVE = (200, 500, 1000, 1500, 2000, 2500, 3500, 5000, 10_000, 30_000, 100_000)  # rows of the picture, 5 columns
WRONG, NOISE = 0.03, 0.02  # share of wrong rows; noise of the others, in standard deviations


def run() -> None:
    main([])


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["ONE"]:
        n, d, share = arguments[1:]
        print(json.dumps(one_fit(int(n), int(d), float(share))))
        return
    parser = argparse.ArgumentParser("python -m benchmarks missing", description=__doc__)
    parser.add_argument("--least", type=int, default=0, help="leave out data with fewer rows")
    parser.add_argument("--most", type=int, default=100_000, help="leave out data with more rows")
    parser.add_argument("--picture", type=Path, help="write CPU seconds against rows to this file, png, and no tables")
    options = parser.parse_args(arguments)
    if options.picture is not None:
        picture(options.picture, [n for n in CURVE if options.least <= n <= options.most])
        return
    costs([(n, d) for n, d in SIZES if options.least <= n <= options.most])
    errors([case for case in cases() if options.least <= len(case[1]) <= options.most])


# --- costs ----------------------------------------------------------------------------------------------------------


def table(n: int, d: int, share: float, *, wrong: float = WRONG, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a noisy cubic surface, and the same with wrong rows and missing entries."""
    rng = np.random.default_rng(seed)
    truth = make_cubic_surface(n, d, random_state=seed)
    truth += NOISE * truth.std() * rng.standard_normal(truth.shape)
    X, bad = truth.copy(), rng.permutation(n)[: int(wrong * n)]
    X[bad] += 3.0 * truth.std() * rng.standard_normal((len(bad), d))
    return truth, np.where(holes(X.shape, share, rng), np.nan, X)


def holes(shape: tuple[int, ...], share: float, rng: np.random.Generator) -> np.ndarray:
    """Return which entries are missing; no row is without any value."""
    out = rng.random(shape) < share
    out[out.all(axis=1), 0] = False
    return out


def one_fit(n: int, d: int, share: float) -> dict[str, float]:
    """Return CPU seconds and peak memory of a fit in this process."""
    warnings.simplefilter("ignore")
    X = table(n, d, share)[1]
    start = time.process_time()
    KernelRecovery().fit(X)
    return {"seconds": time.process_time() - start, "megabytes": peak_megabytes()}


def in_a_process(n: int, d: int, share: float) -> dict[str, float]:
    """Return what `one_fit` measures, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.missing", "ONE", str(n), str(d), str(share)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    out: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return out


def costs(sizes: Sequence[tuple[int, int]]) -> None:
    print("| rows × columns | " + " | ".join(f"{share:.0%} missing, CPU s | MB | ratio" for share in SHARES) + " |")
    print("|---" * (1 + 3 * len(SHARES)) + "|")
    for n, d in sizes:
        found = [in_a_process(n, d, share) for share in SHARES]
        cells = []
        for share, each in zip(SHARES, found, strict=True):
            ratio = each["seconds"] / found[0]["seconds"]
            mark = "" if ratio <= LIMITS.get(share, 1.0) else f" (above {LIMITS[share]:g})"
            cells.append(f"{each['seconds']:.1f} | {each['megabytes']:.0f} | {ratio:.2f}{mark}")
        print(f"| {n:,} × {d} | " + " | ".join(cells) + " |", flush=True)


def picture(path: Path, sizes: Sequence[int]) -> None:
    """Draw CPU seconds against rows, 5 columns, with nothing and with 2 % missing."""
    curves = {}
    for share in SHARES[:2]:
        curves[share] = [in_a_process(n, 5, share)["seconds"] for n in sizes]
        print(
            f"{share:.0%} missing: " + ", ".join(f"{n:,}: {s:.2f}" for n, s in zip(sizes, curves[share], strict=True))
        )
    draw(path, sizes, curves)


def draw(path: Path, sizes: Sequence[int], curves: dict[float, list[float]]) -> None:
    """Draw seconds against rows for each share that is missing."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes: Any = figure.subplots()
    for share, seconds in curves.items():
        axes.loglog(sizes, seconds, marker="o", label=f"{share:.0%} missing" if share else "nothing missing")
    axes.set(xlabel="rows (5 columns)", ylabel="CPU seconds of one fit")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", labelrotation=45)
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


# --- errors ---------------------------------------------------------------------------------------------------------


def cases() -> Iterator[tuple[str, np.ndarray, float]]:
    """Return the name of a data set, the data without units, and the share that will be missing."""
    for latent, share in ((3, 0.05), (3, 0.3), (3, 0.5), (2, 0.5)):
        surfaces = [cubic_surface(seed, 120, 30, latent) for seed in range(100, 105)]
        yield f"five cubic surfaces, {latent} latent, 600 × 30", np.vstack(surfaces), share
    yield "digits, 1,797 × 64", load_digits().data / 16.0, 0.3
    for share in (0.06, 0.3):
        yield "breast cancer, 569 × 30", _standard(load_breast_cancer().data), share
    yield "noisy cubic surface, 3,000 × 30", table(3000, 30, 0.0, wrong=0.0)[0], 0.1
    yield "noisy cubic surface, 1,000 × 5", table(1000, 5, 0.0, wrong=0.0)[0], 0.1
    roll = _standard(make_surface("swiss roll", 3000).X)
    yield "swiss roll and its squares, 3,000 × 6", np.hstack([roll, roll**2]), 0.15


def _standard(X: np.ndarray) -> np.ndarray:
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def errors(chosen: Sequence[tuple[str, np.ndarray, float]]) -> None:
    if not chosen:
        return
    methods: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "KernelRecovery": lambda X: KernelRecovery(contamination=0.0).fit_transform(X),
        "IterativeImputer": lambda X: IterativeImputer().fit_transform(X),
        "KNNImputer": lambda X: KNNImputer().fit_transform(X),
    }
    print("\n| data | missing | " + " | ".join(f"{name}, error | CPU s" for name in methods) + " |")
    print("|---" * (2 + 2 * len(methods)) + "|")
    warnings.simplefilter("ignore")
    for name, truth, share in chosen:
        missing = holes(truth.shape, share, np.random.default_rng(0))
        X = np.where(missing, np.nan, truth)
        cells = []
        for method in methods.values():
            start = time.process_time()
            A = method(X)
            seconds = time.process_time() - start
            cells.append(f"{relative_error(A[missing], truth[missing]):.4f} | {seconds:.1f}")
        print(f"| {name} | {share:.0%} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
