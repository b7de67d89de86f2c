"""Time, memory and quality against the number of rows and threads, on many MNIST digits, a tenth of them noisy.

Each measurement is a process of its own, and one line of the store as soon as it is there; what is there already is not
run again, so a run can be stopped and started anew. What cannot be measured is left out with the reason. The page and
the picture are made from the store alone:

    python -m benchmarks growth --out growth.jsonl
    python -m benchmarks growth --from growth.jsonl --page docs/benchmarks.md --picture docs/images/growth.png
"""

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.growth_page import duration, page
from benchmarks.growth_picture import figure
from benchmarks.growth_work import DEFAULT, METHODS, ON_SUBSET, make_files, measure
from kernmend.io import replacing
from kernmend.paper.store import Record, Store

SIZES = (400, 1000, 3600, 10_000, 60_000)
THREADS = (1, 2)
THREADS_AT = 3600  # rows
SUBSET = 3000  # rows of the largest matrix that the method without landmarks is given too
BUDGET = 300.0  # CPU seconds that a method may be expected to take
PATIENCE = 4.0  # budgets after which one that was expected to take less is stopped
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Task:
    """One measurement: a method on the matrix of n rows."""

    method: str
    n: int
    threads: int
    seed: int
    subset: int

    @property
    def key(self) -> str:
        """Name in the store."""
        return ", ".join(f"{name} {value}" for name, value in asdict(self).items())


def tasks(sizes: Sequence[int], threads_at: int, seed: int, subset: int) -> list[Task]:
    """Return all measurements, small ones first: what larger ones would take is told from them."""
    out = [Task(name, n, 1, seed, subset) for n in sorted(sizes) for name in METHODS]
    out += [Task(name, max(sizes), 1, seed, subset) for name in ON_SUBSET]
    out += [Task(DEFAULT, threads_at, threads, seed, subset) for threads in THREADS]
    return list(dict.fromkeys(out))


# --- what is left out, and why --------------------------------------------------------------------------------------


def expected_seconds(task: Task, known: Sequence[Record]) -> float | None:
    """Return the CPU seconds by the line through the last two smaller sizes, in logarithms; None if nothing is known.

    With one size, the power of n is the one that the method is known for; a method may have a largest one, too.
    """
    power = METHODS[task.method].power
    seconds = {
        record["n"]: max(float(record["cpu_seconds"]), 1e-3)
        for record in known
        if record["method"] == task.method and record["threads"] == 1 and "cpu_seconds" in record
    }
    smaller = sorted(n for n in seconds if n < task.n)
    if power is None or not smaller:
        return None
    last = smaller[-1]
    if len(smaller) > 1:
        before = smaller[-2]
        measured = math.log(seconds[last] / seconds[before]) / math.log(last / before)
        power = min(max(measured, 0.0), METHODS[task.method].most)
    return float(seconds[last] * (task.n / last) ** power)


def left_out(task: Task, known: Sequence[Record], budget: float, memory: float) -> str | None:
    """Return why a measurement is not made; None if it is."""
    if task.method in ON_SUBSET:
        return None
    seconds = expected_seconds(task, known)
    expected = f"would take about {duration(seconds)}" if seconds is not None and seconds > budget else None
    gigabytes = METHODS[task.method].square_bytes * task.n**2 / 2**30
    if gigabytes > memory:
        needs = f"n×n: would need about {gigabytes:.0f} GB"
        return f"{needs}, and {expected.removeprefix('would ')}" if expected else needs
    return expected


def gigabytes_here() -> float:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


# --- the run --------------------------------------------------------------------------------------------------------


