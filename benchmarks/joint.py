"""The paper's model by itself, `KernelLowRank()`, on data that no rule of it was chosen on.

Total error is the squared error of all rows over that of the untouched data. Outlier Pursuit has the lam of a grid that
is best on the truth, and so has the last column: kernel, rho and lam of the model itself, at the first seed.

    python -m benchmarks joint [--seeds 3] [--first 73] [--parts images grid tables surfaces cubic large]
                               [--only occlusion] [--no-grid] [--sizes 400 3600] [--page docs/joint.md]
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.default import box_outliers, corrupt, image_cases
from benchmarks.real_cases import CHOOSE, tables
from benchmarks.real_errors import corrupt_table
from benchmarks.real_sample import robust_sd
from kernmend import KernelLowRank, KernelRecovery, OutlierPursuit
from kernmend.datasets import make_cubic_surface, make_surface
from kernmend.datasets.metrics import snr
from kernmend.detect import Detector
from kernmend.linalg.distances import median_squared_distance
from kernmend.model.errors import error_model
from kernmend.model.kernels import RBF, Polynomial
from kernmend.model.penalties import rho_from_cutoff
from kernmend.model.tuning import centred_trace
from kernmend.paper.machine import code_digest
from kernmend.paper.matrices import make_matrix
from kernmend.paper.spec import Corruption, Data
from kernmend.repair.joint import Problem
from kernmend.repair.joint_entries import find_entries
from kernmend.repair.joint_plan import Planner
from kernmend.repair.joint_trial import Trial
from kernmend.repair.mender import Mender

FIRST = 73  # Seed of the first set; the rules were chosen on others.
# Total error that is asked for: by how the name of a set begins, by a word of it, by what is given.
GOALS = {
    ("MNIST", "noise", ""): 0.27,
    ("MNIST", "noise", "gamma"): 0.42,
    ("MNIST", "occlusion", ""): 0.55,
    ("MNIST", "occlusion", "error"): 0.40,
    ("COIL", "noise", ""): 0.11,
    ("COIL", "occlusion", ""): 0.60,
    ("COIL", "occlusion", "error"): 0.35,
}
SHARES = {"circle": 2, "sphere": 5, "swiss roll": 20}  # Percent of the distance of outliers that may stay.
EIGHS = 15  # What a fit of 3600 × 1024 may cost, in decompositions of its Gram matrix.
SIZES = (200, 400, 1000, 3600)  # Rows of the part `large`: a trial has 200.
PURSUIT_LAMS = (0.7, 0.8, 0.9, 0.95, 0.97)
WIDTHS, CUTS, FORCES = (0.003, 0.03), (1e-3, 3e-4, 1e-4), (0.75, 0.85, 0.92, 0.97)
# Those of the part `grid`; an offset is coef0 over the mean squared length of a row.
MORE_WIDTHS, MORE_CUTS = (0.003, 0.03, 0.1, 0.3, 1.0), (3e-3, 1e-3, 3e-4, 1e-4)
MORE_FORCES, OFFSETS = (0.5, 0.65, 0.75, 0.85, 0.95), (3.0,)
# Of the part `tables`: rows at most, errors, and what the model is given.
TABLE_ROWS, TABLE_ERRORS = 200, ("spike 10", "drawn")
TABLE_MODELS = tuple({"error": error, "scale": scale} for error in ("entries", "auto") for scale in (None, "auto"))


@dataclass(frozen=True)
class Set:
    """Images, clean and with a tenth of them corrupted, and what the model is given."""

    name: str
    make: Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]]
    given: dict[str, Any]


def run() -> None:
    main([])


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks joint", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="data sets of each kind")
    parser.add_argument("--first", type=int, default=FIRST, help="seed of the first; rules were chosen on 11 to 14")
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS), help="what to run")
    parser.add_argument("--no-grid", action="store_true", help="leave out what is best on the truth, the longest part")
    parser.add_argument("--only", default="", metavar="TEXT", help="sets of images whose name or given value has it")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="rows of the part `large`")
    parser.add_argument("--page", type=Path, help="write to this file")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    page = nullcontext(sys.stdout) if options.page is None else options.page.open("w", encoding="utf-8")
    with page as out, redirect_stdout(out):
        words = " ".join(["python -m benchmarks joint", *arguments])
        print(f"# The paper's model by itself\n\nMade by `{words}`, code {code_digest()}.\n")
        for part in options.parts:
            if part == "grid" and options.no_grid:
                continue
            PARTS[part](range(options.first, options.first + options.seeds), options)


# --- images ---------------------------------------------------------------------------------------------------------


def images(seeds: range, options: argparse.Namespace) -> None:
    print("## Images\n")
    print(f"Images, medians over seeds {min(seeds)}-{max(seeds)}: dB on corrupted / clean rows (total error).\n")
    print("| data | given | untouched | KernelLowRank | asked for | reason | CPU, in OPs | in fits with all given | "
          "the same from the data | OP, best lam | clean data changed | best of a grid on the truth |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for each in image_sets():
        words = ", ".join(f"{key}={value!r}" for key, value in each.given.items())
        if options.only not in f"{each.name} {words}":
            continue
        rows = [_one(each, seed) for seed in seeds]
        table = np.median(np.array([row[:8] for row in rows]), axis=0)
        reasons = "; ".join(dict.fromkeys(row[8] for row in rows))
        changed = max(int(row[9]) for row in rows)
        bad, good, total, untouched, pursuit, op, fit, plain = table
        best = "" if options.no_grid else _best(each, seeds[0])
        print(
            f"| {each.name} | {words} | {untouched:.1f} | {bad:.2f} / {good:.1f} ({total:.3f}) | {_goal(each)} | "
            f"{reasons} | {op:.1f} | {fit:.1f} | {plain:.1f} | ({pursuit:.3f}) | {changed} rows | {best} |",
            flush=True,
        )


def _goal(each: Set) -> str:
    """Return the total error that is asked for on a set; nothing where none is."""
    for (begin, word, given), goal in GOALS.items():
        if each.name.startswith(begin) and word in each.name and given == next(iter(each.given), ""):
            return f"{goal:.2f}"
    return ""


def image_sets() -> Iterator[Set]:
    """Yield the sets of images with what is given: nothing, another error model, or the printed kernel."""
    for case in image_cases():
        if "as they are" in case.name:
            continue
        for kind in ("noise", "occlusion"):

            def make(seed: int, case: Any = case, kind: str = kind) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
                truth, (X, bad) = corrupt(case, kind, seed)
                return truth, X, bad

            yield Set(f"{case.name}, {kind}", make, {})
            if kind == "occlusion":
                yield Set(f"{case.name}, {kind}", make, {"error": "auto"})
            elif "MNIST" in case.name:
                yield Set(f"{case.name}, {kind}", make, {"kernel": "poly"})
                yield Set(
                    f"{case.name}, {kind}, unit length",
                    lambda seed, make=make: _unit_length(*make(seed)),
                    {"gamma": 0.003},
                )


def _unit_length(truth: np.ndarray, X: np.ndarray, bad: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return *(A / np.linalg.norm(A, axis=1, keepdims=True) for A in (truth, X)), bad


def _one(each: Set, seed: int) -> list[Any]:
    """Return dB on corrupted and on clean rows, total error, that of OP at its best, CPU ratios, and the reason."""
    truth, X, bad = each.make(seed)
    seconds, est = _timed(lambda: KernelLowRank(**each.given).fit(X))
    pursuit_seconds, _ = _timed(lambda: OutlierPursuit().fit(X))
    pursuit = min(_total(truth, X, OutlierPursuit(lam=lam).fit(X).recovered_) for lam in PURSUIT_LAMS)
    whole, plain = _given(est, X) if est.lam_ is not None else (np.nan, np.nan)
    clean = KernelLowRank(**each.given).fit(truth).recovered_
    A = est.recovered_
    with np.errstate(divide="ignore"):
        good = min(snr(truth[~bad], A[~bad]), 99.0)
    figures = [snr(truth[bad], A[bad]), good, _total(truth, X, A), snr(truth[bad], X[bad]), pursuit]
    reason = "chosen" if est.lam_ is not None else est.reason_
    ratios = [seconds / each for each in (pursuit_seconds, whole, plain)]
    return [*figures, *ratios, reason, np.any(clean != truth, axis=1).sum()]


def _given(est: KernelLowRank, X: np.ndarray) -> tuple[float, float]:
    """Return the CPU seconds of a fit with all given that another fit chose, its start too, and of one from the data.

    From the data wrong rows may end in a minimum beside them, soon, with nothing mended.
    """
    chosen = est.kernel, est.gamma, est.degree, est.coef0, est.lam, est.rho, est.error, est.penalty
    plan = Planner(*chosen, nuclear_only=False, seed=0).plan(X)
    error = est.error_ if plan.observed is None else "kernel"  # whose lam it is
    given = {"kernel": est.kernel_, "lam": est.lam_, "rho": est.rho_, "error": error}
    rows = X if plan.observed is None else plan.observed
    whole, again = _timed(lambda: KernelLowRank(**given, init=plan.start).fit(rows))
    # Both may end at their last iteration, not in one place: the smoothing has the scale of rows with wrong entries.
    if np.linalg.norm(again.recovered_ - est.recovered_) > 0.05 * np.linalg.norm(est.recovered_ - X):
        raise RuntimeError("a fit with all given does something else than the one that chose it")
    return whole, _timed(lambda: KernelLowRank(**given).fit(X))[0]


def _best(each: Set, seed: int) -> str:
    """Return the least total error of a grid over kernel, cut-off and lam, at the first seed.

    A gamma that is given stays. With error='auto' the model gets the rows as they are with wrong entries filled in, in
    the way that is best on the truth. The polynomial kernel has no grid: it does what the Gaussian one does.
    """
    if "kernel" in each.given:
        return ""
    truth, X, bad = each.make(seed)
    rows = _filled(truth, X) if each.given.get("error") == "auto" else X
    gammas = {f"width {width}": width / median_squared_distance(X) for width in WIDTHS}
    if "gamma" in each.given:
        gammas = {f"gamma {each.given['gamma']}": each.given["gamma"]}
    found = {}
    for name, gamma in gammas.items():
        kernel = RBF(gamma)
        trace = centred_trace(kernel.gram(X))
        for cut in CUTS:
            for lam in FORCES:
                A = KernelLowRank(kernel=kernel, rho=rho_from_cutoff(cut * trace), lam=lam).fit(rows).recovered_
                found[name, cut, lam] = _total(truth, X, A), snr(truth[bad], A[bad])
    where = min(found, key=lambda key: found[key][0])
    return f"{found[where][0]:.3f} ({found[where][1]:.1f} dB) at {where[0]}, cut-off {where[1]:g}, lam {where[2]}"


def grid(seeds: range, options: argparse.Namespace) -> None:
    """Print the least total error, chosen on the truth, that the model can have on covered digits."""
    each = next(each for each in image_sets() if "MNIST" in each.name and "occlusion" in each.name and not each.given)
    truth, X, bad = each.make(seeds[0])
    model = ("rbf", "auto", 2.0, "auto", "auto", "auto", "kernel", "auto")
    mended = Planner(*model, nuclear_only=False, seed=0).plan(X).start
    unit, length = 1.0 / median_squared_distance(X), float(np.mean(np.sum(X**2, axis=1)))
    lines = [(f"width {width}", RBF(width * unit), "kernel", "mended", mended) for width in MORE_WIDTHS]
    lines += [(f"degree 2, offset {offset:g}", Polynomial(2.0, offset * length), "kernel", "mended", mended)
              for offset in OFFSETS]  # fmt: skip
    lines += [("width 0.1", RBF(0.1 * unit), *rest) for rest in (
        ("rows", "mended", mended), ("kernel", "the truth", truth))]  # fmt: skip
    print("\n## Covered digits: what the model can do\n")
    print(f"{each.name}, seed {seeds[0]}: the least total error over lam {', '.join(map(str, MORE_FORCES))}, chosen on "
          "the truth, with that lam and the dB on corrupted / clean rows.\n")  # fmt: skip
    print("| kernel | error | start | " + " | ".join(f"cut-off {cut:g}" for cut in MORE_CUTS) + " |")
    print("|---|---|---|" + "---|" * len(MORE_CUTS))
    for name, kernel, error, word, start in lines:
        trace, cells = centred_trace(kernel.gram(X)), []
        of_lam = Problem.of(X, kernel, error_model(error)).unit_of_lam
        for rho in (rho_from_cutoff(cut * trace) for cut in MORE_CUTS):
            found = []
            for lam in MORE_FORCES:
                A = KernelLowRank(kernel=kernel, error=error, rho=rho, lam=lam * of_lam, init=start).fit(X).recovered_
                found.append((_total(truth, X, A), lam, snr(truth[bad], A[bad]), snr(truth[~bad], A[~bad])))
            total, lam, wrong, good = min(found)
            cells.append(f"{total:.3f} (lam {lam}, {wrong:.1f} / {good:.1f})")
        print(f"| {name} | {error} | {word} | {' | '.join(cells)} |", flush=True)


def _filled(truth: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return rows with wrong entries filled in, by that way of `error='auto'` which is best on the truth."""
    detector, found = Detector.fit(X)
    wrong, rows = found.rows, X.copy()
    first = Trial.of(X, wrong, detector, 0).first
    rows[wrong] = find_entries(Mender(X[~wrong]), X[wrong], first, lambda A: np.sum((A - truth[wrong]) ** 2))[1]
    return rows


