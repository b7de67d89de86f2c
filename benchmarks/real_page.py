"""The page of `benchmarks real`: one table per group, once for each half of the sets, from the stores alone."""

import math
import re
import statistics
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.clean import CASES
from benchmarks.growth_page import NOTHING, percent, table
from benchmarks.real_cases import CHOOSE, REPEATS, sharp_spikes
from benchmarks.real_errors import SEVEN_KINDS, SHARE, TABLE_KINDS
from benchmarks.real_work import FAR, METHODS, TOLD
from kernmend.paper.store import Record

OURS = "kernmend"
SPLITS = {"sets that are only reported": True, "sets that choices were made on": False}
CARTILAGE = " ".join((sharp_spikes.__doc__ or "").partition("\n")[2].split())  # all but its first line
LIMIT, REACH = sharp_spikes.__defaults__ or (math.nan, math.nan)
INTRODUCTION = f"""\
Every case is a data set with one kind of error, and every method sees the same cases: the seed of a case is made of its
set, its kind of error and its repetition, never of the method. There are {REPEATS} repetitions (seeds 0 to
{REPEATS - 1}) of tables and of curves of up to 300 random points, 3 of clean generators and made spectra, and one of
all others. In tables {100 * SHARE:.0f} % of the rows are wrong unless said otherwise.

The sets were split once, by name, in `benchmarks/real_cases.py`: choices may be made on those named in `CHOOSE`, and
all others are only reported. Each table is shown for both halves.

The truth of cartilage is a rule by hand. {CARTILAGE} Here the limit is {LIMIT:g} and the reach {REACH}.

Our method is `KernelRecovery()` and is told nothing; its columns are versions of the code. {", ".join(TOLD)} are PyOD's
detectors with their own defaults. They are told how many rows are wrong, and as many of their highest scores are their
flags: their F1 is not to be compared with that of methods that have to decide. DDC is robpy's "detecting deviating
cells", on tables only, where a row is flagged if one of its entries is. The univariate rule is to flag what is more
than {FAR:g} robust standard deviations off the median of its column, and to replace it by that median. A method that
fails on a case has found nothing there: its F1 is 0, its AUC 0.5, and neither good rows nor entries are counted.

Figures are means over cases, unless they are said to be medians. "Good rows flagged" is a share of the good rows. A
case without wrong rows has no F1 and no AUC, and one in which no entry is flagged has no precision of entries.
"""


SECONDS = """\
Sums over the cases that every version has. A version that flags nothing has nothing to mend, so the last columns are of
those cases alone in which every version flags rows: the same work. Versions ran on different days, the last one on
another processor, beside other work: a ratio says little where it is near 1.

"""
Case = tuple[str, str, str, str]


@dataclass(frozen=True)
class Result:
    """A line of the store taken apart; the column is the label for our code, the method for all others."""

    column: str
    group: str
    name: str
    kind: str
    seed: str
    found: Record

    @classmethod
    def of(cls, record: Record) -> "Result":
        method, label, *case = record["key"].split(" | ")
        return cls(label if method == OURS else method, *case, found=record)

    @property
    def case(self) -> Case:
        return self.group, self.name, self.kind, self.seed

    @property
    def reported(self) -> bool:
        return self.name.partition(":")[0] not in CHOOSE


Results = Sequence[Result]
Cell = Callable[[Results], str]


@dataclass(frozen=True)
class Line:
    """A row of a table: which results it is about, and how they are told."""

    words: str
    belongs: Callable[[Result], bool]
    cell: Cell


# --- cells ----------------------------------------------------------------------------------------------------------


def values(results: Results, *names: str) -> list[float]:
    """Return the figures that are there, by the first name that a result has."""
    out = (next((r.found[name] for name in names if r.found.get(name) is not None), None) for r in results)
    return [value for value in out if value is not None]


def mean(numbers: Sequence[float]) -> float | None:
    return statistics.fmean(numbers) if numbers else None


def median(numbers: Sequence[float]) -> float | None:
    return statistics.median(numbers) if numbers else None


def figure(value: float | None) -> str:
    """Return two digits, without the zero before the point.

    >>> figure(0.123), figure(1.0), figure(None)
    ('.12', '1.00', '–')
    """
    return NOTHING if value is None or not math.isfinite(value) else re.sub(r"^0\.", ".", f"{value:.2f}")


def share_flagged(results: Results) -> str:
    return percent(mean(values(results, "good_flagged")))