def measure_all(todo: Sequence[Task], store: Store, budget: float, command: str) -> None:
    """Measure what the store does not have yet, one process after the other."""
    memory = gigabytes_here()
    with tempfile.TemporaryDirectory(prefix="kernmend-growth-") as name:
        for number, task in enumerate(todo, 1):
            known = store.read()
            old = known.get(task.key, {})
            if is_finished(old, PATIENCE * budget):
                continue
            facts = {"key": task.key, **asdict(task), "budget": budget, "command": command}
            why = left_out(task, list(known.values()), budget, memory)
            found = {"left_out": why} if why else run_one(task, Path(name), PATIENCE * budget)
            if why is None or old.get("left_out") != why:
                store.append(facts | found | {"finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
            print(f"{number}/{len(todo)} {task.key}: {_words(found)}", file=sys.stderr, flush=True)


def is_finished(record: Record, limit: float) -> bool:
    """Return whether there is nothing to gain from another run: it was measured, or stopped after that long."""
    return "metrics" in record or record.get("stopped_after", 0.0) >= limit


def run_one(task: Task, folder: Path, limit: float) -> Record:
    """Measure in a process of its own, so that threads and peak memory are its own; say so if it does not end well."""
    if not (folder / f"X-{task.n}.npy").exists():
        make_files(folder, task.n, task.seed)
    arguments = [task.method, task.n, folder, task.seed, task.subset]
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(task.threads))
    load = os.getloadavg()[0]
    unlimited = (METHODS | ON_SUBSET)[task.method].power is None
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.growth", "ONE", *map(str, arguments)],
            env=environment, stdout=subprocess.PIPE, text=True, check=False, timeout=None if unlimited else limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"left_out": f"stopped after {duration(limit)}", "stopped_after": limit, "cpu_seconds": limit}
    if done.returncode:
        return {
            "left_out": f"ended with code {done.returncode}" + (", out of memory?" if done.returncode == -9 else "")
        }
    out: Record = json.loads(done.stdout.splitlines()[-1])
    return out | {"load": load}


def _words(found: Record) -> str:
    if "left_out" in found:
        return f"left out: {found['left_out']}"
    db = found["metrics"]["snr_corrupted"]
    return f"{found['cpu_seconds']:.1f} CPU s, {found['peak_mb'] / 1024:.2f} GB, {db:.2f} dB"


# --- the command line -----------------------------------------------------------------------------------------------


def run() -> None:
    main([])


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["ONE"]:
        method, n, folder, seed, subset = arguments[1:]
        print(json.dumps(measure(method, int(n), Path(folder), int(seed), int(subset))))
        return
    options = _parser().parse_args(arguments)
    path = (options.source or options.out).resolve()
    store = Store(path.parent, path.name)
    command = shlex.join(["python", "-m", "benchmarks", "growth", *arguments])
    if options.source is None:
        todo = tasks(options.sizes, options.threads_at, options.seed, options.subset)
        measure_all(todo, store, options.budget, command)
    records = list(store.read().values())
    if not records:
        sys.exit(f"there is nothing in {path}")
    if len({(record["seed"], record["subset"]) for record in records}) > 1:
        sys.exit(f"{path} has results of several --seed or --subset: a page is about one of each")
    write(records, command, options.page, options.picture)


def write(records: Sequence[Record], command: str, page_path: Path | None, picture_path: Path | None) -> None:
    """Write the picture and the page, the latter to standard output if it has no name."""
    link = ""
    if picture_path is not None:
        with replacing(picture_path) as temporary:
            figure(records).savefig(temporary, dpi=150, format="png")
        link = os.path.relpath(picture_path, (page_path or Path("page")).parent)
    text = page(records, command, link)
    if page_path is None:
        print(text, end="")
        return
    with replacing(page_path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks growth", description=__doc__, formatter_class=formatter)
    parser.add_argument("--out", type=Path, default=Path("growth.jsonl"), help="the store; ./growth.jsonl")
    parser.add_argument("--from", type=Path, dest="source", help="only make page and picture, from this store")
    parser.add_argument("--page", type=Path, help="where to write the page; standard output if not given")
    parser.add_argument("--picture", type=Path, help="where to write the picture, png")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of rows")
    parser.add_argument("--threads-at", type=int, default=THREADS_AT, help="rows for 1 and 2 threads")
    parser.add_argument("--subset", type=int, default=SUBSET, help="rows for the method without landmarks")
    parser.add_argument(
        "--budget", type=float, default=BUDGET, help="CPU seconds that a method may be expected to take"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