def _total(truth: np.ndarray, X: np.ndarray, A: np.ndarray) -> float:
    return float(np.sum((A - truth) ** 2) / np.sum((X - truth) ** 2))


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


# --- surfaces -------------------------------------------------------------------------------------------------------


def surfaces(seeds: range, options: argparse.Namespace) -> None:
    print("\n## Surfaces\n")
    print(f"Surfaces, 300 points, 10 % uniform in 1.5 times the box, medians over seeds {min(seeds)}-{max(seeds)}.")
    print("Outliers lie farther from the surface than 5 % of its extent.\n")
    print("| surface | outliers, distance before | after | share | asked for | good points moved, share of the "
          "extent | clean data changed |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for name, goal in SHARES.items():
        table = np.array([_surface(name, seed) for seed in seeds])
        before, after, moved, _ = np.median(table, axis=0)
        print(
            f"| {name} | {before:.3f} | {after:.4f} | {100 * after / before:.1f} % | {goal} % | {100 * moved:.2f} % | "
            f"{int(table[:, 3].max())} rows |",
            flush=True,
        )


def _surface(name: str, seed: int) -> list[float]:
    surface = make_surface(name, random_state=seed)
    (X, replaced), extent = box_outliers(surface.X, seed + 100)
    bad = surface.distance(X) > 0.05 * extent
    A = KernelLowRank().fit(X).recovered_
    clean = KernelLowRank().fit(surface.X).recovered_
    moved = float(np.linalg.norm((A - X)[~replaced], axis=1).mean()) / extent
    distances = [float(surface.distance(B[bad]).mean()) for B in (X, A)]
    return [*distances, moved, float(np.any(clean != surface.X, axis=1).sum())]


def real(seeds: range, options: argparse.Namespace) -> None:
    """Print what is left of errors injected into real tables, where good entries may be harmed."""
    print("\n## Errors in real tables\n")
    print(f"Rows at random, {TABLE_ROWS} at most, errors in a twentieth of them, seeds {min(seeds)}-{max(seeds)}:")
    print("squared error in units of each column's spread over that of the untouched table, median (and largest).\n")
    words = [", ".join(f"{key}={value!r}" for key, value in given.items()) for given in TABLE_MODELS]
    print(f"| table | errors | `KernelRecovery()` | {' | '.join(words)} |")
    print("|---|---|---|" + "---|" * len(words))
    for name, table in tables().items():
        for kind in TABLE_ERRORS if options.only in name else ():
            left = np.array([_table(table, kind, seed) for seed in seeds])
            cells = (f"{np.median(each):.2f}" + f" ({each.max():.2f})" * (len(seeds) > 1) for each in left.T)
            print(f"| {name if name in CHOOSE else f'{name}, reported'} | {kind} | {' | '.join(cells)} |", flush=True)


def _table(table: np.ndarray, kind: str, seed: int) -> list[float]:
    """Return the total error of the default and of the paper's model."""
    rng = np.random.default_rng(seed)
    truth = table[~np.isnan(table).any(axis=1)]
    truth = truth[np.sort(rng.permutation(len(truth))[:TABLE_ROWS])]
    X, unit = corrupt_table(truth, kind, rng).X, robust_sd(truth)
    unit[unit == 0.0] = 1.0
    models = (KernelRecovery(), *(KernelLowRank(**given) for given in TABLE_MODELS))
    return [_total(truth / unit, X / unit, est.fit(X).recovered_ / unit) for est in models]


def cubic(seeds: range, options: argparse.Namespace) -> None:
    more = range(seeds[0], seeds[-1] + 8)
    print("\n## Wrong entries\n")
    print("A cubic surface, 100 × 20, N(0, 1) added to a share of the entries, error='entries': relative error, mean "
          f"over seeds {min(more)}-{max(more)}.\n")  # fmt: skip
    print("| wrong entries | untouched | KernelLowRank |")
    print("|---|---|---|")
    for share in (0.0, 0.1, 0.3, 0.5):
        before, after = np.mean([_cubic(share, seed) for seed in more], axis=0)
        print(f"| {100 * share:g} % | {before:.3f} | {after:.3f} |", flush=True)


def _cubic(share: float, seed: int) -> tuple[float, float]:
    truth = make_cubic_surface(100, 20, random_state=seed)
    rng = np.random.default_rng(seed + 100)
    X = truth + (rng.random(truth.shape) < share) * rng.standard_normal(truth.shape)
    A = KernelLowRank(error="entries").fit(X).recovered_
    size = float(np.linalg.norm(truth))
    return float(np.linalg.norm(X - truth)) / size, float(np.linalg.norm(A - truth)) / size


# --- the size of the paper's larger experiment ----------------------------------------------------------------------


def large(seeds: range, options: argparse.Namespace) -> None:
    print("\n## The size of COIL-20\n")
    print(f"COIL-20, rows at random of 3600 × 1024, noise, seed {seeds[0]}: CPU time of `KernelLowRank()` in "
          f"decompositions of its Gram matrix; at 3,600 rows at most {EIGHS} are asked for.\n")  # fmt: skip
    print("| rows | lam | CPU seconds | eigh | in eigh | iterations | corrupted / clean (total error) |")
    print("|---|---|---|---|---|---|---|")
    whole = make_matrix(Data("coil"), Corruption("gaussian"), seeds[0])
    order = np.random.default_rng(seeds[0]).permutation(len(whole.X))
    for n in options.sizes:
        truth, X, bad = (part[np.sort(order[:n])] for part in whole)
        K = RBF(1.0 / median_squared_distance(X)).gram(X.astype(np.float64))
        eigh, _ = _timed(lambda K=K: np.linalg.eigh(K))
        seconds, est = _timed(lambda X=X: KernelLowRank().fit(X))
        A, truth = est.recovered_, truth.astype(np.float64)
        figures = f"{snr(truth[bad], A[bad]):.1f} / {snr(truth[~bad], A[~bad]):.1f} ({_total(truth, X, A):.3f})"
        work = f"{seconds:.1f} | {eigh:.2f} | {seconds / eigh:.1f} | {est.n_iter_}"
        print(f"| {n} | {est.lam_:.3f} | {work} | {figures} |", flush=True)


PARTS: dict[str, Callable[[range, argparse.Namespace], None]] = {
    "images": images, "grid": grid, "tables": real, "surfaces": surfaces, "cubic": cubic, "large": large,
}  # fmt: skip
