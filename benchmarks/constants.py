"""What each constant of detection is for: detection without it, on the sets that choices may be made on.

In place of each constant of `kernmend.detect` stands a value that switches it off, or one far from it where nothing is
off, and what that changes is shown. Constants that only set precision, memory or time are named and not switched off.

    python -m benchmarks constants [--only NAME ...] [--out FILE] [--page docs/constants.md]

Each constant is one line of the store as soon as it is there; what is there already is not run again.
"""

import argparse
import shlex
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.growth_page import table
from benchmarks.real_cases import Case, cases
from benchmarks.real_sample import Sample
from benchmarks.real_work import row_figures
from kernmend.datasets.metrics import f1_score
from kernmend.detect import Detector, columns, detector, entries, groups, rows, scores
from kernmend.detect.detector import Found
from kernmend.io import replacing
from kernmend.paper.store import Record, Store
from kernmend.repair.units import Units

MODULES: tuple[ModuleType, ...] = (columns, detector, entries, groups, rows, scores)
INF = float("inf")
# What stands in place of each constant.
INSTEAD: dict[str, Any] = {
    "ENDS": 0.5, "GAIN": INF, "ALPHA": 0.5, "TESTS": 1, "COLUMNS_PER_ROW": INF, "OTHERS": 1.0,
    "RIDGE": 1e-6, "CONSTANT": 1.0, "MAXIMA": (0.1, 0.9), "LEAST": 0.0,
    "SKEW": (-0.5, 0.7), "FEW_DIMENSIONS": (0.0, 0.0), "SCALE_SD": 1.0, "SHARES": np.geomspace(0.004, 0.1, 7),
    "PRIOR_SHARES": np.append(0.1, np.full(7, 0.9 / 7)),
    "LOWEST": np.array([-0.1, np.log(0.5), -3.0]), "HIGHEST": np.array([0.3, np.log(2.0), 0.5]),
    "NEAREST_WRONG": 1.0, "DISTANCES": 1, "SPREAD": 1.0, "BROAD": 0.001,
    "INFORMATIVE": 0.0, "HUBER": 1e9, "SURE": 0.5, "LIKELY": 0.75, "LEAST_SPREAD": 0.0,
    "KINDS": ("span",), "WIDTHS": (1.0,), "RIDGES": (1e-4,), "WORST": 0.5, "NEAREST": 4, "MANY_COLUMNS": 1,
    "RANK_CAP": 1.0, "TIE": 0.0, "EFFECT": 0.0, "FAR": INF, "STANDARD_ERRORS": 0.0,
    "SIDE": (0.5, 0.8), "INFORMATION": 0.01, "SHAPES": (0.2, 10.0), "GAP": INF, "END_GROUP": 0.5, "CLIP": INF,
    "FEWEST": 8,
}  # fmt: skip
# Constants of precision, memory, time and units.
PRECISION = {
    *("LOG10", "ROUNDS", "POINTS", "FINER", "RANGE", "BIN", "NODES", "SOME_ROWS", "NEGLIGIBLE", "LOG_LIMIT"),
    *("CHOOSING", "FILLS", "SAME", "NEARLY_SAME", "NONE_WRONG", "LARGEST", "LANDMARKS", "INJECTED", "ROUNDING", "TINY"),
}
MOST_ROWS = 600  # of a case, for the time of a run
WORSE_F1, WORSE_FLAGS = 0.02, 0.003  # what is worth showing: a loss of F1, and a gain in the share of good rows flagged
SHOWN = 3  # lines for each constant
NOTHING = "no flags in these sets: see its comment"
NOT_RUN = "not measured yet"
INTRODUCTION = f"""\
# What each constant of detection is for

- This page: `COMMAND`

Each line has one constant of `kernmend.detect` switched off, or far from its value where nothing is off, and the
groups of cases that this makes worse: by at least {WORSE_F1} of F1, or {100 * WORSE_FLAGS:.1f} % more of the good rows
flagged; the worst {SHOWN} of them. Lines "entries" are those of wrong entries of tables, all others of rows. The cases
are those of [real data](real.md) on which choices may be made, detection alone, first repetition, at most {MOST_ROWS}
rows.

Constants of precision, memory, time and units, which decide nothing: {", ".join(sorted(PRECISION))}.

"""


def constants() -> set[str]:
    """Return the names of all constants of detection that are written in capitals."""
    return {name for module in MODULES for name, value in vars(module).items() if name.isupper() and _is_plain(value)}


def _is_plain(value: object) -> bool:
    return isinstance(value, int | float | tuple | np.ndarray)


