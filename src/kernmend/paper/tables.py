"""Tables of the experiments, from the store alone, as Markdown and HTML."""

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kernmend._methods import METHODS
from kernmend.paper.machine import code_digest
from kernmend.paper.spec import Case, Experiment, Method, tasks, tuning_tasks
from kernmend.paper.store import Record

# Names of the four readings of PSNR and SNR: in the metrics, and in tables.
READINGS = {"corrupted": "corrupted", "clean": "clean", "all": "all", "mean_per_image": "mean per image"}
INCONSISTENT = (
    "On one data set PSNR minus SNR depends on the clean data alone, so every row of a column should show the same "
    "difference. The printed rows do not (MNIST, Gaussian: 8.08, 8.03, 8.12, 9.78, 9.76), so they cannot share data "
    "and metric: compare rows of this table with each other, and the printed column with care."
)
READING_NOTE = (
    "PSNR / SNR in dB, mean ± standard deviation over the seeds. Corrupted: over the corrupted images only, the "
    "primary figure. Clean: over the others, infinite if untouched. All: the whole matrix. Mean per image: the mean of "
    "each image's own, none counting for more than rounding to 8 bits (58.9 dB); 90 % of the images were never touched."
)


@dataclass(frozen=True)
class Table:
    """The cells of a table with a title, a header and notes below it."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


Rows = dict[str, list[Record]]
Figures = Sequence[tuple[str, str, str]]
"""File of each figure, what it shows, and the title of the table that it stands below."""


def select(experiment: Experiment, case: Case, records: dict[str, Record], seeds: int | None = None) -> Rows:
    """Return the finished records of a case by method, in the order of the table."""
    out: Rows = {method.name: [] for method in case.methods}
    for task in tasks(Experiment(experiment.name, "", "", (case,)), seeds):
        if task.key in records:
            out[task.method.name].append(records[task.key])
    return out


def tables(experiment: Experiment, records: dict[str, Record], seeds: int | None = None) -> list[Table]:
    """Return the tables of an experiment; what was not run is said to be so."""
    chosen = [(case, select(experiment, case, records, seeds)) for case in experiment.cases]
    special = {"convergence": _convergence, "complexity": _complexity, "circle": _circle, "time": _time}
    if experiment.name in special:
        return special[experiment.name](chosen)
    several = len(chosen) > 1
    out = [_images(case, rows, explain=not several) for case, rows in chosen]
    return [*(_overview(chosen, reading) for reading in READINGS), *out] if several else out


def lead(experiment: Experiment, records: dict[str, Record], seeds: int | None = None) -> str:
    """Return what a page begins with: the claim, and of when and of which code its results are."""
    wanted = {task.key for task in (*tasks(experiment, seeds), *tuning_tasks(experiment))}
    found = [record for key, record in records.items() if key in wanted and record["estimator"] in METHODS.values()]
    claim = f"The paper's claim: {experiment.claim}."
    if not found:
        return claim
    days = sorted({record["finished"][:10] for record in found})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    old = sum(map(_is_old, found))
    code = f"code {code_digest()}" if not old else f"{old} of them of another version of the code"
    minutes = sum(_cpu(record) for record in found if not math.isnan(_cpu(record))) / 60.0
    return f"{claim} By `kernmend paper`, {when}: {len(found)} fits, {code}, {minutes:.1f} minutes of CPU time."


# --- images ---------------------------------------------------------------------------------------------------------


def _images(case: Case, rows: Rows, *, explain: bool) -> Table:
    """Return the table of one case with images: PSNR and SNR, flags and cost of each method."""
    header = ("method", *READINGS.values(), "AUC", "F1", "CPU seconds", "peak MB", "parameters", "paper")
    body = []
    for method in case.methods:
        found = rows[method.name]
        pairs = [_pair(found, reading) for reading in READINGS]
        flags = [mean([_metric(r, name) for r in found], 2) for name in ("auc", "f1")]
        cost = [_cpu_seconds(found), mean([float(r.get("peak_mb") or math.nan) for r in found], 0)]
        body.append((_name(method, found), *pairs, *flags, *cost, method.rule, method.paper))
    notes = _explained([case]) if explain else []
    return Table(case.label, header, tuple(body), (*notes, _size(rows), *_footnotes(rows)))


def _explained(cases: Sequence[Case]) -> list[str]:
    """Return how the figures of images are to be read."""
    printed = any(method.paper for case in cases for method in case.methods)
    return [READING_NOTE, INCONSISTENT] if printed else [READING_NOTE]


def _overview(chosen: Sequence[tuple[Case, Rows]], reading: str) -> Table:
    """Return the SNR of every case in one reading; a star marks the best that does not know the truth."""
    longest_first = sorted((case.methods for case, _ in chosen), key=len, reverse=True)
    names = list(dict.fromkeys(method.name for methods in longest_first for method in methods))
    columns = []
    for _, rows in chosen:
        values = {name: [_metric(r, f"snr_{reading}") for r in found] for name, found in rows.items()}
        centre = {
            name: _average(found)
            for name, found in values.items()
            if name != "oracle" and "clean" not in name and found
        }
        best = max(centre.items(), key=lambda item: item[1])[0] if centre else ""
        columns.append({name: mean(found, 2) + (" *" if name == best else "") for name, found in values.items()})
    body = tuple((name, *(column.get(name, "") for column in columns)) for name in names)
    what = READINGS[reading] if reading == "mean_per_image" else f"{READINGS[reading]} images"
    notes = [f"SNR in dB, {what}, mean ± standard deviation; * is the best that does not know the truth."]
    if reading == "mean_per_image":  # the last of them
        notes += ["In the tables below: " + READING_NOTE, *_explained([case for case, _ in chosen])[1:]]
    return Table(f"All columns, {what}", ("method", *(case.label for case, _ in chosen)), body, tuple(notes))


def _circle(chosen: Sequence[tuple[Case, Rows]]) -> list[Table]:
    """Return the table of the circle."""
    ((case, rows),) = chosen
    header = (
        "method",
        "outliers, mean distance from the circle",
        "good points moved by",
        "F1",
        "CPU seconds",
        "parameters",
    )
    digits = {"distance": 4, "moved": 4, "f1": 2}
    body = tuple(
        (method.name, *(mean([_metric(r, name) for r in rows[method.name]], count) for name, count in digits.items()),
         _cpu_seconds(rows[method.name]), method.rule)
        for method in case.methods
    )  # fmt: skip
    return [Table("A circle of radius 1, 10 % outliers", header, body, (_size(rows),))]


def _time(chosen: Sequence[tuple[Case, Rows]]) -> list[Table]:
    """Return the table of the seconds of one fit."""
    ((case, rows),) = chosen
    slow = _average([_cpu(r) for found in rows.values() for r in found if "row by row" in r["method"]])
    header = (
        "method",
        "seconds",
        "CPU seconds",
        "row by row takes times as much",
        "iterations",
        "SNR, corrupted",
        "parameters",
        "paper",
    )
    body = []
    for method in case.methods:
        found = rows[method.name]
        seconds = _average([_cpu(r) for r in found])
        body.append((_name(method, found), _seconds(found),
                     mean([_cpu(r) for r in found], 2), number(slow / seconds if seconds else math.nan, 1),
                     mean([float(r.get("iterations") or math.nan) for r in found], 0),
                     mean([_metric(r, "snr_corrupted") for r in found], 2), method.rule, method.paper))  # fmt: skip
    fair = "One fit after the other, same matrices, same machine; ratios are of CPU time: other work disturbs it less."
    notes = (fair, _size(rows), *_footnotes(rows))
    return [Table(case.label, header, tuple(body), notes)]


# --- solvers --------------------------------------------------------------------------------------------------------


def rises(objective: Sequence[float]) -> int:
    """Return in how many iterations F rose by more than rounding.

    >>> rises([3.0, 2.0, 2.5, 2.5])
    1
    """
    F = np.asarray(objective)
    return int((np.diff(F) > 1e-9 * np.abs(F[:-1])).sum())


def _convergence(chosen: Sequence[tuple[Case, Rows]]) -> list[Table]:
    """Return one table per kernel: iterations, rises of F, F at the start and the end."""
    out = []
    for case, rows in chosen:
        body = tuple(
            (name, mean([float(r["iterations"]) for r in found], 0), str(sum(rises(r["objective"]) for r in found)),
             mean([r["objective"][0] for r in found], 3), mean([r["objective"][-1] for r in found], 3), _seconds(found))
            for name, found in rows.items()
        )  # fmt: skip
        header = ("solver", "iterations", "iterations in which F rose", "F at the start", "F at the end", "seconds")
        out.append(Table(case.label, header, body, (_size(rows), *_footnotes(rows))))
    return out


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of log(seconds) against log(n).

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    usable = [(n, s) for n, s in zip(sizes, seconds, strict=True) if s > 0 and not math.isnan(s)]
    if len(usable) < 2:
        return math.nan
    n, s = np.log(np.array(usable, dtype=float)).T
    return float(np.polyfit(n, s, 1)[0])


def per_iteration(record: Record) -> float:
    """Return the median seconds of an iteration."""
    return float(np.median(np.diff(record["clock"]))) if len(record["clock"]) > 1 else math.nan


def costs(chosen: Sequence[tuple[Case, Rows]]) -> dict[str, list[float]]:
    """Return the mean seconds of an iteration for each solver, one figure per size."""
    out: dict[str, list[float]] = {}
    for _, rows in chosen:
        for name, found in rows.items():
            out.setdefault(name, []).append(_average([per_iteration(r) for r in found]))
    return out


def _complexity(chosen: Sequence[tuple[Case, Rows]]) -> list[Table]:
    """Return the table of the seconds of an iteration against the number of rows."""
    sizes = [case.data.n for case, _ in chosen]
    body = tuple(
        (name, *(f"{1000 * s:.1f}" if not math.isnan(s) else "not run" for s in seconds),
         number(exponent(sizes, seconds), 2), number(exponent(sizes[-2:], seconds[-2:]), 2))
        for name, seconds in costs(chosen).items()
    )  # fmt: skip
    header = ("solver", *(f"n = {n}, ms" for n in sizes), "exponent", "exponent, last two")
    note = "Median milliseconds of one iteration, mean over the seeds; the exponent is the slope of log time on log n."
    return [Table("Cost of an iteration", header, body, (note,))]


# --- cells ----------------------------------------------------------------------------------------------------------


def number(value: float, digits: int) -> str:
    """Return a figure for a cell; nothing for nan."""
    return "" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.{digits}f}"


def mean(values: Sequence[float], digits: int) -> str:
    """Return the mean and, for several values, the standard deviation.

    >>> mean([1.0, 3.0], 1), mean([], 1), mean([math.inf], 1)
    ('2.0 ± 1.4', 'not run', '∞')
    """
    if not values:
        return "not run"
    usable = [value for value in values if not math.isnan(value)]
    if not usable or any(map(math.isinf, usable)):
        return "∞" if usable else ""
    spread = f" ± {np.std(usable, ddof=1):.{digits}f}" if len(usable) > 1 else ""
    return number(float(np.mean(usable)), digits) + spread


def _average(values: Sequence[float]) -> float:
    """Return the mean of the values that are not nan; nan if there is none."""
    usable = [value for value in values if not math.isnan(value)]
    return float(np.mean(usable)) if usable else math.nan


def _metric(record: Record, name: str) -> float:
    """Return a metric of a record; nan where it has none."""
    value = record["metrics"].get(name)
    return math.nan if value is None else float(value)


def _pair(found: list[Record], reading: str) -> str:
    """Return PSNR and SNR of a reading as a cell."""
    psnr, snr = (mean([_metric(r, f"{kind}_{reading}") for r in found], 2) for kind in ("psnr", "snr"))
    return psnr if psnr == snr else f"{psnr.split(' ')[0]} / {snr}"


def _seconds(found: list[Record]) -> str:
    """Return the seconds of some records as a cell."""
    return mean([float(r["seconds"]) for r in found], 2)


def _cpu(record: Record) -> float:
    """Return the CPU seconds of a record; nan where they are not known."""
    return float(record.get("cpu_seconds") or math.nan)


def _cpu_seconds(found: list[Record]) -> str:
    """Return the CPU seconds of some records as a cell; nothing for what is no fit."""
    return mean([_cpu(r) for r in found], 2)


def _is_old(record: Record) -> bool:
    """Return whether a fit is of another version of the code than this."""
    return bool(record["versions"].get("code") != code_digest(record["estimator"]))


def _name(method: Method, found: list[Record]) -> str:
    """Return the name of a method, marked if a run used up its budget."""
    return method.name + (" †" if any(r["budget_hit"] for r in found) else "")


def _size(rows: Rows) -> str:
    """Return a sentence on the size of the data, the corruption and the seeds."""
    found = [r for records in rows.values() for r in records]
    if not found:
        return "Nothing of this has been run."
    counts = {len(records) for records in rows.values()}
    seeds = f"{max(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    noun = "seed" if seeds == "1" else "seeds"
    fits = [record for record in found if record["estimator"] in METHODS.values()]
    old = sum(map(_is_old, fits))
    stale = f" {old} of {len(fits)} results are of another version of the code: run into a new folder." if old else ""
    return f"{found[0]['shape'][0]} × {found[0]['shape'][1]}, {found[0]['corruption']}, {seeds} {noun}.{stale}"


def _footnotes(rows: Rows) -> list[str]:
    """Return what the reader must know: budgets that were hit, and what the grids chose."""
    out = []
    for name, found in rows.items():
        hit = [r for r in found if r["budget_hit"]]
        if hit:
            share = f"{len(hit)} of {len(found)} runs"
            out.append(f"† {name}: stopped by its budget of {hit[0]['budget']:g} s of CPU time in {share}.")
        if found and "grid" in found[0]["rule"]:
            chosen = ", ".join(f"{key} {value}" for key, value in found[0]["params"].items() if key != "max_iter")
            out.append(f"{name}: {chosen}.")
    return out


# --- formats --------------------------------------------------------------------------------------------------------


def markdown(heading: str, begin: str, found: Sequence[Table], figures: Figures = ()) -> str:
    """Return a page of tables, each with its figures, as Markdown; figures of no table are at the end."""
    lines = [f"# {heading}", "", begin, ""]
    for table in found:
        lines += [f"## {table.title}", "", _row(table.header), "|" + "---|" * len(table.header)]
        lines += [*map(_row, table.rows), "", *(f"{note}\n" for note in table.notes)]
        lines += [f"![{words}]({name})\n" for name, words in _of(table.title, found, figures)]
    return "\n".join([*lines, *(f"![{words}]({name})\n" for name, words in _of("", found, figures))])


def _of(title: str, found: Sequence[Table], figures: Figures) -> list[tuple[str, str]]:
    """Return file and words of the figures below the table of a title; without a title, of those below none."""
    titles = {table.title for table in found}
    return [(name, words) for name, words, below in figures if (below if below in titles else "") == title]


def _row(cells: Sequence[str]) -> str:
    """Return cells as a row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:#30343b}"
    "table{border-collapse:collapse;display:block;overflow-x:auto}"
    "td,th{padding:.3rem .7rem;border-bottom:1px solid #ddd;"
    "text-align:left;white-space:nowrap}p{max-width:50rem;color:#555b66}img{max-width:100%}"
)


def page(heading: str, begin: str, found: Sequence[Table], figures: Figures = ()) -> str:
    """Return a page of tables, each with its figures, as HTML; figures of no table are at the end."""
    e: Callable[[str], str] = html.escape
    parts = [f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{e(heading)}</title><style>{STYLE}</style>",
             f"<h1>{e(heading)}</h1><p>{e(begin)}</p>"]  # fmt: skip
    for table in found:
        head = "".join(f"<th>{e(cell)}</th>" for cell in table.header)
        body = "".join("<tr>" + "".join(f"<td>{e(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
        parts.append(f"<h2>{e(table.title)}</h2><table><tr>{head}</tr>{body}</table>")
        parts += [f"<p>{e(note)}</p>" for note in table.notes]
        parts += [f"<img src='{e(name)}' alt='{e(words)}'>" for name, words in _of(table.title, found, figures)]
    parts += [f"<img src='{e(name)}' alt='{e(words)}'>" for name, words in _of("", found, figures)]
    return "\n".join(parts) + "\n"
