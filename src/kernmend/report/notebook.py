"""What a notebook shows of mended data: counts, the worst rows before and after, and how to see more."""

from html import escape
from typing import Any

import numpy as np

from kernmend.io import ChangeLog
from kernmend.io._number_format import is_number
from kernmend.io._text import counted

# Number of rows, and of changed cells in each, that are shown.
ROWS, CELLS = 5, 6
MORE = (
    "<code>.report('page.html')</code> shows and reviews all of it, <code>.changes</code> lists every change, "
    "<code>.plot()</code> draws it, <code>.summary()</code> says it in words."
)
STYLE = "text-align:left;vertical-align:top"


def as_line(mended: Any) -> str:
    """Return in one line what was found and done."""
    flagged, changed = int(mended.flags.sum()), mended.changed
    filled = int((changed & np.isnan(mended._source.X)).sum())
    suspects = int(mended.suspects.sum())
    parts = [f"{flagged} of {len(mended.flags)} rows flagged", f"{counted(int(changed.sum()), 'value')} changed"]
    if filled:
        parts[-1] += f", {filled} of them filled in"
    if suspects:
        parts.append(f"{suspects} unusual")
    return "; ".join(parts)


def as_html(mended: Any, log: ChangeLog) -> str:
    """Return the same with the worst rows before and after, as HTML; `log` holds the changes of these rows."""
    scores = {row: float(score) if is_number(score) else -np.inf for row, score in zip(log.row, log.score, strict=True)}
    digits = mended._source.formats is None
    lines = []
    for row in sorted(scores, key=scores.__getitem__, reverse=True):
        places = np.flatnonzero(log.row == row)
        label = log.label[places[0]]
        name = f"row {row} · {label}" if label else f"row {row}"
        cells = "<br>".join(_cell(log, int(k), digits=digits) for k in places[:CELLS])
        more = f"<br>and {len(places) - CELLS} more" if len(places) > CELLS else ""
        lines.append(
            f"<tr><th style='{STYLE}'>{escape(name)}</th><td style='{STYLE}'>{escape(log.score[places[0]])}</td>"
            f"<td style='{STYLE}'>{cells}{more}</td></tr>"
        )
    heads = "".join(f"<th style='{STYLE}'>{name}</th>" for name in ("worst rows", "score", "before → after"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>" if lines else ""
    return f"<div><p><b>{escape(as_line(mended))}.</b></p>{table}<p>{MORE}</p></div>"


def _short(text: str) -> str:
    """Return a number in six digits, as intervals are; other texts as they are.

    >>> _short("17.84168153242804"), _short("85.0"), _short("missing")
    ('17.8417', '85.0', 'missing')
    """
    return f"{float(text):.6g}" if len(text) > 8 and is_number(text) else text


def _cell(log: ChangeLog, k: int, *, digits: bool) -> str:
    """Return one change as HTML; `digits` says that numbers are not texts of a file and may be written shorter."""
    was, now = log.old[k].strip() or "missing", log.new[k] or "blank"
    if digits:
        was, now = _short(was), _short(now)
    between = f" ({log.low[k]} to {log.high[k]})" if log.low[k] and " " not in log.low[k] else ""
    if len(was) > 40:  # many pixels
        was, now = was[:40] + "…", now[:40] + "…"
    return f"{escape(log.column[k])}: <s>{escape(was)}</s> → <b>{escape(now)}</b>{escape(between)}"


def figure(mended: Any) -> Any:
    """Return a matplotlib figure: the scores and the map, and the worst images if rows are images.

    `pyplot.show()` shows it. A notebook shows what is returned, and would show a figure of pyplot a second time.
    """
    import matplotlib
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    from kernmend.report.plotting import plot_gallery, plot_map, plot_scores

    source = mended._source
    facts = mended.estimator.report_data(image_shape=source.image_shape)
    parts = 3 if source.image_shape is not None else 2
    make: Any = Figure if "inline" in matplotlib.get_backend() else pyplot.figure
    out = make(figsize=(4.6 * parts, 3.8), layout="constrained")
    axes: Any = out.subplots(1, parts)
    plot_scores(facts, ax=axes[0])
    plot_map(facts, ax=axes[1])
    if parts == 3:
        plot_gallery(facts, ax=axes[2])
    return out