def flags_cell(results: Results) -> str:
    f1 = values(results, "f1", "f1_told")
    return " / ".join([*map(figure, (mean(f1), median(f1), mean(values(results, "auc")))), share_flagged(results)])


def labels_cell(results: Results) -> str:
    return " / ".join(figure(mean(values(results, name))) for name in ("auc", "ap", "f1", "f1_told"))


def all_found_cell(results: Results) -> str:
    recall = values(results, "recall", "f1_told")
    return f"{sum(value == 1.0 for value in recall)} of {len(recall)} / {share_flagged(results)}"


def new_rows_cell(results: Results) -> str:
    return f"{figure(mean(values(results, 'recall', 'f1_told')))} / {share_flagged(results)}"


def entries_cell(results: Results) -> str:
    precision, recall = (figure(mean(values(results, f"entry_{name}"))) for name in ("precision", "recall"))
    damage = mean(values(results, "damage"))
    return f"{precision} / {recall} / {figure(median(values(results, 'left')))} / " + (
        NOTHING if damage is None else f"{damage:.3f}"
    )


def ranking_cells(results: Results) -> list[str]:
    """Return the mean F1 of own flags, that with the share told, and the AUC, of cases with wrong rows."""
    return [figure(mean(values(results, name))) for name in ("f1", "f1_told", "auc")]


def worst_cell(results: Results) -> str:
    names = {r.name for r in results}
    shares = [mean(values([r for r in results if r.name == name], "good_flagged")) for name in names]
    return percent(max((share for share in shares if share is not None), default=None))


# --- the lines of each group ----------------------------------------------------------------------------------------


def of_kinds(words: str, kinds: Iterable[str], cell: Cell = flags_cell, part: str = "") -> Line:
    """Return a line about some kinds of errors, of sets whose name has that part."""
    known = frozenset(kinds)
    return Line(words, lambda r: r.kind in known and part in r.name, cell)


def of_pattern(words: str, pattern: str, cell: Cell = flags_cell) -> Line:
    """Return a line about the kinds that match a regular expression as a whole."""
    return Line(words, lambda r: re.fullmatch(pattern, r.kind) is not None, cell)


def of_name(name: str, words: str, cell: Cell) -> Line:
    return Line(words, lambda r: r.name == name, cell)


def table_lines(_: Results) -> list[Line]:
    equal = [kind for kind in TABLE_KINDS if kind.startswith("equal")]
    return [
        *(of_kinds(kind, [kind]) for kind in SEVEN_KINDS),
        of_kinds("**the seven kinds**", SEVEN_KINDS),
        of_kinds("-999 in 10 % of one column", ["column -999"]),
        of_kinds("2, 4, 9 equal wrong rows: cases with all found / good rows flagged", equal, all_found_cell),
        of_kinds("clean: good rows flagged", ["clean"], share_flagged),
    ]


def picture_lines(_: Results) -> list[Line]:
    out = []
    for scale in ("[0, 1]", "unit length"):
        wrong = ("noise", "salt and pepper", "occlusion", "stripe", "intruders")
        out += [of_kinds(f"{kind}, {scale}", [kind], part=f": {scale}") for kind in wrong]
        out += [of_kinds(f"clean, {scale}: good rows flagged", ["clean"], share_flagged, part=f": {scale}")]
    return out


def curve_lines(_: Results) -> list[Line]:
    return [
        of_pattern("10 %, n = 300 and 1,500", "10 % of (300|1500)"),
        of_pattern("1 and 3 %, n = 300 and 1,500", "[13] % of (300|1500)"),
        of_pattern("30 %, n = 300 and 1,500", "30 % of (300|1500)"),
        of_pattern("3, 10 and 30 %, n = 60", ".* % of 60"),
        of_pattern("10 %, regular grid", "10 % of grid .*"),
        of_pattern("clean, random points: good rows flagged", r"clean \d+", share_flagged),
        of_pattern("clean, regular grid: good rows flagged", "clean grid .*", share_flagged),
    ]


def set_lines(cell: Cell) -> Callable[[Results], list[Line]]:
    """Return what makes a line for each set, and one for all if there are several."""

    def lines(results: Results) -> list[Line]:
        names = sorted({r.name for r in results})
        every = [Line("**all**", lambda r: True, cell)] if len(names) > 1 else []
        return [of_name(name, name, cell) for name in names] + every

    return lines