@contextmanager
def instead(name: str, value: object) -> Iterator[None]:
    """Put a value in place of a constant, in every module that has it."""
    before = [(module, getattr(module, name)) for module in MODULES if hasattr(module, name)]
    for module, _ in before:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, old in before:
            setattr(module, name, old)


def found_in(sample: Sample) -> Found:
    """Return what detection finds in a sample, in the units that `KernelRecovery` works in."""
    X = sample.X if sample.train is None else sample.train
    units = Units.of("auto", X)
    fitted, found = Detector.fit(np.asarray(units.enter(X), dtype=float), alpha=detector.ALPHA)
    return found if sample.train is None else fitted.find(np.asarray(units.enter(sample.X), dtype=float))


def line_of(case: Case) -> str:
    """Return the name of the line that a case is part of."""
    kind = case.kind
    if case.group == "pictures":
        kind += ", unit length" if "unit length" in case.name else ""
    elif case.group == "curves":
        kind = kind.replace("grid ", "")
    elif case.group in ("clean", "labelled", "spectra"):
        kind = case.name
    return f"{case.group}, {kind}"


def chosen_cases() -> list[Case]:
    """Return the cases that are looked at."""
    found = [case for case in cases() if not case.reported and case.seed == 0 and case.group != "sensors"]
    return [case for case in found if len(case.sample().X) <= MOST_ROWS]


def measure(some: Sequence[Case]) -> Record:
    """Return for each line the mean F1 and the share of the good rows that are flagged; None where there are none."""
    found: dict[str, list[dict[str, Any]]] = {}
    for case in some:
        sample = case.sample()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            flags = found_in(sample)
        found.setdefault(line_of(case), []).append(row_figures(sample.bad, flags.rows))
        if case.group == "tables" and sample.entries is not None and sample.entries.any():
            of_entries = {"f1": f1_score(sample.entries.ravel(), flags.entries.ravel())}
            found.setdefault(f"{line_of(case)}, entries", []).append(of_entries)
    return {line: [_mean(parts, "f1"), _mean(parts, "good_flagged")] for line, parts in found.items()}


def _mean(parts: Sequence[dict[str, Any]], name: str) -> float | None:
    values = [part[name] for part in parts if part.get(name) is not None]
    return round(float(np.mean(values)), 4) if values else None


def harm(before: Record, after: Record) -> list[str]:
    """Return the lines that a change makes worse, the worst first, as text."""
    worse: list[tuple[float, str]] = []
    for line, (f1, flagged) in before.items():
        new_f1, new_flagged = after[line]
        lost = (f1 - new_f1) / WORSE_F1 if f1 is not None else 0.0
        more = (new_flagged - flagged) / WORSE_FLAGS if flagged is not None else 0.0
        if lost >= 1.0 and lost >= more:
            worse.append((lost, f"{line}: F1 {f1:.2f} → {new_f1:.2f}"))
        elif more >= 1.0:
            worse.append((more, f"{line}: good rows flagged {100 * flagged:.1f} → {100 * new_flagged:.1f} %"))
    return [text for _, text in sorted(worse, reverse=True)]


def page(records: Sequence[Record], command: str) -> str:
    """Return the Markdown page."""
    by_name = {record["key"]: record["lines"] for record in records}
    body = []
    for name in sorted(INSTEAD):
        now = next(getattr(module, name) for module in MODULES if hasattr(module, name))
        shown = "; ".join(harm(by_name["as it is"], by_name[name])[:SHOWN]) or NOTHING if name in by_name else NOT_RUN
        body.append([f"`{name}`", _text(now), _text(INSTEAD[name]), shown])
    names = ["constant", "is", "in its place", "what that makes worse"]
    return INTRODUCTION.replace("COMMAND", command) + table(names, body)


def _text(value: Any) -> str:
    if isinstance(value, tuple | np.ndarray):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else f"{value:.4g}"


def run() -> None:
    main([])


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks constants", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=sorted(INSTEAD), default=list(INSTEAD), metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/constants.jsonl"), help="the store")
    parser.add_argument("--page", type=Path, help="write the page here in place of the terminal")
    options = parser.parse_args(arguments)
    store = Store(options.out.parent, options.out.name)
    some: list[Case] = []
    for name in ["as it is", *options.only]:
        if name in store.read():
            continue
        some, start = some or chosen_cases(), time.process_time()
        if name == "as it is":
            lines = measure(some)
        else:
            with instead(name, INSTEAD[name]):
                lines = measure(some)
        store.append({"key": name, "lines": lines})
        print(f"{name}: {time.process_time() - start:.0f} CPU s", flush=True)
    text = page(list(store.read().values()), shlex.join(["python", "-m", "benchmarks", "constants", *arguments]))
    if options.page is None:
        print(text)
    else:
        with replacing(options.page) as path:
            path.write_text(text)
