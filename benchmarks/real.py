"""Flags, entries and mending on real data with a known truth: tables, labelled sets, spectra, pictures, curves.

Each case and method is one line of the store as soon as it is there; what is there already is not run again, so a run
can be stopped and started anew. The label tells versions of our code apart ("before", "now"). The page is made from
stores alone:

    python -m benchmarks real --out real.jsonl --label now --methods kernmend --jobs 2
    python -m benchmarks real --from before.jsonl real.jsonl peers.jsonl --page docs/real.md
"""

import argparse
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from threadpoolctl import threadpool_limits

import kernmend
from benchmarks.real_cases import Case, cases
from benchmarks.real_page import page
from benchmarks.real_work import METHODS, applies, measure
from kernmend.io import replacing
from kernmend.paper.machine import machine, versions
from kernmend.paper.store import Record, Store

OURS = "kernmend"
GROUPS = ("tables", "pictures", "labelled", "spectra", "curves", "clean", "new rows", "sensors")  # in this order
PACKAGES = ("pyod", "robpy")  # of the peers


@dataclass(frozen=True)
class Task:
    """A method on a case; only our code has several labels."""

    method: str
    label: str
    case: str

    @property
    def key(self) -> str:
        """Name in the store; the page takes it apart again."""
        return f"{self.method} | {self.label if self.method == OURS else 'peer'} | {self.case}"


def tasks(groups: Sequence[str], methods: Sequence[str], label: str) -> list[Task]:
    """Return what there is to do, group by group."""
    every = sorted(all_cases().values(), key=lambda case: GROUPS.index(case.group))
    return [
        Task(method, label, name_of(case))
        for case in every
        for method in methods
        if case.group in groups and applies(method, case.group, case.kind)
    ]


def name_of(case: Case) -> str:
    return f"{case.group} | {case.name} | {case.kind} | {case.seed}"


@cache
def all_cases() -> dict[str, Case]:
    return {name_of(case): case for case in cases()}


# --- the run --------------------------------------------------------------------------------------------------------


def measure_all(todo: Sequence[Task], store: Store, jobs: int) -> None:
    """Measure what the store does not have yet."""
    known = store.read()
    rest = [task for task in todo if task.key not in known]
    start = time.perf_counter()
    for number, (key, found) in enumerate(results(rest, jobs), 1):
        store.append({"key": key} | found)
        words = found.get("error") or f"F1 {found.get('f1', found.get('f1_told', '-'))}, {found.get('cpu')} s"
        past = time.perf_counter() - start
        print(f"{number}/{len(rest)} {past:.0f} s: {key}: {words}", file=sys.stderr, flush=True)


def results(todo: Sequence[Task], jobs: int) -> Iterator[tuple[str, Record]]:
    """Yield keys and figures as they come, each measured with one thread."""
    if jobs == 1:
        with threadpool_limits(1):
            yield from map(run_one, todo)
        return
    with ProcessPoolExecutor(jobs, initializer=threadpool_limits, initargs=(1,)) as pool:
        for future in as_completed([pool.submit(run_one, task) for task in todo]):
            yield future.result()


def run_one(task: Task) -> tuple[str, Record]:
    return task.key, measure(task.method, all_cases()[task.case].sample())


def facts(command: str, label: str) -> Record:
    """Return what made the results, where and with what; a line of its own in the store."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    place = {"machine": machine(), "versions": versions() | {name: _version(name) for name in PACKAGES}}
    return {"key": f"run | {now}", "started": now, "command": command, "label": label} | place


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


# --- the command line -----------------------------------------------------------------------------------------------


def run() -> None:
    main([])


def main(arguments: Sequence[str]) -> None:
    options = _parser().parse_args(arguments)
    command = shlex.join(["python", "-m", "benchmarks", "real", *arguments])
    stores = [Store(path.resolve().parent, path.name) for path in options.source or [options.out]]
    if not options.source:
        todo = tasks(options.groups, options.methods, options.label)
        if any(task.key not in stores[0].read() for task in todo):
            stores[0].append(facts(command, options.label))
            print(f"{len(todo)} measurements; kernmend is {kernmend.__file__}", file=sys.stderr, flush=True)
        measure_all(todo, stores[0], options.jobs)
        if options.page is None:
            return
    records = [record for store in stores for record in store.read().values()]
    if not records:
        sys.exit(f"there is nothing in {', '.join(str(store.path) for store in stores)}")
    text = page(records, command)
    if options.page is None:
        print(text, end="")
        return
    with replacing(options.page) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _several(known: Sequence[str]) -> object:
    def names(text: str) -> list[str]:
        out = [name.strip() for name in text.split(",")]
        unknown = [name for name in out if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}; there are {', '.join(known)}")
        return out

    return names


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks real", description=__doc__, formatter_class=formatter)
    parser.add_argument("--out", type=Path, default=Path("real.jsonl"), help="the store; ./real.jsonl")
    parser.add_argument("--from", type=Path, nargs="+", dest="source", help="only make the page, from these stores")
    parser.add_argument("--page", type=Path, help="where to write the page; with --from, standard output if not given")
    parser.add_argument("--methods", type=_several(list(METHODS)), default=list(METHODS), help="with commas; all")
    parser.add_argument("--groups", type=_several(GROUPS), default=GROUPS, help="with commas; all")
    parser.add_argument("--label", default="now", help="of our code: a column of the page; now")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each; 1")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