def clean_lines(results: Results) -> list[Line]:
    names = sorted({r.name for r in results}, key=lambda name: int(name.split()[1]))
    words = {name: f"{name.split()[1]}: {CASES[int(name.split()[1])][0]}" for name in names}
    lines = [of_name(name, words[name], share_flagged) for name in names]
    return [*lines, Line("**mean**", lambda r: True, share_flagged), Line("**worst kind**", lambda r: True, worst_cell)]


def new_row_lines(_: Results) -> list[Line]:
    kinds = {"tables, spike 10": ["spike 10"], "tables, shift 4": ["shift 4"], "pictures, noise": ["noise"]}
    kinds |= {"pictures, occlusion": ["occlusion"], "curves": ["outliers"]}
    every = Line("**all**", lambda r: True, new_rows_cell)
    return [*(of_kinds(words, names, new_rows_cell) for words, names in kinds.items()), every]


def entry_lines(_: Results) -> list[Line]:
    kinds = [*SEVEN_KINDS, "column -999"]
    lines = [of_kinds(kind, [kind], entries_cell) for kind in kinds]
    return [*lines, of_kinds("**the seven kinds**", SEVEN_KINDS, entries_cell)]


FAILURES = """\
Scores that are not finite count as a failure, with an F1 of 0. The last column is the mean F1 that the flags of such
cases would have had.

"""
FLAGS = "mean F1 / median F1 / AUC / good rows flagged"
LABELS = "AUC / average precision / F1 of own flags / F1 with the share told"
ENTRIES = (
    "precision / recall of flagged entries / what is left of the error, the median of the medians over wrong entries / "
    "damage, the mean change of good entries; both in robust standard deviations of the column"
)
SECTIONS: list[tuple[str, str, str, Callable[[Results], list[Line]]]] = [
    ("Tables", "tables", FLAGS, table_lines),
    ("Entries of tables", "tables", ENTRIES, entry_lines),
    ("Pictures", "pictures", FLAGS, picture_lines),
    ("Curves and surfaces", "curves", FLAGS, curve_lines),
    ("Labelled sets (ADBench)", "labelled", LABELS, set_lines(labels_cell)),
    ("Sensors (SKAB): fitted to the good run", "sensors", LABELS, set_lines(labels_cell)),
    ("Spectra", "spectra", FLAGS, set_lines(flags_cell)),
    ("Clean generators", "clean", "good rows flagged", clean_lines),
    ("New rows after a fit to clean ones", "new rows", "share of wrong rows found / good rows flagged", new_row_lines),
]


RANKING = """\
Whoever is told how many rows are wrong still has only the order of the scores: as many of the highest as there are
wrong rows are then flagged. Where that F1 is low, no threshold makes ours high: rows of another kind are wanted by the
label, but are not the farthest out, or errors are smaller than what good rows differ by. Where it is high and that of
our own flags is not, the scores of the wrong rows are not far enough from those of the good ones to tell, without the
share, that they are not the upper end of these.

"""


# --- the page -------------------------------------------------------------------------------------------------------


def page(records: Sequence[Record], command: str) -> str:
    """Return the Markdown page."""
    runs = [record for record in records if record["key"].startswith("run | ")]
    results = [Result.of(record) for record in records if not record["key"].startswith("run | ")]
    introduction = [textwrap.fill(text, 120) + "\n" for text in INTRODUCTION.split("\n\n")]
    parts = ["# Real data with a known truth\n", made_by(runs, command), *introduction]
    for title, group, meaning, lines in SECTIONS:
        parts += section(title, [r for r in results if r.group == group], meaning, lines)
    parts += ["## What the order of the scores allows\n", ranking(results)]
    parts += ["## CPU seconds of our method\n", seconds(results), "## Failures\n", failures(results)]
    return "\n".join(parts)


def made_by(runs: Sequence[Record], command: str) -> str:
    """Return what made the page and the results, where, when and with what."""
    lines = [f"- This page: `{command}`"]
    for run in runs:
        machine = "{processor}, {cores} cores, {system}, {threads} thread".format(**run["machine"])
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        lines.append(f"- Results of {run['started'][:10]}: `{run['command']}`; {machine}; {versions}")
    return "\n".join(lines) + "\n"


def section(title: str, results: Results, meaning: str, lines: Callable[[Results], list[Line]]) -> list[str]:
    """Return a group's two tables."""
    out = [f"## {title}\n", f"Each cell: {meaning}.\n"]
    for words, reported in SPLITS.items():
        half = [r for r in results if r.reported == reported]
        out += [f"### {title}: {words}\n", comparison(half, lines(half)) if half else "Nothing was measured.\n"]
    return out


