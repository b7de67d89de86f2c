"""Files: a large csv against pandas in CPU seconds and memory, and 10,000 damaged files of all formats.

    python -m benchmarks files              1,000,000 × 20 numbers; --rows N for others
    python -m benchmarks files --damaged    the damaged files

Each reader has a process of its own, with one thread, and reads and writes a few lines first, so that what it imports
is not counted. Memory is the peak beyond that, over the size of the file. kernmend writes a file in which one cell in
20,000 is another; pandas writes its DataFrame.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.cost import ONE_THREAD

COLUMNS = 20
KINDS = ("plain", "decimal commas", "amounts", "euros", "short")
"""Numbers of six decimals; the same with decimal commas between semicolons; with $ or €, thousands and two decimals;
of one decimal."""
READERS = ("kernmend", "pandas")


def run() -> None:
    main([])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks files")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--damaged", action="store_true")
    parser.add_argument("--one", nargs=3, metavar=("READER", "KIND", "PATH"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(*_measure(*options.one))
    elif options.damaged:
        _damaged()
    else:
        _compare(options.rows)


def _compare(rows: int) -> None:
    print(
        f"{rows:,} × {COLUMNS} numbers, CPU seconds with one thread; memory beyond the imports over the file's size.\n"
    )
    print("| file | MB | reader | read s | write s | both, over pandas | memory |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            path = Path(folder) / f"{kind}.csv"
            _make(path, kind, rows)
            size = path.stat().st_size
            found = {reader: _in_a_process(reader, kind, path) for reader in READERS}
            for reader, (reading, writing, peak) in found.items():
                ratio = (reading + writing) / sum(found["pandas"][:2])
                facts = f"{reading:.1f} | {writing:.1f} | {ratio:.2f} | {peak / size:.1f}"
                print(f"| {kind} | {size / 1e6:.0f} | {reader} | {facts} |", flush=True)
            path.unlink()


def _make(path: Path, kind: str, rows: int) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        delimiter = "," if kind in ("plain", "short") else ";"
        file.write(delimiter.join(f"c{j}" for j in range(COLUMNS)) + "\n")
        for start in range(0, rows, 10_000):
            X = rng.normal(size=(min(10_000, rows - start), COLUMNS))
            if kind in ("amounts", "euros"):
                mark = "${:,.2f}" if kind == "amounts" else "{:,.2f} €"
                text = "\n".join(delimiter.join(map(mark.format, row)) for row in np.abs(3000 * X).tolist())
            else:
                number = "{:.1f}" if kind == "short" else "{:.6f}"
                text = "\n".join(delimiter.join(map(number.format, row)) for row in X.tolist())
            file.write((text.replace(".", ",") if kind == "decimal commas" else text) + "\n")


def _in_a_process(reader: str, kind: str, path: Path) -> tuple[float, ...]:
    command = [sys.executable, "-m", "benchmarks", "files", "--one", reader, kind, str(path)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | ONE_THREAD)
    return tuple(map(float, out.stdout.split()))


def _measure(reader: str, kind: str, path: str) -> tuple[float, float, float]:
    """Return the CPU seconds of reading and of writing, and the peak of memory in bytes beyond the start."""
    from kernmend.paper.machine import peak_megabytes, reset_peak

    once = _with_pandas if reader == "pandas" else _with_kernmend
    with tempfile.TemporaryDirectory() as folder:
        _make(Path(folder) / "few.csv", kind, 100)
        once(Path(folder) / "few.csv", kind)
    reset_peak()
    before = peak_megabytes()
    reading, writing = once(Path(path), kind)
    return reading, writing, (peak_megabytes() - before) * 2**20


def _with_kernmend(path: Path, kind: str) -> tuple[float, float]:
    from kernmend.io import read

    start = time.process_time()
    data = read(path)
    middle = time.process_time()
    A = data.X.copy()
    A.flat[::20_000] += 1
    data.write(path.with_name("out.csv"), A, force=True)
    return middle - start, time.process_time() - middle


def _with_pandas(path: Path, kind: str) -> tuple[float, float]:
    import pandas as pd

    layout = {"sep": ","} if kind in ("plain", "short") else {"sep": ";", "decimal": "," if "commas" in kind else "."}
    start = time.process_time()
    frame = pd.read_csv(path, **layout)
    if kind in ("amounts", "euros"):  # as its users do it
        frame = frame.apply(lambda column: column.str.replace(r"[$, €]", "", regex=True).astype(float))
    middle = time.process_time()
    frame.to_csv(path.with_name("out.csv"), index=False, **layout)
    return middle - start, time.process_time() - middle


def _damaged() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "io"))
    import damage  # type: ignore[import-not-found]

    print("| kind | files | written again | refused in one line |")
    print("|---|---|---|---|", flush=True)
    total: Counter[str] = Counter()
    for kind, count in damage.BAD_FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            outcomes = damage.try_files(Path(folder), kind, count, again=True)
        refused = sum(bool(words) and "\n" not in words for words in outcomes)
        written = sum(not words for words in outcomes)
        total.update(files=len(outcomes), written=written, refused=refused)
        print(f"| {kind} | {len(outcomes)} | {written} | {refused} |", flush=True)
    print(f"| all | {total['files']} | {total['written']} | {total['refused']} |")