def comparison(results: Results, lines: Sequence[Line]) -> str:
    """Return a table of lines by methods that have a figure; a line's cases are those of the method with most."""
    parts = {
        column: [[r for r in results if r.column == column and line.belongs(r)] for line in lines]
        for column in columns_of(results)
    }
    cells = {
        column: [line.cell(part) if part else NOTHING for line, part in zip(lines, of_lines, strict=True)]
        for column, of_lines in parts.items()
    }
    shown = [column for column, texts in cells.items() if any(map(str.isdigit, "".join(texts)))]
    sizes = [max(map(len, of_columns)) for of_columns in zip(*parts.values(), strict=True)]
    body = [
        [line.words, str(sizes[k]), *(cells[column][k] for column in shown)] for k, line in enumerate(lines) if sizes[k]
    ]
    return table(["", "cases", *(f"{name}, told" if name in TOLD else name for name in shown)], body)


def ranking(results: Results) -> str:
    """Return a table of the last version of our code: F1 of its flags, F1 if it were told the share, for each line."""
    column = [name for name in columns_of(results) if name not in METHODS][-1:]
    body = []
    for title, group, _, lines in SECTIONS:
        if title == "Entries of tables":
            continue
        for words, reported in SPLITS.items():
            half = [r for r in results if r.group == group and r.reported == reported and r.column in column]
            for line in lines(half):
                cells = ranking_cells([r for r in half if line.belongs(r)])
                if cells[0] != NOTHING:
                    body.append([f"{title}: {line.words}", words.removeprefix("sets that "), *cells])
    return RANKING + table(["", "sets that", "F1 of own flags", "F1 with the share told", "AUC"], body)


def columns_of(results: Results) -> list[str]:
    """Return the labels of our code, "before" first, and then the peers in their order."""
    found = dict.fromkeys(r.column for r in results)
    ours = sorted((name for name in found if name not in METHODS), key=lambda name: name != "before")
    return ours + [name for name in METHODS if name in found]


def seconds(results: Results) -> str:
    """Return the CPU seconds of each version of our code, over the cases that all of them have."""
    labels = [name for name in columns_of(results) if name not in METHODS]
    if not labels:
        return "Nothing was measured.\n"
    body = []
    for group in [*dict.fromkeys(r.group for r in results), "all"]:
        part = [r for r in results if group in (r.group, "all")]
        by_label = [{r.case: r.found for r in part if r.column == label} for label in labels]
        every = set.intersection(*map(set, by_label))
        mended = {case for case in every if all(_flags_rows(found[case]) for found in by_label)}
        body.append([group, *_sums(by_label, every), *_sums(by_label, mended)])
    ratio_names = [f"{label} / {labels[0]}" for label in labels[1:]]
    names = ["cases", *labels, *ratio_names]
    return SECONDS + table(["", *names, *(f"where all mend: {name}" for name in names)], body)


def _flags_rows(found: Record) -> bool:
    """Return whether a version has flagged any row of a case: then it has mended, which takes most of the time."""
    return bool(found.get("recall") or found.get("good_flagged"))


def _sums(by_label: Sequence[dict[Case, Record]], cases: Iterable[Case]) -> list[str]:
    """Return the number of cases, the CPU seconds of each version, and the ratios to the first version."""
    cases = list(cases)
    sums = [sum(found[case].get("cpu", 0.0) for case in cases) for found in by_label]
    ratios = [f"{total / sums[0]:.2f}" if sums[0] else NOTHING for total in sums[1:]]
    return [str(len(cases)), *(f"{total:.1f}" for total in sums), *ratios]


def failures(results: Results) -> str:
    """Return how many cases each method failed on, why, and what its flags would be worth where it had some."""
    body = []
    for column in columns_of(results):
        mine = [r for r in results if r.column == column]
        errors = [r.found["error"] for r in mine if "error" in r.found]
        reasons = sorted(set(errors), key=lambda text: (-errors.count(text), text))[:3]
        words = "; ".join(f"{errors.count(text)} × {text.replace('|', '/')}" for text in reasons)
        f1 = [r.found["as_flagged"]["f1"] for r in mine if r.found.get("as_flagged", {}).get("f1") is not None]
        body.append([column, f"{len(errors)} of {len(mine)}", words, f"{figure(mean(f1))} ({len(f1)})" if f1 else ""])
    return FAILURES + table(["", "cases failed", "most frequent reasons", "F1 that was not counted (cases)"], body)
